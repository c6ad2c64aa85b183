"""Distinct values in state: a record per new value, a limit per pane, and none after the pane's close."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from mullion import (
    Count,
    Custom,
    Early,
    Global,
    InvalidArgumentError,
    PerKey,
    Session,
    Sliding,
    Tumbling,
    UnsupportedError,
    read_panes,
    windowed,
)
from mullion import functions as MF
from mullion.windows import Window
from tests.support.checked import SNAPSHOTS, settings
from tests.support.clocked import ClockedQuery
from tests.support.stores import records
from tests.support.streams import SECOND, Feed, batches_of

LIMIT = "spark.sql.streaming.stateStore.mullion.maxAccumulatorBytes"
# A function, because a Column requires a session.
WINDOWS: dict[str, tuple[Callable[[], Window], dict[str, Any]]] = {
    "tumbling": (lambda: Tumbling("1 day"), {}),
    "sliding": (lambda: Sliding("2 days", "1 day"), {}),
    "session": (lambda: Session("1 day"), {}),
    "custom": (lambda: Custom(F.expr("mullion_windows(ts, '1 day')")), {}),
    "per key": (lambda: Tumbling("1 day"), {"clock": PerKey()}),
    "global": (lambda: Global.when(F.col("id") < 0), {"time": None}),
    "count": (lambda: Count(100_000), {"time": None}),
}


@pytest.mark.parametrize("window", WINDOWS)
def test_a_batch_writes_the_values_that_are_new_to_the_pane(window: str, spark: SparkSession, tmp_path: Path) -> None:
    make, options = WINDOWS[window]
    feed = Feed(tmp_path / "in", "id bigint")
    with settings(spark, SNAPSHOTS):
        panes = windowed(feed.stream(spark), make(), **{"time": "ts", **options}).agg(
            F.count_distinct("id").alias("n"), F.sum_distinct("id").alias("total")
        )
        with ClockedQuery(panes.select("n", "total"), checkpoint=tmp_path / "checkpoint") as query:

            def written(ids: list[int]) -> int:
                """The bytes written for a batch of rows."""
                before = len(batches_of(query))
                feed.write([(SECOND, number) for number in ids])
                assert query.settle() == []
                return sum(report["rocksdbTotalBytesWritten"] for report in batches_of(query)[before:])

            of_new = [written([*range(1000 * batch, 1000 * batch + 1000)]) for batch in range(4)]
            # Values of earlier batches, and three new ones.
            of_few = written([*range(0, 4000, 800), 4000, 4001, 4002])
            counts = records(spark, tmp_path / "checkpoint")
    totals = {row.n: row.total for row in read_panes(tmp_path / "checkpoint", spark=spark).collect()}
    assert totals == {4003: sum(range(4003))}
    # Both aggregates have a record for each value.
    assert counts["values"] == 2 * 4003
    assert of_few < min(of_new) / 4, (of_few, of_new)


@pytest.mark.parametrize("window", WINDOWS)
def test_a_pane_with_too_many_distinct_values_fails_and_names_itself(
    window: str, spark: SparkSession, tmp_path: Path
) -> None:
    make, options = WINDOWS[window]
    feed = Feed(tmp_path / "in", "id bigint")
    with settings(spark, {LIMIT: "20k"}):
        panes = windowed(feed.stream(spark), make(), **{"time": "ts", **options}).agg(
            F.count("*").alias("rows"), F.count_distinct("id").alias("n")
        )
        with ClockedQuery(panes.select("n"), checkpoint=tmp_path / "checkpoint") as query:
            for batch in range(2):
                feed.write([(SECOND, 1000 * batch + i) for i in range(1000)])
                if batch == 0:
                    assert query.settle() == []
                    continue
                with pytest.raises(
                    UnsupportedError, match=r"The pane \[.* has grown to \d+ bytes .*count\(DISTINCT id\)"
                ) as failure:
                    query.settle()
                merges = window in ("sliding", "session")
                assert ("a task holds them in memory" in str(failure.value)) == merges
    # With the default limit it continues.
    with ClockedQuery(panes.select("n"), checkpoint=tmp_path / "checkpoint") as query:
        assert query.settle() == []
    assert [row.n for row in read_panes(tmp_path / "checkpoint", spark=spark).collect()] == [2000] * (
        2 if window == "sliding" else 1
    )


def test_early_firings_and_closes_leave_no_value(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "k string, id bigint")
    with settings(spark, SNAPSHOTS):
        panes = windowed(
            feed.stream(spark), Tumbling("1 day"), by="k", time="ts", early=Early(count=200), accumulate=False
        ).agg(F.count_distinct("id").alias("n"))
        with ClockedQuery(panes.select("k", "n"), checkpoint=tmp_path / "checkpoint") as query:
            feed.write([(SECOND, "a", i % 150) for i in range(250)] + [(SECOND, "b", i) for i in range(100)])
            assert [tuple(row) for row in query.settle()] == [("a", 150)]
            assert records(spark, tmp_path / "checkpoint")["values"] == 100
            feed.flood()
            assert sorted(map(tuple, query.settle())) == [("a", 0), ("b", 100)]
            assert int(query.progress[-1]["stateOperators"][0]["numRowsTotal"]) == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: MF.top_n(0, "v", "k"), r"n=0 \(int\) is not a number of rows.*top_n\(10, 'price', 'item'\)"),
        (lambda: MF.top_n(True, "v", "k"), r"n=True \(bool\) is not a number of rows"),
        (lambda: MF.top_n("3", "v", "k"), r"n='3' \(str\) is not a number of rows"),  # type: ignore[arg-type]
        (lambda: MF.top_n(2**31, "v", "k"), r"from 1 to 2147483647"),
        (lambda: MF.top_n(3, "v"), r"top_n\(\) has no columns.*after order_by"),
        (lambda: MF.top_n(3, "v", 5), r"top_n was given 5 \(int\), which is neither a column's name nor a Column"),  # type: ignore[arg-type]
    ],
)
@pytest.mark.usefixtures("spark")
def test_wrong_arguments_of_top_n_raise_an_error(call: Callable[[], Column], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        call()


def test_top_n_rejects_a_direction_of_its_order_with_the_fix(spark: SparkSession) -> None:
    rows = spark.range(3).select(F.col("id").alias("v"), F.lit("a").alias("k"))
    with pytest.raises(InvalidArgumentError, match=r"is v DESC NULLS LAST. The largest value is always first.*write v"):
        rows.agg(MF.top_n(2, F.desc("v"), "k")).collect()


@pytest.mark.always
@pytest.mark.parametrize("ordered", [False, True], ids=["count", "set"])
def test_a_condition_over_distinct_values_holds_with_values_in_records(
    ordered: bool, spark: SparkSession, tmp_path: Path
) -> None:
    # A set is evaluated over its records, a count is not.
    text = F.expr("repeat(id, 1200)")
    values = F.expr("size(collect_list(DISTINCT repeat(id, 1200)))") if ordered else F.count_distinct(text)
    feed = Feed(tmp_path / "in", "id bigint")
    panes = windowed(feed.stream(spark), Global.when(values >= 5), time=None).agg(
        values.alias("n"), F.count("*").alias("rows")
    )
    with ClockedQuery(panes.select("n", "rows"), checkpoint=tmp_path / "checkpoint") as query:
        fired = []
        for ids in ([1, 2, 1], [3, 3, 2], [4, 1], [5, 1, 2]):
            feed.write([(SECOND, number) for number in ids])
            fired += [tuple(row) for row in query.settle()]
        assert fired == [(5, 9)]
        assert [row.n for row in read_panes(tmp_path / "checkpoint", spark=spark).collect()] == [2]
