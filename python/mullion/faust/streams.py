"""Streams: the events of a topic as an agent's code goes through them.

A body runs over one batch of events of one shard at a time, and begins anew with each batch: what it keeps from event
to event belongs in a table. When the events of a batch are through, the body is closed where it waits for the next.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Container
from dataclasses import dataclass, replace
from types import GenericAlias
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, final

from mullion.errors import InvalidArgumentError
from mullion.faust._context import Event, current_event
from mullion.faust._unsupported import join, missing_attribute
from mullion.faust._values.times import Seconds, positive_us
from mullion.faust.models import FieldDescriptor

GroupKey: TypeAlias = FieldDescriptor | str | Callable[[Any], Any]
"""What events are grouped by: a record's field, an item of a dict by name, or a function of the value."""


class Skip(Exception):  # noqa: N818
    """Raised by a processor to leave out an event, as ``faust.exceptions.Skip``."""


class Source(Protocol):
    """Where a stream gets its events."""

    async def next(self, steps: tuple[Step, ...], more: bool = False) -> Event:
        """The next event; waits for ever where there is none. ``steps`` are what the stream does to it.

        With ``more`` the body has not seen the one before it, and gets both in one list.
        """

    def has_next(self) -> bool:
        """Whether there is another event in this batch."""

    def becomes(self, event: Event) -> None:
        """The event that is processed is this one, as a stream made it of its own."""


@final
@dataclass(frozen=True)
class Filter:
    """Leaves out events whose value does not pass."""

    passes: Callable[[Any], Any]


@final
@dataclass(frozen=True)
class GroupBy:
    """Gives events another key, by which they are in shards."""

    key: GroupKey

    def of(self, value: Any) -> Any:
        """The key of an event with a value."""
        if isinstance(self.key, FieldDescriptor):
            return self.key.getattr(value)
        if isinstance(self.key, str):
            return value[self.key]
        return self.key(value)

    def __str__(self) -> str:
        if isinstance(self.key, FieldDescriptor):
            return self.key.ident
        return repr(self.key) if isinstance(self.key, str) else getattr(self.key, "__qualname__", repr(self.key))


@final
@dataclass(frozen=True)
class SendOn:
    """Sends events to other channels, on their way."""

    channels: tuple[Any, ...]


@final
@dataclass(frozen=True)
class Process:
    """Makes another value of each."""

    function: Callable[[Any], Any]


Step: TypeAlias = Filter | GroupBy | SendOn | Process


@final
class _All(Container[Any]):
    """Has whatever is asked for."""

    def __contains__(self, partition: object) -> bool:
        return True


class Stream:
    """The events of a topic. ``async for value in stream`` goes through their values.

    - :meth:`events` goes through the events themselves, :meth:`items` through keys and values,
      :meth:`enumerate` through numbers and values.
    - :meth:`filter`, :meth:`group_by` and :meth:`take` make streams of it.
    """

    def __init__(self, source: Source, steps: tuple[Step, ...] = ()) -> None:
        self._source = source
        self._steps = steps

    __class_getitem__: ClassVar[Any] = classmethod(GenericAlias)

    def __getattr__(self, name: str) -> Any:
        raise missing_attribute("stream", self, name)

    @property
    def current_event(self) -> Event | None:
        """The event that is processed."""
        return current_event()

    @property
    def active_partitions(self) -> Container[Any]:
        """The partitions that are the worker's own: of any event that it gets it has the partition."""
        return _All()

    def noack(self) -> Stream:
        """The same: an event is over when the body asks for the next one, and not before."""
        return self

    async def ack(self, event: Event) -> bool:
        """Faust's: an event is over when the body asks for the next one."""
        return event.ack()

    def through(self, channel: Any) -> Stream:
        """The events, once each has been sent to a channel with its key; what others send there is not among them."""
        _require_channel("through", channel)
        return Stream(self._source, (*self._steps, SendOn((channel,))))

    def echo(self, *channels: Any) -> Stream:
        """The events, once each has been sent to some channels with its key."""
        for channel in channels:
            _require_channel("echo", channel)
        return Stream(self._source, (*self._steps, SendOn(channels)))

    def add_processor(self, processor: Callable[[Any], Any]) -> None:
        """Has each value made another by a function or coroutine, before the body sees it."""
        if not callable(processor):
            raise InvalidArgumentError(f"add_processor({processor!r}) is not a function.")
        self._steps = (*self._steps, Process(processor))

    def filter(self, passes: Callable[[Any], Any]) -> Stream:
        """The events whose value ``passes`` (a function or a coroutine) says yes to."""
        if not callable(passes):
            raise InvalidArgumentError(f"filter({passes!r}) is not a function. Write filter(lambda value: ...).")
        return Stream(self._source, (*self._steps, Filter(passes)))

    def group_by(
        self, key: GroupKey, *, name: str | None = None, topic: Any = None, partitions: int | None = None
    ) -> Stream:
        """The events by another key, so that all of one key are in one shard.

        ``key`` is a record's field (``Withdrawal.country``), the name of an item of a dict, or a function or coroutine
        function of the value. ``topic`` receives each event under its new key. Without it no topic does, and ``name``
        and ``partitions``, which describe Faust's own topic, have no effect.

        Raises :class:`InvalidArgumentError` for any other key or topic, and for a stream that is grouped already.
        """
        if not isinstance(key, (FieldDescriptor, str)) and not callable(key):
            raise InvalidArgumentError(
                f"group_by({key!r}) says no key. Give a record's field, as group_by(Withdrawal.country), a name, or a "
                "function of the value."
            )
        if any(isinstance(step, GroupBy) for step in self._steps):
            raise InvalidArgumentError(
                f"group_by({GroupBy(key)}) groups a stream that is grouped already. Group it once, by the key that "
                "tables are of; two tables of different keys need two agents."
            )
        if topic is None:
            return Stream(self._source, (*self._steps, GroupBy(key)))
        _require_channel("group_by", topic, "key, topic=")
        return Stream(self._source, (*self._steps, GroupBy(key), SendOn((topic,))))

    async def events(self) -> AsyncIterator[Event]:
        """The events: with key, value, time and headers."""
        while True:
            yield await self._next()

    async def items(self) -> AsyncIterator[tuple[Any, Any]]:
        """The events' keys and values."""
        while True:
            event = await self._next()
            yield event.key, event.value

    async def enumerate(self, start: int = 0) -> AsyncIterator[tuple[int, Any]]:
        """The values with a number, which begins anew with each batch of events, as the body does."""
        number = start
        async for value in self:
            yield number, value
            number += 1

    async def take(self, max_: int, within: Seconds | None = None) -> AsyncIterator[list[Any]]:
        """Lists of up to ``max_`` values. A list ends with the batch of events, which is what bounds its wait.

        A list that fails in an agent that puts events aside is tried again as lists of one event each.

        Raises :class:`InvalidArgumentError` when ``max_`` is no number above zero, or ``within`` no length of time.
        """
        async for taken in self.take_events(max_, within):
            yield [event.value for event in taken]

    def noack_take(self, max_: int, within: Seconds | None = None) -> AsyncIterator[list[Event]]:
        """The same as :meth:`take_events`: Faust's lists of events that the body acknowledges itself."""
        return self.take_events(max_, within)

    async def take_events(self, max_: int, within: Seconds | None = None) -> AsyncIterator[list[Event]]:
        """The same as :meth:`take`, of events."""
        if not isinstance(max_, int) or isinstance(max_, bool) or max_ < 1:
            raise InvalidArgumentError(f"take({max_!r}) is not a number of events above 0. Write take(100).")
        if within is not None:
            positive_us(within, "within")
        while True:
            taken = [await self._next()]
            while len(taken) < max_ and self._source.has_next():
                found = await self._passing(await self._source.next(self._steps, more=True))
                if found is not None:
                    taken.append(found)
            yield taken

    async def take_with_timestamp(
        self, max_: int, within: Seconds | None = None, timestamp_field_name: str = "timestamp"
    ) -> AsyncIterator[list[Any]]:
        """The same as :meth:`take`, of values that are dicts and have the event's time under a name."""
        async for taken in self.take_events(max_, within):
            yield [{**event.value, timestamp_field_name: event.timestamp} for event in taken]

    inner_join = join("inner_join")
    left_join = join("left_join")
    outer_join = join("outer_join")
    combine = join("combine")
    __and__ = join("'&'")
    join = join("join")

    async def __aiter__(self) -> AsyncIterator[Any]:
        while True:
            yield (await self._next()).value

    async def _next(self) -> Event:
        while True:
            found = await self._passing(await self._source.next(self._steps))
            if found is not None:
                return found

    async def _passing(self, event: Event) -> Event | None:
        """An event as the stream's steps make it; ``None`` if it is left out."""
        made = event
        for step in self._steps:
            if isinstance(step, GroupBy):
                key = step.of(made.value)
                made = replace(made, key=await key if inspect.isawaitable(key) else key)
                continue
            if isinstance(step, SendOn):
                for channel in step.channels:
                    channel.send(key=made.key, value=made.value)
                continue
            if isinstance(step, Process):
                try:
                    value = step.function(made.value)
                    value = await value if inspect.isawaitable(value) else value
                except Skip:
                    return None
                made = replace(made, value=value)
                continue
            passes = step.passes(made.value)
            if not (await passes if inspect.isawaitable(passes) else passes):
                return None
        if made is not event:
            self._source.becomes(made)
        return made


def _require_channel(method: str, channel: Any, before: str = "") -> None:
    if not hasattr(channel, "send"):
        raise InvalidArgumentError(
            f"{method}({before}{channel!r}) is not given a topic. Write {method}({before}app.topic('name'))."
        )


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        # Names of Faust's module that are elsewhere here. Type checkers see the real names only.
        from mullion.faust._modules import named

        return named("streams", name)
