"""The workers of Python aggregates: they are used again, may print and fork, stop with the query, and may die."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from mullion import (
    FunctionError,
    PythonAggregate,
    Tumbling,
    windowed,
)
from tests.support.checked import settings
from tests.support.clocked import ClockedQuery
from tests.support.functions.python_aggregates import COLUMNS, WAITING, Ids, of_batch
from tests.support.streams import SECOND, Feed


def test_a_worker_that_dies_fails_the_query_with_the_aggregates_name(spark: SparkSession) -> None:
    class Killer(Ids, returns="array<bigint>"):
        def add(self, ids: list[int], rows: pa.RecordBatch) -> list[int]:
            import os

            os._exit(7)

    with settings(spark, {WAITING: "1"}), pytest.raises(Exception, match=r"Python worker|crashed") as failed:
        of_batch(spark, Killer(F.col("v").alias("id"))).collect()
    assert "exited" in str(failed.value) or "ended" in str(failed.value)


def test_a_function_may_print_and_start_processes(spark: SparkSession) -> None:
    class Busy(Ids, returns="array<bigint>"):
        def add(self, ids: list[int], rows: pa.RecordBatch) -> list[int]:
            import os

            print("out" * 10_000)
            print("err" * 1000, file=sys.stderr)
            child = os.fork()
            if child == 0:
                os._exit(0)
            os.waitpid(child, 0)
            return super().add(ids, rows)

    with settings(spark, {WAITING: "1"}):
        (pane,) = of_batch(spark, Busy(F.col("v").alias("id"))).collect()
    assert pane.result == list(range(100))


def test_tasks_use_the_workers_of_earlier_tasks(spark: SparkSession) -> None:
    class Processes(PythonAggregate, returns="array<bigint>"):
        def create(self) -> list[int]:
            return []

        def add(self, processes: list[int], rows: pa.RecordBatch) -> list[int]:
            import os

            return [*processes, os.getpid()]

        def merge(self, a: list[int], b: list[int]) -> list[int]:
            return a + b

    processes = set[int]()
    with settings(spark, {WAITING: "1"}):
        for _ in range(6):
            (pane,) = of_batch(spark, Processes("v")).collect()
            processes.update(pane.result)
    # Two tasks add rows at a time, and two others finish.
    assert len(processes) <= 4


def test_a_query_stops_while_a_function_runs(spark: SparkSession, tmp_path: Path) -> None:
    began = tmp_path / "began"

    class Endless(Ids, returns="array<bigint>"):
        def add(self, ids: list[int], rows: pa.RecordBatch) -> list[int]:
            import time

            began.touch()
            time.sleep(3600)
            return ids

    feed = Feed(tmp_path / "in", COLUMNS)
    feed.write([(SECOND, "a", 1, 1)])
    with settings(spark, {WAITING: "1"}):
        panes = windowed(feed.stream(spark), Tumbling("1 minute"), by="k", time="ts").agg(ids=Endless("id"))
        writer = panes.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.start()
    while query.isActive and not began.exists():
        query.awaitTermination(1)
    # Raises an error after the session's stopTimeout.
    query.stop()
    assert query.exception() is None


def test_after_a_failure_the_fixed_query_continues_from_its_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", COLUMNS)
    fixed = tmp_path / "fixed"

    class Fragile(Ids, returns="array<bigint>"):
        def add(self, ids: list[int], rows: pa.RecordBatch) -> list[int]:
            if 13 in rows["id"].to_pylist() and not fixed.exists():
                raise ValueError("13")
            return super().add(ids, rows)

    def started() -> ClockedQuery:
        panes = windowed(feed.stream(spark), Tumbling("1 minute"), by="k", time="ts").agg(ids=Fragile("id"))
        return ClockedQuery(panes, checkpoint=tmp_path / "checkpoint")

    with settings(spark, {WAITING: "1"}):
        feed.write([(SECOND * i, "a", i, 0) for i in range(10)])
        with started() as query:
            query.settle()
            feed.write([(SECOND * i, "a", i, 0) for i in range(10, 20)])
            with pytest.raises(FunctionError, match=r"Fragile.add failed: ValueError: 13"):
                query.settle()
        fixed.touch()
        feed.flood()
        with started() as query:
            (pane,) = query.settle()
    assert pane.ids == list(range(20))
