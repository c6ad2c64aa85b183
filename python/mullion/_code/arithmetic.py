"""What operators and functions compute of single values, as columns: null where Python computes something else."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from mullion._code.shapes import Items, Kind, Value, known, strict
from mullion._code.syntax import Refused
from mullion._codec.json import is_text

_LEAST: Final = -(2**63)
_EXACT: Final = 2**53
"""Whole numbers up to here are floats without loss."""
_NUMBERS: Final = ("int", "float", "bool")
ORDERS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def constant_of(value: Any) -> Value:
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


def truth_of(value: Value) -> Column:
    column = strict(value)
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


def text_of(value: Value) -> Column:
    column = strict(value)
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
    column = strict(value)
    return (column.cast("bigint"), "int") if value.kind == "bool" else (column, value.kind)


def _float(column: Column, kind: Kind) -> Column:
    return column.cast("double") if kind == "int" else column


def _exactly(column: Column, kind: Kind) -> Column:
    """A number as a float that is the same; null where there is none."""
    return F.when(column.between(-_EXACT, _EXACT), column.cast("double")) if kind == "int" else column


def _pair(left: Value, right: Value) -> tuple[Column, Column, Kind]:
    """Two values that can be compared, and what they are compared as."""
    if left.kind in _NUMBERS and right.kind in _NUMBERS:
        (one, first), (other, second) = _number(left), _number(right)
        if first == second:
            return one, other, first
        return _exactly(one, first), _exactly(other, second), "float"
    if left.kind != right.kind:
        raise Refused(f"it compares {left.kind} and {right.kind}")
    return strict(left), strict(right), left.kind


def is_same(left: Value, right: Value) -> Column:
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


def is_ordered(order: Callable[[Any, Any], Any], left: Value, right: Value) -> Column:
    one, other, kind = _pair(left, right)
    if kind == "none":
        raise Refused("it compares None")
    ordered: Column = order(one, other)
    return _numbers(one, other, ordered) if kind == "float" else ordered


def _numbers(one: Column, other: Column, compared: Column) -> Column:
    """A comparison of floats: false with one that is not a number, and null where either is not known."""
    both = F.when(one.isNotNull() & other.isNotNull(), F.lit(False))
    return F.when(F.isnan(one) | F.isnan(other), both).otherwise(compared)


def and_then(left: Column, right: Column) -> Column:
    """As Python goes about it: the right side is not asked where the left one decides."""
    return F.when(left, right).when(~left, F.lit(False))


def or_else(left: Column, right: Column) -> Column:
    return F.when(left, F.lit(True)).when(~left, right)


def signed(sign: str, value: Value) -> Value:
    column, kind = _number(value)
    if sign == "pos":
        return Value(column, kind)
    return Value(F.try_subtract(F.lit(0).cast("bigint"), column) if kind == "int" else F.negative(column), kind)


def arithmetic(sign: str, left: Value, right: Value) -> Value:
    if sign == "+" and left.kind == right.kind == "str":
        return Value(F.concat(strict(left), strict(right)), "str")
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
        one, other = strict(left), strict(right)
        made = one & other if sign == "&" else one | other if sign == "|" else one != other
        return Value(F.when(one.isNotNull() & other.isNotNull(), made), "bool")
    one, other = _number(left)[0], _number(right)[0]
    ways = {"&": one.bitwiseAND, "|": one.bitwiseOR, "^": one.bitwiseXOR}
    return Value(ways[sign](other), "int")


def extreme(name: str, given: Sequence[Value]) -> Value:
    kinds = {value.kind for value in given}
    if len(kinds) > 1 or kinds & {"none"}:
        raise Refused(f"{name} of {', '.join(sorted(kinds))}")
    best = given[0]
    for value in given[1:]:
        better = is_ordered(operator.lt if name == "min" else operator.gt, value, best)
        best = Value(F.when(better, strict(value)).when(~better, strict(best)), best.kind)
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


CALLS_OF_ONE: Final[dict[str, Callable[[Value], Value]]] = {
    "abs": _absolute,
    "int": _whole,
    "float": _as_float,
    "str": lambda value: Value(text_of(value), "str"),
    "round": _rounded,
}
