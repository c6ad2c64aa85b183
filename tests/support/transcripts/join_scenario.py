"""A test case of ``tests/transcripts/joins``; the README there documents the notation."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import reduce
from pathlib import Path
from typing import Any, Final

import yaml
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from mullion import Session, Sliding, Tumbling, asof_join, windowed_join
from tests.support.clocked import ClockedQuery
from tests.support.streams import SECOND, Feed, batches_of

FOLDER: Final = Path(__file__).parents[2] / "transcripts" / "joins"
SIDES: Final = ("left", "right")


@dataclass(frozen=True, kw_only=True)
class JoinStep:
    """Rows of both sides, and the rows of the result."""

    left: list[list[Any]] | None = None
    right: list[list[Any]] | None = None
    restart: bool = False
    crash: bool = False
    rows: list[Any] = field(default_factory=list)
    late: int = 0
    without_time: int = 0


@dataclass(frozen=True, kw_only=True)
class JoinScenario:
    """One test case."""

    name: str
    rule: Any
    steps: list[JoinStep]
    asof: dict[str, Any] | None = None
    windowed: dict[str, Any] | None = None
    by: list[str] = field(default_factory=lambda: ["k"])
    watermarks: list[int] = field(default_factory=lambda: [0, 0])
    end: list[Any] = field(default_factory=list)
    records: int = 0

    def join(self, left: DataFrame, right: DataFrame) -> DataFrame:
        if self.asof is not None:
            options = dict(self.asof)
            if "tolerance" in options:
                options["tolerance"] = timedelta(seconds=options["tolerance"])
            return asof_join(left, right, by=self.by, left_time="ts", right_time="ts", **options)
        options = dict(self.windowed or {})
        lateness = timedelta(seconds=options.pop("lateness", 0))
        window = _window(options.pop("window"))
        return windowed_join(left, right, window, by=self.by, time="ts", allowed_lateness=lateness, **options)


def join_scenarios() -> list[JoinScenario]:
    documents = [
        document
        for file in sorted(FOLDER.glob("*.yaml"))
        for document in yaml.load_all(file.read_text(encoding="utf-8"), yaml.CSafeLoader)
    ]
    return [JoinScenario(**{**each, "steps": [JoinStep(**step) for step in each["steps"]]}) for each in documents]


class JoinRun:
    """The query of one test case."""

    def __init__(self, spark: SparkSession, scenario: JoinScenario, folder: Path) -> None:
        self.spark = spark
        self.scenario = scenario
        self.feeds = [Feed(folder / side, "k string, v int") for side in SIDES]
        self.checkpoint = folder / "checkpoint"
        self.query = self.start()
        self.batches = 0

    def start(self) -> ClockedQuery:
        self.batches = 0
        sides = (
            feed.stream(self.spark, f"{delay} seconds")
            for feed, delay in zip(self.feeds, self.scenario.watermarks, strict=True)
        )
        return ClockedQuery(
            self.scenario.join(*(rows.select("ts", "k", "v") for rows in sides)), checkpoint=self.checkpoint
        )

    def play(self) -> None:
        """Runs all steps, the end, and the same rows as batch DataFrames."""
        emitted: list[str] = []
        for number, step in enumerate(self.scenario.steps, 1):
            rows = self.step(step)
            assert sorted(rows) == sorted(map(text, step.rows)), f"step {number}"
            if not step.crash:
                emitted += rows
        files = [sorted(feed.folder.glob("*.parquet")) for feed in self.feeds]
        for feed in self.feeds:
            feed.flood()
        rows = shown(self.query.settle())
        assert sorted(rows) == sorted(map(text, self.scenario.end)), "at the end"
        assert batches_of(self.query)[-1]["numRowsTotal"] == self.scenario.records, "records in state"
        if not any(step.late for step in self.scenario.steps):
            batch = self.scenario.join(*(self.read(of, feed) for of, feed in zip(files, self.feeds, strict=True)))
            assert sorted(shown(batch.collect())) == sorted(emitted + rows), "the same as a batch"

    def step(self, step: JoinStep) -> list[str]:
        if step.restart or step.crash:
            self.query.stop()
        if step.crash:
            commits = self.checkpoint / "commits"
            last = max(int(file.name) for file in commits.iterdir() if file.name.isdigit())
            for name in (str(last), f".{last}.crc"):
                (commits / name).unlink(missing_ok=True)
        for feed, side in zip(self.feeds, (step.left, step.right), strict=True):
            if side is not None:
                feed.write([(None if at is None else int(at * SECOND), *values) for at, *values in side])
        if step.restart or step.crash:
            self.query = self.start()
        rows = shown(self.query.settle())
        reports = batches_of(self.query)[self.batches :]
        self.batches += len(reports)
        for metric, count in (("rowsLate", step.late), ("rowsWithoutTime", step.without_time)):
            assert sum(report[metric] for report in reports) == count, metric
        return rows

    def read(self, files: Iterable[Path], feed: Feed) -> DataFrame:
        """Rows in the order of their files: of several files, Spark reads the longest first."""
        empty = self.spark.createDataFrame([], feed.ddl)
        rows = reduce(DataFrame.union, [self.spark.read.schema(feed.ddl).parquet(str(file)) for file in files], empty)
        return rows.select(F.timestamp_micros("t").alias("ts"), "k", "v")


def shown(rows: Sequence[Row]) -> list[str]:
    """Rows of the result in the notation of a test case."""
    return [text(_values(row)) for row in rows]


def text(value: Any) -> str:
    """A text that is the same for equal values."""

    def of(value: Any) -> Any:
        match value:
            case bool() | str() | None:
                return value
            case dict():
                return {key: of(item) for key, item in value.items()}
            case list() | tuple():
                return [of(item) for item in value]
            case datetime():
                return float((value.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(seconds=1))
            case _:
                return float(value)

    return json.dumps(of(value))


def _values(row: Row) -> Any:
    if "late_row" not in row:
        return list(row)
    late = row["late_row"]
    if late is None:
        return list(row)[:-1]
    return {side: list(late[side]) for side in SIDES if late[side] is not None}


def _window(spec: dict[str, Any]) -> Tumbling | Sliding | Session:
    def length(name: str) -> timedelta:
        return timedelta(seconds=spec[name])

    if "tumbling" in spec:
        return Tumbling(length("tumbling"))
    if "sliding" in spec:
        return Sliding(length("sliding"), length("every"))
    return Session(length("session"), ends_with=F.expr(spec["ends_with"]) if "ends_with" in spec else None)
