"""The context of running code: the event, its shard, and the clock.

A table is a global variable of a module, and its records are kept in shards. The same table refers to the records of
the shard whose code runs. So the shard and the event belong to the context, not to the table.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from types import GenericAlias
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from mullion._keyed.store import Store
from mullion.errors import MullionError, UnsupportedError

if TYPE_CHECKING:
    from mullion.faust.windows import WindowRange

_OURS = str(Path(__file__).parent)


class OutsideStreamError(MullionError, RuntimeError):
    """An operation that requires a current event or a running program."""

    condition = "OUTSIDE_STREAM"


class ForgottenChangeWarning(UserWarning):
    """A table's value was changed in place and not assigned back, so the change is not saved."""


class Clock(Protocol):
    def time_us(self) -> int:
        """Returns the current time, in microseconds since the epoch."""


@dataclass(frozen=True)
class Message:
    """The origin of an event. ``timestamp`` is in seconds since the epoch.

    ``shard`` is the shard of the agent's event; ``None`` if there is only one shard.
    """

    topic: str
    partition: int
    offset: int
    timestamp: float
    key: Any
    value: Any
    headers: dict[str, bytes] = field(default_factory=dict)
    shard: str | None = field(default=None, repr=False, compare=False)

    @property
    def tp(self) -> tuple[str, int]:
        """The topic and the partition."""
        return self.topic, self.partition


@dataclass(frozen=True)
class Event:
    """One event of a stream: its key and value as the topic's types, and the message that carried it."""

    key: Any
    value: Any
    message: Message

    __class_getitem__: ClassVar[Any] = classmethod(GenericAlias)

    def ack(self) -> bool:
        """Faust's method, without effect: an event is complete when the body requests the next one."""
        return True

    def forward(self, channel: Any, key: Any = None, value: Any = None, **options: Any) -> Any:
        """Forwards the event's key and value, or the given ones, to a channel. Await the result."""
        return channel.send(
            key=self.key if key is None else key, value=self.value if value is None else value, **options
        )

    def send(self, channel: Any, key: Any = None, value: Any = None, **options: Any) -> Any:
        """Sends a value to a channel; the default key is the event's. Await the result."""
        return channel.send(key=self.key if key is None else key, value=value, **options)

    @property
    def timestamp(self) -> float:
        """The event's time, in seconds since the epoch."""
        return self.message.timestamp

    @property
    def headers(self) -> dict[str, bytes]:
        """The headers of the message."""
        return self.message.headers

    @classmethod
    def of(cls, value: Any, timestamp: float, key: Any = None, topic: str = "", offset: int = 0) -> Event:
        """Creates an event for a value at a time."""
        return cls(key, value, Message(topic, 0, offset, timestamp, key, value))


@dataclass(frozen=True)
class Sent:
    """A message to be sent to a topic or an agent's channel.

    ``timestamp`` is in seconds since the epoch; ``None`` is the time of publication. ``is_raw``: its value is plain
    text.
    """

    to: str
    key: Any
    value: Any
    timestamp: float | None = None
    headers: dict[str, bytes] = field(default_factory=dict)
    is_raw: bool = False


class Shard(Protocol):
    """The view that code has of one shard: its tables, the clock, and the messages to be sent."""

    clock: Clock
    sent: list[Sent]

    @property
    def is_one_of_several(self) -> bool:
        """True if there may be other shards, with the records of other keys."""

    @property
    def apart(self) -> object | None:
        """The timer that is called once for the program, while it runs."""

    @property
    def store(self) -> Store:
        """The store of the records."""

    def data(self, table: Any) -> Any:
        """Returns a table's records in this shard."""

    def require_own(self, table: str, key: Any, event: Event | None) -> None:
        """Raises :class:`WrongShardError` if a table's key belongs to another shard than the event."""

    def require_all_keys(self, table: str, event: Event | None) -> None:
        """Raises :class:`WrongShardError` if an event uses all keys of a table of which its shard has only some."""

    def count_dropped(self, table: Any) -> None:
        """Counts an event that a table dropped because all its ranges had expired."""

    def expire(self) -> int:
        """Removes expired ranges and returns their number."""

    def wait(self, result: Any) -> None:
        """Runs the result of a user's function to its end, if it is awaitable."""


@dataclass
class Context:
    """The shard and the event of the running code, and the range that a windowed table last used."""

    shard: Shard
    event: Event | None
    range: WindowRange | None = None


_current: ContextVar[Context | None] = ContextVar("mullion.faust", default=None)


def enter(context: Context | None) -> Context | None:
    """Sets the current context and returns the previous one."""
    before = _current.get()
    _current.set(context)
    return before


def context(doing: str) -> Context:
    """Returns the current context; raises :class:`OutsideStreamError` outside of a running program."""
    current = _current.get()
    if current is None:
        raise OutsideStreamError(
            f"{doing} outside of a running program: there is no state here. Do it in an agent, while an event is "
            "processed, or read it in a timer."
        )
    return current


def current_event() -> Event | None:
    """Returns the event that is being processed, or ``None``."""
    current = _current.get()
    return None if current is None else current.event


def event_for(doing: str) -> Event:
    """Returns the event that is being processed; raises :class:`OutsideStreamError` if there is none."""
    current = _current.get()
    if current is None or current.event is None:
        raise OutsideStreamError(
            f"{doing} outside of a stream. A table can only be changed while an event is processed, within 'async for "
            "event in stream', for its records belong to the shard of that event."
        )
    return current.event


def current_window() -> WindowRange:
    """Returns the range of the windowed table that was last read or written for this event.

    Raises ``RuntimeError`` outside of a stream, and before any windowed table has been used.
    """
    current = _current.get()
    if current is None or current.event is None or current.range is None:
        raise OutsideStreamError(
            "current_window() outside of a windowed stream: no windowed table has been read or written for the current "
            "event."
        )
    return current.range


def finish(awaitable: Awaitable[Any]) -> Any:
    """Runs an awaitable without an event loop: it may only await results that are available immediately."""
    steps = awaitable.__await__()
    try:
        next(steps)
    except StopIteration as done:
        return done.value
    close = getattr(steps, "close", None)
    if close is not None:
        close()
    raise UnsupportedError(
        "A coroutine waits for something outside of the program (a timer of asyncio, the network). Batches of events "
        "are processed in order and do not wait: call what blocks, or do it in another process that a topic leads to."
    )


def line_of_user() -> str:
    """Returns the ``file:line`` of the code that called into this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
