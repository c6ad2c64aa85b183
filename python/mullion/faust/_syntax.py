"""What an agent's body says, once it is read: expressions over an event, statements, and which of three it is.

A body is one of three, and :class:`Reading` says which, and the line that decided it:

- ``fold``: it only updates windowed tables from the event; nothing depends on what they hold.
- ``running``: it also reads them, prints or yields: it needs the value as it stands just after each event.
- ``python``: anything else. Its Python is run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, final

from mullion.faust.streams import GroupBy

Kind: TypeAlias = Literal["fold", "running", "python"]

# The functions that an expression may call, by name.
CALLS: Final[dict[str, Callable[..., Any]]] = {
    "abs": abs,
    "len": len,
    "min": min,
    "max": max,
    "int": int,
    "float": float,
    "str": str,
    "bool": bool,
    "round": round,
}


# -- expressions over an event


@final
@dataclass(frozen=True)
class Value:
    """The event's value."""


@final
@dataclass(frozen=True)
class About:
    """What an event has beside its value: its ``key`` or ``timestamp``."""

    what: str


@final
@dataclass(frozen=True)
class Const:
    """What is known when the program starts."""

    value: Any


@final
@dataclass(frozen=True)
class Field:
    """A record's field."""

    of: Expression
    name: str


@final
@dataclass(frozen=True)
class Item:
    """A dict's item."""

    of: Expression
    key: Expression


@final
@dataclass(frozen=True)
class Operation:
    """An operator over operands, by its sign: arithmetic, comparison, ``not``, ``and``, ``or``, ``if``."""

    sign: str
    operands: tuple[Expression, ...]


@final
@dataclass(frozen=True)
class Local:
    """A variable of the body."""

    name: str


@final
@dataclass(frozen=True)
class Call:
    """A function that is known: ``abs len min max int float str bool round``."""

    name: str
    arguments: tuple[Expression, ...]


@final
@dataclass(frozen=True)
class Read:
    """What a table holds for a key: ``value``, ``current``, ``now`` or ``delta``, so long ago."""

    table: str
    key: Expression
    how: str
    ago: Expression | None = None


@final
@dataclass(frozen=True)
class Edge:
    """The ``start`` or ``end`` of the range of a windowed table that the event was last in: of ``current_window()``."""

    which: str


@final
@dataclass(frozen=True)
class Record:
    """A dict that is made: ``{"page": page}``."""

    keys: tuple[Expression, ...]
    values: tuple[Expression, ...]


@final
@dataclass(frozen=True)
class Text:
    """A text that is made: ``f"{page}: {n:.1f}"``, each part with its format."""

    parts: tuple[Expression, ...]
    formats: tuple[str, ...]


Expression: TypeAlias = Value | About | Const | Local | Field | Item | Operation | Call | Read | Edge | Record | Text


# -- statements


@final
@dataclass(frozen=True)
class Update:
    """``table[key] <sign>= value``; the sign is empty where it is set."""

    table: str
    key: Expression
    sign: str
    value: Expression
    line: int


@final
@dataclass(frozen=True)
class If:
    """One way or the other."""

    test: Expression
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...]


@final
@dataclass(frozen=True)
class Print:
    """Prints values."""

    values: tuple[Expression, ...]
    line: int


@final
@dataclass(frozen=True)
class Emit:
    """Yields a value to the sinks."""

    value: Expression
    line: int


@final
@dataclass(frozen=True)
class Let:
    """Sets a variable, which is known until the event is over."""

    name: str
    value: Expression


Statement: TypeAlias = Update | If | Print | Emit | Let


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
