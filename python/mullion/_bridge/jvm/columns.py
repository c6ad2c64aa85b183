"""Columns computed by the JAR, and a counter of rows."""

from __future__ import annotations

from pyspark.sql import Column, SparkSession
from pyspark.sql.types import StructType

from mullion._bridge.jvm.entry import facade
from mullion._bridge.jvm.objects import column_of, internal, java_column


def row_in_batch(spark: SparkSession) -> Column:
    """The number of a row in its micro-batch, in the source's reading order."""
    return column_of(facade(spark).rowInBatch())


def batch_number(spark: SparkSession) -> Column:
    """The number of a row's micro-batch, known below a window of a stream."""
    return column_of(facade(spark).batchNumber())


def in_shard(spark: SparkSession, key: Column, shown: Column, before: str, after: str) -> Column:
    """A condition that is true for rows in the shard of their key, and fails for others with ``before`` and ``after``.

    For rows from a first stage of :func:`mullion._keyed.api.staged` to a window; ``shown`` is the key, as text.
    """
    return column_of(facade(spark).inShard(java_column(key), java_column(shown), before, after))


def per_text(spark: SparkSession, text: Column, condition: Column) -> Column:
    """A condition that only depends on a text: it is evaluated when the text changes."""
    return column_of(facade(spark).perText(java_column(text), java_column(condition)))


def json_shape(spark: SparkSession, text: Column) -> Column:
    """The shape of a JSON text: ``{`` and field names between newlines, ``n`` for null, ``.`` for another value.

    Null for invalid JSON.
    """
    return column_of(facade(spark).jsonShape(java_column(text)))


def json_fit(spark: SparkSession, text: Column, schema: StructType, scalar: bool) -> Column:
    """``json_shape`` if columns hold the text's exact value, else ``!``.

    An int in a column of floats is marked: a zero character precedes the column's name. With ``scalar`` values are not
    records, and are in the only column; otherwise all are records.
    """
    return column_of(facade(spark).jsonFit(java_column(text), schema.json(), scalar))


def json_shard(spark: SparkSession, text: Column, field: str) -> Column:
    """The shard of a JSON value, by one of its fields, or null: the rule of ``mullion.faust._values.shards``."""
    return column_of(facade(spark).jsonShard(java_column(text), field))


def json_decimals(spark: SparkSession, text: Column, schema: StructType) -> Column:
    """True if a JSON text has a number with more digits after the point than its decimal column."""
    return column_of(facade(spark).jsonDecimals(java_column(text), schema.json()))


class Counter:
    """Counts rows in the JVM."""

    def __init__(self, spark: SparkSession) -> None:
        self._facade = facade(spark)
        self._counter = self._facade.counter(internal(spark, "_jsparkSession"))

    def counted(self, condition: Column) -> Column:
        """The condition; counts the rows for which it is not true, whenever a successful task reads them."""
        return column_of(self._facade.counted(java_column(condition), self._counter))

    @property
    def value(self) -> int:
        """The count."""
        return int(self._counter.value())
