"""Systems on Spark, one in a process: ``spark_batches.py SYSTEM WORKLOAD FOLDER`` prints its figures as JSON.

Mullion, Spark's own windows over both its state stores, the same written with ``transformWithStateInPandas``, and two
without state: the ``ceiling``, which aggregates each batch as if there were no
other, and ``stateless``, which hands its rows on.
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

# How long a compiler is waited for after a batch, and how much it compiles in half a second when it rests.
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
    """Its watermark waits for what is late as well, for it has no lateness apart from that."""
    waiting = rows.withWatermark("ts", f"{workload.delay + workload.lateness} seconds")
    return waiting.groupBy(*FORMS[workload.form].keys, spark_window(workload)).agg(*aggregates(workload))


def spark_window(workload: Workload) -> Column:
    size = f"{workload.size} seconds"
    if workload.kind == "session":
        return F.session_window("ts", size).alias("window")
    return F.window("ts", size, f"{workload.slide} seconds" if workload.slide else None).alias("window")


def ceiling_panes(batch: DataFrame, workload: Workload) -> DataFrame:
    """What no stateful operator can pass: groups of one batch, by slices, or by the gap where windows are sessions."""
    slices = F.window("ts", f"{workload.slide or workload.size} seconds")
    return batch.groupBy(*FORMS[workload.form].keys, slices).agg(*aggregates(workload))


def answer_of(panes: DataFrame, workload: Workload) -> DataFrame:
    times = {"start_ms": F.unix_millis("window.start"), "end_ms": F.unix_millis("window.end")}
    if "window" in panes.columns:
        panes = panes.withColumns(times)
    if workload.form == "published":
        return panes.selectExpr(*answers.COLUMNS)
    # The order of rows is part of a standard deviation's last digits.
    names = [column.alias(name) for name, column in rounded(panes).items()]
    return panes.select(*names).selectExpr(*answers.columns_of([*rounded(panes)]))


def rounded(panes: DataFrame) -> dict[str, Column]:
    return {
        name: F.round(name, 6) if kind == "double" else F.col(name)
        for name, kind in panes.dtypes
        if name not in ("window", "pane")
    }


def rows_of(files: DataStreamReader | DataFrameReader, workload: Workload, source: Path) -> DataFrame:
    """The rows of files, as far as they are read before the window."""
    form = FORMS[workload.form]
    rows = files.schema(form.columns).format(form.format).load(str(source))
    if form.is_parsed:
        rows = rows.select(F.from_json("value", FIELDS).alias("row")).select("row.*")
    return rows.where(form.where) if form.where else rows


def parts(report: dict[str, Any]) -> dict[str, int]:
    """Where a batch's time went, in milliseconds; of the work on state the sum over its tasks."""
    spent, operators = report["durationMs"], report["stateOperators"]
    return {
        "source": spent.get("latestOffset", 0) + spent.get("getBatch", 0),
        "planning": spent.get("queryPlanning", 0),
        "running": spent["addBatch"],
        "logs": spent.get("walCommit", 0) + spent.get("commitOffsets", 0) + spent.get("commitBatch", 0),
        "updates": sum(operator["allUpdatesTimeMs"] for operator in operators),
        "removals": sum(operator["allRemovalsTimeMs"] for operator in operators),
        "commits": sum(operator["commitTimeMs"] for operator in operators),
    }


class Run:
    """A system's query over a workload's files, one a micro-batch, and what it answered."""

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
        found = answer_of(batch, self.workload).head()
        assert found is not None
        for name in self.answer:
            self.answer[name] += found[name]

    def write_away(self, batch: DataFrame, _: int) -> None:
        ceiling_panes(batch, self.workload).write.format("noop").mode("overwrite").save()

    def writer(self, source: Path, checkpoint: Path) -> DataStreamWriter:
        files = self.spark.readStream.option("maxFilesPerTrigger", 1)
        if self.workload.rows_of == "nexmark":
            rows = files.schema(nexmark_queries.COLUMNS).parquet(str(source))
        else:
            rows = rows_of(files, self.workload, source)
        return self.panes(rows).writeStream.option("checkpointLocation", str(checkpoint))

    def timed(self, home: Path) -> list[dict[str, Any]]:
        """What Spark says of each batch of a query whose panes are written away.

        A batch closes what the one before made due. Batches without rows are off, for they would close it before, but
        where they are what is measured, and where windows need them.
        """
        source = home / "in"
        source.mkdir()
        needed = self.workload.rows_of == "open" or self.workload.kind == "q12"
        self.spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", needed)
        # Or each system that waits for its turn would list its files a hundred times a second.
        self.spark.conf.set("spark.sql.streaming.pollingDelay", "100ms")
        writer = self.writer(source, home / "checkpoint")
        writer = writer.foreachBatch(self.write_away) if self.system == "ceiling" else writer.format("noop")
        files = sorted(self.folder.iterdir())
        settling = sorted(self.settling.iterdir()) if self.workload.settling else []
        settled = 0
        if self.workload.rows <= 100:
            # Batch upon batch: turns would have the machine forget more than such a batch costs.
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
        """Waits until the JVM hardly compiles what it has run, or it would go on in the turns of others."""
        jvm: Any = self.spark._jvm
        compiler = jvm.java.lang.management.ManagementFactory.getCompilationMXBean()
        ends = time.monotonic() + MOST_REST_S
        compiled, before = compiler.getTotalCompilationTime(), 0
        while compiled - before > RESTING_MS and time.monotonic() < ends:
            time.sleep(0.5)
            compiled, before = compiler.getTotalCompilationTime(), compiled

    def answered(self, home: Path) -> dict[str, int]:
        """What the panes of all rows add up to; nothing of a system that has none."""
        if self.system in ("ceiling", "stateless"):
            return {}
        # The last row makes all panes due, and nothing comes after it.
        self.spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", True)
        writer = self.writer(self.folder, home / "checkpoint of the answer")
        writer.foreachBatch(self.add).trigger(availableNow=True).start().awaitTermination()
        return self.answer

    def figures(self) -> dict[str, Any]:
        with tempfile.TemporaryDirectory(dir=self.folder.parent) as folder:
            home = Path(folder)
            progress = self.timed(home)
            self.turns.measured()
            answer = self.answered(home)
            # Its stores' maintenance may be writing to the checkpoint yet, which is removed now.
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
    """A file into a source, which sees it whole or not at all."""
    hidden = source / f".{file.name}"
    os.link(file, hidden)
    hidden.rename(source / file.name)


if __name__ == "__main__":
    _, wanted, workload, folder = sys.argv
    print(json.dumps(Run(wanted, Workload(**json.loads(workload)), Path(folder)).figures()))
