"""``process`` in a worker: topic batches in; the rows for windows, or the returned batches, out.

A batch has rows of one call of ``produce``, and the columns of that call: it lacks the topic's other columns.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, final

import pyarrow as pa
import pyarrow.compute as pc

from mullion._keyed.journal import RecordJournal
from mullion._keyed.stage import Firings
from mullion._keyed.state import State
from mullion._keyed.store import Records
from mullion.errors import FunctionError, UnsupportedError, WindowInputError
from mullion.topics._broker import SEPARATOR
from mullion.topics._outputs import Output
from mullion.topics._records import COLUMNS
from mullion.turbine._process.callbacks import (
    CLOSE,
    EARLY,
    FAILED,
    GIVEN,
    SKIPPED,
    Called,
    Count,
    Outputs,
    PaneCallbacks,
    key_column,
    told,
)
from mullion.turbine._process.dynamic_windows import FromData, Maker, by_window
from mullion.turbine._process.source import not_own
from mullion.turbine._process.stored_window import WindowSpec
from mullion.turbine._process.subscription import topic_of
from mullion.turbine._process.window_rows import WindowRows, plain
from mullion.turbine.aggregates import Multi
from mullion.turbine.state import NoState, TurbineState, forget, keep
from mullion.turbine.windowing import UPDATING, TurbineWindow


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

    def call(self, batch: pa.RecordBatch, state: Any, updated: Callable[[TurbineWindow, pa.RecordBatch], None]) -> Any:
        """Calls ``process``; ``updated`` receives the rows for windows. An error names the line of code.

        Raises :class:`WindowInputError` for rows that do not fit a window. It is never skipped, because it is not a
        failure of one call.
        """
        unfit: list[WindowInputError] = []

        def noting(window: TurbineWindow, given: pa.RecordBatch) -> None:
            if self.windows is not None and window.name not in self.windows:
                raise UnsupportedError(not_own(self.subscription, window.name))
            try:
                updated(window, given)
            except WindowInputError as error:
                # It fails the query even if ``process`` catches it.
                unfit.append(error)
                raise

        token = UPDATING.set(noting)
        try:
            returned = self.called.function(batch, state)
            keep(state)
        except FunctionError:
            forget(state)
            raise
        except Exception as error:
            forget(state)
            if unfit:
                raise unfit[0] from None
            raise FunctionError(
                f"process of {self.subscription} failed for a batch of {batch.num_rows} rows: "
                f"{told(error, self.called.function)}"
            ) from error
        finally:
            UPDATING.reset(token)
        if unfit:
            raise unfit[0]
        return returned


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

    def of(self, given: pa.RecordBatch) -> pa.RecordBatch | None:
        """The columns of a batch; ``None`` for a batch that lacks one of them, which is counted."""
        fitted = self.rows.of(given, self.process.subscription)
        if fitted is None:
            self.process.count(f"{self.window}.{SKIPPED}", given.num_rows)
        return fitted

    def took(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Counts the rows of a call, if they may be the window's first ones."""
        rows = sum(batch.num_rows for batch in batches) if self.rows.learns else 0
        if rows:
            self.process.count(f"{self.window}.{GIVEN}", rows)


@final
@dataclass(frozen=True)
class RowsForWindow:
    """``process`` for one window: the rows that it passes to that window."""

    process: Process
    needed: Needed

    def __call__(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in self.process.batches(rows):
            taken: list[pa.RecordBatch] = []

            def update(window: TurbineWindow, given: pa.RecordBatch, taken: list[pa.RecordBatch] = taken) -> None:
                rows = self.needed.of(given) if window.name == self.needed.window else None
                if rows is not None:
                    taken.append(rows)

            try:
                self.process.call(batch, NoState(), update)
            except FunctionError:
                if self.process.on_error == "stop":
                    raise
                # A failed call is left out completely.
                self.process.count(f"{self.needed.window}.{FAILED}", 1)
                continue
            self.needed.took(taken)
            yield from taken


@final
@dataclass(frozen=True)
class ProcessOfShard:
    """``process`` of a shard with state: topic rows in; rows for windows and returned batches out."""

    process: Process
    windows: tuple[Needed, ...]
    made: FromData | None = None

    def __call__(self, rows: Iterator[pa.RecordBatch], records: Records) -> Iterator[Any]:
        """Rows :data:`mullion.topics.NOTED`, and pairs of a window's name and its rows."""
        needed = {each.window: each for each in self.windows}
        state, journal = journaled(records, self.process.on_error)
        outputs = Outputs(self.process.on_error, self.process.dead_letter, self.process.count, journal)
        what = f"process of {self.process.subscription}"
        taken: list[tuple[str, pa.RecordBatch]] = []
        maker = None
        if self.made is not None:
            maker = Maker(self.made, records)
            maker.recover_all()

        def update(window: TurbineWindow, given: pa.RecordBatch) -> None:
            if maker is not None and window.name not in needed:
                self._give(maker, window, given, taken)
                return
            fitted = needed[window.name].of(given)
            if fitted is not None:
                taken.append((window.name, fitted))

        def returned() -> Iterator[Any]:
            for batch in self.process.batches(rows):
                before, known = len(taken), maker.known() if maker is not None else None
                outputs.begin()
                try:
                    with maker.making() if maker is not None else nullcontext():
                        made = self.process.call(batch, state, update)
                    yield made
                except FunctionError as error:
                    if self.process.on_error == "stop":
                        raise
                    # A failed call is left out completely.
                    del taken[before:]
                    if maker is not None and known is not None:
                        maker.forget_since(known)
                    outputs.failed(self.process.called, what, str(error), 1)

        outputs.add(self.process.called, what, returned())
        if maker is not None:
            maker.finish()
        for name, each in needed.items():
            each.took(rows for window, rows in taken if window == name)
        yield from taken
        yield from outputs.rows()

    def _give(
        self, maker: Maker, window: TurbineWindow, given: pa.RecordBatch, taken: list[tuple[str, pa.RecordBatch]]
    ) -> None:
        spec = window.spec
        # The types are those of the first rows of this shape.
        first = pa.schema([given.schema.field(name) for name in spec.needs if name in given.schema.names])
        if len(first) < len(spec.needs):
            self.process.count(f"{window.name}.{SKIPPED}", given.num_rows)
            return
        odd = [field for field in first if plain(field.type) is None]
        if odd:
            raise WindowInputError(
                f"process of {self.process.subscription} gave the window {window.name!r} a batch whose column "
                f"{odd[0].name!r} has the Arrow type {odd[0].type}, which a window does not take. Cast it in process, "
                "for instance with .cast(pa.int64())."
            )
        shape = maker.take(window, pa.schema([(field.name, plain(field.type)) for field in first]))
        fitted = None if shape is None else WindowRows(window.name, shape.schema).of(given, self.process.subscription)
        if shape is not None and fitted is not None:
            taken.append((shape.name, shape.rows_of(WindowSpec.of(spec), fitted.columns, given.num_rows)))


@final
@dataclass(frozen=True)
class CallbacksOfMade:
    """The callbacks of windows that were made from data, from ``on_recover``.

    - ``wholes``: for each shape, the columns that are sums of integers.
    - ``topics``: the topics of the callbacks' results.
    """

    known: FromData
    wholes: dict[str, frozenset[str]]
    topics: Mapping[str, str]
    on_error: str
    dead_letter: str | None
    count: Count

    def of(self, maker: Maker, shape: str, name: str) -> PaneCallbacks:
        """The callbacks of one window."""
        spec = maker.recovered(name).spec
        callbacks = spec.callbacks
        suffix = "_each" if callbacks.each else ""

        def called(kind: str, parameter: str, function: Callable[..., Any]) -> Called:
            return Called(kind, f"{parameter}{suffix}", function, topic_of(self.topics, kind, name), name)

        return PaneCallbacks(
            name,
            spec.key,
            tuple(spec.parts),
            isinstance(spec.value, Multi),
            self.wholes[shape],
            callbacks.each,
            called(CLOSE, "on_close", callbacks.close),
            None if callbacks.early is None else called(EARLY, "on_early_fire", callbacks.early),
            self.on_error,
            self.dead_letter,
            self.count,
        )


@final
@dataclass(frozen=True)
class CallbacksOfShard:
    """The callbacks of all windows of a shard with state. They run after ``process``, on the same state."""

    on_error: str
    dead_letter: str | None
    count: Count
    windows: dict[str, PaneCallbacks]
    made: CallbacksOfMade | None = None

    def __call__(self, firings: Iterator[Firings], records: State) -> Iterator[pa.RecordBatch]:
        """Rows :data:`mullion.topics.NOTED` for the firings of all windows, early ones first."""
        state, journal = journaled(records, self.on_error)
        outputs = Outputs(self.on_error, self.dead_letter, self.count, journal)
        made, found = self.made, dict[str, PaneCallbacks]()
        maker = None if made is None else Maker(made.known, records)

        def recovered(shape: str, window: str) -> PaneCallbacks:
            assert made is not None
            assert maker is not None
            if window not in found:
                found[window] = made.of(maker, shape, window)
            return found[window]

        for (name, firing), run in itertools.groupby(firings, key=lambda each: (each.window, each.firing)):
            panes = pa.Table.from_batches([each.batch for each in run])
            for window, fired in self._windows(name, panes, recovered):
                window.fire(firing, window.of_engine(fired), state, outputs)
        yield from outputs.rows()

    def _windows(
        self, name: str, panes: pa.Table, recovered: Callable[[str, str], PaneCallbacks]
    ) -> Iterator[tuple[PaneCallbacks, pa.Table]]:
        if name in self.windows:
            yield self.windows[name], panes
            return
        for window, fired in by_window(panes, key_column(0)):
            callbacks = recovered(name, window)
            # The first key column is the window's name.
            names = {key_column(i + 1): key_column(i) for i in range(len(callbacks.key))}
            yield callbacks, fired.rename_columns([names.get(each, each) for each in fired.schema.names])


@final
@dataclass(frozen=True)
class Returned:
    """The batches that ``process`` returns, to be published."""

    process: Process

    def __call__(self, rows: Iterable[pa.RecordBatch]) -> Iterator[Output]:
        outputs = Outputs(self.process.on_error, self.process.dead_letter, self.process.count)
        what = f"process of {self.process.subscription}"

        def returned() -> Iterator[Any]:
            for batch in self.process.batches(rows):
                try:
                    yield self.process.call(batch, NoState(), lambda window, given: None)
                except FunctionError as error:
                    if self.process.on_error == "stop":
                        raise
                    outputs.failed(self.process.called, what, str(error), 1)

        outputs.add(self.process.called, what, returned())
        yield from outputs


def journaled(records: Records, on_error: str) -> tuple[TurbineState, RecordJournal | None]:
    """The state of a shard; with ``on_error="skip"`` also a journal, which undoes the writes of failed calls."""
    if on_error == "stop":
        return TurbineState(records), None
    journal = RecordJournal(records)
    return TurbineState(journal), journal


def _with_their_columns(batch: pa.RecordBatch, injected: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """The rows of a batch in runs that have the same columns, without the columns that they lack."""
    marks = batch.column(COLUMNS)
    encoded = pc.run_end_encode(marks)
    start = 0
    for end, mark in zip(encoded.run_ends.to_pylist(), encoded.values.to_pylist(), strict=True):
        there = {name for name in (mark or "").split(SEPARATOR) if name}
        names = [name for name in batch.schema.names if name in there or name in injected]
        yield batch.slice(start, end - start).select(names)
        start = end
