"""Streams: the events of a topic, as an agent's code iterates over them.

A body runs over one batch of events of one shard at a time, and restarts with each batch. State that must survive
between events belongs in a table. After the last event of a batch, the body is closed at its request for the next one.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Container
from dataclasses import dataclass, replace
from types import GenericAlias
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, final

from mullion.errors import InvalidArgumentError
from mullion.faust._context import Event, current_event
from mullion.faust._public_names.unsupported import join, missing_attribute
from mullion.faust._values.times import Seconds, positive_us
from mullion.faust.models import FieldDescriptor

GroupKey: TypeAlias = FieldDescriptor | str | Callable[[Any], Any]
"""The key of a grouping: a record's field, an item of a dict by name, or a function of the value."""


class Skip(Exception):  # noqa: N818
    """Raised by a processor to skip an event, as ``faust.exceptions.Skip``."""


class Source(Protocol):
    """The source of a stream's events."""

    async def next(self, steps: tuple[Step, ...], more: bool = False) -> Event:
        """Returns the next event; blocks forever if there is none. ``steps`` are the stream's operations.

        With ``more`` the body has not received the previous event yet, and receives both in one list.
        """

    def has_next(self) -> bool:
        """True if this batch has another event."""

    def becomes(self, event: Event) -> None:
        """Replaces the current event by the result of the stream's operations."""


@final
@dataclass(frozen=True)
class Filter:
    """Skips events whose value does not pass."""

    passes: Callable[[Any], Any]


@final
@dataclass(frozen=True)
class GroupBy:
    """Sets another key, which determines the shard of an event."""

    key: GroupKey

    def of(self, value: Any) -> Any:
        """Returns the key of an event with a value."""
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
    """Also sends each event to other channels."""

    channels: tuple[Any, ...]


@final
@dataclass(frozen=True)
class Process:
    """Replaces each value by a function's result."""

    function: Callable[[Any], Any]


Step: TypeAlias = Filter | GroupBy | SendOn | Process


@final
class _All(Container[Any]):
    """A container of everything."""

    def __contains__(self, partition: object) -> bool:
        return True


class Stream:
    """The events of a topic. ``async for value in stream`` iterates over their values.

    - :meth:`events` iterates over the events, :meth:`items` over keys and values, :meth:`enumerate` over numbers and
      values.
    - :meth:`filter`, :meth:`group_by` and :meth:`take` derive streams from it.
    """

    def __init__(self, source: Source, steps: tuple[Step, ...] = ()) -> None:
        self._source = source
        self._steps = steps

    __class_getitem__: ClassVar[Any] = classmethod(GenericAlias)

    def __getattr__(self, name: str) -> Any:
        raise missing_attribute("stream", self, name)

    @property
    def current_event(self) -> Event | None:
        """The event that is being processed."""
        return current_event()

    @property
    def active_partitions(self) -> Container[Any]:
        """The worker's partitions: it contains the partition of every event that the worker receives."""
        return _All()

    def noack(self) -> Stream:
        """Returns the same stream: an event is always complete when the body requests the next one."""
        return self

    async def ack(self, event: Event) -> bool:
        """Faust's method, without effect: an event is complete when the body requests the next one."""
        return event.ack()

    def through(self, channel: Any) -> Stream:
        """Sends each event to a channel with its key, and returns the same events.

        Messages of other senders are not included.
        """
        _require_channel("through", channel)
        return Stream(self._source, (*self._steps, SendOn((channel,))))

    def echo(self, *channels: Any) -> Stream:
        """Sends each event to some channels with its key, and returns the same events."""
        for channel in channels:
            _require_channel("echo", channel)
        return Stream(self._source, (*self._steps, SendOn(channels)))

    def add_processor(self, processor: Callable[[Any], Any]) -> None:
        """Adds a function or coroutine function that replaces each value before the body receives it."""
        if not callable(processor):
            raise InvalidArgumentError(f"add_processor({processor!r}) is not a function.")
        self._steps = (*self._steps, Process(processor))

    def filter(self, passes: Callable[[Any], Any]) -> Stream:
        """Returns the events for whose value ``passes``, a function or coroutine function, returns a true value."""
        if not callable(passes):
            raise InvalidArgumentError(f"filter({passes!r}) is not a function. Write filter(lambda value: ...).")
        return Stream(self._source, (*self._steps, Filter(passes)))

    def group_by(
        self, key: GroupKey, *, name: str | None = None, topic: Any = None, partitions: int | None = None
    ) -> Stream:
        """Sets another key, so that all events of a key are in one shard.

        ``key`` is a record's field (``Withdrawal.country``), the name of an item of a dict, or a function or coroutine
        function of the value. ``topic`` receives each event under its new key. Without it no topic does, and ``name``
        and ``partitions``, which describe Faust's own topic, have no effect.

        Raises :class:`InvalidArgumentError` for any other key or topic, and for a stream that is grouped already.
        """
        if not isinstance(key, (FieldDescriptor, str)) and not callable(key):
            raise InvalidArgumentError(
                f"group_by({key!r}) has no key. Pass a record's field, as group_by(Withdrawal.country), a name, or a "
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
        """Yields the events, with key, value, time and headers."""
        while True:
            yield await self._next()

    async def items(self) -> AsyncIterator[tuple[Any, Any]]:
        """Yields the events' keys and values."""
        while True:
            event = await self._next()
            yield event.key, event.value

    async def enumerate(self, start: int = 0) -> AsyncIterator[tuple[int, Any]]:
        """Yields the values with a number, which restarts with each batch of events, as the body does."""
        number = start
        async for value in self:
            yield number, value
            number += 1

    async def take(self, max_: int, within: Seconds | None = None) -> AsyncIterator[list[Any]]:
        """Yields lists of up to ``max_`` values. A list ends with the batch of events, which bounds its wait.

        If a list fails in an agent that sets events aside, it is tried again as lists of one event each.

        Raises :class:`InvalidArgumentError` if ``max_`` is not a number above zero, or ``within`` not a length of time.
        """
        async for taken in self.take_events(max_, within):
            yield [event.value for event in taken]

    def noack_take(self, max_: int, within: Seconds | None = None) -> AsyncIterator[list[Event]]:
        """Like :meth:`take_events`: Faust's lists of events that the body acknowledges itself."""
        return self.take_events(max_, within)

    async def take_events(self, max_: int, within: Seconds | None = None) -> AsyncIterator[list[Event]]:
        """Like :meth:`take`, but yields events."""
        if not isinstance(max_, int) or isinstance(max_, bool) or max_ < 1:
            raise InvalidArgumentError(f"take({max_!r}) is not a number of events above 0. Write take(100).")
        if within is not None:
            positive_us(within, "within")
        while True:
            taken = [await self._next()]
            while len(taken) < max_ and self._source.has_next():
                event = await self._passing(await self._source.next(self._steps, more=True))
                if event is not None:
                    taken.append(event)
            yield taken

    async def take_with_timestamp(
        self, max_: int, within: Seconds | None = None, timestamp_field_name: str = "timestamp"
    ) -> AsyncIterator[list[Any]]:
        """Like :meth:`take`, for values that are dicts; adds the event's time under a name."""
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
            event = await self._passing(await self._source.next(self._steps))
            if event is not None:
                return event

    async def _passing(self, event: Event) -> Event | None:
        """Applies the stream's operations to an event; ``None`` if it is skipped."""
        output = event
        for step in self._steps:
            if isinstance(step, GroupBy):
                key = step.of(output.value)
                output = replace(output, key=await key if inspect.isawaitable(key) else key)
                continue
            if isinstance(step, SendOn):
                for channel in step.channels:
                    channel.send(key=output.key, value=output.value)
                continue
            if isinstance(step, Process):
                try:
                    value = step.function(output.value)
                    value = await value if inspect.isawaitable(value) else value
                except Skip:
                    return None
                output = replace(output, value=value)
                continue
            passes = step.passes(output.value)
            if not (await passes if inspect.isawaitable(passes) else passes):
                return None
        if output is not event:
            self._source.becomes(output)
        return output


def _require_channel(method: str, channel: Any, before: str = "") -> None:
    if not hasattr(channel, "send"):
        raise InvalidArgumentError(
            f"{method}({before}{channel!r}): the argument is not a topic. Write {method}({before}app.topic('name'))."
        )


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        # Names of Faust's module that are elsewhere here. Type checkers see the real names only.
        from mullion.faust._public_names.modules import named

        return named("streams", name)
