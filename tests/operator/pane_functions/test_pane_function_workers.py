"""Workers of functions over panes: a query stops while they run, and a worker that exits fails it with a message."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion import Custom, Global, Pane, PaneProcessor, PythonAggregate, TaskFailedError, Tumbling, windowed
from mullion._native.windowed_rows import Windowed
from mullion.errors import QueryFailedError
from tests.support.checked import settings
from tests.support.functions.python_aggregates import WAITING
from tests.support.streams import SECOND, Feed

# Workers do not have the folder of the tests on their path.
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]


class Sleeps(PaneProcessor, returns="n int"):
    """Never returns from its first row."""

    def __init__(self, began: Path) -> None:
        self.began = began

    def on_row(self, state: Any, key: Any, pane: Pane, row: Any) -> None:
        self.began.touch()
        time.sleep(3600)


class Exits(PaneProcessor, returns="n int"):
    """Ends its process."""

    def on_row(self, state: Any, key: Any, pane: Pane, row: Any) -> None:
        os._exit(7)


def sleeping_function(rows: Windowed, began: Path) -> DataFrame:
    def sleeps(key: Any, pane: Pane, rows: Iterator[pa.RecordBatch]) -> Any:
        began.touch()
        time.sleep(3600)

    return rows.apply(sleeps, "n int")


def sleeping_processor(rows: Windowed, began: Path) -> DataFrame:
    return rows.process(Sleeps(began))


class ExitingSum(PythonAggregate, returns="int"):
    def create(self) -> int:
        return 0

    def add(self, total: int, rows: pa.RecordBatch) -> int:
        os._exit(7)

    def merge(self, a: int, b: int) -> int:
        return a + b


class ExitingResult(PythonAggregate, returns="int"):
    def create(self) -> int:
        return 0

    def add(self, total: int, rows: pa.RecordBatch) -> int:
        return total

    def merge(self, a: int, b: int) -> int:
        return a + b

    def finish(self, total: int) -> int:
        os._exit(7)


def per_minute(rows: DataFrame) -> Windowed:
    return windowed(rows, Tumbling("1 minute"), by="k", time="ts")


def exiting_function(rows: DataFrame) -> DataFrame:
    def exits(key: Any, pane: Pane, rows: Iterator[pa.RecordBatch]) -> None:
        os._exit(7)

    return per_minute(rows).apply(exits, "n int")


def exiting_processor(rows: DataFrame) -> DataFrame:
    return per_minute(rows).process(Exits())


def exiting_aggregate(rows: DataFrame) -> DataFrame:
    return per_minute(rows).agg(total=ExitingSum("v"))


def exiting_result(rows: DataFrame) -> DataFrame:
    return per_minute(rows).agg(total=ExitingResult("v"))


def exiting_ranges(rows: DataFrame) -> DataFrame:
    def ranges(time: datetime) -> list[tuple[datetime, datetime]]:
        os._exit(7)

    return windowed(rows, Custom(ranges), by="k", time="ts").agg(n=F.count("*"))


def exiting_split(rows: DataFrame) -> DataFrame:
    def split(rows: pa.RecordBatch) -> list[int]:
        os._exit(7)

    return windowed(rows, Global.split(split), by="k", time=None).agg(n=F.count("*"))


EXITS: list[tuple[Callable[[DataFrame], DataFrame], str]] = [
    (exiting_function, "exits"),
    (exiting_processor, "Exits"),
    (exiting_aggregate, "ExitingSum"),
    (exiting_result, "ExitingResult"),
    (exiting_ranges, "ranges"),
    (exiting_split, "split"),
]


@pytest.mark.parametrize("panes", [sleeping_function, sleeping_processor])
def test_a_query_stops_while_a_function_sleeps(
    panes: Callable[[Windowed, Path], DataFrame], spark: SparkSession, tmp_path: Path
) -> None:
    feed, began = Feed(tmp_path / "in", "k string, v int"), tmp_path / "began"
    feed.write([(SECOND, "a", 1)])
    feed.flood()
    writer = panes(per_minute(feed.stream(spark)), began).writeStream.format("noop")
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    while query.isActive and not began.exists():
        query.awaitTermination(1)
    # Raises an error after the session's stopTimeout.
    query.stop()
    assert query.exception() is None
    assert began.exists()


@pytest.mark.parametrize(("panes", "name"), EXITS)
def test_an_exit_of_a_worker_fails_the_query_with_the_name_of_its_function(
    panes: Callable[[DataFrame], DataFrame], name: str, spark: SparkSession, tmp_path: Path
) -> None:
    feed = Feed(tmp_path / "in", "k string, v int")
    feed.write([(SECOND, "a", 1)])
    feed.flood()
    with settings(spark, {WAITING: "1"}):
        writer = panes(feed.stream(spark)).writeStream.format("noop")
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    with pytest.raises(
        TaskFailedError, match=rf"^A Python worker .* ended unexpectedly while it ran {name}: its process"
    ):
        query.awaitTermination()


@pytest.mark.parametrize(("panes", "name"), EXITS)
def test_an_exit_of_a_worker_fails_an_action_on_a_batch_with_the_name_of_its_function(
    panes: Callable[[DataFrame], DataFrame], name: str, spark: SparkSession
) -> None:
    rows = spark.sql("SELECT timestamp'2024-01-01' AS ts, 'a' AS k, 1 AS v")
    output = panes(rows)
    actions = (output.collect, output.toArrow, output.write.format("noop").mode("overwrite").save)
    for action in actions if name == "exits" else actions[:1]:
        with pytest.raises(
            QueryFailedError, match=rf"^A Python worker .* ended unexpectedly while it ran {name}: its process"
        ):
            action()
