"""The heap, state and files of pipelines do not grow with their batches."""

from __future__ import annotations

import os
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mullion._program.cli import main
from mullion.kx import sp
from tests.support.heap import live
from tests.support.kx import kx_model

pytestmark = pytest.mark.slow

FEW, MANY = (int(os.environ.get(f"MULLION_TEST_HEAP_{name}", n)) for name, n in (("FEW", 60), ("MANY", 260)))
START = datetime(2026, 1, 1, tzinfo=UTC)


def summed(data: pa.Table, total: int) -> int:
    return total + sum(map(int, data["v"].to_pylist()))


def kept_in(checkpoint: Path) -> tuple[int, int]:
    """The number of files apart from Spark's own logs and state, and the bytes of lists of files."""
    files = [file for file in checkpoint.rglob("*") if file.is_file() and "query" not in file.parts]
    return len(files), sum(file.stat().st_size for file in files if file.name == "_files")


def test_pipelines_keep_as_much_after_many_batches_as_after_a_few(spark: SparkSession, tmp_path: Path) -> None:
    out: list[int] = []

    def took(data: pa.Table) -> None:
        out.append(data.num_rows)

    source = sp.read.from_callback("rows")
    full = sp.window.tumbling((30, "s"), "time", count_trigger=7, skip_empty_windows=True)
    once = sp.window.tumbling((10, "s"), "time")
    total = sp.reduce(summed, 0, lambda total: {"v": total})
    ends = [
        source | full | total | sp.write.to_callback(took, name="totals"),
        source
        | once
        | sp.window.sliding((10, "s"), (20, "s"), "time")
        | sp.accumulate(summed, 0, lambda v: {"v": v})
        | sp.write.to_callback(took, name="running"),
    ]
    app = sp.App("kept", *ends, checkpoint=tmp_path / "state", spark=spark)
    published = 0

    def batch() -> pa.Table:
        times = [START + timedelta(seconds=5 * published + n % 5) for n in range(10)]
        return pa.table({"time": pa.array(times, pa.timestamp("us", tz="UTC")), "v": list(range(10))})

    def counts_at(until: int) -> tuple[Any, ...]:
        nonlocal published
        while published < until:
            app.publish("rows", batch())
            running.settle()
            published += 1
        rows = {
            query.job.name: sum(operator["numRowsTotal"] for operator in query.progress[-1]["stateOperators"])
            for query in running.queries
        }
        return live(spark), rows, *kept_in(tmp_path / "state")

    app.publish("rows", batch())
    with app.start() as running:
        heap, rows, files, listed = counts_at(FEW)
        assert heap.total() > 50, "nothing was counted"
        assert all(rows.values()), rows
        later, rows_later, files_later, listed_later = counts_at(MANY)
        # Less than one for each batch of a query.
        grown = {kind: (heap[kind], n) for kind, n in later.items() if n - heap[kind] > (MANY - FEW) / 2}
        assert not grown
        assert all(rows_later[name] <= rows[name] + 5 for name in rows), (rows, rows_later)
        # Files go every twenty batches, and batches without rows count.
        assert files_later <= files + 60, (files, files_later)
        assert listed_later <= listed + 60 * 40, (listed, listed_later)
    assert len(out) > MANY / 2


def test_flushed_overlapping_windows_continue_in_other_partitions_with_constant_state(
    spark: SparkSession, tmp_path: Path
) -> None:
    chance = random.Random(23)
    us = timedelta(microseconds=1)
    batches: list[list[kx_model.Row]] = []
    out: list[kx_model.Out] = []

    def collect(metadata: dict[str, Any], data: pa.Table) -> None:
        start, end = ((edge - START) // us for edge in metadata["window"])
        out.append(((start, end), metadata["partial"], data["v"].to_pylist()))

    def batch() -> pa.Table:
        """Rows of five seconds, out of order but never late; every twenty batches minutes without rows follow."""
        number = len(batches)
        now = number * 5 + number // 20 * 120
        seconds = chance.sample(range(now, now + 5), 5)
        batches.append([(second * 1_000_000, 10 * number + n) for n, second in enumerate(seconds)])
        times = pa.array([START + timedelta(seconds=second) for second in seconds], pa.timestamp("us", tz="UTC"))
        return pa.table({"time": times, "v": [value for _, value in batches[-1]]})

    window = sp.window.sliding((10, "s"), (30, "s"), "time", (5, "s"), count_trigger=4)
    rows: list[int] = []
    for part, folder in enumerate((tmp_path / "one", tmp_path / "two")):
        if part:
            assert main.main(["savepoint", str(tmp_path / "one"), str(folder), "--partitions", "3"]) == 0
        read = sp.read.from_callback("rows", name="rows", schema="time timestamp, v bigint")
        writer = sp.write.to_callback(collect, params=["metadata", "data"], name="windows")
        app = sp.App("flushed", read | window | writer, checkpoint=folder, spark=spark)
        app.publish("rows", batch())
        with app.start() as running:
            while len(batches) < (part + 1) * 100:
                running.settle()
                if len(batches) in (40, 160):
                    rows.append(_rows_of(running))
                app.publish("rows", batch())
            running.settle()
            rows.append(_rows_of(running))

    # At each of these the same windows are open, with as many records.
    assert rows[0] > 3
    assert rows == [rows[0]] * 4
    expected = kx_model.Timed(10_000_000, 30_000_000, 5_000_000, flush=4).run(batches, end=False)
    assert sorted(out, key=lambda each: each[0]) == sorted(expected, key=lambda each: each[0])
    assert sum(not values for _, _, values in out) > 50


def _rows_of(running: Any) -> int:
    (query,) = running.queries
    return sum(operator["numRowsTotal"] for operator in query.progress[-1]["stateOperators"])
