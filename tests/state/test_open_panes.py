"""``open_panes``: why each open pane has not closed, of running queries and of checkpoints."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
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
    PerKey,
    Session,
    Sliding,
    Tumbling,
    Watermark,
    open_panes,
    together,
    windowed,
)
from mullion.windows import Window
from tests.support.checked import Case, CheckedQuery
from tests.support.clocked import ClockedQuery
from tests.support.models.model import SECOND, AroundRules, Row, Rules
from tests.support.models.session_model import SessionRules
from tests.support.streams import Feed

TEN = 10 * SECOND
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def micros(at: datetime | None) -> int | None:
    """PySpark gives times in the zone of this process."""
    return None if at is None else round((at.astimezone(UTC) - EPOCH) / timedelta(microseconds=1))


def values_of(panes: DataFrame, *keys: str) -> list[dict[str, Any]]:
    """The rows, with times in seconds."""
    times = [F.unix_micros(name).alias(name) for name in ("closes_at", "clock_at", "last_fired")]
    others = [name for name in panes.columns if name not in ("closes_at", "clock_at", "last_fired", "window")]
    shown = panes.select(F.col("window.start").alias("start"), *others, *times)
    rows = [row.asDict() for row in shown.collect()]
    for row in rows:
        for name in ("closes_at", "clock_at", "last_fired"):
            row[name] = None if row[name] is None else row[name] / SECOND
    return sorted(rows, key=lambda row: [str(row[name]) for name in (*keys, "start")])


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "rules",
    [
        Rules(TEN, TEN, lateness=4 * SECOND, early=3 * SECOND),
        Rules(TEN, 4 * SECOND, lateness=4 * SECOND, early=3 * SECOND, count=4, on_time=True),
        SessionRules(gap=5 * SECOND, delay=2 * SECOND, lateness=9 * SECOND, early=4 * SECOND, on_time=True),
        AroundRules(before=4 * SECOND, after=SECOND, delay=2 * SECOND, lateness=3 * SECOND),
        Rules(TEN, TEN, processing=True, early=3 * SECOND),
    ],
    ids=["tumbling", "sliding", "sessions", "around", "processing time"],
)
def test_each_open_pane_has_its_closing_time_its_clock_and_its_number_of_firings(
    spark: SparkSession, tmp_path: Path, rules: Rules | SessionRules | AroundRules
) -> None:
    case = Case("open panes", rules, keys="text", aggregates="figures")
    with CheckedQuery(spark, tmp_path, case) as query:
        for first in (20, 27, 46):
            times = [(first + i) * SECOND for i in range(-12, 6)]
            # The query is stopped while rows are written and time passes, so that each run has the same batches.
            query.restart()
            query.write([Row(1000 * first + i, f"key {i % 5}" if i % 5 else None, t) for i, t in enumerate(times)])
            query.advance(4 * SECOND)
            query.settle()
            clock = query.wall if rules.processing else query.model.clock
            expected = {
                (key, query.model.start_of(window)): (
                    (pane.end + rules.lateness) / SECOND,
                    "processing time" if rules.processing else "event time",
                    clock / SECOND,
                    pane.fired,
                    pane.wall / SECOND if pane.fired else None,
                    len(pane.ids),
                )
                for (key, window), pane in query.model.open.items()
            }
            assert expected
            for of in (query.query, str(query.checkpoint)):
                actual = {
                    (row["k"], round(row["start"].astimezone(UTC).timestamp() * SECOND)): (
                        *(row[name] for name in ("closes_at", "clock", "clock_at", "fired", "last_fired", "rows")),
                    )
                    for row in values_of(open_panes(of, spark=spark))
                }
                assert actual == expected


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    return Feed(tmp_path / "in", "k string, v int")


def test_a_pane_has_the_distance_of_its_clock_and_the_source_that_holds_it(
    spark: SparkSession, tmp_path: Path, feed: Feed
) -> None:
    panes = windowed(
        feed.stream(spark, "5 seconds"), Tumbling("1 minute"), by="k", time="ts", allowed_lateness="30 seconds"
    ).agg(F.sum("v").alias("v"))
    feed.write([(70 * SECOND, "a", 1)])
    with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:
        query.settle()
        (row,) = values_of(open_panes(query))
    assert row["waits_for"] == "1 minute 25 seconds of event time"
    assert (row["closes_at"], row["clock_at"]) == (150, 65)
    assert row["held_by"].startswith("FileStreamSource[")
    assert row["held_by"].endswith("]: no row after 1970-01-01T00:01:10Z, and the watermark is 5 seconds behind")
    assert row["rows"] is None, "no aggregate counts them"
    (row,) = values_of(open_panes(tmp_path / "checkpoint", spark=spark))
    assert (row["waits_for"], row["held_by"]) == ("1 minute 25 seconds of event time", None)


def test_of_two_streams_the_one_that_is_behind_holds_the_clock(spark: SparkSession, tmp_path: Path) -> None:
    ahead, behind = (Feed(tmp_path / name, "k string") for name in ("ahead", "behind"))
    rows = ahead.stream(spark).union(behind.stream(spark))
    panes = windowed(rows, Tumbling("1 minute"), by="k", time="ts").agg(F.count("*").alias("n"))
    ahead.write([(500 * SECOND, "a")])
    with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:
        query.settle()
        (row,) = values_of(open_panes(query))
        assert row["held_by"].endswith("/behind]: no row yet")
        assert row["waits_for"] == "rows: there is no clock yet"
        behind.write([(440 * SECOND, "b")])
        query.settle()
        (row, _) = values_of(open_panes(query), "k")
    assert row["held_by"].endswith("/behind]: no row after 1970-01-01T00:07:20Z; another stream is 1 minute ahead")
    assert (row["clock_at"], row["waits_for"]) == (440, "1 minute 40 seconds of event time")


def test_a_pane_may_wait_for_a_quiet_source_to_count_as_idle(spark: SparkSession, tmp_path: Path, feed: Feed) -> None:
    panes = windowed(
        feed.stream(spark), Session("1 minute"), by="k", time="ts", clock=Watermark(idle_after="20 seconds")
    ).agg(F.count("*").alias("n"))
    feed.write([(SECOND, "a", 1)])
    with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:
        query.settle()
        (row,) = values_of(open_panes(query))
    assert row["waits_for"] == "1 minute of event time, or for no row to come for 20 seconds"


def test_on_processing_time_a_pane_waits_for_the_wall_clock_and_the_query(
    spark: SparkSession, tmp_path: Path, feed: Feed
) -> None:
    panes = windowed(feed.stream(spark), Tumbling("1 minute"), time=None).agg(F.count("*").alias("n"))
    feed.write([(SECOND, "a", 1)])
    with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint", start_ms=10_000) as query:
        query.settle()
        query.advance("15 seconds")
        (row,) = values_of(open_panes(query))
        assert (row["clock_at"], row["waits_for"]) == (25, "35 seconds of wall time")
    (row,) = values_of(open_panes(tmp_path / "checkpoint", spark=spark))
    assert row["clock"] == "processing time"
    assert row["waits_for"] == "50 seconds of wall time from its last batch, and for the query to run"


def test_windows_of_row_numbers_wait_for_rows(spark: SparkSession, tmp_path: Path, feed: Feed) -> None:
    windows: dict[str, tuple[Window, str]] = {
        "count": (Count(5, 5), "3 more rows of its key"),
        "every": (Global.every(3), "1 more row of its key"),
        "when": (Global.when(F.col("v") > 9), "a row for which its condition holds"),
        "changes": (Global.changes("k"), "a row with another value"),
    }
    feed.write([(SECOND, "a", 1), (2 * SECOND, "a", 2)])
    for name, (window, waits_for) in windows.items():
        panes = windowed(feed.stream(spark), window, by="k", time=None).agg(F.sum("v").alias("v"))
        with ClockedQuery(panes, checkpoint=tmp_path / name) as query:
            query.settle()
            (row,) = values_of(open_panes(query))
        assert row["waits_for"] == waits_for
        assert (row["clock"], row["clock_at"], row["closes_at"]) == ("rows of its key", None, None)
        assert row["held_by"] == "the rows of its key"
        assert row["rows"] == 2


def test_a_key_with_the_name_of_another_column_is_shown_next_to_it(
    spark: SparkSession, tmp_path: Path, feed: Feed
) -> None:
    feed.write([(SECOND, "a", 1)])
    stream = feed.stream(spark).withColumnRenamed("k", "rows")
    panes = windowed(stream, Tumbling("10 seconds"), by="rows", time="ts").agg(F.count("*").alias("n"))
    with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:
        query.settle()
        (row,) = values_of(open_panes(query))
    assert (row["key_rows"], row["rows"]) == ("a", 1)


def test_a_key_with_a_clock_of_its_own_shows_that(spark: SparkSession, tmp_path: Path, feed: Feed) -> None:
    panes = windowed(
        feed.stream(spark, "2 seconds"), Tumbling("10 seconds"), by="k", time="ts", clock=PerKey()
    ).collect()
    feed.write([(SECOND, "a", 1), (8 * SECOND, "a", 2), (5 * SECOND, "b", 3)])
    with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:
        query.settle()
        rows = values_of(open_panes(query), "k")
    assert [(row["k"], row["clock"], row["clock_at"], row["waits_for"], row["rows"]) for row in rows] == [
        ("a", "event time of its key", 6, "4 seconds of event time, in rows of its key", 2),
        ("b", "event time of its key", 3, "7 seconds of event time, in rows of its key", 1),
    ]
    assert {row["held_by"] for row in rows} == {"the rows of its key"}


def test_windows_in_one_query_are_shown_with_their_names(spark: SparkSession, tmp_path: Path, feed: Feed) -> None:
    stream = feed.stream(spark)
    panes = together(
        minutes=windowed(stream, Tumbling("1 minute"), by="k", time="ts", early=Early(count=1)).agg(
            F.count("*").alias("n")
        ),
        recent=windowed(stream, Sliding("20 seconds", "10 seconds"), time="ts").agg(F.sum("v").alias("s")),
        visits=windowed(stream, Session("5 seconds"), by=["k", "v"], time="ts", allowed_lateness="3 seconds").agg(
            F.count("*").alias("n")
        ),
    )
    feed.write([(SECOND, "a", 7)])
    with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:
        query.settle()
        rows = values_of(open_panes(query), "window_name")
    shown = [
        tuple(row[n] for n in ("window_name", "k", "v", "closes_at", "fired", "last_fired", "rows")) for row in rows
    ]
    assert sorted(shown, key=str) == sorted(
        [
            ("minutes", "a", None, 60, 1, 0, 1),
            ("recent", None, None, 10, 0, None, None),
            ("recent", None, None, 20, 0, None, None),
            ("visits", "a", 7, 9, 0, None, 1),
        ],
        key=str,
    )


def test_a_window_after_another_has_a_clock_that_is_behind_by_the_firsts_lateness(
    spark: SparkSession, tmp_path: Path, feed: Feed
) -> None:
    first = windowed(feed.stream(spark), Tumbling("10 seconds"), by="k", time="ts", allowed_lateness="7 seconds").agg(
        F.count("*").alias("n")
    )
    panes = windowed(first, Tumbling("1 minute"), time="window").agg(F.sum("n").alias("n"))
    with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:
        for second in (1, 30, 40):
            feed.write([(second * SECOND, "a", 1)])
            query.settle()
        clocks = {number: values_of(open_panes(query, operator=number))[0]["clock_at"] for number in (0, 1)}
    assert sorted(clocks.values()) == [33, 40]


def test_the_table_is_printed_whole(
    spark: SparkSession, tmp_path: Path, feed: Feed, capsys: pytest.CaptureFixture[str]
) -> None:
    panes = windowed(feed.stream(spark), Tumbling("1 minute"), by="k", time="ts").agg(F.count("*").alias("n"))
    feed.write([(SECOND, "a", 7)])
    with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:
        query.settle()
        open_panes(query).show(truncate=False)
    assert "|a  |{1970-01-01 00:00:00, 1970-01-01 00:01:00}|1970-01-01 00:01:00|event time|" in capsys.readouterr().out


def test_a_query_started_by_spark_is_asked_by_itself(spark: SparkSession, tmp_path: Path, feed: Feed) -> None:
    panes = windowed(feed.stream(spark), Tumbling("1 minute"), by="k", time="ts").agg(F.count("*").alias("n"))
    feed.write([(SECOND, "a", 7)])
    query = panes.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        query.processAllAvailable()
        (row,) = values_of(open_panes(query, spark=spark))
        assert row["waits_for"] == "59 seconds of event time"
        assert row["held_by"] is not None
    finally:
        query.stop()
    (row,) = values_of(open_panes(query, spark=spark))
    assert row["held_by"] is None, "a query that has stopped waits for nothing"


def test_an_object_that_is_no_query_is_rejected(spark: SparkSession, tmp_path: Path, feed: Feed) -> None:
    not_a_query: Any = 7
    with pytest.raises(InvalidArgumentError, match=r"query=7 \(int\) is neither a running query nor a path"):
        open_panes(not_a_query)
    with pytest.raises(InvalidArgumentError, match="There is no state in"):
        open_panes(tmp_path, spark=spark)
    feed.write([(SECOND, "a", 7)])
    panes, other = (
        windowed(feed.stream(spark), Tumbling(size), by="k", time="ts").agg(F.count("*").alias("n"))
        for size in ("1 minute", "1 hour")
    )
    with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:
        query.settle()
        assert values_of(open_panes(query, panes=panes)) == values_of(open_panes(query))
        with pytest.raises(IncompatibleStateError, match="another query's"):
            open_panes(query, panes=other)
