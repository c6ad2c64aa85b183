"""What an expression gives, as columns: values, and tuples, lists, dicts and records of them, and where each is known.

A row, an accumulator and a result are all such a :data:`Shape`.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, final

import pyspark.sql.types as T  # noqa: N812
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from mullion._code.syntax import Refused

Kind: TypeAlias = Literal["int", "float", "bool", "str", "time", "length", "none"]


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


def known(shape: Shape) -> Column:
    """Where all of a shape is as Python computes it: true there, and false elsewhere."""
    columns = [where_known(value) for value in values_of(shape)]
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
                there = both_known(known, column.isNotNull())
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


def values_of(shape: Shape) -> list[Value]:
    match shape:
        case Value():
            return [shape]
        case Items(items=items):
            return [value for one in items for value in values_of(one)]
    return [value for one in shape.fields.values() for value in values_of(one)]


def where_known(value: Value) -> Column | None:
    if value.optional:
        return None if value.known is None else F.coalesce(value.known, F.lit(False))
    return value.column.isNotNull()


def both_known(one: Column | None, other: Column | None) -> Column | None:
    return other if one is None else one if other is None else one & other


def known_with(before: Shape, then: Shape) -> Shape:
    """A shape that is not known where another is not, which is computed before it or with it."""
    if all(where_known(value) is None for value in values_of(before)):
        return then
    return known_where(known(before), then)


def part_of(whole: Items | Fields, part: Shape) -> Shape:
    return known_with(whole, part) if whole.made else part


def known_where(where: Column, of: Shape) -> Shape:
    match of:
        case Value(optional=True):
            return replace(of, known=both_known(where, of.known))
        case Value():
            return replace(of, column=F.when(where, of.column))
        case Items(items=items):
            return replace(of, items=tuple(known_where(where, one) for one in items))
    return replace(of, fields={name: known_where(where, one) for name, one in of.fields.items()})


def strict(value: Value) -> Column:
    """A value that must not be ``None``: null where it is, or is not known."""
    return value.column if value.known is None else F.when(value.known, value.column)


def chosen(test: Column, then: Shape, otherwise: Shape) -> Shape:
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
            ways = [F.lit(True) if (where := where_known(one)) is None else where for one in (then, otherwise)]
            return Value(made, kind, True, F.when(test, ways[0]).when(~test, ways[1]).otherwise(F.lit(False)))
        case Items(), Items() if then.kind == otherwise.kind and len(then.items) == len(otherwise.items):
            pairs = zip(then.items, otherwise.items, strict=True)
            return replace(then, items=tuple(chosen(test, one, other) for one, other in pairs))
        case Fields(), Fields() if _alike(then, otherwise):
            fields = {name: chosen(test, one, otherwise.fields[name]) for name, one in then.fields.items()}
            return replace(then, fields=fields)
    raise Refused("it has one shape or another")


def _alike(one: Fields, other: Fields) -> bool:
    return one.kind == other.kind and one.whole == other.whole and list(one.fields) == list(other.fields)
