"""Agents, topics and timers: the parts of a program, as its code names them."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Generator, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, final

from mullion._codec.json import plain, text_of
from mullion.errors import InvalidArgumentError
from mullion.faust._context import Sent, context, current_event
from mullion.faust._fields import Reading, ValidationError, reader_of
from mullion.faust._seconds import seconds, time_us
from mullion.faust._unsupported import reply
from mullion.faust.streams import Stream

OnError: TypeAlias = Literal["stop", "dead_letter"]


class _Done:
    """Awaited, it is there at once: sending only notes what is sent. It need not be awaited."""

    def __await__(self) -> Generator[None, None, None]:
        return
        yield


class Channel:
    """What messages can be sent to, by name."""

    def __init__(self, name: str, *, key_type: Any = None, value_type: Any = None) -> None:
        self.name = name
        self.typed(key_type, value_type)

    def typed(self, key_type: Any, value_type: Any) -> None:
        """Says of which types keys and values are."""
        self.key_type = key_type
        self.value_type = value_type
        # A broker's keys are text.
        self._keys = _reader(key_type, Reading(coerce=True))
        self._values = _reader(value_type, Reading(validation=True))

    def send(
        self,
        *,
        key: Any = None,
        value: Any = None,
        timestamp: float | None = None,
        headers: dict[str, bytes] | None = None,
    ) -> Awaitable[None]:
        """Sends a message; to be awaited, as in Faust. It carries the time of the event that is processed.

        Raises :class:`InvalidArgumentError` at once for a value that cannot be written as JSON, and
        :class:`OutsideStreamError` outside of a running program.
        """
        found = context(f"A message was sent to {self.name!r}")
        event = found.event
        if timestamp is None:
            timestamp = seconds(found.shard.clock.time_us()) if event is None else event.timestamp
        sent = Sent(
            self.name,
            plain(key, f"key for {self.name!r}"),
            self._publishable(plain(value, f"value for {self.name!r}")),
            seconds(time_us(timestamp)),
            headers or {},
        )
        found.shard.sent.append(sent)
        return _Done()

    def _publishable(self, value: Any) -> Any:
        """A value that a topic can take; what it cannot is the fault of the event that it is sent for."""
        if isinstance(value, dict):
            if all(map(_is_short, value)) and all(map(_is_short, value.values())):
                return value
        elif _is_short(value):
            return value
        try:
            text_of(value)
        except (ValueError, RecursionError) as theirs:
            raise InvalidArgumentError(
                f"The value for {self.name!r} has no place in a topic: {theirs}. Send what is too large or too deep as "
                "text: str(value)."
            ) from theirs
        return value

    def key_of(self, key: Any) -> Any:
        """A key as its type says. Raises :class:`ValidationError`."""
        return self._keys(key, f"key of {self.name}")

    def value_of(self, value: Any) -> Any:
        """A value as its type says. Raises :class:`ValidationError`."""
        return self._values(value, f"value of {self.name}")


def _is_short(value: Any) -> bool:
    """Whether a plain value is known to have a place in JSON."""
    kind = type(value)
    if kind is int:
        return -(2**63) <= value < 2**63  # type: ignore[no-any-return]
    return value is None or kind is str or kind is float or kind is bool


def _reader(kind: Any, how: Reading) -> Callable[[Any, str], Any]:
    """How a topic reads what JSON gave: what is not of the declared type is refused, but not ``None``, a tombstone."""
    if kind is None:
        return lambda value, path: value
    read = reader_of(kind, how)
    return lambda value, path: None if value is None else read(value, path)


@final
class Topic(Channel):
    """A topic by name, with the types of its keys and values."""

    def stream(self) -> Stream:
        """The topic's events, for an agent to go through; where none runs, what groups and filters them is noted."""
        return Stream(_Elsewhere(self.name))

    def __repr__(self) -> str:
        return f"<Topic: {self.name}>"


@final
class _Elsewhere:
    """The source of a stream that is not an agent's."""

    def __init__(self, topic: str) -> None:
        self._topic = topic

    async def next(self, steps: Any, more: bool = False) -> Any:
        """There is none."""
        raise InvalidArgumentError(
            f"The stream of {self._topic!r} is gone through outside of an agent, where no events come. Write an agent: "
            f"@app.agent({self._topic})."
        )

    def has_next(self) -> bool:
        """There is none."""
        return False

    def becomes(self, event: Any) -> None:
        """Nothing is processed."""


Sink: TypeAlias = "Channel | Agent | Callable[[Any], Any]"


class Agent:
    """A function that goes through a stream. What it yields goes to its sinks.

    Made by ``@app.agent(topic)``; bare, its messages come by :meth:`send` and :meth:`cast`.
    """

    def __init__(
        self,
        function: Callable[[Stream], Any],
        channel: Channel,
        *,
        name: str,
        sinks: Iterable[Sink] = (),
        on_error: OnError = "stop",
    ) -> None:
        if not inspect.iscoroutinefunction(function) and not inspect.isasyncgenfunction(function):
            raise InvalidArgumentError(
                f"The agent {name!r} is not a coroutine function. Write async def {name}(stream): async for event in "
                "stream: ..."
            )
        if on_error not in ("stop", "dead_letter"):
            raise InvalidArgumentError(
                f"on_error={on_error!r} of the agent {name!r} is neither 'stop', which ends the program at an event "
                "that fails, nor 'dead_letter', which puts it aside with the reason."
            )
        self.function = function
        self.channel = channel
        self.name = name
        self.sinks = list(sinks)
        self.on_error = on_error
        self.__doc__ = function.__doc__

    def send(self, *, key: Any = None, value: Any = None, timestamp: float | None = None) -> Awaitable[None]:
        """Sends a message to the agent; to be awaited."""
        return self.channel.send(key=key, value=value, timestamp=timestamp)

    def cast(self, value: Any = None, *, key: Any = None, timestamp: float | None = None) -> Awaitable[None]:
        """Sends a value to the agent; to be awaited."""
        return self.channel.send(key=key, value=value, timestamp=timestamp)

    ask = reply("ask")
    ask_nowait = reply("ask_nowait")
    join = reply("join")
    kvjoin = reply("kvjoin")
    map = reply("map")
    kvmap = reply("kvmap")

    def add_sink(self, sink: Sink) -> None:
        """Sends what the agent yields to another topic, agent or function."""
        self.sinks.append(sink)

    def __call__(self, stream: Stream) -> Any:
        """Begins the body over a stream."""
        return self.function(stream)

    async def deliver(self, value: Any) -> None:
        """Gives a value that the body has yielded to the sinks."""
        event = current_event()
        key = None if event is None else event.key
        for sink in self.sinks:
            if isinstance(sink, (Channel, Agent)):
                await sink.send(key=key, value=value)
            else:
                result = sink(value)
                if inspect.isawaitable(result):
                    await result

    def __repr__(self) -> str:
        return f"<Agent: {self.name}>"


@final
@dataclass(frozen=True)
class Timer:
    """A function that is called every so often by the clock: in each shard partition, or ``once`` for the program."""

    function: Callable[[], Any]
    interval_us: int
    name: str
    on_leader: bool = False
    once: bool = False


@final
@dataclass(frozen=True)
class DeadLetter:
    """A message that was put aside, and why."""

    topic: str
    agent: str
    reason: str
    key: Any
    value: Any
    timestamp: float
    headers: dict[str, bytes] = field(default_factory=dict)


__all__ = ["Agent", "Channel", "DeadLetter", "OnError", "Sink", "Timer", "Topic", "ValidationError"]
