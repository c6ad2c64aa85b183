"""Logics that a program wrote, as they are kept between micro-batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class KeptLogics(Protocol):
    """Turns logics into values of state, and back."""

    def kept(self, logic: Any) -> tuple[Any, ...]:
        """The value that a logic is kept as."""

    def restored(self, kept: tuple[Any, ...], builder: Callable[[Any], Any]) -> Any:
        """The logic of a value that :meth:`kept` returned."""


class Snapshots:
    """Keeps the snapshot of each logic, and builds the logic from it."""

    def kept(self, logic: Any) -> tuple[Any, ...]:
        """The snapshot of a logic."""
        return (logic.snapshot(),)

    def restored(self, kept: tuple[Any, ...], builder: Callable[[Any], Any]) -> Any:
        """A logic that ``builder`` returns for the snapshot."""
        return builder(kept[0])
