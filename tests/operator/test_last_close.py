"""Values that a close takes from the close before it: ``previous`` and ``empty="forward"``, against plain Python.

A round is a query with several keys per partition, restarts and late rows. ``MULLION_SEED`` repeats a failed run, and
``MULLION_TEST_ROUNDS`` sets the number of rounds.
"""

from __future__ import annotations

import os
import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion import (
    Count,
    Early,
    Global,
    IncompatibleStateError,
    InvalidArgumentError,
    Session,
    Sliding,
    Tumbling,
    UnsupportedError,
    windowed,
)
from mullion import functions as MF
from tests.support.cache_sizes import draw_size
from tests.support.clocked import ClockedQuery
from tests.support.seeds import SEED
from tests.support.streams import Feed, batches_of

ROUNDS = int(os.environ.get("MULLION_TEST_ROUNDS", "3"))
KEYS = [f"key {number}" for number in range(9)] + [None]

Row = tuple[int, str | None, int]
"""A time in seconds, a key and a value."""


@dataclass
class Model:
    """The closes of windows on a grid or of sessions, in seconds. Every open pane has a list of its values."""

    kind: str
    size: int
    slide: int
    lateness: int
    delay: int
    empty: str
    clock: int | None = None
    late: int = 0
    open: dict[tuple[str | None, int, int], list[int]] = field(default_factory=dict)
    next_starts: dict[str | None, int] = field(default_factory=dict)
    last: dict[str | None, tuple[Any, ...]] = field(default_factory=dict)

    def windows(self, time: int) -> list[tuple[int, int]]:
        start = time // self.slide * self.slide
        return [(at, at + self.size) for at in range(start, time - self.size, -self.slide)]

    def is_closed(self, end: int) -> bool:
        return self.clock is not None and end + self.lateness <= self.clock

    def step(self, rows: list[Row]) -> list[tuple[Any, ...]]:
        for row in rows:
            entered = self._enters_session(row) if self.kind == "session" else self._enters_grid(row)
            self.late += not entered
        if rows:
            # A watermark is at least 0.
            self.clock = max(self.clock or 0, max(time for time, _, _ in rows) - self.delay)
        return list(self._closes())

    def _enters_grid(self, row: Row) -> bool:
        time, key, value = row
        panes = [(key, *window) for window in self.windows(time) if not self.is_closed(window[1])]
        for pane in panes:
            self.open.setdefault(pane, []).append(value)
            self.next_starts[key] = min(self.next_starts.get(key, pane[1]), pane[1])
        return bool(panes)

    def _enters_session(self, row: Row) -> bool:
        time, key, value = row
        touched = [p for p in self.open if p[0] == key and p[1] <= time + self.size and time <= p[2]]
        if not touched and self.is_closed(time + self.size):
            return False
        values = [value, *(v for pane in touched for v in self.open.pop(pane))]
        bounds = [(time, time + self.size), *((pane[1], pane[2]) for pane in touched)]
        self.open[key, min(start for start, _ in bounds), max(end for _, end in bounds)] = values
        return True

    def _closes(self) -> Iterator[tuple[Any, ...]]:
        if self.empty != "skip":
            for key in list(self.next_starts):
                while self.is_closed(self.next_starts[key] + self.size):
                    self.open.setdefault((key, self.next_starts[key], self.next_starts[key] + self.size), [])
                    self.next_starts[key] += self.slide
        for pane in sorted((pane for pane in self.open if self.is_closed(pane[2])), key=lambda pane: pane[2]):
            values = self.open.pop(pane)
            results = (len(values), sum(values) if values else None, max(map(text, values), default=None))
            before = self.last.get(pane[0], (None, None, None))
            if not values and self.empty == "forward":
                results = before
            self.last[pane[0]] = results
            yield (*pane, *results, *before[1:])


def text(value: int) -> str:
    """A text of any length for a value."""
    return "x" * (value % 7) + str(value)


def panes_of(rows: DataFrame, model: Model, *, previous: bool) -> DataFrame:
    def seconds(length: int) -> timedelta:
        return timedelta(seconds=length)

    if model.kind == "session":
        window: Any = Session(seconds(model.size))
    elif model.size == model.slide:
        window = Tumbling(seconds(model.size))
    else:
        window = Sliding(seconds(model.size), seconds(model.slide))
    most = F.max(F.concat(F.repeat(F.lit("x"), (F.col("v") % 7).cast("int")), F.col("v").cast("string")))
    aggregates = {"n": F.count("*"), "total": F.sum("v"), "most": most}
    if previous:
        change = F.sum("v") - MF.previous(F.sum("v"))
        aggregates |= {"before": MF.previous(F.sum("v")), "text": MF.previous(most)}
        aggregates |= {"change": change}
    return windowed(
        rows,
        window,
        by="k",
        time="ts",
        allowed_lateness=seconds(model.lateness),
        empty=model.empty,  # type: ignore[arg-type]
    ).agg(**aggregates)


def shown(panes: DataFrame, rows: list[Any]) -> list[tuple[Any, ...]]:
    values = panes.columns[3:]
    return [(row.k, *(int(end.timestamp()) for end in row.window), *(row[value] for value in values)) for row in rows]


def expected(closes: list[tuple[Any, ...]], *, previous: bool) -> list[tuple[Any, ...]]:
    def change(close: tuple[Any, ...]) -> int | None:
        now, before = close[4], close[6]
        return None if now is None or before is None else now - before

    return [(*close, change(close)) if previous else close[:6] for close in closes]


def in_order(closes: list[tuple[Any, ...]]) -> list[str]:
    return sorted(map(repr, closes))


def draw(rng: random.Random) -> tuple[Model, bool]:
    empty = rng.choice(["skip", "skip", "emit", "forward", "forward"])
    kind = rng.choice(["grid", "session"]) if empty == "skip" else "grid"
    size = rng.randrange(3, 12)
    overlaps = kind == "grid" and empty == "forward" and rng.random() < 0.5
    slide = rng.randrange(1, size) if overlaps else size
    return Model(kind, size, slide, rng.choice([0, 0, 4]), rng.choice([0, 3]), empty), not overlaps


def random_rows(rng: random.Random, now: int) -> list[Row]:
    return [
        (max(0, now + rng.randrange(-14, 9)), rng.choice(KEYS), rng.randrange(50)) for _ in range(rng.randrange(1, 14))
    ]


@pytest.mark.parametrize("number", range(ROUNDS))
def test_closes_of_random_streams_take_values_from_the_close_before(
    spark: SparkSession, tmp_path: Path, number: int
) -> None:
    rng = random.Random(f"{SEED} last close {number}")
    model, previous = draw(rng)
    context = f"MULLION_SEED={SEED}, round {number}, {model}, {draw_size(spark, rng)}"
    print(context)
    feed = Feed(tmp_path / "in", "k string, v bigint")
    panes = panes_of(feed.stream(spark, f"{model.delay} seconds"), model, previous=previous)
    query: ClockedQuery | None = None
    now = 0
    for step in range(12):
        now += rng.choice([0, 1, 3, 10, 40])
        rows = random_rows(rng, now)
        if model.kind == "session":
            # Rows are not late: session_model.py has the rules of late rows.
            rows = [(max(time, model.clock or 0), key, value) for time, key, value in rows]
        feed.write([(time * 1_000_000, key, value) for time, key, value in rows])
        if query is not None and rng.random() < 0.2:
            query.stop()
            query = None
        query = query or ClockedQuery(panes, checkpoint=tmp_path / "checkpoint")
        fired = shown(panes, query.settle())
        closes = expected(model.step(rows), previous=previous)
        assert in_order(fired) == in_order(closes), f"{context}, step {step}"
    assert query is not None
    if model.empty == "skip":
        feed.flood()
        query.settle()
    report = batches_of(query)[-1]
    query.stop()
    if model.empty == "skip":
        keys = {pane[0] for pane in model.open} | set(model.last)
        assert report["numRowsTotal"] == len(keys), f"{context}: one record per key is left"


@pytest.mark.parametrize("number", range(ROUNDS))
def test_a_batch_of_random_rows_takes_values_from_the_close_before(spark: SparkSession, number: int) -> None:
    rng = random.Random(f"{SEED} last close of a batch {number}")
    model, previous = draw(rng)
    rows = [row for step in range(6) for row in random_rows(rng, step * 20)]
    frame = spark.createDataFrame(rows, "t int, k string, v bigint").withColumn("ts", F.timestamp_seconds("t"))
    panes = panes_of(frame, model, previous=previous)
    entering = Model(**{**vars(model), "delay": 0, "lateness": 10**9})
    entering.step(rows)
    # A batch closes the windows of each key up to the last one with rows.
    closes: list[tuple[Any, ...]] = []
    by_key: dict[str | None, dict[tuple[int, int], list[int]]] = defaultdict(dict)
    for (key, start, end), values in entering.open.items():
        by_key[key][start, end] = values
    for key, windows in by_key.items():
        one = Model(model.kind, model.size, model.slide, 0, 0, model.empty, clock=max(end for _, end in windows))
        one.open = {(key, *window): values for window, values in windows.items()}
        one.next_starts = {key: min(start for start, _ in windows)}
        closes += one.step([])
    assert in_order(shown(panes, panes.collect())) == in_order(expected(closes, previous=previous)), f"{SEED} {model}"


def test_windows_of_row_numbers_of_a_batch_have_previous_windows(spark: SparkSession) -> None:
    rows = spark.range(7).coalesce(1).select("id")
    panes = windowed(rows, Count(2), time=None).agg(total=F.sum("id"), before=MF.previous(F.sum("id")))
    assert sorted((row.total, row.before) for row in panes.collect()) == [(1, None), (5, 1), (9, 5)]


def test_previous_and_forward_are_rejected_where_panes_overlap_or_give_rows_away(spark: SparkSession) -> None:
    rows = spark.sql("SELECT timestamp_seconds(1) AS ts, 'a' AS k, 1 AS v")

    def refused(message: str, kind: type[Exception] = UnsupportedError, column: Any = None, **options: Any) -> None:
        arguments: dict[str, Any] = {"by": "k", "time": "ts", "window": Tumbling("1 minute"), **options}
        with pytest.raises(kind, match=message):
            windowed(rows, **arguments).agg(MF.previous(F.sum("v")) if column is None else column)

    refused("windows of one key overlap", window=Sliding("1 minute", "1 second"))
    refused("kept as long as the query", window=Count(2, forget_after="1 day"), time=None)
    refused("state has one pane for each key", column=MF.previous(MF.previous(F.sum("v"))))
    for closing in (Global.when(MF.previous(F.sum("v")) > 1), Global.every(5, ends_with=MF.previous(F.sum("v")) > 1)):
        refused("in the condition that closes a window", window=closing, time=None, column=F.sum("v"))
    refused("has no aggregate", InvalidArgumentError, column=MF.previous(F.col("k")))
    refused("a value that only Spark computes", column=MF.previous(F.udf(str, useArrow=False)(F.sum("v"))))
    with pytest.raises(InvalidArgumentError, match=r"previous\('v'\) was given a str"):
        MF.previous("v")  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match=r"collect\(\): empty='forward' would keep"):
        windowed(rows, Tumbling("1 minute"), by="k", time="ts", empty="forward").collect()
    arguments: dict[str, Any] = {"early": Early(count=1), "accumulate": False, "empty": "forward"}
    with pytest.raises(UnsupportedError, match="empty='forward' and accumulate=False do not go together"):
        windowed(rows, Tumbling("1 minute"), by="k", time="ts", **arguments)


def test_other_values_of_the_last_close_require_a_new_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "k string, v bigint")

    def start(empty: Any, **aggregates: Any) -> None:
        panes = windowed(feed.stream(spark), Tumbling("10 seconds"), by="k", time="ts", empty=empty).agg(**aggregates)
        feed.write([(1_000_000, "a", 1)])
        with ClockedQuery(panes, checkpoint=tmp_path / f"checkpoint of {empty}") as query:
            query.settle()

    total, before = F.sum("v"), MF.previous(F.sum("v"))
    start("skip", total=total, before=before)
    start("skip", before=before, total=total, change=total - before)
    for aggregates in ({"total": total}, {"total": total, "before": MF.previous(2 * total)}):
        with pytest.raises(IncompatibleStateError, match=r"values of the last close was \[sum\(v\) BIGINT\]"):
            start("skip", **aggregates)
    start("forward", total=total)
    start("forward", renamed=total)
    with pytest.raises(IncompatibleStateError, match="values of the last close"):
        start("forward", total=2 * total)
