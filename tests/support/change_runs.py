"""One checkpoint, and the runs of a changing query over it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from mullion import Upgrade, compare, read_panes, windowed
from mullion.windows import Window
from tests.support.clocked import ClockedQuery
from tests.support.streams import SECOND, Feed

AGGREGATES = {
    "n": "count(*)",
    "total": "sum(v)",
    "most": "max(v)",
    "odd": "count_if(v % 2 = 1)",
    "mean": "avg(v)",
    "everything": "sort_array(collect_list(v))",
    "more": "sort_array(collect_list(v + 1))",
}


class Runs:
    """One checkpoint, and the runs of the query over it."""

    def __init__(self, spark: SparkSession, folder: Path, window: Window) -> None:
        self.spark = spark
        self.checkpoint = folder / "checkpoint"
        self.feed = Feed(folder / "in", "k string, v int")
        self.window = window

    def panes(self, aggregates: Sequence[str | Column], **options: Any) -> DataFrame:
        columns = [F.expr(AGGREGATES[a]).alias(a) if isinstance(a, str) else a for a in aggregates]
        keys = options.pop("by", "k")
        window = options.pop("window", self.window)
        rows = options.pop("rows", None)
        rows = self.feed.stream(self.spark, options.pop("delay", "0 seconds")) if rows is None else rows
        options = {"time": "ts", "upgrade": Upgrade(new_aggregates="from now"), **options}
        return windowed(rows, window, by=keys, **options).agg(*columns)

    def start(self, aggregates: Sequence[str | Column], **options: Any) -> ClockedQuery:
        return ClockedQuery(self.panes(aggregates, **options), checkpoint=self.checkpoint)

    def run(
        self, aggregates: Sequence[str | Column], rows: Sequence[tuple[int, str, int]], **options: Any
    ) -> list[Row]:
        """One run with one batch of rows; times are whole seconds."""
        with self.start(aggregates, **options) as query:
            self.write(rows)
            return query.settle()

    def write(self, rows: Sequence[tuple[int, str, int]]) -> None:
        self.feed.write([(time * SECOND, key, value) for time, key, value in rows])

    def open(self) -> list[Row]:
        return read_panes(self.checkpoint, spark=self.spark).collect()

    def files(self) -> dict[str, float]:
        return {str(p): p.stat().st_mtime for p in self.checkpoint.rglob("*") if p.is_file()}

    def crash(self) -> None:
        """Removes the last commit, as if the query had died just before it."""
        commits = self.checkpoint / "commits"
        last = max(int(file.name) for file in commits.iterdir() if file.name.isdigit())
        (commits / str(last)).unlink()
        (commits / f".{last}.crc").unlink(missing_ok=True)


def verdicts(panes: DataFrame, runs: Runs) -> set[tuple[str, str]]:
    before = runs.files()
    changes = {(row.verdict, row.what) for row in compare(panes, runs.checkpoint).collect()}
    assert runs.files() == before, "nothing was written"
    return changes
