"""Windows: the operator, its open panes, and the keys of tables of panes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from mullion._bridge.jvm.entry import facade
from mullion._bridge.jvm.objects import dataframe_of, internal, java_array, java_columns
from mullion._bridge.request import Description


def check_window(df: DataFrame, request: Description) -> None:
    """Checks a window before its aggregates are known."""
    spark = df.sparkSession
    facade(spark).checkWindow(internal(df, "_jdf"), request.json, java_columns(spark, request.columns))


def windowed(df: DataFrame, request: Description) -> DataFrame:
    """The operator over ``df``."""
    spark = df.sparkSession
    panes = facade(spark).windowed(internal(df, "_jdf"), request.json, java_columns(spark, request.columns))
    return dataframe_of(panes, spark)


def dropped_before(df: DataFrame) -> list[str]:
    """Warnings about rows that Spark's operators drop before a window over ``df``."""
    return str(facade(df.sparkSession).droppedBefore(internal(df, "_jdf"))).splitlines()


def together(windows: Mapping[str, DataFrame]) -> DataFrame:
    """Several results of :func:`windowed` in one DataFrame, each under its name."""
    spark = next(iter(windows.values())).sparkSession
    jvm = facade(spark)
    frames = [internal(panes, "_jdf") for panes in windows.values()]
    names = java_array(spark, "java.lang.String", list(windows))
    return dataframe_of(jvm.together(names, java_array(spark, "org.apache.spark.sql.Dataset", frames)), spark)


def asof_join(left: DataFrame, right: DataFrame, request: Mapping[str, Any]) -> DataFrame:
    """The rows of ``left``, each with the row of ``right`` that is nearest in time."""
    spark = left.sparkSession
    joined = facade(spark).asOfJoin(internal(left, "_jdf"), internal(right, "_jdf"), json.dumps(request))
    return dataframe_of(joined, spark)


def windowed_join(left: DataFrame, right: DataFrame, request: Description) -> DataFrame:
    """The rows of both sides that are in the same window."""
    spark = left.sparkSession
    columns = java_columns(spark, request.columns)
    joined = facade(spark).windowedJoin(internal(left, "_jdf"), internal(right, "_jdf"), request.json, columns)
    return dataframe_of(joined, spark)


def pane_keys(panes: DataFrame) -> list[str]:
    """The columns that identify a pane together with its id."""
    return list(facade(panes.sparkSession).paneKeys(internal(panes, "_jdf")))


def read_panes(
    spark: SparkSession, checkpoint: str, which: int, panes: DataFrame | None, window: str | None
) -> DataFrame:
    """The open panes of a checkpoint; with ``panes``, with the code of its aggregates."""
    jvm = facade(spark)
    if window is not None:
        return dataframe_of(jvm.readBranchPanes(internal(spark, "_jsparkSession"), checkpoint, which, window), spark)
    if panes is None:
        return dataframe_of(jvm.readPanes(internal(spark, "_jsparkSession"), checkpoint, which), spark)
    return dataframe_of(jvm.readPanesOf(internal(panes, "_jdf"), checkpoint, which), spark)


def compare(panes: DataFrame, checkpoint: str) -> DataFrame:
    """The effect of starting a query over a checkpoint."""
    spark = panes.sparkSession
    return dataframe_of(facade(spark).compare(internal(panes, "_jdf"), checkpoint), spark)


def open_panes(spark: SparkSession, of: Any, which: int, panes: DataFrame | None, window: str | None) -> DataFrame:
    """The reasons why panes are open, of a query of the JVM or of a checkpoint."""
    jvm = facade(spark)
    code = None if panes is None else internal(panes, "_jdf")
    if isinstance(of, str):
        return dataframe_of(jvm.openPanes(internal(spark, "_jsparkSession"), of, which, code, window), spark)
    return dataframe_of(jvm.openPanesOf(of, which, code, window), spark)
