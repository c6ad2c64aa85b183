"""Kafka from this process, without Spark: the only file that uses its client."""

from __future__ import annotations

import heapq
import uuid
from collections.abc import Iterable
from typing import Any, NamedTuple

from mullion.errors import InvalidArgumentError, MullionError, UnsupportedError

_WAIT_SECONDS = 30.0


class Record(NamedTuple):
    """A record as it was read; ``ms`` is its time, in milliseconds since the epoch."""

    partition: int
    offset: int
    ms: int
    key: str | None
    value: bytes | None


def make(servers: str, topic: str) -> None:
    """Makes a topic with the cluster's defaults, if it is not there."""
    kafka = _client()
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

    admin = AdminClient(_settings(servers))
    if topic in _metadata(admin, servers).topics:
        return
    asked = NewTopic(topic, num_partitions=-1, replication_factor=-1)
    try:
        admin.create_topics([asked], request_timeout=_WAIT_SECONDS)[topic].result()
    except kafka.KafkaException as theirs:
        if theirs.args[0].code() != kafka.KafkaError.TOPIC_ALREADY_EXISTS:
            raise MullionError(f"Topic {topic!r} cannot be made in Kafka at {servers}: {theirs}") from theirs


def produce(servers: str, topic: str, rows: Iterable[tuple[str | None, bytes, int]]) -> None:
    """Sends rows (key, value, time in microseconds) and waits until all are acknowledged."""
    kafka = _client()
    producer = kafka.Producer(
        _settings(servers) | {"enable.idempotence": True, "delivery.timeout.ms": int(_WAIT_SECONDS * 1000)}
    )
    failures: list[Any] = []

    def delivered(error: Any, _message: Any) -> None:
        if error is not None:
            failures.append(error)

    rows = list(rows)
    for _, _, us in rows:
        if us < 1000:
            raise InvalidArgumentError(
                f"timestamps has {us / 1_000_000}, which Kafka's client takes for no time at all. Give times of a "
                "millisecond after the epoch or later."
            )
    for key, value, us in rows:
        while True:
            try:
                producer.produce(topic, value, key, timestamp=us // 1000, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.1)
    left = producer.flush(_WAIT_SECONDS)
    if failures or left:
        raise MullionError(
            f"{len(failures) + left} of {len(rows)} rows were not acknowledged by Kafka at {servers}, and may not be "
            f"in topic {topic!r}: {failures[0] if failures else 'no answer'}."
        )


def read(servers: str, topic: str, last: int | None = None) -> list[Record]:
    """The records of a topic, or the ``last`` ones of each partition; none of a topic that is not there."""
    kafka = _client()
    consumer = kafka.Consumer(
        _settings(servers)
        | {"group.id": f"mullion-{uuid.uuid4().hex}", "enable.auto.commit": False, "enable.partition.eof": True}
    )
    try:
        about = _metadata(consumer, servers).topics.get(topic)
        if about is None:
            return []
        starts = []
        for number in about.partitions:
            partition = kafka.TopicPartition(topic, number)
            low, high = consumer.get_watermark_offsets(partition, timeout=_WAIT_SECONDS)
            starts.append(kafka.TopicPartition(topic, number, low if last is None else max(low, high - last)))
        consumer.assign(starts)
        partitions: dict[int, list[Record]] = {start.partition: [] for start in starts}
        open_ones = set(partitions)
        while open_ones:
            message = consumer.poll(_WAIT_SECONDS)
            if message is None:
                raise MullionError(f"Kafka at {servers} stopped answering while topic {topic!r} was read.")
            if message.error() is None:
                partitions[message.partition()].append(_record(message))
            elif message.error().code() == kafka.KafkaError._PARTITION_EOF:
                open_ones.discard(message.partition())
            elif not message.error().retriable():
                raise MullionError(f"Topic {topic!r} cannot be read from Kafka at {servers}: {message.error()}")
        return list(heapq.merge(*partitions.values(), key=lambda record: record.ms))
    finally:
        consumer.close()


def _record(message: Any) -> Record:
    key = message.key()
    _, ms = message.timestamp()
    text = None if key is None else key.decode("utf-8", "replace")
    return Record(message.partition(), message.offset(), ms, text, message.value())


def _metadata(client: Any, servers: str) -> Any:
    kafka = _client()
    try:
        # Of all topics: to ask for one may make it.
        return client.list_topics(timeout=_WAIT_SECONDS)
    except kafka.KafkaException as theirs:
        raise MullionError(
            f"Kafka at {servers} does not answer: {theirs.args[0].str()}. Is it running, and can this machine reach it?"
        ) from theirs


def _settings(servers: str) -> dict[str, Any]:
    # What goes wrong is raised: the client's own log says it in its own words, and once more.
    return {"bootstrap.servers": servers, "log_level": 0, "error_cb": lambda _: None}


def _client() -> Any:
    try:
        import confluent_kafka
    except ImportError as missing:
        raise UnsupportedError(
            "Topics of Kafka need its client, which is an extra of this package: pip install 'mullion[kafka]'."
        ) from missing
    return confluent_kafka
