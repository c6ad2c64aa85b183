r"""``await agent.ask(value)``: the answer of an agent to one value, at once.

::

    the event of the one that asks   ---+ ask(2) ------------------------+--- goes on with 4
    the agent that is asked              \_ its body over one event: 2, yields 4 _/

The body of the agent that is asked runs over one event of its own, in the shard of the one that asks: what it yields
first is the answer, and goes to its sinks too. What it does belongs to the event that asks, and is undone with it. A
table that it uses is held against the shard of the event, as every use is. No message goes through its topic, so
that other agents of that topic do not see it. Where ``reply_to`` says so, each answer goes to another topic too.
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
    """What is asked: an agent."""

    name: str
    channel: Channel
    function: Callable[[Stream], Any]

    async def deliver(self, value: Any) -> None:
        """Gives a value that the body has yielded to the sinks."""


@final
class _One:
    """One event, as the source of a stream: who asks for a second one is at its end."""

    def __init__(self, inner: Context) -> None:
        self._inner = inner
        self._is_taken = False

    async def next(self, steps: tuple[Step, ...], more: bool = False) -> Event:
        """The event; then the body ends."""
        if self._is_taken:
            raise _Over
        self._is_taken = True
        enter(self._inner)
        assert self._inner.event is not None
        return self._inner.event

    def has_next(self) -> bool:
        """Whether it is still there."""
        return not self._is_taken

    def becomes(self, event: Event) -> None:
        """A stream has made the event one of another key."""
        self._inner.event = event


class _Over(BaseException):
    """The body has asked for another event."""


async def answer(
    agent: Asked, value: Any, key: Any = None, timestamp: float | None = None, reply: Reply | None = None
) -> Any:
    """What an agent yields for a value. Raises :class:`InvalidArgumentError` where it yields nothing.

    ``reply`` says where all that it yields for the value goes too.
    """
    found = context(f"The agent {agent.name!r} was asked")
    asking = found.event
    if asking is None and found.shard.is_one_of_several and found.shard.apart is None:
        raise UnsupportedError(
            f"The agent {agent.name!r} was asked where the records of one shard are, and by no event of it: in a timer "
            "that works on tables, or once a window closes. Send it the value with cast(), and have it yield its "
            "answer to a sink."
        )
    if timestamp is None:
        timestamp = seconds(found.shard.clock.time_us()) if asking is None else asking.timestamp
    channel = agent.channel
    written = channel.written(key, value)
    shard = None if asking is None else asking.message.shard
    at = seconds(time_us(timestamp))
    message = Message(channel.name, 0, -1, at, written.key, written.value, written.headers, shard)
    inner = Context(found.shard, Event(channel.key_of(written.key), channel.value_of(written.value), message))
    try:
        first = await _run(agent, inner, reply or Reply(None))
    finally:
        enter(found)
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
    """An answer that may be awaited later."""

    def __init__(self, reply: Any) -> None:
        self._reply = reply

    def done(self) -> bool:
        """Whether it is there: always."""
        return True

    def result(self) -> Any:
        """The answer."""
        return self._reply

    def __await__(self) -> Any:
        yield from ()
        return self._reply


class ReqRepResponse(Record):
    """An answer on its way to where ``reply_to`` says: with the key of what was asked, and its identifier."""

    key: Any
    value: Any
    correlation_id: str


@final
@dataclass(frozen=True)
class Reply:
    """Where else an answer goes: a topic, an agent, or the name of a topic; and under which identifier."""

    to: Any
    correlation_id: str | None = None

    def __post_init__(self) -> None:
        if self.to is None and self.correlation_id is not None:
            raise InvalidArgumentError(
                f"correlation_id={self.correlation_id!r} is told to where reply_to says, and there is no reply_to. "
                "Give both, or none."
            )
        if self.to is not None and not isinstance(self.to, (Channel, str)) and not hasattr(self.to, "channel"):
            raise InvalidArgumentError(
                f"reply_to={self.to!r} ({type(self.to).__name__}) is no topic, no agent and no name of a topic."
            )

    async def send(self, key: Any, value: Any) -> None:
        """Sends an answer there."""
        if self.to is None:
            return
        to = Channel(self.to) if isinstance(self.to, str) else self.to
        # Another one each time, and the same where the event is processed again.
        said = self.correlation_id or _identifier()
        await to.send(key=key, value=ReqRepResponse(key=key, value=value, correlation_id=said))


def _identifier() -> str:
    found = context("An agent was asked")
    event = found.event
    place = f"{found.shard.clock.time_us()}" if event is None else f"{event.message.topic}-{event.message.offset}"
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{place}-{len(found.shard.sent)}"))


async def answers(
    agent: Asked, values: AsyncIterable[Any] | Iterable[Any], key: Any = None, reply: Reply = Reply(None)
) -> AsyncIterator[Any]:
    """The answers to values, in their order."""
    async for value in _each(values):
        yield await answer(agent, value, key, reply=reply)


async def keyed_answers(
    agent: Asked, items: AsyncIterable[Any] | Iterable[Any], reply: Reply = Reply(None)
) -> AsyncIterator[Any]:
    """The answers to values with keys, in their order."""
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
