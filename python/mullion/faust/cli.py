"""Options and arguments of a program's commands, under Faust's names."""

from __future__ import annotations

from typing import Any

from mullion.faust._program.commands import Option

__all__ = ["argument", "option"]


def option(*names: str, **given: Any) -> Option:
    """A parameter by name, as ``option("--max-messages", type=int, default=None, help="...")``.

    ``type``, ``default``, ``required``, ``help``, ``is_flag``, ``multiple``, ``count`` and ``envvar`` are click's.

    Raises :class:`InvalidArgumentError` for what is not served.
    """
    return Option(names, given)


def argument(name: str, **given: Any) -> Option:
    """A parameter by its place, as ``argument("location")``; ``nargs=-1`` takes all that are left."""
    return Option((name,), given, by_name=False)
