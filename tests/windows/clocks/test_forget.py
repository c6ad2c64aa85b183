"""Keys that are forgotten after a time without rows: random streams against a plain model, and the size of state."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion import Count, Global, InvalidArgumentError, PerKey, Session, Tumbling, UnsupportedError, windowed
from mullion.windows import Window
from tests.support.clocked import ClockedQuery
from tests.support.seeds import SEED
from tests.support.streams import SECOND, Feed, batches_of

AFTER = 60
Closed = tuple[str, int, int, int]


class CountedKey:
    """The rows of a key in windows of three."""

    def __init__(self) -> None:
        self.values: list[int] = []
        self.last = 0

    def add(self, time: int, value: int) -> list[tuple[int, int, int]]:
        self.values.append(value)
        n = len(self.values)
        return [(n - 3, n, sum(self.values[-3:]))] if n % 3 == 0 else []

    def close(self) -> list[tuple[int, int, int]]:
        n = len(self.values)
        start = n // 3 * 3
        return [(start, start + 3, sum(self.values[start:]))] if start < n else []


class ClockedKey:
    """The panes of ten seconds of a key, and its clock."""

    def __init__(self) -> None:
        self.clock: int | None = None
        self.panes: dict[int, int] = {}
        self.last = 0

    def add(self, time: int, value: int) -> list[tuple[int, int, int]]:
        start = time // 10 * 10
        if self.clock is not None and self.clock >= start + 10:
            return []
        self.panes[start] = self.panes.get(start, 0) + value
        self.clock = time if self.clock is None else max(self.clock, time)
        due = sorted(start for start in self.panes if start + 10 <= self.clock)
        return [(start, start + 10, self.panes.pop(start)) for start in due]

    def close(self) -> list[tuple[int, int, int]]:
        return [(start, start + 10, total) for start, total in sorted(self.panes.items())]


class Model:
    def __init__(self, kind: type[CountedKey | ClockedKey]) -> None:
        self.kind = kind
        self.keys: dict[str, CountedKey | ClockedKey] = {}

    def settle(self, wall: int, rows: list[tuple[int, str, int]]) -> list[Closed]:
        closed: list[Closed] = []
        for time, key, value in rows:
            of = self.keys.setdefault(key, self.kind())
            of.last = wall
            closed += [(key, *pane) for pane in of.add(time, value)]
        for key in [key for key, of in self.keys.items() if wall - of.last >= AFTER]:
            closed += [(key, *pane) for pane in self.keys.pop(key).close()]
        return sorted(closed)


def panes_of(spark: SparkSession, feed: Feed, counts: bool, after: str = f"{AFTER} seconds") -> DataFrame:
    rows = feed.stream(spark)
    if counts:
        panes = windowed(rows, Count(3, forget_after=after), by="k", time=None).agg(F.sum("v").alias("v"))
        return panes.select("k", "window.start", "window.end", "v")
    clock = PerKey(forget_after=after)
    panes = windowed(rows, Tumbling("10 seconds"), by="k", time="ts", clock=clock).agg(F.sum("v").alias("v"))
    bounds = [F.unix_timestamp(f"window.{name}").alias(name) for name in ("start", "end")]
    return panes.select("k", *bounds, "v")


@pytest.mark.parametrize("counts", [True, False], ids=["count windows", "clocks of keys"])
def test_random_keys_are_forgotten_as_in_the_model(spark: SparkSession, tmp_path: Path, counts: bool) -> None:
    rng = random.Random(f"{SEED} {counts}")
    model = Model(CountedKey if counts else ClockedKey)
    feed = Feed(tmp_path / "in", "k string, v int")
    wall = 1000

    def start() -> ClockedQuery:
        return ClockedQuery(panes_of(spark, feed, counts), checkpoint=tmp_path / "checkpoint", start_ms=wall * 1000)

    def some_rows() -> list[tuple[int, str, int]]:
        return [(rng.randrange(60), rng.choice("abcdefgh"), rng.randrange(9)) for _ in range(rng.randrange(1, 6))]

    rows = some_rows()
    feed.write([(time * SECOND, key, value) for time, key, value in rows])
    query = start()
    for step in range(30):
        context = f"step {step}, seed {SEED}"
        fired = sorted((row.k, row.start, row.end, row.v) for row in query.settle())
        assert fired == model.settle(wall, rows), context
        restarts = rng.random() < 0.2
        if restarts:
            query.stop()
        passed = rng.choice([0, 0, 10, 20, 50])
        wall += passed
        if not restarts:
            query.advance(f"{passed} seconds")
        rows = some_rows() if restarts or passed == 0 else []
        if rows:
            feed.write([(time * SECOND, key, value) for time, key, value in rows])
        if restarts:
            query = start()
    query.settle()
    query.advance(f"{AFTER} seconds")
    query.settle()
    assert batches_of(query)[-1]["numRowsTotal"] == 0
    assert batches_of(query)[-1]["panesOpen"] == 0
    query.stop()


@pytest.mark.parametrize("counts", [True, False], ids=["count windows", "clocks of keys"])
def test_state_of_keys_that_come_and_go_does_not_grow(spark: SparkSession, tmp_path: Path, counts: bool) -> None:
    feed = Feed(tmp_path / "in", "k string, v int")
    records = []
    with ClockedQuery(panes_of(spark, feed, counts, "2 days"), checkpoint=tmp_path / "checkpoint") as query:
        for day in range(12):
            feed.write([(day * SECOND, f"day {day}, {i}", 1) for i in range(20)])
            query.settle()
            records.append(batches_of(query)[-1]["numRowsTotal"])
            query.advance("1 day")
    assert records[3] == records[11] > records[0]


def test_another_time_continues_and_none_is_rejected(spark: SparkSession, tmp_path: Path) -> None:
    feed, checkpoint = Feed(tmp_path / "in", "k string, v int"), tmp_path / "checkpoint"
    feed.write([(1 * SECOND, "a", 1)])
    with ClockedQuery(panes_of(spark, feed, counts=True), checkpoint=checkpoint) as query:
        assert query.settle() == []
    # The timer of 60 seconds is renewed by the new time.
    with ClockedQuery(panes_of(spark, feed, counts=True, after="90 seconds"), checkpoint=checkpoint) as query:
        query.settle()
        query.advance("89 seconds")
        assert query.settle() == []
        query.advance("1 second")
        assert [(row.k, row.end) for row in query.settle()] == [("a", 3)]
    without = windowed(feed.stream(spark), Count(3), by="k", time=None).agg(F.sum("v").alias("v"))
    with (
        pytest.raises(Exception, match="keys without rows are forgotten"),
        ClockedQuery(without.select("k", "v"), checkpoint=checkpoint) as query,
    ):
        query.settle()


@pytest.mark.parametrize(
    ("window", "options", "message"),
    [
        (Count(3, forget_after="1 day"), {"ids": True}, r"forget_after= with ids=True"),
        (Tumbling("1 hour"), {"clock": PerKey(forget_after="1 day"), "ids": True, "time": "ts"}, r"forget_after= with"),
    ],
)
def test_forgotten_keys_have_no_ids(
    spark: SparkSession, tmp_path: Path, window: Window, options: dict[str, Any], message: str
) -> None:
    rows = Feed(tmp_path / "in", "k string, v int").stream(spark)
    with pytest.raises(UnsupportedError, match=message):
        windowed(rows, window, by="k", **{"time": None, **options}).agg(F.count("*").alias("n"))


def test_a_time_without_rows_is_longer_than_zero() -> None:
    for call in (
        lambda: Count(3, forget_after="0 seconds"),
        lambda: Global.every(3, forget_after="soon"),
        lambda: PerKey(forget_after="-1 day"),
    ):
        with pytest.raises(InvalidArgumentError, match=r"^forget_after="):
            call()
    spec = PerKey(wall_time=True, forget_after="7 days")
    assert repr(spec) == "PerKey(wall_time=True, forget_after='7 days')"
    assert repr(Count(3, 2, forget_after="1 hour")) == "Count(3, every=2, forget_after='1 hour')"
    assert repr(Global.changes("status", forget_after="1 hour")) == "Global.changes('status', forget_after='1 hour')"
    assert Global.every(3, forget_after="1 hour") != Global.every(3)
    assert spec != PerKey(wall_time=True)


@pytest.mark.parametrize(
    ("window", "n"),
    [
        ("window => 'count', length => 3, time => NULL, forget_after => '1 minute'", 3),
        ("window => 'global', every => 3, time => NULL, forget_after => '1 minute'", 2),
        (
            "window => 'tumbling', size => '1 day', time => 'ts', clock => 'per key', clock_forget_after => '1 minute'",
            0,
        ),
    ],
)
def test_sql_forgets_keys_too(spark: SparkSession, tmp_path: Path, window: str, n: int) -> None:
    feed = Feed(tmp_path / "in", "k string, v int")
    feed.stream(spark).createOrReplaceTempView("events_of_keys")
    bound = "window.end" if n else "0"
    panes = spark.sql(
        f"SELECT k, n, {bound} FROM mullion_windowed(TABLE(events_of_keys), {window}, by => 'k', "
        "aggregates => 'count(*) AS n')"
    )
    feed.write([(1 * SECOND, "a", 1), (4000 * SECOND, "a", 2)])
    with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:
        assert query.settle() == []
        query.advance("1 minute")
        assert [tuple(row) for row in query.settle()] == [("a", 2, n)]


def test_sessions_of_forgotten_keys_close(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "k string, v int")
    clock = PerKey(wall_time=True, forget_after="1 minute")
    panes = windowed(feed.stream(spark), Session("2 minutes"), by="k", time="ts", clock=clock).agg(
        F.sum("v").alias("v")
    )
    feed.write([(1 * SECOND, "a", 1)])
    with ClockedQuery(panes.select("k", "v"), checkpoint=tmp_path / "checkpoint") as query:
        assert query.settle() == []
        query.advance("1 minute")
        assert [tuple(row) for row in query.settle()] == [("a", 1)]
        assert batches_of(query)[-1]["numRowsTotal"] == 0
