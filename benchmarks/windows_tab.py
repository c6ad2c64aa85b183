"""Batches with the tab Windows on and off, in turns, and the time and the size of the tab's answers.

    windows_tab.py [--only PATTERN]... [--keys N] [--rows N] [--batches N]

Two queries over the same files run in one session: one counts the ends of its open panes and reports to the tab, the
other does not. They take each file in turns, the first one alternately. Their answers are compared.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console
from rich.table import Table

from harness.spark_session import session
from mullion import Session, Sliding, Tumbling, windowed
from mullion.windows import Window
from paired import ratio

SETTING = "spark.sql.mullion.ui.enabled"
WINDOWS: dict[str, Window] = {
    "tumbling 10 s": Tumbling("10 seconds"),
    "sliding 60 s / 5 s": Sliding("60 seconds", "5 seconds"),
    "session 5 s": Session("5 seconds"),
}
# Event time of a batch, and the batches before the first one that counts.
SPAN_S, WARM = 5, 6
ANSWERS = 20


@dataclass
class Side:
    """One of the two queries: its batches, and the checksum of its panes."""

    spark: SparkSession
    folder: Path
    ms: list[float] = field(default_factory=list)
    answer: list[int] = field(default_factory=lambda: [0, 0])
    query: StreamingQuery | None = None
    reported: int = 0

    def add(self, batch: DataFrame, _: int) -> None:
        row = batch.selectExpr("count(*)", "coalesce(sum(xxhash64(k, window, n, total) % 1000003), 0)").head()
        assert row is not None
        self.answer = [have + more for have, more in zip(self.answer, row, strict=True)]

    def start(self, window: Window) -> None:
        source = self.folder / "in"
        source.mkdir(parents=True)
        rows = self.spark.readStream.schema("ts timestamp, k long, v long").parquet(str(source))
        panes = windowed(rows.withWatermark("ts", "5 seconds"), window, by="k", time="ts").agg(
            F.count("*").alias("n"), F.sum("v").alias("total")
        )
        writer = panes.writeStream.option("checkpointLocation", str(self.folder / "checkpoint"))
        self.query = writer.foreachBatch(self.add).start()

    def take(self, file: Path) -> None:
        """Runs the batches of a file."""
        assert self.query is not None
        os.link(file, self.folder / "in" / file.name)
        self.query.processAllAvailable()
        reports = self.query.recentProgress
        self.ms.append(sum(report["durationMs"]["triggerExecution"] for report in reports[self.reported :]))
        self.reported = len(reports)


def write(spark: SparkSession, folder: Path, keys: int, rows: int, batches: int) -> list[Path]:
    """One file for each batch: rows of random keys, in a stretch of event time that follows the one before."""
    files = []
    for batch in range(batches):
        at = f"timestamp_millis({batch * SPAN_S * 1000} + pmod(xxhash64(id, 1), {SPAN_S * 1000}))"
        of = spark.range(batch * rows, (batch + 1) * rows)
        of = of.selectExpr(f"{at} AS ts", f"pmod(xxhash64(id, 2), {keys}) AS k", "id % 100 AS v")
        scratch = folder / f"batch-{batch}"
        of.coalesce(1).write.parquet(str(scratch))
        (written,) = scratch.glob("*.parquet")
        files.append(written.rename(folder / f"{batch:05}.parquet"))
        shutil.rmtree(scratch)
    return files


def answers(url: str, get: Callable[[str], bytes]) -> tuple[float, int]:
    """The median time of an answer in milliseconds, and its size in bytes."""
    times: list[float] = []
    size = 0
    for _ in range(ANSWERS):
        begin = time.perf_counter()
        size = len(get(url))
        times.append((time.perf_counter() - begin) * 1000)
    return statistics.median(times), size


def read(url: str) -> bytes:
    with urllib.request.urlopen(url) as response:
        body: bytes = response.read()
        return body


def measure(spark: SparkSession, window: Window, files: list[Path], folder: Path) -> tuple[Side, Side, list[str]]:
    """Both sides after all files, and what the tab answers then."""
    hidden = spark.newSession()
    hidden.conf.set(SETTING, "false")
    on, off = Side(spark, folder / "on"), Side(hidden, folder / "off")
    for side in (on, off):
        side.start(window)
    for number, file in enumerate(files):
        for side in (on, off) if number % 2 == 0 else (off, on):
            side.take(file)
    assert on.query is not None
    assert off.query is not None
    tab = f"{spark.sparkContext.uiWebUrl}/windows"
    page_ms, page_bytes = answers(f"{tab}/json/?run={on.query.runId}", read)
    begin = time.perf_counter()
    on_request = len(read(f"{tab}/panes/?run={on.query.runId}&operator=0"))
    seconds = time.perf_counter() - begin
    progress = on.query.lastProgress
    assert progress is not None
    cells = [
        f"{progress['stateOperators'][0]['customMetrics']['panesOpen']:,}",
        f"{page_ms:.1f} ms, {page_bytes / 1000:.1f} kB",
        f"{seconds:.1f} s, {on_request / 1000:.1f} kB",
    ]
    for side in (on, off):
        assert side.query is not None
        side.query.stop()
    return on, off, cells


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--batches", type=int, default=40)
    options = parser.parse_args()
    spark, console = session(heap=4, ui=True), Console(width=150)
    table = Table(
        "window", "ms a batch", "without the tab", "times as fast", "95 % interval", "open panes", "page", "read"
    )
    differ = []
    with tempfile.TemporaryDirectory() as scratch:
        files = write(spark, Path(scratch), options.keys, options.rows, options.batches)
        for number, (name, window) in enumerate(WINDOWS.items()):
            if options.only and not any(part in name for part in options.only):
                continue
            on, off, cells = measure(spark, window, files, Path(scratch) / f"window-{number}")
            if on.answer != off.answer:
                differ.append(f"The answers differ on {name}: {on.answer} with the tab, {off.answer} without")
            ours, others = on.ms[WARM:], off.ms[WARM:]
            middle, least, most = ratio(ours, others)
            medians = (f"{statistics.median(side):,.0f}" for side in (ours, others))
            table.add_row(name, *medians, f"{middle:.3f}", f"{least:.3f} to {most:.3f}", *cells)
    console.print(table)
    if differ:
        raise SystemExit("\n".join(differ))


if __name__ == "__main__":
    main()
