r"""The implementation of ``await agent.ask(value)``: an agent's immediate answer to one value.

::

    the event of the caller   ---+ ask(2) ------------------------+--- continues with 4
    the called agent              \_ its body over one event: 2, yields 4 _/

The body of the called agent runs over one event, in the shard of the caller. The first value that it yields is the
answer, and goes to its sinks too. Its effects belong to the caller's event and are undone with it. The tables that it
uses are checked against the shard of that event, as usual. No message passes through the agent's topic, so other
agents of that topic do not see it. With ``reply_to``, each answer also goes to that topic.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import uuid
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Protocol, final

from mullion.errors import InvalidArgumentError, UnsupportedError
from mullion.faust._context import Context, Event, Message, context, enter
from mullion.faust._values.times import seconds, time_us
from mullion.faust.channels import Channel
from mullion.faust.models import Record
from mullion.faust.streams import Step, Stream

NOTHING: Final = object()


class Asked(Protocol):
    """The interface of an agent that :func:`answer` calls."""

    name: str
    channel: Channel
    function: Callable[[Stream], Any]

    async def deliver(self, value: Any) -> None:
        """Sends a yielded value to the sinks."""


@final
class _One:
    """A stream source with exactly one event."""

    def __init__(self, inner: Context) -> None:
        self._inner = inner
        self._is_taken = False

    async def next(self, steps: tuple[Step, ...], more: bool = False) -> Event:
        """Returns the event. The second call ends the body."""
        if self._is_taken:
            raise _Over
        self._is_taken = True
        enter(self._inner)
        assert self._inner.event is not None
        return self._inner.event

    def has_next(self) -> bool:
        return not self._is_taken

    def becomes(self, event: Event) -> None:
        """Replaces the event after a stream operation has changed its key."""
        self._inner.event = event


class _Over(BaseException):
    """The end of the source: it unwinds a body that requests a second event."""


async def answer(
    agent: Asked, value: Any, key: Any = None, timestamp: float | None = None, reply: Reply | None = None
) -> Any:
    """Returns the first value that an agent yields for a value.

    ``reply`` is the destination of all yielded values. Raises :class:`InvalidArgumentError` if the agent yields
    nothing.
    """
    current = context(f"The agent {agent.name!r} was asked")
    asking = current.event
    if asking is None and current.shard.is_one_of_several and current.shard.apart is None:
        raise UnsupportedError(
            f"The agent {agent.name!r} was asked where the records of one shard are, and by no event of it: in a timer "
            "that works on tables, or once a window closes. Send it the value with cast(), and have it yield its "
            "answer to a sink."
        )
    if timestamp is None:
        timestamp = seconds(current.shard.clock.time_us()) if asking is None else asking.timestamp
    channel = agent.channel
    written = channel.written(key, value)
    shard = None if asking is None else asking.message.shard
    at = seconds(time_us(timestamp))
    message = Message(channel.name, 0, -1, at, written.key, written.value, written.headers, shard)
    inner = Context(current.shard, Event(channel.key_of(written.key), channel.value_of(written.value), message))
    try:
        first = await _run(agent, inner, reply or Reply(None))
    finally:
        enter(current)
    if first is NOTHING:
        raise InvalidArgumentError(
            f"The agent {agent.name!r} was asked for an answer to {value!r} and yielded none. Have it yield one for "
            "each event, or send the value with cast(), which waits for nothing."
        )
    return first


async def _run(agent: Asked, inner: Context, reply: Reply) -> Any:
    first: Any = NOTHING
    body = agent.function(Stream(_One(inner)))
    with contextlib.suppress(_Over):
        if not inspect.isasyncgen(body):
            await body
            return first
        async with contextlib.aclosing(body):
            async for value in body:
                if first is NOTHING:
                    first = value
                enter(inner)
                assert inner.event is not None
                await reply.send(inner.event.key, value)
                await agent.deliver(value)
    return first


@final
class ReplyPromise:
    """An answer that can be awaited later."""

    def __init__(self, reply: Any) -> None:
        self._reply = reply

    def done(self) -> bool:
        """Always True: the answer already exists."""
        return True

    def result(self) -> Any:
        return self._reply

    def __await__(self) -> Any:
        yield from ()
        return self._reply


class ReqRepResponse(Record):
    """The message sent to ``reply_to``: an answer, the key of the request, and its correlation id."""

    key: Any
    value: Any
    correlation_id: str


@final
@dataclass(frozen=True)
class Reply:
    """The destination of an answer (a topic, an agent, or a topic's name) and its correlation id."""

    to: Any
    correlation_id: str | None = None

    def __post_init__(self) -> None:
        if self.to is None and self.correlation_id is not None:
            raise InvalidArgumentError(
                f"correlation_id={self.correlation_id!r} is sent to the topic reply_to=, and reply_to= is missing. "
                "Pass both, or neither."
            )
        if self.to is not None and not isinstance(self.to, (Channel, str)) and not hasattr(self.to, "channel"):
            raise InvalidArgumentError(
                f"reply_to={self.to!r} ({type(self.to).__name__}) is no topic, no agent and no name of a topic."
            )

    async def send(self, key: Any, value: Any) -> None:
        if self.to is None:
            return
        to = Channel(self.to) if isinstance(self.to, str) else self.to
        # Unique per answer, and the same when the event is processed again.
        correlation_id = self.correlation_id or _identifier()
        await to.send(key=key, value=ReqRepResponse(key=key, value=value, correlation_id=correlation_id))


def _identifier() -> str:
    current = context("An agent was asked")
    event = current.event
    place = f"{current.shard.clock.time_us()}" if event is None else f"{event.message.topic}-{event.message.offset}"
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{place}-{len(current.shard.sent)}"))


async def answers(
    agent: Asked, values: AsyncIterable[Any] | Iterable[Any], key: Any = None, reply: Reply = Reply(None)
) -> AsyncIterator[Any]:
    """Yields the answers to values, in order."""
    async for value in _each(values):
        yield await answer(agent, value, key, reply=reply)


async def keyed_answers(
    agent: Asked, items: AsyncIterable[Any] | Iterable[Any], reply: Reply = Reply(None)
) -> AsyncIterator[Any]:
    """Yields the answers to pairs of key and value, in order."""
    async for key, value in _each(items):
        yield await answer(agent, value, key, reply=reply)


async def _each(values: AsyncIterable[Any] | Iterable[Any]) -> AsyncIterator[Any]:
    if isinstance(values, AsyncIterable):
        async for value in values:
            yield value
    else:
        for value in values:
            yield value
            await asyncio.sleep(0)
