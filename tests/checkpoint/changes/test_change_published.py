"""Queries that die after they have published the first batch after a change, before Spark has committed it.

Spark's file sink does not repeat such a batch, because its rows exist. The meaning of the state is then that of the run
that died.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from mullion import IncompatibleStateError, Tumbling, Upgrade, windowed
from mullion.windows import NewAggregates
from tests.support.checked import settings
from tests.support.streams import SECOND, Feed

AGGREGATES = {"n": "count(*)", "total": "sum(v)", "most": "max(v)"}
OLD, NEW = ("n", "total"), ("most", "n")


class Publishing:
    """A query that writes panes to files and runs to the end of its input."""

    def __init__(self, spark: SparkSession, home: Path) -> None:
        self.spark, self.home = spark, home
        self.feed = Feed(home / "in", "k string, v int")

    def run(self, aggregates: Sequence[str], *rows: tuple[int, str, int], new: NewAggregates = "from now") -> None:
        if rows:
            self.feed.write([(time * SECOND, key, value) for time, key, value in rows])
        panes = windowed(
            self.feed.stream(self.spark),
            Tumbling("10 seconds"),
            by="k",
            time="ts",
            upgrade=Upgrade(new_aggregates=new),
        ).agg(*(F.expr(AGGREGATES[name]).alias(name) for name in aggregates))
        shown = panes.select("k", F.to_json(F.struct(*aggregates)).alias("values"))
        writer = shown.writeStream.format("parquet").option("path", str(self.home / "out"))
        writer = writer.option("checkpointLocation", str(self.home / "checkpoint")).trigger(availableNow=True)
        writer.start().awaitTermination()

    def lose_commit(self) -> None:
        """Removes Spark's commit of a batch but not that of the sink, as if the query had died in between."""
        commits = sorted((self.home / "checkpoint" / "commits").glob("[0-9]*"), key=lambda file: int(file.name))
        commits[-1].unlink()
        commits[-1].with_name(f".{commits[-1].name}.crc").unlink(missing_ok=True)

    def published(self) -> set[tuple[str, str]]:
        return {(row.k, row["values"]) for row in self.spark.read.parquet(str(self.home / "out")).collect()}


@pytest.fixture
def changed(spark: SparkSession, tmp_path: Path) -> Publishing:
    """A query whose first batch after a change was published but not committed."""
    query = Publishing(spark, tmp_path)
    with settings(spark, {"spark.sql.streaming.noDataMicroBatches.enabled": "false"}):
        query.run(OLD, (1, "a", 1), (2, "a", 2), new="reject")
        query.run(NEW, (3, "a", 7))
        query.lose_commit()
    return query


CLOSED = {("a", '{"most":9,"n":4}')}


@pytest.fixture
def begun(spark: SparkSession, tmp_path: Path) -> Publishing:
    """A query whose very first batch was published but not committed."""
    query = Publishing(spark, tmp_path)
    with settings(spark, {"spark.sql.streaming.noDataMicroBatches.enabled": "false"}):
        query.run(OLD, (1, "a", 1), (2, "a", 2), new="reject")
        query.lose_commit()
    return query


def test_a_changed_query_continues_from_the_very_first_batch(begun: Publishing) -> None:
    begun.run(NEW, (3, "a", 7))
    begun.run(NEW, (4, "a", 9))
    begun.run(NEW, (100, "b", 0))
    assert begun.published() == CLOSED


def test_an_incompatible_query_is_rejected_after_the_very_first_batch(begun: Publishing) -> None:
    with pytest.raises(IncompatibleStateError, match="published by an earlier, different version of the query"):
        begun.run(NEW, (3, "a", 7), new="reject")
    begun.run(OLD, new="reject")
    begun.run(OLD, (100, "b", 0), new="reject")
    assert begun.published() == {("a", '{"n":3,"total":10}')}


def test_a_very_first_batch_that_nobody_has_seen_is_the_changed_querys(spark: SparkSession, tmp_path: Path) -> None:
    query = Publishing(spark, tmp_path)
    query.run(OLD, (1, "a", 1), new="reject")
    query.lose_commit()
    shutil.rmtree(query.home / "out")
    query.run(NEW, new="reject")
    query.run(NEW, (4, "a", 9), new="reject")
    query.run(NEW, (100, "b", 0), new="reject")
    assert query.published() == {("a", '{"most":9,"n":2}')}


def test_the_changed_query_continues_with_the_converted_state(changed: Publishing) -> None:
    changed.run(NEW)
    changed.run(NEW, (4, "a", 9))
    changed.run(NEW, (100, "b", 0))
    assert changed.published() == CLOSED


def test_the_query_of_before_is_another_change_of_that_state(changed: Publishing) -> None:
    changed.run(OLD)
    changed.run(OLD, (4, "a", 9))
    changed.run(OLD, (100, "b", 0))
    assert changed.published() == {("a", '{"n":4,"total":9}')}


def test_the_previous_query_is_rejected_if_it_cannot_use_the_converted_state(changed: Publishing) -> None:
    with pytest.raises(IncompatibleStateError, match="published by an earlier, different version of the query"):
        changed.run(OLD, (4, "a", 9), new="reject")
    changed.run(NEW, (100, "b", 0))
    assert changed.published() == CLOSED
