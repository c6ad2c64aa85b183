"""Settings that state does not support raise an error when a query starts: the value, the cause and the fix."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from mullion import IncompatibleStateError, Tumbling, windowed
from mullion.errors import InvalidArgumentError
from tests.support.clocked import ClockedQuery
from tests.support.streams import SECOND, Feed

FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
HOT = "spark.sql.streaming.stateStore.mullion.hotBytes"


def run(spark: SparkSession, feed: Feed, checkpoint: Path, conf: dict[str, str]) -> int:
    """Runs a query over all that was written under these settings; how many rows it wrote."""
    own = spark.newSession()
    for name, value in conf.items():
        own.conf.set(name, value)
    panes = windowed(feed.stream(own), Tumbling("10 seconds"), by="k", time="ts").agg(F.count("*"))
    query = ClockedQuery(panes, checkpoint=checkpoint)
    try:
        return len(query.settle())
    finally:
        query.stop()


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    feed = Feed(tmp_path / "in", "k string")
    feed.write([(SECOND, "a")])
    return feed


def test_a_checkpoint_of_format_1_is_rejected_under_format_2_and_continues_under_its_own(
    spark: SparkSession, tmp_path: Path, feed: Feed
) -> None:
    checkpoint = tmp_path / "checkpoint"
    run(spark, feed, checkpoint, {})
    feed.write([(2 * SECOND, "a")])
    with pytest.raises(IncompatibleStateError, match=rf"{FORMAT}=2.* was written with format 1.* Set .* to 1"):
        run(spark, feed, checkpoint, {FORMAT: "2"})
    feed.write([(30 * SECOND, "a")])
    assert run(spark, feed, checkpoint, {}) == 1


def test_a_checkpoint_of_format_2_is_rejected_under_format_1_and_continues_under_its_own(
    spark: SparkSession, tmp_path: Path, feed: Feed
) -> None:
    checkpoint = tmp_path / "checkpoint"
    run(spark, feed, checkpoint, {FORMAT: "2"})
    feed.write([(2 * SECOND, "a")])
    with pytest.raises(IncompatibleStateError, match=rf"{FORMAT}=1.* was written with format 2.* Set .* to 2"):
        run(spark, feed, checkpoint, {FORMAT: "1"})
    feed.write([(30 * SECOND, "a")])
    assert run(spark, feed, checkpoint, {FORMAT: "2"}) == 1


@pytest.mark.parametrize("text", ["much", "-1", "1.5g"])
def test_a_limit_of_memory_that_is_no_number_of_bytes_is_rejected_by_the_driver(
    spark: SparkSession, tmp_path: Path, feed: Feed, text: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"{HOT}={text} is not a number of bytes: .* such as '512m'"):
        run(spark, feed, tmp_path / "checkpoint", {HOT: text})
    assert not list((tmp_path / "checkpoint" / "state").glob("*/[0-9]*/*")), "a task began"
