"""What is going on while a program's code runs: the event, the shard that it is in, and the clock.

Tables are named at the top of a module, and kept in shards. The same table means another shard's records wherever a
shard's code runs; so the shard, and the event, are of the context and not of the table.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from types import GenericAlias
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from mullion._stateful.store import Store
from mullion.errors import MullionError, UnsupportedError

if TYPE_CHECKING:
    from mullion.faust.windows import WindowRange

_OURS = str(Path(__file__).parent)


class OutsideStreamError(MullionError, RuntimeError):
    """Something that only has a meaning while an event is processed, or in a program that runs."""

    condition = "OUTSIDE_STREAM"


class ForgottenChangeWarning(UserWarning):
    """A value of a table that was changed by reference and not assigned back, and so is not saved."""


class Clock(Protocol):
    """What tells the time."""

    def time_us(self) -> int:
        """Now, in microseconds since the epoch."""


@dataclass(frozen=True)
class Message:
    """Where an event came from. ``timestamp`` is in seconds since the epoch.

    ``shard`` is the one that its agent's events were put into; ``None`` where all are in one.
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
    """One event of a stream: its key and value as the topic's types have them, and the message that carried it."""

    key: Any
    value: Any
    message: Message

    __class_getitem__: ClassVar[Any] = classmethod(GenericAlias)

    def ack(self) -> bool:
        """Faust's: an event is over when the body asks for the next one."""
        return True

    def forward(self, channel: Any, key: Any = None, value: Any = None, **given: Any) -> Any:
        """Sends the event's key and value on to a channel, or others in their place; to be awaited."""
        return channel.send(key=self.key if key is None else key, value=self.value if value is None else value, **given)

    def send(self, channel: Any, key: Any = None, value: Any = None, **given: Any) -> Any:
        """Sends a value to a channel, under the event's key where none is given; to be awaited."""
        return channel.send(key=self.key if key is None else key, value=value, **given)

    @property
    def timestamp(self) -> float:
        """The event's time, in seconds since the epoch."""
        return self.message.timestamp

    @property
    def headers(self) -> dict[str, bytes]:
        """What the message had beside its key and value."""
        return self.message.headers

    @classmethod
    def of(cls, value: Any, timestamp: float, key: Any = None, topic: str = "", offset: int = 0) -> Event:
        """An event for a value at a time."""
        return cls(key, value, Message(topic, 0, offset, timestamp, key, value))


@dataclass(frozen=True)
class Sent:
    """A message on its way to a topic or an agent's channel.

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
    """What code sees of the records of some of the keys: tables, the clock, and what it sends."""

    clock: Clock
    sent: list[Sent]

    @property
    def is_one_of_several(self) -> bool:
        """Whether there may be others, with the records of other keys."""

    @property
    def apart(self) -> object | None:
        """The timer that is called once for the program, while it runs."""

    @property
    def store(self) -> Store:
        """Where the records are."""

    def data(self, table: Any) -> Any:
        """A table's records in this shard."""

    def require_own(self, table: str, key: Any, event: Event | None) -> None:
        """Raises :class:`WrongShardError` for a key of a table that is of another shard than an event."""

    def require_all_keys(self, table: str, event: Event | None) -> None:
        """Raises :class:`WrongShardError` if an event uses all keys of a table, and its shard has only some of them."""

    def count_dropped(self, table: Any) -> None:
        """Counts an event that a table did not take, for all its ranges had gone."""

    def expire(self) -> int:
        """Removes the ranges that are too old, and says how many there were."""

    def wait(self, result: Any) -> None:
        """Runs what a function of the user's gave, if it is to be awaited."""


@dataclass
class Context:
    """The shard and the event that code runs for, and the range that a table of windows last took it to."""

    shard: Shard
    event: Event | None
    range: WindowRange | None = None


_current: ContextVar[Context | None] = ContextVar("mullion.faust", default=None)


def enter(context: Context | None) -> Context | None:
    """Makes a context the current one, and gives the one before."""
    before = _current.get()
    _current.set(context)
    return before


def context(doing: str) -> Context:
    """The current context; outside of a program that runs an :class:`OutsideStreamError`."""
    found = _current.get()
    if found is None:
        raise OutsideStreamError(
            f"{doing} outside of a running program: there is no state here. Do it in an agent, while an event is "
            "processed, or read it in a timer."
        )
    return found


def current_event() -> Event | None:
    """The event that is being processed; ``None`` where none is."""
    found = _current.get()
    return None if found is None else found.event


def event_for(doing: str) -> Event:
    """The event that is being processed; where none is an :class:`OutsideStreamError`."""
    found = _current.get()
    if found is None or found.event is None:
        raise OutsideStreamError(
            f"{doing} outside of a stream. A table can only be changed while an event is processed, within 'async for "
            "event in stream', for its records belong to the shard of that event."
        )
    return found.event


def current_window() -> WindowRange:
    """The range of the windowed table that was last read or written for this event.

    Raises ``RuntimeError`` outside of a stream, and before such a table was touched.
    """
    found = _current.get()
    if found is None or found.event is None or found.range is None:
        raise OutsideStreamError(
            "current_window() outside of a windowed stream: no windowed table has been read or written for the current "
            "event."
        )
    return found.range


def finish(awaitable: Awaitable[Any]) -> Any:
    """Runs something awaitable to its end, where there is no event loop: it may only await what is there at once."""
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
    """The ``file:line`` of the code that called into this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
