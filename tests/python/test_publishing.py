"""What a query publishes is in its topics exactly once, whatever is cut off."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from mullion import topics
from mullion._app.clock import ManualClock
from mullion.errors import InvalidArgumentError
from mullion.topics._dir_topic import DirTopic
from test_kill import committed, kill_after, session_of_its_own, somewhere_in_a_batch

SEED = int(os.environ.get("MULLION_TEST_SEED", "2024"))


def outputs_of(stream: DataFrame) -> DataFrame:
    """Each row's number to the topic that it names; of those that are threes another number to ``threes``."""

    def publish(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                yield rows_for(row["to"], [{"n": row["n"]}])
                if row["n"] % 3 == 0:
                    yield rows_for("threes", [{"half": row["n"] / 2, "note": None}])
        yield rows_for("nothing", None)

    # More than one task has rows.
    return stream.select("n", "to").repartition(2, "n").mapInArrow(publish, topics.OUTPUTS)


def rows_for(topic: str, rows: list[dict[str, Any]] | None) -> pa.RecordBatch:
    batch = None if rows is None else topics.encoded(pa.RecordBatch.from_pylist(rows))
    return pa.RecordBatch.from_arrays(
        [pa.array([topic]), pa.array([None], pa.string()), pa.array([batch], pa.binary())],
        names=["topic", "key", "batch"],
    )


def run(spark: SparkSession, broker: topics.Broker, checkpoint: Path) -> topics.Publisher:
    publisher = broker.publisher(ManualClock(start_ms=7000))
    outputs = outputs_of(broker.stream(spark, "in", schema="n bigint, to string"))
    query = (
        outputs.writeStream.foreachBatch(publisher.publish)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return publisher


def feed(broker: topics.Broker, calls: range) -> None:
    for call in calls:
        rows = range(10 * call, 10 * call + 10)
        topics.produce(broker, "in", [{"n": n, "to": ["even", "odd"][n % 2]} for n in rows])


def published(broker: topics.Broker, topic: str, column: str = "n") -> list[Any]:
    table = topics.read(broker, topic)
    return sorted(table[column].to_pylist()) if table.num_rows else []


def is_whole(broker: topics.Broker, until: int) -> None:
    assert published(broker, "even") == list(range(0, until, 2))
    assert published(broker, "odd") == list(range(1, until, 2))
    assert published(broker, "threes", "half") == [n / 2 for n in range(0, until, 3)]


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
    assert len(published(broker, "even")) + len(published(broker, "odd")) < 20

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

    assert published(broker, "even") == published(broker, "odd") == []


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


def test_a_publishing_query_killed_again_and_again_publishes_each_row_once(spark: SparkSession, tmp_path: Path) -> None:
    rng = random.Random(SEED)
    broker = topics.DirBroker(tmp_path / "topics")
    checkpoint = broker.path / "_checkpoint"
    for life in range(2):
        feed(broker, range(6 * life, 6 * life + 6))
        kill_after(tmp_path, somewhere_in_a_batch(checkpoint, rng), script=__file__)

    assert committed(checkpoint) < 12, "it was killed before it came to the end"
    run(spark, broker, checkpoint)
    is_whole(broker, 120)


if __name__ == "__main__":
    home = Path(sys.argv[1])
    broker_here = topics.DirBroker(home / "topics")
    run(session_of_its_own(home), broker_here, broker_here.path / "_checkpoint")
