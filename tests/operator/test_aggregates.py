"""Every aggregate and every key type against Spark's own ``groupBy`` on a batch, over several micro-batches a pane."""

from __future__ import annotations

import itertools
import math
import random
import sys
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion import Early, Sliding, Tumbling, read_panes, windowed
from tests.support.checked import settings
from tests.support.clocked import ClockedQuery
from tests.support.streams import SECOND, Feed

WINDOWS: dict[str, Tumbling | Sliding] = {
    "tumbling": Tumbling("10 seconds"),
    "sliding": Sliding("12 seconds", "5 seconds"),
}


def window_of_spark(window: str) -> Column:
    """Spark's form of a window."""
    return {
        "tumbling": F.window("ts", "10 seconds"),
        "sliding": F.window("ts", "12 seconds", "5 seconds"),
    }[window].alias("window")


COLUMNS = (
    "k string, i int, l bigint, d double, f float, s string, b boolean, dec decimal(38, 6), bin binary, day date, "
    "at timestamp, arr array<int>, st struct<x: int, y: string>, m map<string, int>, inc bigint"
)


def random_row(rng: random.Random, number: int) -> dict[str, Any]:
    """A row with some nulls. ``inc`` identifies a row within its pane and grows with time."""

    def some(value: Any) -> Any:
        return None if rng.random() < 0.15 else value

    i = rng.randrange(-50, 50)
    return {
        "t": rng.randrange(30 * SECOND),
        "k": some(f"key {rng.randrange(4)}"),
        "i": some(i),
        "l": some(i * 10**12),
        "d": some(i / 4),
        "f": some(i / 8),
        "s": some(f"text {i} {'x' * (i % 7)}"),
        "b": some(i > 0),
        "dec": some(Decimal(i * 10**24) / 1000),
        "bin": some(bytes([i % 256, 255 - i % 256])),
        "day": some(date(2000, 1, 1 + i % 28)),
        "at": some(datetime(1900, 1, 1, 0, 0, i % 60, i % 1000, tzinfo=UTC)),
        "arr": some([i, None, i + 1]),
        "st": some({"x": i, "y": some(str(i))}),
        "m": some([("a", i), ("b", -i)]),
        "inc": number,
    }


def added_up(name: str) -> Column:
    """Aggregates that do not depend on the order of a pane's rows."""
    return F.array_sort(F.collect_list(name))


FAMILIES = ["in place", "as rows", "as objects", "all at once"]


def aggregates_of(family: str) -> dict[str, Column]:
    """Families of aggregates by their merge: in place, as rows of variable length, as objects, or mixed."""
    in_place = {
        "count": F.count("*"),
        "count_i": F.count("i"),
        "sum_i": F.sum("i"),
        "sum_d": F.sum("d"),
        "avg_f": F.avg("f"),
        "min_l": F.min("l"),
        "max_day": F.max("day"),
        "min_at": F.min("at"),
        "stddev": F.round(F.stddev("i"), 6),
        "variance": F.round(F.var_pop("d"), 6),
        "corr": F.round(F.corr("i", "inc"), 6),
        "skewness": F.round(F.skewness("d"), 6),
        "bool_and": F.bool_and("b"),
        "bool_or": F.bool_or("b"),
        "count_if": F.count_if(F.col("i") > 0),
        "bits": F.bit_xor("i"),
        "filtered": F.expr("sum(i) FILTER (WHERE s LIKE '%xx%')"),
        "none_filtered": F.expr("count(*) FILTER (WHERE false)"),
        "ratio": F.try_divide(F.sum("l"), F.count("b")),
        "with_key": F.concat(F.coalesce("k", F.lit("none")), F.lit(":"), F.count("*").cast("string")),
        "max_f": F.max("f"),
        "any": F.any_value(F.lit(7)),
        "product": F.product(F.lit(2.0)),
        "sum_dec": F.sum("dec"),
        "avg_dec": F.avg("dec"),
        "max_dec": F.max("dec"),
        "sum_money": F.sum(F.col("i").cast("decimal(12, 2)")),
        "filtered_dec": F.expr("sum(dec) FILTER (WHERE b)"),
    }
    as_rows = {
        "max_s": F.max("s"),
        "min_s": F.min("s"),
        "max_bin": F.max("bin"),
        "max_st": F.max("st"),
        "min_arr": F.min("arr"),
        "max_by": F.max_by("s", "inc"),
        "min_by": F.min_by("m", "inc"),
        "max_by_st": F.max_by("st", "inc"),
        "first_of_key": F.first("k"),
        "last_of_key": F.last("k", ignorenulls=True),
        "filtered_max": F.expr("max(s) FILTER (WHERE b)"),
    }
    as_objects = {
        "list": added_up("i"),
        "list_st": added_up("st"),
        "set": F.array_sort(F.collect_set("s")),
        "set_dec": F.array_sort(F.collect_set("dec")),
        "percentile": F.percentile("i", 0.3),
        "percentiles": F.percentile("d", [0.0, 0.5, 1.0]),
        "median": F.median("l"),
        "percentile_approx": F.percentile_approx("i", [0.1, 0.9], 1000),
        "approx_distinct": F.approx_count_distinct("s"),
        "mode": F.mode(F.lit("the same")),
        "filtered_list": F.array_sort(F.expr("collect_list(arr) FILTER (WHERE i % 2 = 0)")),
        "histogram": F.aggregate(F.histogram_numeric("i", F.lit(500)), F.lit(0.0), lambda total, b: total + b.y),
        "bloom": F.length(F.bitmap_construct_agg(F.bitmap_bit_position("inc"))),
        "listagg": F.length(F.listagg("s")),
        "count_min": F.length(F.count_min_sketch("i", F.lit(0.1), F.lit(0.9), F.lit(1))),
    }
    return {
        "in place": in_place,
        "as rows": as_rows,
        "as objects": as_objects,
        "all at once": {**in_place, **as_rows, **as_objects},
    }[family]


def aliased(aggregates: dict[str, Column]) -> list[Column]:
    return [column.alias(name) for name, column in aggregates.items()]


def shown(frame: DataFrame, names: list[str]) -> list[str]:
    """Sorted rows as texts, in which NaN equals itself and null differs from all other values."""
    rows = frame.select(F.unix_micros("window.start").alias("start"), *names).collect()
    return sorted(repr(row.asDict(True)) for row in rows)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("window", "family"), list(itertools.product(WINDOWS, FAMILIES)))
def test_aggregates_are_those_of_a_group_by(spark: SparkSession, tmp_path: Path, window: str, family: str) -> None:
    aggregates = aggregates_of(family)
    names = ["k", *aggregates]
    rng = random.Random(f"{window} {family}")
    feed = Feed(tmp_path / "in", COLUMNS)
    # With early firings, accumulators have additional columns and are evaluated while their pane is open.
    early = Early("1 minute") if family in ("as rows", "all at once") else None
    panes = windowed(
        feed.stream(spark),
        WINDOWS[window],
        by="k",
        time="ts",
        allowed_lateness="1 hour",
        early=early,
    ).agg(*aliased(aggregates))
    with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:
        for batch in range(3):
            feed.write([random_row(rng, 100 * batch + i) for i in range(100)])
            fired = query.settle()
            if early:
                query.advance("1 minute")
                fired += query.settle()
                assert len(fired) > 0
                rows = spark.createDataFrame(fired, panes.schema)
                expected = feed.batch(spark).groupBy("k", window_of_spark(window)).agg(*aliased(aggregates))
                assert set(shown(rows, names)) <= set(shown(expected, names))
        feed.flood()
        rows = spark.createDataFrame(query.settle(), panes.schema)
    expected = feed.batch(spark).groupBy("k", window_of_spark(window)).agg(*aliased(aggregates))
    assert shown(rows.where("pane.firing = 'close'"), names) == shown(expected, names)


KEYS: dict[str, list[Any]] = {
    "s string": ["", "a", "ä", "a\0b", "x" * 300],
    "i int": [0, -1, 2**31 - 1, -(2**31)],
    "l bigint": [0, -(2**63), 2**63 - 1],
    "by tinyint": [-128, 127],
    "d double": [0.0, -0.0, math.nan, -math.nan, math.inf, -math.inf, 5e-324],
    "f float": [0.0, -0.0, math.nan, 1.5],
    "dec decimal(38, 10)": [Decimal(0), Decimal("-0.0000000001"), Decimal(10) ** 27],
    "dec9 decimal(9, 2)": [Decimal("1.10"), Decimal("-1.10")],
    "st struct<x: int, y: double>": [
        {"x": 1, "y": 0.0},
        {"x": 1, "y": -0.0},
        {"x": 1, "y": math.nan},
        {"x": None, "y": None},
    ],
    "arr array<double>": [[], [0.0, None], [-0.0, None], [math.nan]],
    "day date": [date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31)],
    "at timestamp": [datetime(1900, 1, 1, tzinfo=UTC), datetime(2024, 2, 29, 1, 2, 3, 4, tzinfo=UTC)],
    "ntz timestamp_ntz": [datetime(1900, 1, 1), datetime(2024, 2, 29, 1, 2, 3, 4)],
    "bin binary": [b"", b"\0", b"\xff\0"],
    "b boolean": [True, False],
    "length interval day to second": [timedelta(0), timedelta(days=-1, microseconds=1)],
    # Nulls among texts only: among numbers Spark's own grouping loses them.
    "m map<string, double>": [[], [("a", 0.0), ("b", 1.5)], [("b", 1.5), ("a", -0.0)]],
    "ms struct<m: map<int, string>>": [{"m": [(1, None), (2, "1")]}, {"m": [(2, "1"), (1, None)]}],
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("window", WINDOWS)
def test_keys_of_any_type_group_as_in_spark(spark: SparkSession, tmp_path: Path, window: str) -> None:
    """Keys of all types in one query. A row has one key, several keys or none; the others are null."""
    rng = random.Random(window)
    feed = Feed(tmp_path / "in", ", ".join(KEYS) + ", v int")
    names = [key.split()[0] for key in KEYS]
    by_all = windowed(feed.stream(spark), WINDOWS[window], by=names, time="ts", allowed_lateness="1 hour")
    panes = by_all.agg(F.count("*").alias("n"), F.sum("v").alias("v"))
    with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:
        for _ in range(3):
            rows: list[dict[str, Any]] = [{name.split()[0]: value} for name, values in KEYS.items() for value in values]
            rows += [{name.split()[0]: rng.choice(values) for name, values in KEYS.items()} for _ in range(20)]
            rows += [{}]
            feed.write({"t": rng.randrange(30 * SECOND), "v": rng.randrange(100), **row} for row in rows)
            query.settle()
        feed.flood()
        closed = spark.createDataFrame(query.settle(), panes.schema)
    grouped = feed.batch(spark).groupBy(*names, window_of_spark(window))
    expected = grouped.agg(F.count("*").alias("n"), F.sum("v").alias("v"))
    assert shown(closed, [*names, "n", "v"]) == shown(expected, [*names, "n", "v"])


def test_a_null_in_a_map_is_another_key_than_a_zero(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "m map<string, int>")
    panes = windowed(feed.stream(spark), Tumbling("10 seconds"), by="m", time="ts").agg(F.count("*").alias("n"))
    with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:
        feed.write([(1, [("a", 1), ("b", None)]), (2, [("b", 0), ("a", 1)]), (3, [("b", None), ("a", 1)])])
        feed.flood()
        closed = sorted(((row.m["b"], row.n) for row in query.settle()), key=str)
    assert closed == [(0, 1), (None, 2)]


def test_names_that_differ_in_case_are_different_if_spark_is_case_sensitive(
    spark: SparkSession, tmp_path: Path
) -> None:
    with settings(spark, {"spark.sql.caseSensitive": "true"}):
        rows = Feed(tmp_path / "in", "k string").stream(spark)
        panes = windowed(rows, Tumbling("10 seconds"), by="k", time="ts").agg(F.max("k").alias("K"))
        assert panes.columns == ["k", "window", "pane", "K"]


def test_a_pane_of_no_key_is_the_whole_stream(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "v int")
    panes = windowed(feed.stream(spark), Tumbling("10 seconds"), time="ts", late="emit").agg(F.sum("v").alias("v"))
    assert panes.columns == ["window", "pane", "v", "late_row"]
    with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:
        feed.write([(s * SECOND, 1) for s in range(25)])
        rows = query.settle()
        feed.write([(5 * SECOND, 100), (None, 200), (29 * SECOND, 1)])
        rows += query.settle()
    fired = [(r.pane.firing, r.v, r.late_row.v if r.late_row else None) for r in rows]
    assert sorted(fired, key=str) == [
        ("close", 10, None),
        ("close", 10, None),
        ("late", None, 100),
        ("late", None, 200),
    ]


def test_keys_and_aggregates_may_be_expressions(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "k string, s struct<x: int>, v int")

    def panes() -> DataFrame:
        by = [F.upper("k").alias("K"), F.col("s.x"), (F.col("v") % 2 == 0).alias("even")]
        shares = (F.sum("v") / F.max(F.length("k")) + F.first(F.upper("k")).isNotNull().cast("int")).alias("share")
        return windowed(feed.stream(spark), Tumbling("10 seconds"), by=by, time="ts").agg(shares, F.max("s.x") + 1)

    assert panes().columns == ["K", "x", "even", "window", "pane", "share", "(max(s.x) + 1)"]
    with ClockedQuery(panes(), checkpoint=tmp_path / "checkpoint") as query:
        feed.write([(1, "a", {"x": 1}, 2), (2, "A", {"x": 1}, 4), (3, "a", {"x": 1}, 3), (4, "b", None, 1)])
        query.settle()
    # The same query, created again.
    with ClockedQuery(panes(), checkpoint=tmp_path / "checkpoint") as query:
        feed.flood()
        closed = query.settle()
    assert sorted([(r[0], r[1], r[2], r[5], r[6]) for r in closed], key=str) == [
        ("A", 1, False, 4.0, 2),
        ("A", 1, True, 7.0, 2),
        ("B", None, False, 2.0, None),
    ]


@pytest.fixture
def python_workers(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers with the tests' Python, instead of the first one on the path."""
    monkeypatch.setattr(spark.sparkContext, "pythonExec", sys.executable)


@pytest.mark.usefixtures("python_workers")
def test_a_python_function_may_stand_inside_of_an_aggregate(spark: SparkSession, tmp_path: Path) -> None:
    doubled = F.udf(lambda v: None if v is None else 2 * v, "int")
    spelt = F.udf(lambda s, v: f"{s}{v}", "string")
    feed = Feed(tmp_path / "in", "k string, v int")
    panes = windowed(feed.stream(spark), Tumbling("10 seconds"), by="k", time="ts", late="emit").agg(
        F.sum(doubled("v")).alias("twice"),
        F.max(spelt("k", doubled("v"))).alias("text"),
        (F.sum(doubled(F.col("v") + 1)) / F.count("*")).alias("mean"),
        F.sum(F.when(doubled("v") > 4, 1)).alias("large"),
    )
    with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:
        feed.write([(1, "a", 1), (2, "a", 2), (3, "b", 3), (4, "b", None)])
        query.settle()
        feed.flood()
        closed = {r.k: (r.twice, r.text, r.mean, r.large) for r in query.settle()}
        feed.write([(1, "a", 1)])
        (late,) = query.settle()
    assert closed == {"a": (6, "a4", 5.0, None), "b": (6, "bNone", 4.0, 1)}
    assert late.late_row.asDict() == {"t": 1, "k": "a", "v": 1, "ts": late.late_row.ts}


@pytest.mark.usefixtures("python_workers")
def test_a_python_function_may_stand_around_an_aggregate_and_in_a_key(spark: SparkSession, tmp_path: Path) -> None:
    shouted = F.udf(lambda s: f"{s}!", "string")
    feed = Feed(tmp_path / "in", "k string, v int")
    panes = windowed(feed.stream(spark), Tumbling("10 seconds"), by=shouted("k").alias("key"), time="ts").agg(
        shouted(F.max("k")).alias("loud"), F.count("*").alias("n")
    )
    with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:
        feed.write([(1, "a", 1), (2, "a", 2), (3, "b", 3)])
        feed.flood()
        closed = {r.key: (r.loud, r.n) for r in query.settle()}
    assert closed == {"a!": ("a!", 2), "b!": ("b!", 1)}


@pytest.mark.usefixtures("python_workers")
def test_a_query_is_the_same_when_it_is_made_anew_whatever_a_python_function_is_over(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Columns and variables of lambdas get new numbers. Only Spark can tell which functions show these in texts."""
    plus = F.udf(lambda v: None if v is None else v + 1, "int")
    feed = Feed(tmp_path / "in", "k string, v int")

    def panes() -> DataFrame:
        rows = feed.stream(spark).alias("rows")
        by = plus(F.try_add(F.length("k"), F.lit(1))).alias("key")
        doubled = F.transform(F.sort_array(F.collect_list("v")), lambda v: F.try_add(v, v))
        return windowed(rows, Tumbling("10 seconds"), by=by, time="ts").agg(
            plus(F.try_add(F.max("v"), plus(F.ifnull(F.max(plus(F.ifnull("rows.v", F.lit(0)))), F.lit(0))))).alias("a"),
            plus(F.try_element_at(doubled, F.lit(1))).alias("b"),
        )

    with ClockedQuery(panes(), checkpoint=tmp_path / "checkpoint") as query:
        feed.write([(1, "a", 1), (2, "a", 2), (3, "bb", None)])
        query.settle()
    with ClockedQuery(panes(), checkpoint=tmp_path / "checkpoint") as query:
        feed.write([(4, "a", 0)])
        feed.flood()
        assert sorted((row.key, row.a, row.b) for row in query.settle()) == [(3, 7, 1), (4, None, None)]


def test_the_time_of_the_batch_may_stand_inside_of_an_aggregate(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "k string")
    age = F.max(F.unix_millis(F.current_timestamp()) - F.unix_millis("ts")).alias("age")
    panes = windowed(feed.stream(spark), Tumbling("10 seconds"), by="k", time="ts").agg(age, F.count("*").alias("n"))
    with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint", start_ms=60_000) as query:
        feed.write([(SECOND, "a"), (9 * SECOND, "b")])
        query.settle()
        query.advance("1 minute")
        feed.write([(2 * SECOND, "a")])
        query.settle()
        feed.flood()
        closed = {row.k: (row.age, row.n) for row in query.settle()}
    assert closed == {"a": (118_000, 2), "b": (51_000, 1)}


def test_what_an_expression_uses_twice_may_be_an_aggregate_or_a_key(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "k string, v int")
    by = F.nullif(F.upper("k"), F.lit("B")).alias("key")
    shown_key = F.nullif(F.nullif(F.upper("k"), F.lit("B")), F.lit("A")).alias("not_a")
    aggregates = [
        F.nullif(F.sum("v"), F.lit(3)).alias("not_3"),
        F.max(F.nullif(F.col("v") + 1, F.lit(3))).alias("most_but_3"),
        (F.sum("v") + F.count("*")).between(F.max("v"), F.max("v") + F.sum("v")).alias("between"),
        F.upper(F.concat(F.max("k"), F.max("k"))).between("B", "C").alias("b"),
        shown_key,
        F.expr("count(*) FILTER (WHERE v + v BETWEEN 3 AND 5)").alias("twos"),
    ]
    panes = windowed(feed.stream(spark), Tumbling("10 seconds"), by=by, time="ts").agg(*aggregates)
    with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:
        feed.write([(1, "a", 1), (2, "A", 2), (3, "b", None), (4, "c", 2), (5, "c", 2)])
        query.settle()
        read = read_panes(tmp_path / "checkpoint", spark=spark)
        now_open = sorted((tuple(row)[2:] for row in read.collect()), key=repr)
        feed.flood()
        closed = sorted((tuple(row)[3:] for row in query.settle()), key=repr)
    of_spark = feed.batch(spark).groupBy(by, window_of_spark("tumbling")).agg(*aggregates)
    assert closed == now_open == sorted((tuple(row)[2:] for row in of_spark.collect()), key=repr)


def test_a_key_may_be_a_literal(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "k string")
    by: list[Column | str] = [F.lit("all").alias("which"), "k"]
    panes = windowed(feed.stream(spark), Tumbling("10 seconds"), by=by, time="ts").agg(F.count("*").alias("n"))
    with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:
        feed.write([(SECOND, "a"), (2 * SECOND, "a")])
        feed.flood()
        assert [(row.which, row.k, row.n) for row in query.settle()] == [("all", "a", 2)]


def test_columns_may_be_named_as_those_that_the_operator_makes(spark: SparkSession, tmp_path: Path) -> None:
    names = ["slice", "reopened", "event_time", "start", "firings", "late_row"]
    feed = Feed(tmp_path / "in", ", ".join(f"{name} int" for name in names))
    by_three = windowed(feed.stream(spark), WINDOWS["sliding"], by=names[:3], time="ts", late="reopen")
    panes = by_three.agg(*(F.max(name).alias(name) for name in names[3:]))
    with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:
        feed.write([(9 * SECOND, *range(6))])
        query.settle()
        read = read_panes(tmp_path / "checkpoint", spark=spark).collect()
    assert len(read) == 2
    assert all([row[name] for name in names] == list(range(6)) for row in read)


@pytest.mark.parametrize("spilling", [False, True])
def test_late_rows_are_emitted_with_all_columns_and_their_key(
    spark: SparkSession, tmp_path: Path, spilling: bool
) -> None:
    """For columns of any type, and for enough rows to spill to disk."""
    feed = Feed(tmp_path / "in", COLUMNS)
    rng = random.Random(2024)
    panes = windowed(feed.stream(spark), Tumbling("10 seconds"), by=["k", "st"], time="ts", late="emit").agg(
        F.max("s").alias("text"), F.collect_list("arr").alias("arrays")
    )
    limits = {f"spark.sql.windowExec.buffer.{limit}": "20" for limit in ("in.memory.threshold", "spill.threshold")}
    with settings(spark, limits if spilling else {}), ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:
        feed.flood()
        query.settle()
        fired = []
        for batch in (0, 1000):
            rows = [random_row(rng, batch + i) for i in range(500)]
            feed.write(row if row["inc"] % 10 else {**row, "t": None} for row in rows)
            fired += query.settle()
        late = spark.createDataFrame(fired, panes.schema).where("pane.firing = 'late'")
    assert late.where("window IS NOT NULL OR text IS NOT NULL OR pane.seq IS NOT NULL").count() == 0
    # Rows are late by the clock of the previous batch, which was still at the epoch for the first of the two.
    written = feed.batch(spark).where("inc >= 1000 OR t IS NULL")
    expected = written.select("k", "st", *written.columns).collect()
    assert sorted(map(repr, late.select("k", "st", "late_row.*").collect())) == sorted(map(repr, expected))
