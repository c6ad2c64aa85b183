"""Aggregates in Python have the results of Spark's, for all windows and options, and in the order of rows."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from mullion import (
    Count,
    Custom,
    Early,
    Global,
    PerKey,
    PythonAggregate,
    Session,
    Sliding,
    Tumbling,
    read_panes,
    together,
    windowed,
)
from mullion.windows import Window
from tests.support.checked import settings
from tests.support.clocked import ClockedQuery
from tests.support.functions.python_aggregates import COLUMNS, WAITING, InOrder, assert_equal, compared, random_rows
from tests.support.seeds import SEED
from tests.support.streams import SECOND, Feed

CASES: dict[str, tuple[Window, dict[str, Any]]] = {
    "tumbling": (Tumbling("10 seconds"), {}),
    "sliding": (Sliding("20 seconds", "5 seconds"), {}),
    "session": (Session("4 seconds"), {}),
    "early": (Tumbling("10 seconds"), {"early": Early(every="2 seconds")}),
    "early sliding": (Sliding("12 seconds", "4 seconds"), {"early": Early(every="3 seconds"), "late": "reopen"}),
    "not accumulating": (Tumbling("10 seconds"), {"early": Early(every="2 seconds"), "accumulate": False}),
    "on time": (Session("4 seconds"), {"on_time": True, "allowed_lateness": "5 seconds"}),
    "late rows": (Sliding("20 seconds", "5 seconds"), {"late": "emit"}),
    "reopened": (Session("4 seconds"), {"late": "reopen"}),
    "deduplicated": (Tumbling("10 seconds"), {"dedupe_by": "v"}),
    "per key": (Tumbling("10 seconds"), {"clock": PerKey()}),
    "per key sessions": (Session("4 seconds"), {"clock": PerKey(), "late": "emit"}),
    "each row": (Tumbling("10 seconds"), {"early": Early(each_row=True)}),
    "empty": (Tumbling("10 seconds"), {"empty": "emit"}),
    "custom": (Custom("ranges"), {}),
    "count": (Count(4), {"time": None}),
    "global": (Global.every(7), {"time": None}),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("case", CASES)
def test_a_pane_has_the_results_of_sparks_aggregates_whenever_rows_are_added(
    case: str, spark: SparkSession, tmp_path: Path
) -> None:
    window, options = CASES[case]
    waiting = (1, 1, 3, 64)[list(CASES).index(case) % 4]
    chance = random.Random(f"{SEED} {case} {waiting}")
    feed = Feed(tmp_path / "in", COLUMNS)

    def started() -> ClockedQuery:
        panes = compared(feed.stream(spark, "5 seconds"), window, **options)
        return ClockedQuery(panes, checkpoint=tmp_path / "checkpoint")

    with settings(spark, {WAITING: str(waiting)}):
        query, panes, ids = started(), list[Row](), 0
        try:
            for number in range(7):
                rows = random_rows(chance, ids, number * 8 * SECOND)
                ids += len(rows)
                feed.write(rows)
                if number == 4:
                    query.stop()
                    query = started()
                panes += query.settle()
            if options.get("time", "ts") is not None and case != "empty":
                feed.flood()
                panes += query.settle()
        finally:
            query.stop()
        assert len(panes) > 5
        assert_equal(panes)
        batch = compared(feed.batch(spark), window, **options).collect()
        assert len(batch) > 5
        assert_equal(batch)


def test_several_windows_in_one_query_share_the_aggregates(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", COLUMNS)
    chance = random.Random(f"{SEED} together")
    rows = feed.stream(spark, "5 seconds")
    with settings(spark, {WAITING: "2"}):
        panes = together(
            short=compared(rows, Tumbling("10 seconds")), long=compared(rows, Sliding("20 seconds", "10 seconds"))
        )
        fired = list[Row]()
        with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:
            for number in range(5):
                feed.write(random_rows(chance, 100 * number, number * 6 * SECOND))
                fired += query.settle()
            feed.flood()
            fired += query.settle()
    assert {"short", "long"} == {row[0] for row in fired}
    assert_equal(fired)


def test_open_panes_are_read_with_the_querys_own_aggregates(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", COLUMNS)
    panes = compared(feed.stream(spark), Tumbling("10 seconds"))
    with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:
        feed.write([(SECOND * i, "a", i, 1) for i in range(5)])
        query.settle()
    (pane,) = read_panes(tmp_path / "checkpoint", panes=panes).collect()
    assert pane.ids == pane.wanted_ids == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("window", [Tumbling("1 minute"), Session("1 minute")], ids=["tumbling", "session"])
@pytest.mark.parametrize("clock", ["stream", "per key"])
def test_an_ordered_aggregate_adds_rows_by_time_and_arrival(
    window: Window, clock: str, spark: SparkSession, tmp_path: Path
) -> None:
    chance = random.Random(f"{SEED} {window} {clock}")
    feed = Feed(tmp_path / "in", COLUMNS)
    rows: list[tuple[int, str, int, int]] = []
    options: dict[str, Any] = {"clock": PerKey()} if clock == "per key" else {}
    panes = windowed(feed.stream(spark, "1 hour"), window, by="k", time="ts", **options).agg(ids=InOrder("id"))
    with settings(spark, {WAITING: "1"}), ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:
        for number in range(4):
            # Equal times have a defined order only where windows work row by row.
            times = [chance.randrange(10) if options else number + 4 * i for i in range(10)]
            chance.shuffle(times)
            some = [(time * SECOND, "a", 100 * number + i, 0) for i, time in enumerate(times)]
            rows += some
            feed.write(some)
            assert query.settle() == []
        feed.write([(8000 * SECOND, "a", 0, 0)])
        (pane,) = query.settle()
    assert pane.ids == [row[2] for row in sorted(rows, key=lambda row: row[0])]


def test_a_group_of_many_rows_is_added_in_parts(spark: SparkSession) -> None:
    class Sizes(PythonAggregate, returns="array<bigint>"):
        def create(self) -> list[int]:
            return []

        def add(self, sizes: list[int], rows: pa.RecordBatch) -> list[int]:
            return [*sizes, rows.num_rows]

        def merge(self, a: list[int], b: list[int]) -> list[int]:
            return a + b

    rows = spark.range(0, 40_000, 1, 1).select(F.lit("a").alias("k"), F.lit(0).cast("timestamp").alias("ts"), "id")
    (pane,) = windowed(rows, Tumbling("1 hour"), by="k", time="ts").agg(sizes=Sizes("id")).collect()
    assert sum(pane.sizes) == 40_000
    assert max(pane.sizes) <= 8192
