"""Several windows over one stream in one query: each as if it were alone, over one read and one shuffle."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Mapping
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
    Session,
    Sliding,
    Tumbling,
    UnsupportedError,
    read_panes,
    together,
    windowed,
)
from mullion.testing import ClockedQuery
from streams import SECOND, Feed, batches_of

STATES = ("rocksdb", "hdfs", "memory")
COLUMNS = "k string, j int, gap int, v bigint"


def windows(rows: DataFrame, state: str) -> dict[str, DataFrame]:
    """One of each kind that can share an operator: they differ in all that windows can differ in."""

    def of(window: Any, *aggregates: Column, by: Any = ("k",), **options: Any) -> DataFrame:
        return windowed(rows, window, by=list(by), time="ts", state=state, **options).agg(*aggregates)

    n, s, ids = F.count("*").alias("n"), F.sum("v").alias("s"), F.sort_array(F.collect_list("v")).alias("ids")
    gap = Session(F.make_dt_interval(secs=F.col("gap")))
    weeks = Custom(F.expr("array(struct(ts - interval 3 seconds AS start, ts + interval 2 seconds AS end))"))
    return {
        "tumbling": of(Tumbling("10 seconds"), n, s, allowed_lateness="5 seconds", late="reopen"),
        "refined": of(Tumbling("7 seconds"), n, allowed_lateness="9 seconds", on_time=True, accumulate=False),
        "sliding": of(Sliding("9 seconds", "4 seconds"), n, F.max("v").alias("most"), early=Early("3 seconds")),
        "gaps": of(Sliding("3 seconds", "5 seconds"), ids, by=["j", "k"], early=Early(count=2), late="emit"),
        "sessions": of(Session("4 seconds"), n, s, by=["k", "j"], allowed_lateness="2 seconds", late="emit"),
        "by_row": of(gap, ids, late="reopen", early=Early("2 seconds", unchanged=True)),
        "around": of(Around("2 seconds", "1 second"), F.sum("v").alias("s"), (F.max("v") * 2).alias("twice")),
        "custom": of(weeks, n, F.min("k").alias("first"), by=["j"], allowed_lateness="1 second"),
        "all": of(Tumbling("20 seconds"), n, by=[]),
    }


def apart(panes: Mapping[str, DataFrame]) -> DataFrame:
    """Each window for itself, in one query."""
    named = [df.select(F.lit(name).alias("window_name"), "*") for name, df in panes.items()]
    return reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), named)


def told(panes: DataFrame) -> DataFrame:
    """The rows of a result, as text that does not depend on the order of columns."""
    return panes.select(F.to_json(F.struct(*sorted(panes.columns))).alias("told"))


def random_rows(chance: random.Random, now: int, keys: int) -> list[tuple[Any, ...]]:
    def time() -> int | None:
        return None if chance.random() < 0.01 else (now - int(chance.expovariate(1 / 4))) * SECOND + chance.choice((0, 1))

    return [
        (time(), f"k{chance.randrange(keys)}", chance.randrange(3), chance.randrange(0, 6), chance.randrange(1000))
        for _ in range(keys)
    ]


def test_windows_together_give_what_each_gives_alone(spark: SparkSession, tmp_path: Path) -> None:
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    chance = random.Random(seed)
    feed = Feed(tmp_path / "in", COLUMNS)
    stream = feed.stream(spark, "2 seconds")
    alone = ClockedQuery(told(apart(windows(stream, "rocksdb"))), checkpoint=tmp_path / "alone")
    shared: dict[str, ClockedQuery] = {}

    def start(state: str, reverse: bool = False) -> None:
        panes = windows(stream, state)
        named = dict(reversed(panes.items())) if reverse else panes
        shared[state] = ClockedQuery(told(together(**named)), checkpoint=tmp_path / state)

    def compare(at: str) -> None:
        should = Counter(row[0] for row in alone.settle())
        for state, query in shared.items():
            is_ = Counter(row[0] for row in query.settle())
            instead, missing = list((is_ - should).items())[:5], list((should - is_).items())[:5]
            assert is_ == should, f"seed {seed}, {state}, {at}: instead {instead}, missing {missing}"

    try:
        for state in STATES:
            start(state)
        now = 100
        for step in range(5):
            now += chance.choice((1, 3, 8, 15))
            if step == 2:
                for query in shared.values():
                    query.stop()
            feed.write(random_rows(chance, now, 200))
            if step == 2:
                for state in STATES:
                    # The order in which windows are written says nothing.
                    start(state, reverse=True)
            compare(f"step {step}")
        for state, query in shared.items():
            assert read_panes(tmp_path / state, spark=spark).count() == batches_of(query)[-1]["panesOpen"] > 0
        feed.flood()
        compare("at the end")
        for state, query in shared.items():
            assert batches_of(query)[-1]["numRowsTotal"] == 0, f"seed {seed}, {state}: records left"
            assert read_panes(tmp_path / state, spark=spark).isEmpty()
    finally:
        for query in (alone, *shared.values()):
            query.stop()


def test_the_source_is_read_once_and_shuffled_once(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", COLUMNS)
    stream = feed.stream(spark)
    panes = together(**windows(stream, "hdfs"))
    feed.write([(SECOND, "a", 1, 2, 3), (2 * SECOND, "b", 1, 2, 3)])
    query = panes.writeStream.format("memory").queryName("together").option("checkpointLocation", tmp_path / "c").start()
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
    named = re.search(r"WindowedAggregate together \[(.*)\], state in hdfs", plan)
    assert named and all(f"{name}: " in named[1] for name in windows(stream, "hdfs"))
    assert "all: tumbling 20 seconds" in plan


def test_what_cannot_share_stands_for_itself_and_gives_the_same(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", COLUMNS)
    stream = feed.stream(spark)

    def of(window: Any, **options: Any) -> DataFrame:
        return windowed(stream, window, by="k", time="ts", **options).agg(F.sum("v").alias("s"))

    panes = {
        "a": of(Tumbling("10 seconds")),
        "b": of(Session("3 seconds")),
        "in_memory": of(Tumbling("10 seconds"), state="memory"),
        "per_key": of(Tumbling("10 seconds"), watermark="per key"),
        "running": of(Session("3 seconds"), running=True),
        "discarding": of(Sliding("6 seconds", "3 seconds"), early=Early("2 seconds"), accumulate=False),
        "by_wall": windowed(stream, Tumbling("10 seconds"), by="j", time=None).agg(F.sum("v").alias("s")),
    }
    both = [ClockedQuery(told(p), checkpoint=tmp_path / n) for n, p in (("t", together(**panes)), ("a", apart(panes)))]
    try:
        for rows in ([(1, 1), (5, 2), (14, 3)], [(3, 1), (30, 7)]):
            feed.write([(t * SECOND, f"k{v % 2}", 1, 1, v) for t, v in rows])
            is_, should = ([row[0] for row in query.settle()] for query in both)
            assert sorted(is_) == sorted(should) and is_
        operators = both[0].progress[-1]["stateOperators"]
        assert [operator["operatorName"] for operator in operators] == ["mullionWindow"] * 6
    finally:
        for query in both:
            query.stop()
