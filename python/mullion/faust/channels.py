"""Topics and channels: the destinations of messages, and how messages are written and read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import GenericAlias
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, final

from mullion._util.codec.json import plain, text_of
from mullion.errors import InvalidArgumentError, UnsupportedError
from mullion.faust._context import Sent, context
from mullion.faust._public_names.unsupported import missing_attribute
from mullion.faust._settings import Settings
from mullion.faust._values.fields import Reading, ValidationError, reader_of
from mullion.faust._values.times import seconds, time_us
from mullion.faust.models import METADATA, Record, marked, unmarked
from mullion.faust.schemas import Schema
from mullion.faust.streams import Stream
from mullion.topics._broker import NOT_TEXT
from mullion.topics._records import headers_of


class TP(NamedTuple):
    """A topic and one of its partitions."""

    topic: str
    partition: int


@final
@dataclass(frozen=True)
class RecordMetadata:
    """The place of a sent message, as far as it is known before its batch is published.

    It can be awaited, like Faust's, and returns immediately.
    """

    topic: str
    timestamp: float
    partition: int = 0
    offset: int = -1

    @property
    def topic_partition(self) -> TP:
        """The topic and the partition."""
        return TP(self.topic, self.partition)

    def __await__(self) -> Generator[None, None, RecordMetadata]:
        yield from ()
        return self


@final
class FutureMessage:
    """A sent message. It may be awaited, which returns immediately, because sending only records the message."""

    def __init__(self, sent: Sent, timestamp: float) -> None:
        self.message = sent
        self._timestamp = timestamp

    def done(self) -> bool:
        """Always True: the message is recorded."""
        return True

    def result(self) -> RecordMetadata:
        """Returns the place of the message."""
        return RecordMetadata(self.message.to, self._timestamp)

    def __await__(self) -> Generator[None, None, RecordMetadata]:
        yield from ()
        return self.result()


class Channel:
    """A destination of messages, by name.

    ``schema`` holds the types of keys and values, and their serializers; settings supply the rest.
    """

    is_own = False
    """True for a private topic of the program. Records that are sent to it are read as records of the same model."""

    __class_getitem__: ClassVar[Any] = classmethod(GenericAlias)

    def __init__(
        self,
        name: str,
        *,
        key_type: Any = None,
        value_type: Any = None,
        schema: Schema | None = None,
        conf: Settings | None = None,
    ) -> None:
        self.name = name
        self.schema = Schema()
        self._conf = conf
        self.described((schema or Schema()).over(name, key_type, value_type, None, None))

    def __getattr__(self, name: str) -> Any:
        raise missing_attribute("channel", self, name)

    def described(self, schema: Schema) -> None:
        """Adds a schema to the known one."""
        self.schema = self.schema.joined(schema)
        # Keys are text in a broker.
        read_key = _reader(self.key_type, Reading(coerce=True))
        self._keys: Callable[[Any, str], Any] = lambda key, path: None if key is None else read_key(key, path)
        self._values = _reader(self.value_type, Reading(validation=True))

    def typed(self, key_type: Any, value_type: Any) -> None:
        """Sets the types of keys and values."""
        self.described(Schema(key_type=key_type, value_type=value_type))

    @property
    def key_type(self) -> Any:
        """The type of keys, if set."""
        return self.schema.key_type

    @property
    def value_type(self) -> Any:
        """The type of values, if set."""
        return self.schema.value_type

    @property
    def is_raw(self) -> bool:
        """True if values are unchanged text or bytes, not JSON."""
        serializer = self.schema.value_serializer or getattr(_options_of(self.value_type), "serializer", None)
        return (serializer or (self._conf.value_serializer if self._conf is not None else "json")) == "raw"

    @property
    def has_json_keys(self) -> bool:
        """True if keys are JSON, not unchanged text."""
        serializer = self.schema.key_serializer or getattr(_options_of(self.key_type), "serializer", None)
        return (serializer or (self._conf.key_serializer if self._conf is not None else "raw")) == "json"

    def get_topic_name(self) -> str:
        """Returns the name."""
        return self.name

    async def declare(self) -> None:
        """Does nothing: a topic is created with its first message."""

    async def maybe_declare(self) -> None:
        """Does nothing: a topic is created with its first message."""

    def send(
        self,
        *,
        key: Any = None,
        value: Any = None,
        partition: int | None = None,
        timestamp: float | None = None,
        headers: Mapping[str, bytes] | Iterable[tuple[str, bytes]] | None = None,
        schema: Schema | None = None,
        key_serializer: str | None = None,
        value_serializer: str | None = None,
        callback: Callable[[FutureMessage], Any] | None = None,
        force: bool = False,
    ) -> FutureMessage:
        """Sends a message; await the result, as in Faust.

        ``timestamp`` is in seconds since the epoch, by default the time of publication. Only Kafka topics have
        ``headers``. Events of agents have none.

        The serializers and ``schema`` apply to this message only. ``partition`` and ``force`` are accepted and ignored:
        the broker derives the partition from the key. ``callback`` is called immediately with the message.

        Raises :class:`InvalidArgumentError` immediately for a value that cannot be written, and
        :class:`OutsideStreamError` outside of a running program.
        """
        current = context(f"A message was sent to {self.name!r}")
        sent = self.written(key, value, timestamp, headers, schema, key_serializer, value_serializer)
        current.shard.sent.append(sent)
        message = FutureMessage(
            sent, seconds(current.shard.clock.time_us()) if sent.timestamp is None else sent.timestamp
        )
        if callback is not None:
            current.shard.wait(callback(message))
        return message

    def written(
        self,
        key: Any,
        value: Any,
        timestamp: float | None = None,
        headers: Mapping[str, bytes] | Iterable[tuple[str, bytes]] | None = None,
        schema: Schema | None = None,
        key_serializer: str | None = None,
        value_serializer: str | None = None,
    ) -> Sent:
        """Returns the message to be sent. Without ``timestamp`` it gets the time of its publication."""
        how = (schema or Schema()).over(self.name, None, None, key_serializer, value_serializer)
        is_raw = self.is_raw if how.value_serializer is None else how.value_serializer == "raw"
        has_json_keys = self.has_json_keys if how.key_serializer is None else how.key_serializer == "json"
        is_raw = is_raw and value is not None
        return Sent(
            self.name,
            self._key_written(key, has_json_keys),
            self._raw_text(value) if is_raw else self._publishable(self._as_json(value)),
            None if timestamp is None else seconds(time_us(timestamp)),
            _headers_by_name(headers),
            is_raw,
        )

    def send_soon(self, **options: Any) -> FutureMessage:
        """Sends a message, from code that cannot await: see :meth:`send`."""
        options.pop("eager_partitioning", None)
        return self.send(**options)

    def _key_written(self, key: Any, as_json: bool) -> Any:
        if isinstance(key, bytes):
            try:
                return key.decode()
            except UnicodeDecodeError as cause:
                raise InvalidArgumentError(
                    f"The key {key!r} for {self.name!r} is not text in UTF-8, which keys of topics are here: {cause}. "
                    "Write it as text, as in key=key.hex()."
                ) from cause
        plain_key = plain(key, f"key for {self.name!r}")
        return json.dumps(plain_key, ensure_ascii=False) if as_json and plain_key is not None else plain_key

    def _as_json(self, value: Any) -> Any:
        """Converts a value to plain JSON values. Bytes are an already serialized message, as in Faust."""
        if isinstance(value, bytes):
            try:
                return json.loads(value)
            except (ValueError, RecursionError) as cause:
                raise InvalidArgumentError(
                    f"The bytes {value[:80]!r} for {self.name!r} are not JSON: {cause}. Send text, or give the "
                    "topic value_serializer='raw'."
                ) from cause
        if self.is_own and self.value_type is None and isinstance(value, Record):
            return marked(value)
        return plain(value, f"value for {self.name!r}")

    def _raw_text(self, value: Any) -> str:
        """Converts a value to text."""
        if isinstance(value, str):
            return value
        if isinstance(value, bytes):
            try:
                return value.decode()
            except UnicodeDecodeError as cause:
                raise InvalidArgumentError(
                    f"The bytes {value[:80]!r} for {self.name!r} are not text in UTF-8, which messages that are sent "
                    f"from here are: {cause}. Send them as text, as base64.b64encode(value) is."
                ) from cause
        return text_of(self._as_json(value))

    def _publishable(self, value: Any) -> Any:
        """Returns a value that a topic can hold; otherwise raises an error for the event that sends it."""
        if isinstance(value, dict):
            if all(map(_is_short, value)) and all(map(_is_short, value.values())):
                return value
        elif _is_short(value):
            return value
        try:
            text_of(value)
        except (ValueError, RecursionError) as cause:
            raise InvalidArgumentError(
                f"The value for {self.name!r} cannot be stored in a topic: {cause}. Send values that are too "
                "large or too deep as text: str(value)."
            ) from cause
        return value

    def key_of(self, key: Any) -> Any:
        """Converts a key to the topic's type. Raises :class:`ValidationError`."""
        path = f"key of {self.name}"
        if isinstance(key, str):
            if self.key_type is bytes:
                return key.encode("utf-8", "surrogatepass")
            if self.has_json_keys:
                try:
                    key = json.loads(key)
                except (ValueError, RecursionError) as cause:
                    raise ValidationError(path, f"{key!r} is not JSON: {cause}") from cause
        return self._keys(key, path)

    def value_of(self, value: Any, *, is_tombstone: bool = False) -> Any:
        """Converts a value to the topic's type. A tombstone, a message without a value, is ``None``.

        Raises :class:`ValidationError` for a value of another type. JSON's ``null`` needs a type such as
        ``Optional[Order]``.
        """
        path = f"value of {self.name}"
        if value is None and (is_tombstone or self.is_raw or self.value_type is bytes):
            return None
        if self.is_raw:
            return self._of_raw(value, path)
        if self.value_type is bytes:
            return _bytes_of(value)
        if self.value_type is None and type(value) is dict and METADATA in value:
            return unmarked(value)
        return self._values(value, path)

    def _of_raw(self, value: Any, path: str) -> Any:
        if self.value_type in (None, bytes):
            return _bytes_of(value)
        if self.value_type is str:
            return value if isinstance(value, str) else _bytes_of(value).decode("utf-8", "surrogatepass")
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError) as cause:
                raise ValidationError(path, f"{value!r} is not JSON: {cause}") from cause
        return self._values(value, path)


def _headers_by_name(headers: Mapping[str, bytes] | Iterable[tuple[str, bytes]] | None) -> dict[str, bytes]:
    """Returns headers by name. Raises :class:`InvalidArgumentError` for anything but names and bytes."""
    if not headers:
        return {}
    return {name: value or b"" for name, value in headers_of([headers], 1)[0]}  # type: ignore[list-item]


def _bytes_of(value: Any) -> bytes:
    """The bytes of a message: of text directly, of other values as JSON text."""
    if isinstance(value, bytes):
        return value
    text = value if isinstance(value, str) else text_of(plain(value))
    if text.startswith(NOT_TEXT):
        try:
            return bytes.fromhex(text.removeprefix(NOT_TEXT))
        except ValueError:
            # A message with the literal marker text.
            return text.encode("utf-8", "surrogatepass")
    return text.encode("utf-8", "surrogatepass")


def _options_of(kind: Any) -> Any:
    return kind._options if isinstance(kind, type) and issubclass(kind, Record) else None


def _is_short(value: Any) -> bool:
    """True if a plain value certainly fits into JSON."""
    kind = type(value)
    if kind is int:
        return -(2**63) <= value < 2**63  # type: ignore[no-any-return]
    return value is None or kind is str or kind is float or kind is bool


def _reader(kind: Any, how: Reading) -> Callable[[Any, str], Any]:
    """Returns the reader of a topic's type. It rejects values of other types."""
    return (lambda value, path: value) if kind is None else reader_of(kind, how)


class Topic(Channel):
    """A topic by name, with the types of its keys and values."""

    def stream(self, *, processors: Iterable[Callable[[Any], Any]] | None = None, **accepted: Any) -> Stream:
        """Returns the topic's events. Only an agent can iterate over them.

        ``processors`` are applied in order, as :meth:`Stream.add_processor` does. Faust's other parameters have no
        effect, except ``combined``, ``join_strategy`` and ``on_start``, which raise :class:`UnsupportedError`.
        """
        for name in accepted:
            if name in _STREAM_ALTERNATIVES:
                raise UnsupportedError(
                    f"{name}= of the stream of {self.name!r} is not supported. {_STREAM_ALTERNATIVES[name]}"
                )
            if name not in _OF_STREAM:
                raise TypeError(f"stream() got an unexpected keyword argument {name!r}")
        stream = Stream(_Elsewhere(self.name))
        for processor in processors or ():
            stream.add_processor(processor)
        return stream

    def __repr__(self) -> str:
        return f"<Topic: {self.name}>"


_OF_STREAM: Final = frozenset(
    ("active_partitions", "beacon", "concurrency_index", "enable_acks", "loop", "prefix", "prev")
)
"""Parameters of Faust's streams that have no effect here."""

_JOIN: Final = "Keep the events of one topic in a table, and read it in the agent of the other topic."
_STREAM_ALTERNATIVES: Final = {
    "combined": _JOIN,
    "join_strategy": _JOIN,
    "on_start": "Write the function as an @app.task, which runs once when the program starts.",
}


def compiled(pattern: Any, names: Sequence[str]) -> re.Pattern[str]:
    """Compiles the pattern of topics, which excludes ``names``. Raises :class:`InvalidArgumentError`."""
    if names:
        raise InvalidArgumentError(
            f"topic({', '.join(map(repr, names))}, pattern={pattern!r}) has names and a pattern. Give one of them."
        )
    try:
        return re.compile(pattern)
    except (re.error, TypeError) as cause:
        raise InvalidArgumentError(
            f"pattern={pattern!r} is not a regular expression: {cause}. Write, for instance, pattern='orders-.*'."
        ) from cause


@final
class TopicPattern(Topic):
    """All topics whose names match a pattern, from their beginning: see :meth:`Program.topic`."""

    def __init__(self, pattern: re.Pattern[str], about: tuple[Any, ...], conf: Settings | None) -> None:
        super().__init__(pattern.pattern, conf=conf)
        self.pattern = pattern
        self.about = about

    def send(self, **options: Any) -> FutureMessage:
        """Raises :class:`InvalidArgumentError`: a message has one topic."""
        raise InvalidArgumentError(
            f"A message was sent to the topics that match {self.pattern.pattern!r}, and a message is for one. Send it "
            "to that one: app.topic('events').send(...)."
        )

    def __repr__(self) -> str:
        return f"<TopicPattern: {self.pattern.pattern}>"


@final
class Topics(Topic):
    """Several topics of one kind: an agent reads all, and messages go to the first."""

    def __init__(self, first: Topic, others: Sequence[Topic]) -> None:
        super().__init__(first.name, schema=first.schema, conf=first._conf)
        self.others = tuple(others)


@final
class _Elsewhere:
    """The source of a stream outside of agents."""

    def __init__(self, topic: str) -> None:
        self._topic = topic

    async def next(self, steps: Any, more: bool = False) -> Any:
        """Raises :class:`InvalidArgumentError`."""
        raise InvalidArgumentError(
            f"The stream of {self._topic!r} is read outside of an agent, where it has no events. Write an agent: "
            f"@app.agent({self._topic})."
        )

    def has_next(self) -> bool:
        """Always False."""
        return False

    def becomes(self, event: Any) -> None:
        """Does nothing: no event is processed."""


__all__ = ["TP", "Channel", "FutureMessage", "RecordMetadata", "Topic", "TopicPattern", "Topics", "ValidationError"]


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        # Names of Faust's module that are elsewhere here. Type checkers see the real names only.
        from mullion.faust._public_names.modules import named

        return named("channels", name)
