"""Panes whose rows are processed one by one: their limit, their types, their description, and windows after them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from mullion import (
    Count,
    Early,
    Global,
    MullionError,
    PerKey,
    Session,
    Tumbling,
    windowed,
)
from tests.support.clocked import ClockedQuery
from tests.support.models.model import SECOND
from tests.support.streams import Feed, rows_of


@pytest.mark.parametrize("rows", [[5], [3, 2], [1, 1, 1, 1, 1]])
def test_a_pane_with_too_many_rows_fails_the_query_and_is_named(
    rows: list[int], spark: SparkSession, tmp_path: Path
) -> None:
    feed = Feed(tmp_path / "in", "k string, id bigint")
    panes = windowed(rows_of(spark, feed, "1 hour"), Tumbling("10 seconds"), by="k", time="ts").collect(max_rows=4)
    query = ClockedQuery(panes, checkpoint=tmp_path / "checkpoint")
    try:
        for n in rows[:-1]:
            feed.write([(SECOND, "a", i) for i in range(n)])
            query.settle()
        feed.write([(SECOND, "a", i) for i in range(rows[-1])])
        with pytest.raises(MullionError, match=r"pane \[1970-01-01T00:00:00Z, .*10Z\) of k=a has more than 4 rows"):
            query.settle()
    finally:
        query.stop()


def test_a_pane_at_its_limit_of_rows_is_complete(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "k string, id bigint")
    feed.write([(SECOND, "a", i) for i in range(4)])
    panes = windowed(feed.batch(spark), Tumbling("10 seconds"), by="k", time="ts").collect(max_rows=4, name="all")
    assert [row.id for row in panes.collect()[0]["all"]] == [0, 1, 2, 3]


def test_a_pane_of_a_batch_with_too_many_rows_fails(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "k string, id bigint")
    feed.write([(SECOND, "a", i) for i in range(5)])
    panes = windowed(feed.batch(spark), Session("10 seconds"), by="k", time="ts").collect(max_rows=4)
    with pytest.raises(MullionError, match="more than 4 rows"):
        panes.collect()


def test_a_collected_row_has_all_columns_of_any_type(spark: SparkSession) -> None:
    rows = spark.sql(
        "SELECT timestamp_seconds(id) AS ts, id, cast(id AS decimal(30, 2)) AS d, array(id, null) AS a, "
        "map('x', id) AS m, struct(id, cast(id AS string) AS s) AS nested, cast(null AS binary) AS b FROM range(3)"
    )
    (pane,) = windowed(rows, Count(3), time=None).collect().collect()
    assert pane.rows == rows.orderBy("id").collect()


def test_a_window_of_rows_counts_the_closes_of_another_window(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "k string, id bigint")
    first = windowed(rows_of(spark, feed), Tumbling("10 seconds"), by="k", time="ts").agg(F.sum("id").alias("total"))
    panes = windowed(first, Count(2), by="k", time=None).agg(F.collect_list("total").alias("totals"))
    query = ClockedQuery(panes, checkpoint=tmp_path / "checkpoint")
    try:
        fired = []
        for second in (5, 15, 25, 35, 45):
            feed.write([(second * SECOND, "a", second)])
            fired += [(row.window.start, row.totals) for row in query.settle()]
        assert fired == [(0, [5, 15]), (2, [25, 35])]
    finally:
        query.stop()


def test_sparks_aggregates_accept_the_closes_of_a_window_of_rows(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "k string, id bigint")
    first = windowed(rows_of(spark, feed, None), Count(2), by="k", time=None).agg(F.sum("id").alias("total"))
    query = ClockedQuery(
        first.groupBy("k").agg(F.count("*").alias("n"), F.sum("total").alias("total")),
        checkpoint=tmp_path / "checkpoint",
        output_mode="update",
    )
    try:
        feed.write([(0, "a", 1), (0, "a", 2), (0, "a", 4), (0, "b", 8)])
        assert [tuple(row) for row in query.settle()] == [("a", 1, 3)]
        feed.write([(0, "a", 16), (0, "b", 32)])
        assert sorted(tuple(row) for row in query.settle()) == [("a", 2, 23), ("b", 1, 40)]
    finally:
        query.stop()


def test_explain_describes_the_window_and_the_processing_of_rows(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    feed = Feed(tmp_path / "in", "k string, id bigint")
    rows = rows_of(spark, feed, "5 seconds")
    windowed(rows, Count(3, every=1), by="k", time=None).agg(F.count("*")).explain(True)
    windowed(rows, Tumbling("1 hour"), time="ts", clock=PerKey()).collect("time").explain(True)
    windowed(rows, Session("1 hour"), time="ts", early=Early(each_row=True)).agg(F.count("*")).explain(True)
    windowed(rows, Global.when(F.col("id") > 3), time=None).agg(F.count("*")).explain(True)
    plan = capsys.readouterr().out
    for words in (
        "count of 3 rows every 1, by [k], in order of arrival",
        "each key's own clock, 5 seconds behind its largest time, rows collected in order of time, at most 1000000",
        "each row fires its panes",
        "global, closing after a row for which its condition is true",
    ):
        assert words in plan, f"{words} in {plan}"
