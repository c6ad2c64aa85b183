"""Kafka operators, as in ``bytewax.connectors.kafka.operators``. They emit errors as a separate stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from mullion.bytewax import operators as op
from mullion.bytewax.connectors.kafka import (
    OFFSET_BEGINNING,
    KafkaError,
    KafkaSink,
    KafkaSinkMessage,
    KafkaSource,
    KafkaSourceMessage,
)
from mullion.bytewax.dataflow import Dataflow, Stream, operator

__all__ = [
    "KafkaOpOut",
    "deserialize",
    "deserialize_key",
    "deserialize_value",
    "input",
    "output",
    "serialize",
    "serialize_key",
    "serialize_value",
]

X = TypeVar("X")
E = TypeVar("E")


@dataclass(frozen=True)
class KafkaOpOut(Generic[X, E]):
    """A stream of messages, and a stream of :class:`KafkaError` for messages that could not be read or decoded."""

    oks: Stream[X]
    errs: Stream[E]


def _is_message(item: Any) -> bool:
    return isinstance(item, KafkaSourceMessage)


@operator
def _split(step_id: str, up: Stream[Any]) -> KafkaOpOut[Any, Any]:
    sides = op.branch("branch", up, _is_message)
    return KafkaOpOut(sides.trues, sides.falses)


def _to_sink(message: Any) -> Any:
    return message.to_sink() if isinstance(message, KafkaSourceMessage) else message


@operator
def input(  # noqa: A001
    step_id: str,
    flow: Dataflow,
    *,
    brokers: list[str],
    topics: list[str],
    tail: bool = True,
    starting_offset: int = OFFSET_BEGINNING,
    add_config: dict[str, Any] | None = None,
    batch_size: int = 1000,
) -> KafkaOpOut[Any, Any]:
    """Reads topics. See :class:`KafkaSource`."""
    source = KafkaSource(brokers, topics, tail, starting_offset, add_config, batch_size, raise_on_errors=False)
    streams: KafkaOpOut[Any, Any] = _split("split_err", op.input("kafka_input", flow, source))
    return streams


@operator
def output(
    step_id: str, up: Stream[Any], *, brokers: list[str], topic: str, add_config: dict[str, Any] | None = None
) -> None:
    """Writes messages to a topic. A :class:`KafkaSourceMessage` is converted with ``to_sink()``."""
    op.output("kafka_output", op.map("to_sink", up, _to_sink), KafkaSink(brokers, topic, add_config))


def _coded(message: Any, coders: Mapping[str, Any]) -> Any:
    from confluent_kafka.serialization import MessageField, SerializationContext

    fields = {
        name: coder(getattr(message, name), SerializationContext(message.topic, MessageField(name)))
        for name, coder in coders.items()
    }
    return replace(message, **fields)


def _deserialized(up: Stream[Any], **deserializers: Any) -> KafkaOpOut[Any, Any]:
    """Decodes fields of messages. Failures become :class:`KafkaError`."""

    def decoded(message: Any) -> Any:
        try:
            return _coded(message, deserializers)
        except Exception as error:
            return KafkaError(f"{type(error).__name__}: {error}", message)

    streams: KafkaOpOut[Any, Any] = _split("split", op.map("map", up, decoded))
    return streams


def _serialized(up: Stream[Any], **serializers: Any) -> Stream[Any]:
    messages: Stream[Any] = op.map("map", up, lambda message: _coded(_to_sink(message), serializers))
    return messages


@operator
def deserialize_key(step_id: str, up: Stream[Any], deserializer: Any) -> KafkaOpOut[Any, Any]:
    """Decodes keys with a deserializer of ``confluent_kafka``."""
    return _deserialized(up, key=deserializer)


@operator
def deserialize_value(step_id: str, up: Stream[Any], deserializer: Any) -> KafkaOpOut[Any, Any]:
    """Decodes values with a deserializer of ``confluent_kafka``."""
    return _deserialized(up, value=deserializer)


@operator
def deserialize(step_id: str, up: Stream[Any], *, key_deserializer: Any, val_deserializer: Any) -> KafkaOpOut[Any, Any]:
    """Decodes keys and values with deserializers of ``confluent_kafka``."""
    return _deserialized(up, key=key_deserializer, value=val_deserializer)


@operator
def serialize_key(step_id: str, up: Stream[Any], serializer: Any) -> Stream[KafkaSinkMessage[bytes, Any]]:
    """Encodes keys with a serializer of ``confluent_kafka``."""
    return _serialized(up, key=serializer)


@operator
def serialize_value(step_id: str, up: Stream[Any], serializer: Any) -> Stream[KafkaSinkMessage[Any, bytes]]:
    """Encodes values with a serializer of ``confluent_kafka``."""
    return _serialized(up, value=serializer)


@operator
def serialize(
    step_id: str, up: Stream[Any], *, key_serializer: Any, val_serializer: Any
) -> Stream[KafkaSinkMessage[bytes, bytes]]:
    """Encodes keys and values with serializers of ``confluent_kafka``."""
    return _serialized(up, key=key_serializer, value=val_serializer)
