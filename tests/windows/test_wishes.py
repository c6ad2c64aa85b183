"""Windows that users of other systems asked for: each wish with its rows and its result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from mullion import Count, Global, Session, Tumbling, Watermark, windowed
from mullion.windows import Window
from tests.support.clocked import ClockedQuery
from tests.support.streams import SECOND, Feed

MINUTE = 60


def closes_of(
    window: Window, rows: list[tuple[Any, ...]], spark: SparkSession, tmp_path: Path, **options: Any
) -> list[tuple[Any, ...]]:
    """The closes of a stream with a batch per row: key, start and end in seconds, rows, and the sum of ``v``."""
    feed = Feed(tmp_path / "in", "k string, v bigint, event string")
    options = {"by": "k", "time": "ts", **options}
    aggregates: list[Column] = [F.count("v").alias("n"), F.sum("v").alias("total")]
    panes = windowed(feed.stream(spark), window, **options).agg(*aggregates)
    closed: list[tuple[Any, ...]] = []

    def take(query: ClockedQuery) -> None:
        for row in query.settle():
            start, end = row.window
            seconds = [bound if isinstance(bound, int) else bound.timestamp() for bound in (start, end)]
            closed.append((row.k, *seconds, row.n, row.total))

    with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:
        for time, key, value, event in rows:
            feed.write([(round(time * SECOND), key, value, event)])
            take(query)
        feed.flood()
        take(query)
    return closed


def test_a_session_ends_after_a_pause_or_when_it_is_six_hours_long(spark: SparkSession, tmp_path: Path) -> None:
    rows = [(ten * 10 * MINUTE, "bot", 1, None) for ten in range(0, 24 * 6, 6)]
    window = Session("60 minutes", max_length="6 hours")
    expected = [("bot", h * 3600.0, (h + 6) * 3600.0, 6, 6) for h in (0, 6, 12, 18)]
    assert closes_of(window, rows, spark, tmp_path) == expected


def test_a_session_ends_with_an_event_or_with_a_pause(spark: SparkSession, tmp_path: Path) -> None:
    rows = [(0, "a", 1, "login"), (300, "a", 1, "click"), (360, "a", 1, "logout"), (480, "a", 1, "login")]
    window = Session("30 minutes", ends_with=F.col("event") == "logout")
    assert closes_of(window, rows, spark, tmp_path) == [
        ("a", 0.0, 360.000001, 3, 3),
        ("a", 480.0, 480.0 + 1800, 1, 1),
    ]


def test_a_window_has_so_many_rows_or_those_of_so_long(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "v bigint")
    panes = windowed(feed.stream(spark), Count(3, timeout="10 seconds"), time=None).agg(F.collect_list("v").alias("vs"))
    closed = []
    with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:
        at = 0
        for second in (0, 1, 2, 3, 13, 20, 30):
            query.advance(f"{second - at} seconds")
            at = second
            if second not in (13, 30):
                feed.write([(0, second)])
            closed += [(second, row.vs) for row in query.settle()]
    assert closed == [(2, [0, 1, 2]), (13, [3]), (30, [20])]


def test_a_window_closes_once_a_condition_on_its_contents_is_true(spark: SparkSession, tmp_path: Path) -> None:
    rows = [(0, "a", 60, None), (1, "a", 30, None), (2, "a", 20, None), (3, "a", 50, None)]
    closes = closes_of(Global.when(F.sum("v") > 100), rows, spark, tmp_path, time=None)
    assert [(key, n, total) for key, _, _, n, total in closes] == [("a", 3, 110)]


def test_windows_begin_with_the_first_row_of_a_key(spark: SparkSession, tmp_path: Path) -> None:
    rows = [(minute * MINUTE, "a", 1, None) for minute in (3, 12, 14, 30)]
    assert closes_of(Tumbling("10 minutes", starts="first row"), rows, spark, tmp_path) == [
        ("a", minute * 60.0, minute * 60.0 + 600, n, n) for minute, n in ((3, 2), (14, 1), (30, 1))
    ]


def test_a_row_far_ahead_of_the_wall_clock_makes_no_other_late(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "v bigint")
    clock = Watermark(max_ahead="1 hour")
    panes = windowed(feed.stream(spark), Tumbling("1 minute"), time="ts", clock=clock).agg(F.count("*").alias("n"))
    with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:
        feed.write([(86_400 * SECOND, 0)])
        closed = query.settle()
        for second in range(10):
            feed.write([(second * 10 * SECOND, 1)])
            closed += query.settle()
        assert [row.n for row in closed] == [6]
        assert sum(r["stateOperators"][0]["customMetrics"]["rowsLate"] for r in query.progress) == 0


def test_an_idle_stream_does_not_hold_the_clock_of_the_others(spark: SparkSession, tmp_path: Path) -> None:
    busy, idle = Feed(tmp_path / "busy", "v bigint"), Feed(tmp_path / "idle", "v bigint")
    rows = busy.stream(spark).union(idle.stream(spark))
    clock = Watermark(idle_after="30 seconds")
    panes = windowed(rows, Tumbling("1 minute"), time="ts", clock=clock).agg(F.count("*").alias("n"))
    with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:
        closed = []
        for second in range(0, 130, 10):
            busy.write([(second * SECOND, 1)])
            closed += query.settle()
            query.advance("10 seconds")
        assert [row.n for row in closed] == [6, 6]


@pytest.mark.parametrize("several", [False, True], ids=["alone", "next to others"])
def test_many_distinct_values_are_counted_exactly(several: bool, spark: SparkSession) -> None:
    rows = spark.range(5000).selectExpr("timestamp_seconds(id % 60) AS ts", "id % 1234 AS user", "id")
    exact = F.count_distinct("user").alias("users")
    others = [F.count("*").alias("n")] if several else []
    (pane,) = windowed(rows, Tumbling("1 minute"), time="ts").agg(exact, *others).collect()
    assert pane.users == 1234
