"""Runs an agent's body over a batch of events, in one shard.

::

    events      e1        e2                 e3
    body     ---+--- await +--- raises        +---            begun anew after a failure
    tables      e1's      e2's, undone       e3's

The body is a coroutine or an async generator of the user's; it runs in an event loop, one agent at a time, so that a
batch gives the same answers whenever it is run. An event is over when the body asks for the next one.
"""

from __future__ import annotations

import asyncio
import inspect
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, final

from mullion.errors import MullionError
from mullion.faust._context import Context, Event, Shard, enter
from mullion.faust._journal import Journal
from mullion.faust._parser import read
from mullion.faust._syntax import Emit, Print
from mullion.faust.agents import Agent, DeadLetter
from mullion.faust.models import FieldDescriptor
from mullion.faust.streams import GroupBy, Step, Stream

_OURS = str(Path(__file__).parent)


class AgentError(MullionError):
    """An agent failed. The message names the event and the line; the error itself is the ``__cause__``."""

    condition = "AGENT_FAILED"


class _Over(Exception):  # noqa: N818
    """The body has asked for an event, and there is none: it is closed."""


@final
class _Batch:
    """The events of a batch, as the source of a stream."""

    def __init__(self, shard: Shard, journal: Journal, events: Sequence[Event]) -> None:
        self._shard = shard
        self._journal = journal
        self._events = events
        self.taken = 0
        self.sent = 0
        self._over = asyncio.get_running_loop().create_future()
        self.current: Event | None = None

    async def next(self, steps: tuple[Step, ...]) -> Event:
        """The next event, in its context; the one before it is over."""
        self.settle()
        if self.taken == len(self._events):
            # The body stays where it is, until it is cancelled.
            if not self._over.done():
                self._over.set_result(None)
            await asyncio.get_running_loop().create_future()
        self.current = self._events[self.taken]
        self.taken += 1
        self.sent = len(self._shard.sent)
        enter(Context(self._shard, self.current))
        return self.current

    def settle(self) -> None:
        """The current event is over, and what it did stays."""
        if self.current is not None:
            self._shard.settled()
            self._journal.begin()
            self.current = None

    def has_next(self) -> bool:
        """Whether there is another event in this batch."""
        return self.taken < len(self._events)

    def becomes(self, event: Event) -> None:
        """A stream has made the event one of another key."""
        enter(Context(self._shard, event))

    @property
    def over(self) -> asyncio.Future[None]:
        """Done when the body has asked for more than there is."""
        return self._over


def run_batch(agent: Agent, shard: Shard, journal: Journal, events: Sequence[Event]) -> list[DeadLetter]:
    """Runs an agent over a batch; gives the events that were put aside.

    Raises :class:`AgentError` at the first event that fails, unless the agent's policy is to put it aside.
    """
    with asyncio.Runner() as runner:
        return runner.run(_run(agent, shard, journal, events))


async def _run(agent: Agent, shard: Shard, journal: Journal, events: Sequence[Event]) -> list[DeadLetter]:
    aside: list[DeadLetter] = []
    left = list(events)
    while left:
        batch = _Batch(shard, journal, left)
        journal.begin()
        task = asyncio.create_task(_body(agent, batch))
        await asyncio.wait({task, batch.over}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            return aside
        except Exception as error:
            failed = batch.current
            if failed is None or agent.on_error == "stop":
                _fail(agent, failed, error)
            journal.undo()
            shard.reread()
            del shard.sent[batch.sent :]
            aside.append(_letter(agent, failed, error))
        else:
            # The body has come to its end of its own: with 'break', or after a number of events.
            batch.settle()
            if not batch.taken:
                return aside
        left = left[batch.taken :]
    return aside


class Told(NamedTuple):
    """A statement that prints or yields, with what the JVM knows of it, for an event that an agent had there."""

    statement: Print | Emit
    values: list[Any]
    event: Event


def run_told(agent: Agent, shard: Shard, group: GroupBy | None, told: Iterable[Told]) -> None:
    """Prints and yields what an agent in the JVM does, in order. Raises :class:`AgentError`."""
    with asyncio.Runner() as runner:
        runner.run(_tell(agent, shard, group, told))


async def _tell(agent: Agent, shard: Shard, group: GroupBy | None, told: Iterable[Told]) -> None:
    from mullion.faust._compiled import filled
    from mullion.faust._interpreter import Interpreter

    interpreter = Interpreter({}, shard.clock)
    for statement, values, event in told:
        try:
            if group is not None:
                event = replace(event, key=group.of(event.value))
            enter(Context(shard, event))
            whole = filled(statement, values)
            if isinstance(whole, Emit):
                await agent.deliver(interpreter.value(whole.value, event))
            else:
                print(*(interpreter.value(one, event) for one in whole.values))  # noqa: T201
            shard.settled()
        except Exception as error:
            _fail(agent, event, error, f"{agent.function.__code__.co_filename}:{statement.line}")


async def _body(agent: Agent, batch: _Batch) -> None:
    body = agent.function(Stream(batch))
    if not inspect.isasyncgen(body):
        await body
        return
    async for value in body:
        await agent.deliver(value)


def _letter(agent: Agent, event: Event, error: BaseException) -> DeadLetter:
    message = event.message
    reason = f"{type(error).__name__}: {error} ({_line(agent, error)})"
    return DeadLetter(message.topic, agent.name, reason, message.key, message.value, message.timestamp, message.headers)


def _fail(agent: Agent, event: Event | None, error: Exception, line: str | None = None) -> NoReturn:
    where = "before its first event"
    if event is not None:
        message = event.message
        where = (
            f"on the event {message.value!r} (topic {message.topic!r}, offset {message.offset}, key {message.key!r}, "
            f"time {message.timestamp})"
        )
    raise AgentError(
        f"The agent {agent.name!r} failed {where}, at {line or _line(agent, error)}: {type(error).__name__}: {error}. "
        "To put such events aside and go on, write on_error='dead_letter'."
    ) from error


def _line(agent: Agent, error: BaseException) -> str:
    """The innermost line of the user's code that an error came through."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(_OURS)]
    own = [frame for frame in frames if frame.filename == agent.function.__code__.co_filename]
    found = (own or frames)[-1:]
    return f"{found[0].filename}:{found[0].lineno}" if found else "an unknown line"


class _Probe:
    """A source that only notes what a body does to its stream."""

    def __init__(self) -> None:
        self.steps: tuple[Step, ...] | None = None

    async def next(self, steps: tuple[Step, ...]) -> Event:
        """Ends the body."""
        self.steps = steps
        raise _Over

    def has_next(self) -> bool:
        """There is none."""
        return False

    def becomes(self, event: Event) -> None:
        """Nothing is processed."""


def steps_of(agent: Agent) -> tuple[Step, ...]:
    """What an agent does to its stream before it goes through it; its body runs up to there, with no event."""
    probe = _Probe()

    async def begin() -> None:
        body = agent.function(Stream(probe))
        try:
            if inspect.isasyncgen(body):
                await anext(body, None)
            else:
                await body
        except Exception:
            # Most often the probe's own. What fails here, with no event, is for the shards to say.
            return

    with asyncio.Runner() as runner:
        runner.run(begin())
    return probe.steps or ()


def grouped_by(steps: tuple[Step, ...]) -> GroupBy | None:
    """What events are grouped by, if they are."""
    return next((step for step in steps if isinstance(step, GroupBy)), None)


def type_by_groups(agents: Iterable[Agent]) -> None:
    """Values of a topic that says no type are of the record by a field of which its one agent groups them."""
    by_topic: dict[str, list[Agent]] = {}
    for agent in agents:
        by_topic.setdefault(agent.channel.name, []).append(agent)
    for agent, *others in by_topic.values():
        if agent.channel.value_type is None and not others:
            group = read(agent).group
            if group is not None and isinstance(group.key, FieldDescriptor):
                agent.channel.typed(agent.channel.key_type, group.key.model)


__all__ = ["AgentError", "grouped_by", "run_batch", "steps_of", "type_by_groups"]
