"""Topics in a running Kafka: reading and publishing the same rows, through a kill of the broker."""

from __future__ import annotations

import datetime
import decimal
import random
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion import Early, Tumbling, topics, turbine, windowed
from mullion._util.clock import ManualClock
from mullion.errors import InvalidArgumentError, MullionError, UnsupportedError
from mullion.topics import _json
from mullion.topics._folder.topic import DirTopic
from mullion.topics._kafka import client as _kafka_client
from mullion.topics._records import values_of
from mullion.turbine import aggregates as agg
from mullion.turbine import windowing as win
from tests.support.kafka.kafka_between import NotYet
from tests.support.kafka.kafka_server import KafkaServer
from tests.support.kafka.relay import Relay, Rows
from tests.support.models import random_rows
from tests.support.seeds import SEED

# One worker of pytest runs all of these tests, with one broker.
pytestmark = pytest.mark.xdist_group("kafka")


def values(table: pa.Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.drop_columns(["_key", "_timestamp"]).to_pylist()
    return rows


def test_rows_come_back_with_their_keys_and_times(kafka: KafkaServer) -> None:
    at = datetime.datetime(2024, 2, 29, 12, 0, tzinfo=datetime.UTC)
    rows = [{"n": 1, "at": at, "price": decimal.Decimal("1.5"), "raw": b"\x00"}, {"n": 2.5, "tags": ["a", None]}]
    topics.produce(kafka.url, "rows", rows, keys=["k", "k"], timestamps=[5.25, 4])
    topics.produce(kafka.url, "rows", [{"n": 3}], keys=["k"], clock=ManualClock(start_ms=6000))

    none = dict.fromkeys(("n", "at", "price", "raw", "tags"))
    table = topics.read(kafka.url, "rows")
    assert values(table) == [
        none | {"n": 1.0, "at": "2024-02-29T12:00:00Z", "price": 1.5, "raw": "AA=="},
        none | {"n": 2.5, "tags": ["a", None]},
        none | {"n": 3.0},
    ]
    assert table["_key"].to_pylist() == ["k"] * 3
    assert table["_timestamp"].to_pylist() == [5.25, 4.0, 6.0]


def test_rows_of_several_partitions_are_read_in_order_of_their_times(kafka: KafkaServer) -> None:
    topics.produce(kafka.url, "spread", range(100), keys=[str(n) for n in range(100)], timestamps=range(1, 101))
    assert values(topics.read(kafka.url, "spread")) == [{"value": n} for n in range(100)]
    partitions = {record.partition for record in _kafka_client.read(kafka.servers, "spread")}
    assert partitions == {0, 1}
    assert topics.read(kafka.url, "nothing").column_names == ["_key", "_timestamp"]


def test_rows_that_kafka_rejects_at_first_are_sent_again_before_later_rows(kafka: KafkaServer) -> None:
    _kafka_client.make(kafka.servers, "not-yet", partitions=1)
    not_yet = NotYet(kafka.servers, "not-yet")
    # One request has the first row, and later requests have the other rows.
    with not_yet.open() as servers:
        topics.produce(f"kafka://{servers}", "not-yet", [{"n": n, "text": "x" * 700_000} for n in range(4)])
    assert not_yet.refused == 1
    assert [record.offset for record in _kafka_client.read(kafka.servers, "not-yet")] == [0, 1, 2, 3]
    assert topics.read(kafka.url, "not-yet")["n"].to_pylist() == [0, 1, 2, 3]


def test_a_topic_is_read_as_it_was_when_that_was_asked_for(kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch) -> None:
    consumer_of = _kafka_client._consumer

    def after_one_more(servers: Any) -> Any:
        topics.produce(kafka.url, "grows", [{"n": 2}], keys=["k"])
        return consumer_of(servers)

    topics.produce(kafka.url, "grows", [{"n": 0}, {"n": 1}], keys=["k"] * 2)
    with monkeypatch.context() as patch:
        patch.setattr(_kafka_client, "_consumer", after_one_more)
        assert topics.read(kafka.url, "grows")["n"].to_pylist() == [0, 1]
    assert topics.read(kafka.url, "grows")["n"].to_pylist() == [0, 1, 2]


class Hasty:
    """A consumer whose first answer for a topic's only partition is that it ends at its beginning."""

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer
        self._has_failed = False

    def poll(self, seconds: float) -> Any:
        if self._has_failed:
            return self._consumer.poll(seconds)
        self._has_failed = True
        return self

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return 0

    def error(self) -> KafkaError:
        return KafkaError(KafkaError._PARTITION_EOF)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)


def test_an_end_that_is_said_too_early_is_not_taken_for_the_end(
    kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer_of = _kafka_client._consumer
    _kafka_client.make(kafka.servers, "early", partitions=1)
    topics.produce(kafka.url, "early", [{"n": 0}, {"n": 1}])
    monkeypatch.setattr(_kafka_client, "_consumer", lambda servers: Hasty(consumer_of(servers)))
    assert topics.read(kafka.url, "early")["n"].to_pylist() == [0, 1]


def test_deleted_rows_are_not_awaited_and_later_rows_are_read(kafka: KafkaServer) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.servers})

    def delete(before: int) -> None:
        place = TopicPartition("deleted", 0, before)
        admin.delete_records([place])[place].result()

    def numbers_until(last: int | None = None) -> list[int]:
        return [record.offset for record in _kafka_client.read(kafka.servers, "deleted", last)]

    _kafka_client.make(kafka.servers, "deleted", partitions=1)
    assert numbers_until() == numbers_until(last=2) == []
    topics.produce(kafka.url, "deleted", range(5))
    assert (numbers_until(), numbers_until(last=2), numbers_until(last=9)) == ([0, 1, 2, 3, 4], [3, 4], [0, 1, 2, 3, 4])
    delete(before=3)
    assert (numbers_until(), numbers_until(last=1), numbers_until(last=4)) == ([3, 4], [4], [3, 4])
    delete(before=5)
    assert numbers_until() == numbers_until(last=4) == []
    topics.produce(kafka.url, "deleted", range(1))
    assert (numbers_until(), numbers_until(last=4)) == ([5], [5])


@pytest.mark.parametrize("in_function", [True, False])
def test_rows_that_were_deleted_unread_fail_a_query_and_the_error_names_the_option_that_accepts_it(
    kafka: KafkaServer, spark: SparkSession, tmp_path: Path, in_function: bool
) -> None:
    topic = f"aged-{in_function}"
    _kafka_client.make(kafka.servers, topic, partitions=1)
    fired: list[int] = []

    def drain(**options: str) -> None:
        rows = topics.KafkaBroker(kafka.servers, options).stream(spark, topic, schema="n long, ts timestamp")
        panes = windowed(
            rows.withWatermark("ts", "1 minute"), Tumbling("1 hour"), time="ts", accumulate=False, early=Early(count=1)
        ).agg(F.max("n").alias("n"))

        def keep(batch: DataFrame, number: int) -> None:
            fired.extend(row.n for row in batch.where("pane.firing = 'early'").collect())

        writer = panes.writeStream.trigger(availableNow=True)
        writer = writer.foreachBatch(keep) if in_function or options else writer.format("noop")
        writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()

    def produce(n: int) -> None:
        topics.produce(kafka.url, topic, [{"n": n, "ts": "2024-01-01T00:00:00Z"}])

    produce(0)
    drain()
    produce(1)
    produce(2)
    place = TopicPartition(topic, 0, 2)
    # The future never completes after its client is gone.
    admin = AdminClient({"bootstrap.servers": kafka.servers})
    admin.delete_records([place])[place].result()
    for _ in range(2):
        with pytest.raises(StreamingQueryException, match=r"(?s)data may have been lost.*failOnDataLoss") as failed:
            drain()
        assert "options={'failOnDataLoss': 'false'}" in str(failed.value)
    drain(failOnDataLoss="false")
    assert fired[-1] == 2
    assert 1 not in fired


def test_keys_of_any_text_and_size_come_back(kafka: KafkaServer, spark: SparkSession) -> None:
    keys = ["", "\0", "a\0b", "k" * 900_000, "Größe \U0001f600\uffff", "\n", "null", None]
    broker = topics.broker(kafka.url)
    topics.produce(broker, "odd-keys", range(len(keys)), keys=keys)
    table = topics.read(broker, "odd-keys")
    assert dict(zip(table["value"].to_pylist(), table["_key"].to_pylist(), strict=True)) == dict(enumerate(keys))
    assert dict(shown(spark, broker, "odd-keys", "value", "_key")) == dict(enumerate(keys))


def shown(
    spark: SparkSession, broker: topics.Broker, topic: str, *columns: Any, **options: Any
) -> list[tuple[Any, ...]]:
    stream = broker.stream(spark, topic, **options).select(*columns)
    rows_: list[tuple[Any, ...]] = []
    query = (
        stream.writeStream.foreachBatch(lambda rows, _: rows_.extend(map(tuple, rows.collect())))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return rows_


def test_a_stream_has_the_columns_of_its_records_and_lists_those_of_each_record(
    kafka: KafkaServer, spark: SparkSession, tmp_path: Path
) -> None:
    broker = topics.broker(kafka.url)
    topics.produce(broker, "stream", [{"n": 1, "who": None}], keys=["a"], timestamps=[1.5])
    # A record has the fields of its call.
    topics.produce(broker, "stream", [{"n": 2, "at": {"x": 0.5}}], keys=["a"], timestamps=[2])
    _kafka_client.produce(kafka.servers, "stream", [("a", b"{}", 3_000_000)])

    had = [topics.has_columns("n", "who").alias("both"), topics.has_columns("n").alias("n_alone")]
    remembered = tmp_path / "schema.json"
    assert shown(spark, broker, "stream", "n", "who", "at.x", "_key", *had, remembered=remembered) == [
        (1, None, None, "a", True, True),
        (2, None, 0.5, "a", False, True),
        (None, None, None, "a", False, False),
    ]
    topics.produce(broker, "stream", [{"n": 4, "more": 1}], keys=["a"])
    limited = broker.stream(spark, "stream", remembered=remembered)
    assert limited.columns == ["n", "who", "at", "_key", "_timestamp", "_columns"]

    other_schema = "n double, who string, `_missing` date"
    times = shown(spark, broker, "stream", "n", "_missing", "_timestamp", schema=other_schema)
    assert [(n, missing, at.timestamp()) for n, missing, at in times][:3] == [
        (1.0, None, 1.5),
        (2.0, None, 2.0),
        (None, None, 3.0),
    ]
    topics.produce(broker, "plain", [3, None, 4.5], keys=["a"] * 3)
    assert shown(spark, broker, "plain", "value") == [(3.0,), (None,), (4.5,)]


def test_a_record_that_does_not_fit_fails_the_query_and_one_that_is_no_json_the_reader(
    kafka: KafkaServer, spark: SparkSession
) -> None:
    broker = topics.broker(kafka.url)
    topics.produce(broker, "unfit", [{"n": "text"}])
    with pytest.raises(
        Exception, match=r"Topic 'unfit': the value at offset 0 of partition \d does not fit the topic's"
    ):
        shown(spark, broker, "unfit", "n", schema="n bigint")
    _kafka_client.produce(kafka.servers, "unfit", [("a", b"no json", 3_000_000)])
    with pytest.raises(InvalidArgumentError, match=r"offset \d of partition \d is not JSON: b'no json'"):
        topics.read(broker, "unfit")


def test_a_topic_without_rows_has_no_schema_unless_it_is_given(kafka: KafkaServer, spark: SparkSession) -> None:
    broker = topics.broker(kafka.url)
    with pytest.raises(InvalidArgumentError, match=r"no rows yet, .* schema='region string, amount double'"):
        broker.stream(spark, "empty")
    assert shown(spark, broker, "empty", "n", schema="n bigint") == []


def test_random_rows_of_random_types_survive_kafka_or_are_rejected(
    kafka: KafkaServer, spark: SparkSession, tmp_path: Path
) -> None:
    seed = SEED
    broker, types = topics.broker(kafka.url), topics.DirBroker(tmp_path / "types")
    tables: list[pa.Table] = []

    def produce(call: Any) -> None:
        table = values_of("random", call)
        _json.written(table)
        # The calls that have columns in common.
        topics.produce(types, "random", call)
        topics.produce(broker, "random", call, keys=["k"] * len(table))
        tables.append(table)

    rows = random_rows.accepted_calls(random.Random(seed), 40, produce)
    kinds = DirTopic(types.path, "random").about().schema
    streamed = random_rows.streamed(broker.stream(spark, "random", schema=kinds), tmp_path / "checkpoint")
    random_rows.publish(spark, tmp_path, tables, broker.publisher(), "random-published")
    as_json = [random_rows.as_json(row) for row in rows]
    ways = {
        "streamed": ([{name: row[name] for name in row if not name.startswith("_")} for row in streamed], rows),
        "read": (values(topics.read(broker, "random")), as_json),
        "published": (values(topics.read(broker, "random-published")), as_json),
    }
    for way, (actual, wanted) in ways.items():
        assert len(actual) == len(wanted), f"{way}, MULLION_SEED={seed}"
        for row, expected in zip(actual, wanted, strict=True):
            assert random_rows.same(row, expected), f"{way} as {row}, was {expected}: MULLION_SEED={seed}"


def test_a_key_is_in_one_partition_whoever_sends_it(kafka: KafkaServer, spark: SparkSession, tmp_path: Path) -> None:
    keys = [f"key {number}" for number in range(40)]
    topics.produce(kafka.url, "partitioned", [{"n": 0}] * 40, keys=keys)
    publisher = topics.broker(kafka.url).publisher()
    rows = [(["partitioned", key, topics.encoded(pa.RecordBatch.from_pydict({"n": [1]}))]) for key in keys]
    source = topics.DirBroker(tmp_path / "source")
    topics.produce(source, "in", [{"n": 1}])

    def outputs(batches: Any) -> Any:
        for _ in batches:
            columns = zip(*rows, strict=True)
            yield pa.RecordBatch.from_arrays([pa.array(list(of)) for of in columns], names=["topic", "key", "batch"])

    encoded = source.stream(spark, "in").select("n").mapInArrow(outputs, topics.OUTPUTS)
    query = encoded.writeStream.foreachBatch(publisher.publish).trigger(availableNow=True).start()
    query.awaitTermination()

    partitions: dict[str | None, set[int]] = {}
    for record in _kafka_client.read(kafka.servers, "partitioned"):
        partitions.setdefault(record.key, set()).add(record.partition)
    assert len(partitions) == 40
    assert {len(of) for of in partitions.values()} == {1}
    assert set.union(*partitions.values()) == {0, 1}


def test_a_row_above_the_brokers_limit_is_rejected_and_the_error_lists_the_sent_rows(kafka: KafkaServer) -> None:
    rows = [{"n": 1}, {"n": 2}, {"text": "x" * 2_000_000}, {"n": 4}]
    with pytest.raises(
        InvalidArgumentError, match=r"data\[2\] has 2\d{6} bytes as JSON, .* (\d) of the 4 rows"
    ) as raised:
        topics.produce(kafka.url, "large", rows, keys=["k"] * 4)
    there = values(topics.read(kafka.url, "large"))
    assert f"{len(there)} of the 4 rows are in the topic" in str(raised.value)
    before = sum(row["n"] in (1, 2) for row in there)
    assert f"{before} of them before data[" in str(raised.value)


def double(rows: Rows) -> dict[str, Rows]:
    return {"app-doubled": [{"n": 2 * row["n"]} for row in rows]}


def total(rows: Rows) -> dict[str, Rows]:
    return {"app-totals": [{"total": row["n"]} for row in rows]}


@pytest.mark.usefixtures("spark")
def test_a_program_drains_its_own_messages_and_continues_after_the_broker_was_killed(
    kafka: KafkaServer, tmp_path: Path
) -> None:
    app = Relay("relay", broker=kafka.url, checkpoint=tmp_path)
    app.relay("app-doubled", ["app-totals"], total, schema="n bigint")
    app.relay("app-numbers", ["app-doubled"], double)
    topics.produce(app.broker, "app-numbers", [{"n": n} for n in range(5)])
    app.run(until="drained")
    doubled = topics.read(app.broker, "app-doubled")
    assert sorted(doubled["n"].to_pylist()) == [0, 2, 4, 6, 8]
    assert set(doubled["_key"].to_pylist()) == {"to app-doubled"}
    assert sorted(topics.read(app.broker, "app-totals")["total"].to_pylist()) == [0, 2, 4, 6, 8]

    kafka.kill()
    kafka.start()
    topics.produce(app.broker, "app-numbers", [{"n": 5}])
    app.run(until="drained")
    assert sorted(topics.read(app.broker, "app-totals")["total"].to_pylist()) == [0, 2, 4, 6, 8, 10]


def test_a_program_of_turbine_runs_on_kafka_as_it_does_on_a_folder(
    kafka: KafkaServer, spark: SparkSession, tmp_path: Path
) -> None:
    app = turbine.App("shop-turbine", broker=kafka.url, checkpoint=tmp_path / "turbine", spark=spark)

    @app.subscribe("orders", publish_to="revenue")
    class Revenue:
        def __init__(self) -> None:
            self._win = win.PersistentTumbling(
                self,
                name="revenue",
                size_ms=1_000,
                key=["region"],
                value=agg.Sum("amount"),
                time_column="at_ms",
                on_close_each=lambda state, window, value: pa.RecordBatch.from_pylist(
                    [{**window.group, "start_ms": window.start_ms, "revenue": value}]
                ),
            )

        def process(self, batch: pa.RecordBatch, state: turbine.TurbineState) -> None:
            self._win.update(batch, state)

    def order(region: str, amount: int, at_ms: int) -> None:
        row = {"region": region, "amount": amount, "at_ms": at_ms}
        topics.produce(kafka.url, "orders", [row], keys=[region], timestamps=[at_ms / 1_000])

    for region, amount, at_ms in (("eu", 5, 100), ("us", 7, 200), ("eu", 6, 900), ("eu", 1, 1_500)):
        order(region, amount, at_ms)
    app.run(until="drained")
    # A second run resumes: the program processes each row once, and its windows are still open.
    order("us", 2, 2_500)
    app.run(until="drained")
    revenue = sorted((r["region"], r["start_ms"], r["revenue"]) for r in values(topics.read(kafka.url, "revenue")))
    assert revenue == [("eu", 0, 11), ("eu", 1_000, 1), ("us", 0, 7)]


@pytest.mark.parametrize("servers", ["", "host", "host:", "host:port", "a:1,b", "http://a:1"])
def test_an_invalid_address_is_rejected(servers: str) -> None:
    with pytest.raises(InvalidArgumentError, match="Write 'host:port'"):
        topics.KafkaBroker(servers)
    assert topics.broker("kafka://a:1,b:2") == topics.KafkaBroker("a:1,b:2")
    assert repr(topics.broker("kafka://a:1")) == "KafkaBroker('a:1')"


def test_a_session_without_the_connector_raises_an_error_with_the_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoConnector:
        @property
        def readStream(self) -> Any:
            raise AnalysisException("Failed to find the data source: kafka. Make sure the provider name is correct.")

    broker = topics.KafkaBroker("localhost:1")
    monkeypatch.setattr(_kafka_client, "make", lambda *_: None)
    with pytest.raises(UnsupportedError, match=r"--packages org.apache.spark:spark-sql-kafka-0-10_2.13:4\.\d\.\d, or"):
        broker._source(NoConnector(), "rows")  # type: ignore[arg-type]
    assert broker.session_options()["spark.jars.packages"].startswith("org.apache.spark:spark-sql-kafka-0-10_2.13:")


def test_what_kafka_cannot_hold_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = topics.KafkaBroker("localhost:1")
    with pytest.raises(InvalidArgumentError, match=r"timestamps has 0.0, which Kafka's client takes for no time"):
        topics.produce(broker, "rows", [1], timestamps=[0])
    with pytest.raises(InvalidArgumentError, match="'a/b' is not a topic's name"):
        topics.read(broker, "a/b")
    monkeypatch.setattr(_kafka_client, "WAIT_SECONDS", 0.1)
    with pytest.raises(MullionError, match=r"Kafka at localhost:1 does not answer: .* Is it running"):
        topics.read(broker, "rows")
    with pytest.raises(MullionError, match=r"1 of 1 rows were not acknowledged by Kafka at localhost:1"):
        topics.produce(broker, "rows", [1])
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(UnsupportedError, match=r"pip install 'mullion_spark-.*\.whl\[kafka\]'"):
        topics.read(broker, "rows")
