"""Queries whose window changes: windows that drain, rejected changes, and the report of `compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from mullion import Early, IncompatibleStateError, PerKey, UnsupportedError, Upgrade, open_panes, savepoint, windowed
from mullion.windows import Count, Session, Sliding, Tumbling, Window
from tests.support.change_runs import Runs, verdicts
from tests.support.streams import SECOND, Feed

LATE_ENOUGH: dict[str, Any] = {"allowed_lateness": "100 seconds"}
DRAIN: dict[str, Any] = {"upgrade": Upgrade(window="drain")}


def test_compare_shows_the_draining_windows_and_the_start(spark: SparkSession, tmp_path: Path) -> None:
    runs = Runs(spark, tmp_path, Tumbling("10 seconds"))
    runs.run(["n"], [(1, "a", 1), (12, "a", 1)], **DRAIN)
    changed = runs.panes(["n"], window=Tumbling("20 seconds"), **DRAIN)
    change = "window was [tumbling 10 seconds] and is now [tumbling 20 seconds]"
    until = (
        "rows from 1970-01-01T00:00:20Z on enter the new one, and the panes of the old one are all closed when the "
        "clock comes to 1970-01-01T00:00:20Z"
    )
    assert verdicts(changed, runs) == {("drains", f"{change}: {until}")}
    runs.window = Tumbling("20 seconds")
    runs.run(["n"], [(15, "a", 1), (19, "b", 1)], **DRAIN)
    assert {(row.k, row.window.end.second, row.n) for row in runs.open()} == {("a", 20, 2), ("b", 20, 1)}
    assert {(row.k, row.rows) for row in open_panes(runs.checkpoint, spark=spark).collect()} == {("a", 2), ("b", 1)}
    (going,) = verdicts(runs.panes(["n"], **DRAIN), runs)
    assert going[0] == "goes on"
    assert "tumbling 10 seconds still drains: rows from" in going[1]
    runs.run(["n"], [(45, "a", 1)], **DRAIN)
    (over,) = verdicts(runs.panes(["n"], **DRAIN), runs)
    assert over == ("goes on", "the window of before (tumbling 10 seconds) has closed all its panes")


def test_a_savepoint_of_a_window_that_takes_anothers_place_has_both(spark: SparkSession, tmp_path: Path) -> None:
    runs = Runs(spark, tmp_path, Tumbling("10 seconds"))
    runs.run(["n"], [(1, "a", 1), (12, "a", 1)], **DRAIN)
    runs.window = Session("5 seconds")
    runs.run(["n"], [(15, "a", 1), (22, "b", 1)], **DRAIN)
    runs.run(["n"], [(18, "c", 1)], **DRAIN)
    to = tmp_path / "savepoint"
    savepoint(runs.checkpoint, to, partitions=3, spark=spark)
    before, runs.checkpoint = runs.open(), to
    assert sorted(map(str, runs.open())) == sorted(map(str, before))
    assert {row.k for row in before} == {"b"}
    closed = runs.run(["n"], [(24, "b", 1), (200, "z", 1)], **DRAIN)
    assert {(row.k, row.window.start.second, row.n) for row in closed} == {("b", 22, 2)}


@pytest.mark.parametrize("between", [[], ["1 second"]], ids=["at once", "later"])
def test_the_boundary_is_after_all_rows_that_a_longer_delay_has_let_in(
    spark: SparkSession, tmp_path: Path, between: list[str]
) -> None:
    runs = Runs(spark, tmp_path, Tumbling("10 seconds"))
    runs.run(["n"], [(time, "a", 1) for time in (101, 115, 125, 135, 145, 155)], delay="60 seconds", **DRAIN)
    for delay in between:
        runs.run(["n"], [(96, "b", 1)], delay=delay, **DRAIN)
    runs.window = Tumbling("20 seconds")
    closed = runs.run(["n"], [(126, "a", 1), (165, "a", 1), (185, "a", 1), (300, "z", 1)], delay="1 second", **DRAIN)
    old = [(100, 110, 1), (110, 120, 1), (120, 130, 2), (130, 140, 1), (140, 150, 1), (150, 160, 1)]
    bounds = [
        (int(row.window.start.timestamp()), int(row.window.end.timestamp()), row.n) for row in closed if row.k == "a"
    ]
    assert sorted(bounds) == [*old, (160, 180, 1), (180, 200, 1)]


def test_panes_of_the_old_and_the_new_window_have_ids_of_their_own(spark: SparkSession, tmp_path: Path) -> None:
    runs = Runs(spark, tmp_path, Tumbling("10 seconds"))
    options: dict[str, Any] = {"early": Early(count=1), "ids": True, **DRAIN}
    fired = runs.run(["n"], [(11, "a", 1)], **options)
    runs.window = Sliding("20 seconds", "10 seconds")
    fired += runs.run(["n"], [(12, "a", 1), (21, "a", 1)], **options)
    fired += runs.run(["n"], [(22, "a", 1)], **options)
    fired += runs.run(["n"], [(60, "z", 1)], **options)
    panes = {(row.pane.id, (row.window.start, row.window.end)) for row in fired if row.k == "a"}
    assert len({pane for pane, _ in panes}) == len(panes), "an id is one pane's"
    assert {pane for pane, _ in panes} == {"10000000", "10000000#1", "20000000#1"}
    seqs = [row.pane.seq for row in fired if row.pane.id == "20000000#1"]
    assert sorted(seqs) == list(range(len(seqs)))


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ({"gap": "INTERVAL '5' SECOND"}, {}, "each row's gap was computed from is not known"),
        ({"window": Count(3), "time": None}, {}, "rows are processed one by one"),
        ({"empty": "emit"}, {}, "empty='emit'"),
        (
            {"window": Sliding("20 seconds", "10 seconds"), "on_time": True, "accumulate": False, **LATE_ENOUGH},
            {},
            "accumulate=False",
        ),
        ({}, {"at_end": "close"}, "at_end must stay"),
        ({"ids": True, "window": Session("5 seconds")}, {}, "stay with ids, or without, as they opened"),
    ],
    ids=["gap", "count", "empty", "taken", "end", "ids"],
)
def test_a_window_that_cannot_drain_is_rejected_with_the_reason(
    spark: SparkSession, tmp_path: Path, before: dict[str, Any], after: dict[str, Any], why: str
) -> None:
    runs = Runs(spark, tmp_path, Tumbling("10 seconds"))
    began: dict[str, Any] = {"upgrade": Upgrade(), **before}
    if "gap" in began:
        began["window"] = Session(F.expr(began.pop("gap")))
    runs.run(["n"], [(1, "a", 1)], **began)
    files = runs.files()
    changed = {"window": Tumbling("20 seconds"), **DRAIN, **after}
    (change,) = verdicts(runs.panes(["n"], **changed), runs)
    assert change[0] == "refused"
    assert why in change[1]
    with pytest.raises(IncompatibleStateError, match=f"cannot drain: .*{why}"):
        runs.run(["n"], [], **changed)
    assert {name for name in runs.files() if "/state/" in name} == {name for name in files if "/state/" in name}


@pytest.mark.always
@pytest.mark.parametrize("window", [Tumbling("10 seconds"), Tumbling("20 seconds")], ids=["same", "other"])
@pytest.mark.parametrize(
    ("shift", "rows", "old", "new"),
    [(36_000, [(3, "a", 1), (4, "a", 1)], 2, 2), (-5, [(13, "a", 1), (26, "a", 1), (27, "a", 1)], 3, 2)],
    ids=["later", "earlier"],
)
def test_another_event_time_drains_and_each_row_is_in_one_pane(
    spark: SparkSession, tmp_path: Path, window: Window, shift: int, rows: list[Any], old: int, new: int
) -> None:
    runs = Runs(spark, tmp_path, Tumbling("10 seconds"))
    runs.run(["n"], [(1, "a", 1), (2, "a", 1)], ids=True, **DRAIN)

    def changed() -> dict[str, Any]:
        files = spark.readStream.schema(runs.feed.ddl).option("maxFilesPerTrigger", 1).parquet(str(runs.feed.folder))
        moved = files.withColumn("ts2", F.timestamp_micros(F.col("t") + shift * SECOND))
        return {"rows": moved.withWatermark("ts2", "0 seconds"), "time": "ts2", "window": window, "ids": True, **DRAIN}

    (change,) = verdicts(runs.panes(["n"], **changed()), runs)
    assert change[0] == "drains"
    assert "the event time was [ts] and is now [ts2]" in change[1]
    assert ("window was" in change[1]) == (window != runs.window)
    closed = []
    for batch in (rows, [(100, "z", 1)]):
        with runs.start(["n"], **changed()) as query:
            runs.write(batch)
            closed += query.settle()
    counted = [(row.n, row.pane.id) for row in closed if row.k == "a"]
    assert [n for n, _ in counted] == [old, new]
    assert len({pane for _, pane in counted}) == 2
    (over,) = verdicts(runs.panes(["n"], **changed()), runs)
    assert over[0] == "goes on"


def test_one_change_of_a_window_comes_after_another(spark: SparkSession, tmp_path: Path) -> None:
    runs = Runs(spark, tmp_path, Tumbling("10 seconds"))
    runs.run(["n"], [(1, "a", 1)], **DRAIN)
    runs.run(["n"], [(2, "a", 1)], window=Tumbling("20 seconds"), **DRAIN)
    for window in (Tumbling("10 seconds"), Session("5 seconds")):
        with pytest.raises(IncompatibleStateError, match="one change comes after another"):
            runs.run(["n"], [], window=window, **DRAIN)
    runs.run(["n"], [(50, "a", 1)], window=Tumbling("20 seconds"), **DRAIN)
    with pytest.raises(IncompatibleStateError, match="Start the query once with it"):
        runs.run(["n"], [], window=Session("5 seconds"), **DRAIN)
    runs.run(["n"], [(51, "a", 1)], window=Tumbling("20 seconds"), **DRAIN)
    runs.run(["n"], [(52, "a", 1)], window=Session("5 seconds"), **DRAIN)
    assert [(row.n, row.window.end.second) for row in runs.open()] == [(3, 0)]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"window": Count(3), "time": None}, "row numbers"),
        ({"early": Early(each_row=True)}, r"early=Early\(each_row=True\)"),
        ({"clock": PerKey()}, r"clock=PerKey\(\)"),
        ({"empty": "emit"}, "empty='emit'"),
    ],
    ids=["count", "running", "per key", "empty"],
)
def test_what_could_never_drain_is_rejected_at_the_call(
    spark: SparkSession, tmp_path: Path, options: dict[str, Any], why: str
) -> None:
    rows = Feed(tmp_path, "k string").stream(spark)
    arguments: dict[str, Any] = {"window": Tumbling("10 seconds"), "time": "ts", **options}
    with pytest.raises(UnsupportedError, match=rf"upgrade=Upgrade\(window='drain'\) with .*{why}"):
        windowed(rows, arguments.pop("window"), upgrade=Upgrade(window="drain"), **arguments).agg(
            F.count("*").alias("n")
        )
