"""PySpark's objects and the JVM's objects behind them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import col

from mullion._bridge.connect import is_remote
from mullion.errors import UnsupportedError


def require_classic(thing: object, what: str) -> None:
    """Raises :class:`UnsupportedError` when ``thing`` (a DataFrame, session or column) belongs to Spark Connect."""
    if is_remote(thing):
        raise UnsupportedError(
            f"{what} belongs to Spark Connect, and this works only in the process of Spark's driver. Over Spark "
            "Connect there are windowed(...).agg(...), .collect(...), together(...), flat(...), read_panes(...), "
            "open_panes(...), recover(...), mullion.functions, and SQL. For the rest, create the session on the "
            "driver, without .remote(...) and with SPARK_REMOTE and SPARK_CONNECT_MODE_ENABLED unset; on Databricks, "
            "use a cluster in dedicated (single-user) access mode, not a shared or serverless one."
        )


def internal(thing: object, name: str) -> Any:
    """The JVM object behind a PySpark object."""
    return getattr(thing, name)


def java_column(column: Column | str) -> Any:
    """The JVM's column for a column or a name."""
    return internal(col(column) if isinstance(column, str) else column, "_jc")


def java_columns(spark: SparkSession, columns: Sequence[Column | str]) -> Any:
    """The same for several, as a Java array."""
    return java_array(spark, "org.apache.spark.sql.Column", [java_column(column) for column in columns])


def column_of(java_column: Any) -> Column:
    """A column from the JAR."""
    # Only a classic PySpark has this module; a pure client of Connect must still be able to import this package.
    from pyspark.sql.classic.column import Column as ClassicColumn

    return ClassicColumn(java_column)


def dataframe_of(jdf: Any, spark: SparkSession) -> DataFrame:
    """A DataFrame from the JAR."""
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

    return ClassicDataFrame(jdf, spark)


def java_array(spark: SparkSession, kind: str, items: Sequence[Any]) -> Any:
    """A Java array."""
    context = spark.sparkContext
    assert context._gateway is not None
    array = context._gateway.new_array(getattr(spark._jvm, kind), len(items))
    for index, item in enumerate(items):
        array[index] = item
    return array
