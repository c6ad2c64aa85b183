"""Queries that change between two runs over one checkpoint: resumed changes, their open panes, and rejected changes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from mullion import (
    Early,
    IncompatibleStateError,
    PerKey,
    Upgrade,
    Watermark,
    together,
    windowed,
)
from mullion.windows import Around, Count, Session, Sliding, Tumbling, Window
from tests.support.change_runs import AGGREGATES, Runs, verdicts
from tests.support.clocked import ClockedQuery
from tests.support.streams import SECOND

LATE_ENOUGH: dict[str, Any] = {"allowed_lateness": "100 seconds"}


@pytest.mark.parametrize("goes_back", [False, True], ids=["goes on", "goes back"])
def test_a_query_that_dies_in_its_first_batch_after_a_change_continues_with_or_without_the_change(
    spark: SparkSession, tmp_path: Path, goes_back: bool
) -> None:
    runs = Runs(spark, tmp_path, Tumbling("10 seconds"))
    before: dict[str, Any] = {**LATE_ENOUGH, "upgrade": Upgrade()}
    runs.run(["n", "total"], [(1, "a", 1), (2, "b", 5), (12, "a", 2)], **before)
    open_panes = runs.open()
    runs.run(["most", "n"], [(13, "a", 4)], allowed_lateness="50 seconds")
    runs.crash()
    assert runs.open() == open_panes, "committed state is unchanged"
    if goes_back:
        with runs.start(["n", "total"], **before) as query:
            query.settle()
        assert {(row.k, row.n, row.total) for row in runs.open()} == {("a", 1, 1), ("b", 1, 5), ("a", 2, 6)}
        with runs.start(["n", "total"], **before) as query:
            runs.write([(200, "c", 0)])
            closes = query.settle()
        assert {(row.k, row.n, row.total) for row in closes} == {("a", 1, 1), ("b", 1, 5), ("a", 2, 6)}
    else:
        with runs.start(["most", "n"], allowed_lateness="50 seconds") as query:
            query.settle()
            runs.write([(71, "c", 0)])
            closes = query.settle()
        new = ("a", 4, 2, ("most",))
        assert {(row.k, row.most, row.n, tuple(row.incomplete)) for row in closes} == {
            ("a", None, 1, ("most",)),
            ("b", None, 1, ("most",)),
            new,
        }


def test_a_pane_that_had_closed_does_not_open_again_when_the_lateness_grows(
    spark: SparkSession, tmp_path: Path
) -> None:
    runs = Runs(spark, tmp_path, Tumbling("10 seconds"))
    assert [row.n for row in runs.run(["n"], [(1, "a", 1), (15, "a", 1)], late="emit")] == [1]
    with runs.start(["n"], late="emit", allowed_lateness="1 minute") as query:
        runs.write([(3, "a", 1), (16, "a", 1)])
        late = query.settle()
        assert [row.late_row.t for row in late] == [3 * SECOND]
        # Nor in a later batch. Panes that were open have the new lateness.
        runs.write([(4, "a", 1), (75, "a", 1)])
        assert [row.late_row.t for row in query.settle()] == [4 * SECOND]
        runs.write([(80, "a", 1)])
        assert [(row.window.start.second, row.n) for row in query.settle()] == [(10, 2)]
    # The checkpoint has recorded it.
    with runs.start(["n"], late="emit", allowed_lateness="10 minutes") as query:
        runs.write([(17, "a", 1)])
        assert [row.late_row.t for row in query.settle()] == [17 * SECOND]


def test_open_panes_close_at_once_when_the_lateness_shrinks(spark: SparkSession, tmp_path: Path) -> None:
    runs = Runs(spark, tmp_path, Sliding("10 seconds", "5 seconds"))
    assert runs.run(["n"], [(1, "a", 1), (50, "a", 1)], allowed_lateness="1 minute") == []
    closes = runs.run(["n"], [(2, "a", 1), (50, "a", 1)])
    # The rows of the first batch still enter panes that were open before it.
    assert sorted((row.window.start.timestamp(), row.n) for row in closes) == [(-5, 2), (0, 2)]


@pytest.mark.parametrize(
    ("window", "options"),
    [
        (Count(3), {"time": None}),
        (Tumbling("10 seconds"), {"clock": PerKey()}),
        (Session("5 seconds"), {"clock": PerKey()}),
        (Sliding("10 seconds", "5 seconds"), {"early": Early(each_row=True)}),
        (Around("5 seconds", "20 seconds"), {}),
        (Sliding("10 seconds", "5 seconds"), {"early": Early("5 seconds"), "accumulate": False}),
        (Sliding("10 seconds", "5 seconds"), {"early": Early("5 seconds"), "accumulate": False, "empty": "emit"}),
        (Session("5 seconds"), {"early": Early("5 seconds"), "ids": True}),
        (Tumbling("10 seconds"), {"early": Early(count=100), "on_time": True, "allowed_lateness": "5 seconds"}),
        (Tumbling("10 seconds"), {"empty": "emit"}),
    ],
    ids=repr,
)
def test_aggregates_are_added_and_removed_in_every_kind_of_pane(
    spark: SparkSession, tmp_path: Path, window: Window, options: dict[str, Any]
) -> None:
    runs = Runs(spark, tmp_path, window)
    runs.run(["n", "total"], [(1, "a", 1), (2, "b", 5)], **{**options, "upgrade": Upgrade()})
    runs.run(["most", "total"], [(3, "a", 4)], **options)
    open_panes = runs.open()
    assert {(row.total, row.most, *row.incomplete) for row in open_panes if row.k == "b"} == {(5, None, "most")}
    assert (5, 4, "most") in {(row.total, row.most, *row.incomplete) for row in open_panes if row.k == "a"}


def test_windows_in_one_query_change_separately(spark: SparkSession, tmp_path: Path) -> None:
    runs = Runs(spark, tmp_path, Tumbling("10 seconds"))

    def run(tens: Sequence[str], visits: Sequence[str], rows: Sequence[tuple[int, str, int]]) -> list[Row]:
        stream = runs.feed.stream(spark)

        def over(window: Window, aggregates: Sequence[str], **options: Any) -> DataFrame:
            columns = [F.expr(AGGREGATES[name]).alias(name) for name in aggregates]
            return windowed(stream, window, by="k", time="ts", **options, **LATE_ENOUGH).agg(*columns)

        both = together(
            tens=over(Tumbling("10 seconds"), tens, upgrade=Upgrade(new_aggregates="from now")),
            visits=over(Session("5 seconds"), visits),
        )
        with ClockedQuery(both, checkpoint=runs.checkpoint) as query:
            runs.write(rows)
            return query.settle()

    run(["n", "total"], ["n", "total"], [(1, "a", 1), (12, "a", 2)])
    run(["most", "n"], ["total"], [(13, "a", 7)])
    closes = run(["most", "n"], ["total"], [(500, "b", 0)])
    actual = {(row.window_name, row.window.start.second, row.n, row.total, row.most) for row in closes}
    assert actual == {("tens", 0, 1, None, None), ("tens", 10, 2, None, 7), ("visits", 1, None, 1, None)} | {
        ("visits", 12, None, 9, None)
    }
    with pytest.raises(IncompatibleStateError, match="new_aggregates='from now'"):
        run(["most", "n"], ["total", "n"], [(501, "b", 0)])


def test_long_lists_continue_in_another_order_and_with_another_list(spark: SparkSession, tmp_path: Path) -> None:
    """Lists of more than 64 kB have separate records."""
    runs = Runs(spark, tmp_path, Tumbling("10 seconds"))
    numbers = F.expr("collect_list(concat(repeat('x', 30000), v))").alias("texts")
    two = F.expr("collect_list(v)").alias("numbers")
    first = [(1, "a", v) for v in range(4)]
    runs.run([numbers, "n"], first, **LATE_ENOUGH)
    runs.run([numbers, "n"], [(2, "a", 4)], **LATE_ENOUGH)
    runs.run(["total", two, "n", numbers], [(3, "a", 5)], **LATE_ENOUGH)
    (pane,) = runs.open()
    assert sorted(text[30000:] for text in pane.texts) == ["0", "1", "2", "3", "4", "5"]
    assert (list(pane.numbers), pane.n, pane.total, list(pane.incomplete)) == ([5], 6, 5, ["total", "numbers"])
    with pytest.raises(IncompatibleStateError, match="one is gone, and another one stays"):
        runs.run([two, "n"], [(4, "a", 6)], **LATE_ENOUGH)
    runs.run(["n"], [(5, "a", 6)], **LATE_ENOUGH)
    (closed,) = runs.run(["n"], [(500, "b", 0)], **LATE_ENOUGH)
    assert closed.n == 8


def test_the_operators_before_the_window_and_the_name_of_a_key_may_change(spark: SparkSession, tmp_path: Path) -> None:
    runs = Runs(spark, tmp_path, Tumbling("10 seconds"))
    runs.run(["n", "total"], [(1, "a", 1)], **LATE_ENOUGH)
    rows = runs.feed.stream(spark).where("v < 100").withColumn("more", F.col("v") + 1)
    panes = windowed(
        rows,
        runs.window,
        by=F.col("k").alias("who"),
        time="ts",
        upgrade=Upgrade(new_aggregates="from now"),
        **LATE_ENOUGH,
    )
    with ClockedQuery(
        panes.agg(F.expr("sum(v)").alias("total"), F.expr("sum(v) / count(*)").alias("each")),
        checkpoint=runs.checkpoint,
    ) as query:
        runs.write([(2, "a", 5), (3, "a", 100)])
        query.settle()
    (pane,) = runs.open()
    assert (pane.who, pane.total, pane.each, list(pane.incomplete)) == ("a", 6, 3.0, [])


@pytest.mark.parametrize("window", [Tumbling("10 seconds"), Sliding("10 seconds", "5 seconds"), Session("9 seconds")])
@pytest.mark.parametrize("before", [{"early": Early(count=1)}, {"on_time": True}, {"early": Early("1 second")}])
def test_a_pane_that_has_fired_is_not_new_when_early_firings_end(
    spark: SparkSession, tmp_path: Path, window: Window, before: dict[str, Any]
) -> None:
    runs = Runs(spark, tmp_path, window)
    lateness = {"allowed_lateness": "1 minute"}
    fired = runs.run(["n"], [(5, "a", 1), (16, "z", 1)], **before, **lateness)
    fired += runs.run(["n"], [(17, "z", 1)], **before, **lateness)
    had = {(row.k, row.window.start): row.pane.seq for row in fired if row.k == "a"}
    assert had
    with runs.start(["n"], **lateness) as query:
        assert query.settle() == []
    with runs.start(["n"], **lateness) as query:
        runs.write([(6, "a", 1), (200, "z", 1)])
        closed = {(row.k, row.window.start): row for row in query.settle() if row.k == "a"}
    starts = {start for _, start in had}
    assert {row.pane.seq for pane, row in closed.items() if pane[1] not in starts and pane not in had} <= {0}
    assert all(closed[pane].pane.seq > seq for pane, seq in had.items() if pane in closed)
    assert set(had) & set(closed)


def test_the_case_of_a_name_does_not_matter(spark: SparkSession, tmp_path: Path) -> None:
    runs = Runs(spark, tmp_path, Tumbling("10 seconds"))
    count = F.count("*").alias("n")
    runs.run([count, F.sum("v").alias("total")], [(1, "a", 1)], **LATE_ENOUGH)
    aggregates: list[str | Column] = [count.alias("N"), F.sum("V").alias("Total")]
    changed = {"by": "K", "time": "TS", **LATE_ENOUGH}
    assert {verdict for verdict, _ in verdicts(runs.panes(aggregates, **changed), runs)} == {"goes on"}
    runs.run(aggregates, [(2, "a", 2)], **changed)
    assert [(row.K, row.N, row.Total) for row in runs.open()] == [("a", 2, 3)]


def settled(panes: DataFrame, runs: Runs, rows: Sequence[tuple[int, str, int]]) -> list[Row]:
    with ClockedQuery(panes, checkpoint=runs.checkpoint) as query:
        runs.write(rows)
        return query.settle()


def test_another_event_time_is_rejected(spark: SparkSession, tmp_path: Path) -> None:
    runs = Runs(spark, tmp_path, Tumbling("10 seconds"))
    runs.run(["n"], [(1, "a", 1)])
    rows = runs.feed.stream(spark).withColumn("ts2", F.col("ts") + F.expr("INTERVAL '10' HOURS"))
    panes = runs.panes(["n"], rows=rows.withWatermark("ts2", "0 seconds"), time="ts2")
    (change,) = verdicts(panes, runs)
    assert change[0] == "refused"
    assert "the event time was [ts] and is now [ts2]: open panes hold rows by the other one" in change[1]
    assert "with upgrade=Upgrade(window='drain') they stay open until they close" in change[1]
    with pytest.raises(IncompatibleStateError, match=r"the event time was \[ts\] and is now \[ts2\]"):
        settled(panes, runs, [(2, "a", 1)])


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"asked": ["n", "most"], "upgrade": Upgrade()}, "new_aggregates='from now'"),
        ({"by": ["k", "t"]}, r"keys was \[k STRING, v INT\] and is now \[k STRING, t BIGINT\]"),
        ({"window": Tumbling("20 seconds")}, r"window was \[tumbling 10 seconds\]"),
    ],
    ids=["new", "other keys", "window"],
)
def test_an_incompatible_change_is_rejected_and_nothing_is_written(
    spark: SparkSession, tmp_path: Path, change: dict[str, Any], why: str
) -> None:
    runs = Runs(spark, tmp_path, Tumbling("10 seconds"))
    written: dict[str, Any] = {
        "by": ["k", "v"],
        "early": Early("10 seconds"),
        "upgrade": Upgrade(),
        **LATE_ENOUGH,
    }
    runs.run(["n"], [(1, "a", 1)], **written)
    files = runs.files()
    wanted = {**written, **change}
    with pytest.raises(IncompatibleStateError, match=why):
        runs.run(wanted.pop("asked", ["n"]), [(2, "a", 1)], **wanted)
    assert {name for name in runs.files() if "/state/" in name} == {name for name in files if "/state/" in name}


def test_overlapping_windows_that_close_empty_continue_or_are_rejected_by_name(
    spark: SparkSession, tmp_path: Path
) -> None:
    runs = Runs(spark, tmp_path, Sliding("10 seconds", "5 seconds"))
    options: dict[str, Any] = {"early": Early(count=2), "accumulate": False, "empty": "emit"}
    assert [row.n for row in runs.run(["n"], [(6, "a", 1), (7, "a", 1)], **options)] == [2, 2]
    closed = runs.run(["n"], [(8, "a", 1), (9, "a", 1), (26, "b", 1)], **{**options, "early": Early(count=3)})
    assert [(row.window.start.timestamp(), row.pane.seq, row.n) for row in closed] == [
        *((0, 1, 2), (5, 1, 2)),
        *((10, 0, 0), (15, 0, 0)),
    ]
    for change in ({"empty": "skip"}, {"accumulate": True}):
        with pytest.raises(IncompatibleStateError, match=r"firings was \[.*windows without rows close too\]"):
            runs.run(["n"], [(27, "a", 1)], **{**options, **change})


def test_the_interval_of_early_firings_may_change(spark: SparkSession, tmp_path: Path) -> None:
    runs = Runs(spark, tmp_path, Tumbling("1000 seconds"))
    aggregates = ["n"]
    fired: list[int] = []
    with runs.start(aggregates, early=Early("100 seconds")) as query:
        runs.write([(1, "a", 1)])
        fired += [row.n for row in query.settle()]
    with runs.start(aggregates, early=Early("10 seconds")) as query:
        for time in (5, 12, 13, 24):
            runs.write([(time, "a", 1)])
            fired += [row.n for row in query.settle()]
    assert fired == [3, 5]


def test_keys_may_come_in_another_order(spark: SparkSession, tmp_path: Path) -> None:
    runs = Runs(spark, tmp_path, Tumbling("10 seconds"))
    first = [(1, key, value) for key in "abcdef" for value in range(4)]
    runs.run(["n"], first, by=["k", "v"], **LATE_ENOUGH)
    swapped: dict[str, Any] = {"by": ["v", F.col("k").alias("who")], **LATE_ENOUGH}
    (change,) = [what for _, what in verdicts(runs.panes(["n"], **swapped), runs) if "kept as" in what]
    assert "keys are given as [v AS v, k AS who] and kept as [k AS who, v AS v]" in change
    with runs.start(["n"], **swapped) as query:
        runs.write([(2, key, value) for _, key, value in first])
        assert query.settle() == []
        runs.write([(500, "z", 0)])
        closes = query.settle()
    assert closes[0].__fields__[:2] == ["v", "who"]
    assert {(row.who, row.v, row.n) for row in closes} == {(key, value, 2) for _, key, value in first}


def test_accumulate_may_be_switched_off_and_not_on_again(spark: SparkSession, tmp_path: Path) -> None:
    runs = Runs(spark, tmp_path, Tumbling("1000 seconds"))
    runs.run(["n"], [(1, "a", 1), (2, "a", 1)], early=Early(count=2))
    fired = runs.run(["n"], [(3, "a", 1), (4, "a", 1)], early=Early(count=2), accumulate=False)
    assert [(row.n, row.pane.seq) for row in fired] == [(4, 1)], "the first one shows all"
    fired = runs.run(["n"], [(5, "a", 1), (6, "a", 1)], early=Early(count=2), accumulate=False)
    assert [(row.n, row.pane.seq) for row in fired] == [(2, 2)]
    with pytest.raises(IncompatibleStateError, match="is gone from them, so none of them could be whole"):
        runs.run(["n"], [(7, "a", 1)], early=Early(count=2))


def test_idle_after_may_be_added_and_removed(spark: SparkSession, tmp_path: Path) -> None:
    """`idle_after` adds a source of ticks, which Spark counts as a source."""
    runs = Runs(spark, tmp_path, Tumbling("10 seconds"))
    runs.run(["n"], [(1, "a", 1)])
    with runs.start(["n"], clock=Watermark(idle_after="5 seconds")) as query:
        runs.write([(2, "a", 1)])
        assert query.settle() == []
        query.advance("60 seconds")
        (closed,) = query.settle()
        assert closed.n == 2
    other = Runs(spark, tmp_path / "other", Tumbling("10 seconds"))
    other.run(["n"], [(1, "a", 1)], clock=Watermark(idle_after="5 seconds"))
    (closed,) = other.run(["n"], [(2, "a", 1), (15, "a", 1)])
    assert closed.n == 2


def test_the_change_is_recorded_next_to_the_state_with_its_versions(spark: SparkSession, tmp_path: Path) -> None:
    runs = Runs(spark, tmp_path, Tumbling("10 seconds"))
    runs.run(["n"], [(1, "a", 1)], **LATE_ENOUGH)
    runs.run(["n"], [(2, "a", 1)], **LATE_ENOUGH)
    runs.run(["total", "n"], [(3, "a", 1)], **LATE_ENOUGH)
    notes = sorted((runs.checkpoint / "state" / "0" / "_mullion").glob("header*.json"))
    assert [note.name for note in notes] == ["header.3.json", "header.json"]
    assert [json.loads(note.read_text())["aggregates"] for note in notes] == [
        ["sum(v) AS total", "count(1) AS n"],
        ["count(1) AS n"],
    ]


def test_before_the_first_batch_is_committed_any_query_begins(spark: SparkSession, tmp_path: Path) -> None:
    runs = Runs(spark, tmp_path, Tumbling("10 seconds"))
    runs.run(["n"], [(1, "a", 1)])
    runs.crash()
    changed = {"window": Session("5 seconds"), "by": F.lit("all").alias("k")}
    begins = ("goes on", "no batch has been committed yet: the query begins as it is now")
    assert verdicts(runs.panes(["total"], **changed), runs) == {begins}
    runs.run(["total"], [], **changed)
    assert [(row.k, row.total) for row in runs.open()] == [("all", 1)]


def test_a_window_that_would_set_back_the_clock_of_an_operator_after_it_is_rejected(
    spark: SparkSession, tmp_path: Path
) -> None:
    runs = Runs(spark, tmp_path, Tumbling("10 seconds"))

    def chained(**windows: str) -> DataFrame:
        parts = {name: runs.panes(["n"], allowed_lateness=lateness) for name, lateness in windows.items()}
        return windowed(together(**parts), Tumbling("20 seconds"), time="window").agg(F.sum("n").alias("n"))

    def run(panes: DataFrame) -> list[Row]:
        with ClockedQuery(panes, checkpoint=runs.checkpoint) as query:
            runs.write([(1, "a", 1), (40, "a", 1)])
            return query.settle()

    run(chained(a="3 seconds", b="5 seconds"))
    (change, _) = sorted(verdicts(chained(a="3 seconds", b="5 seconds", c="6 seconds"), runs), reverse=True)
    assert change[0] == "refused"
    assert "allowed_lateness='6 seconds' is new, which is longer than any before it (5 seconds)" in change[1]
    with pytest.raises(IncompatibleStateError, match="would open panes again that it has closed"):
        run(chained(a="3 seconds", b="5 seconds", c="6 seconds"))
    assert run(chained(a="3 seconds", b="5 seconds", c="4 seconds")) == []
