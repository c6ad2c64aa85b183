"""Evaluates expressions in Python: the model for every other evaluation."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any, Final, Generic, TypeVar

from mullion._pyfunction.syntax import (
    CALLS,
    Argument,
    Call,
    Const,
    Dict,
    Expression,
    Field,
    Function,
    Get,
    Item,
    List,
    Local,
    Operation,
    Replaced,
    Text,
    Tuple,
    Where,
)

SIGNS: Final[dict[str, Callable[..., Any]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "&": operator.and_,
    "^": operator.xor,
    "|": operator.or_,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda one, other: one in other,
    "not in": lambda one, other: one not in other,
    "is": operator.is_,
    "is not": operator.is_not,
    "not": operator.not_,
    "neg": operator.neg,
    "pos": operator.pos,
}

_FIXED: Final = (int, float, complex, str, bytes, tuple, frozenset, type(None), date, time, timedelta, Decimal)

Given = TypeVar("Given")


class Evaluator(Generic[Given]):
    """Evaluates expressions over arguments and variables; an adapter with its own expressions adds them."""

    def __init__(self) -> None:
        self.locals: dict[str, Any] = {}

    def value(self, of: Expression, arguments: Given) -> Any:
        """The value of an expression."""
        match of:
            case Const():
                return of.value
            case Local():
                return self.locals[of.name]
            case Operation():
                return self._operation(of, arguments)
            case Field():
                return getattr(self.value(of.of, arguments), of.name)
            case Item():
                return self.value(of.of, arguments)[self.value(of.key, arguments)]
            case Get():
                container, key = self.value(of.of, arguments), self.value(of.key, arguments)
                return container.get(key, self.value(of.default, arguments))
            case Call():
                return CALLS[of.name](*(self.value(one, arguments) for one in of.arguments))
            case Tuple():
                return tuple(self.value(one, arguments) for one in of.items)
            case List():
                return [self.value(one, arguments) for one in of.items]
            case Dict():
                items = zip(of.keys, of.values, strict=True)
                return {self.value(key, arguments): self.value(container, arguments) for key, container in items}
            case Text():
                parts = zip(of.parts, of.formats, strict=True)
                return "".join(format(self.value(part, arguments), spec) for part, spec in parts)
            case Where():
                self.locals[of.name] = self.value(of.value, arguments)
                return self.value(of.of, arguments)
            case Replaced():
                container, value = self.value(of.of, arguments), self.value(of.value, arguments)
                changed = copy.copy(container)
                changed[self.value(of.key, arguments)] = value
                return changed
        return self.other(of, arguments)

    def other(self, of: Expression, arguments: Given) -> Any:
        """The value of an expression that an adapter adds."""
        raise NotImplementedError(type(of).__name__)

    def _operation(self, of: Operation, arguments: Given) -> Any:
        if of.sign in ("and", "or"):
            result: Any = None
            for one in of.operands:
                result = self.value(one, arguments)
                if bool(result) == (of.sign == "or"):
                    return result
            return result
        if of.sign == "if":
            test, then, otherwise = of.operands
            return self.value(then if self.value(test, arguments) else otherwise, arguments)
        operands = [self.value(one, arguments) for one in of.operands]
        if of.sign in SIGNS:
            return SIGNS[of.sign](*operands)
        # For '+=': a mutable value would be changed in place, for all its owners.
        if not isinstance(operands[0], _FIXED):
            raise TypeError(f"{of.sign} changes a {type(operands[0]).__name__}")
        return SIGNS[of.sign.removesuffix("=")](*operands)


class _OfArguments(Evaluator[dict[str, Any]]):
    def other(self, of: Expression, arguments: dict[str, Any]) -> Any:
        return arguments[of.name] if isinstance(of, Argument) else super().other(of, arguments)


def call(function: Function, *arguments: Any) -> Any:
    """The result of a translated function."""
    return _OfArguments().value(function.result, dict(zip(function.parameters, arguments, strict=True)))
