"""Expressions as columns of Spark: what Python would compute for each row, or null where Python has to.

::

    lambda x: x["price"] * x["count"]      try_multiply(price, count)

    price   count   Python              the column
    2       3       6                   6
    2**62   4       2**64               null: no column of whole numbers has it
    None    3       raises TypeError    null

So nothing is guessed row by row either: a value that is there is Python's, of the same type and to the last bit. What
the column does not know (an overflow, a division by zero, ``None`` where a number has to be, text that Java writes in
another way) it says, and the caller has Python run for these rows, or fail as it would. What is never known is
:class:`Refused` when the expression is made.

What an expression gives has a shape: a :class:`Value` in a column, or several in a tuple, a list, a dict or a record
(:class:`Items`, :class:`Fields`). A row, an accumulator and a result are all such.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from mullion._code.arithmetic import (
    CALLS_OF_ONE,
    ORDERS,
    and_then,
    arithmetic,
    constant_of,
    extreme,
    is_ordered,
    is_same,
    or_else,
    signed,
    text_of,
    truth_of,
)
from mullion._code.evaluate import Evaluator
from mullion._code.shapes import (
    Fields,
    Items,
    Shape,
    Value,
    chosen,
    known,
    known_with,
    part_of,
    row_of,
    shape_of,
    strict,
    struct_of,
    values_of,
)
from mullion._code.syntax import (
    Argument,
    Call,
    Const,
    Dict,
    Expression,
    Field,
    Get,
    Item,
    List,
    Local,
    Operation,
    Refused,
    Replaced,
    Text,
    Tuple,
    Where,
)

__all__ = ["Fields", "Items", "Shape", "Value", "column_of", "known", "row_of", "shape_of", "struct_of"]

_MOST_PARTS: Final = 500


def column_of(expression: Expression, row: Mapping[str, Shape]) -> Shape:
    """What an expression gives, where the arguments are as ``row`` has them by name.

    Raises :class:`Refused` for what no column computes as Python does.
    """
    computed = _Columns(row).shape(expression)
    if len(values_of(computed)) > _MOST_PARTS:
        raise Refused(f"it has more than {_MOST_PARTS} values")
    return computed


class _NotConstant(Exception):  # noqa: N818
    """An expression that depends on a row, or has no value that a column has."""


class _Constants(Evaluator[None]):
    """Computes what depends on nothing."""

    def value(self, of: Expression, given: None) -> Any:
        """What an expression always is."""
        try:
            return super().value(of, given)
        except _NotConstant:
            raise
        except Exception as error:
            raise _NotConstant from error

    def other(self, of: Expression, given: None) -> Any:
        """An argument."""
        raise _NotConstant

    def set(self, name: str, of: Expression) -> None:
        """Notes a variable, if it always is the same."""
        self.locals.pop(name, None)
        try:
            self.locals[name] = self.value(of, None)
        except _NotConstant:
            return


class _Columns:
    """Makes columns of one expression."""

    def __init__(self, row: Mapping[str, Shape]) -> None:
        self._row = row
        self._locals: dict[str, Shape] = {}
        self._constants = _Constants()

    def shape(self, of: Expression) -> Shape:
        """What an expression gives."""
        if isinstance(of, (Operation, Call, Item)):
            try:
                # What is constant is Python's, once and for all.
                return constant_of(self._constants.value(of, None))
            except _NotConstant:
                pass
        return self._shape(of)

    def _shape(self, of: Expression) -> Shape:
        match of:
            case Argument(name=name):
                if name not in self._row:
                    raise Refused(f"the argument {name!r} is not known")
                return self._row[name]
            case Local(name=name):
                return self._locals[name]
            case Const(value=value):
                return constant_of(value)
            case Item():
                return self._item(of)
            case Field(of=whole, name=name):
                return _field(self.shape(whole), name, "record")
            case Get():
                return self._get(of)
            case Tuple(items=items) | List(items=items):
                return Items(tuple(map(self.shape, items)), "tuple" if isinstance(of, Tuple) else "list", made=True)
            case Dict(keys=keys, values=values):
                return Fields(dict(zip(map(_key, keys), map(self.shape, values), strict=True)), made=True)
            case Where(name=name, value=value, of=then):
                before = self._locals[name] = self.shape(value)
                self._constants.set(name, value)
                return known_with(before, self.shape(then))
            case Replaced():
                return self._replaced(of)
            case Call():
                return self._call(of)
            case Text(parts=parts, formats=formats):
                if any(formats):
                    raise Refused("a text has a format")
                texts = [text_of(self._value(part)) for part in parts]
                return Value(F.concat(*texts) if texts else F.lit(""), "str")
            case Operation():
                return self._operation(of)
        raise Refused(f"a {type(of).__name__}")

    def _value(self, of: Expression) -> Value:
        shape = self.shape(of)
        if not isinstance(shape, Value):
            raise Refused("it computes with a dict, a tuple or a list as a whole")
        return shape

    # -- parts

    def _item(self, of: Item) -> Shape:
        whole = self.shape(of.of)
        if isinstance(whole, Fields):
            return _field(whole, _key(of.key), "dict")
        if isinstance(whole, Items):
            index = of.key.value if isinstance(of.key, Const) else None
            if type(index) is not int or not -len(whole.items) <= index < len(whole.items):
                raise Refused("an item of a tuple or a list that is not known")
            return part_of(whole, whole.items[index])
        raise Refused("an item of a single value")

    def _get(self, of: Get) -> Shape:
        whole, name = self.shape(of.of), _key(of.key)
        if not isinstance(whole, Fields) or whole.kind != "dict":
            raise Refused("get of something other than a dict")
        default = self.shape(of.default)
        if name in whole.fields:
            found = whole.fields[name]
            if any(value.known is not None for value in values_of(found)):
                raise Refused(f"whether there is a {name!r} is not known")
            return known_with(default, part_of(whole, found))
        if not whole.whole:
            raise Refused(f"whether there is a {name!r} is not known")
        return known_with(whole, default) if whole.made else default

    def _replaced(self, of: Replaced) -> Shape:
        whole, made = self.shape(of.of), self.shape(of.value)
        if isinstance(whole, Fields) and whole.kind == "dict":
            return replace(whole, fields={**whole.fields, _key(of.key): made}, made=True)
        index = of.key.value if isinstance(of.key, Const) else None
        if isinstance(whole, Items) and whole.kind == "list" and type(index) is int:
            items = list(whole.items)
            if -len(items) <= index < len(items):
                items[index] = made
                return replace(whole, items=tuple(items), made=True)
        raise Refused("something other than a dict or a list is changed")

    # -- operators

    def test(self, of: Expression) -> Column:
        """Whether an expression is true: null where that is not known."""
        if isinstance(of, Operation):
            if of.sign in ("and", "or"):
                tests = [self.test(one) for one in of.operands]
                return functools.reduce(and_then if of.sign == "and" else or_else, tests)
            if of.sign == "not":
                return ~self.test(of.operands[0])
            if of.sign == "if":
                test, then, otherwise = map(self.test, of.operands)
                return F.when(test, then).when(~test, otherwise)
        shape = self.shape(of)
        if isinstance(shape, Value):
            return truth_of(shape)
        count = len(shape.items) if isinstance(shape, Items) else len(shape.fields)
        if isinstance(shape, Fields) and shape.kind == "record":
            raise Refused("a record is asked whether it is true")
        return F.when(known(shape), F.lit(bool(count)))

    def _operation(self, of: Operation) -> Shape:
        sign = of.sign.removesuffix("=") if of.sign in _IN_PLACE else of.sign
        if sign == "not":
            return Value(self.test(of), "bool")
        if sign == "if":
            test, then, otherwise = of.operands
            return chosen(self.test(test), self.shape(then), self.shape(otherwise))
        if sign in ("and", "or"):
            return self._joined(sign, of.operands)
        if sign in ("neg", "pos"):
            (value,) = map(self._value, of.operands)
            return signed(sign, value)
        if sign in ("in", "not in"):
            found = self._among(*of.operands)
            return Value(found if sign == "in" else ~found, "bool")
        left, right = map(self._value, of.operands)
        if sign in ("==", "!=", "is", "is not"):
            if sign in ("is", "is not") and "none" not in (left.kind, right.kind):
                raise Refused(f"the operator {sign!r} with something other than None")
            same = is_same(left, right)
            return Value(same if sign in ("==", "is") else ~same, "bool")
        if sign in ORDERS:
            return Value(is_ordered(ORDERS[sign], left, right), "bool")
        return arithmetic(sign, left, right)

    def _joined(self, sign: str, operands: Sequence[Expression]) -> Shape:
        joined = self.shape(operands[0])
        tests = [self.test(one) for one in operands[:-1]]
        for i, one in enumerate(operands[1:]):
            # Of 'a and b and c' the first that is false; what stands before it is true, and not the result.
            test = functools.reduce(and_then if sign == "and" else or_else, tests[: i + 1])
            then, otherwise = (self.shape(one), joined) if sign == "and" else (joined, self.shape(one))
            joined = chosen(test, then, otherwise)
        return joined

    def _among(self, one: Expression, several: Expression) -> Column:
        left, right = self._value(one), self.shape(several)
        if isinstance(right, Value):
            if left.kind == right.kind == "str":
                return strict(right).contains(strict(left))
            raise Refused("the operator 'in' with a single value")
        if isinstance(right, Fields):
            raise Refused("the operator 'in' with a dict")
        values = [value for value in right.items if isinstance(value, Value)]
        if len(values) != len(right.items) or any(value.kind == "float" for value in (left, *values)):
            # What is the same object is among them, be it equal to itself or not.
            raise Refused("the operator 'in' with floats, or what is in others")
        same = [is_same(left, value) for value in values]
        if not same:
            return F.when(known(left), F.lit(False))
        # All are there before any is compared.
        return F.when(known(Items((left, *values))), functools.reduce(operator.or_, same))

    # -- calls

    def _call(self, of: Call) -> Shape:
        if of.name == "bool" and len(of.arguments) == 1:
            return Value(self.test(of.arguments[0]), "bool")
        if of.name == "len" and len(of.arguments) == 1:
            return self._length(self.shape(of.arguments[0]))
        given = [self._value(one) for one in of.arguments]
        if of.name in ("min", "max") and len(given) > 1:
            return extreme(of.name, given)
        if of.name not in CALLS_OF_ONE or len(given) != 1:
            raise Refused(f"{of.name} with {len(given)} argument{'s' * (len(given) != 1)}")
        return CALLS_OF_ONE[of.name](given[0])

    def _length(self, of: Shape) -> Value:
        if isinstance(of, Value):
            if of.kind != "str":
                raise Refused(f"len of {of.kind}")
            return Value(F.char_length(strict(of)).cast("bigint"), "int")
        if isinstance(of, Fields) and not (of.whole and of.kind == "dict"):
            raise Refused("len of what has more than is known")
        count = len(of.items) if isinstance(of, Items) else len(of.fields)
        return Value(F.when(known(of), F.lit(count).cast("bigint")), "int")


_IN_PLACE: Final = frozenset(f"{sign}=" for sign in ("+", "-", "*", "/", "//", "%", "&", "|", "^", "**", "<<", ">>"))


def _key(of: Expression) -> str:
    if isinstance(of, Const) and type(of.value) is str:
        return of.value
    raise Refused("a key that is not a text which is known")


def _field(whole: Shape, name: str, kind: str) -> Shape:
    if not isinstance(whole, Fields) or whole.kind != kind or name not in whole.fields:
        raise Refused(f"{name!r} of what has no such {'item' if kind == 'dict' else 'attribute'}")
    return part_of(whole, whole.fields[name])
