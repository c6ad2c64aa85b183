r"""``await agent.ask(value)``: the answer of an agent to one value, at once.

::

    the event of the one that asks   ---+ ask(2) ------------------------+--- goes on with 4
    the agent that is asked              \_ its body over one event: 2, yields 4 _/

The body of the agent that is asked runs over one event of its own, in the shard of the one that asks: what it yields
first is the answer, and goes to its sinks too. What it does belongs to the event that asks, and is undone with it. A
table that it uses is held against the shard of the event, as every use is. No message goes through its topic, so
that other agents of that topic do not see it.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from typing import TYPE_CHECKING, Any, Final, final

from mullion.errors import InvalidArgumentError, UnsupportedError
from mullion.faust._context import Context, Event, Message, context, enter
from mullion.faust._seconds import seconds, time_us
from mullion.faust.streams import Step, Stream

if TYPE_CHECKING:
    from mullion.faust.agents import Agent

NOTHING: Final = object()


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


async def answer(agent: Agent, value: Any, key: Any = None, timestamp: float | None = None) -> Any:
    """What an agent yields for a value. Raises :class:`InvalidArgumentError` where it yields nothing."""
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
        first = await _run(agent, inner)
    finally:
        enter(found)
    if first is NOTHING:
        raise InvalidArgumentError(
            f"The agent {agent.name!r} was asked for an answer to {value!r} and yielded none. Have it yield one for "
            "each event, or send the value with cast(), which waits for nothing."
        )
    return first


async def _run(agent: Agent, inner: Context) -> Any:
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


def refuse_reply_to(reply_to: Any, correlation_id: Any = None) -> None:
    """Refuses an answer that is to go elsewhere."""
    if reply_to is not None or correlation_id is not None:
        raise UnsupportedError(
            f"reply_to={reply_to!r} and correlation_id={correlation_id!r} are not served. Give the agent a sink: "
            "@app.agent(topic, sink=[answers]), and put the identifier into the value."
        )


async def answers(agent: Agent, values: AsyncIterable[Any] | Iterable[Any], key: Any = None) -> AsyncIterator[Any]:
    """The answers to values, in their order."""
    async for value in _each(values):
        yield await answer(agent, value, key)


async def keyed_answers(agent: Agent, items: AsyncIterable[Any] | Iterable[Any]) -> AsyncIterator[Any]:
    """The answers to values with keys, in their order."""
    async for key, value in _each(items):
        yield await answer(agent, value, key)


async def _each(values: AsyncIterable[Any] | Iterable[Any]) -> AsyncIterator[Any]:
    if isinstance(values, AsyncIterable):
        async for value in values:
            yield value
    else:
        for value in values:
            yield value
            await asyncio.sleep(0)
