"""The translation of a Python aggregate to aggregates of the JVM, for classes that only count, add and compare.

::

    create     0, 0                                    parts   [{"kind": "sum", "of": ["column", 0]},
    add_row    acc[0] + v, acc[1] + 1                           {"kind": "sum", "of": ["int", "1"]}]
    merge      a[0] + b[0], a[1] + b[1]                result  ["if", ["part", 1], ["/", ["part", 0], ["part", 1]],
    finish     acc[0] / acc[1] if acc[1] else None              ["none"]]

Each part of the accumulator is a sum, a minimum or a maximum of a value of the row, on which no other part depends, and
``merge`` combines it in the same way. Then the order of rows and the number of accumulators do not matter. Any other
class runs in Python, unchanged. The JVM may still decide so, because it has the types of the columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mullion._pyfunction import evaluate
from mullion._pyfunction.jvm import JvmWriter, constant
from mullion._pyfunction.reader import Unknown, parts_of, read
from mullion._pyfunction.syntax import (
    Argument,
    Call,
    Const,
    Expression,
    Field,
    Function,
    Item,
    List,
    Local,
    Operation,
    Refused,
    Tuple,
    Where,
)

_ZEROS: Final = ("0", "0.0")
_TOTAL: Final = frozenset(("and", "or", "if", "not", "is", "is not", "==", "!="))


def translated(aggregate: Any, parameters: Mapping[str, Any], default_finish: Any) -> dict[str, Any] | None:
    """The parts and the result of an aggregate with ``add_row``; ``None`` if it must run in Python.

    - ``default_finish``: the method ``finish`` of a class that does not define it.
    """
    kind: Any = type(aggregate)
    try:
        create, add, merge = (
            _of_method(read(method), parameters) for method in (kind.create, kind.add_row, kind.merge)
        )
        if create.parameters[1:] or len(merge.parameters) != 3 or len(add.parameters) < 3:
            return None
        start = evaluate.call(create, aggregate)
        starts = start if isinstance(start, tuple) else (start,)
        if not starts:
            return None
        of_add = _Accumulator(add.parameters[1], len(starts), is_tuple=isinstance(start, tuple))
        a, b = (_Accumulator(name, len(starts), is_tuple=isinstance(start, tuple)) for name in merge.parameters[1:])
        writer = _OfRow(add.parameters[2:])
        parts = []
        for i, first in enumerate(starts):
            sign, value = of_add.step(add.result, i)
            if value is None or not _merges(sign, merge.result, a, b, i):
                return None
            if sign == "sum" and (type(first) not in (int, float) or repr(first) not in _ZEROS):
                # Each accumulator begins with it.
                return None
            parts.append({"kind": sign, "start": constant(first), "of": writer.expression(value)})
        return {"parts": parts, "result": _result(kind, default_finish, parameters, of_add)}
    except (Unknown, Refused):
        return None


def _of_method(function: Function, parameters: Mapping[str, Any]) -> Function:
    """A method without variables and without ``self``."""
    result = _inlined(function.result, {}, function.parameters[0], parameters)
    return Function(function.parameters, result, function.changes)


def _inlined(of: Expression, variables: dict[str, Expression], this: str, parameters: Mapping[str, Any]) -> Expression:
    def inner(one: Expression) -> Expression:
        return _inlined(one, variables, this, parameters)

    match of:
        case Local(name=name):
            return variables[name]
        case Field(of=Argument(name=name), name=field) if name == this:
            if field not in parameters:
                raise Refused(f"the attribute {field}")
            return Const(parameters[field])
        case Argument(name=name) if name == this:
            raise Refused("the object itself")
        case Where(name=name, value=value, of=rest):
            inlined = inner(value)
            if not _is_total(inlined):
                # It would fail also where its value is not used.
                raise Refused("a variable whose value may fail")
            return _inlined(rest, {**variables, name: inlined}, this, parameters)
        case Operation(sign=sign, operands=operands):
            return Operation(sign, tuple(map(inner, operands)))
        case Call(name=name, arguments=arguments):
            return Call(name, tuple(map(inner, arguments)))
        case Tuple(items=items):
            return Tuple(tuple(map(inner, items)))
        case List(items=items):
            return List(tuple(map(inner, items)))
        case Item(of=container, key=key):
            return Item(inner(container), inner(key))
        case Const() | Argument():
            return of
    raise Refused(f"a {type(of).__name__}")


def _is_total(of: Expression) -> bool:
    """True if the value of an expression over scalars always exists."""
    match of:
        case Const() | Argument() | Item(of=Argument(), key=Const()):
            return True
        case Operation(sign=sign, operands=operands):
            return sign in _TOTAL and all(map(_is_total, operands))
    return False


class _Accumulator:
    """A parameter that is an accumulator: a scalar, or a tuple of ``size`` scalars."""

    def __init__(self, name: str, size: int, *, is_tuple: bool) -> None:
        self.name = name
        self.size = size
        self.is_tuple = is_tuple

    def part(self, i: int) -> Expression:
        """The expression of a part."""
        return Item(Argument(self.name), Const(i)) if self.is_tuple else Argument(self.name)

    def next(self, of: Expression, i: int) -> Expression:
        """The part of an expression that is the next accumulator."""
        match of:
            case _ if not self.is_tuple:
                return of
            case Argument(name=name) if name == self.name:
                return self.part(i)
            case Tuple(items=items) if len(items) == self.size:
                return items[i]
            case Operation(sign="if", operands=(test, then, otherwise)):
                return Operation("if", (test, self.next(then, i), self.next(otherwise, i)))
        raise Refused("an accumulator of another form")

    def is_in(self, of: Expression) -> bool:
        """True if an expression depends on the accumulator."""
        return of == Argument(self.name) or any(map(self.is_in, parts_of(of)))

    def step(self, result: Expression, i: int) -> tuple[str, Expression | None]:
        """The kind of a part, and the value of the row that is added; without a value if the part stays as it is."""
        return self._step(self.next(result, i), self.part(i))

    def _step(self, of: Expression, part: Expression) -> tuple[str, Expression | None]:
        match of:
            case _ if of == part:
                return "", None
            case Operation(sign="+" | "+=", operands=(one, other)) if one == part or other == part:
                value = other if one == part else one
                kind = "sum"
            case Operation(sign="-" | "-=", operands=(one, other)) if one == part:
                kind, value = "sum", Operation("neg", (other,))
            case Call(name="min" | "max" as kind, arguments=(one, other)) if one == part or other == part:
                value = Call("not_none", (other if one == part else one,))
            case Operation(sign="if", operands=(test, then, otherwise)) if not self.is_in(test):
                (kind, added), (other_kind, other_added) = self._step(then, part), self._step(otherwise, part)
                if kind and other_kind and kind != other_kind:
                    raise Refused("a part with two kinds")
                kind = kind or other_kind
                # Without a value nothing changes: that adds zero, or is no value to compare with.
                nothing = Const(0) if kind == "sum" else Const(None)
                value = Operation("if", (test, added or nothing, other_added or nothing))
            case _:
                raise Refused("a part that is no sum, minimum or maximum")
        if self.is_in(value):
            raise Refused("a value that depends on the accumulator")
        return kind, value


def _merges(kind: str, result: Expression, a: _Accumulator, b: _Accumulator, i: int) -> bool:
    """True if ``merge`` combines a part as ``add_row`` does."""
    if a.is_tuple and not isinstance(result, Tuple):
        return False
    match a.next(result, i):
        case Operation(sign="+" | "+=", operands=operands) if kind == "sum":
            pass
        case Call(name=name, arguments=operands) if name == kind:
            pass
        case _:
            return False
    return operands in ((a.part(i), b.part(i)), (b.part(i), a.part(i)))


def _result(kind: Any, default: Any, parameters: Mapping[str, Any], of_add: _Accumulator) -> list[Any]:
    parts = [["part", i] for i in range(of_add.size)]
    own = ["tuple", *parts] if of_add.is_tuple else parts[0]
    if kind.finish is default:
        return own
    finish = _of_method(read(kind.finish), parameters)
    if len(finish.parameters) != 2 or finish.changes:
        raise Refused("finish with other parameters")
    return _OfParts(finish.parameters[1], own, is_tuple=of_add.is_tuple, size=of_add.size).expression(finish.result)


class _OfRow(JvmWriter):
    """Writes expressions over the columns of a row."""

    def __init__(self, columns: tuple[str, ...]) -> None:
        super().__init__()
        self.columns = columns

    def other(self, of: Expression) -> list[Any]:
        """A column."""
        if isinstance(of, Argument) and of.name in self.columns:
            return ["column", self.columns.index(of.name)]
        return super().other(of)


class _OfParts(JvmWriter):
    """Writes expressions over the parts of an accumulator."""

    def __init__(self, name: str, own: list[Any], *, is_tuple: bool, size: int) -> None:
        super().__init__()
        self.name = name
        self.own = own
        self.is_tuple = is_tuple
        self.size = size

    def other(self, of: Expression) -> list[Any]:
        """A part, all parts, or a tuple or a list of expressions."""
        match of:
            case Argument(name=name) if name == self.name:
                return self.own
            case Item(of=Argument(name=name), key=Const(value=int(i))) if name == self.name and self.is_tuple:
                if 0 <= i < self.size:
                    return ["part", i]
            case Tuple(items=items) | List(items=items):
                return ["tuple", *map(self.expression, items)]
        return super().other(of)
