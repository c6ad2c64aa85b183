"""The rows of panes as an aggregate: a list of structs, each with the row's order of arrival.

An aggregate works for all windows and options. Each row of the list has its place, because the aggregation before the
shuffle loses the order of arrival; the list is sorted above the operator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as T  # noqa: N812

from mullion._bridge.request import quoted

BATCH: Final = "_mullion_batch"
ROW: Final = "_mullion_row"
RECORD: Final = "_mullion_record"
"""The columns of a list: the order of arrival, and the row."""


def list_of(record: Column, place: Sequence[Column], name: str) -> Column:
    """The aggregate: rows with their places, which no two rows share."""
    return sf.collect_list(sf.struct(*place, record.alias(RECORD))).alias(name)


def sorted_lists(panes: DataFrame, name: str) -> DataFrame:
    """The panes with their lists in order, without the places.

    This is computed above the operator, which identifies its state by the text of aggregates: lambdas have no text. No
    two places are equal, so records are never compared; but Spark rejects those that have no order, such as maps.
    """
    listed = panes.schema[name].dataType
    assert isinstance(listed, T.ArrayType)
    assert isinstance(listed.elementType, T.StructType)
    place = listed.elementType.names[:-1]
    column = sf.col(quoted(name))
    ordered = sf.array_sort(column) if _has_order(listed) else sf.array_sort(column, _by(place))
    return panes.withColumn(name, sf.transform(ordered, lambda each: each[RECORD]))


def _by(place: Sequence[str]) -> Callable[[Column, Column], Column]:
    def compared(left: Column, right: Column) -> Column:
        one, other = (sf.struct(*(row[name] for name in place)) for row in (left, right))
        return sf.when(one < other, sf.lit(-1)).when(one > other, sf.lit(1)).otherwise(sf.lit(0))

    return compared


def _has_order(kind: T.DataType) -> bool:
    """True if Spark can sort values of a type."""
    if isinstance(kind, T.StructType):
        return all(_has_order(each.dataType) for each in kind)
    if isinstance(kind, T.ArrayType):
        return _has_order(kind.elementType)
    return not isinstance(kind, (T.MapType, T.VariantType, T.CalendarIntervalType))
