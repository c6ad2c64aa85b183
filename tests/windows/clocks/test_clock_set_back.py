"""The machine's clock is set back under a running query: nothing that waits by it is lost, and nothing closes twice."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from mullion import Early, Tumbling, Watermark, savepoint, windowed
from mullion.errors import DamagedStateError
from tests.support.clocked import ClockedQuery
from tests.support.streams import SECOND, Feed


def set_back(query: ClockedQuery, seconds: int) -> None:
    query._query.setBackMs(1000 * seconds)


def test_a_pane_that_opened_after_the_clock_was_set_back_fires_early_once_that_is_where_it_was(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed = Feed(tmp_path / "in", "k string")
    early = Early(every="15 seconds")
    panes = windowed(feed.stream(spark, "1 hour"), Tumbling("1 hour"), by="k", time="ts", early=early)
    with ClockedQuery(panes.agg(F.count("*").alias("n")), checkpoint=tmp_path / "checkpoint") as query:
        feed.write([(1 * SECOND, "before")])
        assert query.settle() == []
        set_back(query, 100)
        feed.write([(2 * SECOND, "after")])
        assert query.settle() == []
        query.advance("50 seconds")
        assert query.settle() == [], "the clock is not yet where it was"
        query.advance("70 seconds")
        assert sorted((row.k, row.pane.firing) for row in query.settle()) == [("after", "early"), ("before", "early")]


def test_an_idle_stream_whose_clock_is_set_back_closes_its_panes_later_and_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed = Feed(tmp_path / "in", "k string")
    panes = windowed(
        feed.stream(spark), Tumbling("10 seconds"), by="k", time="ts", clock=Watermark(idle_after="20 seconds")
    )
    with ClockedQuery(panes.agg(F.count("*").alias("n")), checkpoint=tmp_path / "checkpoint") as query:
        feed.write([(1 * SECOND, "a")])
        closed = query.settle()
        query.advance("15 seconds")
        closed += query.settle()
        set_back(query, 10)
        closed += query.settle()
        feed.write([(2 * SECOND, "a")])
        closed += query.settle()
        assert closed == []
        for _ in range(4):
            query.advance("15 seconds")
            closed += query.settle()
        assert [(row.k, row.n, row.pane.firing) for row in closed] == [("a", 2, "close")]


def test_windows_of_processing_time_stay_closed_when_a_query_starts_again_long_after_the_clock_was_set_back(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed = Feed(tmp_path / "in", "k string")
    panes = windowed(feed.stream(spark), Tumbling("10 seconds"), by="k", time=None).agg(F.count("*").alias("n"))
    with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint", start_ms=100_000) as query:
        feed.write([(0, "a")])
        query.settle()
        query.advance("10 seconds")
        (closed,) = query.settle()
        assert (closed.n, closed.window.start.second) == (1, 40)
        set_back(query, 10)
        # More batches than a query looks back at when it starts again.
        for number in range(22):
            feed.write([(number, "a")])
            assert query.settle() == []
    again = tmp_path / "savepoint"
    savepoint(tmp_path / "checkpoint", again, spark=spark)
    for checkpoint in (tmp_path / "checkpoint", again):
        with ClockedQuery(panes, checkpoint=checkpoint, start_ms=101_000) as query:
            feed.write([(1, "a")])
            assert query.settle() == [], "it is still the time at which the first window closed"
            query.advance("20 seconds")
            (row,) = query.settle()
            assert row.window.start == closed.window.end
            assert row.n > 22


def test_an_invalid_note_of_the_clock_is_rejected_by_its_name(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "k string")
    panes = windowed(feed.stream(spark), Tumbling("10 seconds"), by="k", time=None).agg(F.count("*").alias("n"))
    with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint", start_ms=100_000) as query:
        feed.write([(0, "a")])
        query.settle()
        set_back(query, 1)
        feed.write([(0, "a")])
        query.settle()
    note = tmp_path / "checkpoint" / "mullion-clock"
    assert note.read_text() == "mullion clock 1\n1 100000000\n"
    (note.parent / ".mullion-clock.crc").unlink(missing_ok=True)
    for says in ("", "mullion clock 1\n", "mullion clock 2\n1 1\n", "mullion clock 1\n1 1e9\n", "\0" * 40):
        note.write_text(says)
        with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint", start_ms=101_000) as query:
            feed.write([(0, "a")])
            with pytest.raises(DamagedStateError, match="mullion-clock is damaged"):
                query.settle()
