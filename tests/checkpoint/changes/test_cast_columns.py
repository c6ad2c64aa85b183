"""Columns of the source that became narrower between two runs: cast to the type of the state, or rejected.

The expected panes are those of Spark's ``groupBy`` over all rows, with the later ones cast to the wider type.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion import IncompatibleStateError, Sliding, Tumbling, Upgrade, compare, read_panes, together, windowed
from tests.support.cache_sizes import draw_size
from tests.support.clocked import ClockedQuery
from tests.support.seeds import SEED
from tests.support.streams import SECOND, Feed

ROUNDS = int(os.environ.get("MULLION_TEST_ROUNDS", "2"))

BY_ORDER = ("percentile(v, 0.3)", "percentile(v, array(0.1, 0.9))", "median(v)", "percentile(v, 0.5, 2)")
BY_VALUE = (*BY_ORDER, "approx_count_distinct(v)", "count(DISTINCT v)", "max_by(w, v)", "min_by(w, v)")
BY_INTEGER = (*BY_VALUE, "sum(DISTINCT v)", "count(DISTINCT w, v)", "count(DISTINCT v) FILTER (WHERE w > 0)")
WITH_FILTER = ("percentile(v, 0.5) FILTER (WHERE v > 3)", "max_by(w, v) FILTER (WHERE v % 2 = 0)")


@dataclass(frozen=True)
class Narrower:
    """The type of a column before and after a change, the aggregates that survive it, and digits after the point."""

    wide: str
    narrow: str
    aggregates: Sequence[str]
    digits: int = 0


PAIRS = (
    Narrower("bigint", "int", (*BY_INTEGER, *WITH_FILTER)),
    Narrower("bigint", "smallint", BY_INTEGER),
    Narrower("int", "tinyint", BY_INTEGER),
    Narrower("decimal(12,2)", "decimal(10,2)", BY_VALUE, digits=2),
    Narrower("decimal(14,4)", "decimal(10,2)", BY_VALUE, digits=2),
    Narrower("decimal(20,0)", "bigint", BY_VALUE),
    Narrower("double", "int", BY_VALUE),
    Narrower("double", "float", BY_ORDER, digits=2),
)
LARGEST = {"bigint": 10**12, "int": 10**9, "smallint": 30_000, "tinyint": 100}


class Source:
    """Rows whose column ``v`` is of one type at a time; it is stored as text."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.feed = Feed(folder / "in", "k string, v string, w bigint, part int")

    def rows(self, kind: str) -> DataFrame:
        # No window closes before the last row.
        return self.feed.stream(self.spark, "1 minute").withColumn("v", F.col("v").cast(kind))

    def all(self, pair: Narrower) -> DataFrame:
        rows = self.feed.batch(self.spark)
        later = F.col("v").cast(pair.narrow).cast(pair.wide)
        return rows.withColumn("v", F.when(F.col("part") == 1, later).otherwise(F.col("v").cast(pair.wide)))

    def write(self, rng: random.Random, pair: Narrower, part: int) -> None:
        """A batch with some rows of each of several keys."""
        largest = LARGEST.get(pair.narrow if part == 1 else pair.wide, 10**6)
        rows = []
        for key in range(40):
            for _ in range(rng.randrange(4)):
                number = Decimal(rng.choice((rng.randrange(-5, 5), rng.randrange(-largest, largest))))
                value = number.scaleb(-pair.digits)
                time = rng.randrange(30) * SECOND
                # The other argument of max_by depends on the value alone.
                rows.append((time, f"k{key}", rng.choice((str(value), str(value), None)), int(number) * 7, part))
        self.feed.write(rows)


@pytest.mark.parametrize("number", range(ROUNDS))
def test_random_columns_that_became_narrower_continue_as_in_a_batch_over_the_wider_type(
    spark: SparkSession, tmp_path: Path, number: int
) -> None:
    for pair in PAIRS:
        rng = random.Random(f"{SEED} {pair} {number}")
        context = f"MULLION_SEED={SEED}, round {number}, {pair}, {draw_size(spark, rng)}"
        source = Source(spark, tmp_path / f"{pair.wide} {pair.narrow}")
        checkpoint = tmp_path / f"of {pair.wide} {pair.narrow}"
        window, sparks = rng.choice(
            (
                (Tumbling("20 seconds"), F.window("ts", "20 seconds")),
                (Sliding("20 seconds", "5 seconds"), F.window("ts", "20 seconds", "5 seconds")),
            )
        )
        chosen = rng.sample(pair.aggregates, 4)
        results = [F.expr(of).alias(f"r{at}") for at, of in enumerate(chosen)]
        closed: list[Any] = []
        for part, kind in enumerate((pair.wide, pair.narrow, pair.wide)):
            panes = windowed(source.rows(kind), window, by="k", time="ts").agg(*results)
            if part == 1:
                verdicts = [(row.verdict, row.what) for row in compare(panes, checkpoint).collect()]
                wide, narrow = pair.wide.upper(), pair.narrow.upper()
                what = f"the column v was of type {wide} and is now of type {narrow}: the functions"
                # A literal in a FILTER clause has the type of the column, which the text of the aggregate shows.
                assert {verdict for verdict, _ in verdicts} == {"goes on"}, context
                assert any(change.startswith(what) for _, change in verdicts), verdicts
            with ClockedQuery(panes, checkpoint=checkpoint) as query:
                for _ in range(2):
                    source.write(rng, pair, part)
                    closed += query.settle()
                if part == 2:
                    source.feed.flood()
                    closed += query.settle()
        expected = source.all(pair).groupBy("k", sparks.alias("window")).agg(*results)
        names = [f"r{at}" for at in range(len(chosen))]

        def shown(rows: Sequence[Any], names: Sequence[str] = names) -> list[tuple[Any, ...]]:
            return sorted((row.k, row.window.start, *(row[name] for name in names)) for row in rows)

        assert shown(closed) == shown(expected.collect()), f"{context}, {window}, {chosen}"
        assert read_panes(checkpoint, spark=spark).count() == 0, context


def test_a_window_of_several_casts_a_column_that_became_narrower(spark: SparkSession, tmp_path: Path) -> None:
    source = Source(spark, tmp_path)

    def panes(kind: str) -> DataFrame:
        rows, distinct = source.rows(kind), F.expr("count(DISTINCT v)").alias("n")
        short = windowed(rows, Tumbling("10 seconds"), by="k", time="ts").agg(distinct)
        long = windowed(rows, Tumbling("20 seconds"), by="k", time="ts").agg(distinct, F.median("v").alias("m"))
        return together(short=short, long=long)

    closed = []
    for kind, value in (("bigint", "5000000000"), ("int", "7"), ("int", "7")):
        with ClockedQuery(panes(kind), checkpoint=tmp_path / "checkpoint") as query:
            source.feed.write([(SECOND, "a", value, 0, 0)])
            closed += query.settle()
    with ClockedQuery(panes("int"), checkpoint=tmp_path / "checkpoint") as query:
        source.feed.flood()
        closed += query.settle()
    assert {(row.window_name, row.n, row.m) for row in closed} == {("short", 2, None), ("long", 2, 7.0)}


def test_a_window_that_drains_casts_a_column_that_became_narrower(spark: SparkSession, tmp_path: Path) -> None:
    source, checkpoint = Source(spark, tmp_path), tmp_path / "checkpoint"
    closed: list[Any] = []

    def panes(kind: str, window: Tumbling) -> DataFrame:
        rows = source.feed.stream(spark, "0 seconds").withColumn("v", F.col("v").cast(kind))
        of = windowed(rows, window, by="k", time="ts", upgrade=Upgrade(window="drain"))
        return of.agg(F.median("v").alias("m"), F.expr("count(DISTINCT v)").alias("n"))

    def settle(panes: DataFrame, *rows: tuple[int, str]) -> None:
        with ClockedQuery(panes, checkpoint=checkpoint) as query:
            source.feed.write([(time * SECOND, "a", value, 0, 0) for time, value in rows])
            closed.extend(query.settle())

    settle(panes("bigint", Tumbling("10 seconds")), (1, "5000000000"), (2, "7"))
    longer = panes("int", Tumbling("20 seconds"))
    changes = sorted((row.verdict, row.what) for row in compare(longer, checkpoint).collect())
    assert [verdict for verdict, _ in changes] == ["drains", "goes on"], changes
    assert changes[1][1].startswith("the column v was of type BIGINT and is now of type INT: the functions")
    settle(longer, (3, "7"))
    assert [row.n for row in read_panes(checkpoint, spark=spark, panes=longer).collect()] == [2]
    # The old window still drains, and has closed at the next start.
    settle(longer, (4, "7"), (21, "1"))
    settle(longer, (22, "1"), (23, "4"))
    settle(longer, (60, "0"))
    settle(panes("bigint", Tumbling("20 seconds")), (120, "6000000000"))
    settle(longer, (200, "0"))
    shown = sorted((row.window.start.minute * 60 + row.window.start.second, row.m, row.n) for row in closed)
    assert shown == [(0, 7.0, 2), (20, 1.0, 2), (60, 0.0, 1), (120, 6e9, 1)]


def aggregate_of(sql: str) -> Column:
    return F.expr(sql).alias("x")


@pytest.mark.parametrize(
    ("aggregate", "before", "now"),
    [
        # The result has the type of the column, and may not fit.
        ("max(v)", "bigint", "int"),
        ("mode(v)", "bigint", "int"),
        ("percentile_approx(v, 0.5)", "bigint", "int"),
        ("sum(DISTINCT v)", "decimal(12,2)", "decimal(10,2)"),
        # Values of the two types are not equal, or are of different kinds.
        ("approx_count_distinct(v)", "double", "float"),
        ("count(DISTINCT v)", "double", "float"),
        ("approx_count_distinct(v)", "double", "bigint"),
        ("approx_count_distinct(v)", "timestamp", "date"),
        # The cast could change what an expression means.
        ("approx_count_distinct(v + 1)", "bigint", "int"),
        ("sum(hash(v))", "bigint", "int"),
        ("percentile(v, 0.5) FILTER (WHERE hash(v) > 0)", "bigint", "int"),
        ("max_by(v, v)", "bigint", "int"),
        # The state would need the cast.
        ("median(v)", "int", "bigint"),
        ("percentile(v, 0.5)", "decimal(10,2)", "decimal(12,2)"),
        ("percentile(v, 0.5)", "decimal(12,2)", "decimal(12,4)"),
    ],
)
def test_a_column_of_another_type_is_rejected_where_a_cast_may_change_the_meaning(
    spark: SparkSession, tmp_path: Path, aggregate: str, before: str, now: str
) -> None:
    source = Source(spark, tmp_path)
    text = "2024-01-01" if now == "date" else "7"

    def settle(kind: str) -> None:
        panes = windowed(source.rows(kind), Tumbling("10 seconds"), by="k", time="ts").agg(aggregate_of(aggregate))
        with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:
            source.feed.write([(SECOND, "a", text, 1, 0)])
            query.settle()

    settle(before)
    with pytest.raises(IncompatibleStateError):
        settle(now)
