"""What a query publishes is in its topics exactly once, whatever is cut off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from killing import committed
from mullion import topics
from mullion._app.clock import ManualClock
from mullion.errors import InvalidArgumentError
from mullion.topics._dir_topic import DirTopic
from published import feed, is_whole, rows_of, start


def run(spark: SparkSession, broker: topics.Broker, checkpoint: Path) -> topics.Publisher:
    publisher = broker.publisher(ManualClock(start_ms=7000))
    start(spark, broker, publisher, checkpoint).awaitTermination()
    return publisher


def test_what_a_query_publishes_is_there_once_with_the_clocks_time(spark: SparkSession, tmp_path: Path) -> None:
    broker = topics.DirBroker(tmp_path / "topics")
    feed(broker, range(2))
    publisher = run(spark, broker, tmp_path / "checkpoint")

    is_whole(broker, 20)
    assert publisher.published == {"even": 10, "odd": 10, "threes": 7}
    threes = topics.read(broker, "threes")
    assert threes.column_names == ["half", "note", "_key", "_timestamp"]
    assert set(threes["_timestamp"].to_pylist()) == {7.0}
    assert not topics.read(broker, "nothing").num_rows
    feed(broker, range(2, 3))
    run(spark, broker, tmp_path / "checkpoint")
    is_whole(broker, 30)
    assert list((broker.path / "_staging").iterdir()) == []


def test_a_batch_that_is_done_again_publishes_nothing_twice(spark: SparkSession, tmp_path: Path) -> None:
    broker = topics.DirBroker(tmp_path / "topics")
    feed(broker, range(3))
    run(spark, broker, tmp_path / "checkpoint")
    # As if it had been killed after it published, and before Spark noted that.
    for commit in (tmp_path / "checkpoint" / "commits").glob("*2*"):
        commit.unlink()
    publisher = run(spark, broker, tmp_path / "checkpoint")

    assert committed(tmp_path / "checkpoint") == 3, "the batch was done again"
    assert publisher.published == {}
    is_whole(broker, 30)


def test_a_batch_that_was_cut_off_half_way_is_published_to_its_end(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = topics.DirBroker(tmp_path / "topics")
    feed(broker, range(2))
    append = DirTopic.append
    left = [4]

    def cut_off(topic: DirTopic, staged: Any, origins: Any = None) -> None:
        for one, origin in zip(staged, origins, strict=True):
            if not left[0]:
                raise RuntimeError("killed here")
            left[0] -= 1
            append(topic, [one], [origin])

    with monkeypatch.context() as patch:
        patch.setattr(DirTopic, "append", cut_off)
        with pytest.raises(Exception, match="killed here"):
            run(spark, broker, tmp_path / "checkpoint")
    assert len(rows_of(broker, "even")) + len(rows_of(broker, "odd")) < 20

    run(spark, broker, tmp_path / "checkpoint")
    is_whole(broker, 20)


def test_a_column_of_another_type_is_refused_before_anything_of_the_batch_is_published(
    spark: SparkSession, tmp_path: Path
) -> None:
    broker = topics.DirBroker(tmp_path / "topics")
    feed(broker, range(1))
    topics.produce(broker, "threes", [{"half": "text"}])
    with pytest.raises(Exception, match="Topic 'threes': column 'half' is double here, and string in the topic"):
        run(spark, broker, tmp_path / "checkpoint")

    assert rows_of(broker, "even") == rows_of(broker, "odd") == []


def test_outputs_are_stored_in_the_types_that_their_topic_has(spark: SparkSession, tmp_path: Path) -> None:
    broker = topics.DirBroker(tmp_path / "topics")
    stream = broker.stream(spark, "even", schema="n double")
    feed(broker, range(1))
    run(spark, broker, tmp_path / "checkpoint")

    # So that the stream, which began before, reads them.
    query = stream.writeStream.format("memory").queryName("even").trigger(availableNow=True).start()
    query.awaitTermination()
    assert sorted(row.n for row in spark.table("even").collect()) == [0.0, 2.0, 4.0, 6.0, 8.0]


def test_what_is_no_output_of_a_query_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    publisher = topics.DirBroker(tmp_path).publisher()
    with pytest.raises(InvalidArgumentError, match=r"takes rows \(topic string, .*\), and was given \(id bigint\)"):
        publisher.publish(spark.range(1), 0)
    rows = spark.createDataFrame([], topics.OUTPUTS)
    with pytest.raises(InvalidArgumentError, match="called outside a streaming query"):
        publisher.publish(rows, 0)
