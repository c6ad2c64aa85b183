"""A query at a steady rate for hours, with keys that appear and expire. Its use of resources must not grow.

    make soak              eight hours
    make soak MINUTES=15
    make soak BATCHES=5760   the batches of eight hours, one per five seconds, as fast as they run

Prints a table with a line per sample, and the verdict: each figure's median of the second and of the last quarter of
the time. ``--into`` writes the table and a plot.
"""

from __future__ import annotations

import argparse
import csv
import math
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from mullion import Session, Sliding, Tumbling, together, windowed
from tests.support.campaigns import native_memory
from tests.support.campaigns.long_run_plots import plotted
from tests.support.campaigns.small_heaps import heap_after_collection, session

STEP = 5
"""The seconds of event time per batch if batches are counted."""

FIGURES = ("heap after collection, MB", "resident memory, MB", "state rows", "files in the checkpoint", "batch, ms")
KEPT: dict[str, Any] = {
    "spark_ui_retainedJobs": 10,
    "spark_ui_retainedStages": 10,
    "spark_ui_retainedTasks": 100,
    "spark_sql_ui_retainedExecutions": 10,
    "spark_sql_streaming_numRecentProgressUpdates": 50,
    "spark_sql_streaming_ui_retainedProgressUpdates": 10,
    "spark_sql_streaming_minBatchesToRetain": 20,
    "spark_ui_showConsoleProgress": "false",
}


def started(spark: SparkSession, checkpoint: Path, rate: int, counted: bool) -> Any:
    """Starts the query: with the clock, or one batch after the other, each with the rows of the next few seconds."""
    if counted:
        of_batch = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rate * STEP)
        source = of_batch.options(numPartitions=2, startTimestamp=10**12, advanceMillisPerBatch=1000 * STEP).load()
        # All rows of a batch of the source have the same time.
        within = F.floor(F.col("value") % (rate * STEP) * 1000 / rate)
        rows = source.withColumn("timestamp", F.timestamp_millis(F.unix_millis("timestamp") + within))
    else:
        rows = spark.readStream.format("rate").option("rowsPerSecond", rate).option("numPartitions", 2).load()
    # Two hundred keys at a time, each for a minute.
    life = F.floor(F.col("value") / F.lit(60 * rate))
    keyed = rows.withWatermark("timestamp", "2 seconds").withColumn("k", life * 200 + F.col("value") % 200)

    def aggregated(window: Any) -> Any:
        return windowed(keyed, window, by="k", time="timestamp").agg(F.count("*").alias("n"), F.avg("value").alias("v"))

    panes = together(
        tumbling=aggregated(Tumbling("10 seconds")),
        sliding=aggregated(Sliding("30 seconds", "5 seconds")),
        visits=aggregated(Session("5 seconds")),
    )
    writer = panes.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    return writer.trigger(processingTime="0 seconds" if counted else "1 second").start()


def resident(pid: int) -> float:
    (line,) = (line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def sample(spark: SparkSession, query: Any, checkpoint: Path, pid: int) -> list[float]:
    reports = [r for r in query.recentProgress if r["stateOperators"] and "addBatch" in r["durationMs"]]
    batch = statistics.median(r["durationMs"]["triggerExecution"] for r in reports)
    return [
        heap_after_collection(spark) / 1024,
        resident(pid),
        reports[-1]["stateOperators"][0]["numRowsTotal"],
        sum(len(files) for _, _, files in os.walk(checkpoint)),
        batch,
    ]


def of_rocksdb(query: Any) -> dict[str, float]:
    """RocksDB's memory by its own properties, of both partitions, in MB."""
    report = next(r for r in reversed(query.recentProgress) if r["stateOperators"] and "addBatch" in r["durationMs"])
    metrics = report["stateOperators"][0]["customMetrics"]
    return {
        name: metrics[name] / 2**20
        for name in sorted(metrics)
        if name.startswith("rocksdb") and name.endswith(("Usage", "Bytes", "FileSize"))
    }


def medians(column: Sequence[float]) -> tuple[float, float]:
    """The medians of the second quarter, after the warm-up, and of the last."""
    quarter = max(1, len(column) // 4)
    return statistics.median(column[quarter : 2 * quarter]), statistics.median(column[-quarter:])


def main() -> None:
    parser = argparse.ArgumentParser(description="Runs a query for long, and measures what it takes.")
    parser.add_argument("--minutes", type=float, default=480)
    parser.add_argument("--rate", type=int, default=2000, help="rows a second")
    parser.add_argument("--every", type=float, default=15, help="seconds from sample to sample")
    parser.add_argument("--native", action="store_true", help="say where resident memory is")
    parser.add_argument("--into", type=Path, help="a folder for soak.csv and soak.svg")
    parser.add_argument("--batches", type=int, help="stop after so many, as fast as they go, or after --minutes")
    arguments = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="soak"))
    spark = session(home, "640m", 2, brief=False, flags=native_memory.FLAG if arguments.native else "", **KEPT)
    spark.sparkContext.setLogLevel("ERROR")
    jvm: Any = spark._jvm
    pid = int(jvm.java.lang.ProcessHandle.current().pid())
    checkpoint = home / "checkpoint"
    query = started(spark, checkpoint, arguments.rate, arguments.batches is not None)
    began = time.monotonic()
    parts: list[dict[str, float]] = []
    minutes: list[float] = []
    samples: list[list[float]] = []
    print("minute, " + "; ".join(FIGURES), flush=True)
    last = -1
    while (passed := (time.monotonic() - began) / 60) < arguments.minutes and last + 1 < (
        arguments.batches or math.inf
    ):
        time.sleep(arguments.every)
        assert query.isActive, query.exception()
        last = query.lastProgress["batchId"] if query.lastProgress else -1
        if not any(r["stateOperators"] and "addBatch" in r["durationMs"] for r in query.recentProgress):
            continue
        minutes.append(passed)
        samples.append(sample(spark, query, checkpoint, pid))
        print(f"{passed:6.1f}  " + "  ".join(f"{figure:10.1f}" for figure in samples[-1]), flush=True)
        if arguments.native:
            parts.append(native_memory.parts(pid) | of_rocksdb(query))
            if len(parts) % 20 == 0:
                print(" " * 8 + ", ".join(f"{name} {mb:.1f}" for name, mb in parts[-1].items()), flush=True)
    batches = query.lastProgress["batchId"] + 1
    query.stop()
    if arguments.into:
        arguments.into.mkdir(parents=True, exist_ok=True)
        with (arguments.into / "soak.csv").open("w", newline="") as out:
            csv.writer(out).writerows([("minute", *FIGURES), *([m, *s] for m, s in zip(minutes, samples, strict=True))])
        plotted(minutes, dict(zip(FIGURES, zip(*samples, strict=True), strict=True)), arguments.into / "soak.svg")
        if parts:
            with (arguments.into / "native.csv").open("w", newline="") as out:
                csv.writer(out).writerows([list(parts[0]), *(list(part.values()) for part in parts)])
    print(f"{minutes[-1]:.0f} minutes, {batches} batches, {len(samples)} samples at {arguments.rate} rows a second")
    if arguments.batches is not None:
        print(f"{batches * STEP / 3600:.2f} hours of event time")
    for name, column in zip(FIGURES, zip(*samples, strict=True), strict=True):
        before, after = medians(column)
        print(f"{name}: {before:.1f} in the second quarter, {after:.1f} in the last")
    for name in parts[0] if parts else ():
        before, after = medians([part[name] for part in parts])
        print(f"  {name}: {before:.1f} MB in the second quarter, {after:.1f} in the last")
    spark.stop()


if __name__ == "__main__":
    main()
