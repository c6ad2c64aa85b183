"""Agents and timers: the active parts of a program."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from types import GenericAlias
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, final

from mullion.errors import InvalidArgumentError
from mullion.faust._context import current_event
from mullion.faust._public_names.unsupported import missing_attribute
from mullion.faust._request_reply import Reply, ReplyPromise, ReqRepResponse, answer, answers, keyed_answers
from mullion.faust._values.crontab import Crontab
from mullion.faust.channels import TP, Channel, FutureMessage, RecordMetadata, Topic, Topics, ValidationError
from mullion.faust.streams import Stream

OnError: TypeAlias = Literal["stop", "dead_letter"]

Sink: TypeAlias = "Channel | Agent | Callable[[Any], Any]"


class Agent:
    """A function that iterates over a stream and yields values to its sinks.

    Created by ``@app.agent(topic)``. Without a topic, it receives messages from :meth:`send` and :meth:`cast`.
    """

    __class_getitem__: ClassVar[Any] = classmethod(GenericAlias)

    def __init__(
        self,
        function: Callable[[Stream], Any],
        channel: Channel,
        *,
        name: str,
        sinks: Iterable[Sink] = (),
        on_error: OnError = "stop",
    ) -> None:
        unwrapped = function.func if isinstance(function, functools.partial) else function
        if not inspect.iscoroutinefunction(unwrapped) and not inspect.isasyncgenfunction(unwrapped):
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

    def __getattr__(self, name: str) -> Any:
        raise missing_attribute("agent", self, name)

    def send(
        self,
        *,
        key: Any = None,
        value: Any = None,
        reply_to: Any = None,
        correlation_id: str | None = None,
        **options: Any,
    ) -> Any:
        """Sends a message to the agent; await the result. See :meth:`Channel.send`.

        ``reply_to`` is a topic, an agent, or the name of a topic. It receives the answer as a :class:`ReqRepResponse`
        with ``key``, ``value`` and ``correlation_id``. The body then runs over the value at the ``await``, as with
        :meth:`ask`, and no message passes through the agent's topic.
        """
        reply = Reply(reply_to, correlation_id)
        if reply_to is None:
            return self.channel.send(key=key, value=value, **options)
        return answer(self, value, key, options.get("timestamp"), reply)

    def send_soon(self, *, key: Any = None, value: Any = None, **options: Any) -> FutureMessage:
        """Sends a message to the agent, from code that cannot await."""
        return self.channel.send_soon(key=key, value=value, **options)

    def cast(self, value: Any = None, *, key: Any = None, **options: Any) -> FutureMessage:
        """Sends a value to the agent; await the result."""
        return self.channel.send(key=key, value=value, **options)

    async def ask(
        self,
        value: Any = None,
        *,
        key: Any = None,
        timestamp: float | None = None,
        reply_to: Any = None,
        correlation_id: str | None = None,
        **accepted: Any,
    ) -> Any:
        """Returns the agent's answer to a value: the first value that it yields.

        Its body runs immediately, over this one event, in the caller's place. With ``reply_to`` all yielded values go
        there too; see :meth:`send`. Raises :class:`InvalidArgumentError` if the agent yields nothing.
        """
        return await answer(self, value, key, timestamp, Reply(reply_to, correlation_id))

    async def ask_nowait(self, value: Any = None, *, key: Any = None, **options: Any) -> ReplyPromise:
        """Like :meth:`ask`, but returns a promise that can be awaited again."""
        options.pop("force", None)
        return ReplyPromise(await self.ask(value, key=key, **options))

    def map(self, values: Any, key: Any = None, reply_to: Any = None) -> AsyncIterator[Any]:
        """Yields the answers to several values, in the order of the values; iterate with ``async for``."""
        return answers(self, values, key, Reply(reply_to))

    def kvmap(self, items: Any, reply_to: Any = None) -> AsyncIterator[Any]:
        """Yields the answers to several pairs of key and value."""
        return keyed_answers(self, items, Reply(reply_to))

    async def join(self, values: Any, key: Any = None, reply_to: Any = None) -> list[Any]:
        """Returns the answers to several values, as a list."""
        return [one async for one in self.map(values, key, reply_to)]

    async def kvjoin(self, items: Any, reply_to: Any = None) -> list[Any]:
        """Returns the answers to several pairs of key and value, as a list."""
        return [one async for one in self.kvmap(items, reply_to)]

    def add_sink(self, sink: Sink) -> None:
        """Adds a topic, agent or function that receives the yielded values."""
        self.sinks.append(sink)

    def __call__(self, stream: Stream) -> Any:
        """Starts the body over a stream."""
        return self.function(stream)

    async def deliver(self, value: Any) -> None:
        """Sends a yielded value to the sinks."""
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
    """A function called by the clock: in each shard partition, or ``once`` for the program.

    ``every`` is a length in microseconds, or a crontab.
    """

    function: Callable[[], Any]
    every: int | Crontab
    name: str
    on_leader: bool = False
    once: bool = False

    def next_us(self, us: int) -> int:
        """Returns the next due time after a time, both in microseconds since the epoch."""
        return self.every.next_us(us) if isinstance(self.every, Crontab) else us + self.every


@final
@dataclass(frozen=True)
class DeadLetter:
    """A message that was set aside, and the reason."""

    topic: str
    agent: str
    reason: str
    key: Any
    value: Any
    timestamp: float
    headers: dict[str, bytes] = field(default_factory=dict)


__all__ = [
    "TP",
    "Agent",
    "Channel",
    "DeadLetter",
    "FutureMessage",
    "OnError",
    "RecordMetadata",
    "ReqRepResponse",
    "Sink",
    "Timer",
    "Topic",
    "Topics",
    "ValidationError",
]


# Faust's module is a package, whose modules :mod:`mullion.faust._public_names.modules` finds.
__path__: list[str] = []


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        # Names of Faust's module that are elsewhere here. Type checkers see the real names only.
        from mullion.faust._public_names.modules import named

        return named("agents", name)
