"""The type of a topic's column: the union of the types in all calls of ``produce``.

Types are Spark's. The union of two types widens numbers, accepts nulls (``void``) in any type, and applies to the
elements of arrays, maps and structs. Types without common values are a conflict::

    bigint + double          -> double
    void   + string          -> string
    struct<a> + struct<b>    -> struct<a, b>
    string + bigint          -> a conflict
"""

from __future__ import annotations

import datetime
import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.types as T
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type

from mullion._util.spark_versions import IN_UTC

_INTEGERS = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
_DIGITS: dict[type[T.DataType], int] = {T.ByteType: 3, T.ShortType: 5, T.IntegerType: 10, T.LongType: 19}
_MOST_DIGITS = 38


Join: TypeAlias = Callable[[str, T.DataType, T.DataType], T.DataType]
"""A function that combines two types, such as :func:`union`."""


@dataclass
class ConflictError(Exception):
    """Two types without a union; ``path`` is their location in the column."""

    path: str
    left: T.DataType
    right: T.DataType


class UnstorableError(Exception):
    """An Arrow type without an equivalent in Spark or Parquet."""


def union(path: str, left: T.DataType, right: T.DataType) -> T.DataType:
    """The narrowest type that values of both fit into; raises :class:`ConflictError`."""
    if left == right or isinstance(right, T.NullType):
        return left
    if isinstance(left, T.NullType):
        return right
    if isinstance(left, T.StructType) and isinstance(right, T.StructType):
        others = {field.name: field.dataType for field in right}
        fields = [
            T.StructField(f.name, union(f"{path}.{f.name}", f.dataType, others.pop(f.name, f.dataType))) for f in left
        ]
        return T.StructType(fields + [T.StructField(name, kind) for name, kind in others.items()])
    if isinstance(left, T.ArrayType) and isinstance(right, T.ArrayType):
        return T.ArrayType(union(f"{path}[]", left.elementType, right.elementType))
    if isinstance(left, T.MapType) and isinstance(right, T.MapType):
        keys = union(f"{path}.key", left.keyType, right.keyType)
        return T.MapType(keys, union(f"{path}.value", left.valueType, right.valueType))
    wider = _wider_number(left, right)
    if wider is None:
        raise ConflictError(path, left, right)
    return wider


def exact_union(path: str, left: T.DataType, right: T.DataType) -> T.DataType:
    """The same where no decimal may become a float, which has not all of its digits."""
    conflict = inexact(path, left, right)
    if conflict is not None:
        raise conflict
    return union(path, left, right)


def inexact(path: str, left: T.DataType, right: T.DataType) -> ConflictError | None:
    """The part in which one of two types has decimals and the other one floats; ``None`` if there is none."""
    match left, right:
        case T.StructType(), T.StructType():
            both = [(f"{path}.{f.name}", f.dataType, right[f.name].dataType) for f in left if f.name in right.names]
        case T.ArrayType(), T.ArrayType():
            both = [(f"{path}[]", left.elementType, right.elementType)]
        case T.MapType(), T.MapType():
            both = [(f"{path}.key", left.keyType, right.keyType), (f"{path}.value", left.valueType, right.valueType)]
        case (T.DecimalType(), T.DoubleType() | T.FloatType()) | (T.DoubleType() | T.FloatType(), T.DecimalType()):
            return ConflictError(path, left, right)
        case _:
            both = []
    return next((conflict for each in both if (conflict := inexact(*each)) is not None), None)


def whole_as_decimals(kind: T.DataType, column: T.DataType) -> T.DataType:
    """A type with decimals instead of integers, if another type has decimals there."""
    match kind, column:
        case T.StructType(), T.StructType():
            there = {field.name: field.dataType for field in column}
            fields = [(f.name, whole_as_decimals(f.dataType, there.get(f.name, f.dataType))) for f in kind]
            return T.StructType([T.StructField(*field) for field in fields])
        case T.ArrayType(), T.ArrayType():
            return T.ArrayType(whole_as_decimals(kind.elementType, column.elementType))
        case T.MapType(), T.MapType():
            keys = whole_as_decimals(kind.keyType, column.keyType)
            return T.MapType(keys, whole_as_decimals(kind.valueType, column.valueType))
    return column if isinstance(kind, _INTEGERS) and isinstance(column, T.DecimalType) else kind


def _wider_number(left: T.DataType, right: T.DataType) -> T.DataType | None:
    if isinstance(left, _INTEGERS) and isinstance(right, _INTEGERS):
        return max(left, right, key=lambda kind: _DIGITS[type(kind)])
    a, b = _as_decimal(left), _as_decimal(right)
    if a and b:
        scale = max(a.scale, b.scale)
        precision = max(a.precision - a.scale, b.precision - b.scale) + scale
        return T.DecimalType(precision, scale) if precision <= _MOST_DIGITS else None
    if isinstance(left, T.NumericType) and isinstance(right, T.NumericType):
        return T.DoubleType()
    return None


def _as_decimal(kind: T.DataType) -> T.DecimalType | None:
    if isinstance(kind, T.DecimalType):
        return kind
    digits = _DIGITS.get(type(kind))
    return None if digits is None else T.DecimalType(digits, 0)


def fits(have: T.DataType, want: T.DataType) -> bool:
    """True if a column of the type ``want`` can hold all values of ``have``."""
    try:
        return union("", want, have) == want
    except ConflictError:
        return False


def is_same(have: T.DataType, want: T.DataType) -> bool:
    """True if a column of the type ``want`` holds all values of ``have`` exactly, without wider types or new fields."""
    match have, want:
        case T.NullType(), _:
            return True
        case T.ArrayType(), T.ArrayType():
            return is_same(have.elementType, want.elementType)
        case T.StructType(), T.StructType():
            kinds = {field.name: field.dataType for field in want}
            return kinds.keys() == set(have.names) and all(is_same(f.dataType, kinds[f.name]) for f in have)
    return have == want


def nullable(kind: T.DataType) -> T.DataType:
    """The type with nulls allowed everywhere, as a topic's columns have it."""
    match kind:
        case T.StructType():
            return T.StructType([T.StructField(f.name, nullable(f.dataType)) for f in kind])
        case T.ArrayType():
            return T.ArrayType(nullable(kind.elementType))
        case T.MapType():
            return T.MapType(nullable(kind.keyType), nullable(kind.valueType))
        case T.CharType() | T.VarcharType():
            return T.StringType()
    return kind


def has_null_type(kind: T.DataType) -> bool:
    """True if a part of the type has only nulls."""
    match kind:
        case T.StructType():
            return any(has_null_type(field.dataType) for field in kind)
        case T.ArrayType():
            return has_null_type(kind.elementType)
        case T.MapType():
            return has_null_type(kind.keyType) or has_null_type(kind.valueType)
    return isinstance(kind, T.NullType)


def has_decimals(kind: T.DataType) -> bool:
    """True if the type contains a decimal."""
    match kind:
        case T.StructType():
            return any(has_decimals(field.dataType) for field in kind)
        case T.ArrayType():
            return has_decimals(kind.elementType)
        case T.MapType():
            return has_decimals(kind.valueType)
    return isinstance(kind, T.DecimalType)


def alike(kind: T.DataType, path: str = "") -> tuple[str, str] | None:
    """Two fields of one struct that differ at most in case, so Spark cannot distinguish them; otherwise ``None``."""
    match kind:
        case T.StructType():
            names: dict[str, str] = {}
            for field in kind:
                name = f"{path}{field.name}"
                if field.name.lower() in names:
                    return names[field.name.lower()], name
                names[field.name.lower()] = name
            inner = (alike(field.dataType, f"{path}{field.name}.") for field in kind)
            return next(filter(None, inner), None)
        case T.ArrayType():
            return alike(kind.elementType, f"{path[:-1]}[].")
        case T.MapType():
            return alike(kind.keyType, f"{path}key.") or alike(kind.valueType, f"{path}value.")
    return None


def stored(kind: T.DataType) -> T.DataType:
    """The type as it is in Parquet, which has no nulls without a type: booleans stand for them."""
    match kind:
        case T.NullType():
            return T.BooleanType()
        case T.StructType():
            return T.StructType([T.StructField(f.name, stored(f.dataType)) for f in kind])
        case T.ArrayType():
            return T.ArrayType(stored(kind.elementType))
        case T.MapType():
            return T.MapType(stored(kind.keyType), stored(kind.valueType))
    return kind


def of_arrow(kind: pa.DataType) -> T.DataType:
    """Spark's type for Arrow's; raises :class:`UnstorableError`."""
    types = pa.types
    if types.is_dictionary(kind):
        return of_arrow(kind.value_type)
    if types.is_struct(kind):
        # Parquet has no struct without fields, so it is stored as a null.
        fields = [T.StructField(f.name, of_arrow(f.type)) for f in kind]
        return T.StructType(fields) if fields else T.NullType()
    if types.is_map(kind):
        return T.MapType(of_arrow(kind.key_type), of_arrow(kind.item_type))
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return T.ArrayType(of_arrow(kind.value_type))
    if types.is_unsigned_integer(kind):
        return {8: T.ShortType(), 16: T.IntegerType(), 32: T.LongType()}.get(kind.bit_width, T.DecimalType(20, 0))
    if types.is_float16(kind):
        return T.FloatType()
    if types.is_date64(kind):
        return T.DateType()
    if types.is_decimal(kind) and kind.precision <= _MOST_DIGITS and kind.scale >= 0:
        return T.DecimalType(kind.precision, kind.scale)
    if types.is_string_view(kind) or types.is_large_string(kind):
        return T.StringType()
    if types.is_binary_view(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return T.BinaryType()
    if types.is_duration(kind) or types.is_interval(kind) or types.is_time(kind) or types.is_decimal(kind):
        raise UnstorableError(str(kind))
    try:
        return from_arrow_type(kind, prefer_timestamp_ntz=True)
    except Exception as error:
        raise UnstorableError(str(kind)) from error


def schema_of(schema: pa.Schema) -> T.StructType:
    """Spark's types for a schema's; raises :class:`UnstorableError`."""
    return T.StructType([T.StructField(field.name, of_arrow(field.type)) for field in schema])


@functools.cache
def arrow_of(kind: T.DataType) -> pa.DataType:
    """Arrow's type for Spark's, with instants in UTC."""
    return to_arrow_type(kind, error_on_duplicated_field_names_in_struct=True, **IN_UTC)


def fit_array(values: pa.ChunkedArray, want: pa.DataType) -> pa.ChunkedArray:
    """The values in a type that they fit into."""
    if values.type.equals(want):
        return values
    return pa.chunked_array([_fit(chunk, want) for chunk in values.chunks], want)


def _fit(values: pa.Array, want: pa.DataType) -> pa.Array:
    have, types = values.type, pa.types
    if have.equals(want):
        return values
    none = types.is_null(have) or (types.is_struct(have) and have.num_fields == 0)
    # In files, columns with only nulls are booleans.
    if none or types.is_null(want) or (types.is_boolean(have) and not types.is_boolean(want)):
        return pa.nulls(len(values), want)
    if types.is_dictionary(have):
        return _fit(values.cast(have.value_type), want)
    if types.is_struct(have):
        there = dict(zip((have.field(i).name for i in range(have.num_fields)), values.flatten(), strict=True))
        fields = [want.field(i) for i in range(want.num_fields)]
        missing = pa.nulls(len(values))
        inner = [_fit(there.get(field.name, missing), field.type) for field in fields]
        return pa.StructArray.from_arrays(inner, fields=fields, mask=values.is_null())
    if types.is_nested(have):
        # Neither flattened nor cast: of nulls and structs without fields in lists Arrow loses some then.
        if types.is_fixed_size_list(have):
            size = have.list_size
            ends = pa.array(range(values.offset * size, (values.offset + len(values) + 1) * size, size), pa.int64())
        else:
            ends = values.offsets.cast(pa.int64())
        first, length = ends[0].as_py(), ends[-1].as_py() - ends[0].as_py()
        offsets, none = pc.subtract(ends, first).cast(pa.int32()), values.is_null()
        if types.is_map(have):
            keys, items = values.keys.slice(first, length), values.items.slice(first, length)
            fitted = _fit(keys, want.key_type), _fit(items, want.item_type)
            return pa.MapArray.from_arrays(offsets, *fitted, type=want, mask=none)
        inner = _fit(values.values.slice(first, length), want.value_type)
        return pa.ListArray.from_arrays(offsets, inner, type=want, mask=none)
    if types.is_integer(have) and types.is_decimal(want):
        # Arrow asks for room for the largest int there could be.
        return values.cast(pa.decimal256(76, want.scale)).cast(want)
    # Ints beyond 2**53 lose digits as floats, and nanoseconds error. A time that is out of range is none.
    coarse = types.is_timestamp(have) and have.unit in ("s", "ms")
    return values.cast(want, safe=coarse)


def of_values(path: str, values: Sequence[Any], join: Join = union) -> T.DataType:
    """The type of a column of Python's values; raises :class:`ConflictError` where they have none in common.

    Whatever their order, their type is the union of each one's, which ``join`` makes.
    """
    classes: dict[type, list[Any]] = {}
    for value in values:
        classes.setdefault(type(value), []).append(value)
    kind: T.DataType = T.NullType()
    for one, of in classes.items():
        kind = join(path, kind, _of_class(path, one, of, join))
    return kind


def _of_class(path: str, one: type, values: list[Any], join: Join) -> T.DataType:
    if one in _SCALARS:
        return _SCALARS[one]
    if issubclass(one, Mapping):
        names = dict.fromkeys(name for value in values for name in value)
        for name in names:
            if not isinstance(name, str):
                raise TypeError(f"{name!r} is not a name of a field")
        # A struct without fields is treated as a null.
        fields = [T.StructField(n, of_values(f"{path}.{n}", [value.get(n) for value in values], join)) for n in names]
        return T.StructType(fields) if fields else T.NullType()
    if issubclass(one, (list, tuple, set, frozenset)):
        return T.ArrayType(of_values(f"{path}[]", [inner for value in values for inner in value], join))
    if issubclass(one, datetime.datetime):
        kinds = {T.TimestampNTZType() if value.tzinfo is None else T.TimestampType() for value in values}
        first, *others = kinds
        for other in others:
            raise ConflictError(path, first, other)
        return first
    return of_arrow(pa.array(values).type)


_SCALARS: dict[type, T.DataType] = {
    type(None): T.NullType(),
    bool: T.BooleanType(),
    int: T.LongType(),
    float: T.DoubleType(),
    str: T.StringType(),
    bytes: T.BinaryType(),
    bytearray: T.BinaryType(),
    datetime.date: T.DateType(),
}
"""Classes that determine the type of their values."""


def values_for(values: Sequence[Any], kind: T.DataType) -> Sequence[Any]:
    """Python values in the form that PyArrow accepts for a type of :func:`of_values`."""
    match kind:
        case T.DoubleType():
            return [None if value is None else float(value) for value in values]
        case T.NullType():
            return [None] * len(values)
        case T.StructType():
            fields = {f.name: values_for([v.get(f.name) if v else None for v in values], f.dataType) for f in kind}
            rows = zip(*fields.values(), strict=True)
            return [
                None if value is None else dict(zip(fields, row, strict=True))
                for value, row in zip(values, rows, strict=True)
            ]
        case T.ArrayType():
            inner = iter(values_for([i for value in values if value is not None for i in value], kind.elementType))
            return [None if value is None else list(itertools.islice(inner, len(value))) for value in values]
    return values


def fit_column(column: Column, have: T.DataType, want: T.DataType) -> Column:
    """The same on Spark's side."""
    if have == want:
        return column
    match have, want:
        case (T.NullType(), _) | (_, T.NullType()):
            return F.lit(None).cast(want)
        case T.StructType(), T.StructType():
            fields = []
            for field in want:
                if field.name in have.names:
                    inner = fit_column(column.getField(field.name), have[field.name].dataType, field.dataType)
                else:
                    inner = F.lit(None).cast(field.dataType)
                fields.append(inner.alias(field.name))
            return F.when(column.isNotNull(), F.struct(*fields))
        case T.ArrayType(), T.ArrayType():
            return F.transform(column, lambda x: fit_column(x, have.elementType, want.elementType))
        case T.MapType(), T.MapType():
            if have.keyType != want.keyType:
                column = F.transform_keys(column, lambda k, _: fit_column(k, have.keyType, want.keyType))
            return F.transform_values(column, lambda _, v: fit_column(v, have.valueType, want.valueType))
    return column.cast(want)
