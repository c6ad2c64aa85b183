"""Several windows over one stream in one query: the results of separate queries, with one read and one shuffle."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Callable, Mapping
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion import (
    Around,
    Count,
    Custom,
    Early,
    IncompatibleStateError,
    InvalidArgumentError,
    PerKey,
    Session,
    Sliding,
    Tumbling,
    UnsupportedError,
    Watermark,
    read_panes,
    together,
    windowed,
)
from tests.support.clocked import ClockedQuery
from tests.support.seeds import SEED
from tests.support.streams import SECOND, Feed, batches_of

COLUMNS = "k string, j int, gap int, v bigint"


def windows(rows: DataFrame) -> dict[str, DataFrame]:
    """Windows of each kind that can share an operator, with different options."""

    def of(window: Any, *aggregates: Column, by: Any = ("k",), **options: Any) -> DataFrame:
        return windowed(rows, window, by=list(by), time="ts", **options).agg(*aggregates)

    n, s, ids = F.count("*").alias("n"), F.sum("v").alias("s"), F.sort_array(F.collect_list("v")).alias("ids")
    gap = Session(F.make_dt_interval(secs=F.col("gap")))
    weeks = Custom(F.expr("array(struct(ts - interval 3 seconds AS start, ts + interval 2 seconds AS end))"))
    return {
        "tumbling": of(Tumbling("10 seconds"), n, s, allowed_lateness="5 seconds", late="reopen"),
        "refined": of(Tumbling("7 seconds"), n, allowed_lateness="9 seconds", on_time=True, accumulate=False),
        "sliding": of(Sliding("9 seconds", "4 seconds"), n, F.max("v").alias("most"), early=Early("3 seconds")),
        "gaps": of(Sliding("3 seconds", "5 seconds", gaps=True), ids, by=["j", "k"], early=Early(count=2), late="emit"),
        "sessions": of(Session("4 seconds"), n, s, by=["k", "j"], allowed_lateness="2 seconds", late="emit"),
        "by_row": of(gap, ids, late="reopen", early=Early("2 seconds", unchanged=True)),
        "around": of(Around("2 seconds", "1 second"), F.sum("v").alias("s"), (F.max("v") * 2).alias("twice")),
        "custom": of(weeks, n, F.min("k").alias("first"), by=["j"], allowed_lateness="1 second"),
        "all": of(Tumbling("20 seconds"), n, by=[]),
    }


def apart(panes: Mapping[str, DataFrame]) -> DataFrame:
    """The union of a separate operator for each window."""
    named = [df.select(F.lit(name).alias("window_name"), "*") for name, df in panes.items()]
    return reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), named)


def as_json(panes: DataFrame) -> DataFrame:
    """The rows of a result as text that does not depend on the order of columns."""
    return panes.select(F.to_json(F.struct(*sorted(panes.columns))).alias("row"))


def random_rows(chance: random.Random, now: int, keys: int) -> list[tuple[Any, ...]]:
    def time() -> int | None:
        return (
            None if chance.random() < 0.01 else (now - int(chance.expovariate(1 / 4))) * SECOND + chance.choice((0, 1))
        )

    return [
        (time(), f"k{chance.randrange(keys)}", chance.randrange(3), chance.randrange(0, 6), chance.randrange(1000))
        for _ in range(keys)
    ]


def test_windows_in_one_query_give_the_same_results_as_alone(spark: SparkSession, tmp_path: Path) -> None:
    seed = SEED
    print(f"seed {seed}")
    chance = random.Random(seed)
    feed = Feed(tmp_path / "in", COLUMNS)
    stream = feed.stream(spark, "2 seconds")
    alone = ClockedQuery(as_json(apart(windows(stream))), checkpoint=tmp_path / "alone")
    checkpoint = tmp_path / "together"

    def start(reverse: bool = False) -> ClockedQuery:
        panes = windows(stream)
        named = dict(reversed(panes.items())) if reverse else panes
        return ClockedQuery(as_json(together(**named)), checkpoint=checkpoint)

    def compare(at: str) -> None:
        should = Counter(row[0] for row in alone.settle())
        is_ = Counter(row[0] for row in query.settle())
        instead, missing = list((is_ - should).items())[:5], list((should - is_).items())[:5]
        assert is_ == should, f"seed {seed}, {at}: instead {instead}, missing {missing}"

    query = start()
    try:
        now = 100
        for step in range(4):
            now += chance.choice((1, 3, 8, 15))
            if step == 2:
                query.stop()
            feed.write(random_rows(chance, now, 200))
            if step == 2:
                # The order of windows in the call does not matter.
                query = start(reverse=True)
            compare(f"step {step}")
        assert read_panes(checkpoint, spark=spark).count() == batches_of(query)[-1]["panesOpen"] > 0
        feed.flood()
        compare("at the end")
        assert batches_of(query)[-1]["numRowsTotal"] == 0, f"seed {seed}: records left"
        assert read_panes(checkpoint, spark=spark).isEmpty()
    finally:
        alone.stop()
        query.stop()


def test_the_source_is_read_once_and_shuffled_once(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", COLUMNS)
    stream = feed.stream(spark)
    panes = together(**windows(stream))
    feed.write([(SECOND, "a", 1, 2, 3), (2 * SECOND, "b", 1, 2, 3)])
    query = (
        panes.writeStream.format("memory")
        .queryName("together")
        .option("checkpointLocation", str(tmp_path / "c"))
        .start()
    )
    try:
        query.processAllAvailable()
        progress = [report for report in query.recentProgress if report["numInputRows"]]
        assert [report["numInputRows"] for report in progress] == [2]
        assert [operator["operatorName"] for operator in progress[0]["stateOperators"]] == ["mullionWindow"]
        plan = query._jsq.explainInternal(False)
    finally:
        query.stop()
    assert len(re.findall("Exchange hashpartitioning", plan)) == 1, plan
    assert len(re.findall("Scan", plan)) <= 2, plan
    named = re.search(r"WindowedAggregate together \[(.*)\]", plan)
    assert named
    assert all(f"{name}: " in named[1] for name in windows(stream))
    assert "all: tumbling 20 seconds" in plan


def test_windows_that_cannot_share_run_separately_with_the_same_results(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    feed = Feed(tmp_path / "in", COLUMNS)
    stream = feed.stream(spark)

    def of(window: Any, **options: Any) -> DataFrame:
        return windowed(stream, window, by="k", time="ts", **options).agg(F.sum("v").alias("s"))

    panes = {
        "a": of(Tumbling("10 seconds")),
        "b": of(Session("3 seconds")),
        "per_key": of(Tumbling("10 seconds"), clock=PerKey()),
        "running": of(Session("3 seconds"), early=Early(each_row=True)),
        "discarding": of(Sliding("6 seconds", "3 seconds"), early=Early("2 seconds"), accumulate=False),
        "by_wall": windowed(stream, Tumbling("10 seconds"), by="j", time=None).agg(F.sum("v").alias("s")),
    }
    together(**panes).explain()
    plan = capsys.readouterr().out
    assert plan.count("WindowedAggregate together [a: tumbling 10 seconds") == 1
    whys = re.findall("apart from other windows: (.*)", plan)
    assert Counter(whys) == {
        "its rows are processed in order of arrival": 2,
        "its firings clear the rows that they show": 1,
        "no other has its rows and its clock": 1,
    }

    both = [
        ClockedQuery(as_json(p), checkpoint=tmp_path / n) for n, p in (("t", together(**panes)), ("a", apart(panes)))
    ]
    try:
        for rows in ([(1, 1), (5, 2), (14, 3)], [(3, 1), (30, 7)]):
            feed.write([(t * SECOND, f"k{v % 2}", 1, 1, v) for t, v in rows])
            is_, should = ([row[0] for row in query.settle()] for query in both)
            assert sorted(is_) == sorted(should)
            assert is_
        operators = both[0].progress[-1]["stateOperators"]
        assert [operator["operatorName"] for operator in operators] == ["mullionWindow"] * 5
    finally:
        for query in both:
            query.stop()


def test_on_a_batch_several_windows_give_the_same_results_as_alone(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", COLUMNS)
    feed.write(random_rows(random.Random(7), 100, 40))
    panes = windows(feed.batch(spark))
    shared, alone = (Counter(row[0] for row in as_json(df).collect()) for df in (together(**panes), apart(panes)))
    assert shared == alone
    assert {json.loads(row)["window_name"] for row in shared} == set(panes)


def test_the_columns_are_the_name_the_keys_the_pane_and_what_the_windows_hold(spark: SparkSession) -> None:
    rows = spark.createDataFrame([("a", 1, 2)], "k string, j int, v int").withColumn("ts", F.timestamp_seconds("v"))
    panes = together(
        first=windowed(rows, Tumbling("10 seconds"), by="j", time="ts").agg(
            F.count("*").alias("n"), F.max("v").alias("m")
        ),
        second=windowed(rows, Session("10 seconds"), by="k", time="ts", late="emit").agg(F.count("*").alias("n")),
    )
    assert panes.columns == ["window_name", "j", "k", "window", "pane", "n", "m", "late_row"]
    shown = panes.select("window_name", "j", "k", "n", "m").orderBy("window_name")
    assert [tuple(row) for row in shown.collect()] == [("first", 1, None, 1, 2), ("second", None, "a", 1, None)]


def test_results_of_several_windows_are_matched_by_expression_and_not_by_text(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed = Feed(tmp_path / "in", "k string, v int")
    stream = feed.stream(spark)
    plus = F.udf(lambda n: n and n + 1000, "bigint")
    over_ten = F.expr("count(*) FILTER (WHERE v > 10)")
    total, now, long = F.sum("v"), F.current_timestamp(), F.col("v").cast("bigint")

    def of(*aggregates: Column, **options: Any) -> DataFrame:
        return windowed(stream, Tumbling("10 seconds"), by="k", time="ts", **options).agg(*aggregates)

    panes = {
        # Two aggregates of one text.
        "filters": of(plus(F.count("*")).alias("alls"), plus(over_ten).alias("big"), F.max(long).alias("m")),
        # The key again, next to an expression that only Spark can compute, with late rows or without.
        "keys": of(F.col("k").alias("kk"), F.when(now.isNotNull(), F.count("*")).alias("n"), late="emit"),
        "keys_too": of(F.col("k").alias("kk"), plus(F.count("*")).alias("m")),
        # One aggregate that is a result twice and part of an expression.
        "sums": of(total.alias("s"), total.alias("m"), plus(total).alias("more"), over_ten.alias("big")),
        "other": of(F.min(long).alias("s"), F.min("v").alias("kk_v"), plus(F.count("*")).alias("more")),
    }
    checkpoint = tmp_path / "checkpoint"
    columns = ["window_name", "k", "alls", "big", "kk", "m", "n", "s", "more", "kk_v"]
    with ClockedQuery(together(**panes), checkpoint=checkpoint) as query:
        feed.write([(SECOND, key, v) for key, v in (("a", 5), ("a", 11), ("a", 12), ("b", 20))])
        query.settle()
        read = read_panes(checkpoint, panes=together(**panes))
        # By the windows' names, in both orders.
        assert set(read.columns) == set(together(**panes).columns) - {"pane", "late_row"}
        now_open = sorted((tuple(row) for row in read.select(*columns).collect()), key=repr)
        feed.flood()
        fired = spark.createDataFrame(query.settle(), together(**panes).schema)
        closed = sorted((tuple(row) for row in fired.select(*columns).collect()), key=repr)
    nothing = None
    assert closed == now_open
    assert closed == sorted(
        [
            ("filters", "a", 1003, 1002, nothing, 12, nothing, nothing, nothing, nothing),
            ("filters", "b", 1001, 1001, nothing, 20, nothing, nothing, nothing, nothing),
            ("keys", "a", nothing, nothing, "a", nothing, 3, nothing, nothing, nothing),
            ("keys", "b", nothing, nothing, "b", nothing, 1, nothing, nothing, nothing),
            ("keys_too", "a", nothing, nothing, "a", 1003, nothing, nothing, nothing, nothing),
            ("keys_too", "b", nothing, nothing, "b", 1001, nothing, nothing, nothing, nothing),
            ("sums", "a", nothing, 2, nothing, 28, nothing, 28, 1028, nothing),
            ("sums", "b", nothing, 1, nothing, 20, nothing, 20, 1020, nothing),
            ("other", "a", nothing, nothing, nothing, nothing, nothing, 5, 1003, 5),
            ("other", "b", nothing, nothing, nothing, nothing, nothing, 20, 1001, 20),
        ],
        key=repr,
    )


def test_a_window_after_several_windows_waits_for_the_slowest(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", COLUMNS)
    stream = feed.stream(spark)

    def of(window: Any, lateness: str) -> DataFrame:
        return windowed(stream, window, by="k", time="ts", allowed_lateness=lateness).agg(F.count("*").alias("n"))

    first = together(fast=of(Tumbling("5 seconds"), "0 seconds"), slow=of(Session("2 seconds"), "20 seconds"))
    panes = windowed(first, Tumbling("10 seconds"), by="window_name", time="window").agg(F.sum("n").alias("n"))
    with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:

        def closed() -> list[tuple[str, int, int]]:
            return sorted((r["window_name"], r["window"]["start"].timestamp(), r["n"]) for r in query.settle())

        feed.write([(t * SECOND, "a", 0, 0, 0) for t in (1, 2, 6, 12)])
        assert closed() == []
        feed.write([(25 * SECOND, "a", 0, 0, 0)])
        assert closed() == [], "the slow window may still close a pane that ends at 5 s"
        feed.write([(31 * SECOND, "a", 0, 0, 0)])
        assert closed() == [("fast", 0, 3), ("slow", 0, 3)]


@pytest.fixture(scope="module")
def started(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[DataFrame, Path]:
    """A stream, and the checkpoint of a query over two windows of it."""
    folder = tmp_path_factory.mktemp("started")
    feed = Feed(folder / "in", COLUMNS)
    stream = feed.stream(spark)
    feed.write([(SECOND, "a", 1, 2, 3)])
    with ClockedQuery(together(**two(stream)), checkpoint=folder / "checkpoint") as query:
        query.settle()
    # The state is compared when a batch has rows.
    feed.write([(2 * SECOND, "a", 1, 2, 3)])
    return stream, folder / "checkpoint"


def two(rows: DataFrame, **options: Any) -> dict[str, DataFrame]:
    def of(window: Any, **options_: Any) -> DataFrame:
        return windowed(rows, window, by="k", time="ts", **options_).agg(F.count("*").alias("n"))

    return {"a": of(Tumbling("10 seconds")), "b": of(Session("5 seconds"), **options)}


CHANGED: dict[str, tuple[Callable[[DataFrame], dict[str, DataFrame]], str]] = {
    "another window under another name": (
        lambda rows: {"a": two(rows)["a"], "c": two(rows, allowed_lateness="1 second")["b"]},
        r"the window 'b' \(session with a gap of 5 seconds\) is gone: with upgrade=Upgrade\(window='drop'\)",
    ),
    "one window alone": (
        lambda rows: {"a": two(rows)["a"]},
        r"the window 'b' \(session with a gap of 5 seconds\) is gone: with upgrade=Upgrade\(window='drop'\)",
    ),
    "a longer lateness": (
        lambda rows: two(rows, allowed_lateness="1 second"),
        r"of the window 'b' allowed lateness was \[0 seconds\] and is now \[1 second\]",
    ),
    "names exchanged": (
        lambda rows: dict(zip("ba", two(rows).values(), strict=True)),
        r"of the window 'a' window was \[tumbling 10 seconds\] and is now \[session",
    ),
}


@pytest.mark.parametrize("change", CHANGED)
def test_other_windows_than_the_state_is_of_are_rejected(started: tuple[DataFrame, Path], change: str) -> None:
    stream, checkpoint = started
    panes, why = CHANGED[change]
    with (
        ClockedQuery(together(**panes(stream)), checkpoint=checkpoint) as query,
        pytest.raises(IncompatibleStateError, match=why),
    ):
        query.settle()


def test_what_does_not_go_together_is_rejected(spark: SparkSession, tmp_path: Path) -> None:
    stream = Feed(tmp_path / "in", COLUMNS).stream(spark)
    n = F.count("*").alias("n")
    tens = windowed(stream, Tumbling("10 seconds"), by="k", time="ts").agg(n)
    fives = windowed(stream, Tumbling("5 seconds"), by="k", time="ts")

    def refused(why: str, **panes: Any) -> None:
        with pytest.raises(InvalidArgumentError, match=why):
            together(**panes)

    refused("was given no window")
    refused("does not say what its panes hold", a=fives)
    refused(r"a='tens' \(str\) is not a DataFrame", a="tens")
    refused("'b' is not a result of windowed", a=tens, b=tens.where("n > 1"))
    refused("'Ä' is not a valid name for a window", **{"Ä": tens})
    refused("'a.b' is not a valid name for a window", **{"a.b": tens})
    refused("have one name, but for the case", a=tens, A=tens)
    refused("'n' is of type BIGINT in 'a' and of type STRING in 'b'", a=tens, b=fives.agg(F.max("k").alias("n")))
    refused("'n' is a key of one window and a result of another", a=tens, b=by_key(stream, F.col("k").alias("n")))
    refused("A column is named 'window_name'", a=by_key(stream, F.col("k").alias("window_name")))
    rows = windowed(stream, Count(3), by="k", time=None).agg(n)
    refused("Windows of time and windows of row numbers cannot share a query", a=tens, b=rows)
    idle = windowed(stream, Tumbling("10 seconds"), by="k", time="ts", clock=Watermark(idle_after="5 seconds")).agg(n)
    refused(
        r"Watermark\(idle_after=...\) moves the event clock of the whole query, and the windows differ in it \(b\)",
        a=tens,
        b=idle,
    )
    batch = spark.createDataFrame([], "ts timestamp, k string")
    refused("over a stream and some over a batch", a=tens, b=by_key(batch, "k"))


def by_key(rows: DataFrame, key: Any) -> DataFrame:
    return windowed(rows, Tumbling("10 seconds"), by=key, time="ts").agg(F.sum(F.lit(1)).alias("s"))


def test_an_operator_over_early_firings_of_several_windows_is_rejected(spark: SparkSession, tmp_path: Path) -> None:
    panes = together(**windows(Feed(tmp_path / "in", COLUMNS).stream(spark)))
    with pytest.raises(UnsupportedError, match=r"groupBy.* has state"):
        panes.groupBy("k").count().writeStream.format("noop").outputMode("update").start()
    with pytest.raises(UnsupportedError, match="outputMode"):
        panes.writeStream.format("noop").outputMode("complete").start()
