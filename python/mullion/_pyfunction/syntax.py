"""The translated form of a user's function: expressions over its inputs, and the statements around them.

::

    lambda acc, x: (acc[0] + x["n"], acc[1] + 1)

    Tuple((Operation("+", (Item(Argument("acc"), Const(0)), Item(Argument("x"), Const("n")))),
           Operation("+", (Item(Argument("acc"), Const(1)), Const(1)))))

An adapter may add expressions and statements, such as the tables of ``mullion.faust._agent_code.syntax``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, final

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


class Expression:
    """A value, as a computation without side effects."""


class Statement:
    """A statement with an effect."""


class Refused(Exception):  # noqa: N818
    """An expression that only Python can compute: the reason, and the line, if known."""

    def __init__(self, why: str, line: int | None = None) -> None:
        super().__init__(why)
        self.why = why
        self.line = line


# -- expressions


@final
@dataclass(frozen=True)
class Argument(Expression):
    """The value of a parameter."""

    name: str


@final
@dataclass(frozen=True)
class Const(Expression):
    """A constant at the start of the program."""

    value: Any


@final
@dataclass(frozen=True)
class Local(Expression):
    """A variable of the body."""

    name: str


@final
@dataclass(frozen=True)
class Field(Expression):
    """An attribute, such as a record's field."""

    of: Expression
    name: str


@final
@dataclass(frozen=True)
class Item(Expression):
    """An item of a dict, a tuple or a list."""

    of: Expression
    key: Expression


@final
@dataclass(frozen=True)
class Get(Expression):
    """``of.get(key, default)`` of a dict."""

    of: Expression
    key: Expression
    default: Expression


@final
@dataclass(frozen=True)
class Operation(Expression):
    """An operator over operands, by its sign: arithmetic, comparison, ``not``, ``and``, ``or``, ``if``."""

    sign: str
    operands: tuple[Expression, ...]


@final
@dataclass(frozen=True)
class Call(Expression):
    """A supported function, one of :data:`CALLS`."""

    name: str
    arguments: tuple[Expression, ...]


@final
@dataclass(frozen=True)
class Tuple(Expression):
    """A new tuple: ``(a, b)``."""

    items: tuple[Expression, ...]


@final
@dataclass(frozen=True)
class List(Expression):
    """A new list: ``[a, b]``."""

    items: tuple[Expression, ...]


@final
@dataclass(frozen=True)
class Dict(Expression):
    """A new dict: ``{"page": page}``."""

    keys: tuple[Expression, ...]
    values: tuple[Expression, ...]


@final
@dataclass(frozen=True)
class Text(Expression):
    """A formatted text: ``f"{page}: {n:.1f}"``, each part with its format."""

    parts: tuple[Expression, ...]
    formats: tuple[str, ...]


@final
@dataclass(frozen=True)
class Where(Expression):
    """``of``, where the variable ``name`` is ``value``, which is computed first."""

    name: str
    value: Expression
    of: Expression


@final
@dataclass(frozen=True)
class Replaced(Expression):
    """A dict or a list with a replaced item: the content of ``of`` after ``of[key] = value``."""

    of: Expression
    key: Expression
    value: Expression


@final
@dataclass(frozen=True)
class Function:
    """A pure function: its parameters, and its result.

    ``changes``: the parameters whose dicts or lists it changes; their content afterwards, if it is returned, is a
    :class:`Replaced`.
    """

    parameters: tuple[str, ...]
    result: Expression
    changes: frozenset[str] = frozenset()


# -- statements


@final
@dataclass(frozen=True)
class If(Statement):
    """A branch."""

    test: Expression
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...]


@final
@dataclass(frozen=True)
class Let(Statement):
    """Sets a variable, which lasts until the end of the call."""

    name: str
    value: Expression
