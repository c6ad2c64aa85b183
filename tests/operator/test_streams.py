"""Queries over several streams: idle streams, and watermarks that survive restarts."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion import Tumbling, Watermark, open_panes, recover, savepoint, testing, windowed
from mullion.errors import WrongCallError
from tests.support.clocked import ClockedQuery
from tests.support.models.stream_model import Row, StreamModel
from tests.support.seeds import SEED
from tests.support.streams import SECOND, Feed, batches_of

POLICY = "spark.sql.streaming.multipleWatermarkPolicy"


def panes_of(spark: SparkSession, feeds: list[Feed], delays: list[int], idle_after: int | None) -> DataFrame:
    streams = [feed.stream(spark, f"{delay} seconds") for feed, delay in zip(feeds, delays, strict=True)]
    clock = Watermark(None if idle_after is None else f"{idle_after} seconds")
    rows = reduce(DataFrame.union, streams)
    panes = windowed(rows, Tumbling("10 seconds"), by="k", time="ts", clock=clock, late="emit").agg(
        F.sum("v").alias("v")
    )
    start = F.unix_timestamp("window.start")
    late = F.struct(F.unix_timestamp("late_row.ts").alias("ts"), F.col("late_row.k"), F.col("late_row.v"))
    return panes.select("k", "pane.firing", start.alias("start"), "v", late.alias("late"))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("idle_after", [None, 15, 30], ids=["never idle", "idle after 15 s", "idle after 30 s"])
@pytest.mark.parametrize(
    ("streams", "policy"), [(2, "min"), (3, "min"), (3, "max")], ids=["two", "three", "the maximum of three"]
)
def test_random_streams_close_their_panes_as_in_the_model(
    spark: SparkSession, tmp_path: Path, streams: int, policy: str, idle_after: int | None
) -> None:
    random_streams(spark, tmp_path, streams, policy, idle_after)


def random_streams(spark: SparkSession, tmp_path: Path, streams: int, policy: str, idle_after: int | None) -> None:
    rng = random.Random(f"{SEED} {streams} {policy} {idle_after}")
    delays = [rng.choice([0, 3]) for _ in range(streams)]
    choose: Callable[[Iterable[int]], int] = max if policy == "max" else min
    model = StreamModel(delays, 10, idle_after, choose, wall=100)
    feeds = [Feed(tmp_path / str(i), "k string, v int") for i in range(streams)]
    checkpoint = tmp_path / "checkpoint"

    def start() -> ClockedQuery:
        return ClockedQuery(
            panes_of(spark, feeds, delays, idle_after), checkpoint=checkpoint, start_ms=model.wall * 1000
        )

    spark.conf.set(POLICY, policy)
    try:
        # The first batch has rows, because a query without any has no plan that could request another batch.
        rows: list[list[Row]] | None = [[(100, "a", 1)], *([] for _ in range(streams - 1))]
        feeds[0].write([(100 * SECOND, "a", 1)])
        query, ticks, earlier = start(), False, 0
        for step in range(30):
            fired = query.settle()
            model.closed.clear()
            model.late.clear()
            model.settle(rows, ticks=ticks)
            context = f"step {step}, seed {SEED}"
            assert sorted((row.k, row.start, row.v) for row in fired if row.firing == "close") == sorted(
                model.closed
            ), context
            assert sorted(tuple(row.late) for row in fired if row.firing == "late") == sorted(model.late), context
            assert earlier + len(batches_of(query)) == model.batches, context
            restarts = rng.random() < 0.2
            if restarts:
                earlier = model.batches
                query.stop()
                model.restart()
            passed = rng.choice([0, 1, 5, 10, 20])
            model.wall += passed
            if not restarts:
                query.advance(f"{passed} seconds")
                # Either time passes or rows arrive in a step, because the query could run between the two.
            rows = None
            if restarts or passed == 0:
                written = [[] if rng.random() < 0.6 else some_rows(rng, model.wall) for _ in feeds]
                if any(written):
                    rows = written
                    for feed, own in zip(feeds, written, strict=True):
                        if own:
                            feed.write([(time * SECOND, key, value) for time, key, value in own])
            ticks = restarts and idle_after is not None
            if restarts:
                query = start()
        for feed in feeds:
            feed.flood()
        query.settle()
        assert batches_of(query)[-1]["numRowsTotal"] == 0
        query.stop()
    finally:
        spark.conf.unset(POLICY)


def some_rows(rng: random.Random, wall: int) -> list[Row]:
    return [(wall - rng.randrange(40), rng.choice("abcdef"), rng.randrange(9)) for _ in range(rng.randrange(1, 5))]


@pytest.fixture
def feeds(tmp_path: Path) -> list[Feed]:
    return [Feed(tmp_path / name, "k string, v int") for name in ("first", "second")]


def closes(fired: list[Any]) -> list[tuple[str, int, int]]:
    return sorted((row.k, row.start, row.v) for row in fired if row.firing == "close")


@pytest.mark.filterwarnings("ignore::mullion.DroppedRowsWarning")
def test_an_idle_side_of_a_join_does_not_hold_the_window_over_it(spark: SparkSession, tmp_path: Path) -> None:
    orders, payments = Feed(tmp_path / "orders", "k string"), Feed(tmp_path / "payments", "k string")
    left = orders.stream(spark).select("ts", "k")
    right = payments.stream(spark).select(F.col("ts").alias("paid"), F.col("k").alias("payer"))
    joined = left.join(right, F.expr("k = payer AND paid BETWEEN ts AND ts + INTERVAL 5 seconds"))
    panes = windowed(joined, Tumbling("10 seconds"), by="k", time="ts", clock=Watermark(idle_after="30 seconds")).agg(
        F.count("*").alias("n")
    )
    with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint", start_ms=1000) as query:
        orders.write([(1 * SECOND, "a")])
        payments.write([(2 * SECOND, "a")])
        assert query.settle() == []
        fired = []
        for second in (21, 41):
            query.advance("20 seconds")
            fired += query.settle()
            orders.write([(second * SECOND, "b")])
            fired += query.settle()
        assert [(row.k, row.n) for row in fired] == [("a", 1)]


def test_open_panes_names_the_streams_that_hold_the_clock(
    spark: SparkSession, tmp_path: Path, feeds: list[Feed]
) -> None:
    first, second = feeds
    with ClockedQuery(
        panes_of(spark, feeds, [0, 0], idle_after=30), checkpoint=tmp_path / "checkpoint", start_ms=1000
    ) as query:
        first.write([(1 * SECOND, "a", 1)])
        query.settle()

        def held_by() -> str:
            (row,) = open_panes(query).select("held_by").distinct().collect()
            return str(row.held_by).replace(str(tmp_path), "")

        assert held_by() == "FileStreamSource[file:/second]: no row yet"
        query.advance("29 seconds")
        query.settle()
        first.write([(8 * SECOND, "a", 1)])
        query.settle()
        query.advance("1 second")
        query.settle()
        assert held_by() == (
            "FileStreamSource[file:/first]: no row after 1970-01-01T00:00:08Z; FileStreamSource[file:/second] is idle"
        )
        second.write([(5 * SECOND, "b", 1)])
        query.settle()
        assert held_by() == (
            "FileStreamSource[file:/second]: no row after 1970-01-01T00:00:05Z; another stream is 3 seconds ahead"
        )
    (row,) = open_panes(tmp_path / "checkpoint", spark=spark).select("held_by").distinct().collect()
    assert str(row.held_by).endswith("second]: no row after 1970-01-01T00:00:05Z; another stream is 3 seconds ahead")


def test_a_savepoint_has_the_watermark_of_each_stream(spark: SparkSession, tmp_path: Path, feeds: list[Feed]) -> None:
    first, second = feeds
    first.write([(15 * SECOND, "a", 1)])
    second.write([(1 * SECOND, "b", 2)])
    panes = panes_of(spark, feeds, [0, 0], idle_after=None)
    with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:
        query.settle()
    savepoint(tmp_path / "checkpoint", tmp_path / "savepoint", spark=spark)
    second.write([(12 * SECOND, "b", 4)])
    with ClockedQuery(panes, checkpoint=tmp_path / "savepoint") as query:
        assert closes(query.settle()) == [("b", 0, 2)]


def test_a_recovered_query_has_the_watermarks_of_the_batch_that_it_continues_from(
    spark: SparkSession, tmp_path: Path, feeds: list[Feed]
) -> None:
    first, second = feeds
    checkpoint = tmp_path / "checkpoint"
    panes = panes_of(spark, feeds, [0, 0], idle_after=None)
    with ClockedQuery(panes, checkpoint=checkpoint) as query:
        for seconds in (1, 2, 35):
            for feed in (first, second):
                feed.write([(seconds * SECOND, "a", seconds)])
            query.settle()
    # The state of all batches after the second one is removed.
    for file in checkpoint.glob("state/0/*/[0-9]*_*"):
        if int(file.name.split("_")[0]) > 2:
            file.unlink()
    assert recover(checkpoint, spark=spark) > 0
    assert max(int(file.name) for file in (checkpoint / "mullion-watermarks").iterdir() if file.name.isdigit()) <= 1
    # A separate batch reads the row of 35 seconds again: until then the clock is at 2 seconds.
    with ClockedQuery(panes, checkpoint=checkpoint) as query:
        assert closes(query.settle()) == [("a", 0, 6)]


def test_a_clock_without_a_start_is_not_behind_the_rows_and_continues_after_a_restart(
    spark: SparkSession, tmp_path: Path, feeds: list[Feed]
) -> None:
    year_2024 = 1_704_103_200
    feeds[0].write([(year_2024 * SECOND, "a", 1)])

    def query() -> testing.ClockedQuery:
        return testing.ClockedQuery(panes_of(spark, feeds, [0, 0], idle_after=30), checkpoint=tmp_path / "checkpoint")

    def now_ms(running: testing.ClockedQuery) -> int:
        return int(running._query.timeMs())

    before_ms = time.time_ns() // 1_000_000
    with query() as running:
        assert before_ms <= now_ms(running) <= time.time_ns() // 1_000_000
        running.settle()
        running.advance("40 days")
        assert [(row.k, row.firing) for row in running.settle()] == [("a", "close")]
        ended_ms = now_ms(running)
    with query() as running:
        assert now_ms(running) == ended_ms


def test_a_test_query_without_a_checkpoint_is_rejected_with_the_fix(spark: SparkSession, feeds: list[Feed]) -> None:
    with pytest.raises(WrongCallError, match=r"Name a folder for its checkpoint.*checkpoint=tmp_path"):
        testing.ClockedQuery(panes_of(spark, feeds, [0, 0], idle_after=30))  # type: ignore[call-arg]
