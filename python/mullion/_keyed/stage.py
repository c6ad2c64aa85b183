"""The part of a stage in a Spark worker: calls a function over the frames that its task sends.

A frame is a row of Spark's Arrow input: a number and bytes. Frames to the function have the number -1 for the
description of the task, in JSON; 0 for input rows; and ``window * 8 + kind`` for firings. Frames from the function have
0 for output rows, and numbers from 1 on for the rows of each window. Rows and firings are Arrow streams.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from mullion._keyed.results import Results, WrongResultError
from mullion._keyed.state import State
from mullion._util.codec.arrow import batches_in, buffer_of
from mullion._util.user_code import failed_line
from mullion.errors import FunctionError, InvalidArgumentError, MullionError

_KINDS = ("late", "running", "early", "on_time", "update", "close")
_KINDS_OF_A_WINDOW = 8
_FRAME = pa.schema([pa.field("kind", pa.int32()), pa.field("data", pa.binary())])
_FRAME_BYTES = 64 << 20


class Firings(NamedTuple):
    """Some firings of one window, all of one kind: the input of ``callbacks``, in this order of kinds.

    - ``window``: its name in ``windows=``.
    - ``firing``: ``"late"``, ``"running"``, ``"early"``, ``"on_time"``, ``"update"`` or ``"close"``.
    - ``batch``: a row for each, with the columns of the panes: the keys, ``window``, ``pane``, then the aggregates.
      Many firings are split into several batches.
    """

    window: str
    firing: str
    batch: pa.RecordBatch


@dataclass(frozen=True)
class Stage:
    """A function with its output schemas, called by Spark's worker with the frames of one task.

    - ``role``: its name in errors.
    - ``output``: the schema of its output; ``windows``: those of the rows for windows, by name.
    - ``of_firings``: the names of the windows whose firings are its input, or ``None`` if its input is rows.
    """

    function: Callable[..., Any]
    role: str
    output: pa.Schema
    windows: tuple[tuple[str, pa.Schema], ...] = ()
    of_firings: tuple[str, ...] | None = None

    @property
    def __name__(self) -> str:
        """The name of the function in plans."""
        return str(getattr(self.function, "__name__", type(self.function).__name__))

    def __call__(self, frames: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        inputs = _frames(frames)
        _, header = next(inputs)
        with State.connect(header.to_pybytes()) as state:
            try:
                outputs = self.function(self._rows(inputs) if self.of_firings is None else self._firings(inputs), state)
                if outputs is not None:
                    yield from self._wired(outputs)
            except Exception as error:
                condition, message = _described(error, self.role)
                state._failed(condition, message)
                raise
            state._end()

    def _rows(self, frames: Iterator[tuple[int, pa.Buffer]]) -> Iterator[pa.RecordBatch]:
        for _, data in frames:
            yield from batches_in(data)

    def _firings(self, frames: Iterator[tuple[int, pa.Buffer]]) -> Iterator[Firings]:
        assert self.of_firings is not None
        for number, data in frames:
            window, kind = divmod(number, _KINDS_OF_A_WINDOW)
            for batch in batches_in(data):
                yield Firings(self.of_firings[window], _KINDS[kind], batch)

    def _wired(self, outputs: Iterable[Any]) -> Iterator[pa.RecordBatch]:
        numbers = {name: number for number, (name, _) in enumerate(self.windows, start=1)}
        results = [Results(self.output), *(Results(schema, f"the window {name!r}") for name, schema in self.windows)]
        for item in outputs:
            if isinstance(item, tuple) and self.windows:
                name, batch = item if len(item) == 2 else (None, None)
                if name not in numbers:
                    raise InvalidArgumentError(
                        f"{self.role} yielded a tuple that begins with {name!r}, and its windows are "
                        f"{', '.join(map(repr, numbers))}. Yield (window, batch), or a batch for the output."
                    )
                number = numbers[name]
            else:
                number, batch = 0, item
            try:
                for rows in results[number].batches(batch):
                    if rows.num_rows:
                        yield from frame_of(number, rows)
            except WrongResultError as error:
                raise InvalidArgumentError(f"{self.role} {error}") from error


def _frames(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.Buffer]]:
    for batch in batches:
        kinds, data = batch.column(0).to_pylist(), batch.column(1)
        for row, kind in enumerate(kinds):
            yield kind, data[row].as_buffer()


def frame_of(number: int, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Rows as frames of one number."""
    if batch.nbytes > _FRAME_BYTES and batch.num_rows > 1:
        half = batch.num_rows // 2
        yield from frame_of(number, batch.slice(0, half))
        yield from frame_of(number, batch.slice(half))
        return
    stream = buffer_of(batch)
    data = pa.Array.from_buffers(pa.binary(), 1, [None, pa.array([0, stream.size], pa.int32()).buffers()[1], stream])
    yield pa.RecordBatch.from_arrays([pa.array([number], pa.int32()), data], schema=_FRAME)


def _described(error: Exception, role: str) -> tuple[str, str]:
    """The condition and the message of an error. Mullion's own errors are unchanged; others get their line."""
    if isinstance(error, MullionError):
        return error.condition, str(error)
    line = failed_line(error)
    where = "an unknown line" if line is None else f"{line.filename}:{line.lineno}, in {line.name}"
    text = "".join(traceback.format_exception(error)).rstrip()
    return FunctionError.condition, f"{role} failed at {where}: {type(error).__name__}: {error}\n\n{text}"
