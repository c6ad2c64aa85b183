"""Aggregates in Python over panes of many keys: ``python_aggregates.py [ROWS] [KEYS] [BATCHES] [PART] [ROW ...]``.

A million rows of 100,000 keys a batch unless stated otherwise, four batches, and two batches for each window. The rows
of the comparison:

- ``digest``: a t-digest as a ``PythonAggregate`` over Arrow batches, against the same t-digest in Spark's
  ``transformWithStateInPandas``, with a timer for the end of the window;
- ``rows``: a sum as a ``PythonAggregate`` row by row, in the JVM and in Python, against the same sum with Bytewax's
  ``fold_window``, in one process, from rows in memory.

Spark's side has ``1 / PART`` of the rows and of the keys, 1 / 20 unless stated otherwise: it calls Python and exchanges
messages about state for each key of a batch, and with 100,000 keys a batch takes many minutes. Its cost for a key does
not depend on the number of keys. Mullion runs with both sizes, and both ratios are printed: at the same size, and of
the rates at the sizes that each has.

Times are those of the batches, without the start of the query. The results of both sides must be equal. The digests are
exact here, because a pane has few rows.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from harness.spark_session import session
from harness.workloads import CORES
from mullion import PythonAggregate, Tumbling, windowed

SECOND = 1_000_000
HOUR = 3600 * SECOND
BASE = 500_000 * HOUR
Digest = np.ndarray[Any, Any]
Answer = dict[tuple[int, int], tuple[float, ...]]


def compressed(digest: Digest, size: int = 100) -> Digest:
    means, weights = digest[np.argsort(digest[:, 0])].T
    ranks = (np.cumsum(weights) - weights / 2) / weights.sum()
    _, cluster = np.unique((size * (np.arcsin(2 * ranks - 1) / np.pi + 0.5)).astype(int), return_inverse=True)
    total = np.bincount(cluster, weights)
    return np.column_stack([np.bincount(cluster, means * weights) / total, total])


def with_values(digest: Digest, values: Digest) -> Digest:
    return compressed(np.concatenate([digest, np.column_stack([values, np.ones(len(values))])]))


def quantiles(digest: Digest) -> list[float]:
    means, weights = digest.T
    values: list[float] = np.interp([0.5, 0.99], (np.cumsum(weights) - weights / 2) / weights.sum(), means).tolist()
    return values


class Quantiles(PythonAggregate, returns="array<double>", pickle=True):
    def create(self) -> Digest:
        return np.empty((0, 2))

    def add(self, digest: Digest, rows: pa.RecordBatch) -> Digest:
        return with_values(digest, rows["v"].to_numpy())

    def merge(self, a: Digest, b: Digest) -> Digest:
        return compressed(np.concatenate([a, b]))

    def finish(self, digest: Digest) -> list[float]:
        return quantiles(digest)


class Total(PythonAggregate, returns="double"):
    def create(self) -> float:
        return 0.0

    def add_row(self, total: float, v: float) -> float:
        return total + v

    def merge(self, a: float, b: float) -> float:
        return a + b


def write(folder: Path, rows: int, keys: int, batches: int) -> None:
    """Writes a file for each batch. Values are whole, so that sums are exact. The last row only moves the watermark."""
    chance = np.random.default_rng(1)
    for batch in range(batches + 1):
        n = rows if batch < batches else 1
        times = BASE + batch * HOUR // 2 + chance.integers(0, HOUR // 2, n) if batch < batches else np.array([BASE * 2])
        table = pa.table(
            {
                "ts": pa.array(times, pa.timestamp("us", "UTC")),
                "k": chance.integers(0, keys, n) if batch < batches else np.array([-1]),
                "v": chance.integers(0, 10_000, n).astype(float),
            }
        )
        pq.write_table(table, folder / f"{batch:03}.parquet", row_group_size=max(1, n // CORES))


def over_panes(aggregate: PythonAggregate) -> Callable[[DataFrame], DataFrame]:
    def panes(rows: DataFrame) -> DataFrame:
        fired = windowed(rows, Tumbling("1 hour"), by="k", time="ts").agg(result=aggregate)
        return fired.select("k", F.unix_micros("window.start").alias("start"), "result")

    return panes


def in_python(panes: Callable[[DataFrame], DataFrame]) -> Callable[[DataFrame], DataFrame]:
    """The same panes with an aggregate that is not translated for the JVM."""

    def unchanged(rows: DataFrame) -> DataFrame:
        conf = rows.sparkSession.conf
        conf.set("spark.sql.mullion.pythonAggregate.translate", "false")
        try:
            return panes(rows)
        finally:
            conf.unset("spark.sql.mullion.pythonAggregate.translate")

    return unchanged


def over_keyed_state(rows: DataFrame) -> DataFrame:
    import pandas as pd
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

    class Windows(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            self.handle = handle
            self.digest = handle.getValueState("digest", "data binary")

        def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
            before = self.digest.get()
            digest = np.frombuffer(before[0]).reshape(-1, 2) if before else np.empty((0, 2))
            for frame in rows:
                digest = with_values(digest, frame["v"].to_numpy())
            self.digest.update((digest.tobytes(),))
            if not before:
                self.handle.registerTimer(int(key[1] + HOUR) // 1000)
            return iter(())

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:
            stored = self.digest.get()
            assert stored is not None
            digest = np.frombuffer(stored[0]).reshape(-1, 2)
            self.digest.clear()
            yield pd.DataFrame({"k": [key[0]], "start": [key[1]], "result": [quantiles(digest)]})

        def close(self) -> None:
            return

    start = F.unix_micros("ts") - F.unix_micros("ts") % HOUR
    keyed = rows.withColumn("start", start).groupBy("k", "start")
    return keyed.transformWithStateInPandas(
        Windows(), "k bigint, start bigint, result array<double>", "append", "EventTime"
    )


def streamed(spark: SparkSession, folder: Path, panes: Callable[[DataFrame], DataFrame]) -> tuple[float, Answer]:
    rows = spark.readStream.schema("ts timestamp, k bigint, v double").option("maxFilesPerTrigger", 1)
    timed = rows.parquet(str(folder)).withWatermark("ts", "0 seconds").where("k >= 0 OR ts IS NULL")
    answer: Answer = {}

    def add(batch: DataFrame, _: int) -> None:
        table = batch.toArrow()
        results = table["result"].to_pylist()
        values = (tuple(result) if isinstance(result, list) else (result,) for result in results)
        keys = zip(table["k"].to_pylist(), table["start"].to_pylist(), strict=True)
        answer.update(zip(keys, values, strict=True))

    with tempfile.TemporaryDirectory() as checkpoint:
        writer = panes(timed).writeStream.foreachBatch(add).option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        seconds = sum(report["durationMs"]["triggerExecution"] for report in query.recentProgress) / 1000
    return seconds, answer


def with_bytewax(folder: Path) -> tuple[float, Answer]:
    import bytewax.operators as op
    import bytewax.operators.windowing as win
    from bytewax.dataflow import Dataflow
    from bytewax.testing import TestingSink, TestingSource, run_main

    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    rows = [
        (str(row["k"]), (row["ts"].astimezone(UTC), row["v"]))
        for file in sorted(folder.iterdir())[:-1]
        for row in pq.read_table(file).to_pylist()
    ]
    out: list[Any] = []
    flow = Dataflow("sums")
    keyed = op.input("rows", flow, TestingSource(rows, batch_size=1000))
    clock = win.EventClock(ts_getter=lambda item: item[0], wait_for_system_duration=timedelta(hours=1))
    windows = win.TumblingWindower(length=timedelta(hours=1), align_to=epoch)
    sums = win.fold_window(
        "sum", keyed, clock, windows, lambda: 0.0, lambda total, item: total + item[1], lambda a, b: a + b
    )
    op.output("out", sums.down, TestingSink(out))
    began = time.perf_counter()
    run_main(flow)
    seconds = time.perf_counter() - began
    return seconds, {(int(key), window * HOUR): (total,) for key, (window, total) in out}


@dataclass(frozen=True)
class Size:
    """The rows and the keys of a batch."""

    rows: int
    keys: int
    folder: Path

    def __str__(self) -> str:
        return f"{self.rows:,} rows of {self.keys:,} keys a batch"


def rate_of(name: str, size: Size, batches: int, run: Callable[[Path], tuple[float, Answer]]) -> tuple[float, Answer]:
    """The rows per second of one side at a size, and its results."""
    seconds, answer = run(size.folder)
    rate = size.rows * batches / seconds
    print(f"  {name:<28} {size}: {rate:>11,.0f} rows/s, {seconds:.1f} s, {len(answer):,} panes", flush=True)
    return rate, answer


def compared(
    name: str, sides: dict[str, Callable[[Path], tuple[float, Answer]]], sizes: list[Size], n: int, goal: int
) -> None:
    """Runs all sides at the last size, and those of Mullion, all but the last, at the others too. Prints the ratios."""
    print(f"{name} (goal: {goal} times as fast)", flush=True)
    *larger, common = sizes
    *ours, peer = sides
    rates = {(side, size): rate_of(side, size, n, sides[side]) for side in ours for size in sizes}
    their_rate, other = rate_of(peer, common, n, sides[peer])
    for side in ours:
        rate, answer = rates[side, common]
        if answer != other:
            raise SystemExit(f"{side} and {peer} have different results.")
        print(f"  {side}: equal results of {len(answer):,} panes; {rate / their_rate:.1f} times as fast as {peer}")
        for size in larger:
            print(f"  {side}: {rates[side, size][0] / their_rate:.1f} times as fast with {size}", flush=True)


def main(rows: int, keys: int, batches: int, part: int, names: list[str]) -> None:
    spark = session()
    digest: dict[str, Callable[[Path], tuple[float, Answer]]] = {
        "PythonAggregate": lambda folder: streamed(spark, folder, over_panes(Quantiles("v"))),
        "transformWithStateInPandas": lambda folder: streamed(spark, folder, over_keyed_state),
    }
    by_row: dict[str, Callable[[Path], tuple[float, Answer]]] = {
        "add_row, in the JVM": lambda folder: streamed(spark, folder, over_panes(Total("v"))),
        "add_row, in Python": lambda folder: streamed(spark, folder, in_python(over_panes(Total("v")))),
        "Bytewax": with_bytewax,
    }
    with tempfile.TemporaryDirectory() as home:
        sizes = {
            name: Size(max(1, n), max(1, of_keys), Path(home, name))
            for name, n, of_keys in (("few", 1000, 100), ("part", rows // part, keys // part), ("all", rows, keys))
        }
        for name, size in sizes.items():
            size.folder.mkdir()
            write(size.folder, size.rows, size.keys, 2 if name == "few" else batches)
        if not names or "digest" in names:
            for run in digest.values():
                run(sizes["few"].folder)
            compared("A t-digest over Arrow batches", digest, [sizes["all"], sizes["part"]], batches, goal=10)
        if not names or "rows" in names:
            for run in by_row.values():
                run(sizes["few"].folder)
            compared("A sum, row by row", by_row, [sizes["all"]], batches, goal=3)


if __name__ == "__main__":
    numbers = [int(text) for text in sys.argv[1:5]]
    rows_, keys_, batches_, part_ = (*numbers, *(1_000_000, 100_000, 4, 20)[len(numbers) :])
    main(rows_, keys_, batches_, part_, sys.argv[5:])
