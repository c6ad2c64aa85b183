"""Queries whose state, keys or rows are large compared with their heap, each in a separate process.

    python tests/support/campaigns/small_heaps.py CASE FOLDER

A case prints its counts as JSON. A process that runs out of memory ends with an error.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import mullion
from mullion import Session, Tumbling, together, windowed

OOM = "-XX:+ExitOnOutOfMemoryError"
# Optimised compilation does not pay off in a process of a minute.
BRIEF = "-XX:TieredStopAtLevel=1"


def session(folder: Path, heap: str, cores: int, brief: bool = True, flags: str = "", **conf: Any) -> SparkSession:
    builder = SparkSession.builder.master(f"local[{cores}]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.memory", heap).config(
        "spark.driver.extraJavaOptions", f"{OOM} {BRIEF if brief else ''} {flags}".strip()
    )
    builder = builder.config("spark.sql.shuffle.partitions", cores).config("spark.sql.session.timeZone", "UTC")
    for name, value in conf.items():
        builder = builder.config(name.replace("_", "."), value)
    return mullion.configure(builder.config("spark.local.dir", str(folder / "local"))).getOrCreate()


def write(spark: SparkSession, folder: Path, batches: int, rows: int, *columns: Column) -> None:
    """Writes a file of ``rows`` numbers ``n`` per batch, with columns over ``n`` and the batch's number ``b``."""
    for b in range(batches):
        rows_ = spark.range(b * rows, (b + 1) * rows, 1, 1).select(
            F.col("id").alias("n"), F.lit(b).cast("bigint").alias("b")
        )
        rows_.select("n", *columns).write.mode("append").parquet(str(folder / "in"))


def read(spark: SparkSession, folder: Path) -> DataFrame:
    schema = spark.read.parquet(str(folder / "in")).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))


def run(panes: DataFrame, folder: Path, name: str = "query") -> list[Any]:
    """Runs a query to the end of its files. Returns the operator's progress of each batch."""
    query = panes.writeStream.format("noop").option("checkpointLocation", str(folder / name))
    running = query.trigger(availableNow=True).start()
    running.awaitTermination()
    reports = {r["batchId"]: r["stateOperators"][0] for r in running.recentProgress if r["stateOperators"]}
    return [reports[b] for b in sorted(reports)]


def at(seconds: Column) -> Column:
    return F.timestamp_seconds(seconds).alias("ts")


def large(column: str, kilobytes: int) -> Column:
    """A distinct text for each number, of this many kilobytes."""
    return F.repeat(F.sha2(F.col(column).cast("string"), 256), kilobytes * 16)


def counts_by_large_keys(spark: SparkSession, folder: Path) -> DataFrame:
    """The rows by keys of 100 KB, in a window that stays open."""
    rows = read(spark, folder).withColumn("k", large("n", 100)).withWatermark("ts", "0 seconds")
    return windowed(rows, Tumbling("1 hour"), by="k", time="ts").agg(F.count("*"))


def small_batches_of_large_keys(folder: Path) -> dict[str, Any]:
    """200 new keys of 100 KB a batch, one partition: 1 GB of state in a heap of 512 MB."""
    spark = session(folder, "512m", 1)
    write(spark, folder, 50, 200, at(F.lit(1)))
    reports = run(counts_by_large_keys(spark, folder), folder)
    return {"open": reports[-1]["customMetrics"]["panesOpen"]}


def keys_of_any_size(folder: Path) -> dict[str, Any]:
    """New keys of 1 KB, 100 KB, 1 MB and 10 MB in each batch, 175 MB in all. Every key has a second row."""
    spark = session(folder, "1g", 2)
    write(spark, folder, 6, 5_000, at(F.lit(1)))
    at_place = F.col("n") % 5_000
    kilobytes = F.when(at_place < 10, 10_000).when(at_place < 60, 1_000).when(at_place < 260, 100).otherwise(1)
    rows = read(spark, folder).withColumn("k", F.repeat(F.sha2(F.col("n").cast("string"), 256), kilobytes * 16))
    panes = windowed(rows.withWatermark("ts", "0 seconds"), Tumbling("1 hour"), by="k", time="ts").agg(F.count("*"))
    run(panes, folder)
    write(spark, folder, 1, 30_000, at(F.lit(2)))
    reports = run(panes, folder)
    return {"open": reports[-1]["customMetrics"]["panesOpen"]}


def large_values(folder: Path) -> dict[str, Any]:
    """Accumulators of 1 MB, 20 new ones per batch."""
    spark = session(folder, "512m", 2)
    write(spark, folder, 30, 20, at(F.lit(1)))
    rows = read(spark, folder).withWatermark("ts", "0 seconds").withColumn("v", large("n", 1000))
    reports = run(windowed(rows, Tumbling("1 hour"), by="n", time="ts").agg(F.max("v").alias("v")), folder)
    return {"open": reports[-1]["customMetrics"]["panesOpen"]}


def a_restart_of_many_tasks(folder: Path) -> dict[str, Any]:
    """16 concurrent tasks open state of five times the heap, in the first batch and in the first after a restart."""
    spark = session(folder, "640m", 16)
    write(spark, folder, 16, 2_000, at(F.lit(1)))
    panes = counts_by_large_keys(spark, folder)
    run(panes, folder)
    write(spark, folder, 1, 100, at(F.lit(2)))
    reports = run(panes, folder)
    return {"open": reports[-1]["customMetrics"]["panesOpen"], "batches": len(reports)}


def a_batch_of_large_keys_in_many_tasks(folder: Path) -> dict[str, Any]:
    """16 concurrent tasks read 256 rows at once, with a key of 100 KB each: 400 MB if they were buffered together."""
    spark = session(folder, "512m", 16)
    write(spark, folder, 1, 500, at(F.lit(1)))
    reports = run(counts_by_large_keys(spark, folder), folder)
    return {"open": reports[-1]["customMetrics"]["panesOpen"]}


def a_large_batch_of_late_rows(folder: Path) -> dict[str, Any]:
    """Sessions with ``late="emit"``: three million late rows in one batch, each with a distinct key."""
    spark = session(folder, "640m", 2)
    # The watermark of the previous batch decides which rows are late.
    write(spark, folder, 2, 10, at(F.lit(1_000_000)))
    write(spark, folder, 1, 3_000_000, at(F.col("n") % 1000))
    rows = read(spark, folder).withWatermark("ts", "0 seconds")
    reports = run(windowed(rows, Session("10 seconds"), by="n", time="ts", late="emit").agg(F.count("*")), folder)
    return {"late": sum(report["customMetrics"]["rowsLate"] for report in reports)}


def a_pane_of_many_rows_in_python(folder: Path) -> dict[str, Any]:
    """10 million rows of one pane with 768 MB of heap. A function gets them in order of time, batch by batch."""
    rows = int(os.environ.get("MULLION_TEST_PANE_ROWS", "10000000"))
    spark = session(folder, "768m", 2, False)
    write(spark, folder, 40, rows // 40, at(-F.col("n") % 3600 + 3600))
    write(spark, folder, 1, 1, at(F.lit(10**6)))

    def of_pane(key: Any, pane: Any, batches: Iterator[pa.RecordBatch]) -> dict[str, Any]:
        import resource

        n, last, ordered = 0, 0, True
        for batch in batches:
            times = batch["ts"].cast("int64").to_numpy()
            ordered = ordered and last <= times[0] and bool((times[1:] >= times[:-1]).all())
            n, last = n + len(times), int(times[-1])
        return {"n": n, "ordered": ordered, "worker_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10}

    timed = read(spark, folder).withWatermark("ts", "2 hours")
    panes = windowed(timed, Tumbling("1 day"), time="ts").apply(
        of_pane, "n bigint, ordered boolean, worker_mb bigint", order="time", max_rows=2 * rows
    )
    out = panes.writeStream.format("parquet").option("checkpointLocation", str(folder / "query"))
    out.trigger(availableNow=True).start(str(folder / "out")).awaitTermination()
    (pane,) = spark.read.parquet(str(folder / "out")).collect()
    print(f"the worker had {pane.worker_mb} MB at most", file=sys.stderr)
    return {"rows": pane.n, "ordered": pane.ordered, "worker within 500 MB": pane.worker_mb < 500}


def many_small_batches(folder: Path) -> dict[str, Any]:
    """The use of the heap before a query begins, during its batches, and after its end.

    ``MULLION_TEST_BATCHES`` is the number of batches, ``MULLION_TEST_HEAP`` the size of the heap.
    """
    batches = int(os.environ.get("MULLION_TEST_BATCHES", "500"))
    heap = os.environ.get("MULLION_TEST_HEAP", "256m")
    # Spark requires at least 450 MB, of which it reserves 300.
    # Spark's history of jobs for its UI grows for a thousand jobs.
    remembered: dict[str, Any] = {
        "spark_ui_retainedJobs": 10,
        "spark_ui_retainedStages": 10,
        "spark_ui_retainedTasks": 100,
        "spark_sql_ui_retainedExecutions": 10,
        "spark_sql_streaming_numRecentProgressUpdates": 10,
        "spark_sql_streaming_ui_retainedProgressUpdates": 10,
        # The next round of maintenance frees the state of an ended query.
        "spark_sql_streaming_stateStore_maintenanceInterval": "10s",
    }
    spark = session(folder, heap, 2, batches <= 1000, spark_testing_reservedMemory=str(64 << 20), **remembered)
    spark.sparkContext.setLogLevel("ERROR")
    rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 100).option("numPartitions", 1)
    rows = rate.option("advanceMillisPerBatch", 10_000).load().withWatermark("timestamp", "0 seconds")
    keyed = rows.withColumn("k", F.col("value") % 20)
    panes = together(
        tumbling=windowed(keyed, Tumbling("1 minute"), by="k", time="timestamp").agg(F.count("*").alias("n")),
        sessions=windowed(keyed, Session("5 seconds"), by="k", time="timestamp").agg(F.count("*").alias("n")),
    )
    began = time.monotonic()

    def note(when: str) -> int:
        kilobytes = heap_after_collection(spark)
        print(f"{time.monotonic() - began:.0f} s: {kilobytes} KB of heap {when}", file=sys.stderr, flush=True)
        return kilobytes

    def run(marks: list[int], checkpoint: Path) -> list[int]:
        query = panes.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).start()
        samples = []
        for until in marks:
            while (query.lastProgress or {"batchId": -1})["batchId"] < until:
                assert query.isActive, query.exception()
                time.sleep(0.1)
            samples.append(note(f"after {until} batches"))
        query.stop()
        return samples

    # The first query loads classes, compiled code and pools.
    run([min(100, batches // 10)], folder / "first")
    before = at_rest(note)
    samples = run([batches // 40, batches // 4, batches // 2, batches], folder / "second")
    after = at_rest(note, before + (5 << 10))
    return {
        "grew by MB": max(0, samples[-1] - samples[0]) // (5 << 10) * 5,
        "left behind MB": max(0, after - before) // (5 << 10) * 5,
    }


def at_rest(note: Callable[[str], int], until: int = 0) -> int:
    """The smallest use of the heap while no query runs, after maintenance has unloaded the state of the last one."""
    kilobytes = note("while no query runs")
    for _ in range(8):
        if kilobytes <= until:
            break
        time.sleep(2)
        kilobytes = min(kilobytes, note("while no query runs"))
    return kilobytes


def heap_after_collection(spark: SparkSession) -> int:
    """Kilobytes of reachable objects: the minimum of a few samples, because batches run meanwhile."""
    jvm: Any = spark._jvm
    jcmd = Path(jvm.java.lang.System.getProperty("java.home"), "bin", "jcmd")
    command = [str(jcmd), str(jvm.java.lang.ProcessHandle.current().pid()), "GC.class_histogram"]
    samples = []
    for _ in range(3):
        histogram = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        # Total, number of objects, bytes.
        samples.append(int(histogram.splitlines()[-1].split()[2]) >> 10)
    return min(samples)


def a_window_of_many_keys_that_closes_at_once(folder: Path) -> dict[str, Any]:
    """A million panes close in one batch."""
    spark = session(folder, "640m", 2)
    write(spark, folder, 4, 250_000, at(F.lit(1)))
    write(spark, folder, 1, 1, at(F.lit(1_000_000)))
    rows = read(spark, folder).withWatermark("ts", "0 seconds")
    reports = run(windowed(rows, Tumbling("1 hour"), by="n", time="ts").agg(F.count("*")), folder)
    return {"closed": sum(report["customMetrics"]["firingsClose"] for report in reports)}


CASES: dict[str, Callable[[Path], dict[str, Any]]] = {
    case.__name__: case
    for case in (
        small_batches_of_large_keys,
        keys_of_any_size,
        large_values,
        a_restart_of_many_tasks,
        a_batch_of_large_keys_in_many_tasks,
        a_large_batch_of_late_rows,
        a_pane_of_many_rows_in_python,
        many_small_batches,
        a_window_of_many_keys_that_closes_at_once,
    )
}


if __name__ == "__main__":
    print(json.dumps(CASES[sys.argv[1]](Path(sys.argv[2]))))
