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
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final, Literal, TypeAlias, final

import pyspark.sql.types as T  # noqa: N812
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from mullion._code.evaluate import Evaluator
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
from mullion._codec.json import is_text

Kind: TypeAlias = Literal["int", "float", "bool", "str", "time", "length", "none"]

_LEAST: Final = -(2**63)
_EXACT: Final = 2**53
"""Whole numbers up to here are floats without loss."""
_NUMBERS: Final = ("int", "float", "bool")
_ORDERS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_MOST_PARTS: Final = 500


@final
@dataclass(frozen=True)
class Value:
    """A value in a column.

    - ``kind``: which of Python's types it is; ``time`` an aware ``datetime``, ``length`` a ``timedelta``.
    - ``optional``: whether it may be ``None``. Null is ``None`` then, where it is ``known``; where it may not be, null
      says that the value is not known.
    - ``known``: where an optional value is known; ``None`` for everywhere.
    """

    column: Column
    kind: Kind
    optional: bool = False
    known: Column | None = None


@final
@dataclass(frozen=True)
class Items:
    """A ``tuple`` or a ``list`` of a known length.

    ``made``: whether the expression makes it, so that none of it is there before all is computed.
    """

    items: tuple[Shape, ...]
    kind: Literal["tuple", "list"] = "tuple"
    made: bool = False


@final
@dataclass(frozen=True)
class Fields:
    """A ``dict`` with known keys, or a ``record`` with attributes.

    ``whole``: whether it has no other keys; ``made``: as of :class:`Items`.
    """

    fields: Mapping[str, Shape]
    kind: Literal["dict", "record"] = "dict"
    whole: bool = True
    made: bool = False


Shape: TypeAlias = Value | Items | Fields


def column_of(expression: Expression, row: Mapping[str, Shape]) -> Shape:
    """What an expression gives, where the arguments are as ``row`` has them by name.

    Raises :class:`Refused` for what no column computes as Python does.
    """
    computed = _Columns(row).shape(expression)
    if _size(computed) > _MOST_PARTS:
        raise Refused(f"it has more than {_MOST_PARTS} values")
    return computed


def known(shape: Shape) -> Column:
    """Where all of a shape is as Python computes it: true there, and false elsewhere."""
    columns = [_known(value) for value in _values(shape)]
    found = [column for column in columns if column is not None]
    return functools.reduce(operator.and_, found) if found else F.lit(True)


def struct_of(shape: Shape) -> Column:
    """A shape as one column: a value as it is, items as a struct of ``_1``, ``_2`` ..., fields as one by name."""
    match shape:
        case Value(column=column):
            return column
        case Items(items=items):
            return F.struct(*(struct_of(one).alias(f"_{i}") for i, one in enumerate(items, start=1)))
    return F.struct(*(struct_of(one).alias(name) for name, one in shape.fields.items()))


def shape_of(column: Column, kind: T.DataType, *, nullable: bool = True, known: Column | None = None) -> Shape:
    """What a column holds, as Python gets it: structs are dicts, and null is ``None``.

    - ``nullable``: whether it may be null.
    - ``known``: where it is what Python gets, ``None`` for everywhere: a message may have lacked the field.

    Raises :class:`Refused` for a type whose values are not all among those that expressions know.
    """
    match kind:
        case T.StructType():
            there = known
            if nullable:
                there = _both(known, column.isNotNull())
            fields = {
                field.name: shape_of(column.getField(field.name), field.dataType, nullable=field.nullable, known=there)
                for field in kind
            }
            return Fields(fields)
        case T.LongType() | T.IntegerType() | T.ShortType() | T.ByteType():
            return _of_column(column.cast("bigint"), "int", nullable, known)
        case T.DoubleType() | T.FloatType():
            return _of_column(column.cast("double"), "float", nullable, known)
        case T.BooleanType():
            return _of_column(column, "bool", nullable, known)
        case T.StringType() if kind == T.StringType():
            return _of_column(column, "str", nullable, known)
        case T.TimestampType():
            return _of_column(column, "time", nullable, known)
        case T.DayTimeIntervalType():
            return _of_column(column, "length", nullable, known)
        case T.NullType():
            return Value(column, "none", True, known)
    raise Refused(f"a column is {kind.simpleString()}")


def row_of(schema: T.StructType, kind: Literal["dict", "record"] = "dict") -> Fields:
    """A row of a DataFrame, by the names of its columns; a column of another type is not among its fields."""
    fields: dict[str, Shape] = {}
    for field in schema:
        try:
            name = f"`{field.name.replace('`', '``')}`"
            fields[field.name] = shape_of(F.col(name), field.dataType, nullable=field.nullable)
        except Refused:
            continue
    return Fields(fields, kind, whole=len(fields) == len(schema))


def _of_column(column: Column, kind: Kind, nullable: bool, known: Column | None) -> Value:
    if nullable:
        return Value(column, kind, True, known)
    return Value(column if known is None else F.when(known, column), kind)


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
                return _constant(self._constants.value(of, None))
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
                return _constant(value)
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
                return _where_known(before, self.shape(then))
            case Replaced():
                return self._replaced(of)
            case Call():
                return self._call(of)
            case Text(parts=parts, formats=formats):
                if any(formats):
                    raise Refused("a text has a format")
                texts = [_text(self._value(part)) for part in parts]
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
            return _part(whole, whole.items[index])
        raise Refused("an item of a single value")

    def _get(self, of: Get) -> Shape:
        whole, name = self.shape(of.of), _key(of.key)
        if not isinstance(whole, Fields) or whole.kind != "dict":
            raise Refused("get of something other than a dict")
        default = self.shape(of.default)
        if name in whole.fields:
            found = whole.fields[name]
            if any(value.known is not None for value in _values(found)):
                raise Refused(f"whether there is a {name!r} is not known")
            return _where_known(default, _part(whole, found))
        if not whole.whole:
            raise Refused(f"whether there is a {name!r} is not known")
        return _where_known(whole, default) if whole.made else default

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
                return functools.reduce(_and if of.sign == "and" else _or, tests)
            if of.sign == "not":
                return ~self.test(of.operands[0])
            if of.sign == "if":
                test, then, otherwise = map(self.test, of.operands)
                return F.when(test, then).when(~test, otherwise)
        shape = self.shape(of)
        if isinstance(shape, Value):
            return _truth(shape)
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
            return _chosen(self.test(test), self.shape(then), self.shape(otherwise))
        if sign in ("and", "or"):
            return self._joined(sign, of.operands)
        if sign in ("neg", "pos"):
            (value,) = map(self._value, of.operands)
            return _signed(sign, value)
        if sign in ("in", "not in"):
            found = self._among(*of.operands)
            return Value(found if sign == "in" else ~found, "bool")
        left, right = map(self._value, of.operands)
        if sign in ("==", "!=", "is", "is not"):
            if sign in ("is", "is not") and "none" not in (left.kind, right.kind):
                raise Refused(f"the operator {sign!r} with something other than None")
            same = _same(left, right)
            return Value(same if sign in ("==", "is") else ~same, "bool")
        if sign in _ORDERS:
            return Value(_ordered(_ORDERS[sign], left, right), "bool")
        return _arithmetic(sign, left, right)

    def _joined(self, sign: str, operands: Sequence[Expression]) -> Shape:
        joined = self.shape(operands[0])
        tests = [self.test(one) for one in operands[:-1]]
        for i, one in enumerate(operands[1:]):
            # Of 'a and b and c' the first that is false; what stands before it is true, and not the result.
            test = functools.reduce(_and if sign == "and" else _or, tests[: i + 1])
            then, otherwise = (self.shape(one), joined) if sign == "and" else (joined, self.shape(one))
            joined = _chosen(test, then, otherwise)
        return joined

    def _among(self, one: Expression, several: Expression) -> Column:
        left, right = self._value(one), self.shape(several)
        if isinstance(right, Value):
            if left.kind == right.kind == "str":
                return _strict(right).contains(_strict(left))
            raise Refused("the operator 'in' with a single value")
        if isinstance(right, Fields):
            raise Refused("the operator 'in' with a dict")
        values = [value for value in right.items if isinstance(value, Value)]
        if len(values) != len(right.items) or any(value.kind == "float" for value in (left, *values)):
            # What is the same object is among them, be it equal to itself or not.
            raise Refused("the operator 'in' with floats, or what is in others")
        same = [_same(left, value) for value in values]
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
            return _extreme(of.name, given)
        if of.name not in _CALLS or len(given) != 1:
            raise Refused(f"{of.name} with {len(given)} argument{'s' * (len(given) != 1)}")
        return _CALLS[of.name](given[0])

    def _length(self, of: Shape) -> Value:
        if isinstance(of, Value):
            if of.kind != "str":
                raise Refused(f"len of {of.kind}")
            return Value(F.char_length(_strict(of)).cast("bigint"), "int")
        if isinstance(of, Fields) and not (of.whole and of.kind == "dict"):
            raise Refused("len of what has more than is known")
        count = len(of.items) if isinstance(of, Items) else len(of.fields)
        return Value(F.when(known(of), F.lit(count).cast("bigint")), "int")


_IN_PLACE: Final = frozenset(f"{sign}=" for sign in ("+", "-", "*", "/", "//", "%", "&", "|", "^", "**", "<<", ">>"))


# -- what is known


def _values(shape: Shape) -> list[Value]:
    match shape:
        case Value():
            return [shape]
        case Items(items=items):
            return [value for one in items for value in _values(one)]
    return [value for one in shape.fields.values() for value in _values(one)]


def _size(shape: Shape) -> int:
    return len(_values(shape))


def _known(value: Value) -> Column | None:
    if value.optional:
        return None if value.known is None else F.coalesce(value.known, F.lit(False))
    return value.column.isNotNull()


def _both(one: Column | None, other: Column | None) -> Column | None:
    return other if one is None else one if other is None else one & other


def _where_known(before: Shape, then: Shape) -> Shape:
    """A shape that is not known where another is not, which is computed before it or with it."""
    if all(_known(value) is None for value in _values(before)):
        return then
    return _guarded(known(before), then)


def _part(whole: Items | Fields, part: Shape) -> Shape:
    return _where_known(whole, part) if whole.made else part


def _guarded(where: Column, of: Shape) -> Shape:
    match of:
        case Value(optional=True):
            return replace(of, known=_both(where, of.known))
        case Value():
            return replace(of, column=F.when(where, of.column))
        case Items(items=items):
            return replace(of, items=tuple(_guarded(where, one) for one in items))
    return replace(of, fields={name: _guarded(where, one) for name, one in of.fields.items()})


def _strict(value: Value) -> Column:
    """A value that must not be ``None``: null where it is, or is not known."""
    return value.column if value.known is None else F.when(value.known, value.column)


def _chosen(test: Column, then: Shape, otherwise: Shape) -> Shape:
    """One shape or the other: not known where the test is not, or the one that is chosen."""
    match then, otherwise:
        case Value(), Value():
            kinds = {then.kind, otherwise.kind} - {"none"}
            if len(kinds) > 1:
                raise Refused(f"it is {then.kind} or {otherwise.kind}")
            kind: Kind = kinds.pop() if kinds else "none"
            made = F.when(test, then.column).when(~test, otherwise.column)
            if not then.optional and not otherwise.optional:
                return Value(made, kind)
            ways = [F.lit(True) if (where := _known(one)) is None else where for one in (then, otherwise)]
            return Value(made, kind, True, F.when(test, ways[0]).when(~test, ways[1]).otherwise(F.lit(False)))
        case Items(), Items() if then.kind == otherwise.kind and len(then.items) == len(otherwise.items):
            pairs = zip(then.items, otherwise.items, strict=True)
            return replace(then, items=tuple(_chosen(test, one, other) for one, other in pairs))
        case Fields(), Fields() if _alike(then, otherwise):
            fields = {name: _chosen(test, one, otherwise.fields[name]) for name, one in then.fields.items()}
            return replace(then, fields=fields)
    raise Refused("it has one shape or another")


def _alike(one: Fields, other: Fields) -> bool:
    return one.kind == other.kind and one.whole == other.whole and list(one.fields) == list(other.fields)


# -- values


def _constant(value: Any) -> Value:
    if value is None:
        return Value(F.lit(None), "none", True)
    if type(value) is bool:
        return Value(F.lit(value), "bool")
    if type(value) is int and _LEAST <= value < -_LEAST:
        return Value(F.lit(value).cast("bigint"), "int")
    # Spark takes -0.0 and 0.0 for one constant.
    if type(value) is float and (value or math.copysign(1.0, value) > 0):
        return Value(F.lit(value), "float")
    if type(value) is str and is_text(value):
        return Value(F.lit(value), "str")
    if type(value) is timedelta:
        return Value(F.lit(value), "length")
    raise Refused(f"the constant {value!r}")


def _key(of: Expression) -> str:
    if isinstance(of, Const) and type(of.value) is str:
        return of.value
    raise Refused("a key that is not a text which is known")


def _field(whole: Shape, name: str, kind: str) -> Shape:
    if not isinstance(whole, Fields) or whole.kind != kind or name not in whole.fields:
        raise Refused(f"{name!r} of what has no such {'item' if kind == 'dict' else 'attribute'}")
    return _part(whole, whole.fields[name])


def _truth(value: Value) -> Column:
    column = _strict(value)
    match value.kind:
        case "bool":
            true = column
        case "int" | "float":
            true = column != F.lit(0)
        case "str":
            true = column != F.lit("")
        case "none":
            true = F.lit(None).cast("boolean")
        case _:
            raise Refused(f"a {value.kind} is asked whether it is true")
    if not value.optional:
        return true
    where = F.lit(True) if value.known is None else value.known
    return F.when(where, F.coalesce(true, F.lit(False)))


def _text(value: Value) -> Column:
    column = _strict(value)
    match value.kind:
        case "str":
            return column
        case "int":
            return column.cast("string")
        case "bool":
            return F.when(column, F.lit("True")).when(~column, F.lit("False"))
    raise Refused(f"the text of a {value.kind}")


def _number(value: Value) -> tuple[Column, Kind]:
    """A number, where a bool is one of 0 and 1."""
    if value.kind not in _NUMBERS:
        raise Refused(f"it computes with a {value.kind}")
    column = _strict(value)
    return (column.cast("bigint"), "int") if value.kind == "bool" else (column, value.kind)


def _float(column: Column, kind: Kind) -> Column:
    return column.cast("double") if kind == "int" else column


def _exactly(column: Column, kind: Kind) -> Column:
    """A number as a float that is the same; null where there is none."""
    return F.when(column.between(-_EXACT, _EXACT), column.cast("double")) if kind == "int" else column


# -- comparison


def _pair(left: Value, right: Value) -> tuple[Column, Column, Kind]:
    """Two values that can be compared, and what they are compared as."""
    if left.kind in _NUMBERS and right.kind in _NUMBERS:
        (one, first), (other, second) = _number(left), _number(right)
        if first == second:
            return one, other, first
        return _exactly(one, first), _exactly(other, second), "float"
    if left.kind != right.kind:
        raise Refused(f"it compares {left.kind} and {right.kind}")
    return _strict(left), _strict(right), left.kind


def _same(left: Value, right: Value) -> Column:
    where = known(Items((left, right)))
    if "none" in (left.kind, right.kind):
        return F.when(where, left.column.isNull() & right.column.isNull())
    one, other, kind = _pair(left, right)
    same = one == other
    if kind == "float":
        same = _numbers(one, other, same)
    if not left.optional and not right.optional:
        return same
    nothing = [value.column.isNull() if value.optional else F.lit(False) for value in (left, right)]
    same = F.when(nothing[0] & nothing[1], F.lit(True)).when(nothing[0] | nothing[1], F.lit(False)).otherwise(same)
    return F.when(where, same)


def _ordered(order: Callable[[Any, Any], Any], left: Value, right: Value) -> Column:
    one, other, kind = _pair(left, right)
    if kind == "none":
        raise Refused("it compares None")
    ordered: Column = order(one, other)
    return _numbers(one, other, ordered) if kind == "float" else ordered


def _numbers(one: Column, other: Column, compared: Column) -> Column:
    """A comparison of floats: false with one that is not a number, and null where either is not known."""
    both = F.when(one.isNotNull() & other.isNotNull(), F.lit(False))
    return F.when(F.isnan(one) | F.isnan(other), both).otherwise(compared)


def _and(left: Column, right: Column) -> Column:
    """As Python goes about it: the right side is not asked where the left one decides."""
    return F.when(left, right).when(~left, F.lit(False))


def _or(left: Column, right: Column) -> Column:
    return F.when(left, F.lit(True)).when(~left, right)


# -- arithmetic


def _signed(sign: str, value: Value) -> Value:
    column, kind = _number(value)
    if sign == "pos":
        return Value(column, kind)
    return Value(F.try_subtract(F.lit(0).cast("bigint"), column) if kind == "int" else F.negative(column), kind)


def _arithmetic(sign: str, left: Value, right: Value) -> Value:
    if sign == "+" and left.kind == right.kind == "str":
        return Value(F.concat(_strict(left), _strict(right)), "str")
    if sign in ("&", "|", "^"):
        return _bitwise(sign, left, right)
    (one, first), (other, second) = _number(left), _number(right)
    if sign == "/":
        both_whole = first == second == "int"
        # The nearest float to a quotient of whole numbers is that of their floats only where these are the same.
        float_of = _exactly if both_whole else _float
        one, other = float_of(one, first), float_of(other, second)
        return Value(one / F.when(other != F.lit(0.0), other), "float")
    if first == second == "int":
        if sign in _TRYING:
            return Value(_TRYING[sign](one, other), "int")
        if sign == "%":
            return Value(_remainder(one, other), "int")
        if sign == "//":
            return Value(_quotient(one, other), "int")
        raise Refused(f"the operator {sign!r}")
    one, other = _float(one, first), _float(other, second)
    if sign in _PLAINLY:
        return Value(_PLAINLY[sign](one, other), "float")
    if sign == "%":
        left_over = one % F.when(other != F.lit(0.0), other)
        # Of two constants, 0.0 and -0.0, Spark's optimizer makes one.
        nothing = F.signum(other) * F.lit(0.0)
        return Value(
            F.when(left_over == F.lit(0.0), nothing)
            .when((left_over < F.lit(0.0)) != (other < F.lit(0.0)), left_over + other)
            .otherwise(left_over),
            "float",
        )
    raise Refused(f"the operator {sign!r} with floats")


_TRYING: Final[dict[str, Callable[[Column, Column], Column]]] = {
    "+": F.try_add,
    "-": F.try_subtract,
    "*": F.try_multiply,
}
_PLAINLY: Final[dict[str, Callable[[Any, Any], Any]]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}


def _remainder(one: Column, other: Column) -> Column:
    """Has the sign of the divisor, where Java's has that of the dividend."""
    divisor = F.when(other != F.lit(0), other)
    left_over = one % divisor
    return left_over + F.when(_off(left_over, other), other).otherwise(F.lit(0).cast("bigint"))


def _quotient(one: Column, other: Column) -> Column:
    """Rounded down, where Java's is rounded towards zero."""
    zero = F.lit(0).cast("bigint")
    # The least number has no opposite.
    divisor = F.when(~other.isin(0, -1), other)
    rounded = F.call_function("div", one, divisor) - F.when(_off(one % divisor, other), F.lit(1)).otherwise(F.lit(0))
    return F.when(other == F.lit(-1), F.try_subtract(zero, one)).otherwise(rounded)


def _off(left_over: Column, divisor: Column) -> Column:
    return (left_over != F.lit(0)) & ((left_over < F.lit(0)) != (divisor < F.lit(0)))


def _bitwise(sign: str, left: Value, right: Value) -> Value:
    if "float" in (left.kind, right.kind):
        raise Refused(f"the operator {sign!r} with floats")
    if left.kind == right.kind == "bool":
        one, other = _strict(left), _strict(right)
        made = one & other if sign == "&" else one | other if sign == "|" else one != other
        return Value(F.when(one.isNotNull() & other.isNotNull(), made), "bool")
    one, other = _number(left)[0], _number(right)[0]
    ways = {"&": one.bitwiseAND, "|": one.bitwiseOR, "^": one.bitwiseXOR}
    return Value(ways[sign](other), "int")


# -- functions


def _extreme(name: str, given: Sequence[Value]) -> Value:
    kinds = {value.kind for value in given}
    if len(kinds) > 1 or kinds & {"none"}:
        raise Refused(f"{name} of {', '.join(sorted(kinds))}")
    best = given[0]
    for value in given[1:]:
        better = _ordered(operator.lt if name == "min" else operator.gt, value, best)
        best = Value(F.when(better, _strict(value)).when(~better, _strict(best)), best.kind)
    return best


def _absolute(value: Value) -> Value:
    column, kind = _number(value)
    return Value(F.when(column != F.lit(_LEAST), F.abs(column)) if kind == "int" else F.abs(column), kind)


def _whole(value: Value) -> Value:
    column, kind = _number(value)
    if kind == "int":
        return Value(column, "int")
    return Value(F.when(F.abs(column) < F.lit(math.ldexp(1.0, 63)), column.cast("bigint")), "int")


def _rounded(value: Value) -> Value:
    column, kind = _number(value)
    return Value(column, "int") if kind == "int" else _whole(Value(F.rint(column), "float"))


def _as_float(value: Value) -> Value:
    return Value(_float(*_number(value)), "float")


_CALLS: Final[dict[str, Callable[[Value], Value]]] = {
    "abs": _absolute,
    "int": _whole,
    "float": _as_float,
    "str": lambda value: Value(_text(value), "str"),
    "round": _rounded,
}
