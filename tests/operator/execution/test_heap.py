"""The JVM's memory of queries with Python functions does not grow with their batches."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from mullion import Global, PythonAggregate, Tumbling, windowed
from mullion._keyed.api import State, stateful_map
from tests.support.checked import settings
from tests.support.clocked import ClockedQuery
from tests.support.heap import live
from tests.support.streams import SECOND, Feed

pytestmark = pytest.mark.slow

# The folder of the tests is not on the workers' path.
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]

FEW, MANY = (int(os.environ.get(f"MULLION_TEST_HEAP_{name}", n)) for name, n in (("FEW", 10), ("MANY", 30)))


def totals(batches: Iterator[pa.RecordBatch], state: State) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = batch.select(["k", "n"]).to_pylist()
        for row in rows:
            key = row["k"].encode()
            row["n"] += int(state.get(key) or b"0")
            state.put(key, str(row["n"]).encode())
        yield pa.RecordBatch.from_pylist(rows)


class Total(PythonAggregate, returns="bigint"):
    def create(self) -> int:
        return 0

    def add(self, total: int, rows: pa.RecordBatch) -> int:
        return total + int(sum(rows["n"].to_pylist()))

    def merge(self, a: int, b: int) -> int:
        return a + b


def first_three(rows: pa.Table) -> list[int]:
    return [3] if rows.num_rows >= 3 else []


def test_stateful_functions_keep_as_much_after_many_batches_as_after_a_few(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "k string, n bigint")
    rows = feed.stream(spark)
    out = stateful_map(rows, totals, "k string, n bigint", shard_by="k")
    split = windowed(rows, Global.split(first_three, columns=["n"]), by="k", time=None).agg(F.sum("n"))
    with settings(spark, {"spark.sql.mullion.pythonAggregate.waitingRows": "1"}):
        aggregated = windowed(rows, Tumbling("1 minute"), by="k", time="ts").agg(total=Total("n"))
    queries = [
        ClockedQuery(out, checkpoint=tmp_path / "function"),
        ClockedQuery(split, checkpoint=tmp_path / "split"),
        ClockedQuery(aggregated, checkpoint=tmp_path / "aggregate"),
    ]
    written = 0

    def run(until: int) -> None:
        nonlocal written
        while written < until:
            feed.write([(written * SECOND, f"key {i}", i) for i in range(20)])
            written += 1
            for query in queries:
                query.settle()

    try:
        run(FEW)
        before = live(spark)
        run(MANY)
        # Less than one object per batch of a query.
        grown = {kind: (before[kind], n) for kind, n in live(spark).items() if n - before[kind] > (MANY - FEW) / 2}
        assert not grown
        assert before.total() > 50, "nothing was counted"
    finally:
        for query in queries:
            query.stop()
