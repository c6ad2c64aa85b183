"""The calls of a Python aggregate in Spark's workers: on request of a task, and in the UDF that computes results.

The task's side of the requests is ``AggregateWorker`` in Scala, which documents their format.
"""

from __future__ import annotations

import base64
import json
import socket
import struct
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cached_property, reduce
from typing import Any, Final, Protocol

import pyarrow as pa

from mullion._bridge.query_errors import FUNCTION_FAILED
from mullion._util.codec import pickles, values
from mullion._util.codec.windows import interval_text, window_text
from mullion._util.user_code import raised_at
from mullion.errors import InvalidArgumentError

_INT: Final = struct.Struct(">i")
_DONE: Final = b"\0"
_FAILED: Final = b"\1"


class FailedFunctionError(Exception):
    """An error in a method of the user's class, as one line for the driver."""


class Rows:
    """Rows of several panes, one pane after another."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch

    @cached_property
    def columns(self) -> list[list[Any]]:
        """The values of each column as Python objects."""
        return [_python_values(column) for column in self.batch.columns]


class Methods(Protocol):
    """The methods of a ``PythonAggregate``, of which it defines ``add`` or ``add_row``, and perhaps the last two."""

    def create(self) -> Any: ...
    def add(self, accumulator: Any, rows: pa.RecordBatch) -> Any: ...
    def add_row(self, accumulator: Any, *values: Any) -> Any: ...
    def merge(self, a: Any, b: Any) -> Any: ...
    def finish(self, accumulator: Any) -> Any: ...
    def dump(self, accumulator: Any) -> bytes: ...
    def load(self, data: bytes) -> Any: ...


class Adder:
    """Calls the methods of an aggregate, and encodes accumulators: with its ``dump``, pickle, or as plain values."""

    def __init__(self, aggregate: Methods, *, by_row: bool, dumps: bool, pickles: bool) -> None:
        self.aggregate = aggregate
        self.name = type(aggregate).__name__
        self._by_row = by_row
        self._dumps = dumps
        self._pickles = pickles

    def accumulator(self, encoded: Sequence[bytes], rows: Rows | None, start: int, count: int) -> Any:
        """The accumulator of the encoded ones and of ``count`` rows."""
        of = self.aggregate
        method = "create"
        try:
            if encoded:
                method = "load"
                total = self.load(encoded[0])
                for data in encoded[1:]:
                    method = "load"
                    other = self.load(data)
                    method = "merge"
                    total = self._returned(method, total, of.merge(total, other))
            else:
                total = of.create()
            if count:
                assert rows is not None
                if self._by_row:
                    method, add_row = "add_row", of.add_row
                    before = total
                    columns = [column[start : start + count] for column in rows.columns]
                    if len(columns) == 1:
                        total = reduce(add_row, columns[0], total)
                    else:
                        for row in zip(*columns, strict=True):
                            total = add_row(total, *row)
                    total = self._returned(method, before, total)
                else:
                    method = "add"
                    total = self._returned(method, total, of.add(total, rows.batch.slice(start, count)))
        except (FailedFunctionError, MemoryError):
            raise
        except (Exception, SystemExit) as error:
            failed = self._failed(method, error)
            if isinstance(error, KeyError) and method == "add" and rows is not None:
                names = ", ".join(rows.batch.schema.names)
                failed = FailedFunctionError(f"{failed}. The rows have {names} (name an expression with .alias)")
            raise failed from error
        return total

    def finished(self, accumulator: Any) -> Any:
        """The result for an accumulator."""
        try:
            return self.aggregate.finish(accumulator)
        except (Exception, SystemExit) as error:
            raise self._failed("finish", error) from error

    def dump(self, accumulator: Any) -> bytes:
        """The accumulator as bytes."""
        if self._dumps:
            try:
                data = self.aggregate.dump(accumulator)
            except (Exception, SystemExit) as error:
                raise self._failed("dump", error) from error
            if not isinstance(data, (bytes, bytearray)):
                raise FailedFunctionError(f"{self.name}.dump returned {_shown(data)}, which is not bytes")
            return bytes(data)
        if self._pickles:
            try:
                return pickles.encode(accumulator)
            except Exception as error:
                raise FailedFunctionError(
                    f"{self.name} cannot store its accumulator {_shown(accumulator)} with pickle: {error}"
                ) from error
        try:
            return values.encode(accumulator, self.name)
        except InvalidArgumentError as error:
            value = str(error).partition(": ")[2].partition(" cannot be kept")[0]
            raise FailedFunctionError(
                f"{self.name} cannot store its accumulator, because of the value {value}. There are three ways: an "
                "accumulator of plain values (numbers, text, bytes, dates, lists, tuples, sets, dicts, dataclasses, "
                "NumPy arrays), dump() and load() in the class, or pickle=True if you trust everybody who can write to "
                "the checkpoint"
            ) from error

    def load(self, data: bytes) -> Any:
        """The accumulator of the bytes, as a new object."""
        if self._dumps:
            return self.aggregate.load(data)
        return pickles.decode(data) if self._pickles else values.decode(data)

    def _returned(self, method: str, before: Any, after: Any) -> Any:
        if after is None and before is not None:
            raise FailedFunctionError(f"{self.name}.{method} returned None. Return the accumulator")
        return after

    def _failed(self, method: str, error: BaseException) -> FailedFunctionError:
        return FailedFunctionError(f"{self.name}.{method} failed: {raised_at(error)}")


class AddRows:
    """The function of a task's worker: answers the requests of the task until it closes the connection."""

    def __init__(self, adder: Adder) -> None:
        self.adder = adder
        self.__name__ = adder.name

    def __call__(self, frames: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Spark uses a worker again only if it has read its input to the end.
        (frame,) = frames
        header = json.loads(frame.column(1)[0].as_py())
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(header["schema"])))
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(header["socket"])
            with connection.makefile("rb", buffering=1 << 16) as requests:
                while length := requests.read(_INT.size):
                    answer = self._answer(requests.read(_INT.unpack(length)[0]), schema)
                    connection.sendall(_INT.pack(sum(map(len, answer))))
                    connection.sendall(b"".join(answer))
        yield from ()

    def _answer(self, request: bytes, schema: pa.Schema) -> list[bytes]:
        answer = [_DONE]
        for pane, (encoded, rows, start, count) in enumerate(_panes(request, schema)):
            try:
                data = self.adder.dump(self.adder.accumulator(encoded, rows, start, count))
            except FailedFunctionError as error:
                return [_FAILED, _INT.pack(pane), str(error).encode()]
            answer += (_INT.pack(len(data)), data)
        return answer


def _panes(request: bytes, schema: pa.Schema) -> list[tuple[list[bytes], Rows | None, int, int]]:
    """The panes of a request: their encoded accumulators, and their rows by start and count."""
    at = 0

    def number() -> int:
        nonlocal at
        at += _INT.size
        return int(_INT.unpack_from(request, at - _INT.size)[0])

    panes, total = [], 0
    for _ in range(number()):
        encoded = []
        for _ in range(number()):
            length = number()
            encoded.append(request[at : at + length])
            at += length
        count = number()
        panes.append((encoded, total, count))
        total += count
    rows = None
    if total:
        # The batch begins at a multiple of eight bytes.
        rows = Rows(pa.ipc.read_record_batch(pa.py_buffer(request).slice(at + -at % 8), schema))
    return [(encoded, rows, start, count) for encoded, start, count in panes]


def finishing(adder: Adder, kind: pa.DataType) -> Callable[[pa.Array], pa.Array]:
    """The function of the UDF that computes results: over structs of accumulators, rows, window and key, in batches."""

    def finish(panes: pa.Array) -> pa.Array:
        results: list[Any] = []
        with _for_driver():
            lists = panes.field("accumulators"), panes.field("rows")
            encoded, bounds = lists[0].values.to_pylist(), lists[0].offsets.to_pylist()
            rows, starts = (
                Rows(_in_utc(pa.RecordBatch.from_struct_array(lists[1].values))),
                lists[1].offsets.to_pylist(),
            )
            present = panes.is_valid().to_pylist()
            try:
                for pane in range(len(panes)):
                    # A late row has no result.
                    if not present[pane]:
                        results.append(None)
                        continue
                    of_pane = encoded[bounds[pane] : bounds[pane + 1]]
                    count = starts[pane + 1] - starts[pane]
                    results.append(adder.finished(adder.accumulator(of_pane, rows, starts[pane], count)))
            except FailedFunctionError as error:
                raise _in_pane(error, panes, len(results)) from error.__cause__
            return _results(adder, results, kind, panes)

    return finish


def finishing_one(adder: Adder) -> Callable[[Any], Any]:
    """The same for one pane whose rows have all been added."""

    def finish(pane: Any) -> Any:
        if pane is None:
            return None
        with _for_driver():
            try:
                return adder.finished(adder.accumulator([bytes(data) for data in pane["accumulators"]], None, 0, 0))
            except FailedFunctionError as error:
                raise _in_one(error, pane) from error.__cause__

    return finish


def _results(adder: Adder, results: list[Any], kind: pa.DataType, panes: pa.StructArray) -> pa.Array:
    try:
        return pa.array([_plain(result) for result in results], kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, TypeError) as error:
        for pane, result in enumerate(results):
            try:
                pa.array([_plain(result)], kind)
            except (pa.ArrowException, OverflowError, TypeError):
                failed = FailedFunctionError(
                    f"{adder.name}.finish returned {_shown(result)}, which is not a value of {kind}: {error}. Return "
                    "one, or change returns= of the class"
                )
                raise _in_pane(failed, panes, pane) from error
        raise


def _in_pane(error: FailedFunctionError, panes: pa.StructArray, index: int) -> FailedFunctionError:
    """The error with the pane at an index, whose window and key are next to its accumulators and rows."""
    key = panes.field("key")[index].as_py() if panes.type.get_field_index("key") >= 0 else {}
    return _named(error, window_text(panes.field("window"), index), key)


def _in_one(error: FailedFunctionError, pane: Any) -> FailedFunctionError:
    """The same for a pane as a row of Spark."""
    bounds = (each.astimezone(UTC) if isinstance(each, datetime) else each for each in pane["window"])
    return _named(error, interval_text(*bounds), pane["key"].asDict() if "key" in pane else {})


def _named(error: FailedFunctionError, window: str, key: dict[str, str]) -> FailedFunctionError:
    named = f" of {', '.join(f'{name}={value}' for name, value in key.items())}" if key else ""
    return FailedFunctionError(f"In the pane {window}{named}, {error}")


def _plain(result: Any) -> Any:
    """A result without NumPy's types, which Arrow does not accept inside of lists and structs."""
    return result.tolist() if type(result).__module__ == "numpy" else result


class _for_driver:  # noqa: N801
    """Gives errors the form that the driver finds in the traceback of a worker."""

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, FailedFunctionError):
            raise ValueError(f"{FUNCTION_FAILED}{error}") from error.__cause__


def _python_values(column: pa.Array) -> list[Any]:
    kind = column.type
    if column.null_count == 0 and (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        # Several times faster than to_pylist().
        fast: list[Any] = column.to_numpy().tolist()
        return fast
    slow: list[Any] = column.to_pylist()
    return slow


def _in_utc(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with timestamps in UTC, as rows have that the task sends. Spark uses the session's time zone."""
    kinds = [_type_in_utc(field.type) for field in batch.schema]
    if kinds == batch.schema.types:
        return batch
    return pa.RecordBatch.from_arrays(
        [column.cast(kind) for column, kind in zip(batch.columns, kinds, strict=True)], names=batch.schema.names
    )


def _type_in_utc(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, "UTC")
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_type_in_utc(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_type_in_utc(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_type_in_utc(kind.key_type), _type_in_utc(kind.item_type))
    return kind


def _shown(value: Any) -> str:
    text = repr(value)
    return f"{text if len(text) <= 200 else text[:200] + '...'} ({type(value).__name__})"
