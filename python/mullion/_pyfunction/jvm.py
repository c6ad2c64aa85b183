"""Expressions as JSON for the JVM: lists that begin with an operation, which it executes without Python.

::

    e["n"] + 1        ["+", ["field", "n"], ["int", "1"]]

The JVM's results are exact. Operations whose last digit only Python computes are therefore :class:`Refused` here.
"""

from __future__ import annotations

import math
from typing import Any, Final

from mullion._pyfunction.syntax import Call, Const, Dict, Expression, Local, Operation, Refused, Text
from mullion._util.codec.json import is_text

PYTHONS: Final = frozenset(("**", "<<", ">>"))
"""Operators that run in Python only: their results differ in the last digit, or can be too large."""


def constant(value: Any) -> list[Any]:
    """A constant; :class:`Refused` if the JVM has no equal value."""
    if value is None:
        return ["none"]
    if isinstance(value, bool):
        return ["bool", value]
    if type(value) is int and -(2**63) <= value < 2**63:
        return ["int", str(value)]
    if type(value) is float and math.isfinite(value):
        return ["float", repr(value)]
    if type(value) is str and is_text(value):
        return ["text", value]
    raise Refused(f"the constant {value!r}")


class JvmWriter:
    """Writes expressions; an adapter adds its own, and the inputs."""

    def __init__(self) -> None:
        self.locals: list[str] = []
        self.line: int | None = None

    def expression(self, of: Expression) -> list[Any]:
        """The JSON form of an expression."""
        match of:
            case Const():
                try:
                    return constant(of.value)
                except Refused as refused:
                    raise Refused(refused.why, self.line) from None
            case Local():
                return ["local", self.locals.index(of.name)]
            case Call():
                return ["call", of.name, *(self.expression(one) for one in of.arguments)]
            case Dict() | Text():
                raise Refused("it computes with a dict or a text that it makes", self.line)
            case Operation():
                if of.sign in PYTHONS:
                    raise Refused(f"the operator {of.sign!r}", self.line)
                return [of.sign, *(self.expression(one) for one in of.operands)]
        return self.other(of)

    def other(self, of: Expression) -> list[Any]:
        """An expression that only an adapter can write."""
        raise Refused(f"a {type(of).__name__}", self.line)
