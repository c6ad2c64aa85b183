"""Runs a program's agents and timers in Spark's Python workers: one shard partition, one micro-batch at a time.

::

    rows of topics - [shuffle by shard] - agents, in order of arrival - timers that are due - ranges that go -> messages

The rows of each agent carry its number, so that all agents share one operator, and one state for all tables.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final

import pyarrow as pa
from pyspark import TaskContext

from mullion.faust import _json
from mullion.faust._context import Context, Event, Message, Sent, Shard, enter
from mullion.faust._journal import Journal
from mullion.faust._reading import ValidationError
from mullion.faust._running import run_batch
from mullion.faust.agents import Agent, DeadLetter, Timer
from mullion.faust.tables import Table
from mullion.topics import OUTPUTS, encoded

_TIMER = b"timer..."
_COLUMN = "\n{}\n"


@final
@dataclass(frozen=True)
class Reads:
    """An agent, and the column of the rows that holds its topic's values; whether a value is the one field of it."""

    agent: Agent
    column: str
    scalar: bool


@final
class _BatchClock:
    """The wall clock of a batch, which stands still in it, and which a batch that is tried again repeats."""

    def __init__(self, us: int) -> None:
        self._us = us

    def time_us(self) -> int:
        """The batch's time, in microseconds since the epoch."""
        return self._us


@final
class Worker:
    """What runs in a task. It is pickled with the user's functions."""

    def __init__(
        self,
        reads: Sequence[Reads],
        tables: Iterable[Table],
        timers: Sequence[Timer],
        dead_letters: str,
    ) -> None:
        self._reads = tuple(reads)
        self._tables = tuple(tables)
        self._timers = tuple(timers)
        self._dead_letters = dead_letters

    def __call__(self, batches: Iterator[pa.RecordBatch], state: Any) -> Iterator[pa.RecordBatch]:
        """The messages that a micro-batch of a shard partition sends."""
        journal = Journal(state)
        shard = Shard(journal, _BatchClock(state.batch_time_us), self._tables)
        aside: list[DeadLetter] = []
        rows = sorted((row for batch in batches for row in batch.to_pylist()), key=lambda row: row["_position"])
        for number, reads in enumerate(self._reads):
            events = []
            for row in rows:
                if row["_agent"] == number:
                    event = self._event(reads, row, aside)
                    if event is not None:
                        events.append(event)
            if events:
                aside += run_batch(reads.agent, shard, journal, events)
        self._run_timers(shard, state)
        shard.expire()
        yield from outputs(shard.sent, aside, self._dead_letters)

    def _event(self, reads: Reads, row: dict[str, Any], aside: list[DeadLetter]) -> Event | None:
        held = row[reads.column] or {}
        there = row["_columns"] or ""
        value: Any = {k: v for k, v in held.items() if v is not None or _COLUMN.format(k) in there}
        if reads.scalar:
            value = value.get("value")
        channel, timestamp = reads.agent.channel, row["_timestamp"] / 1_000_000
        message = Message(channel.name, 0, row["_position"], timestamp, row["_key"], value)
        try:
            return Event(channel.key_of(message.key), channel.value_of(value), message)
        except ValidationError as invalid:
            aside.append(DeadLetter(channel.name, reads.agent.name, str(invalid), message.key, value, timestamp))
            return None

    def _run_timers(self, shard: Shard, state: Any) -> None:
        now = state.batch_time_us
        due = {int(key[len(_TIMER) :]) for _, key in state.due(clock="wall")}
        for number, timer in enumerate(self._timers):
            key = _TIMER + str(number).encode()
            begins = state.get(key) is None
            if number in due and not begins:
                call(shard, timer)
            if begins or number in due:
                state.put(key, b"")
                state.put_timer(now + timer.interval_us, key, clock="wall")


def in_order(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Numbers rows in order of arrival, before a shuffle mixes them: by the partition of the source, then in it."""
    context = TaskContext.get()
    position = (0 if context is None else context.partitionId()) << 33
    for batch in batches:
        numbers = pa.array(range(position, position + batch.num_rows), pa.int64())
        position += batch.num_rows
        yield pa.RecordBatch.from_arrays([*batch.columns, numbers], names=[*batch.schema.names, "_position"])


def call(shard: Shard, timer: Timer) -> None:
    """Calls a timer's function in a shard."""

    async def run() -> None:
        enter(Context(shard, None))
        result = timer.function()
        if inspect.isawaitable(result):
            await result
        shard.settled()

    with asyncio.Runner() as runner:
        runner.run(run())


def outputs(sent: Iterable[Sent], aside: Iterable[DeadLetter], dead_letters: str) -> Iterator[pa.RecordBatch]:
    """Messages as a publisher takes them: those of one topic and key that follow one another are one batch."""
    by_topic: dict[tuple[str, str | None], list[dict[str, Any]]] = {}
    for one in sent:
        record = one.value if isinstance(one.value, dict) else {"value": one.value}
        by_topic.setdefault((one.to, _text(one.key)), []).append(record)
    for letter in aside:
        record = {
            "topic": letter.topic,
            "agent": letter.agent,
            "reason": letter.reason,
            "value": json.dumps(_json.plain(letter.value)),
            "timestamp": letter.timestamp,
        }
        by_topic.setdefault((dead_letters, _text(letter.key)), []).append(record)
    if by_topic:
        names = [name.split()[0] for name in OUTPUTS.split(",")]
        columns = [
            pa.array([topic for topic, _ in by_topic], pa.string()),
            pa.array([key for _, key in by_topic], pa.string()),
            pa.array([encoded(pa.RecordBatch.from_pylist(rows)) for rows in by_topic.values()], pa.binary()),
        ]
        yield pa.RecordBatch.from_arrays(columns, names=names)


def _text(key: Any) -> str | None:
    return key if key is None or isinstance(key, str) else json.dumps(key)
