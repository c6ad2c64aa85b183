"""The cost of Turbine's callbacks compared with the native API, on the same rows: ``turbine.py [ROWS] [KEYS]``.

All sides read the same topic batch by batch until it is drained, and close the same panes. Turbine's ``on_close`` gets
them as one Arrow table per tick and shard, computes a column and publishes a row for each; ``on_close_each`` is called
for each, on a tenth of the keys. The native side does the same work with ``mapInArrow`` and the same function, and
writes Parquet. ``noop`` is the native side that discards its panes.

The sides alternate, because machines have slow minutes: a ratio is the median over rounds. The published rows are
compared with the native side's panes.
"""

# ruff: noqa: N801

from __future__ import annotations

import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import mullion.turbine as turbine
from harness.spark_session import session
from harness.workloads import CORES
from mullion import Tumbling, topics, windowed
from mullion.turbine import aggregates as agg
from mullion.turbine import windowing as win

BATCHES = 8
ROUNDS = 2
SIZE_MS = 10_000


def feed(broker: str, rows: int, keys: int) -> None:
    """Batches of 10 seconds of event time each, so that each closes the panes of the one before."""
    rng = np.random.default_rng(1)
    for batch in range(BATCHES):
        topics.produce(
            broker,
            "events",
            pa.table(
                {
                    "k": rng.integers(0, keys, rows),
                    "v": rng.integers(0, 1000, rows),
                    "ts": batch * SIZE_MS + rng.integers(0, SIZE_MS, rows),
                }
            ),
        )


def panes_of(spark: SparkSession, broker: str) -> DataFrame:
    rows = topics.broker(broker).stream(spark, "events").withColumn("time", F.timestamp_millis("ts"))
    return windowed(
        rows.withWatermark("time", "0 seconds"), Tumbling(f"{SIZE_MS} milliseconds"), by="k", time="time", late="reopen"
    ).agg(F.sum("v").alias("total"), F.count("*").alias("n"))


def noop(spark: SparkSession, broker: str, home: Path) -> None:
    query = panes_of(spark, broker).writeStream.format("noop").option("checkpointLocation", str(home / "noop"))
    query.trigger(availableNow=True).start().awaitTermination()


def native(spark: SparkSession, broker: str, home: Path) -> None:
    def mean(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield with_mean(batch)

    panes = panes_of(spark, broker).select("k", F.unix_millis("window.start").alias("window_start_ms"), "total", "n")
    means = panes.mapInArrow(mean, "k bigint, window_start_ms bigint, total bigint, n bigint, mean double")
    query = means.writeStream.format("parquet").option("checkpointLocation", str(home / "native"))
    query.trigger(availableNow=True).start(str(home / "panes")).awaitTermination()


def with_mean(panes: pa.RecordBatch) -> pa.RecordBatch:
    return panes.append_column("mean", pc.divide(panes["total"].cast(pa.float64()), panes["n"].cast(pa.float64())))


def program(spark: SparkSession, broker: str, home: Path, out: str, each: bool) -> None:
    app = turbine.App("benchmark", broker=broker, checkpoint=home / "turbine", spark=spark)

    @app.subscribe("events", publish_to=out, parallelism=CORES)
    class benchmark:
        def __init__(self) -> None:
            callback: dict[str, Any] = {"on_close_each": self._each} if each else {"on_close": self._all}
            self._win = win.PersistentTumbling(
                self,
                name="panes",
                size_ms=SIZE_MS,
                key="k",
                value=agg.Multi(total=agg.Sum("v"), n=agg.Count()),
                time_column="ts",
                **callback,
            )

        def _all(self, state: object, panes: pa.Table) -> pa.RecordBatch:
            return with_mean(panes.combine_chunks().to_batches()[0])

        def _each(self, state: object, window: win.Window, value: Any) -> pa.RecordBatch:
            row = {**window.group, "total": value.total, "n": value.n, "mean": value.total / value.n}
            return pa.RecordBatch.from_pylist([{**row, "window_start_ms": window.start_ms}])

        def process(self, batch: pa.RecordBatch, state: object) -> None:
            self._win.update(batch, state)

    app.run(until="drained")


def answers_are_equal(spark: SparkSession, broker: str, home: Path, out: str) -> bool:
    """True if the published rows equal the panes of the native side."""
    panes = panes_of(spark, broker).select("k", F.unix_millis("window.start").alias("start"), "total", "n")
    query = panes.writeStream.format("memory").queryName("answers").option("checkpointLocation", str(home / "answers"))
    query.trigger(availableNow=True).start().awaitTermination()
    wanted = spark.table("answers").toArrow()
    results = topics.read(broker, out).select(["k", "window_start_ms", "total", "n"])
    results = results.rename_columns(wanted.column_names)
    order = [(name, "ascending") for name in wanted.column_names]
    return bool(
        wanted.num_rows
        and results.num_rows == wanted.num_rows
        and all(
            results.sort_by(order)[name].cast(pa.int64()).equals(wanted.sort_by(order)[name].cast(pa.int64()))
            for name in wanted.column_names
        )
    )


def cpu_seconds() -> float:
    """The processor time of this process and its children: the JVM and its Python workers."""
    stats = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            # The parent, and the time of the process and of its ended children.
            stats[int(folder.name)] = int(fields[1]), sum(map(int, fields[11:15]))
    mine, total = {os.getpid()}, 0
    while mine:
        total += sum(stats[pid][1] for pid in mine)
        mine = {pid for pid, (parent, _) in stats.items() if parent in mine}
    return total / os.sysconf("SC_CLK_TCK")


def measured(side: Callable[[], None]) -> tuple[float, float]:
    """The seconds and the CPU seconds of a run."""
    start, cpu = time.perf_counter(), cpu_seconds()
    side()
    return time.perf_counter() - start, cpu_seconds() - cpu


def main(rows: int, keys: int) -> None:
    spark = session()
    with tempfile.TemporaryDirectory() as folder:
        full, tenth = f"dir:{folder}/full", f"dir:{folder}/tenth"
        feed(full, rows, keys)
        feed(tenth, rows, keys // 10)
        figures: dict[str, list[tuple[float, float]]] = {}
        for turn in range(ROUNDS + 1):
            home = Path(folder, str(turn))
            sides: dict[str, Callable[[], None]] = {
                "noop": lambda home=home: noop(spark, full, home / "noop"),  # type: ignore[misc]
                "native": lambda home=home: native(spark, full, home / "full"),  # type: ignore[misc]
                "on_close": lambda home=home: program(spark, full, home / "on", f"on-{home.name}", each=False),  # type: ignore[misc]
                "native, a tenth": lambda home=home: native(spark, tenth, home / "tenth"),  # type: ignore[misc]
                "on_close_each, a tenth": lambda home=home: program(  # type: ignore[misc]
                    spark, tenth, home / "each", f"each-{home.name}", each=True
                ),
            }
            for name, side in sides.items():
                took = measured(side)
                # The first round warms up.
                if turn:
                    figures.setdefault(name, []).append(took)
        for broker, out in ((full, f"on-{ROUNDS}"), (tenth, f"each-{ROUNDS}")):
            spark.sql("DROP VIEW IF EXISTS answers")
            if not answers_are_equal(spark, broker, Path(folder, out), out):
                raise SystemExit(f"The answers of {out} differ from those of the native API.")
    print(
        f"{BATCHES} batches of {rows:,} rows, {keys:,} keys; Spark {spark.version}, {os.cpu_count()} cores, "
        f"{platform.machine()}; medians of {ROUNDS} rounds"
    )
    for name, runs in figures.items():
        base = figures["native, a tenth" if "tenth" in name else "native"]
        seconds, cpu = (statistics.median(run[i] for run in runs) for i in (0, 1))
        ratio, by_cpu = (statistics.median(b[i] / r[i] for r, b in zip(runs, base, strict=True)) for i in (0, 1))
        print(
            f"{name:<24} {rows * BATCHES / seconds:>10,.0f} rows/s  {cpu:>5.1f} s of CPU   "
            f"{ratio:.2f} of native, {by_cpu:.2f} by CPU"
        )
    print("All sides returned the same panes.")


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[1:]]
    main(*(numbers + [200_000, 20_000][len(numbers) :]))
