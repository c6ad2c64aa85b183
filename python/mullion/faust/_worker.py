"""Runs a program's agents and timers in Spark's Python workers: one shard partition, one micro-batch at a time.

::

    rows of topics - [shuffle by shard] - agents, in order of arrival - timers that are due - ranges that go -> messages

The rows of each agent carry its number, so that all agents share one operator, and one state for all tables.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import io
import itertools
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final

import pyarrow as pa

from mullion.errors import InvalidArgumentError
from mullion.faust import _json
from mullion.faust._context import Context, Event, Message, Sent, Shard, enter
from mullion.faust._journal import Journal
from mullion.faust._reading import ValidationError
from mullion.faust._running import Told, run_batch, run_told
from mullion.faust._syntax import Emit, Print
from mullion.faust.agents import Agent, DeadLetter, Timer
from mullion.faust.streams import GroupBy
from mullion.faust.tables import Table
from mullion.topics import OUTPUTS, encoded
from mullion.topics._brokers import UNFIT
from mullion.topics._outputs import PRINTED

_TIMER = b"timer..."
_COLUMN = "\n{}\n"


@final
@dataclass(frozen=True)
class Reads:
    """An agent, and the column of the rows that holds its topic's values; whether a value is the one field of it.

    ``tells`` are the statements of one that runs in the JVM that print or yield.
    """

    agent: Agent
    column: str
    scalar: bool
    group: GroupBy | None = None
    tells: tuple[Print | Emit, ...] = ()


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
        """The messages that a micro-batch of a shard partition sends, and what it prints, for the driver."""
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed):
                shard, aside = self._run(batches, state)
        except BaseException:
            # The batch is not done; this process's own log has what was printed on the way.
            sys.stdout.write(printed.getvalue())
            raise
        # Text that is no text, a lone surrogate, is shown as a terminal shows it.
        text = printed.getvalue().encode(errors="backslashreplace").decode()
        yield from outputs(shard.sent, aside, self._dead_letters, text)

    def _run(self, batches: Iterator[pa.RecordBatch], state: Any) -> tuple[Shard, list[DeadLetter]]:
        journal = Journal(state)
        shard = Shard(journal, _BatchClock(state.batch_time_us), self._tables)
        aside: list[DeadLetter] = []
        rows = sorted((row for batch in batches for row in batch.to_pylist()), key=lambda row: row["_position"])
        for number, reads in enumerate(self._reads):
            events, told = [], []
            for row in rows:
                if row["_agent"] == number:
                    event = self._event(reads, row, aside)
                    if event is not None and row.get("_statement") is None:
                        events.append(event)
                    elif event is not None:
                        told.append(Told(reads.tells[row["_statement"]], json.loads(row["_values"]), event))
            if events:
                aside += run_batch(reads.agent, shard, journal, events)
            if told:
                run_told(reads.agent, shard, reads.group, told)
        if self._timers:
            self._run_timers(shard, state)
        shard.expire()
        return shard, aside

    def _event(self, reads: Reads, row: dict[str, Any], aside: list[DeadLetter]) -> Event | None:
        channel, timestamp = reads.agent.channel, row["_timestamp"] / 1_000_000
        value: Any = row.get(UNFIT)
        try:
            value = self._value(reads, row) if value is None else _of_json(value, channel.name)
            message = Message(channel.name, 0, row["_position"], timestamp, row["_key"], value)
            return Event(channel.key_of(message.key), channel.value_of(value), message)
        except ValidationError as invalid:
            aside.append(DeadLetter(channel.name, reads.agent.name, str(invalid), row["_key"], value, timestamp))
            return None

    def _value(self, reads: Reads, row: dict[str, Any]) -> Any:
        held = row[reads.column] or {}
        if reads.scalar:
            return held.get("value")
        there = row["_columns"] or ""
        return {k: v for k, v in held.items() if v is not None or _COLUMN.format(k) in there}

    def begins(self) -> list[bytes]:
        """The records that are there once timers have begun."""
        return [_TIMER + str(number).encode() for number in range(len(self._timers))]

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


def _of_json(text: str, topic: str) -> Any:
    """A value that did not fit the topic's columns. Raises :class:`ValidationError` where it is no JSON."""
    try:
        return json.loads(text)
    except ValueError as no_json:
        raise ValidationError(f"value of {topic}", f"{text!r} is no JSON: {no_json}") from no_json


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


def outputs(
    sent: Iterable[Sent], aside: Iterable[DeadLetter], dead_letters: str, printed: str = ""
) -> Iterator[pa.RecordBatch]:
    """Messages as a publisher takes them, in order: those that follow one another and are alike are one batch.

    What was ``printed`` goes with them, for the driver to print.

    Raises :class:`InvalidArgumentError` for values of one field that are of two types.
    """
    records = [
        (one.to, _text(one.key), one.value if isinstance(one.value, dict) else {"value": one.value}) for one in sent
    ]
    for letter in aside:
        record = {
            "topic": letter.topic,
            "agent": letter.agent,
            "reason": letter.reason,
            "value": json.dumps(_json.plain(letter.value)),
            "timestamp": letter.timestamp,
        }
        records.append((dead_letters, _text(letter.key), record))
    rows: list[tuple[str, str | None, bytes]] = []
    if printed:
        rows.append((PRINTED, None, _encoded(PRINTED, [{"value": printed}])))
    # Arrow takes the fields of the first record for those of all.
    for (to, key, _), alike in itertools.groupby(records, lambda one: (one[0], one[1], list(one[2]))):
        rows.append((to, key, _encoded(to, [record for _, _, record in alike])))
    if rows:
        names = [name.split()[0] for name in OUTPUTS.split(",")]
        kinds = (pa.string(), pa.string(), pa.binary())
        columns = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), kinds, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, names=names)


def _encoded(topic: str, records: list[dict[str, Any]]) -> bytes:
    try:
        return encoded(pa.RecordBatch.from_pylist(records))
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as mixed:
        raise InvalidArgumentError(
            f"Messages for the topic {topic!r} do not fit one another: {mixed}. Give each field values of one type."
        ) from mixed


def _text(key: Any) -> str | None:
    return key if key is None or isinstance(key, str) else json.dumps(key)
