"""Options and arguments of a program's commands, under Faust's names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mullion.faust._program.commands import Option

__all__ = ["argument", "option"]


def option(*names: str, **arguments: Any) -> Option:
    """Declares an option by name, such as ``option("--max-messages", type=int, default=None, help="...")``.

    ``type``, ``default``, ``required``, ``help``, ``is_flag``, ``multiple``, ``count`` and ``envvar`` are as in click.
    Raises :class:`InvalidArgumentError` for unsupported ones.
    """
    return Option(names, arguments)


def argument(name: str, **arguments: Any) -> Option:
    """Declares a positional argument, such as ``argument("location")``; ``nargs=-1`` takes all remaining ones."""
    return Option((name,), arguments, by_name=False)


# Faust's module is a package, whose modules :mod:`mullion.faust._public_names.modules` finds.
__path__: list[str] = []


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        # Names of Faust's module that are elsewhere here. Type checkers see the real names only.
        from mullion.faust._public_names.modules import named

        return named("cli", name)
