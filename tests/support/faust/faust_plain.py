"""Faust programs in plain Python: tables are dicts, and streams are loops over lists.

The unchanged source of a program runs over small replacements of ``app`` and ``faust``, event by event in order. They
share no code with Mullion and have no shards.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import math
import operator
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Self, TypeAlias

from tests.support.faust.faust_plain_records import NONE, Field, Record, Unfit, read

Sent: TypeAlias = "tuple[Any, Any, float]"
"""A message: key, value, time."""


class InvalidArgumentError(ValueError):
    """The error of a key without a value, as in Mullion."""


class _End(asyncio.CancelledError):
    """The end of the events."""


# -- tables


@dataclass
class Event:
    """An event of a stream."""

    key: Any
    value: Any
    timestamp: float


def _require(key: Any) -> None:
    if not isinstance(key, (str, int, float, tuple)):
        raise InvalidArgumentError(f"the key {key!r}")


def _keep(value: Any) -> Any:
    if not isinstance(value, (str, int, float, tuple, list, dict, type(None))):
        raise InvalidArgumentError(f"the value {value!r}")
    return copy.deepcopy(value)


class Table:
    """A table without a window: a dict that copies values when they are assigned."""

    def __init__(self, run: App, name: str, default: Callable[[], Any] | None) -> None:
        self._run = run
        self.name = name
        self.default = default
        self.windowed = False
        self.data: dict[Any, Any] = {}

    def tumbling(self, size: float, expires: float = 0, key_index: bool = False) -> Windowed:
        return Windowed(self, size, size)

    def hopping(self, size: float, step: float, expires: float = 0, key_index: bool = False) -> Windowed:
        return Windowed(self, size, step)

    def initial_value(self, key: Any) -> Any:
        if self.default is None:
            raise KeyError(key)
        return self.default()

    def __getitem__(self, key: Any) -> Any:
        _require(key)
        self._run.used(self.name, key)
        return copy.deepcopy(self.data[key]) if key in self.data else self.initial_value(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        _require(key)
        self._run.used(self.name, key)
        self.data[key] = _keep(value)

    def __delitem__(self, key: Any) -> None:
        self.pop(key)

    def __contains__(self, key: Any) -> bool:
        _require(key)
        self._run.used(self.name, key)
        return key in self.data

    def __bool__(self) -> bool:
        return True

    def get(self, key: Any, default: Any = None) -> Any:
        return copy.deepcopy(self.data[key]) if key in self else default

    def pop(self, key: Any, default: Any = NONE) -> Any:
        if key in self:
            return self.data.pop(key)
        if default is NONE:
            raise KeyError(key)
        return default

    def setdefault(self, key: Any, default: Any = None) -> Any:
        if key not in self:
            self[key] = default
        return self[key]

    def update(self, other: Any = (), **named: Any) -> None:
        for key, value in {**dict(other), **named}.items():
            self[key] = value


class Windowed:
    """A table by key and range of time. Ranges never expire."""

    def __init__(self, table: Table, size: float, step: float) -> None:
        table.windowed = True
        self.table = table
        self.name = table.name
        self._size, self._step = _us(size), _us(step)

    def starts(self, us: int) -> list[int]:
        last = us // self._step * self._step
        return list(range(last - self._size + self._step, last + 1, self._step))

    def at(self, key: Any, us: int) -> Any:
        data, at = self.table.data, (key, self.starts(us)[-1])
        return data[at] if at in data else self.table.initial_value(key)

    def __getitem__(self, key: Any) -> WindowSet:
        self.table._run.used(self.name, key)
        return WindowSet(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        _require(key)
        self.table._run.used(self.name, key)
        if isinstance(value, WindowSet):
            if value.of is self and value.key == key:
                return
            value = value.value()
        for start in self.starts(self.now_us()):
            self.table.data[key, start] = _keep(value)

    def __delitem__(self, key: Any) -> None:
        _require(key)
        there = [start for start in self.starts(self.now_us()) if (key, start) in self.table.data]
        for start in there:
            del self.table.data[key, start]
        if not there:
            raise KeyError(key)

    def __contains__(self, key: Any) -> bool:
        return self.get(key, NONE) is not NONE

    def __bool__(self) -> bool:
        return True

    def get(self, key: Any, default: Any = None) -> Any:
        _require(key)
        self.table._run.used(self.name, key)
        return self.table.data.get((key, self.starts(self.now_us())[-1]), default)

    def now_us(self) -> int:
        assert self.table._run.event is not None
        return _us(self.table._run.event.timestamp)


class WindowSet:
    """The values of a key in the ranges of the event."""

    def __init__(self, of: Windowed, key: Any) -> None:
        self.of = of
        self.key = key

    def value(self) -> Any:
        _require(self.key)
        return self.of.at(self.key, self.of.now_us())

    current = value

    def now(self) -> Any:
        _require(self.key)
        return self.of.at(self.key, self.of.table._run.clock_us)

    def delta(self, d: float) -> Any:
        _require(self.key)
        return self.of.at(self.key, self.of.now_us() - _us(d))

    def _in_place(self, operation: Callable[[Any, Any], Any], value: Any) -> Self:
        _require(self.key)
        data = self.of.table.data
        for start in self.of.starts(self.of.now_us()):
            at = (self.key, start)
            data[at] = _keep(operation(data[at] if at in data else self.of.table.initial_value(self.key), value))
        return self

    def __iadd__(self, value: Any) -> Self:
        return self._in_place(operator.add, value)

    def __isub__(self, value: Any) -> Self:
        return self._in_place(operator.sub, value)

    def __imul__(self, value: Any) -> Self:
        return self._in_place(operator.mul, value)

    def __itruediv__(self, value: Any) -> Self:
        return self._in_place(operator.truediv, value)

    def __ifloordiv__(self, value: Any) -> Self:
        return self._in_place(operator.floordiv, value)

    def __imod__(self, value: Any) -> Self:
        return self._in_place(operator.mod, value)


def _us(seconds: float) -> int:
    return round(seconds * 1_000_000)


# -- streams


class Stream:
    """The events of a list, for the loop of a body."""

    def __init__(self, run: App, events: deque[Event], steps: tuple[tuple[str, Any], ...] = ()) -> None:
        self._run = run
        self._events = events
        self._steps = steps

    def filter(self, passes: Callable[[Any], Any]) -> Stream:
        return Stream(self._run, self._events, (*self._steps, ("filter", passes)))

    def group_by(self, key: Any, **_: Any) -> Stream:
        return Stream(self._run, self._events, (*self._steps, ("group", key)))

    def noack(self) -> Stream:
        return self

    def echo(self) -> Stream:
        return self

    async def events(self) -> Any:
        while True:
            yield await self._next()

    async def items(self) -> Any:
        while True:
            event = await self._next()
            yield event.key, event.value

    async def enumerate(self, start: int = 0) -> Any:
        async for value in self:
            yield start, value
            start += 1

    async def take(self, max_: int, within: Any = None) -> Any:
        while True:
            taken = [await self._next()]
            while len(taken) < max_ and self._run.has_more(self._events):
                item = await self._passing(self._run.more(self._events))
                if item is not None:
                    taken.append(item)
            yield [event.value for event in taken]

    async def __aiter__(self) -> Any:
        while True:
            yield (await self._next()).value

    async def _next(self) -> Event:
        while True:
            item = await self._passing(await self._run.next(self._events))
            if item is not None:
                return item

    async def _passing(self, event: Event) -> Event | None:
        for kind, how in self._steps:
            if kind == "group":
                event = Event(_grouped(how, event.value), event.value, event.timestamp)
                self._run.event, self._run.grouped = event, not callable(how)
                continue
            passes = how(event.value)
            if not (await passes if inspect.isawaitable(passes) else passes):
                return None
        return event


def _grouped(key: Any, value: Any) -> Any:
    if isinstance(key, Field):
        return getattr(value, key.name)
    return value[key] if isinstance(key, str) else key(value)


# -- programs


class Topic:
    """A topic for reading and sending."""

    def __init__(self, run: App, name: str, value_type: Any) -> None:
        self._run = run
        self.name = name
        self.value_type = value_type

    def read(self, value: Any) -> Any:
        kind = self.value_type
        if kind is None or value is None:
            return value
        if kind is dict:
            if not isinstance(value, dict):
                raise Unfit(kind)
            return value
        if issubclass(kind, Record):
            if not isinstance(value, dict):
                raise Unfit(kind)
            return kind(**{name: one for name, one in value.items() if name in kind._fields})
        return read(value, kind, False, True)

    def send(self, *, key: Any = None, value: Any = None) -> Any:
        for field in value.values() if isinstance(value, dict) else [value]:
            if not isinstance(field, (str, int, float, type(None))) or (
                type(field) is float and not math.isfinite(field)
            ):
                raise InvalidArgumentError(f"the message {value!r}")
        self._run.sent.append((self.name, key, copy.deepcopy(value)))

        return _Done()


class _Done:
    def __await__(self) -> Iterator[None]:
        return iter(())


@dataclass
class Agent:
    """A function over the stream of a topic."""

    function: Callable[..., Any]
    topic: Topic
    name: str
    sinks: list[Any]
    aside: bool


@dataclass(frozen=True)
class Aside:
    """A dead letter. ``error`` is the type of its exception, or empty if the message does not have the topic's type.

    Its time identifies it, because no two messages of a topic have the same time.
    """

    agent: str
    timestamp: float
    error: str


class App:
    """A program, and its results so far."""

    def __init__(self, clock_us: int) -> None:
        self.clock_us = clock_us
        self.tables: dict[str, Table] = {}
        self.agents: dict[str, Agent] = {}
        self.sent: list[tuple[str, Any, Any]] = []
        self.aside: list[Aside] = []
        self.event: Event | None = None
        self.grouped = False
        self.misplaced = False
        self._tasks: set[Any] = set()

    def Table(self, name: str, *, default: Any = None, key_type: Any = None) -> Table:
        self.tables[name] = Table(self, name, default)
        return self.tables[name]

    def topic(self, name: str, value_type: Any = None) -> Topic:
        return Topic(self, name, value_type)

    def agent(self, topic: Topic, *, name: str, sink: Iterable[Any] = (), on_error: str = "stop") -> Any:
        def add(function: Any) -> Agent:
            self.agents[name] = Agent(function, topic, name, list(sink), on_error == "dead_letter")
            return self.agents[name]

        return add

    def used(self, table: str, key: Any) -> None:
        """Records that a stream grouped by a field uses a table by another key."""
        if self.grouped and self.event is not None and self.event.key != key:
            self.misplaced = True

    async def run(self, batches: Mapping[str, Sequence[Sequence[Sent]]], alone: bool = False) -> None:
        """Runs all agents over batches of messages of topics.

        With ``alone`` bodies restart with each event, so that the results do not depend on the ends of batches.
        """
        for number in range(max(map(len, batches.values()))):
            for agent in self.agents.values():
                events = []
                for key, value, timestamp in batches[agent.topic.name][number]:
                    try:
                        events.append(Event(key, agent.topic.read(copy.deepcopy(value)), timestamp))
                    except Unfit:
                        self.aside.append(Aside(agent.name, timestamp, ""))
                for part in [[one] for one in events] if alone else [events]:
                    await self._run(agent, part)

    async def _run(self, agent: Agent, events: list[Event]) -> None:
        pending = deque(events)
        while pending:
            before = len(pending)
            self.event, self.grouped, self._taken = None, False, []
            # Other tasks of the event loop.
            self._others = asyncio.all_tasks()
            try:
                body = agent.function(Stream(self, pending))
                if inspect.isasyncgen(body):
                    async for value in body:
                        for sink in agent.sinks:
                            if isinstance(sink, Topic):
                                sink.send(key=None if self.event is None else self.event.key, value=value)
                            else:
                                sink(value)
                else:
                    await body
                await self._ended()
            except _End:
                pass
            except (Exception, asyncio.CancelledError) as error:
                for task in asyncio.all_tasks() - self._others:
                    task.cancel()
                failed = self._taken
                if not failed or before == len(pending):
                    raise AssertionError(f"{agent.name} fails without an event") from error
                self._undo()
                if len(failed) > 1:
                    # Each event is retried in a list of one.
                    pending.extendleft(reversed(failed))
                    self._alone = len(failed)
                else:
                    self.aside.append(Aside(agent.name, failed[0].timestamp, type(error).__name__))
                continue
            if before == len(pending):
                return

    async def next(self, events: deque[Event]) -> Event:
        """Returns the next event, after it has committed the previous one."""
        await self._ended()
        self._saved = ({name: dict(one.data) for name, one in self.tables.items()}, len(self.sent))
        if not events:
            raise _End
        self._is_alone = self._alone > 0
        self._alone -= self._is_alone
        self._taken = []
        return self.more(events)

    def has_more(self, events: deque[Event]) -> bool:
        """True if another event may be in a list with the last one."""
        return bool(events) and not self._is_alone

    def more(self, events: deque[Event]) -> Event:
        """Returns another event for the list of the previous ones."""
        self.event = events.popleft()
        self._taken.append(self.event)
        self.grouped = False
        return self.event

    async def _ended(self) -> None:
        for task in asyncio.all_tasks() - self._others:
            await task

    def _undo(self) -> None:
        tables, sent = self._saved
        for name, table in self.tables.items():
            table.data.clear()
            table.data.update(tables[name])
        del self.sent[sent:]

    _taken: list[Event]
    _alone = 0
    """The number of events that remain to be retried in lists of one."""
    _is_alone = False


FAUST = SimpleNamespace(Record=Record)
"""The module ``faust`` of programs."""
