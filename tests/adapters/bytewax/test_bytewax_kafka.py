"""Dataflows of Bytewax over Kafka."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from confluent_kafka.serialization import StringDeserializer
from pyspark.sql import SparkSession

from mullion import InvalidArgumentError
from mullion.bytewax import operators as op
from mullion.bytewax.connectors.kafka import KafkaSink, KafkaSinkMessage, KafkaSource, KafkaSourceMessage
from mullion.bytewax.connectors.kafka import operators as kop
from mullion.bytewax.dataflow import Dataflow
from mullion.bytewax.operators import windowing as win
from mullion.bytewax.recovery import RecoveryConfig
from mullion.bytewax.testing import TestingSink, run_main
from tests.support.kafka.kafka_server import KafkaServer

START = datetime(2024, 1, 1, tzinfo=UTC)


def _windows(servers: str, errors: list[Any]) -> Dataflow:
    """Counts the readings of each sensor in 10 seconds, and sends the counts to another topic."""
    flow = Dataflow("sensors")
    read = kop.input("in", flow, brokers=[servers], topics=["bytewax-in"], tail=False, batch_size=7)
    decoded = kop.deserialize_value("decode", read.oks, StringDeserializer())
    op.output("errors", op.map("why", decoded.errs, lambda error: error.err), TestingSink(errors))
    readings = op.map("parse", decoded.oks, lambda message: json.loads(message.value))
    clock: Any = win.EventClock(lambda reading: START + timedelta(seconds=reading["second"]), now_getter=lambda: START)
    windower = win.TumblingWindower(timedelta(seconds=10), START)
    counts = win.count_window("count", readings, clock, windower, lambda reading: reading["sensor"])
    sent = op.map("send", counts.down, lambda pair: KafkaSinkMessage(pair[0].encode(), str(pair[1]).encode()))
    kop.output("out", sent, brokers=[servers], topic="bytewax-out")
    return flow


def _messages(servers: str, topic: str) -> list[tuple[bytes, bytes]]:
    settings: dict[str, Any] = {
        "bootstrap.servers": servers,
        "group.id": "test",
        "auto.offset.reset": "earliest",
        "enable.partition.eof": True,
        "enable.auto.commit": False,
    }
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    messages: list[tuple[bytes, bytes]] = []
    while True:
        message = consumer.poll(10)
        assert message is not None
        if message.error() is not None:
            consumer.close()
            return messages
        messages.append((message.key() or b"", message.value() or b""))


@pytest.mark.slow
def test_messages_of_kafka_go_through_windows_and_back(spark: SparkSession, kafka: KafkaServer, tmp_path: Any) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.servers})
    for future in admin.create_topics([NewTopic("bytewax-in", 1), NewTopic("bytewax-out", 1)]).values():
        future.result()
    producer = Producer({"bootstrap.servers": kafka.servers})

    def send(*seconds: float) -> None:
        for second in seconds:
            producer.produce("bytewax-in", json.dumps({"sensor": "s", "second": second}).encode())
        producer.flush()

    errors: list[Any] = []
    config = RecoveryConfig(tmp_path)
    send(1, 2, 11)
    producer.produce("bytewax-in", b"\xff")
    producer.flush()
    run_main(_windows(kafka.servers, errors), recovery_config=config, spark=spark)
    assert _messages(kafka.servers, "bytewax-out") == [(b"s", b"(0, 2)"), (b"s", b"(1, 1)")]
    assert len(errors) == 1
    send(25)
    run_main(_windows(kafka.servers, errors), recovery_config=config, spark=spark)
    assert _messages(kafka.servers, "bytewax-out")[2:] == [(b"s", b"(2, 1)")], "a message is read once"


def test_what_cannot_be_right_of_kafka_is_rejected_with_the_fix() -> None:
    with pytest.raises(InvalidArgumentError, match=r"brokers=\['localhost:9092'\]"):
        KafkaSource("localhost:9092", ["orders"])
    with pytest.raises(InvalidArgumentError, match=r"topics=\['orders'\]"):
        KafkaSource(["localhost:9092"], "orders")
    message = KafkaSourceMessage(b"k", b"v", "orders", [("h", b"1")])
    assert message.to_sink() == KafkaSinkMessage(b"k", b"v", headers=[("h", b"1")])
    part = KafkaSink(["localhost:9092"], None, {"log_level": 0}).build("out", 0, 1)
    with pytest.raises(InvalidArgumentError, match="KafkaSinkMessage"):
        part.write_batch([b"v"])
    with pytest.raises(InvalidArgumentError, match="has no topic"):
        part.write_batch([KafkaSinkMessage(b"k", b"v")])
