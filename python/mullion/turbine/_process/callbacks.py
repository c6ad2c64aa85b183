"""Runs the callbacks of a window over Arrow: panes in, the returned batches out.

A task has the panes that fired in one tick or, with a ``partition_key``, those of one shard. A batch callback is called
once with all of them. An ``_each`` callback is called once per pane; per pane it costs only a :class:`Window`, its
group and its value::

    key…  window  pane  value…      ->   callback  topic  key  batch  schema
                  early                  early callback first: an early firing precedes
                  close                  the close

Returned batches are checked here against earlier ones, so that nothing of a batch is published if one pane is wrong.
"""

from __future__ import annotations

import contextlib
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, final

import pyarrow as pa
import pyarrow.compute as pc

from mullion._keyed.calls import FAILURES, Undo, failed_call, results_of
from mullion._keyed.results import Results
from mullion._native.pane_functions.pane import key_text
from mullion._util.codec.windows import interval_text, time_of
from mullion.errors import FunctionError
from mullion.topics._outputs import Note, Output, carried
from mullion.turbine._process import callback_schemas
from mullion.turbine._process.source import place_of
from mullion.turbine._spec import END, START, Spec, Window
from mullion.turbine._spec import called as name_of
from mullion.turbine.aggregates import Multi
from mullion.turbine.state import save_changes

_Item = TypeVar("_Item")

EARLY: Final = "early"
CLOSE: Final = "close"
PROCESS: Final = "process"
FAILED: Final = "failed"
SKIPPED: Final = "skipped"
RECEIVED: Final = "received"


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

    ``writes``: the writes to the state, with ``on_error="skip"``. Those of a failed call are undone.
    """

    on_error: str
    dead_letter: str | None
    count: Count
    writes: Sequence[Undo] = ()
    _outputs: list[Output] = field(default_factory=list)

    def call(
        self,
        callback: Called,
        name: str,
        items: Iterable[_Item],
        call: Callable[[_Item], Any],
        text: Callable[[_Item], str],
        panes: int = 1,
    ) -> None:
        """Calls a callback once for each item, and adds the results: batches and ``None``.

        - ``name``, ``text``: the function and the item in errors.
        - ``panes``: the number of panes of a call, which are left out if it fails.
        """

        def skip(item: _Item, error: FunctionError) -> None:
            self.count(f"{callback.of}.{FAILED}", panes)
            if self.dead_letter is not None:
                letter = {"callback": name, "error": str(error), "panes": panes}
                self._outputs.append(Output(self.dead_letter, None, pa.RecordBatch.from_pylist([letter])))

        schema, run = callback.schema, list[pa.RecordBatch]()
        for item, returned in results_of(items, call, self.writes, None if self.on_error == "stop" else skip):
            if returned is None:
                continue
            if not isinstance(returned, pa.RecordBatch) or callback.topic is None:
                raise _unpublishable(callback, name, returned, text(item))
            batch = returned
            if schema is None:
                schema = batch.schema.remove_metadata()
            if not batch.schema.equals(schema):
                difference = callback_schemas.difference(schema, batch.schema)
                if difference is not None:
                    raise FunctionError(
                        f"{name} returned another schema than before: {difference}. ({place_of(callback.function)}) "
                        "What it returns has one schema; a column without values may be null."
                    )
                wider = callback_schemas.merged(schema, batch.schema)
                if not wider.equals(schema):
                    run = [Results(wider).fitted(each) for each in run]
                    schema = wider
                batch = Results(schema).fitted(batch)
            run.append(batch)
        if run:
            assert schema is not None
            self._write(callback, schema, run)

    def _write(self, callback: Called, schema: pa.Schema, run: list[pa.RecordBatch]) -> None:
        assert callback.topic is not None
        is_known = callback.schema is not None and callback.schema.equals(schema)
        note = None if is_known else Note(callback.name, schema.serialize().to_pybytes())
        table = pa.Table.from_batches(run, schema).combine_chunks()
        self._outputs += (Output(callback.topic, None, batch, note) for batch in table.to_batches())

    def __iter__(self) -> Iterator[Output]:
        return iter(self._outputs)

    def rows(self) -> Iterator[pa.RecordBatch]:
        """All results, as rows :data:`mullion.topics.NOTED`."""
        return carried(self._outputs)


@final
@dataclass(frozen=True)
class PaneCallbacks:
    """The callbacks of one window, for workers.

    - ``integers``: the columns that are sums of integers: decimals here, ints for the callbacks.
    - ``multi``: True if ``value`` has attributes.
    """

    window: str
    key: tuple[str, ...]
    parts: tuple[str, ...]
    multi: bool
    integers: frozenset[str]
    each: bool
    close: Called
    early: Called | None

    @classmethod
    def of(
        cls,
        spec: Spec,
        integers: frozenset[str],
        topic: Callable[[str], str | None],
        schema: Callable[[str], pa.Schema | None] = lambda name: None,
    ) -> PaneCallbacks:
        """The callbacks of a window: ``topic`` by the kind of callback, the schema of earlier results by its name."""
        suffix = "_each" if spec.callbacks.each else ""

        def called(kind: str, parameter: str, function: Callable[..., Any]) -> Called:
            return Called(kind, parameter + suffix, function, topic(kind), spec.name, schema(f"{spec.name}.{kind}"))

        close, early = called(CLOSE, "on_close", spec.callbacks.close), None
        if spec.callbacks.early is not None:
            early = called(EARLY, "on_early_fire", spec.callbacks.early)
        multi, parts = isinstance(spec.value, Multi), tuple(spec.parts)
        return cls(spec.name, spec.key, parts, multi, integers, spec.callbacks.each, close, early)

    @property
    def name(self) -> str:
        """The callbacks in plans."""
        return " or ".join(self._name(each) for each in (self.early, self.close) if each is not None)

    def _name(self, callback: Called) -> str:
        return f"{callback.parameter}={name_of(callback.function)} of the window {self.window!r}"

    def fire(self, kind: str, panes: pa.Table, state: Any, outputs: Outputs) -> None:
        """Calls the callback of one kind of firing for panes of the operator."""
        callback = self.close if kind == CLOSE else self.early
        if callback is None or not panes.num_rows:
            return
        table, name = self._table(panes), self._name(callback)
        calls, text = (self._panes(table), self._text) if self.each else (iter([(table,)]), self._text_of_all)

        def call(arguments: tuple[Any, ...]) -> Any:
            try:
                returned = callback.function(state, *arguments)
                save_changes(state)
            except FAILURES as error:
                raise failed_call(error, callback.function, name, text(arguments)) from error
            return returned

        outputs.call(callback, name, calls, call, text, 1 if self.each else table.num_rows)

    def _table(self, panes: pa.Table) -> pa.Table:
        """The operator's firings, with the columns that callbacks receive; the operator's times are microseconds."""
        window = panes["window"].combine_chunks()
        columns = {name: panes[key_column(i)] for i, name in enumerate(self.key)}
        for name, field_name in ((START, "start"), (END, "end")):
            micros = pc.struct_field(window, field_name).cast(pa.int64())
            # Rounds down, also before the epoch.
            rest = pc.subtract(micros, pc.multiply(pc.divide(micros, 1000), 1000))
            columns[name] = pc.subtract(pc.divide(micros, 1000), pc.less(rest, 0).cast(pa.int64()))
        for i, name in enumerate(self.parts):
            columns[name] = panes[part_column(i)]
            if name in self.integers:
                with contextlib.suppress(pa.ArrowInvalid):
                    columns[name] = columns[name].cast(pa.int64())
        return pa.table(columns)

    def _panes(self, table: pa.Table) -> Iterator[tuple[Any, ...]]:
        """Each pane and its value."""
        values: list[Any] = [self._values(table, part) for part in self.parts]
        if self.multi:
            multi = namedtuple("Multi", self.parts)  # type: ignore[misc]  # noqa: PYI024
            values = [list(map(multi._make, zip(*values, strict=True)))]
        names = self.key
        keys = zip(*(table[name].to_pylist() for name in names), strict=True) if names else iter([()] * table.num_rows)
        starts, ends = table[START].to_pylist(), table[END].to_pylist()
        for start, end, key, value in zip(starts, ends, keys, values[0], strict=True):
            yield Window(start, end, dict(zip(names, key, strict=True))), value

    def _values(self, table: pa.Table, part: str) -> list[Any]:
        column = table[part]
        values: list[Any] = column.to_pylist()
        if part in self.integers and not pa.types.is_integer(column.type):
            return [None if each is None else int(each) for each in values]
        return values

    def _text(self, arguments: tuple[Any, ...]) -> str:
        """The pane of a call in errors."""
        window = arguments[0]
        start, end = (time_of(bound * 1000) for bound in (window.start_ms, window.end_ms))
        return f"the pane {interval_text(start, end)}{key_text(list(window.group), list(window.group.values()))}"

    def _text_of_all(self, arguments: tuple[Any, ...]) -> str:
        """The panes of a call in errors."""
        panes = arguments[0]
        if panes.num_rows == 1:
            return self._text(next(self._panes(panes)))
        starts = pc.min_max(panes[START])
        first, last = (time_of(starts[bound].as_py() * 1000).isoformat() for bound in ("min", "max"))
        return f"{panes.num_rows} panes that begin from {first} to {last}"


def key_column(index: int) -> str:
    """The operator's name of a key column, independent of the column's own name."""
    return f"key_{index}"


def part_column(index: int) -> str:
    """The operator's name of an aggregate, independent of its own name."""
    return f"value_{index}"


def _unpublishable(callback: Called, name: str, returned: Any, item: str) -> FunctionError:
    if isinstance(returned, pa.RecordBatch):
        return FunctionError(
            f"{name} returned a batch, and there is no topic to publish it to. ({place_of(callback.function)}) Add "
            f"publish_to= to @app.subscribe, with the key {callback.kind!r} if it is a dict, or return None."
        )
    if isinstance(returned, pa.Table):
        fix = "Of a Table, return table.combine_chunks().to_batches()[0]."
    elif isinstance(returned, (list, dict)):
        fix = "Of rows as dicts, return pa.RecordBatch.from_pylist(rows)."
    else:
        fix = "Return pa.RecordBatch.from_pylist([{...}]), or None for nothing."
    return FunctionError(
        f"{name} returned {type(returned).__name__}, which is not a pyarrow.RecordBatch, for {item}. "
        f"({place_of(callback.function)}) {fix}"
    )
