"""Hundreds of batches of queries with Python functions: the JVM, the workers, the files and the state do not grow."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from mullion import Pane, PaneProcessor, PythonAggregate, Session, Sliding, windowed
from tests.support.checked import settings
from tests.support.functions.python_aggregates import WAITING
from tests.support.heap import live

pytestmark = pytest.mark.slow

# Workers do not have the folder of the tests on their path.
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]

FEW, MANY = (int(os.environ.get(f"MULLION_TEST_LONG_{name}", n)) for name, n in (("FEW", 60), ("MANY", 360)))
CONF = {
    WAITING: "2",
    # Files of old batches are deleted early, so that their number is constant from the first count on.
    "spark.sql.streaming.minBatchesToRetain": "5",
    "spark.sql.streaming.stateStore.maintenanceInterval": "2s",
    "spark.sql.streaming.numRecentProgressUpdates": "10",
}
WORKER_MB = 24
"""The memory that a worker may gain between the counts: allocators do not return all of it to the system."""


class Ids(PythonAggregate, returns="bigint"):
    """The number of distinct ids of a pane. Each call returns a new list."""

    def create(self) -> list[int]:
        return []

    def add(self, ids: list[int], rows: pa.RecordBatch) -> list[int]:
        return sorted({*ids, *rows["value"].to_pylist()})

    def merge(self, a: list[int], b: list[int]) -> list[int]:
        return sorted({*a, *b})

    def finish(self, ids: list[int]) -> int:
        return len(ids)


class Rows(PaneProcessor, returns="n bigint"):
    """The rows of a session, in a state that merges."""

    def create(self) -> dict[str, Any]:
        return {"ids": []}

    def on_row(self, state: dict[str, Any], key: Any, pane: Pane, row: dict[str, Any]) -> Iterator[dict[str, Any]]:
        state["ids"].append(row["value"])
        if row["value"] % 50 == 0:
            yield {"n": row["value"]}

    def merge(self, state: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
        state["ids"] += other["ids"]
        return state

    def on_close(self, state: dict[str, Any], key: Any, pane: Pane) -> dict[str, Any]:
        return {"n": len(state["ids"])}


@dataclass(frozen=True)
class Usage:
    """The memory, the files and the state of a query."""

    objects: Counter[str]
    worker_mb: int
    files: int
    records: int


def workers_mb() -> int:
    """The memory of the largest of Spark's Python workers, the processes that its daemon has started."""
    sizes = [0]
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            if b"pyspark.daemon" in (status.parent / "cmdline").read_bytes():
                fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
                sizes.append(int(fields["VmRSS"].split()[0]) >> 10)
        except (OSError, KeyError):
            # The process has ended.
            continue
    return max(sizes)


def usage_of(spark: SparkSession, query: StreamingQuery, checkpoint: Path) -> Usage:
    progress: Any = query.lastProgress
    assert progress is not None
    records = sum(int(operator["numRowsTotal"]) for operator in progress["stateOperators"])
    return Usage(live(spark), workers_mb(), fewest_files(query, checkpoint), records)


def fewest_files(query: StreamingQuery, checkpoint: Path) -> int:
    """The lowest number of files after each of some batches: maintenance deletes old ones now and then."""
    counts = []
    for _ in range(12):
        counts.append(sum(1 for file in checkpoint.rglob("*") if file.is_file()))
        progress: Any = query.lastProgress
        run_until(query, progress["batchId"] + 1)
    return min(counts)


def run_until(query: StreamingQuery, batches: int) -> None:
    while (query.lastProgress or {"batchId": -1})["batchId"] < batches:
        assert query.isActive, query.exception()
        query.awaitTermination(1)


def stop_maintenance(spark: SparkSession) -> None:
    """Unloads all state. Maintenance begins again with the next query, at the interval that is set then."""
    jvm: Any = spark._jvm
    jvm.org.apache.spark.sql.execution.streaming.state.StateStore.stop()


def aggregates(rows: DataFrame) -> DataFrame:
    return windowed(rows, Sliding("1 minute", "20 seconds"), by="k", time="timestamp").agg(
        ids=Ids("value"), n=F.count("*")
    )


def processors(rows: DataFrame) -> DataFrame:
    return windowed(rows, Session("15 seconds"), by="k", time="timestamp").process(Rows())


@pytest.mark.parametrize("panes", [aggregates, processors])
def test_hundreds_of_batches_use_as_much_as_the_first_ones(panes: Any, spark: SparkSession, tmp_path: Path) -> None:
    stop_maintenance(spark)
    with settings(spark, CONF):
        rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 60).option("numPartitions", 1)
        rows = rate.option("advanceMillisPerBatch", 10_000).load().withWatermark("timestamp", "0 seconds")
        # A key has rows in some batches only, so that its sessions close.
        keyed = rows.withColumn("k", F.col("value") % 20 + F.floor(F.col("value") / 180) % 7 * 20)
        checkpoint = tmp_path / "checkpoint"
        query = panes(keyed).writeStream.format("noop").option("checkpointLocation", str(checkpoint)).start()
        try:
            run_until(query, FEW)
            few = usage_of(spark, query, checkpoint)
            run_until(query, MANY)
            many = usage_of(spark, query, checkpoint)
        finally:
            query.stop()
            stop_maintenance(spark)
    batches = MANY - FEW
    # Less than one object of a class for four batches; a batch may run while they are counted.
    grown = {
        kind: (few.objects[kind], n) for kind, n in many.objects.items() if n - few.objects[kind] > 20 + batches // 4
    }
    assert not grown
    assert few.objects.total() > 50, "nothing was counted"
    assert few.worker_mb > 0
    assert many.worker_mb <= few.worker_mb + WORKER_MB
    assert many.files <= few.files + max(20, batches // 10)
    assert many.records <= 2 * few.records + 50
