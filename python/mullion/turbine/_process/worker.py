"""``process`` in a worker: topic batches in; the rows for windows, or the returned batches, out.

A batch has rows of one call of ``produce``, and the columns of that call: it lacks the topic's other columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, final

import pyarrow as pa
import pyarrow.compute as pc

from mullion._keyed.calls import FAILURES, failed_call, results_of
from mullion._keyed.store import Records
from mullion.errors import FunctionError, UnsupportedError, WindowInputError
from mullion.topics._broker import SEPARATOR
from mullion.topics._outputs import Output
from mullion.topics._records import COLUMNS
from mullion.turbine._process.callbacks import (
    FAILED,
    RECEIVED,
    SKIPPED,
    Called,
    Count,
    Outputs,
)
from mullion.turbine._process.dynamic_windows import FromData, Maker
from mullion.turbine._process.source import not_own
from mullion.turbine._process.stored_window import WindowSpec
from mullion.turbine._process.window_rows import WindowRows, plain
from mullion.turbine.state import NoState, save_changes, state_of
from mullion.turbine.windowing import UPDATING, TurbineWindow

Update = Callable[[TurbineWindow, pa.RecordBatch], None]
"""A function that gets the rows for a window."""

_Row = TypeVar("_Row")


@final
@dataclass(frozen=True)
class Process:
    """``process`` of a subscription, for workers.

    - ``injected``: columns that every batch has.
    - ``windows``: the subscription's own windows; ``None`` if ``process`` makes windows.
    """

    subscription: str
    called: Called
    injected: tuple[str, ...]
    on_error: str
    dead_letter: str | None
    count: Count
    windows: frozenset[str] | None = None

    def batches(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The topic's rows, in the batches that ``process`` receives."""
        for batch in rows:
            if batch.num_rows:
                yield from _with_their_columns(batch, self.injected)

    @property
    def name(self) -> str:
        """``process`` in errors."""
        return f"process of {self.subscription}"

    def publish(self, rows: Iterable[pa.RecordBatch], state: Any, update: Update, outputs: Outputs) -> None:
        """Calls ``process`` for each batch of a topic's rows; ``outputs`` gets the batches that it returns."""
        call = lambda batch: self.call(batch, state, update)  # noqa: E731
        outputs.call(self.called, self.name, self.batches(rows), call, _text)

    def rows_for(
        self, rows: Iterable[pa.RecordBatch], update: Update, passed: PassedRows[_Row], windows: Sequence[str]
    ) -> Iterator[list[_Row]]:
        """Calls ``process`` for each batch of a topic's rows; returns the rows that each call passed to windows."""

        def skip(batch: pa.RecordBatch, error: FunctionError) -> None:
            for window in windows:
                self.count(f"{window}.{FAILED}", 1)

        call = lambda batch: self.call(batch, NoState(), update)  # noqa: E731
        for _ in results_of(self.batches(rows), call, [passed], None if self.on_error == "stop" else skip):
            yield passed.take()

    def call(self, batch: pa.RecordBatch, state: Any, update: Update) -> Any:
        """Calls ``process``. Raises :class:`FunctionError` if it fails.

        Raises :class:`WindowInputError` for rows that do not fit a window. It is never skipped, because it is not a
        failure of one call.
        """
        unfit: list[WindowInputError] = []

        def checked_update(window: TurbineWindow, rows: pa.RecordBatch) -> None:
            if self.windows is not None and window.name not in self.windows:
                raise UnsupportedError(not_own(self.subscription, window.name))
            try:
                update(window, rows)
            except WindowInputError as error:
                # It fails the query even if ``process`` catches it.
                unfit.append(error)
                raise

        token = UPDATING.set(checked_update)
        try:
            returned = self.called.function(batch, state)
            save_changes(state)
        except FAILURES as error:
            if unfit:
                raise unfit[0] from None
            raise failed_call(error, self.called.function, self.name, _text(batch)) from error
        finally:
            UPDATING.reset(token)
        if unfit:
            raise unfit[0]
        return returned


def _text(batch: pa.RecordBatch) -> str:
    """A batch in errors."""
    return f"a batch of {batch.num_rows} rows"


@final
class PassedRows(Generic[_Row]):
    """The rows that calls of ``process`` pass to windows, without those of failed calls."""

    def __init__(self) -> None:
        self.rows: list[_Row] = []
        self._accepted = 0

    def begin(self) -> None:
        """Accepts the rows of earlier calls."""
        self._accepted = len(self.rows)

    def undo(self) -> None:
        """Removes the rows since :meth:`begin`."""
        del self.rows[self._accepted :]

    def take(self) -> list[_Row]:
        """Removes and returns the rows."""
        rows, self.rows = self.rows, []
        return rows


@final
@dataclass(frozen=True)
class Needed:
    """The columns that one window needs of a batch from ``process``, in the window's types."""

    process: Process
    rows: WindowRows

    @property
    def window(self) -> str:
        """The name of the window."""
        return self.rows.window

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """The columns of a batch; ``None`` for a batch that lacks one of them, which is counted."""
        fitted = self.rows.of(batch, self.process.subscription)
        if fitted is None:
            self.process.count(f"{self.window}.{SKIPPED}", batch.num_rows)
        return fitted

    def count_received(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Counts the rows of a call, if they may be the window's first ones."""
        rows = sum(batch.num_rows for batch in batches) if self.rows.learns else 0
        if rows:
            self.process.count(f"{self.window}.{RECEIVED}", rows)


@final
@dataclass(frozen=True)
class RowsForWindows:
    """``process`` for windows of a query without state: the rows that it passes to them.

    The rows of several windows are each marked with their windows.
    """

    process: Process
    windows: tuple[Needed, ...]
    schema: pa.Schema

    @property
    def __name__(self) -> str:
        """The function in plans, and in the error of a worker that ends."""
        return self.process.name

    def __call__(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        numbers = {needed.window: i for i, needed in enumerate(self.windows)}
        passed = PassedRows[_SharedBatch]()

        def update(window: TurbineWindow, batch: pa.RecordBatch) -> None:
            number = numbers.get(window.name)
            fitted = None if number is None else self.windows[number].of(batch)
            if number is not None and fitted is not None:
                _add(passed.rows, number, batch, fitted)

        for batches in self.process.rows_for(rows, update, passed, list(numbers)):
            for i, needed in enumerate(self.windows):
                needed.count_received([each.columns[i] for each in batches if i in each.columns])
            for each in batches:
                yield each.rows(self.schema, len(self.windows))


@final
class _SharedBatch:
    """A batch that ``process`` passed to windows, and the columns that each window needs of it."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch
        self.columns: dict[int, pa.RecordBatch] = {}

    def rows(self, schema: pa.Schema, windows: int) -> pa.RecordBatch:
        """The rows of the batch, once for all windows."""
        count = self.batch.num_rows
        values = {name: each.column(name) for each in self.columns.values() for name in each.schema.names}
        values |= {takes_column(i): pa.repeat(pa.scalar(i in self.columns), count) for i in range(windows)}
        columns = [values[f.name] if f.name in values else pa.nulls(count, f.type) for f in schema]
        return pa.RecordBatch.from_arrays(columns, schema=schema)


def _add(batches: list[_SharedBatch], window: int, batch: pa.RecordBatch, fitted: pa.RecordBatch) -> None:
    """Adds rows for a window. Windows that got the same batch share its rows, if the order allows it."""
    for each in reversed(batches):
        if window in each.columns:
            break
        if each.batch is batch:
            each.columns[window] = fitted
            return
    shared = _SharedBatch(batch)
    shared.columns[window] = fitted
    batches.append(shared)


def takes_column(window: int) -> str:
    """The column that is true in the rows for a window, by its number."""
    return f"__mullion_takes_{window}"


@final
@dataclass(frozen=True)
class ProcessOfShard:
    """``process`` of a shard with state: topic rows in; rows for windows and returned batches out."""

    process: Process
    windows: tuple[Needed, ...]
    from_data: FromData | None = None

    @property
    def __name__(self) -> str:
        """The function in plans, and in the error of a worker that ends."""
        return self.process.name

    def __call__(self, rows: Iterator[pa.RecordBatch], records: Records) -> Iterator[Any]:
        """Rows :data:`mullion.topics.NOTED`, and pairs of a window's name and its rows."""
        needed = {each.window: each for each in self.windows}
        passed = PassedRows[tuple[str, pa.RecordBatch]]()
        state, writes = state_of(records, self.process.on_error)
        maker = None
        if self.from_data is not None:
            maker = Maker(self.from_data, records)
            maker.recover_all()
            writes = [*writes, maker]

        def update(window: TurbineWindow, batch: pa.RecordBatch) -> None:
            if maker is not None and window.name not in needed:
                rows = self._rows_of_new(maker, window, batch)
            else:
                fitted = needed[window.name].of(batch)
                rows = None if fitted is None else (window.name, fitted)
            if rows is not None:
                passed.rows.append(rows)

        outputs = Outputs(self.process.on_error, self.process.dead_letter, self.process.count, [*writes, passed])
        with maker.making() if maker is not None else nullcontext():
            self.process.publish(rows, state, update, outputs)
        if maker is not None:
            maker.finish()
        for name, each in needed.items():
            each.count_received(rows for window, rows in passed.rows if window == name)
        yield from passed.rows
        yield from outputs.rows()

    def _rows_of_new(
        self, maker: Maker, window: TurbineWindow, batch: pa.RecordBatch
    ) -> tuple[str, pa.RecordBatch] | None:
        """The rows for a window that ``process`` made, with the name of its operator if there is one."""
        spec = window.spec
        # The types are those of the first rows of this shape.
        first = pa.schema([batch.schema.field(name) for name in spec.needs if name in batch.schema.names])
        if len(first) < len(spec.needs):
            self.process.count(f"{window.name}.{SKIPPED}", batch.num_rows)
            return None
        unsupported = [field for field in first if plain(field.type) is None]
        if unsupported:
            raise WindowInputError(
                f"process of {self.process.subscription} gave the window {window.name!r} a batch whose column "
                f"{unsupported[0].name!r} has the Arrow type {unsupported[0].type}, which a window does not take. Cast "
                "it in process, for instance with .cast(pa.int64())."
            )
        shape = maker.take(window, pa.schema([(field.name, plain(field.type)) for field in first]))
        fitted = None if shape is None else WindowRows(window.name, shape.schema).of(batch, self.process.subscription)
        if shape is None or fitted is None:
            return None
        return shape.name, shape.rows_of(WindowSpec.of(spec), fitted.columns, batch.num_rows)


@final
@dataclass(frozen=True)
class Returned:
    """The batches that ``process`` returns, to be published."""

    process: Process

    @property
    def __name__(self) -> str:
        """The function in plans, and in the error of a worker that ends."""
        return self.process.name

    def __call__(self, rows: Iterable[pa.RecordBatch]) -> Iterator[Output]:
        outputs = Outputs(self.process.on_error, self.process.dead_letter, self.process.count)
        self.process.publish(rows, NoState(), lambda window, batch: None, outputs)
        yield from outputs


def _with_their_columns(batch: pa.RecordBatch, injected: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """The rows of a batch in runs that have the same columns, without the columns that they lack."""
    marks = batch.column(COLUMNS)
    encoded = pc.run_end_encode(marks)
    start = 0
    for end, mark in zip(encoded.run_ends.to_pylist(), encoded.values.to_pylist(), strict=True):
        columns = {name for name in (mark or "").split(SEPARATOR) if name}
        names = [name for name in batch.schema.names if name in columns or name in injected]
        yield batch.slice(start, end - start).select(names)
        start = end
