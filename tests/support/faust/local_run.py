"""Runs a program of Faust in this process, over shards in memory. Tests compare runs in Spark with it.

Tests pass it all messages and the clock. It has no threads and does not wait::

    run = LocalRun(program, clock, shards=2)
    run.produce("events", [Message(...), ...])     one batch for the agents, and for agents over their output
    run.tick()                                     the timers that are due
"""

from __future__ import annotations

import asyncio
import inspect
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from mullion._keyed.journal import Journal
from mullion._keyed.memory import MemoryStore
from mullion.faust._agent_run.agent_loop import AgentError, grouped_by, run_batch, steps_of, type_by_groups
from mullion.faust._agent_run.shard import Shard
from mullion.faust._agent_run.tasks import to_its_end
from mullion.faust._agent_run.timer_places import placed
from mullion.faust._context import Clock, Context, Event, Message, Sent, enter, finish
from mullion.faust._program.program import Program
from mullion.faust._values.crontab import Crontab
from mullion.faust._values.fields import ValidationError
from mullion.faust.agents import Agent, DeadLetter
from mullion.faust.streams import GroupBy
from mullion.faust.tables.keys import encode_key


@dataclass
class _Place:
    """A shard and its transactional store."""

    store: MemoryStore
    journal: Journal
    shard: Shard


class LocalRun:
    """A run of a program in this process."""

    def __init__(self, program: Program, clock: Clock, shards: int = 1) -> None:
        self.program = program
        self.clock = clock
        self.published: dict[str, list[Message]] = {}
        self.dead_letters: list[DeadLetter] = []
        self._offsets: dict[str, int] = {}
        self._timers = placed(program.timers)
        self._due = [timer.next_us(clock.time_us()) for timer in self._timers]
        self._groups: dict[str, GroupBy | None] = {}
        self._places: list[_Place] = []
        for _ in range(shards):
            store = MemoryStore()
            journal = Journal(store)
            self._places.append(_Place(store, journal, Shard(journal, clock, program.tables.values())))
        type_by_groups(program.agents.values())
        for task in program.tasks:
            self._call(self._places[0], task)
        self._deliver()

    @property
    def shards(self) -> list[Shard]:
        """The shards."""
        return [place.shard for place in self._places]

    def produce(self, topic: str, messages: Iterable[tuple[Any, Any, float]]) -> None:
        """Runs one batch of messages of a topic, as ``(key, value, timestamp)`` with keys and values in JSON's types.

        Agents run over it and over the messages that they send, until none remain. Then expired ranges are deleted.

        Raises :class:`AgentError` when an agent fails whose policy is to stop.
        """
        self._run(topic, [self._message(topic, key, value, at) for key, value, at in messages])
        self._deliver()
        for place in self._places:
            place.shard.expire()
            place.journal.begin()
        self._deliver()

    def tick(self) -> None:
        """Calls the timers that are due, in order of time."""
        now = self.clock.time_us()
        while self._due and min(self._due) <= now:
            at = self._due.index(min(self._due))
            timer = self._timers[at]
            for place in self._places[:1] if timer.once else self._places:
                place.shard.apart = timer if timer.once else None
                try:
                    self._call(place, timer.function)
                finally:
                    place.shard.apart = None
            # Missed intervals are skipped.
            due = timer.next_us(self._due[at])
            if not isinstance(timer.every, Crontab):
                due += max(0, now - due + timer.every) // timer.every * timer.every
            self._due[at] = due if due > now else timer.next_us(now)
            self._deliver()

    def read(self, function: Callable[[], Any]) -> list[Any]:
        """Calls a function in each shard, outside events. Returns its results."""
        results = []
        for shard in self.shards:
            with shard.outside():
                results.append(function())
        return results

    def _message(
        self, topic: str, key: Any, value: Any, timestamp: float, headers: dict[str, bytes] | None = None
    ) -> Message:
        offset = self._offsets.get(topic, 0)
        self._offsets[topic] = offset + 1
        message = Message(topic, 0, offset, timestamp, key, value, headers or {})
        self.published.setdefault(topic, []).append(message)
        return message

    def _run(self, topic: str, messages: list[Message]) -> None:
        if self.program.add_topic(topic):
            type_by_groups(self.program.agents.values())
        for agent in self.program.agents.values():
            if agent.channel.name == topic:
                self._run_agent(agent, messages)

    def _run_agent(self, agent: Agent, messages: list[Message]) -> None:
        sharded: list[list[Event]] = [[] for _ in self._places]
        for message in messages:
            try:
                key = agent.channel.key_of(message.key)
                event = Event(key, agent.channel.value_of(message.value), message)
                sharded[self._shard_of(agent, event)].append(event)
            except ValidationError as invalid:
                self._aside(agent, message, str(invalid))
        for place, events in zip(self._places, sharded, strict=True):
            if events:
                self.dead_letters += run_batch(agent, place.shard, place.journal, events)

    def _shard_of(self, agent: Agent, event: Event) -> int:
        if len(self._places) == 1:
            return 0
        if agent.name not in self._groups:
            self._groups[agent.name] = grouped_by(steps_of(agent))
        group = self._groups[agent.name]
        key = event.key if group is None else group.of(event.value)
        if inspect.isawaitable(key):
            key = finish(key)
        if key is None:
            return event.message.offset % len(self._places)
        return zlib.crc32(encode_key(key, agent.name)) % len(self._places)

    def _aside(self, agent: Agent, message: Message, reason: str) -> None:
        self.dead_letters.append(
            DeadLetter(
                message.topic, agent.name, reason, message.key, message.value, message.timestamp, message.headers
            )
        )

    def _deliver(self) -> None:
        """Runs agents over sent messages, in rounds, until no agent sends any."""
        while True:
            sent: list[Sent] = []
            for shard in self.shards:
                sent += shard.sent
                shard.sent.clear()
            if not sent:
                return
            for topic in dict.fromkeys(one.to for one in sent):
                of_topic = [one for one in sent if one.to == topic]
                now = self.clock.time_us() / 1_000_000
                times = [now if one.timestamp is None else one.timestamp for one in of_topic]
                self._run(
                    topic,
                    [
                        self._message(topic, one.key, one.value, at, one.headers)
                        for one, at in zip(of_topic, times, strict=True)
                    ],
                )

    def _call(self, place: _Place, function: Callable[[], Any]) -> None:
        async def call() -> None:
            enter(Context(place.shard, None))
            await to_its_end(function)
            place.shard.settled()
            place.journal.begin()

        with asyncio.Runner() as runner:
            runner.run(call())


__all__ = ["AgentError", "LocalRun"]
