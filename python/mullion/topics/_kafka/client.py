"""Kafka from this process, without Spark. Only this module and ``transactions`` use its client."""

from __future__ import annotations

import functools
import heapq
import logging
import operator
import re
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias, final

from mullion._util.install import pip_install
from mullion.errors import InvalidArgumentError, MullionError, UnsupportedError
from mullion.topics._kafka.options import KafkaOptions
from mullion.topics._records import Headers

_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")

BATCHES = "__mullion_batches"
"""The topic that records which batches of each query are in topics."""

WAIT_SECONDS = 30.0
MOST_BYTES = 1_000_000_000

BATCH_BYTES = 1_000_000
"""The approximate size of a group of rows that is sent at once, in bytes."""

IN_ORDER = {"max.in.flight.requests.per.connection": 1}
"""One request at a time: the next is sent after Kafka has answered.

From a producer that is new in a partition, Kafka accepts any batch as the first one (KAFKA-15591; before Kafka 4.5 also
in an empty partition). If two requests are in flight and the first fails for a moment, as in a topic that was just
created, Kafka may accept the second. It then rejects the first for ever, and librdkafka reports it as delivered.
"""

ENDING_SECONDS = 5.0
"""The time that a reader waits for transactions to end: Kafka answers a commit before readers see its rows."""


class Record(NamedTuple):
    """A record; ``ms`` is its time, in milliseconds since the epoch."""

    partition: int
    offset: int
    ms: int
    key: str | None
    value: bytes | None
    headers: Headers = ()


@final
@dataclass(frozen=True, slots=True)
class Cluster:
    """The location of Kafka, and its connection options. As text it is its servers, for messages."""

    servers: str
    options: KafkaOptions = field(default_factory=KafkaOptions)

    def __str__(self) -> str:
        return self.servers


At: TypeAlias = str | Cluster
"""A cluster, or the servers of one that needs no options."""


def require_name(topic: object, parameter: str = "topic") -> None:
    """Raises :class:`InvalidArgumentError` for an invalid topic name; ``parameter`` is its source."""
    if not isinstance(topic, str) or not _NAME.fullmatch(topic) or topic in (".", ".."):
        raise InvalidArgumentError(
            f"{parameter}={topic!r} is not a topic's name. Use letters, digits, '.', '_' and '-', 249 at most."
        )


def require_topic(topic: object, parameter: str = "topic") -> None:
    """The same for a topic to write to, which must not be the one for batches."""
    require_name(topic, parameter)
    if topic == BATCHES:
        raise InvalidArgumentError(
            f"{parameter}={topic!r} is where publishers note which batches are in topics: with other rows in it, "
            "batches would be published twice or not at all. Write to another topic."
        )


def make(servers: At, topic: str, partitions: int = -1, config: Mapping[str, str] | None = None) -> None:
    """Creates a topic with the cluster's defaults, or others, if it does not exist."""
    kafka = client()
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

    admin = connect(AdminClient, servers)
    if topic in _metadata(admin, servers).topics:
        return
    new_topic = NewTopic(topic, num_partitions=partitions, replication_factor=-1, config=dict(config or {}))
    try:
        admin.create_topics([new_topic], request_timeout=WAIT_SECONDS)[topic].result()
    except kafka.KafkaException as cause:
        if cause.args[0].code() != kafka.KafkaError.TOPIC_ALREADY_EXISTS:
            raise MullionError(f"Topic {topic!r} cannot be made in Kafka at {servers}: {cause}") from cause


def topics(servers: At) -> list[str]:
    """The names of all topics, except Kafka's and Mullion's own."""
    client()
    from confluent_kafka.admin import AdminClient

    metadata = _metadata(connect(AdminClient, servers), servers).topics
    return sorted(topic for topic in metadata if not topic.startswith("__"))


def require_time(us: int) -> None:
    """Raises :class:`InvalidArgumentError` for a time, in microseconds, that Kafka's client does not accept."""
    if us < 1000:
        raise InvalidArgumentError(
            f"timestamps has {us / 1_000_000}, which Kafka's client takes for no time at all. Give times of a "
            "millisecond after the epoch or later."
        )


def produce(
    servers: At,
    topic: str,
    rows: Iterable[tuple[str | None, bytes, int]],
    headers: Sequence[Headers] | None = None,
) -> None:
    """Sends rows (key, value, time in microseconds) and waits until all are acknowledged."""
    kafka = client()
    rows = list(rows)
    for _, _, us in rows:
        require_time(us)
    # Rows are sent in batches, whose size may exceed Kafka's limit although each row does not.
    limit = limit_of(servers, topic) if len(rows) > 1 else None
    how = {
        "batch.size": BATCH_BYTES if limit is None else min(limit, BATCH_BYTES),
        "enable.idempotence": True,
        **IN_ORDER,
        "delivery.timeout.ms": int(WAIT_SECONDS * 1000),
        # The default of Kafka's own client, and of Spark: a key is always in the same partition.
        "partitioner": "murmur2_random",
        # The broker limits the size of a row.
        "message.max.bytes": MOST_BYTES,
    }
    producer = connect(kafka.Producer, servers, how)
    # The result of each row: ``...`` before there is one, None for acknowledged, or an error.
    fates: list[Any] = [...] * len(rows)
    refused = False

    def is_fate_of(row: int, error: Any, _: Any = None) -> None:
        nonlocal refused
        fates[row] = error
        refused = refused or error is not None

    for row, (key, value, us) in enumerate(rows):
        try:
            fate = functools.partial(is_fate_of, row)
            _send(producer, topic, key, value, us // 1000, headers[row] if headers else (), fate)
        except kafka.KafkaException as cause:
            is_fate_of(row, cause.args[0])
        if refused:
            break
    producer.flush(WAIT_SECONDS)
    failed = [row for row, fate in enumerate(fates) if fate is not None]
    if failed:
        raise _not_sent(servers, topic, rows, fates, failed[0])


def _send(
    producer: Any,
    topic: str,
    key: str | None,
    value: bytes,
    ms: int,
    headers: Headers,
    delivered: Callable[..., None],
) -> None:
    while True:
        try:
            producer.produce(topic, value, key, timestamp=ms, headers=list(headers), on_delivery=delivered)
            producer.poll(0)
            return
        except BufferError:
            producer.poll(0.1)


def _not_sent(
    servers: At, topic: str, rows: list[tuple[str | None, bytes, int]], fates: list[Any], first: int
) -> MullionError:
    kafka = client()
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


def limit_of(servers: At, topic: str) -> int | None:
    """The maximum size of a batch of a topic, in bytes; ``None`` if unknown."""
    kafka = client()
    from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]

    # A client must outlive its calls.
    admin, of_topic = connect(AdminClient, servers), ConfigResource(ConfigResource.Type.TOPIC, topic)
    try:
        futures = admin.describe_configs([of_topic], request_timeout=WAIT_SECONDS)
        return int(futures[of_topic].result()["max.message.bytes"].value)
    except (kafka.KafkaException, KeyError):
        return None


def read(servers: At, topic: str, last: int | None = None) -> list[Record]:
    """The records of a topic, or the ``last`` ones of each partition; none if the topic does not exist.

    Returns the records at the time of the call, of committed transactions. An open one has :data:`ENDING_SECONDS` to
    end; then its partition is read up to it.
    """
    ends, _ = _visible(servers, [topic])
    partitions = _read(servers, topic, {number: end for (_, number), end in ends.items()}, WAIT_SECONDS, last)
    return list(heapq.merge(*partitions.values(), key=lambda record: record.ms))


def read_settled(servers: At, topic: str, number: int, seconds: float) -> list[Record]:
    """All records of a partition, after waiting up to ``seconds`` for open transactions."""
    kafka = client()
    from confluent_kafka.admin import AdminClient

    try:
        (end,) = _ends(connect(AdminClient, servers), [kafka.TopicPartition(topic, number)], committed=False)
    except kafka.KafkaException as cause:
        raise MullionError(f"Topic {topic!r} cannot be read from Kafka at {servers}: {cause}") from cause
    return _read(servers, topic, {number: end}, seconds + WAIT_SECONDS)[number]


def wait_for_open(servers: At, topics: Iterable[str]) -> bool:
    """Waits until the currently open transactions of topics have ended. Returns whether they have.

    It waits for :data:`ENDING_SECONDS`; one whose producer was killed stays open for longer.
    """
    _, ended = _visible(servers, topics)
    return ended


def _visible(servers: At, topics: Iterable[str]) -> tuple[dict[tuple[str, int], int], bool]:
    """Waits likewise. Returns the end of the committed records of each partition, and whether all have ended."""
    kafka = client()
    from confluent_kafka.admin import AdminClient

    admin = connect(AdminClient, servers)
    there = _metadata(admin, servers).topics
    # The time of Kafka's first response does not count.
    until = time.monotonic() + ENDING_SECONDS
    places = [(topic, number) for topic in topics if topic in there for number in there[topic].partitions]
    partitions = [kafka.TopicPartition(topic, number) for topic, number in places]
    ends: list[int] | None = None
    while partitions:
        try:
            ends = ends or _ends(admin, partitions, committed=False)
            visible = _ends(admin, partitions, committed=True)
            ended = not any(map(operator.lt, visible, ends))
            if ended or time.monotonic() > until:
                return dict(zip(places, visible, strict=True)), ended
        except kafka.KafkaException as cause:
            names = ", ".join(map(repr, topics))
            raise MullionError(f"Kafka at {servers} does not say how far {names} can be read: {cause}") from cause
        time.sleep(_ASKED_AGAIN_SECONDS)
    return {}, True


_ASKED_AGAIN_SECONDS = 0.01


def _ends(admin: Any, partitions: Sequence[Any], *, committed: bool) -> list[int]:
    """The ends of partitions, of committed or of all records. Waits for partitions that have no leader yet."""
    kafka = client()
    from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

    level = kafka.IsolationLevel.READ_COMMITTED if committed else kafka.IsolationLevel.READ_UNCOMMITTED
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    # KafkaError.retriable() is always False for these.
    leaderless = (kafka.KafkaError.LEADER_NOT_AVAILABLE, kafka.KafkaError.NOT_LEADER_FOR_PARTITION)
    until = time.monotonic() + WAIT_SECONDS
    while True:
        futures = admin.list_offsets(
            dict.fromkeys(partitions, latest), isolation_level=level, request_timeout=WAIT_SECONDS
        )
        try:
            return [futures[partition].result().offset for partition in partitions]
        except kafka.KafkaException as cause:
            if cause.args[0].code() not in leaderless or time.monotonic() > until:
                raise
        time.sleep(_ASKED_AGAIN_SECONDS)


def _consumer(servers: At) -> Any:
    how = {
        "group.id": f"mullion-{uuid.uuid4().hex}",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
        # Deleted records are skipped.
        "auto.offset.reset": "earliest",
        # Detects the end of a partition quickly.
        "fetch.wait.max.ms": 10,
    }
    return connect(client().Consumer, servers, how)


def _read(
    servers: At, topic: str, ends: Mapping[int, int], seconds: float, last: int | None = None
) -> dict[int, list[Record]]:
    """The records of partitions before an offset of each, for which it waits; or the ``last`` ones before it."""
    kafka = client()
    partitions: dict[int, list[Record]] = {number: [] for number in ends}
    open_ones = {number for number, end in ends.items() if end > 0}
    if not open_ones:
        return partitions
    starts = {
        number: kafka.OFFSET_BEGINNING if last is None else max(0, ends[number] - last) for number in sorted(open_ones)
    }
    consumer = _consumer(servers)
    try:
        consumer.assign([kafka.TopicPartition(topic, number, start) for number, start in starts.items()])
        while open_ones:
            message = consumer.poll(seconds)
            if message is None:
                raise MullionError(f"Kafka at {servers} stopped answering while topic {topic!r} was read.")
            number, error = message.partition(), message.error()
            if error is None:
                if message.offset() < ends[number]:
                    partitions[number].append(_record(message))
                next_one = message.offset() + 1
            elif error.code() == kafka.KafkaError._PARTITION_EOF:
                # The last offsets may be invisible: the ends of transactions, and compacted records.
                next_one = message.offset()
            else:
                raise MullionError(f"Topic {topic!r} cannot be read from Kafka at {servers}: {error}")
            if next_one >= ends[number]:
                open_ones.discard(number)
    finally:
        consumer.close()
    return partitions


def _record(message: Any) -> Record:
    key = message.key()
    _, ms = message.timestamp()
    text = None if key is None else key.decode("utf-8", "replace")
    return Record(message.partition(), message.offset(), ms, text, message.value(), message.headers() or ())


def _metadata(asking: Any, servers: At) -> Any:
    kafka = client()
    try:
        # Of all topics: a request for one may create it.
        return asking.list_topics(timeout=WAIT_SECONDS)
    except kafka.KafkaException as cause:
        refused = _refusal(servers)
        if refused is not None:
            raise MullionError(
                f"Kafka at {servers} rejects this program: {refused}. Check the options of the broker."
            ) from cause
        raise MullionError(
            f"Kafka at {servers} does not answer: {cause.args[0].str()}. Is it running, and can this machine reach it?"
        ) from cause


def _refusal(servers: At) -> str | None:
    """The reason for which Kafka rejects the connection, which it reports separately."""
    if not isinstance(servers, Cluster) or not servers.options:
        return None
    kafka = client()
    refusals = (kafka.KafkaError._AUTHENTICATION, kafka.KafkaError._SSL)
    from confluent_kafka.admin import AdminClient

    messages: list[Any] = []
    asking = connect(AdminClient, servers, {"error_cb": messages.append})
    until = time.monotonic() + _REFUSED_SECONDS
    while time.monotonic() < until:
        asking.poll(0.2)
        for error in messages:
            if error.code() in refusals:
                return servers.options.hidden_in(error.str())
    return None


_REFUSED_SECONDS = 5.0


def connect(kind: Any, servers: At, how: Mapping[str, Any] | None = None) -> Any:
    """Creates a client of a kind. Raises :class:`InvalidArgumentError` for unsupported options."""
    kafka = client()
    options = servers.options if isinstance(servers, Cluster) else KafkaOptions()
    # Errors are raised, so the client's own log would repeat them. Its error callback is not called for fatal errors,
    # but may raise within other callbacks.
    ours = {"bootstrap.servers": str(servers), "log_level": 0, "logger": _SILENT}
    try:
        return kind({**ours, **(how or {}), **options.client()})
    except kafka.KafkaException as cause:
        reason = options.hidden_in(cause.args[0].str())
    # Without the original error, which may contain a secret.
    raise InvalidArgumentError(f"Kafka's client rejects an option of the broker: {reason}")


_SILENT = logging.Logger("confluent_kafka", logging.CRITICAL + 1)


def client() -> Any:
    """Kafka's client; raises :class:`UnsupportedError` if it is not installed."""
    try:
        import confluent_kafka
    except ImportError as missing:
        raise UnsupportedError(
            f"Topics of Kafka need its client, which is an extra of this package: {pip_install('kafka')}"
        ) from missing
    return confluent_kafka
