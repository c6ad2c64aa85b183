"""Columns that the JAR computes, and a counter of rows."""

from __future__ import annotations

from pyspark.sql import Column, SparkSession
from pyspark.sql.types import StructType

from mullion._jvm.entry import facade
from mullion._jvm.objects import column_of, internal, java_column


def row_in_batch(spark: SparkSession) -> Column:
    """The number of a row in its micro-batch, in the order in which the source is read."""
    return column_of(facade(spark).rowInBatch())


def batch_number(spark: SparkSession) -> Column:
    """The number of the micro-batch that a row came in; it is known below a window of a stream."""
    return column_of(facade(spark).batchNumber())


def in_shard(spark: SparkSession, key: Column, shown: Column, before: str, after: str) -> Column:
    """A condition that is true of rows in the shard of their key, and fails for others with ``before`` and ``after``.

    For rows that a first stage of :func:`mullion._stateful.api.staged` gives to a window; ``shown`` is the key,
    as text.
    """
    return column_of(facade(spark).inShard(java_column(key), java_column(shown), before, after))


def per_text(spark: SparkSession, text: Column, condition: Column) -> Column:
    """A condition on nothing but a text that is the same for many rows on end: it is asked when the text changes."""
    return column_of(facade(spark).perText(java_column(text), java_column(condition)))


def json_shape(spark: SparkSession, text: Column) -> Column:
    """What a text is as JSON: ``{`` and each field's name between newlines, ``n`` for null, ``.`` for another value.

    Null for what is none.
    """
    return column_of(facade(spark).jsonShape(java_column(text)))


def json_fit(spark: SparkSession, text: Column, schema: StructType, scalar: bool) -> Column:
    """The same where columns hold the text's value as it is, and ``!`` where they do not.

    An int in a column of floats is marked: a zero character is before the column's name. With ``scalar`` values are no
    records, and are in the only column; without it all are records.
    """
    return column_of(facade(spark).jsonFit(java_column(text), schema.json(), scalar))


def json_shard(spark: SparkSession, text: Column, field: str) -> Column:
    """The shard of a value in JSON, by a field of it, or null: the rule of ``mullion.faust._values.shards``."""
    return column_of(facade(spark).jsonShard(java_column(text), field))


def json_decimals(spark: SparkSession, text: Column, schema: StructType) -> Column:
    """Whether a text in JSON has a number with more digits after the point than the decimal that it is read as."""
    return column_of(facade(spark).jsonDecimals(java_column(text), schema.json()))


class Counter:
    """Counts rows in the JVM, on their way past."""

    def __init__(self, spark: SparkSession) -> None:
        self._facade = facade(spark)
        self._counter = self._facade.counter(internal(spark, "_jsparkSession"))

    def counted(self, condition: Column) -> Column:
        """The condition; a row for which it is not true is counted, each time that a task to its end reads it."""
        return column_of(self._facade.counted(java_column(condition), self._counter))

    @property
    def value(self) -> int:
        """How many there were."""
        return int(self._counter.value())
