"""Runs an agent's body over a batch of events, in one shard.

::

    events      e1        e2                 e3
    body     ---+--- await +--- raises        +---            restarted after a failure
    tables      e1's      e2's, undone       e3's

The body is the user's coroutine or async generator. It runs in an event loop, one agent at a time, so that every run of
a batch gives the same result. An event is complete when the body requests the next one and all tasks that it started
have ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import itertools
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, NoReturn, final

from mullion._keyed.journal import Journal
from mullion._util.user_code import failed_at
from mullion.errors import AgentError
from mullion.faust._agent_code.parser import read
from mullion.faust._agent_code.syntax import Emit, Print
from mullion.faust._agent_run.dead_letters import message_of, shown
from mullion.faust._agent_run.shard import Shard
from mullion.faust._agent_run.tasks import Begun
from mullion.faust._context import Context, Event, enter
from mullion.faust.agents import Agent, DeadLetter
from mullion.faust.models import FieldDescriptor
from mullion.faust.streams import GroupBy, Step, Stream


class _Over(Exception):  # noqa: N818
    """Ends the body at its first request for an event."""


@final
class _Events:
    """The events of a batch. Events of a list that failed may be put back, to be read one by one."""

    def __init__(self, events: Iterable[Event]) -> None:
        self._coming = iter(events)
        self._here: deque[Event] = deque()
        self.alone = 0

    def there(self) -> bool:
        if not self._here:
            self._here.extend(itertools.islice(self._coming, 1))
        return bool(self._here)

    def take(self) -> Event:
        self.there()
        return self._here.popleft()

    def back(self, events: Sequence[Event]) -> None:
        """Puts events back; each will be in a list of its own."""
        self._here.extendleft(reversed(events))
        self.alone += len(events)


@final
class _Batch:
    """The events of a batch, as the source of a stream."""

    def __init__(self, shard: Shard, journal: Journal, events: _Events) -> None:
        self._shard = shard
        self._journal = journal
        self._events = events
        self._alone = False
        self._over = asyncio.get_running_loop().create_future()
        self._waiting: list[asyncio.Future[Any]] = []
        self.begun: Begun | None = None
        self.taken = 0
        self.sent = 0
        self.dropped: dict[str, int] = {}
        self.current: list[Event] = []

    async def next(self, steps: tuple[Step, ...], more: bool = False) -> Event:
        """Returns the next event in its context. The previous event is complete, or with ``more`` in the same list."""
        if not more:
            await self.ended()
            self.settle()
            if not self._events.there():
                await self._wait()
            self.sent = len(self._shard.sent)
            self.dropped = dict(self._shard.dropped)
            self._alone = self._events.alone > 0
            self._events.alone -= self._alone
        event = self._events.take()
        self.current.append(event)
        self.taken += 1
        enter(Context(self._shard, event))
        return event

    async def ended(self) -> None:
        """Waits for the tasks that the body has started."""
        if self.begun is not None:
            await self.begun.ended()

    def settle(self) -> None:
        """Completes the current events and keeps their effects."""
        if self.current:
            self._shard.settled()
            self._journal.begin()
            self.current = []

    def has_next(self) -> bool:
        """True if the batch has another event that may join the current list."""
        return not self._alone and self._events.there()

    def becomes(self, event: Event) -> None:
        """Replaces the event after a stream operation has changed its key."""
        enter(Context(self._shard, event))

    @property
    def over(self) -> asyncio.Future[None]:
        """Done when the body requests an event after the last one."""
        return self._over

    def close(self) -> None:
        """Ends the batch: cancels all requests for further events."""
        if not self._over.done():
            self._over.cancel()
        for waiting in self._waiting:
            waiting.cancel()

    async def _wait(self) -> NoReturn:
        """Blocks until the batch is closed."""
        if self._over.done():
            raise asyncio.CancelledError
        self._over.set_result(None)
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        await waiting
        raise asyncio.CancelledError


def run_batch(agent: Agent, shard: Shard, journal: Journal, events: Iterable[Event]) -> list[DeadLetter]:
    """Runs an agent over a batch and returns the events that were set aside.

    Raises :class:`AgentError` at the first event that fails, unless the agent's policy is to set it aside. After a
    failure of a list of events (``stream.take``), each runs in a list of its own, so that only the failing events are
    set aside.
    """
    coming = _Events(events)
    if not coming.there():
        return []
    with asyncio.Runner() as runner:
        return runner.run(_run(agent, shard, journal, coming))


async def _run(agent: Agent, shard: Shard, journal: Journal, events: _Events) -> list[DeadLetter]:
    aside: list[DeadLetter] = []
    while events.there():
        batch = _Batch(shard, journal, events)
        journal.begin()
        task = asyncio.create_task(_body(agent, batch))
        batch.begun = Begun()
        await asyncio.wait({task, batch.over}, return_when=asyncio.FIRST_COMPLETED)
        is_over = batch.over.done()
        batch.close()
        failure: BaseException | None = None
        try:
            await task
        except asyncio.CancelledError as error:
            # Cancellation while the body waited for an event is its normal end; otherwise the body raised it.
            failure = None if is_over else error
        except Exception as error:
            failure = error
        if failure is None:
            try:
                await batch.begun.ended()
            except Exception as error:
                failure = error
        if failure is None:
            batch.settle()
            if not batch.taken:
                return aside
            continue
        await batch.begun.cancelled()
        failed = batch.current
        if not failed or agent.on_error == "stop":
            _fail(agent, failed, failure, "after its last event" if batch.taken else "before its first event")
        journal.undo()
        shard.reread()
        del shard.sent[batch.sent :]
        shard.dropped = batch.dropped
        if len(failed) > 1:
            events.back(failed)
        else:
            aside.append(_letter(agent, failed[0], failure))
    return aside


class Effect(NamedTuple):
    """A statement that prints or yields, with the values that the JVM computed for it, and its event."""

    statement: Print | Emit
    values: list[Any]
    event: Event


def run_effects(agent: Agent, shard: Shard, group: GroupBy | None, effects: Iterable[Effect]) -> None:
    """Runs the prints and yields of an agent in the JVM, in order. Raises :class:`AgentError`."""
    effects = iter(effects)
    first = next(effects, None)
    if first is not None:
        with asyncio.Runner() as runner:
            runner.run(_run_effects(agent, shard, group, itertools.chain([first], effects)))


async def _run_effects(agent: Agent, shard: Shard, group: GroupBy | None, effects: Iterable[Effect]) -> None:
    from mullion.faust._agent_code.folds import filled
    from mullion.faust._agent_code.interpreter import Interpreter

    interpreter, begun = Interpreter({}, shard.clock), Begun()
    for statement, values, event in effects:
        try:
            if group is not None:
                event = replace(event, key=group.of(event.value))
            enter(Context(shard, event))
            effect = filled(statement, values)
            if isinstance(effect, Emit):
                await agent.deliver(interpreter.value(effect.value, event))
                await begun.ended()
            else:
                print(*(interpreter.value(one, event) for one in effect.values))  # noqa: T201
            shard.settled()
        except Exception as error:
            _fail(agent, [event], error, line=f"{agent.function.__code__.co_filename}:{statement.line}")


async def _body(agent: Agent, batch: _Batch) -> None:
    body = agent.function(Stream(batch))
    if inspect.isasyncgen(body):
        async with contextlib.aclosing(body):
            async for value in body:
                await agent.deliver(value)
    else:
        await body
    await batch.ended()


def _letter(agent: Agent, event: Event, error: BaseException) -> DeadLetter:
    message = event.message
    reason = f"{message_of(error)} ({failed_at(error, agent.function)})"
    return DeadLetter(message.topic, agent.name, reason, message.key, message.value, message.timestamp, message.headers)


def _fail(
    agent: Agent, events: Sequence[Event], error: BaseException, where: str = "", line: str | None = None
) -> NoReturn:
    if events:
        message = events[-1].message
        last = (
            f"the event {shown(message.value)} (topic {message.topic!r}, offset {message.offset}, key {message.key!r}, "
            f"time {message.timestamp})"
        )
        where = f"on {last}" if len(events) == 1 else f"on a list of {len(events)} events, the last of which is {last}"
    raise AgentError(
        f"The agent {agent.name!r} failed {where}, at {line or failed_at(error, agent.function)}: {message_of(error)}. "
        "To send such events to a topic and continue, write on_error='dead_letter'."
    ) from error


class _Probe:
    """A source that only records the stream operations of a body."""

    def __init__(self) -> None:
        self.steps: tuple[Step, ...] | None = None

    async def next(self, steps: tuple[Step, ...], more: bool = False) -> Event:
        """Ends the body."""
        self.steps = steps
        raise _Over

    def has_next(self) -> bool:
        return False

    def becomes(self, event: Event) -> None:
        """Does nothing: no event is processed."""


def steps_of(agent: Agent) -> tuple[Step, ...]:
    """Returns the stream operations before an agent's loop, by running its body up to there without events."""
    probe = _Probe()

    async def begin() -> None:
        body = agent.function(Stream(probe))
        try:
            if inspect.isasyncgen(body):
                await anext(body, None)
            else:
                await body
        except Exception:
            # Usually the probe's own exception. The shards report any other failure, with its event.
            return

    with asyncio.Runner() as runner:
        runner.run(begin())
    return probe.steps or ()


def grouped_by(steps: tuple[Step, ...]) -> GroupBy | None:
    return next((step for step in steps if isinstance(step, GroupBy)), None)


def type_by_groups(agents: Iterable[Agent]) -> None:
    """Types an untyped topic with one agent as the record by whose field the agent groups it."""
    by_topic: dict[str, list[Agent]] = {}
    for agent in agents:
        by_topic.setdefault(agent.channel.name, []).append(agent)
    for agent, *others in by_topic.values():
        if agent.channel.value_type is None and not others:
            group = read(agent).group
            if group is not None and isinstance(group.key, FieldDescriptor):
                agent.channel.typed(agent.channel.key_type, group.key.model)


__all__ = ["AgentError", "grouped_by", "run_batch", "steps_of", "type_by_groups"]
