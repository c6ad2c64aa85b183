"""What is going on while a program's code runs: the event, the shard that it is in, and the clock.

Tables are named at the top of a module, and kept in shards. The same table means another shard's records wherever a
shard's code runs; so the shard, and the event, are of the context and not of the table.
"""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Awaitable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from mullion._journal import Store
from mullion.errors import MullionError, UnsupportedError, WrongShardError
from mullion.faust._shards import shard_of

if TYPE_CHECKING:
    from mullion.faust._data import TableData
    from mullion.faust.agents import Timer
    from mullion.faust.tables import Table
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


@dataclass(frozen=True)
class Event:
    """One event of a stream: its key and value as the topic's types have them, and the message that carried it."""

    key: Any
    value: Any
    message: Message

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
    """A message on its way to a topic or an agent's channel."""

    to: str
    key: Any
    value: Any
    timestamp: float
    headers: dict[str, bytes] = field(default_factory=dict)


class Shard:
    """The records of all tables for some of the keys, and the clock; one thread at a time is in it."""

    def __init__(self, store: Store, clock: Clock, tables: Iterable[Table] = ()) -> None:
        self.store = store
        self.clock = clock
        self.dropped: dict[str, int] = {}
        self.sent: list[Sent] = []
        self.apart: Timer | None = None
        self._agent: str | None = None
        self._misplaced: WrongShardError | None = None
        self._data: dict[str, TableData] = {}
        self._warned: set[str] = set()
        for table in tables:
            self.data(table)

    def data(self, table: Table) -> TableData:
        """A table's records in this shard."""
        if self.apart is not None:
            raise UnsupportedError(_seen_in_part(self.apart, table))
        found = self._data.get(table.name)
        if found is None:
            from mullion.faust._data import TableData

            found = self._data[table.name] = TableData(self, table)
        return found

    @contextmanager
    def of_agent(self, name: str) -> Iterator[None]:
        """Runs the events of an agent. Raises :class:`WrongShardError` where one used a key of another shard.

        That goes before whatever the agent made of it: an error that it caught, an event that it put aside.
        """
        self._agent = name
        try:
            yield
        except Exception:
            if self._misplaced is not None:
                raise self._misplaced from None
            raise
        finally:
            self._agent = None
        if self._misplaced is not None:
            raise self._misplaced

    def require_own(self, table: str, key: Any, event: Event | None) -> None:
        """Raises :class:`WrongShardError` for a key of a table that is of another shard than an event."""
        own = None if event is None else event.message.shard
        if own is None or key == own or shard_of(key) == own:
            return
        assert event is not None
        if self._misplaced is None:
            self._misplaced = WrongShardError(
                f"The agent {self._agent!r} used {table}[{key!r}] at {line_of_user()} for the event "
                f"{event.message.value!r} (topic {event.message.topic!r}, key {event.message.key!r}, time "
                f"{event.timestamp}), which is in the shard {own!r}: what is of the key {key!r} is kept in another "
                "one, and totals would come in pieces. Nothing of the batch was kept. Have the agent go through "
                "stream.group_by(...) of what the key is: a field, or lambda value: ... for what is computed."
            )
        raise self._misplaced

    def wait(self, result: Any) -> None:
        """Runs what a function of the user's gave, if it is to be awaited."""
        if inspect.isawaitable(result):
            finish(result)

    def count_dropped(self, table: Table) -> None:
        """Counts an event that a table did not take, for all its ranges had gone."""
        self.dropped[table.name] = self.dropped.get(table.name, 0) + 1

    def expire(self) -> int:
        """Removes the ranges that are too old, and says how many there were."""
        from mullion.faust._data import table_id, take_due

        before = sum(data.closed for data in self._data.values())
        take_due(self, {table_id(data.table.name): data for data in self._data.values()})
        return sum(data.closed for data in self._data.values()) - before

    def advance(self, us: int) -> None:
        """Moves the clock of each table's expiry to a time, if it is not there yet."""
        for data in self._data.values():
            data.advance(us)

    def reread(self) -> None:
        """Forgets what is known of the store, which has gone back to what it was."""
        for data in list(self._data.values()):
            again = type(data)(self, data.table)
            again.closed = data.closed
            self._data[data.table.name] = again

    def settled(self, warn: bool = True) -> None:
        """The event is over: what was changed by reference and not assigned back is warned of, and forgotten."""
        for data in self._data.values():
            for where, key in data.forgotten():
                if warn and where not in self._warned:
                    self._warned.add(where)
                    warnings.warn(
                        f"{where}: the value of {data.table.name}[{key!r}] was changed and not assigned back, and is "
                        f"not saved. Write {data.table.name}[{key!r}] = value after the change.",
                        ForgottenChangeWarning,
                        stacklevel=2,
                    )

    @contextmanager
    def event(self, event: Event) -> Iterator[None]:
        """Runs what is within as part of processing an event."""
        with self._within(Context(self, event)):
            yield

    @contextmanager
    def outside(self) -> Iterator[None]:
        """Runs what is within in this shard, with no event: in a timer, or once a window closes."""
        with self._within(Context(self, None)):
            yield

    @contextmanager
    def _within(self, inner: Context) -> Iterator[None]:
        before = enter(inner)
        try:
            yield
        except BaseException:
            self.settled(warn=False)
            raise
        else:
            self.settled()
        finally:
            enter(before)


def _seen_in_part(timer: Timer, table: Table) -> str:
    """Why a timer that is called once cannot use a table."""
    if timer.on_leader:
        return (
            f"The timer {timer.name!r} is called in one place, for it says on_leader=True, and uses the table "
            f"{table.name!r}, of which it would see the records of one shard. Leave on_leader out: then it is called "
            "in each shard, with its records."
        )
    return (
        f"The timer {timer.name!r} uses the table {table.name!r}, and the names in its code do not say so: it was "
        "taken for one that works on no table, is called once for the program, and would see the records of one shard. "
        "Use the table by its own name, as in: views = app.Table(...), then views[key] in the timer."
    )


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
