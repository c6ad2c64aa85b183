"""Runs in Spark's workers: the stateless steps after the inputs, and each stateful step with its stateless steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from mullion._keyed.stage import frame_of
from mullion._keyed.state import WALL, State
from mullion.bytewax._dataflow_plan import BATCH_BITS, ENDED, NOTIFIED, Origin, Pipeline, Plan
from mullion.bytewax._key_windows.keyed import Event, Group
from mullion.bytewax._key_windows.times import micros
from mullion.bytewax._log.log import learn_from, read_entry
from mullion.bytewax._query.chunks import (
    END,
    EVENTS,
    HANDED,
    OF_END,
    OF_TIME,
    OF_VALUES,
    Chunk,
    Collector,
    of_keys,
)
from mullion.bytewax._query.logics import Logics
from mullion.bytewax._step_errors import KeyErrors
from mullion.bytewax._steps import ByItem
from mullion.bytewax._values.values import collecting_seldom, decode, decode_one, encode_one, learn
from mullion.errors import InvalidArgumentError, WrongCallError

_MILLISECOND = 1000


class KeyLogic(Protocol):
    """The logic of one key in a stateful step. Events are ``(number of the stream, value)``."""

    def on_batch(self, values: Sequence[Any], now_us: int) -> list[Event]:
        """Processes the values of one source batch at a system time."""

    def on_notify(self, now_us: int) -> list[Event]:
        """Called once the time of :meth:`due` is reached."""

    def on_eof(self) -> list[Event]:
        """Called at the end of the input."""

    def is_empty(self) -> bool:
        """True if the state of the key can be deleted."""

    def due(self, now_us: int) -> int | None:
        """The system time of the next :meth:`on_notify`."""

    def snapshot(self) -> Any:
        """The state to store."""

    def snapshot_pickled(self, why: InvalidArgumentError) -> Any:
        """The state in pickled form, if :meth:`snapshot` cannot be encoded. Raises ``why`` if neither is possible."""


class OwnLogic:
    """A logic defined by the program. After it is discarded, the next value builds a new one."""

    def __init__(
        self, step_id: str, builder: Callable[[Any], Any], state: tuple[Any, ...] | None, logics: Logics
    ) -> None:
        self._step_id = step_id
        self._builder = builder
        self._logics = logics
        self._logic: Any = None
        if state is not None:
            if isinstance(builder, ByItem):
                self._logic = builder.of(logics.restored(state, builder.builder))
            else:
                self._logic = logics.restored(state, builder)

    def on_batch(self, values: Sequence[Any], now_us: int) -> list[Event]:
        if self._logic is None:
            self._logic = self._builder(None)
        return self._events(self._logic.on_batch(values))

    def on_notify(self, now_us: int) -> list[Event]:
        return [] if self._logic is None else self._events(self._logic.on_notify())

    def on_eof(self) -> list[Event]:
        return [] if self._logic is None else self._events(self._logic.on_eof())

    def _events(self, result: Any) -> list[Event]:
        try:
            emitted, discarded = result
        except (TypeError, ValueError):
            raise WrongCallError(
                f"The step {self._step_id!r}: its logic returned {result!r} ({type(result).__name__}), and must return "
                "(emitted values, is_discarded)."
            ) from None
        events = [(0, value) for value in emitted]
        if discarded:
            self._logic = None
        return events

    def is_empty(self) -> bool:
        return self._logic is None

    def due(self, now_us: int) -> int | None:
        at: datetime | None = None if self._logic is None else self._logic.notify_at()
        return None if at is None else micros(at)

    def snapshot(self) -> Any:
        return self._logics.state_of(self._own)

    def snapshot_pickled(self, why: InvalidArgumentError) -> Any:
        return self._logics.pickled_state_of(self._own, why)

    @property
    def _own(self) -> Any:
        return self._logic.logic if isinstance(self._builder, ByItem) else self._logic


@dataclass(frozen=True)
class Inputs:
    """Pushes the items of log entries through the stateless steps. Its input rows are ``(number, data)``."""

    plan: Plan
    classes: Mapping[str, type]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields the rows for stages, sinks and inspectors."""
        learn(self.classes)
        with collecting_seldom():
            for batch in batches:
                for number, data in zip(batch.column("number").to_pylist(), batch.column("data"), strict=True):
                    collector = Collector(self.plan, number)
                    pipeline = Pipeline(self.plan, collector.give)
                    entry = read_entry(data.as_buffer().to_pybytes())
                    downs = {step: self.plan.steps[step].downs[0] for step in entry.inputs}
                    for step, batch_number, items in entry.batches:
                        pipeline.push(downs[step], items, Origin(batch_number * BATCH_BITS, "", entry.now_us))
                        collector.cut()
                    for file in entry.ranges:
                        for batch_number, items in file.read():
                            origin = Origin(batch_number * BATCH_BITS, "", entry.now_us)
                            pipeline.push(downs[file.step], items, origin)
                            collector.cut()
                    if entry.ended_now != entry.ended_before:
                        collector.end(entry.ended_before, entry.ended_now, number)
                    collector.read(number)
                    yield from collector.batches()


@dataclass(frozen=True)
class LeftInputs:
    """Runs :class:`Inputs` over the entries that the JVM cannot process: rows ``(entry number, data)``."""

    inputs: Inputs

    def __call__(self, frames: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in frames:
            entries = pa.RecordBatch.from_arrays(
                [batch.column(0).cast(pa.int64()), batch.column(1)], names=["number", "data"]
            )
            for chunk in self.inputs([entries]):
                yield from frame_of(0, chunk)


class _Keys:
    """The keys of a stage in one task, with their logics in this batch and their state records.

    ``phases``: the keys that Python processes in this batch, each with its first phase (``OF_VALUES``, ``OF_TIME``,
    ``OF_END``); ``None`` for all keys. The JVM has processed the other keys and the earlier phases.
    """

    def __init__(
        self,
        make: Callable[[Any, int], KeyLogic],
        state: State,
        phases: Mapping[str, int] | None,
        errors: KeyErrors,
    ) -> None:
        self._make = make
        self._errors = errors
        self._phases = phases
        self._state = state
        self._live: dict[str, KeyLogic] = {}
        self._due: dict[str, int | None] = {}

    def left_from(self, what: int) -> frozenset[str] | None:
        """The keys that Python processes in a phase, ``None`` for all."""
        return None if self._phases is None else frozenset(key for key, since in self._phases.items() if since <= what)

    def read(self, keys: Mapping[str, int]) -> None:
        """Builds the logics of keys that have records. ``keys`` maps each key to its system time."""
        for (key, now_us), record in zip(keys.items(), self._state.get_many(list(map(_bytes, keys))), strict=True):
            if record is not None:
                self._keep(key, record, now_us)

    def _keep(self, key: str, record: bytes, now_us: int) -> KeyLogic:
        due, state = decode_one(record)
        with self._errors.of(key):
            logic = self._live[key] = self._make(state, now_us)
        self._due[key] = due
        return logic

    def of(self, key: str, now_us: int) -> KeyLogic:
        """The logic of a key; a new one if the key has none."""
        logic = self._live.get(key)
        if logic is None:
            logic = self._live[key] = self._make(None, now_us)
            self._due[key] = None
        return logic

    def renewed(self, key: str, now_us: int) -> KeyLogic:
        logic = self._live[key] = self._make(None, now_us)
        return logic

    def write(self, now_us: int) -> None:
        """Writes the records and timers of all logics, and deletes those of empty keys."""
        state = self._state
        for key, logic in self._live.items():
            before, name = self._due[key], _bytes(key)
            if logic.is_empty():
                due = None
                state.delete(name)
            else:
                with self._errors.of(key):
                    due = logic.due(now_us)
                    try:
                        record = encode_one((due, logic.snapshot()))
                    except InvalidArgumentError as why:
                        record = encode_one((due, logic.snapshot_pickled(why)))
                state.put(name, record)
            if due != before:
                if before is not None:
                    state.delete_timer(before, name, WALL)
                if due is not None:
                    state.put_timer(due, name, WALL)
        self._live.clear()
        self._due.clear()

    def that_are_due(self, now_us: int) -> list[tuple[str, KeyLogic]]:
        """Removes the timers that are due. Returns the keys to notify, with their logics."""
        taken = list(self._state.due(now_us, WALL))
        only = self.left_from(OF_TIME)
        if only is not None:
            # `due` removed the timers of the other keys, too. They fire in a later batch.
            for at, name in taken:
                if _text(name) not in only:
                    self._state.put_timer(at, name, WALL)
        names = list(dict.fromkeys(name for _, name in taken if only is None or _text(name) in only))
        due_keys = []
        for name, record in zip(names, self._state.get_many(names), strict=True):
            if record is not None:
                key = _text(name)
                logic = self._keep(key, record, now_us)
                # `State.due` has already removed the timer.
                due, self._due[key] = self._due[key], None
                if due is not None and due <= now_us:
                    due_keys.append((key, logic))
        return due_keys

    def all(self, now_us: int) -> Iterator[tuple[str, KeyLogic]]:
        """Yields all keys that Python processes at the end. Write each before the iterator advances."""
        only = self.left_from(OF_END)
        for name, record in self._state.items():
            key = _text(name)
            if only is not None and key not in only:
                continue
            yield key, self._keep(key, record, now_us)


@dataclass(frozen=True)
class Stage:
    """A stateful step, and the stateless steps after it.

    - ``inputs``: the folder of the log of inputs.
    - ``key``: signs the logics that are kept between the micro-batches of this run.
    - ``resumes``: True if a later run may continue from the state.
    """

    plan: Plan
    step: int
    sources: frozenset[int]
    classes: Mapping[str, type]
    inputs: str
    key: bytes
    resumes: bool

    def __call__(self, batches: Iterable[pa.RecordBatch], state: State) -> Iterator[pa.RecordBatch]:
        """Yields the rows for other steps unchanged, and the rows that this step emits."""
        learn(self.classes)
        learn_from(self.inputs)
        with collecting_seldom():
            yield from self._outputs(batches, state)

    def _outputs(self, batches: Iterable[pa.RecordBatch], state: State) -> Iterator[pa.RecordBatch]:
        chunks: list[Chunk] = []
        ended = False
        from_jvm: dict[int, list[Any]] = {}
        for batch in batches:
            mine = pc.equal(batch.column("target"), self.step)
            of_jvm = pc.less_equal(batch.column("target"), EVENTS)
            others = batch.filter(pc.invert(pc.or_(mine, of_jvm)))
            if others.num_rows:
                ended = ended or self._ends(others)
                yield others
            own = batch.filter(mine)
            columns = (own.column(name).to_pylist() for name in ("shard", "first", "part", "data"))
            chunks += zip(*columns, strict=True)
            rows = batch.filter(of_jvm)
            for target, data in zip(rows.column("target").to_pylist(), rows.column("data").to_pylist(), strict=True):
                from_jvm[target] = decode(data)
        collector = Collector(self.plan, state.shard)
        phases = dict(from_jvm[HANDED]) if HANDED in from_jvm else None
        run = _StageRun(self, Pipeline(self.plan, collector.give), state, phases, collector.cut)
        run.events(from_jvm.get(EVENTS, ()))
        run.values(chunks)
        yield from collector.batches()
        run.time()
        if ended:
            run.end()
        run.warn()
        yield from collector.batches()

    def _ends(self, rows: pa.RecordBatch) -> bool:
        """True if the last open input of the step ends in these rows."""
        ends = rows.filter(pc.equal(rows.column("target"), END))
        return any(
            self.sources <= set(now) and not self.sources <= set(before)
            for before, now in map(decode_one, ends.column("data").to_pylist())
        )

    def logics(self) -> Logics:
        return Logics(self.plan.steps[self.step].step_id, self.key, self.classes, self.resumes)

    def make(self, logics: Logics, state: Any, now_us: int) -> KeyLogic:
        """The logic of a new key (``state=None``) or of stored state."""
        planned = self.plan.steps[self.step]
        if planned.kind == "window":
            logic: KeyLogic = planned.does.of_key(state, now_us, logics)
            return logic
        return OwnLogic(planned.step_id, planned.does, state, logics)


class _StageRun:
    """A stage in one batch and one task."""

    def __init__(
        self, stage: Stage, pipeline: Pipeline, state: State, phases: dict[str, int] | None, between: Callable[[], None]
    ) -> None:
        self._now = state.batch_time_us
        self._logics = stage.logics()
        planned = stage.plan.steps[stage.step]
        self._errors = KeyErrors(planned.step_id, planned.does)
        self._keys = _Keys(partial(stage.make, self._logics), state, phases, self._errors)
        self._between = between
        self._downs = [pipeline.into(down) for down in stage.plan.steps[stage.step].downs]

    def events(self, events: Iterable[tuple[int, str, int, int, list[Any]]]) -> None:
        """Pushes the output of windows in the JVM into the next steps."""
        for place, key, now_us, port, items in events:
            self._downs[port](items, Origin(place, key, now_us))

    def values(self, chunks: Iterable[Chunk]) -> None:
        """Processes the values of each key. Values of one source batch form one group."""
        groups_of = of_keys(chunks, self._keys.left_from(OF_VALUES))
        self._keys.read({key: groups[0][1] for key, groups in groups_of.items()})
        for key, groups in groups_of.items():
            with self._errors.of(key):
                self._of_key(key, groups)
            self._between()
        self._keys.write(self._now)

    def _of_key(self, key: str, groups: list[Group]) -> None:
        logic = self._keys.of(key, groups[0][1])
        last_now = None
        for place, now_us, values in groups:
            if now_us != last_now:
                due, last_now = logic.due(now_us), now_us
                if due is not None and due < now_us:
                    self._emit(logic.on_notify(now_us), Origin(place, key, now_us))
                    if logic.is_empty():
                        logic = self._keys.renewed(key, now_us)
            events = logic.on_batch(values, now_us)
            if events:
                self._emit(events, Origin(place, key, now_us))
            if logic.is_empty():
                # Discard its clock, too, as for a key that is empty at the end of a batch.
                logic = self._keys.renewed(key, now_us)

    def time(self) -> None:
        for key, logic in self._keys.that_are_due(self._now):
            with self._errors.of(key):
                self._emit(logic.on_notify(self._now), Origin(NOTIFIED, key, self._now))
        # A timer that is due again at once fires in a later batch.
        self._keys.write(self._now + _MILLISECOND)

    def end(self) -> None:
        for key, logic in self._keys.all(self._now):
            with self._errors.of(key):
                self._emit(logic.on_eof(), Origin(ENDED, key, self._now))
            self._keys.write(self._now)

    def warn(self) -> None:
        self._logics.warn()

    def _emit(self, events: list[Event], origin: Origin) -> None:
        if len(events) == 1:
            port, value = events[0]
            self._downs[port]([(origin.key, value)], origin)
            return
        of_ports: dict[int, list[Any]] = {}
        for port, value in events:
            of_ports.setdefault(port, []).append((origin.key, value))
        for port in sorted(of_ports):
            self._downs[port](of_ports[port], origin)


def _bytes(key: str) -> bytes:
    return key.encode("utf-8", "surrogatepass")


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogatepass")
