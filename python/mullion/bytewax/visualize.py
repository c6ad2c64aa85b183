"""Diagrams of dataflows, as in ``bytewax.visualize``: not supported. Use :func:`mullion.bytewax.explain`."""

from __future__ import annotations

from typing import Any, NoReturn

from mullion.bytewax.dataflow import Dataflow
from mullion.errors import UnsupportedError

__all__ = ["to_json", "to_mermaid", "to_plantuml", "to_rendered"]


def _not_supported(name: str) -> NoReturn:
    raise UnsupportedError(
        f"mullion.bytewax.visualize.{name} is not supported: steps run in other places than Bytewax's. "
        "mullion.bytewax.explain(flow) lists the steps and where they run."
    )


def to_json(flow: Dataflow) -> str:
    """Raises :class:`mullion.errors.UnsupportedError`."""
    _not_supported("to_json")


def to_mermaid(flow: Dataflow) -> str:
    """Raises :class:`mullion.errors.UnsupportedError`."""
    _not_supported("to_mermaid")


def to_plantuml(flow: Dataflow, recursive: bool = False) -> str:
    """Raises :class:`mullion.errors.UnsupportedError`."""
    _not_supported("to_plantuml")


def to_rendered(flow: Dataflow) -> Any:
    """Raises :class:`mullion.errors.UnsupportedError`."""
    _not_supported("to_rendered")
