"""Kafka from this process, without Spark: the only file that uses its client."""

from __future__ import annotations

import heapq
import uuid
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from mullion.errors import InvalidArgumentError, MullionError, UnsupportedError

_WAIT_SECONDS = 30.0
_MOST_BYTES = 1_000_000_000


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
    rows = list(rows)
    for _, _, us in rows:
        if us < 1000:
            raise InvalidArgumentError(
                f"timestamps has {us / 1_000_000}, which Kafka's client takes for no time at all. Give times of a "
                "millisecond after the epoch or later."
            )
    producer = kafka.Producer(
        _settings(servers)
        | {
            "enable.idempotence": True,
            "delivery.timeout.ms": int(_WAIT_SECONDS * 1000),
            # As Kafka's own client, and so Spark, which a program publishes with: one key is in one partition.
            "partitioner": "murmur2_random",
            # How large a row may be is for the broker to say.
            "message.max.bytes": _MOST_BYTES,
        }
    )
    # What became of each row: nothing yet, None for acknowledged, or an error.
    fates: list[Any] = [...] * len(rows)
    refused = False

    def is_fate_of(row: int, error: Any) -> None:
        nonlocal refused
        fates[row] = error
        refused = refused or error is not None

    for row, (key, value, us) in enumerate(rows):
        try:
            _send(producer, topic, key, value, us // 1000, lambda error, _, row=row: is_fate_of(row, error))
        except kafka.KafkaException as theirs:
            is_fate_of(row, theirs.args[0])
        if refused:
            break
    producer.flush(_WAIT_SECONDS)
    failed = [row for row, fate in enumerate(fates) if fate is not None]
    if failed:
        raise _not_sent(servers, topic, rows, fates, failed[0])


def _send(producer: Any, topic: str, key: str | None, value: bytes, ms: int, delivered: Callable[..., None]) -> None:
    while True:
        try:
            producer.produce(topic, value, key, timestamp=ms, on_delivery=delivered)
            producer.poll(0)
            return
        except BufferError:
            producer.poll(0.1)


def _not_sent(
    servers: str, topic: str, rows: list[tuple[str | None, bytes, int]], fates: list[Any], first: int
) -> MullionError:
    kafka = _client()
    there = sum(fate is None for fate in fates)
    large = [
        row
        for row, fate in enumerate(fates)
        if fate is not None and fate is not ... and fate.code() == kafka.KafkaError.MSG_SIZE_TOO_LARGE
    ]
    counts = f"{there} of the {len(rows)} rows are in the topic, {first} of them before data[{first}]"
    if large:
        row = max(large, key=lambda row: len(rows[row][1]))
        return InvalidArgumentError(
            f"Topic {topic!r}: data[{row}] has {len(rows[row][1])} bytes as JSON, and Kafka at {servers} takes no row "
            f"so large. {counts}: send the others again. The topic's limit is max.message.bytes; make rows smaller, or "
            "raise it."
        )
    error = next((fate for fate in fates if fate is not None and fate is not ...), "no answer")
    return MullionError(
        f"{len(rows) - there} of {len(rows)} rows were not acknowledged by Kafka at {servers}, and may not be "
        f"in topic {topic!r}: {error}. {counts}."
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
