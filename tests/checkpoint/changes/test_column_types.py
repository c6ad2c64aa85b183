"""Columns of the source that change their type between two runs: the state keeps its meaning, or the query is rejected.

Casts of columns that became narrower are in ``test_cast_columns``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion import IncompatibleStateError, Tumbling, Upgrade, windowed
from tests.support.change_runs import Runs, verdicts
from tests.support.clocked import ClockedQuery

WIDER = (
    ("int", "bigint"),
    ("bigint", "int"),
    ("decimal(12,2)", "decimal(12,4)"),
    ("decimal(12,4)", "decimal(12,2)"),
    ("int", "decimal(12,2)"),
)


def typed_rows(runs: Runs, kind: str) -> DataFrame:
    return runs.feed.stream(runs.spark).withColumn("v", F.col("v").cast(kind))


def require_rejected(panes: DataFrame, runs: Runs) -> None:
    """The query is rejected with the type of ``v`` and the cast that fixes it, and its state stays.

    The row of the rejected batch stays in the feed.
    """
    changes = verdicts(panes, runs)
    assert "refused" in {verdict for verdict, _ in changes}, changes
    assert any("the column v was of type" in what and "cast the column to" in what for _, what in changes), changes
    state = {name for name in runs.files() if "/state/" in name}
    with pytest.raises(IncompatibleStateError, match="the column v was of type"):
        settle(panes, runs, [(4, "a", 4)])
    assert {name for name in runs.files() if "/state/" in name} == state


def settle(panes: DataFrame, runs: Runs, rows: list[tuple[int, str, int]]) -> list[Any]:
    with ClockedQuery(panes, checkpoint=runs.checkpoint) as query:
        runs.write(rows)
        return query.settle()


@pytest.mark.parametrize(
    ("aggregate", "before", "now", "continues"),
    [
        ("percentile(v, 0.5)", "int", "bigint", False),
        ("median(v)", "int", "bigint", False),
        ("approx_count_distinct(v)", "int", "bigint", False),
        ("percentile(v, 0.5)", "decimal(12,2)", "decimal(12,4)", False),
        ("percentile(v, 0.5) FILTER (WHERE v > 3)", "int", "bigint", False),
        ("listagg(cast(v as string))", "int", "double", False),
        ("max(cast(v as string))", "int", "double", False),
        ("max(cast(v as string))", "decimal(12,2)", "int", False),
        ("max(cast(v as string))", "int", "bigint", True),
        ("max(v)", "int", "bigint", False),
        ("max_by(k, v)", "int", "bigint", False),
        ("count(*) FILTER (WHERE cast(v as string) = '3')", "int", "double", False),
        ("count(*) FILTER (WHERE hash(v) > 0)", "int", "bigint", False),
        ("count(*) FILTER (WHERE v > 3.5D)", "int", "double", False),
        ("count(*) FILTER (WHERE v > 3)", "int", "bigint", True),
        ("count(*) FILTER (WHERE v > 3)", "bigint", "int", True),
        ("count(*) FILTER (WHERE v > 3)", "decimal(12,2)", "decimal(12,4)", True),
        ("count_if(v + 1 > 4)", "bigint", "int", True),
        ("sum(v * 2)", "int", "bigint", True),
        ("sum(v) FILTER (WHERE v > 3)", "bigint", "int", True),
        ("sum(v)", "int", "bigint", True),
        ("avg(v)", "int", "double", True),
        ("count(v)", "int", "double", True),
        ("sum(v)", "float", "double", True),
        ("sum(v)", "bigint", "int", True),
        ("avg(v)", "double", "int", True),
    ],
)
def test_an_aggregate_continues_over_another_type_only_if_its_state_has_the_same_meaning(
    spark: SparkSession, tmp_path: Path, aggregate: str, before: str, now: str, continues: bool
) -> None:
    runs = Runs(spark, tmp_path, Tumbling("10 seconds"))

    def panes(kind: str) -> DataFrame:
        return runs.panes([F.expr(aggregate).alias("x")], rows=typed_rows(runs, kind), upgrade=Upgrade())

    settle(panes(before), runs, [(1, "a", 3), (2, "a", 3), (3, "a", 8)])
    if continues:
        assert {verdict for verdict, _ in verdicts(panes(now), runs)} == {"goes on"}
        (closed,) = settle(panes(now), runs, [(4, "a", 5), (20, "z", 0)])
        rows = runs.feed.batch(spark).where("k = 'a'").withColumn("v", F.col("v").cast(now))
        assert closed.x == rows.agg(F.expr(aggregate).alias("x")).collect()[0].x
    else:
        require_rejected(panes(now), runs)


@pytest.mark.parametrize(
    ("key", "before", "now", "continues"),
    [
        ("v", "int", "bigint", False),
        ("cast(v as string)", "decimal(12,2)", "decimal(12,4)", False),
        ("cast(v as string)", "decimal(12,2)", "int", False),
        ("cast(v as string)", "int", "double", False),
        ("hash(v)", "int", "bigint", False),
        ("cast(v as string)", "int", "bigint", True),
        ("cast(v as string)", "bigint", "smallint", True),
        ("cast(v as bigint)", "int", "bigint", True),
        ("v > 3", "int", "bigint", True),
        ("v > 3", "decimal(12,2)", "int", True),
        ("v > 3", "int", "double", False),
    ],
)
def test_a_key_continues_over_another_type_only_if_its_values_stay_equal(
    spark: SparkSession, tmp_path: Path, key: str, before: str, now: str, continues: bool
) -> None:
    runs = Runs(spark, tmp_path, Tumbling("10 seconds"))

    def panes(kind: str) -> DataFrame:
        return runs.panes(["n"], rows=typed_rows(runs, kind), by=F.expr(key).alias("key"))

    settle(panes(before), runs, [(1, "a", 3), (2, "a", 3)])
    if continues:
        (closed,) = settle(panes(now), runs, [(4, "a", 3), (20, "z", 3)])
        assert closed.n == 3
    else:
        changes = verdicts(panes(now), runs)
        assert {verdict for verdict, _ in changes} == {"refused"}, changes
        with pytest.raises(IncompatibleStateError, match=r"key INT\] and is now|the column v was of type"):
            settle(panes(now), runs, [(4, "a", 3)])


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("k", "lower(k)"),
        ("lower(k)", "upper(k)"),
        ("v > 3", "v > 4"),
        ("v > 3", "cast(v as bigint) > 3"),
    ],
)
def test_another_expression_for_a_key_of_the_same_name_is_rejected(
    spark: SparkSession, tmp_path: Path, before: str, now: str
) -> None:
    runs = Runs(spark, tmp_path, Tumbling("10 seconds"))
    settle(runs.panes(["n"], by=F.expr(before).alias("key")), runs, [(1, "a", 3)])
    changed = runs.panes(["n"], by=F.expr(now).alias("key"))
    (change,) = verdicts(changed, runs)
    assert change[0] == "refused"
    assert re.fullmatch(r"the key was \[.* AS key\] and is now \[.* AS key\]: open panes have .*", change[1])
    with pytest.raises(IncompatibleStateError, match="the key was"):
        settle(changed, runs, [(2, "a", 3)])


@pytest.mark.parametrize(("before", "now"), WIDER)
@pytest.mark.parametrize(
    "make",
    [
        lambda rows: windowed(rows, Tumbling("10 seconds"), by="k", time="ts", dedupe_by="v").agg(
            F.count("*").alias("n")
        ),
        lambda rows: windowed(rows, Tumbling("10 seconds"), by="k", time="ts").collect(),
    ],
    ids=["dedupe_by", "collect"],
)
def test_rows_in_state_require_the_type_that_their_columns_had(
    spark: SparkSession, tmp_path: Path, make: Callable[[DataFrame], DataFrame], before: str, now: str
) -> None:
    runs = Runs(spark, tmp_path, Tumbling("10 seconds"))
    settle(make(typed_rows(runs, before)), runs, [(1, "a", 3)])
    require_rejected(make(typed_rows(runs, now)), runs)
    back = F.col("v").cast(now).cast(before)
    (closed,) = settle(make(runs.feed.stream(spark).withColumn("v", back)), runs, [(2, "a", 3), (20, "z", 0)])
    values = [3, 4] if "n" in closed else [3, 4, 3]
    assert (closed.n if "n" in closed else len(closed.rows)) == len(values)


@pytest.mark.parametrize(("before", "now"), WIDER)
@pytest.mark.parametrize("aggregate", ["sum(v)", "percentile(v, 0.5)", "max(v)"])
def test_a_window_that_drains_requires_the_type_that_its_state_has(
    spark: SparkSession, tmp_path: Path, aggregate: str, before: str, now: str
) -> None:
    runs = Runs(spark, tmp_path, Tumbling("10 seconds"))

    def panes(kind: str, window: Tumbling) -> DataFrame:
        aggregates = [F.expr(aggregate).alias("x")]
        return runs.panes(aggregates, rows=typed_rows(runs, kind), window=window, upgrade=Upgrade(window="drain"))

    settle(panes(before, Tumbling("10 seconds")), runs, [(1, "a", 3), (2, "a", 8)])
    longer, later = panes(now, Tumbling("20 seconds")), [(21, "a", 5), (60, "z", 0)]
    if "refused" in {verdict for verdict, _ in verdicts(longer, runs)}:
        require_rejected(longer, runs)
        longer = panes(before, Tumbling("20 seconds"))
    else:
        later.insert(0, (4, "a", 4))
    closed = settle(longer, runs, later)
    shown = sorted((row.window.start.second, float(row.x)) for row in closed)
    expected = {"sum(v)": [15.0, 5.0], "percentile(v, 0.5)": [4.0, 5.0], "max(v)": [8.0, 5.0]}
    assert shown == list(zip((0, 20), expected[aggregate], strict=True))
