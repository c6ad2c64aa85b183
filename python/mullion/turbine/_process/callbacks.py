"""Runs the callbacks of a window over Arrow: panes in, the returned batches out.

A task has the panes that fired in one tick or, with a ``partition_key``, those of one shard. A batch callback is called
once with all of them. An ``_each`` callback is called once per pane; per pane it costs only a :class:`Window`, its
group and its value::

    firing  key…  window_start_ms  window_end_ms  value…      ->   callback  topic  key  batch  schema
    early   …                                                      early callback first: an early firing precedes
    close   …                                                      the close

Returned batches are checked here against earlier ones, so that nothing of a batch is published if one pane is wrong.
"""

from __future__ import annotations

import datetime
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, final

import pyarrow as pa
import pyarrow.compute as pc

from mullion._keyed.journal import RecordJournal
from mullion._util.user_code import failed_at, failed_line
from mullion.errors import FunctionError
from mullion.topics._outputs import Note, Output, carried
from mullion.turbine._process import callback_schemas
from mullion.turbine._process.source import place_of
from mullion.turbine._spec import END, START, Window, called
from mullion.turbine.state import NoState, forget, keep

EARLY: Final = "early"
CLOSE: Final = "close"
PROCESS: Final = "process"
FIRING: Final = "__mullion_firing"
FAILED: Final = "failed"
SKIPPED: Final = "skipped"
GIVEN: Final = "given"


@final
@dataclass(frozen=True)
class Called:
    """One callback: its function, the topic of its results, and the schema of earlier results."""

    kind: str
    parameter: str
    function: Callable[..., Any]
    topic: str | None
    of: str
    schema: pa.Schema | None = None

    @property
    def name(self) -> str:
        """The name of its counters and of its recorded schema: the window or subscription, and the kind of callback."""
        return f"{self.of}.{self.kind}"


Count = Callable[[str, int], None]
"""Increments a counter by name, in a worker."""


@final
@dataclass
class Outputs:
    """The checked results of callbacks in one task, in order.

    ``journal``: the journal of the state, with ``on_error="skip"``: it undoes the writes of a failed call.
    """

    on_error: str
    dead_letter: str | None
    count: Count
    journal: RecordJournal | None = None
    _made: list[Output] = field(default_factory=list)

    def add(self, callback: Called, what: str, batches: Iterable[Any]) -> None:
        """Adds the results of a callback's calls: batches and ``None``."""
        schema, run = callback.schema, list[pa.RecordBatch]()
        for returned in batches:
            if returned is None:
                continue
            checked = _record_batch(callback, what, returned)
            if callback.topic is None:
                raise FunctionError(
                    f"{what} returned a batch, and there is no topic to publish it to. "
                    f"({place_of(callback.function)}) Add "
                    f"publish_to= to @app.subscribe, with the key {callback.kind!r} if it is a dict, or return None."
                )
            if schema is None:
                schema = checked.schema.remove_metadata()
            if not checked.schema.equals(schema):
                differs = callback_schemas.difference(schema, checked.schema)
                if differs is not None:
                    raise FunctionError(
                        f"{what} returned another schema than before: {differs}. ({place_of(callback.function)}) "
                        "What it returns has one schema; a column without values may be null."
                    )
                wider = callback_schemas.merged(schema, checked.schema)
                if not wider.equals(schema):
                    run = [callback_schemas.fitted(each, wider) for each in run]
                    schema = wider
                checked = callback_schemas.fitted(checked, schema)
            run.append(checked)
        if run:
            assert schema is not None
            self._write(callback, schema, run)

    def begin(self) -> None:
        """Begins a call: the writes of earlier calls are final."""
        if self.journal is not None:
            self.journal.begin()

    def failed(self, callback: Called, what: str, message: str, panes: int) -> None:
        """Counts a failed call that is left out, and undoes its writes to the state."""
        if self.journal is not None:
            self.journal.undo()
        self.count(f"{callback.of}.{FAILED}", panes)
        if self.dead_letter is not None:
            letter = {"callback": what, "error": message, "panes": panes}
            self._made.append(Output(self.dead_letter, None, pa.RecordBatch.from_pylist([letter])))

    def _write(self, callback: Called, schema: pa.Schema, run: list[pa.RecordBatch]) -> None:
        assert callback.topic is not None
        known = callback.schema is not None and callback.schema.equals(schema)
        note = None if known else Note(callback.name, schema.serialize().to_pybytes())
        whole = pa.Table.from_batches(run, schema).combine_chunks()
        self._made += (Output(callback.topic, None, batch, note) for batch in whole.to_batches())

    def __iter__(self) -> Iterator[Output]:
        return iter(self._made)

    def rows(self) -> Iterator[pa.RecordBatch]:
        """All results, as rows :data:`mullion.topics.NOTED`."""
        return carried(self._made)


@final
@dataclass(frozen=True)
class PaneCallbacks:
    """The callbacks of one window, for workers.

    - ``whole``: the columns that are sums of integers: decimals here, ints for the callbacks.
    - ``multi``: True if ``value`` has attributes.
    """

    window: str
    key: tuple[str, ...]
    parts: tuple[str, ...]
    multi: bool
    whole: frozenset[str]
    each: bool
    close: Called
    early: Called | None
    on_error: str
    dead_letter: str | None
    count: Count

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Output]:
        """The outputs for panes of a shard that fired in a tick."""
        there = [batch for batch in batches if batch.num_rows]
        if there:
            outputs = Outputs(self.on_error, self.dead_letter, self.count)
            self.run(pa.Table.from_batches(there), NoState(), outputs)
            yield from outputs

    def run(self, panes: pa.Table, state: Any, outputs: Outputs) -> None:
        """Calls the callbacks for these panes: early firings, then closes."""
        if self.early is None:
            self.fire(CLOSE, panes, state, outputs)
            return
        for kind in (EARLY, CLOSE):
            self.fire(kind, panes.filter(pc.equal(panes[FIRING], kind)), state, outputs)

    def fire(self, kind: str, panes: pa.Table, state: Any, outputs: Outputs) -> None:
        """Calls the callback of one kind of firing for panes."""
        callback = self.close if kind == CLOSE else self.early
        if callback is not None and panes.num_rows:
            call = self._each if self.each else self._all
            outputs.add(callback, self._what(callback), call(callback, self._table(panes), state, outputs))

    def of_engine(self, panes: pa.Table) -> pa.Table:
        """The operator's firings, with the columns that callbacks receive; the operator's times are microseconds."""
        window = panes["window"].combine_chunks()
        columns = {name: panes[key_column(i)] for i, name in enumerate(self.key)}
        for name, field_name in ((START, "start"), (END, "end")):
            micros = pc.struct_field(window, field_name).cast(pa.int64())
            # Rounds down, also before the epoch.
            rest = pc.subtract(micros, pc.multiply(pc.divide(micros, 1000), 1000))
            columns[name] = pc.subtract(pc.divide(micros, 1000), pc.less(rest, 0).cast(pa.int64()))
        columns |= {name: panes[part_column(i)] for i, name in enumerate(self.parts)}
        return pa.table(columns)

    def _table(self, panes: pa.Table) -> pa.Table:
        panes = panes.select([*self.key, START, END, *self.parts])
        for name in self.whole:
            values = panes[name]
            try:
                narrow = values.cast(pa.int64())
            except pa.ArrowInvalid:
                continue
            panes = panes.set_column(panes.schema.get_field_index(name), name, narrow)
        return panes

    def _all(self, callback: Called, table: pa.Table, state: Any, outputs: Outputs) -> Iterator[Any]:
        count = table.num_rows
        outputs.begin()
        try:
            returned = callback.function(state, table)
            keep(state)
        except Exception as error:
            forget(state)
            starts = pc.min_max(table[START])
            about = (
                f"{count} panes that begin from {_time(starts['min'].as_py())} to {_time(starts['max'].as_py())}"
                if count > 1
                else self._pane(Window(table[START][0].as_py(), table[END][0].as_py(), self._group(table, 0)))
            )
            self._fail(callback, about, error, count, outputs)
            return
        yield returned

    def _each(self, callback: Called, table: pa.Table, state: Any, outputs: Outputs) -> Iterator[Any]:
        values: list[Any] = [self._values(table, part) for part in self.parts]
        if self.multi:
            made = namedtuple("Multi", self.parts)  # type: ignore[misc]  # noqa: PYI024
            values = [list(map(made._make, zip(*values, strict=True)))]
        names = self.key
        keys = zip(*(table[name].to_pylist() for name in names), strict=True) if names else iter([()] * table.num_rows)
        function = callback.function
        starts, ends = table[START].to_pylist(), table[END].to_pylist()
        for start, end, key, value in zip(starts, ends, keys, values[0], strict=True):
            window = Window(start, end, dict(zip(names, key, strict=True)))
            outputs.begin()
            try:
                returned = function(state, window, value)
                keep(state)
            except Exception as error:
                forget(state)
                self._fail(callback, self._pane(window), error, 1, outputs)
                continue
            if returned is not None and type(returned) is not pa.RecordBatch:
                # The error names the pane.
                _record_batch(callback, f"{self._what(callback)} for {self._pane(window)}", returned)
            yield returned

    def _values(self, table: pa.Table, part: str) -> list[Any]:
        column = table[part]
        listed: list[Any] = column.to_pylist()
        if part in self.whole and not pa.types.is_integer(column.type):
            return [None if each is None else int(each) for each in listed]
        return listed

    def _group(self, table: pa.Table, row: int) -> dict[str, Any]:
        return {name: table[name][row].as_py() for name in self.key}

    def _what(self, callback: Called) -> str:
        return f"{callback.parameter}={called(callback.function)} of the window {self.window!r}"

    def _pane(self, window: Window) -> str:
        of = f" of {window.group!r}" if window.group else ""
        return f"the pane [{_time(window.start_ms)}, {_time(window.end_ms)}){of}"

    def _fail(self, callback: Called, about: str, error: Exception, panes: int, outputs: Outputs) -> None:
        message = f"{self._what(callback)} failed for {about}: {told(error, callback.function)}"
        if outputs.on_error == "stop":
            raise FunctionError(message) from error
        outputs.failed(callback, self._what(callback), message, panes)


def key_column(index: int) -> str:
    """The operator's name of a key column, independent of the column's own name."""
    return f"key_{index}"


def part_column(index: int) -> str:
    """The operator's name of an aggregate, independent of its own name."""
    return f"value_{index}"


def told(error: Exception, function: Callable[..., Any]) -> str:
    """One line of text for an error in user code, with the line of code that raised it."""
    line = failed_line(error, function)
    where = failed_at(error, function) + (f": {line.line}" if line is not None and line.line else "")
    says = " ".join(str(error).split())
    return f"{type(error).__name__}{': ' if says else ''}{says} ({where})"


def _record_batch(callback: Called, what: str, returned: Any) -> pa.RecordBatch:
    if isinstance(returned, pa.RecordBatch):
        return returned
    if isinstance(returned, pa.Table):
        fix = "Of a Table, return table.combine_chunks().to_batches()[0]."
    elif isinstance(returned, (list, dict)):
        fix = "Of rows as dicts, return pa.RecordBatch.from_pylist(rows)."
    else:
        fix = "Return pa.RecordBatch.from_pylist([{...}]), or None for nothing."
    raise FunctionError(
        f"{what} returned {type(returned).__name__}, which is not a pyarrow.RecordBatch. "
        f"({place_of(callback.function)}) {fix}"
    )


def _time(ms: int) -> str:
    try:
        moment = datetime.datetime.fromtimestamp(0, datetime.UTC) + datetime.timedelta(milliseconds=ms)
    except OverflowError:
        return f"{ms} ms"
    return moment.isoformat(timespec="milliseconds" if ms % 1000 else "seconds").replace("+00:00", "Z")
