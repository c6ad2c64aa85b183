"""The interface to the operator, in this process (:mod:`mullion._bridge.jvm`) or on a Spark Connect server.

Each function calls one of both, with the same arguments, results and errors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import lit
from pyspark.sql.types import StructType

from mullion._bridge import connect, jvm
from mullion._bridge.connect import is_remote
from mullion._bridge.options import Options
from mullion._bridge.quiet import quiet
from mullion._bridge.request import Description
from mullion.errors import InvalidArgumentError
from mullion.windows import Window


def ready(spark: SparkSession) -> None:
    """Raises an error if the session has no Mullion, or another version."""
    if is_remote(spark):
        connect.greet(spark)
    else:
        jvm.facade(spark)


def is_declared(spark: SparkSession) -> bool:
    """True in a query function of a declarative pipeline, where Spark cannot analyse DataFrames yet."""
    return is_remote(spark) and connect.is_declared(spark)


def check_window(df: DataFrame, window: Window, by: Sequence[Column | str], options: Options) -> None:
    """Raises an error for invalid arguments that are detectable without the aggregates."""
    request = Description("check", window, by, options)
    if is_remote(df):
        connect.check_window(df, request)
    else:
        jvm.check_window(df, request)


def windowed(
    df: DataFrame,
    window: Window,
    by: Sequence[Column | str],
    options: Options,
    *,
    aggregates: Sequence[Column],
    collect: tuple[bool, str, int, bool] | None = None,
) -> DataFrame:
    """The operator over ``df``. Its callers translate Spark's errors about columns."""
    declared = is_declared(df.sparkSession)
    request = Description("windowed", window, by, options).with_functions(df, window, options, is_declared=declared)
    request = request.with_held(aggregates, collect)
    with quiet():
        return connect.windowed(df, request) if is_remote(df) else jvm.windowed(df, request)


def dropped_before(df: DataFrame) -> list[str]:
    """Warnings about Spark operators that drop rows before a window over ``df``."""
    return connect.dropped_before(df) if is_remote(df) else jvm.dropped_before(df)


def together(windows: Mapping[str, DataFrame]) -> DataFrame:
    """Several results of :func:`windowed` in one, each under its name."""
    first = next(iter(windows.values()))
    if not is_declared(first.sparkSession):
        ready(first.sparkSession)
    for name, panes in windows.items():
        require_same(first, panes, f"{name}=")
    return connect.together(windows) if is_remote(first) else jvm.together(windows)


def asof_join(left: DataFrame, right: DataFrame, request: Mapping[str, Any]) -> DataFrame:
    """The rows of ``left``, each with the row of ``right`` that is nearest in time."""
    ready(left.sparkSession)
    return connect.asof_join(left, right, request) if is_remote(left) else jvm.asof_join(left, right, request)


def windowed_join(
    left: DataFrame, right: DataFrame, window: Window, options: Options, join: Mapping[str, Any]
) -> DataFrame:
    """The rows of both sides that are in the same window."""
    ready(left.sparkSession)
    request = Description("windowed_join", window, (), options).with_join(left, window, options, join)
    with quiet():
        return (
            connect.windowed_join(left, right, request) if is_remote(left) else jvm.windowed_join(left, right, request)
        )


def read_panes(
    spark: SparkSession, checkpoint: str, which: int, panes: DataFrame | None, window: str | None
) -> DataFrame:
    """The open panes of a checkpoint, with the aggregates' code from ``panes`` if given."""
    ready(spark)
    if is_remote(spark):
        return connect.read_panes(spark, checkpoint, which, panes, window)
    return jvm.read_panes(spark, checkpoint, which, panes, window)


def open_panes(spark: SparkSession, of: Any, which: int, panes: DataFrame | None, window: str | None) -> DataFrame:
    """The open panes of a query or checkpoint, with the reasons why they are open."""
    ready(spark)
    if is_remote(spark):
        return connect.open_panes(spark, of, which, panes, window)
    return jvm.open_panes(spark, of if isinstance(of, str) else jvm.java_query(of), which, panes, window)


def recover(spark: SparkSession, checkpoint: str) -> int:
    """Resets a checkpoint that has lost state to an earlier batch. Returns the number of batches to repeat."""
    ready(spark)
    return connect.recover(spark, checkpoint) if is_remote(spark) else jvm.recover(spark, checkpoint)


def with_arrival(df: DataFrame, batch: str, row: str) -> DataFrame:
    """The rows with two more columns: the number of their micro-batch, and their place in it.

    Both together are the order of arrival. A batch DataFrame is one micro-batch.
    """
    if is_remote(df):
        return connect.with_arrival(df, batch, row)
    spark = df.sparkSession
    number = jvm.batch_number(spark) if df.isStreaming else lit(0)
    return df.withColumns({batch: number, row: jvm.row_in_batch(spark)})


def keyed(df: DataFrame, stage: Callable[..., Any], schema: StructType, shards: Sequence[Column]) -> DataFrame:
    """A Python function with state over the rows of a stream, in shards by the hash of columns."""
    if is_remote(df):
        return connect.keyed(df, stage, schema, shards)
    return jvm.Stateful(df.sparkSession, stage, schema, shards, wall_timers=False).over(df)


def require_same(df: object, column: object, what: str) -> None:
    """Raises an error if one object belongs to Spark Connect and the other to this process."""
    if is_remote(df) == is_remote(column):
        return
    here, there = ("Spark Connect", "this process") if is_remote(df) else ("this process", "Spark Connect")
    raise InvalidArgumentError(
        f"{what} belongs to {there}, and the DataFrame to {here}. Make both in one session; columns of functions such "
        "as F.col belong to Spark Connect while a remote session is active."
    )
