"""A query's rows are in Kafka exactly once after any kill, and if another process publishes for the query."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from pyspark.sql import SparkSession

from mullion import topics
from mullion.errors import InvalidArgumentError, MullionError
from mullion.topics._kafka import client as _kafka_client
from mullion.topics._kafka import publisher as _kafka_publisher
from mullion.topics._kafka import transactions as _kafka_transactions
from mullion.topics._kafka.transactions import Row, Transactions
from tests.support.kafka.kafka_between import NotYet
from tests.support.kafka.kafka_connector import connector_jars
from tests.support.kafka.kafka_server import KafkaServer
from tests.support.kafka.published import feed, is_whole, numbers, of_batch, records_by_partition, rows_of, start
from tests.support.killing import committed, environment, session_of_its_own

# One worker of pytest runs all of these tests, with one broker.
pytestmark = pytest.mark.xdist_group("kafka")


def run(spark: SparkSession, broker: topics.Broker, checkpoint: Path, prefix: str) -> topics.Publisher:
    publisher = broker.publisher()
    start(spark, broker, publisher, checkpoint, prefix).awaitTermination()
    return publisher


def test_a_batch_that_is_attempted_twice_is_in_kafka_once(
    kafka: KafkaServer, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker, prefix, checkpoint = topics.broker(kafka.url), "twice-", tmp_path / "checkpoint"
    feed(broker, range(2), prefix)
    with monkeypatch.context() as patch:
        # A batch runs again, and then waits in its task and arrives in several pieces.
        patch.setattr(_kafka_publisher, "_AT_ONCE", 60)
        patch.setattr(_kafka_publisher, "_IN_HAND", 50)
        publisher = run(spark, broker, checkpoint, prefix)
    is_whole(broker, 20, prefix)
    assert publisher.published == {"twice-even": 10, "twice-odd": 10, "twice-threes": 7}
    feed(broker, range(2, 3), prefix)
    run(spark, broker, checkpoint, prefix)
    is_whole(broker, 30, prefix)

    # As if the process had been killed after it published, before Spark's commit.
    for commit in (checkpoint / "commits").glob("*1*"):
        commit.unlink()
    publisher = run(spark, broker, checkpoint, prefix)
    assert committed(checkpoint) == 2, "the batch was done again"
    assert publisher.published == {}
    is_whole(broker, 30, prefix)


def test_a_checkpoint_that_was_restored_from_an_older_copy_is_rejected_by_what_kafka_has(
    kafka: KafkaServer, spark: SparkSession, tmp_path: Path
) -> None:
    broker, prefix = topics.broker(kafka.url), "restored-"
    checkpoint, copy = tmp_path / "checkpoint", tmp_path / "copy"
    feed(broker, range(1), prefix)
    run(spark, broker, checkpoint, prefix)
    shutil.copytree(checkpoint, copy)
    feed(broker, range(1, 2), prefix)
    run(spark, broker, checkpoint, prefix)
    with pytest.raises(MullionError, match=r"Batch 1 of the query .* is not the one that was published"):
        run(spark, broker, copy, prefix)
    is_whole(broker, 20, prefix)
    feed(broker, range(2, 3), prefix)
    run(spark, broker, checkpoint, prefix)
    is_whole(broker, 30, prefix)


def test_a_row_above_the_brokers_limit_aborts_its_batch_and_the_error_has_topic_size_and_limit(
    kafka: KafkaServer, spark: SparkSession, tmp_path: Path
) -> None:
    broker, source = topics.broker(kafka.url), topics.DirBroker(tmp_path / "source")
    topics.produce(source, "in", [{"n": n} for n in range(10)])
    sizes = {5: 2_000_000}

    def outputs(batches: Any) -> Any:
        for batch in batches:
            rows = [{"n": n, "text": "x" * sizes.get(n, 1)} for n in batch["n"].to_pylist()]
            encoded = topics.encoded(pa.RecordBatch.from_pylist(rows))
            yield pa.RecordBatch.from_pydict({"topic": ["too-large"], "key": ["k"], "batch": [encoded]})

    def publish() -> None:
        encoded = source.stream(spark, "in").select("n").mapInArrow(outputs, topics.OUTPUTS)
        writer = encoded.writeStream.foreachBatch(broker.publisher().publish)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()

    message = r"Topic 'too-large': a row of batch 0 of the query \S+ has 20000\d\d bytes, .* takes 1048588 at most, .*"
    with pytest.raises(MullionError, match=message + "Nothing of the batch is published"):
        publish()
    assert _kafka_client.read(kafka.servers, "too-large") == []
    sizes.clear()
    publish()
    assert numbers(kafka, "too-large") == list(range(10))


def test_a_topic_with_a_small_limit_takes_every_row_that_fits_and_none_that_does_not(kafka: KafkaServer) -> None:
    small = NewTopic("small", 1, config={"max.message.bytes": "2000"})
    admin = AdminClient({"bootstrap.servers": kafka.servers})
    admin.create_topics([small])["small"].result()
    ours = Transactions(kafka.servers, "of small rows")
    ours.open()
    rows = [Row("small", b"k", b'{"n": %d, "t": "%s"}' % (n, b"x" * 400)) for n in range(200)]
    assert ours.publish(0, "", rows) == {"small": 200}
    large = Row("small", b"k", b"x" * 2500)
    ours.open()
    with pytest.raises(InvalidArgumentError, match=r"Topic 'small': a row of batch 1 .* has 2501 bytes.* 2000 at most"):
        ours.publish(1, "", [*rows, large])
    assert numbers(kafka, "small") == list(range(200))
    topics.produce(kafka.url, "small", [{"n": n, "t": "x" * 400} for n in range(200, 400)])
    assert numbers(kafka, "small") == list(range(400))


def test_rows_that_kafka_rejects_at_first_are_in_the_transaction_before_later_rows(kafka: KafkaServer) -> None:
    _kafka_client.make(kafka.servers, "not-yet-published", partitions=1)
    not_yet = NotYet(kafka.servers, "not-yet-published")
    # One request has the first row, and later requests have the other rows.
    rows = [Row("not-yet-published", None, b'{"n": %d, "t": "%s"}' % (n, b"x" * 700_000)) for n in range(4)]
    with not_yet.open() as servers:
        ours = Transactions(servers, "refused at first")
        ours.open()
        ours.publish(0, "", rows)
        ours.close()
    assert not_yet.refused == 1
    assert records_by_partition(kafka, "not-yet-published") == [(0, [0, 1, 2, 3])]


def test_what_readers_do_not_get_at_the_end_of_a_topic_is_not_waited_for(kafka: KafkaServer) -> None:
    _kafka_client.make(kafka.servers, "dropped", partitions=1)
    ours = Transactions(kafka.servers, "drops")

    def fails() -> Any:
        yield from of_batch("dropped", 1)
        ours._producer.flush(30)
        raise RuntimeError("on purpose")

    ours.open()
    with pytest.raises(RuntimeError, match="on purpose"):
        ours.publish(0, "", fails())
    assert _kafka_client.read(kafka.servers, "dropped") == []
    ours.open()
    ours.publish(0, "", of_batch("dropped", 0))
    # The last offset is the marker of the transaction's end.
    assert [record.offset for record in _kafka_client.read(kafka.servers, "dropped")] == [5, 6, 7, 8]
    assert [record.offset for record in _kafka_client.read(kafka.servers, "dropped", last=3)] == [7, 8]


def test_readers_see_nothing_of_a_batch_before_it_is_committed(
    kafka: KafkaServer, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_kafka_client, "ENDING_SECONDS", 0.1)
    broker = topics.broker(kafka.url)
    topics.produce(broker, "open", [{"n": -1}], keys=["k"])

    def streamed() -> list[int]:
        rows_: list[int] = []
        stream = broker.stream(spark, "open", schema="n bigint").select("n")
        writer = stream.writeStream.foreachBatch(lambda rows, _: rows_.extend(row.n for row in rows.collect()))
        writer.trigger(availableNow=True).start().awaitTermination()
        return sorted(rows_)

    ours = Transactions(kafka.servers, "of open rows")
    ours.open()
    views: list[list[int]] = []

    def looked_at() -> Any:
        yield from of_batch("open", 0)
        ours._producer.flush(30)
        views.append(numbers(kafka, "open"))
        views.append(streamed())

    ours.publish(0, "", looked_at())
    assert views == [[-1]] * 2
    assert numbers(kafka, "open") == streamed() == [-1, 0, 1, 2, 3]

    def fails() -> Any:
        yield from of_batch("open", 1)
        ours._producer.flush(30)
        raise ValueError("cut off")

    with pytest.raises(ValueError, match="cut off"):
        ours.publish(1, "", fails())
    assert numbers(kafka, "open") == streamed() == [-1, 0, 1, 2, 3]
    ours.open()
    assert ours.last == 0
    ours.publish(1, "", of_batch("open", 1))
    assert numbers(kafka, "open") == streamed() == list(range(-1, 8))


def test_who_reads_has_the_rows_of_a_transaction_that_is_about_to_end(
    kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = Transactions(kafka.servers, "ending")
    ours.open()
    commit, ended = ours._commit, threading.Event()

    def ends(_: float) -> None:
        if not ended.is_set():
            commit()
            ended.set()

    def looked_at() -> None:
        ours._producer.flush(30)
        with monkeypatch.context() as patch:
            # A reader has seen it open then.
            patch.setattr(time, "sleep", ends)
            assert numbers(kafka, "ending") == [0, 1, 2, 3]

    monkeypatch.setattr(ours, "_commit", looked_at)
    ours.publish(0, "", of_batch("ending", 0))
    assert ended.is_set()


def test_who_waits_for_no_transaction_waits_for_the_answer_of_kafka(
    kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics.produce(topics.broker(kafka.url), "answered", [{"n": 1}], keys=["k"])
    monkeypatch.setattr(_kafka_client, "ENDING_SECONDS", 0.0)
    assert numbers(kafka, "answered") == [1]


def test_rows_behind_an_open_transaction_are_reported_and_visible_after_its_end(
    kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_kafka_client, "ENDING_SECONDS", 0.1)
    ours, other = Transactions(kafka.servers, "behind"), Transactions(kafka.servers, "in front")
    ours.open()
    other.open()
    ours.publish(0, "", of_batch("behind", 0))
    ours.flush()

    def meanwhile() -> Any:
        yield from of_batch("behind", 1)
        other._producer.flush(30)
        ours.publish(1, "", of_batch("behind", 2))
        assert not caplog.records
        ours.flush()
        assert numbers(kafka, "behind") == [0, 1, 2, 3]

    other.publish(0, "", meanwhile())
    (message,) = [record.getMessage() for record in caplog.records]
    assert message.startswith(
        "What the query behind has published in behind is there, and readers of committed rows do"
    )
    ours.flush()
    assert len(caplog.records) == 1, "there is nothing more to wait for"
    assert numbers(kafka, "behind") == list(range(12))


def test_a_producer_whose_query_another_one_publishes_for_is_fenced_with_words(kafka: KafkaServer) -> None:
    zombie, successor = Transactions(kafka.servers, "fenced"), Transactions(kafka.servers, "fenced")
    zombie.open()
    zombie.publish(0, "zero", of_batch("fenced", 0))

    def overtaken() -> Any:
        yield from of_batch("fenced", 1)
        zombie._producer.flush(30)
        successor.open()

    with pytest.raises(MullionError, match="query fenced could not publish batch 1: another process has begun to pub"):
        zombie.publish(1, "one", overtaken())
    assert (successor.last, successor.plans) == (0, {0: "zero"})
    successor.publish(1, "one", of_batch("fenced", 1))
    assert numbers(kafka, "fenced") == list(range(8))
    # It may restart, and then reads the other one's notes.
    zombie.open()
    assert (zombie.last, zombie.plans) == (1, {0: "zero", 1: "one"})
    with pytest.raises(MullionError, match="query fenced could not publish batch 2: another process"):
        successor.publish(2, "two", of_batch("fenced", 2))
    assert numbers(kafka, "fenced") == list(range(8))


def test_the_published_rows_of_a_query_are_visible_once_parallel_transactions_have_ended(
    kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_kafka_transactions, "_PARTITIONS", 1)
    other, ours, after = (Transactions(kafka.servers, query) for query in ("other", "ours", "ours"))
    noted, may_end = threading.Event(), threading.Event()
    commit = other._commit

    def wait() -> None:
        other._producer.flush(30)
        noted.set()
        assert may_end.wait(60)
        commit()

    monkeypatch.setattr(other, "_commit", wait)
    other.open()
    ours.open()
    commits = threading.Thread(target=lambda: other.publish(0, "", of_batch("beside", 0)))
    commits.start()
    assert noted.wait(60)
    # In the log of the partition it follows a note whose transaction is still open.
    ours.publish(0, "zero", of_batch("beside", 1))
    opens = threading.Thread(target=after.open)
    opens.start()
    may_end.set()
    commits.join()
    opens.join()
    assert after.plans == {0: "zero"}


def test_a_note_records_the_last_batches_and_their_plans(kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_kafka_transactions, "MOST_PLANS", 3)
    ours, after = Transactions(kafka.servers, "remembered"), Transactions(kafka.servers, "remembered")
    ours.open()
    for batch in (0, 1, 4, 6):
        ours.publish(batch, f"plan {batch}", of_batch("remembered", batch))
    after.open()
    # Batches 0 and 6 share a slot.
    assert ours.plans == after.plans == {1: "plan 1", 4: "plan 4", 6: "plan 6"}


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_of_two_programs_on_one_checkpoint_the_second_is_rejected_and_on_a_copy_of_it_the_first_is_fenced(
    kafka: KafkaServer, spark: SparkSession, tmp_path: Path
) -> None:
    broker, prefix, checkpoint, copy = topics.broker(kafka.url), "two-", tmp_path / "checkpoint", tmp_path / "copy"
    feed(broker, range(2), prefix)
    first = subprocess.Popen(
        [sys.executable, __file__, kafka.url, str(tmp_path)],
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        # All rows are sent, and the commit is next.
        while not (tmp_path / "commits").exists():
            assert first.poll() is None, first.stderr and first.stderr.read()
            time.sleep(0.05)
        with pytest.raises(
            MullionError, match=rf"is published by process {first.pid} on \S+ already, .* Stop that one"
        ):
            run(spark, broker, checkpoint, prefix)
        assert rows_of(broker, "two-even") == []

        shutil.copytree(checkpoint, copy)
        run(spark, broker, copy, prefix)
        is_whole(broker, 20, prefix)
        (tmp_path / "go on").touch()
        _, errors = first.communicate(timeout=120)
    finally:
        first.kill()
        first.wait()
    assert "could not publish batch 0: another process has begun to publish for it" in errors
    assert first.returncode == 1
    is_whole(broker, 20, prefix)
    assert Counter(record.value for record in _kafka_client.read(kafka.servers, "two-odd")).most_common(1)[0][1] == 1
    # After its end, another process may use its checkpoint: published batches are not sent again.
    feed(broker, range(2, 3), prefix)
    run(spark, broker, copy, prefix)
    is_whole(broker, 30, prefix)


def program(url: str, home: Path) -> None:
    """A program that waits before it commits its first batch."""
    commit = Transactions._commit

    def wait(self: Transactions) -> None:
        self._producer.flush(30)
        (home / "commits").touch()
        while not (home / "go on").exists():
            time.sleep(0.02)
        commit(self)

    Transactions._commit = wait  # type: ignore[method-assign]
    run(session_of_its_own(home, jars=connector_jars()), topics.broker(url), home / "checkpoint", "two-")


if __name__ == "__main__":
    program(sys.argv[1], Path(sys.argv[2]))
