"""State in long runs: keys that come and go, maintenance, changelogs, other numbers of tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from mullion import Session, windowed
from tests.support.checked import CHANGELOGS, SNAPSHOTS, Case, CheckedQuery, settings
from tests.support.clocked import ClockedQuery
from tests.support.models.model import SECOND, Row, Rules
from tests.support.models.session_model import SessionRules
from tests.support.stores import TOTALS, maintain_and_unload, records
from tests.support.streams import Feed, batches_of

MIN_DELTAS = "spark.sql.streaming.stateStore.minDeltasForSnapshot"
PARTITIONS_SET = "spark.sql.shuffle.partitions"
TEN = 10 * SECOND


def test_sessions_of_very_many_keys_come_and_go_and_leave_nothing(spark: SparkSession, tmp_path: Path) -> None:
    batches, keys = 5, 15_000
    feed = Feed(tmp_path / "in", "k bigint")
    rows = feed.stream(spark)
    counts = windowed(rows, Session("5 seconds"), by="k", time="ts").agg(F.count("*").alias("n"))
    closed = 0
    with settings(spark, SNAPSHOTS):
        query = ClockedQuery(counts, checkpoint=tmp_path / "checkpoint")
    with query:
        for batch in range(batches):
            # Each key comes once, but every tenth comes again with the next batch, in a session of its own.
            first = batch * keys - (keys // 10 if batch else 0)
            feed.write((100 * batch * SECOND, key) for key in range(first, (batch + 1) * keys))
            closed += len(query.settle())
            report = batches_of(query)[-1]
            assert report["panesOpen"] == (batch + 1) * keys - first
        feed.flood()
        closed += len(query.settle())
        assert closed == batches * keys + (batches - 1) * keys // 10
        report = batches_of(query)[-1]
        assert (report["panesOpen"], report["numRowsTotal"]) == (0, 0)
    assert records(spark, tmp_path / "checkpoint") == TOTALS


def some_rows(batch: int) -> list[Row]:
    return [Row(100 * batch + i, f"key {i % 4}", (4 * batch + i % 9) * SECOND) for i in range(20)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("changelogs", ["true", "false"], ids=["changelogs", "snapshots"])
@pytest.mark.parametrize(
    "rules",
    [
        Rules(TEN, TEN, lateness=2 * SECOND, early=3 * SECOND),
        Rules(TEN, 4 * SECOND, early=3 * SECOND),
        SessionRules(gap=5 * SECOND, delay=12 * SECOND, early=3 * SECOND),
    ],
    ids=["tumbling", "sliding", "sessions"],
)
def test_state_is_maintained_unloaded_and_loaded_again_within_a_run_and_after_it(
    spark: SparkSession, tmp_path: Path, rules: Rules | SessionRules, changelogs: str
) -> None:
    conf = {CHANGELOGS: changelogs, MIN_DELTAS: "2"}
    with CheckedQuery(spark, tmp_path, Case("maintained", rules, conf=conf, keys="text")) as query:
        for batch in range(9):
            query.write(some_rows(batch))
            query.settle()
            if batch % 3 == 1:
                maintain_and_unload(spark, query.query, query.checkpoint)
            if batch % 3 == 2:
                query.restart()
        query.write(some_rows(9))
        query.settle()
        query.finish()


def test_sparks_offline_repartition_rejects_the_window_and_the_query_can_continue(
    spark: SparkSession, tmp_path: Path
) -> None:
    with CheckedQuery(spark, tmp_path, Case("repartitioned", Rules(TEN, TEN), keys="text")) as query:
        query.write(some_rows(0))
        query.settle()
        query.stop()
        offsets = query.checkpoint / "offsets"
        before = {file.name for file in offsets.iterdir()}
        jvm: Any = spark._jsparkSession
        with pytest.raises(PySparkException) as refused:
            jvm.streamingCheckpointManager().repartition(str(query.checkpoint), 3, True)
        # Spark's message is that it cannot read the state's schema; its cause is the reason.
        error: Any = refused.value
        assert "mullionWindow" in error._origin.getCause().getMessage()
        # It had noted down that it begins; taken out, the query is as it was.
        for file in offsets.iterdir():
            if file.name not in before:
                file.unlink()
        query.model.restart()
        query.write(some_rows(1))
        query.settle()
        query.finish()


def test_another_number_of_shuffle_partitions_is_for_new_checkpoints_only(spark: SparkSession, tmp_path: Path) -> None:
    with CheckedQuery(spark, tmp_path, Case("more tasks", Rules(TEN, TEN), keys="text")) as query:
        query.write(some_rows(0))
        query.settle()
        with settings(spark, {PARTITIONS_SET: "5"}):
            query.restart()
            query.write(some_rows(1))
            query.settle()
            query.finish()
