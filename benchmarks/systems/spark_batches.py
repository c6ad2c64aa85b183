"""Systems on Spark, one in a process: ``spark_batches.py SYSTEM WORKLOAD FOLDER`` prints its figures as JSON.

The systems are Mullion, Spark's own windows with each of its state stores, ``transformWithStateInPandas``, and two
without state: ``baseline`` aggregates each batch alone, and ``stateless`` returns its rows.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, DataFrameReader
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter

from harness.forms import FIELDS, FORMS
from harness.spark_session import session
from harness.turns import Turns
from harness.workloads import SETTLING, Workload
from mullion import Early, Session, Sliding, Tumbling, windowed
from systems import answers, nexmark_queries
from systems.pandas_processor import pandas_panes

# The longest wait for the compiler after a batch, and its milliseconds in half a second at which it counts as idle.
MOST_REST_S, RESTING_MS = 5.0, 20


def aggregates(workload: Workload) -> tuple[Column, ...]:
    if workload.asks == "ordinary":
        return (
            F.avg("v").alias("mean"),
            F.stddev("d").alias("deviation"),
            F.max("name").alias("last_name"),
            F.approx_count_distinct("v").alias("distinct"),
            F.max_by("name", "d").alias("name_of_most"),
        )
    return (
        F.count("*").alias("n"),
        F.sum("v").alias("total"),
        F.min("v").alias("least"),
        F.max("v").alias("most"),
    )


def mullion_panes(rows: DataFrame, workload: Workload) -> DataFrame:
    size, slide = f"{workload.size} seconds", f"{workload.slide} seconds"
    panes = windowed(
        rows.withWatermark("ts", f"{workload.delay} seconds"),
        Sliding(size, slide) if workload.slide else Session(size) if workload.kind == "session" else Tumbling(size),
        by=list(FORMS[workload.form].keys),
        time="ts",
        allowed_lateness=f"{workload.lateness} seconds",
        early=Early(f"{workload.early} seconds") if workload.early else None,
    ).agg(*aggregates(workload))
    return panes.where("pane.firing = 'close'") if workload.early else panes


def spark_panes(rows: DataFrame, workload: Workload) -> DataFrame:
    """Spark's windows. The watermark delay includes the lateness, because Spark has no separate lateness."""
    rows_with_watermark = rows.withWatermark("ts", f"{workload.delay + workload.lateness} seconds")
    return rows_with_watermark.groupBy(*FORMS[workload.form].keys, spark_window(workload)).agg(*aggregates(workload))


def spark_window(workload: Workload) -> Column:
    size = f"{workload.size} seconds"
    if workload.kind == "session":
        return F.session_window("ts", size).alias("window")
    return F.window("ts", size, f"{workload.slide} seconds" if workload.slide else None).alias("window")


def baseline_panes(batch: DataFrame, workload: Workload) -> DataFrame:
    """The stateless baseline: groups of one batch, by slices, or by the gap of sessions."""
    slices = F.window("ts", f"{workload.slide or workload.size} seconds")
    return batch.groupBy(*FORMS[workload.form].keys, slices).agg(*aggregates(workload))


def answer_of(panes: DataFrame, workload: Workload) -> DataFrame:
    times = {"start_ms": F.unix_millis("window.start"), "end_ms": F.unix_millis("window.end")}
    if "window" in panes.columns:
        panes = panes.withColumns(times)
    if workload.form == "published":
        return panes.selectExpr(*answers.COLUMNS)
    # The last digits of a standard deviation depend on the order of rows.
    names = [column.alias(name) for name, column in rounded(panes).items()]
    return panes.select(*names).selectExpr(*answers.columns_of([*rounded(panes)]))


def rounded(panes: DataFrame) -> dict[str, Column]:
    return {
        name: F.round(name, 6) if kind == "double" else F.col(name)
        for name, kind in panes.dtypes
        if name not in ("window", "pane")
    }


def rows_of(files: DataStreamReader | DataFrameReader, workload: Workload, source: Path) -> DataFrame:
    """The rows of files, as they enter the window."""
    form = FORMS[workload.form]
    rows = files.schema(form.columns).format(form.format).load(str(source))
    if form.is_parsed:
        rows = rows.select(F.from_json("value", FIELDS).alias("row")).select("row.*")
    return rows.where(form.where) if form.where else rows


def parts(report: dict[str, Any]) -> dict[str, int]:
    """The milliseconds of each part of a batch. Work on state is summed over tasks."""
    durations, operators = report["durationMs"], report["stateOperators"]
    return {
        "source": durations.get("latestOffset", 0) + durations.get("getBatch", 0),
        "planning": durations.get("queryPlanning", 0),
        "running": durations["addBatch"],
        "logs": durations.get("walCommit", 0) + durations.get("commitOffsets", 0) + durations.get("commitBatch", 0),
        "updates": sum(operator["allUpdatesTimeMs"] for operator in operators),
        "removals": sum(operator["allRemovalsTimeMs"] for operator in operators),
        "commits": sum(operator["commitTimeMs"] for operator in operators),
    }


class Run:
    """A system's query over a workload's files, one per micro-batch, and its answer."""

    def __init__(self, system: str, workload: Workload, folder: Path) -> None:
        self.system, self.workload, self.folder = system, workload, folder
        store = "hdfs" if system == "spark hdfs" else "rocksdb"
        self.spark = session(store, workload.cores, workload.heap, workload.partitions)
        if workload.cache:
            self.spark.conf.set("spark.sql.streaming.stateStore.mullion.hotBytes", f"{workload.cache}m")
        self.settling = folder.with_name(SETTLING)
        self.answer = {"panes": 0, "of_rows": 0, "checksum": 0}
        self.turns = Turns()

    def panes(self, rows: DataFrame) -> DataFrame:
        if self.workload.rows_of == "nexmark":
            return nexmark_queries.panes(rows, self.workload, ours=self.system == "mullion")
        if self.system == "mullion":
            return mullion_panes(rows, self.workload)
        if self.system in ("spark", "spark hdfs"):
            return spark_panes(rows, self.workload)
        if self.system == "pandas":
            return pandas_panes(rows, self.workload)
        return rows

    def add(self, batch: DataFrame, _: int) -> None:
        result = answer_of(batch, self.workload).head()
        assert result is not None
        for name in self.answer:
            self.answer[name] += result[name]

    def discard(self, batch: DataFrame, _: int) -> None:
        baseline_panes(batch, self.workload).write.format("noop").mode("overwrite").save()

    def writer(self, source: Path, checkpoint: Path) -> DataStreamWriter:
        files = self.spark.readStream.option("maxFilesPerTrigger", 1)
        if self.workload.rows_of == "nexmark":
            rows = files.schema(nexmark_queries.COLUMNS).parquet(str(source))
        else:
            rows = rows_of(files, self.workload, source)
        return self.panes(rows).writeStream.option("checkpointLocation", str(checkpoint))

    def timed(self, home: Path) -> list[dict[str, Any]]:
        """Spark's report of each batch of a query that discards its panes.

        A batch closes the panes that the previous batch made due. Batches without rows would close them earlier, so
        they are off, except for workloads that measure them and for windows that need them.
        """
        source = home / "in"
        source.mkdir()
        needs_empty_batches = self.workload.rows_of == "open" or self.workload.kind == "q12"
        self.spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", needs_empty_batches)
        # Otherwise each waiting system would list its files a hundred times per second.
        self.spark.conf.set("spark.sql.streaming.pollingDelay", "100ms")
        writer = self.writer(source, home / "checkpoint")
        writer = writer.foreachBatch(self.discard) if self.system == "baseline" else writer.format("noop")
        files = sorted(self.folder.iterdir())
        settling = sorted(self.settling.iterdir()) if self.workload.settling else []
        settled = 0
        if self.workload.rows <= 100:
            # Without turns: after a turn of another system, refilling the processor's caches would cost more than such
            # a batch.
            self.turns.wait()
            for file in files:
                put(file, source)
            query = writer.trigger(availableNow=True).start()
            query.awaitTermination()
        else:
            self.turns.wait()
            query = writer.start()
            for file in settling:
                put(file, source)
            query.processAllAvailable()
            settled = len(query._jsq.recentProgress())
            for file in files:
                if settling or file is not files[0]:
                    self.rest()
                    self.turns.wait()
                put(file, source)
                query.processAllAvailable()
        progress = [json.loads(report.json()) for report in query._jsq.recentProgress()[settled:]]
        query.stop()
        return [report for report in progress if "addBatch" in report["durationMs"]]

    def rest(self) -> None:
        """Waits until the JVM hardly compiles any more. Otherwise it would compile in the turns of others."""
        jvm: Any = self.spark._jvm
        compiler = jvm.java.lang.management.ManagementFactory.getCompilationMXBean()
        deadline = time.monotonic() + MOST_REST_S
        compiled, before = compiler.getTotalCompilationTime(), 0
        while compiled - before > RESTING_MS and time.monotonic() < deadline:
            time.sleep(0.5)
            compiled, before = compiler.getTotalCompilationTime(), compiled

    def read_answer(self, home: Path) -> dict[str, int]:
        """The answer over all rows; empty for systems without panes."""
        if self.system in ("baseline", "stateless"):
            return {}
        # The last row makes all panes due. A batch without rows closes them.
        self.spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", True)
        writer = self.writer(self.folder, home / "checkpoint of the answer")
        writer.foreachBatch(self.add).trigger(availableNow=True).start().awaitTermination()
        return self.answer

    def figures(self) -> dict[str, Any]:
        # The session that stops may still remove or write files.
        with tempfile.TemporaryDirectory(dir=self.folder.parent, ignore_cleanup_errors=True) as folder:
            home = Path(folder)
            progress = self.timed(home)
            self.turns.measured()
            answer = self.read_answer(home)
            self.spark.stop()
        batches = [
            {
                "rows": report["numInputRows"],
                "ms": report["durationMs"]["triggerExecution"],
                "state_rows": sum(operator["numRowsTotal"] for operator in report["stateOperators"]),
                "parts": parts(report),
            }
            for report in progress
        ]
        return {"batches": batches, "whole_s": sum(batch["ms"] for batch in batches) / 1000, "answer": answer}


def put(file: Path, source: Path) -> None:
    """Moves a file into a source atomically."""
    hidden = source / f".{file.name}"
    os.link(file, hidden)
    hidden.rename(source / file.name)


if __name__ == "__main__":
    _, system, workload, folder = sys.argv
    print(json.dumps(Run(system, Workload(**json.loads(workload)), Path(folder)).figures()))
