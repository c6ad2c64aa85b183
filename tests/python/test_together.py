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
            feed.write(random_rows(chance, now, 200))
            if step == 2:
                for state in STATES:
                    shared[state].stop()
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
