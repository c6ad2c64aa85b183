"""Rows whose time is too far ahead of the wall clock: random streams against a plain model, and errors."""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion import InvalidArgumentError, Session, Tumbling, UnsupportedError, Watermark, together, windowed
from tests.support.clocked import ClockedQuery
from tests.support.seeds import SEED
from tests.support.streams import SECOND, Feed, batches_of

Row = tuple[int, str, int]


class Model:
    """Tumbling panes of ten seconds over rows that are at most half a minute ahead. Times are seconds."""

    def __init__(self) -> None:
        self.clock = 0
        self.before: int | None = None
        self.open: dict[tuple[str, int], int] = defaultdict(int)

    def settle(self, wall: int, rows: list[Row]) -> list[tuple[object, ...]]:
        fired: list[tuple[object, ...]] = self.batch(wall, rows) if rows else []
        while any(start + 10 <= self.clock for _, start in self.open):
            fired += self.batch(wall, [])
        return sorted(fired)

    def batch(self, wall: int, rows: list[Row]) -> list[tuple[object, ...]]:
        fired: list[tuple[object, ...]] = []
        for time, key, value in rows:
            start = time // 10 * 10
            if time > wall + 30:
                fired.append(("ahead", key, time, value))
            elif self.before is not None and self.before >= start + 10:
                fired.append(("late", key, time, value))
            else:
                self.open[key, start] += value
        for key, start in [pane for pane in self.open if pane[1] + 10 <= self.clock]:
            fired.append(("close", key, start, self.open.pop((key, start))))
        self.before = self.clock
        self.clock = max([self.clock, *(time - 2 for time, _, _ in rows if time <= wall + 30)])
        return fired


def shown(panes: DataFrame) -> DataFrame:
    at = F.coalesce(F.unix_timestamp("window.start"), F.unix_timestamp("late_row.ts"))
    return panes.select("pane.firing", "k", at.alias("at"), F.coalesce("total", "late_row.v").alias("v"))


@pytest.mark.parametrize("several", [False, True], ids=["one window", "two windows"])
def test_random_rows_ahead_are_left_out_as_in_the_model(spark: SparkSession, tmp_path: Path, several: bool) -> None:
    rng = random.Random(f"{SEED} ahead {several}")
    model, feed, wall = Model(), Feed(tmp_path / "in", "k string, v int"), 1000
    clock = Watermark(max_ahead="30 seconds")

    def start() -> ClockedQuery:
        rows = feed.stream(spark, "2 seconds")
        tens = windowed(rows, Tumbling("10 seconds"), by="k", time="ts", clock=clock, late="emit")
        panes = tens.agg(F.sum("v").alias("total"))
        if several:
            visits = windowed(rows, Session("5 seconds"), by="k", time="ts", clock=clock).agg(F.sum("v").alias("total"))
            panes = together(tens=panes, visits=visits).where("window_name = 'tens'")
        return ClockedQuery(shown(panes), checkpoint=tmp_path / "checkpoint", start_ms=wall * 1000)

    query = None
    for step in range(25):
        rows = [
            (wall + rng.randrange(-40, 60), rng.choice("abcdef"), rng.randrange(9)) for _ in range(rng.randrange(1, 7))
        ]
        feed.write([(time * SECOND, key, value) for time, key, value in rows])
        query = query or start()
        fired = sorted(tuple(row) for row in query.settle())
        assert fired == model.settle(wall, rows), f"step {step}, seed {SEED}"
        passed = rng.choice([0, 1, 10, 20])
        wall += passed
        if rng.random() < 0.2:
            query.stop()
            query = None
        else:
            query.advance(f"{passed} seconds")
    query = query or start()
    wall += 1000
    query.advance("1000 seconds")
    feed.write([(wall * SECOND, "last", 1)])
    query.settle()
    assert batches_of(query)[-1]["panesOpen"] == (2 if several else 1)
    query.stop()


def test_a_batch_dataframe_has_no_wall_clock(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "k string")
    feed.write([(1 * SECOND, "a")])
    with pytest.raises(UnsupportedError, match=r"max_ahead=\.\.\.\) compares rows with the wall clock"):
        windowed(feed.batch(spark), Tumbling("1 hour"), by="k", time="ts", clock=Watermark(max_ahead="1 hour")).agg(
            F.count("*").alias("n")
        )


def test_windows_of_one_query_have_one_limit(spark: SparkSession, tmp_path: Path) -> None:
    rows = Feed(tmp_path / "in", "k string").stream(spark)
    n = F.count("*").alias("n")
    one = windowed(rows, Tumbling("1 hour"), by="k", time="ts", clock=Watermark(max_ahead="1 hour")).agg(n)
    two = windowed(rows, Tumbling("1 day"), by="k", time="ts").agg(n)
    with pytest.raises(InvalidArgumentError, match=r"max_ahead=\.\.\.\) moves the event clock .* differ in it \(one\)"):
        together(one=one, two=two)


def test_sql_has_the_same_limit(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "k string, v int")
    feed.stream(spark).createOrReplaceTempView("events_ahead")
    panes = spark.sql(
        "SELECT k, pane.firing, late_row.v FROM mullion_windowed(TABLE(events_ahead), window => 'tumbling', "
        "size => '10 seconds', by => 'k', time => 'ts', aggregates => 'count(*) AS n', late => 'emit', "
        "clock_max_ahead => '1 hour')"
    )
    feed.write([(1 * SECOND, "a", 1), (4000 * SECOND, "a", 2)])
    with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:
        assert [tuple(row) for row in query.settle()] == [("a", "ahead", 2)]


@pytest.mark.parametrize("max_ahead", ["-1 second", "soon", 30])
def test_a_limit_is_a_length_of_time(max_ahead: object) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^max_ahead="):
        Watermark(max_ahead=max_ahead)  # type: ignore[arg-type]


def test_a_clock_has_an_honest_repr() -> None:
    assert repr(Watermark("1 minute", "1 hour")) == "Watermark(idle_after='1 minute', max_ahead='1 hour')"
    assert Watermark(max_ahead="60 minutes") == Watermark(max_ahead="1 hour")
    assert repr(Watermark(max_ahead="0 seconds")) == "Watermark(max_ahead='0 seconds')"
