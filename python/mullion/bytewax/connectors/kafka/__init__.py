"""Kafka as a source and a sink, as in ``bytewax.connectors.kafka``. Requires the package's extra ``kafka``.

The driver reads messages. The log of inputs stores the offsets of partitions with the messages, so each message is read
once. Messages are written at least once, as in Bytewax.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final, Generic, TypeVar

from mullion._util.install import pip_install
from mullion.bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
from mullion.bytewax.outputs import DynamicSink, StatelessSinkPartition
from mullion.errors import FunctionError, InvalidArgumentError, UnsupportedError

__all__ = [
    "OFFSET_BEGINNING",
    "KafkaError",
    "KafkaSink",
    "KafkaSinkMessage",
    "KafkaSource",
    "KafkaSourceMessage",
]

K = TypeVar("K")
V = TypeVar("V")

OFFSET_BEGINNING: Final = -2
"""The offset of the earliest available message."""


@dataclass(frozen=True)
class KafkaSourceMessage(Generic[K, V]):
    """A message from Kafka."""

    key: K
    value: V
    topic: str | None = None
    headers: list[tuple[str, bytes]] = field(default_factory=list)
    latency: float | None = None
    offset: int | None = None
    partition: int | None = None
    timestamp: tuple[int, int] | None = None

    def to_sink(self) -> KafkaSinkMessage[K, V]:
        """Converts the message for a sink. The sink determines the topic."""
        return KafkaSinkMessage(self.key, self.value, headers=self.headers)

    def _with_key(self, key: Any) -> KafkaSourceMessage[Any, V]:
        return replace(self, key=key)

    def _with_value(self, value: Any) -> KafkaSourceMessage[K, Any]:
        return replace(self, value=value)

    def _with_key_and_value(self, key: Any, value: Any) -> KafkaSourceMessage[Any, Any]:
        return replace(self, key=key, value=value)


@dataclass(frozen=True)
class KafkaSinkMessage(Generic[K, V]):
    """A message to write to Kafka."""

    key: K
    value: V
    topic: str | None = None
    headers: list[tuple[str, bytes]] = field(default_factory=list)
    partition: int | None = None
    timestamp: int = 0

    def _with_key(self, key: Any) -> KafkaSinkMessage[Any, V]:
        return replace(self, key=key)

    def _with_value(self, value: Any) -> KafkaSinkMessage[K, Any]:
        return replace(self, value=value)

    def _with_key_and_value(self, key: Any, value: Any) -> KafkaSinkMessage[Any, Any]:
        return replace(self, key=key, value=value)


@dataclass(frozen=True)
class KafkaError(Generic[K, V]):
    """A message that could not be read or decoded, with the text of the error of Kafka or of the decoder."""

    err: str
    msg: KafkaSourceMessage[K, V]


def _client() -> Any:
    try:
        import confluent_kafka
        import confluent_kafka.admin
    except ImportError as missing:
        raise UnsupportedError(
            f"Kafka needs its client, which is an extra of this package: {pip_install('kafka')}"
        ) from missing
    return confluent_kafka


def _names(name: str, names: Any, example: str) -> list[str]:
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise InvalidArgumentError(
            f"{name}={names!r} ({type(names).__name__}) is not a list. Write {name}=[{example}]."
        )
    return list(names)


class _Partition(StatefulSourcePartition[Any, Any]):
    def __init__(
        self, config: dict[str, Any], topic: str, number: int, offset: int, batch_size: int, raise_on_errors: bool
    ) -> None:
        client = _client()
        self._ended_code = client.KafkaError._PARTITION_EOF
        self._consumer = client.Consumer(config)
        self._consumer.assign([client.TopicPartition(topic, number, offset)])
        self._topic = topic
        self._offset = offset
        self._batch_size = batch_size
        self._raise_on_errors = raise_on_errors
        self._ended = False

    def next_batch(self) -> list[Any]:
        if self._ended:
            raise StopIteration
        messages: list[Any] = []
        for message in self._consumer.consume(self._batch_size, 0.001):
            error = message.error()
            if error is not None and error.code() == self._ended_code:
                self._ended = True
                break
            if error is not None and self._raise_on_errors:
                raise FunctionError(f"Kafka's topic {self._topic!r} could not be read: {error}")
            read = KafkaSourceMessage(
                message.key(),
                message.value(),
                message.topic(),
                message.headers() or [],
                message.latency(),
                message.offset(),
                message.partition(),
                message.timestamp(),
            )
            messages.append(read if error is None else KafkaError(str(error), read))
            if message.offset() is not None and message.offset() >= 0:
                self._offset = message.offset() + 1
        return messages

    def snapshot(self) -> int:
        return self._offset

    def close(self) -> None:
        self._consumer.close()


class KafkaSource(FixedPartitionedSource[Any, Any]):
    """The messages of topics, as :class:`KafkaSourceMessage` of bytes.

    - ``brokers``, ``topics``: lists of names.
    - ``tail``: True to wait for new messages at the end of a partition; False to end the input there.
    - ``starting_offset``: the offset in each partition for the first run.
    - ``add_config``: additional settings of librdkafka.
    - ``batch_size``: the maximum number of messages in a batch.
    - ``raise_on_errors``: True if an error of Kafka fails the run; False to emit a :class:`KafkaError` as an item.
    """

    def __init__(
        self,
        brokers: Iterable[str],
        topics: Iterable[str],
        tail: bool = True,
        starting_offset: int = OFFSET_BEGINNING,
        add_config: dict[str, Any] | None = None,
        batch_size: int = 1000,
        raise_on_errors: bool = True,
    ) -> None:
        self._brokers = _names("brokers", brokers, "'localhost:9092'")
        self._topics = _names("topics", topics, "'orders'")
        self._tail = tail
        self._starting_offset = starting_offset
        self._add_config = dict(add_config or {})
        self._batch_size = batch_size
        self._raise_on_errors = raise_on_errors

    def _config(self) -> dict[str, Any]:
        return {"bootstrap.servers": ",".join(self._brokers), **self._add_config}

    def list_parts(self) -> list[str]:
        """The partitions of the topics, as ``number-topic``."""
        admin = _client().admin.AdminClient(self._config())
        parts = []
        for topic in self._topics:
            metadata = admin.list_topics(topic, timeout=30).topics[topic]
            if metadata.error is not None:
                raise InvalidArgumentError(f"Kafka has no topic {topic!r} to read: {metadata.error.str()}.")
            parts += [f"{number}-{topic}" for number in sorted(metadata.partitions)]
        return parts

    def build_part(self, step_id: str, for_part: str, resume_state: Any) -> _Partition:
        """Opens a partition."""
        number, topic = for_part.split("-", 1)
        config = {
            # Offsets are stored in the log of inputs instead of Kafka.
            "group.id": "mullion-bytewax",
            "enable.auto.commit": "false",
            "enable.partition.eof": str(not self._tail).lower(),
            **self._config(),
        }
        offset = self._starting_offset if resume_state is None else resume_state
        return _Partition(config, topic, int(number), offset, self._batch_size, self._raise_on_errors)


class _Producing(StatelessSinkPartition[Any]):
    def __init__(self, config: dict[str, Any], topic: str | None) -> None:
        self._producer = _client().Producer(config)
        self._topic = topic

    def write_batch(self, items: list[Any]) -> None:
        failed: list[Any] = []
        for message in items:
            if not isinstance(message, KafkaSinkMessage):
                raise InvalidArgumentError(
                    f"{message!r} ({type(message).__name__}) is not a KafkaSinkMessage. Map items to "
                    "KafkaSinkMessage(key, value) before the output."
                )
            topic = self._topic if message.topic is None else message.topic
            if topic is None:
                raise InvalidArgumentError(f"{message!r} has no topic, and neither has the sink. Give one of them one.")
            settings: dict[str, Any] = {} if message.partition is None else {"partition": message.partition}
            self._producer.produce(
                topic,
                value=message.value,
                key=message.key,
                headers=message.headers,
                timestamp=message.timestamp,
                on_delivery=lambda error, _: failed.append(error) if error is not None else None,
                **settings,
            )
            self._producer.poll(0)
        self._producer.flush()
        if failed:
            raise FunctionError(f"Kafka did not take {len(failed)} of {len(items)} messages: {failed[0]}")

    def close(self) -> None:
        self._producer.flush()


class KafkaSink(DynamicSink[Any]):
    """Writes :class:`KafkaSinkMessage` to the topic of the message, or to ``topic`` if it has none."""

    def __init__(self, brokers: Iterable[str], topic: str | None, add_config: dict[str, Any] | None = None) -> None:
        self._brokers = _names("brokers", brokers, "'localhost:9092'")
        self._topic = topic
        self._add_config = dict(add_config or {})

    def build(self, step_id: str, worker_index: int, worker_count: int) -> _Producing:
        """Opens the part."""
        config = {"bootstrap.servers": ",".join(self._brokers), **self._add_config}
        return _Producing(config, self._topic)
