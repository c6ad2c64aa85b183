"""``process`` in a worker: the batches of the topic in, the rows for one window, or what it returns, out.

A batch is what one call of ``produce`` brought, or a part of it, with the columns of that call: one that the topic has
and the call had not is not in the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, final

import pyarrow as pa
import pyarrow.compute as pc

from mullion.errors import FunctionError
from mullion.topics._brokers import SEPARATOR
from mullion.topics._records import COLUMNS
from mullion.turbine._callbacks import FAILED, SKIPPED, Called, Count, Outputs, told
from mullion.turbine.state import NoState
from mullion.turbine.windowing import UPDATING, TurbineWindow


@final
@dataclass(frozen=True)
class Process:
    """``process`` of a subscription, as a worker runs it. ``injected`` are columns that every batch has."""

    subscription: str
    called: Called
    injected: tuple[str, ...]
    on_error: str
    dead_letter: str | None
    count: Count

    def batches(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The topic's rows as ``process`` gets them."""
        for batch in rows:
            if batch.num_rows:
                yield from _with_their_columns(batch, self.injected)

    def call(self, batch: pa.RecordBatch, state: Any, updated: Callable[[TurbineWindow, pa.RecordBatch], None]) -> Any:
        """One call; ``updated`` takes what it gives to windows. An error names the line that it came from."""
        token = UPDATING.set(updated)
        try:
            return self.called.function(batch, state)
        except FunctionError:
            raise
        except Exception as error:
            raise FunctionError(
                f"process of {self.subscription} failed for a batch of {batch.num_rows} rows: "
                f"{told(error, self.called.function)}"
            ) from error
        finally:
            UPDATING.reset(token)


@final
@dataclass(frozen=True)
class RowsForWindow:
    """The rows that ``process`` gives to one window: only the columns that it needs, in their types."""

    process: Process
    window: str
    schema: pa.Schema

    def __call__(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The topic's rows in, the window's out."""
        for batch in self.process.batches(rows):
            taken: list[pa.RecordBatch] = []

            def update(window: TurbineWindow, given: pa.RecordBatch, taken: list[pa.RecordBatch] = taken) -> None:
                if window.name == self.window:
                    fitted = self._fitted(given)
                    if fitted is not None:
                        taken.append(fitted)

            try:
                self.process.call(batch, NoState(), update)
            except FunctionError:
                if self.process.on_error == "stop":
                    raise
                # All of the call or nothing of it.
                self.process.count(FAILED, 1)
                continue
            yield from taken

    def _fitted(self, given: pa.RecordBatch) -> pa.RecordBatch | None:
        if any(field.name not in given.schema.names for field in self.schema):
            self.process.count(SKIPPED, given.num_rows)
            return None
        arrays = []
        for field in self.schema:
            column = given.column(field.name)
            try:
                arrays.append(column if column.type == field.type else column.cast(field.type))
            except pa.ArrowInvalid as error:
                raise FunctionError(
                    f"process of {self.process.subscription} gave the window {self.window!r} a batch whose column "
                    f"{field.name!r} is {column.type}, and of the first batch it was {field.type}: {error}. Cast it in "
                    "process."
                ) from error
            except pa.ArrowNotImplementedError as error:
                raise FunctionError(
                    f"process of {self.process.subscription} gave the window {self.window!r} a batch whose column "
                    f"{field.name!r} is {column.type}, and it has to be {field.type}. Cast it in process."
                ) from error
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


@final
@dataclass(frozen=True)
class Returned:
    """What ``process`` returns, to be published: rows of :data:`mullion.turbine._callbacks.OUT`."""

    process: Process

    def __call__(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The topic's rows in, outputs out."""
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
        yield from outputs.rows()


def _with_their_columns(batch: pa.RecordBatch, injected: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """The rows of a batch in runs that came with the same columns, and with no others."""
    marks = batch.column(COLUMNS)
    encoded = pc.run_end_encode(marks)
    start = 0
    for end, mark in zip(encoded.run_ends.to_pylist(), encoded.values.to_pylist(), strict=True):
        there = {name for name in (mark or "").split(SEPARATOR) if name}
        names = [name for name in batch.schema.names if name in there or name in injected]
        yield batch.slice(start, end - start).select(names)
        start = end
