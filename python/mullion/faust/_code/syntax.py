"""What an agent's body says beside what any function may: tables that are read and updated, prints, yields.

A body is one of three, and :class:`Reading` says which, and the line that decided it:

- ``fold``: it only updates windowed tables from the event; nothing depends on what they hold.
- ``running``: it also reads them, prints or yields: it needs the value as it stands just after each event.
- ``python``: anything else. Its Python is run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, final

from mullion._code.syntax import Expression, Statement
from mullion.faust.streams import GroupBy

Kind: TypeAlias = Literal["fold", "running", "python"]


# -- expressions over an event


@final
@dataclass(frozen=True)
class Value(Expression):
    """The event's value."""


@final
@dataclass(frozen=True)
class About(Expression):
    """What an event has beside its value: its ``key`` or ``timestamp``."""

    what: str


@final
@dataclass(frozen=True)
class Read(Expression):
    """What a table holds for a key: ``value``, ``current``, ``now`` or ``delta``, so long ago."""

    table: str
    key: Expression
    how: str
    ago: Expression | None = None


@final
@dataclass(frozen=True)
class Edge(Expression):
    """The ``start`` or ``end`` of the range of a windowed table that the event was last in: of ``current_window()``."""

    which: str


# -- statements


@final
@dataclass(frozen=True)
class Update(Statement):
    """``table[key] <sign>= value``; the sign is empty where it is set."""

    table: str
    key: Expression
    sign: str
    value: Expression
    line: int


@final
@dataclass(frozen=True)
class Print(Statement):
    """Prints values."""

    values: tuple[Expression, ...]
    line: int


@final
@dataclass(frozen=True)
class Emit(Statement):
    """Yields a value to the sinks."""

    value: Expression
    line: int


@final
@dataclass(frozen=True)
class Reading:
    """What an agent's body is, why, and the line that decided it as ``file:line``."""

    kind: Kind
    why: str
    where: str
    statements: tuple[Statement, ...] = ()
    tables: tuple[str, ...] = ()
    group: GroupBy | None = None
