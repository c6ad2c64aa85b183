"""The union of types, which a topic's column has: it holds both, whichever came first."""

from __future__ import annotations

import contextlib
import decimal
from typing import Any

import pyarrow as pa
import pyspark.sql.types as T
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mullion.topics._types import ConflictError, arrow_of, fit_array, fits, of_arrow, stored, union

SCALARS = [
    T.NullType(),
    T.BooleanType(),
    T.ByteType(),
    T.IntegerType(),
    T.LongType(),
    T.FloatType(),
    T.DoubleType(),
    T.DecimalType(10, 2),
    T.DecimalType(38, 0),
    T.StringType(),
    T.TimestampType(),
]


def structs(kinds: st.SearchStrategy[T.DataType]) -> st.SearchStrategy[T.DataType]:
    fields = st.dictionaries(st.sampled_from("abc"), kinds, min_size=1)
    return fields.map(lambda of: T.StructType([T.StructField(name, kind) for name, kind in of.items()]))


TYPES: st.SearchStrategy[T.DataType] = st.recursive(
    st.sampled_from(SCALARS),
    lambda kinds: st.one_of(
        kinds.map(T.ArrayType), structs(kinds), kinds.map(lambda of: T.MapType(T.StringType(), of))
    ),
    max_leaves=4,
)


def union_or_none(left: T.DataType, right: T.DataType) -> T.DataType | None:
    with contextlib.suppress(ConflictError):
        return union("x", left, right)
    return None


@settings(max_examples=300, deadline=None)
@given(TYPES, TYPES)
def test_a_union_holds_both_and_nothing_changes_when_they_come_again(left: T.DataType, right: T.DataType) -> None:
    both = union_or_none(left, right)
    other_way = union_or_none(right, left)
    assert (both is None) == (other_way is None)
    if both is not None:
        assert other_way is not None
        assert fits(left, both)
        assert fits(right, both)
        assert fits(other_way, both), "the order is that of fields alone"
        assert union("x", both, left) == both
    assert union("x", left, left) == left
    assert of_arrow(arrow_of(left)) == left
    assert T.NullType not in {type(kind) for kind in leaves(stored(left))}


def leaves(kind: T.DataType) -> list[T.DataType]:
    match kind:
        case T.StructType():
            return [leaf for field in kind for leaf in leaves(field.dataType)]
        case T.ArrayType():
            return leaves(kind.elementType)
        case T.MapType():
            return leaves(kind.keyType) + leaves(kind.valueType)
    return [kind]


@pytest.mark.parametrize(
    ("left", "right", "both"),
    [
        (T.LongType(), T.DoubleType(), T.DoubleType()),
        (T.IntegerType(), T.LongType(), T.LongType()),
        (T.FloatType(), T.ByteType(), T.DoubleType()),
        (T.DecimalType(10, 2), T.IntegerType(), T.DecimalType(12, 2)),
        (T.DecimalType(10, 2), T.DecimalType(6, 4), T.DecimalType(12, 4)),
        (T.DecimalType(38, 0), T.DecimalType(3, 2), None),
        (T.DecimalType(10, 2), T.DoubleType(), T.DoubleType()),
        (T.StringType(), T.LongType(), None),
        (T.BooleanType(), T.LongType(), None),
        (T.TimestampType(), T.TimestampNTZType(), None),
        (T.ArrayType(T.NullType()), T.ArrayType(T.StringType()), T.ArrayType(T.StringType())),
        (T.ArrayType(T.LongType()), T.LongType(), None),
    ],
)
def test_numbers_widen_nulls_are_anything_and_the_rest_stays_apart(
    left: T.DataType, right: T.DataType, both: T.DataType | None
) -> None:
    assert union_or_none(left, right) == union_or_none(right, left) == both


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        (pa.array([1, None]), pa.float64(), [1.0, None]),
        (pa.array([2**60 + 1]), pa.float64(), [float(2**60)]),
        (pa.array([7], pa.int32()), pa.decimal128(12, 2), [decimal.Decimal("7.00")]),
        (pa.array([None]), pa.list_(pa.string()), [None]),
        (pa.array([{}, None], pa.struct([])), pa.bool_(), [None, None]),
        (pa.array(["a", "b", "a"]).dictionary_encode(), pa.string(), ["a", "b", "a"]),
        (pa.array([[1], None, []]), pa.list_(pa.float64()), [[1.0], None, []]),
        (pa.array([[{}, {}], [{}]], pa.large_list(pa.struct([]))), pa.list_(pa.null()), [[None, None], [None]]),
        (pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int8(), 2))[1:], pa.list_(pa.float64()), [None, [3.0, 4.0]]),
        (
            pa.array([[("a", 2**60 + 1)], None, [("b", 2), ("c", None)]], pa.map_(pa.string(), pa.int64()))[1:],
            pa.map_(pa.string(), pa.float64()),
            [None, [("b", 2.0), ("c", None)]],
        ),
        (pa.array([{"a": 1}, None]), pa.struct({"b": pa.string(), "a": pa.float64()}), [{"a": 1.0, "b": None}, None]),
    ],
)
def test_values_are_the_same_in_a_wider_type(values: pa.Array, kind: pa.DataType, expected: list[Any]) -> None:
    fitted = fit_array(pa.chunked_array([values]), kind)
    assert fitted.type == kind
    assert fitted.to_pylist() == expected
