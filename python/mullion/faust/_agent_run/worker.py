"""Runs a program's agents and timers in Spark's Python workers: one shard partition, one micro-batch at a time.

::

    rows of topics - [shuffle by shard] - agents, in order of arrival - due timers - expired ranges -> messages

The rows of each agent carry its number, so that all agents share one operator, and one state for all tables.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import itertools
import json
import logging
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import pyarrow as pa

from mullion._keyed.journal import Journal
from mullion._pyfunction.functions import plain
from mullion.errors import MullionError, WrongShardError
from mullion.faust._agent_code.syntax import Emit, Print
from mullion.faust._agent_run.agent_loop import Effect, run_batch, run_effects
from mullion.faust._agent_run.dead_letters import NotJson, clean, message_of, record_of
from mullion.faust._agent_run.outside_state import OutsideState, require_unchanged
from mullion.faust._agent_run.row_order import InOrder
from mullion.faust._agent_run.shard import Shard
from mullion.faust._agent_run.tasks import to_its_end
from mullion.faust._context import Context, Event, Message, Sent, enter
from mullion.faust._sharding import Sharding
from mullion.faust._values.fields import ValidationError
from mullion.faust._values.shards import shard_of
from mullion.faust._values.times import time_us
from mullion.faust.agents import Agent, DeadLetter, Timer
from mullion.faust.models import Record, know, models_in
from mullion.faust.streams import GroupBy
from mullion.faust.tables.table import Table
from mullion.topics import _json_rows, encoded
from mullion.topics._broker import NOT_TEXT, UNFIT, WHOLE, whole_mark
from mullion.topics._folder.rows import PLACE, DirRows
from mullion.topics._outputs import PRINTED

log = logging.getLogger("mullion")

_TIMER = b"timer..."
_COLUMN = "\n{}\n"
_OUTPUTS_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("key", pa.string()),
        ("batch", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ("timestamp", pa.int64()),
    ]
)
"""The Arrow schema of :data:`mullion.topics.OUTPUTS_WITH_TIMES`."""


@final
@dataclass(frozen=True)
class Reads:
    """An agent and its input: the column of its topic's values; ``scalar`` if a value is the column's only field.

    ``effects`` are the statements that print or yield, for an agent in the JVM. ``sharding`` determines the shards of
    its events; ``None`` if there is only one shard. ``rows`` reads the files of a topic with fields that its columns
    lack.
    """

    agent: Agent
    column: str
    scalar: bool
    group: GroupBy | None = None
    effects: tuple[Print | Emit, ...] = ()
    sharding: Sharding | None = None
    rows: DirRows | None = None


@final
class _BatchClock:
    """The wall clock of a batch: constant within the batch, and the same if the batch is retried."""

    def __init__(self, us: int) -> None:
        self._us = us

    def time_us(self) -> int:
        return self._us


@final
class Worker:
    """The code of a task. It is pickled with the user's functions."""

    def __init__(
        self,
        reads: Sequence[Reads],
        tables: Iterable[Table],
        timers: Sequence[Timer],
        dead_letters: str,
        outside: OutsideState,
        *,
        as_text: bool = False,
    ) -> None:
        self._reads = tuple(reads)
        self._tables = tuple(tables)
        self._timers = tuple(timers)
        self._dead_letters = dead_letters
        self._outside = outside
        self._as_text = as_text
        # A message may name its model, which this process may not have defined yet.
        self._models: dict[str, type[Record]] = {}
        for one in self._reads:
            self._models.update(models_in(getattr(plain(one.agent.function), "__globals__", {})))

    def __call__(self, batches: Iterator[pa.RecordBatch], state: Any) -> Iterator[pa.RecordBatch]:
        """Yields the messages that a micro-batch of a shard partition sends, and its printed text, for the driver."""
        know(self._models)
        variables = self._outside.variables()
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed):
                shard, aside = self._run(batches, state)
        except BaseException:
            # The batch failed: the log of this process keeps the text printed so far.
            sys.stdout.write(printed.getvalue())
            raise
        require_unchanged(variables)
        # A lone surrogate has no encoding: it is shown as an escape.
        text = printed.getvalue().encode(errors="backslashreplace").decode()
        self._log_dead_letters(aside)
        yield from outputs(shard.sent, aside, self._dead_letters, text, as_text=self._as_text)

    def _log_dead_letters(self, aside: Iterable[DeadLetter]) -> None:
        """Logs one line for each topic and agent. A local program shows it on its console."""
        by_agent: dict[tuple[str, str], list[DeadLetter]] = {}
        for letter in aside:
            by_agent.setdefault((letter.topic, letter.agent), []).append(letter)
        for (topic, agent), letters in by_agent.items():
            log.warning(
                "%d messages of the topic %r were rejected for the agent %r and are in the topic %r. The first one: %s",
                len(letters),
                topic,
                agent,
                self._dead_letters,
                clean(letters[0].reason, 500),
            )

    def _run(self, batches: Iterator[pa.RecordBatch], state: Any) -> tuple[Shard, list[DeadLetter]]:
        journal = Journal(state)
        shard = Shard(journal, _BatchClock(state.batch_time_us), self._tables)
        aside: list[DeadLetter] = []
        rows = InOrder(batches)
        for number, reads in enumerate(self._reads):
            with shard.of_agent(reads.agent.name):
                aside += run_batch(reads.agent, shard, journal, _Coming(self, reads, rows.of(number), aside))
                if reads.effects:
                    run_effects(
                        reads.agent, shard, reads.group, self._effects(reads, rows.of(number, effects=True), aside)
                    )
        self._run_timers(shard, state)
        shard.expire()
        for table, events in shard.dropped.items():
            state.count_late(table, events)
        return shard, aside

    def _effects(self, reads: Reads, rows: Iterator[dict[str, Any]], aside: list[DeadLetter]) -> Iterator[Effect]:
        for row in rows:
            event = self._event(reads, row, aside)
            if event is not None:
                yield Effect(reads.effects[row["_statement"]], json.loads(row["_values"]), event)

    def _event(self, reads: Reads, row: dict[str, Any], aside: list[DeadLetter]) -> Event | None:
        channel, timestamp = reads.agent.channel, row["_timestamp"] / 1_000_000
        unfit, name = row.get(UNFIT), row["_key"]
        key: Any = _as_text(name)
        value: Any
        is_placed = False
        if unfit is None:
            value = self._value(reads, row)
        elif reads.rows is not None and unfit.startswith(PLACE):
            value = reads.rows.value(unfit, row["_columns"], scalar=reads.scalar)
            unfit, is_placed = None, True
        else:
            value = NotJson(_as_text(unfit))
        try:
            _require_text(name, f"key of {channel.name}")
            if unfit is not None:
                _require_text(unfit, f"value of {channel.name}")
                value = _of_json(unfit, channel.name)
            shard = row["_shard"] if reads.sharding is not None else None
            message = Message(channel.name, 0, row["_position"], timestamp, key, value, shard=shard)
            is_tombstone = unfit is None and row["_columns"] is None
            event = Event(channel.key_of(key), channel.value_of(value, is_tombstone=is_tombstone), message)
            if unfit is not None and reads.sharding is not None:
                _require_shard(reads.sharding, event, channel.name)
            if is_placed and reads.sharding is not None:
                _require_known_shard(reads.sharding, event, channel.name)
            return event
        except ValidationError as invalid:
            reason = str(invalid)
        except MullionError:
            # Not the message's fault: a model with unresolved types.
            raise
        except Exception as error:
            reason = f"value of {channel.name}: {message_of(error)}"
        aside.append(DeadLetter(channel.name, reads.agent.name, reason, key, value, timestamp))
        return None

    def _value(self, reads: Reads, row: dict[str, Any]) -> Any:
        fields = row[reads.column] or {}
        there = row["_columns"]
        if there is not None and WHOLE in there:
            fields = {k: int(v) if v is not None and whole_mark(k) in there else v for k, v in fields.items()}
        if reads.scalar:
            return fields.get("value")
        if there is None:
            # A tombstone: a Kafka message without a value.
            return None
        return {k: v for k, v in fields.items() if v is not None or _COLUMN.format(k) in there}

    @property
    def timers_of_shards(self) -> list[int]:
        """The numbers of the timers that are called in each shard."""
        return [number for number, timer in enumerate(self._timers) if not timer.once]

    def begins(self) -> list[bytes]:
        """The records in each shard after its timers have started."""
        return [_TIMER + str(number).encode() for number in self.timers_of_shards]

    def _run_timers(self, shard: Shard, state: Any) -> None:
        now = state.batch_time_us
        due = {int(key[len(_TIMER) :]) for _, key in state.due(clock="wall")}
        here = {number for number, timer in enumerate(self._timers) if not timer.once or state.shard == 0}
        for number in due - here:
            # A timer of an earlier version of the program. A later timer with this number starts anew.
            state.delete(_TIMER + str(number).encode())
        for number, timer in enumerate(self._timers):
            if number not in here:
                continue
            key = _TIMER + str(number).encode()
            begins = state.get(key) is None
            if number in due and not begins:
                call(shard, timer)
            if begins or number in due:
                state.put(key, b"")
                state.put_timer(timer.next_us(now), key, clock="wall")


@final
class _Coming:
    """The events of an agent, read lazily; invalid messages are set aside."""

    def __init__(self, worker: Worker, reads: Reads, rows: Iterator[dict[str, Any]], aside: list[DeadLetter]) -> None:
        self._worker = worker
        self._reads = reads
        self._rows = rows
        self._aside = aside

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        while True:
            event = self._worker._event(self._reads, next(self._rows), self._aside)
            if event is not None:
                return event


def _as_text(text: str | None) -> str | None:
    """The text of a key or value; invalid UTF-8 bytes become escapes."""
    if text is None or not text.startswith(NOT_TEXT):
        return text
    try:
        return bytes.fromhex(text.removeprefix(NOT_TEXT)).decode("utf-8", "backslashreplace")
    except ValueError:
        # A message with the literal marker text.
        return text


def _require_text(text: str | None, what: str) -> None:
    if text is not None and text.startswith(NOT_TEXT):
        raise ValidationError(what, f"its bytes are not UTF-8: {_as_text(text)!r}.")


def _require_shard(sharding: Sharding, event: Event, topic: str) -> None:
    """Rejects a value that does not fit the topic's columns if its key belongs to another shard."""
    key = sharding.key_of(event.key, event.value)
    if shard_of(key) != event.message.shard:
        raise ValidationError(
            f"value of {topic}",
            f"it does not fit the columns of the topic, and its key {key!r} not the events' shards.",
        )


def _require_known_shard(sharding: Sharding, event: Event, topic: str) -> None:
    """Raises if a column that was added after the query's start puts an event into another shard."""
    key = sharding.key_of(event.key, event.value)
    is_record = isinstance(event.value, (Mapping, Record))
    if is_record and key is not None and shard_of(key) != event.message.shard:
        raise WrongShardError(
            f"The topic {topic!r} has {key!r} in {sharding.field!r}, the field that selects the shard of an event. "
            "It had another type, or was missing, when the program started. Run the program again: it continues here."
        )


def _of_json(text: str, topic: str) -> Any:
    """Parses a value that does not fit the topic's columns. Raises :class:`ValidationError` if it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as no_json:
        raise ValidationError(
            f"value of {topic}", f"{clean(text, 1000)!r} is not JSON: {message_of(no_json)}"
        ) from no_json


def call(shard: Shard, timer: Timer) -> None:
    async def run() -> None:
        enter(Context(shard, None))
        await to_its_end(timer.function)
        shard.settled()

    shard.apart = timer if timer.once else None
    try:
        with asyncio.Runner() as runner:
            runner.run(run())
    finally:
        shard.apart = None


def outputs(
    sent: Iterable[Sent], aside: Iterable[DeadLetter], dead_letters: str, printed: str = "", *, as_text: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yields messages for a publisher, in order; consecutive messages with the same columns form one batch.

    ``printed`` is text for the driver to print. ``as_text`` is True if the broker accepts JSON unchanged.
    """
    messages = [*sent]
    for letter in aside:
        key, fields = record_of(letter)
        messages.append(Sent(dead_letters, key, fields))
    rows: list[dict[str, Any]] = []
    if printed:
        rows.append({"topic": PRINTED, "batch": encoded(pa.RecordBatch.from_pylist([{"value": printed}]))})
    for (to, key, is_raw, timestamp, headers), alike in itertools.groupby(messages, _publisher_columns):
        values = [one.value for one in alike]
        batches = [_json_rows.texts(values, raw=is_raw)] if as_text else _json_rows.batches(values)
        shared = {"topic": to, "key": key, "headers": headers, "timestamp": timestamp}
        rows += [{**shared, "batch": encoded(batch)} for batch in batches]
    if rows:
        yield pa.RecordBatch.from_pylist(rows, schema=_OUTPUTS_SCHEMA)


def _publisher_columns(sent: Sent) -> tuple[str, str | None, bool, int | None, list[dict[str, Any]] | None]:
    """The columns of a publisher's row, which apply to all messages in it."""
    timestamp = None if sent.timestamp is None else time_us(sent.timestamp)
    headers = [{"key": name, "value": value} for name, value in sent.headers.items()] or None
    return sent.to, _text(sent.key), sent.is_raw, timestamp, headers


def _text(key: Any) -> str | None:
    return key if key is None or isinstance(key, str) else json.dumps(key)
