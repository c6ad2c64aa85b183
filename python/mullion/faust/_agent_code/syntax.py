"""The syntax of agents' bodies in addition to that of functions: reads and updates of tables, prints, yields.

A body is of one of three kinds. :class:`Reading` holds the kind and the line that decided it:

- ``fold``: it only updates windowed tables from the event; nothing depends on their values.
- ``running``: it also reads them, prints or yields, so it needs the values just after each event.
- ``python``: any other body. It runs in Python.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, final

from mullion._pyfunction.syntax import Expression, Statement
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
    """A property of the event: its ``key`` or ``timestamp``."""

    what: str


@final
@dataclass(frozen=True)
class Read(Expression):
    """A table's value for a key, by ``value``, ``current``, ``now`` or ``delta`` (with the offset ``ago``)."""

    table: str
    key: Expression
    how: str
    ago: Expression | None = None


@final
@dataclass(frozen=True)
class Edge(Expression):
    """The ``start`` or ``end`` of ``current_window()``: the last range that a windowed table used for the event."""

    which: str


# -- statements


@final
@dataclass(frozen=True)
class Update(Statement):
    """``table[key] <sign>= value``; the sign is empty for a plain assignment."""

    table: str
    key: Expression
    sign: str
    value: Expression
    line: int


@final
@dataclass(frozen=True)
class Print(Statement):
    values: tuple[Expression, ...]
    line: int


@final
@dataclass(frozen=True)
class Emit(Statement):
    """A ``yield`` of a value to the sinks."""

    value: Expression
    line: int


@final
@dataclass(frozen=True)
class Reading:
    """An agent's parsed body: its kind, the reason, and the deciding line as ``file:line``."""

    kind: Kind
    why: str
    where: str
    statements: tuple[Statement, ...] = ()
    tables: tuple[str, ...] = ()
    group: GroupBy | None = None
