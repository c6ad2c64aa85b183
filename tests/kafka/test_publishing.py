"""A query's rows are in its topics exactly once after any interruption."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from mullion import topics
from mullion._util.clock import ManualClock
from mullion.errors import InvalidArgumentError, MullionError
from mullion.topics import _outputs
from mullion.topics._folder.topic import DirTopic
from tests.support.kafka.published import feed, is_whole, rows_for, rows_of, start
from tests.support.killing import committed, environment, session_of_its_own

DECLARED = "price decimal(10, 2), of struct<d: decimal(6, 3), n: bigint>, all array<decimal(5, 1)>"


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
    # As if the process had been killed after it published, before Spark's commit.
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
    append = DirTopic.append_locked
    remaining = [4]

    def cut_off(topic: DirTopic, staged: Any, origins: Any, _: Any) -> None:
        for one, origin in zip(staged, origins, strict=True):
            if not remaining[0]:
                raise RuntimeError("killed here")
            remaining[0] -= 1
            append(topic, [one], [origin])

    with monkeypatch.context() as patch:
        patch.setattr(DirTopic, "append_locked", cut_off)
        with pytest.raises(Exception, match="killed here"):
            run(spark, broker, tmp_path / "checkpoint")
    assert len(rows_of(broker, "even")) + len(rows_of(broker, "odd")) < 20
    # A part of the batch is published already, so its rest must be published too.
    with pytest.raises(InvalidArgumentError, match="Topic 'threes': column 'half' is string here, and double in the"):
        topics.produce(broker, "threes", [{"half": "text"}])

    run(spark, broker, tmp_path / "checkpoint")
    is_whole(broker, 20)


def test_a_checkpoint_that_was_restored_from_an_older_copy_is_rejected_with_the_ways_out(
    spark: SparkSession, tmp_path: Path
) -> None:
    broker, checkpoint, copy = topics.DirBroker(tmp_path / "topics"), tmp_path / "checkpoint", tmp_path / "copy"
    feed(broker, range(1))
    run(spark, broker, checkpoint)
    shutil.copytree(checkpoint, copy)
    feed(broker, range(1, 2))
    run(spark, broker, checkpoint)
    for _ in range(2):
        with pytest.raises(MullionError, match=r"Batch 1 of the query .* is not the one that was published under that"):
            run(spark, broker, copy)
    is_whole(broker, 20)
    feed(broker, range(2, 3))
    run(spark, broker, checkpoint)
    is_whole(broker, 30)


def test_a_second_process_that_publishes_for_a_query_is_rejected_until_the_first_has_ended(
    spark: SparkSession, tmp_path: Path
) -> None:
    broker, checkpoint = topics.DirBroker(tmp_path / "topics"), tmp_path / "checkpoint"
    feed(broker, range(1))
    publisher = run(spark, broker, checkpoint)
    [lease] = (broker.path / "_published").glob("*.lock")
    # The system treats a reopened file like the file of another process.
    with lease.open("a+") as other:
        with pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        again = run(spark, broker, checkpoint)
        publisher.close()
        feed(broker, range(1, 2))
        run(spark, broker, checkpoint)
        again.close()
        with pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    is_whole(broker, 20)


def test_a_publisher_whose_query_is_published_by_another_process_names_it(spark: SparkSession, tmp_path: Path) -> None:
    broker, checkpoint = topics.DirBroker(tmp_path / "topics"), tmp_path / "checkpoint"
    feed(broker, range(1))
    run(spark, broker, checkpoint).close()
    feed(broker, range(1, 2))
    [lease] = (broker.path / "_published").glob("*.lock")
    staged = broker.path / "_staging" / lease.stem / "of the other"
    staged.mkdir(parents=True)
    with lease.open("a+") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        who = rf"is published by process {os.getpid()} on \S+ already, .* Stop that one first"
        with pytest.raises(MullionError, match=who):
            run(spark, broker, checkpoint)
        assert staged.exists()
    is_whole(broker, 10)
    run(spark, broker, checkpoint)
    is_whole(broker, 20)


@pytest.mark.slow
def test_of_two_programs_on_one_checkpoint_the_second_is_rejected_until_the_first_is_killed_and_then_ends_its_batch(
    spark: SparkSession, tmp_path: Path
) -> None:
    broker, checkpoint = topics.DirBroker(tmp_path / "topics"), tmp_path / "checkpoint"
    feed(broker, range(2))
    first = subprocess.Popen([sys.executable, __file__, str(tmp_path)], env=environment(), start_new_session=True)
    try:
        while not (tmp_path / "half way").exists():
            assert first.poll() is None
            time.sleep(0.05)
        with pytest.raises(
            MullionError, match=rf"is published by process {first.pid} on \S+ already, .* Stop that one"
        ):
            run(spark, broker, checkpoint)
        assert len(rows_of(broker, "even")) + len(rows_of(broker, "odd")) == 5
    finally:
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
    run(spark, broker, checkpoint)
    is_whole(broker, 20)


def test_a_column_of_another_type_is_rejected_before_anything_of_the_batch_is_published(
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

    # The stream, which began before, reads them.
    query = stream.writeStream.format("memory").queryName("even").trigger(availableNow=True).start()
    query.awaitTermination()
    assert sorted(row.n for row in spark.table("even").collect()) == [0.0, 2.0, 4.0, 6.0, 8.0]


def test_an_unsupported_output_of_a_query_is_rejected(spark: SparkSession, tmp_path: Path) -> None:
    publisher = topics.DirBroker(tmp_path).publisher()
    with pytest.raises(InvalidArgumentError, match=r"are \(id bigint\)\. A publisher requires \(topic string, "):
        publisher.publish(spark.range(1), 0)
    rows = spark.createDataFrame([], topics.OUTPUTS)
    with pytest.raises(InvalidArgumentError, match="called outside a streaming query"):
        publisher.publish(rows, 0)


def test_data_for_a_later_stage_is_split_into_pieces_that_fit_a_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_outputs, "_MOST_BYTES", 160)
    large, small = pa.RecordBatch.from_pydict({"n": range(50)}), pa.RecordBatch.from_pydict({"s": ["x", None]})
    note = _outputs.Note("w.close", b"schema")
    outputs = [_outputs.Output("a", "k", large, note), _outputs.Output("b", None, small)]
    (rows,) = _outputs.carried(outputs)
    restored = list(_outputs.outputs_in([rows]))
    assert [(out.topic, out.key, out.note, out.batch.num_rows) for out in restored] == [
        *[("a", "k", note, 20)] * 2,
        ("a", "k", note, 10),
        ("b", None, None, 2),
    ]
    assert pa.Table.from_batches([out.batch for out in restored[:3]]) == pa.Table.from_batches([large])
    assert restored[3].batch == small
    assert list(_outputs.carried([])) == []

    plain = rows.select(["topic", "key", "batch"])
    nothing = pa.RecordBatch.from_arrays([pa.array([None], f.type) for f in plain.schema], schema=plain.schema)
    assert list(_outputs.outputs_in([plain, nothing])) == [out._replace(note=None) for out in restored]


def test_a_note_to_the_driver_may_stop_a_batch_before_it_is_published(spark: SparkSession, tmp_path: Path) -> None:
    broker = topics.DirBroker(tmp_path / "topics")
    feed(broker, range(1))
    publisher = broker.publisher()
    received: list[_outputs.Note] = []

    def make(batches: Any) -> Any:
        for batch in batches:
            yield _outputs.Output("to", None, batch.select(["n"]), _outputs.Note("made", b"of n"))

    def tell(notes: Any) -> None:
        received.extend(dict.fromkeys(notes))
        if len(received) == 1:
            raise ValueError("not this one")

    def run() -> None:
        rows = broker.stream(spark, "in").writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        rows = rows.foreachBatch(lambda batch, number: publisher.publish_made(batch, number, make, tell))
        rows.trigger(availableNow=True).start().awaitTermination()

    with pytest.raises(StreamingQueryException, match="not this one"):
        run()
    assert rows_of(broker, "to") == []
    run()
    assert rows_of(broker, "to") == list(range(10))
    assert received == [("made", b"of n")] * 2


def publish(
    spark: SparkSession, broker: topics.DirBroker, checkpoint: Path, rows_by_topic: dict[str, list[Any]]
) -> None:
    """Runs a query whose every batch publishes these rows, each topic's from one task or from several."""

    def make(batches: Any) -> Any:
        for batch in batches:
            for at in batch["n"].to_pylist():
                for topic, rows in rows_by_topic.items():
                    if at < len(rows):
                        yield rows_for(topic, [rows[at]])

    rows = broker.stream(spark, "in", schema="n bigint, to string").select("n").repartitionByRange(2, "n")
    writer = rows.mapInArrow(make, topics.OUTPUTS).writeStream.foreachBatch(broker.publisher().publish)
    writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()


EXACT = Decimal("1.5")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"price": 0.5}], r"'price' is double here, and decimal\(10,2\) in the topic, whose digits a float does not"),
        ([{"of": {"d": 0.5}}], r"'of\.d' is double here, and decimal\(6,3\) in the topic"),
        ([{"all": [0.5]}], r"'all\[\]' is double here, and decimal\(5,1\) in the topic"),
        ([{"of": {"n": "7"}}], r"'of\.n' is string here, and bigint in the topic"),
        ([{"of": "text"}], r"'of' is string here, and struct<d:decimal\(6,3\),n:bigint> in the topic"),
        ([{"of": {"D": EXACT}}], r"columns 'of\.d' and 'of\.D' differ in case alone"),
        # One task writes decimals and another one floats to a column that the topic does not have yet.
        ([{"new": EXACT}, *[{}] * 8, {"new": 0.5}], r"'new' is (double|decimal\(2,1\)) here, and [dou]"),
    ],
)
def test_what_does_not_fit_a_topics_decimals_and_nested_fields_is_rejected_before_any_of_its_batch_is_written(
    spark: SparkSession, tmp_path: Path, rows: list[dict[str, Any]], message: str
) -> None:
    broker = topics.DirBroker(tmp_path / "topics")
    feed(broker, range(1))
    broker.stream(spark, "sums", schema=DECLARED)
    about = DirTopic(broker.path, "sums").about()
    with pytest.raises((MullionError, StreamingQueryException), match=message):
        publish(spark, broker, tmp_path / "checkpoint", {"beside": [{"n": 1}], "sums": rows})
    assert (rows_of(broker, "beside"), rows_of(broker, "sums")) == ([], [])
    assert DirTopic(broker.path, "sums").about() == about


def test_what_fits_a_topics_decimals_and_nested_fields_is_published_with_all_of_its_digits(
    spark: SparkSession, tmp_path: Path
) -> None:
    broker = topics.DirBroker(tmp_path / "topics")
    feed(broker, range(1))
    stream = broker.stream(spark, "sums", schema=DECLARED)
    sent = [
        {"price": EXACT, "of": {"d": EXACT, "n": 7}, "all": [EXACT, None]},
        # Integers become decimals of the column if they fit.
        {"price": 12345678, "of": {"d": 3}, "all": [4, None]},
        {"price": None, "of": None, "all": []},
    ]
    publish(spark, broker, tmp_path / "checkpoint", {"sums": sent})
    table = topics.read(broker, "sums")
    kinds = [
        pa.decimal128(10, 2),
        pa.struct({"d": pa.decimal128(6, 3), "n": pa.int64()}),
        pa.list_(pa.decimal128(5, 1)),
    ]
    assert [table.schema.field(name).type for name in ("price", "of", "all")] == kinds
    actual = sorted(table.select(["price", "of", "all"]).to_pylist(), key=repr)
    expected: list[dict[str, Any]] = [
        {"price": Decimal("1.50"), "of": {"d": Decimal("1.500"), "n": 7}, "all": [EXACT, None]},
        {"price": Decimal("12345678.00"), "of": {"d": Decimal("3.000"), "n": None}, "all": [Decimal("4.0"), None]},
        {"price": None, "of": None, "all": []},
    ]
    assert actual == sorted(expected, key=repr)
    # A stream that began with the schema continues.
    query = stream.writeStream.format("memory").queryName("declared_sums").trigger(availableNow=True).start()
    query.awaitTermination()
    prices = [row.price for row in spark.table("declared_sums").collect()]
    assert Counter(prices) == Counter(row["price"] for row in expected)


def stop_half_way(home: Path) -> None:
    """A program that has published its first batch to one topic, and waits for its kill."""
    append = DirTopic.append_locked

    def appended(topic: DirTopic, *arguments: Any) -> None:
        append(topic, *arguments)
        (home / "half way").touch()
        signal.pause()

    DirTopic.append_locked = appended  # type: ignore[method-assign, assignment]
    run(session_of_its_own(home), topics.DirBroker(home / "topics"), home / "checkpoint")


if __name__ == "__main__":
    stop_half_way(Path(sys.argv[1]))


@pytest.mark.parametrize(
    ("headers", "why"),
    [("named_struct('key', 'a', 'value', X'00')", "a topic in a folder has none"), ("NULL", "a header without a name")],
)
def test_headers_are_not_left_out_in_silence(spark: SparkSession, tmp_path: Path, headers: str, why: str) -> None:
    broker = topics.DirBroker(tmp_path / "broker")
    topics.produce(broker, "in", [{"n": 1}])
    batch = topics.encoded(pa.RecordBatch.from_pylist([{"n": 1}])).hex()
    with_headers = f"array(CAST({headers} AS struct<key: string, value: binary>)) AS headers"
    outputs = broker.stream(spark, "in").selectExpr(
        "'out' AS topic", "'k' AS key", f"X'{batch}' AS batch", with_headers
    )
    publisher = broker.publisher()
    writer = outputs.writeStream.foreachBatch(publisher.publish).option("checkpointLocation", str(tmp_path / "c"))
    with pytest.raises(Exception, match=why):
        writer.trigger(availableNow=True).start().awaitTermination()
    publisher.close()
    assert topics.read(broker, "out").num_rows == 0
