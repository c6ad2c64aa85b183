"""Functions of operators in Spark's workers, over batches: one stage has no shuffle between its functions.

A stage without state runs in each task over the batches of that task. A stage with state runs in one task over all
batches of the micro-batch, in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeAlias, final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from mullion._keyed.calls import FAILURES, failed_call
from mullion._keyed.memory import MemoryStore
from mullion._keyed.results import Results, WrongResultError, is_frame
from mullion._keyed.state import State
from mullion._keyed.store import Records
from mullion._util.codec import objects
from mullion.errors import FunctionError
from mullion.kx._operators import Accumulate, Filter, Function, Map, Merge, Reduce
from mullion.kx._query.batches import Batch, Data, Form, Meta, as_tables, batches_in, mixed_records
from mullion.kx._query.kx_table import CONVERSIONS, KxTable, converts
from mullion.kx._window_spec import Window
from mullion.topics._outputs import partition_of_task

TIME: Final = "_mullion_time"
"""The column of the times from a ``time_assigner``."""

_TIMES: Final = pa.timestamp("us", tz="UTC")

Output: TypeAlias = Literal["tables", "rows", "mixed"]
"""The output of a stage: batches; their records in the columns of a schema; or records of mixed schemas."""


@final
@dataclass(frozen=True)
class Step:
    """An operator with its id."""

    operator: Function | Window
    id: str

    def run(self, batches: Iterator[Batch], records: Records) -> Iterator[Batch]:
        """Applies the operator to batches."""
        operator = self.operator
        if isinstance(operator, (Accumulate, Merge)):
            batches = (batch for batch in batches if not batch.meta.closing)
        match operator:
            case Window():
                return self._assign_times(batches, operator)
            case Map():
                return self._map(batches)
            case Filter():
                return self._filter(batches)
            case Accumulate():
                return self._accumulate(batches, operator, records)
            case Reduce():
                return self._reduce(batches, operator, records)
            case Merge():
                return self._merge(batches, operator, records)
        raise AssertionError(operator)

    @property
    def what(self) -> str:
        """The operator's description in errors."""
        return f"{self.id} ({self.operator.where})"

    def _call(self, batch: Batch, *more: Any) -> Any:
        operator = self.operator
        function = operator.time_assigner if isinstance(operator, Window) else operator.function
        assert function is not None
        return call_with_batch(self.what, function, operator.params, self.id, batch, operator.pandas, *more)

    def _assign_times(self, batches: Iterator[Batch], window: Window) -> Iterator[Batch]:
        for batch in (each for each in batches if not each.meta.closing):
            assert isinstance(batch.data, pa.Table)
            times = _times(self._call(batch), batch.rows, f"the time_assigner of {self.what}")
            yield replace(batch, data=batch.data.append_column(TIME, times))

    def _map(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        for batch in batches:
            data = batch.data if batch.meta.closing else as_data(self._call(batch), self.what)
            if data is not None:
                yield replace(batch, data=data)

    def _filter(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        for batch in batches:
            data = batch.data if batch.meta.closing else _matching_rows(batch.data, self._call(batch), self.what)
            if data is not None:
                yield replace(batch, data=data)

    def _emit(self, operator: Accumulate | Reduce, accumulator: Any, batch: Batch) -> Iterator[Batch]:
        output = operator.output
        data = as_data(accumulator if output is None else call(self.what, output, batch, accumulator), self.what)
        if data is not None:
            yield Batch(data, replace(batch.meta, closing=False))

    def _accumulate(self, batches: Iterator[Batch], operator: Accumulate, records: Records) -> Iterator[Batch]:
        key = f"{self.id}\0accumulator".encode()
        accumulator = self._read(records, key, operator.initial)
        for batch in batches:
            accumulator = self._call(batch, accumulator)
            encoded = objects.encode(accumulator, f"the accumulator of {self.what}")
            records.put(key, encoded)
            yield from self._emit(operator, accumulator, batch)
            # Changes that ``output`` makes to it must have no effect, with or without a restart.
            accumulator = objects.decode(encoded)

    def _reduce(self, batches: Iterator[Batch], operator: Reduce, records: Records) -> Iterator[Batch]:
        for batch in batches:
            key = f"{self.id}\0{batch.meta.window}".encode()
            has_window = batch.meta.window is not None
            accumulator = self._read(records if has_window else None, key, operator.initial)
            if not batch.meta.closing:
                accumulator = self._call(batch, accumulator)
            if batch.meta.partial:
                records.put(key, objects.encode(accumulator, f"the accumulator of {self.what}"))
                continue
            if has_window:
                records.delete(key)
            yield from self._emit(operator, accumulator, batch)

    def _read(self, records: Records | None, key: bytes, initial: Any) -> Any:
        encoded = None if records is None else records.get(key)
        if encoded is None:
            # A copy: changes that a function makes to it must not reach the next window.
            encoded = objects.encode(initial, f"initial= of {self.what}")
        return objects.decode(encoded)

    def _merge(self, batches: Iterator[Batch], operator: Merge, records: Records) -> Iterator[Batch]:
        # The right stream comes first, so that the left one finds its partner of the same micro-batch.
        for batch in sorted(batches, key=lambda batch: not batch.meta.right):
            side = "right" if batch.meta.right else "left"
            buffers = {name: self._buffer(records, name) for name in ("left", "right")}
            buffers[side] = _append(buffers[side], batch.data, self.what)
            if _triggers(operator.trigger, side, buffers):
                sides = [_argument(buffers[name], operator.pandas, operator.function) for name in ("left", "right")]
                data = as_data(call(self.what, operator.function, batch, *sides), self.what)
                for name in ("left", "right"):
                    if operator.flush in (name, "both"):
                        buffers[name] = None
                if data is not None:
                    yield Batch(data, Meta(batch.meta.batch))
            for name, buffer in buffers.items():
                self._save_buffer(records, name, buffer)

    def _buffer(self, records: Records, side: str) -> pa.Table | None:
        encoded = records.get(f"{self.id}\0{side}".encode())
        return None if encoded is None else objects.decode(encoded)

    def _save_buffer(self, records: Records, side: str, buffer: pa.Table | None) -> None:
        key = f"{self.id}\0{side}".encode()
        if buffer is None:
            records.delete(key)
        else:
            records.put(key, objects.encode(buffer, f"the {side} buffer of {self.what}"))


@final
@dataclass(frozen=True)
class Stage:
    """Steps of one task, from Spark's input to its output.

    - ``mixed``: True if panes have records of mixed schemas.
    - ``schema``: of the records that it emits, if it emits ``"rows"``.
    - ``right``: True for the right stream of a ``merge``.
    """

    form: Form
    steps: tuple[Step, ...]
    output: Output = "tables"
    mixed: bool = False
    schema: pa.Schema | None = None
    right: bool = False

    @property
    def __name__(self) -> str:
        """The operators in plans, and in the error of a worker that ends."""
        return " or ".join(step.id for step in self.steps) or "Stage"

    def __call__(self, rows: Iterable[pa.RecordBatch], state: State | None = None) -> Iterator[pa.RecordBatch]:
        """Runs in one task with state, or in each task without it."""
        if state is not None:
            return self._encoded(self.batches(rows, state.batch_id, state), state.shard)
        context = TaskContext.get()
        number = None if context is None else context.getLocalProperty("streaming.sql.batchId")
        return self._encoded(self.batches(rows, int(number or 0), MemoryStore()), partition_of_task())

    def batches(self, rows: Iterable[pa.RecordBatch], number: int, records: Records) -> Iterator[Batch]:
        """The output of the last step."""
        batches = batches_in(self.form, rows, number, mixed=self.mixed)
        for step in self.steps:
            batches = step.run(batches, records)
        return batches

    def _encoded(self, batches: Iterator[Batch], partition: int) -> Iterator[pa.RecordBatch]:
        if self.right:
            batches = (replace(batch, meta=replace(batch.meta, right=True)) for batch in batches)
        if self.output == "tables":
            yield from as_tables(batches, partition)
        elif self.output == "mixed":
            yield from mixed_records(batches, partition)
        else:
            for batch in (each for each in batches if not each.meta.closing):
                yield from self._records(batch)

    def _records(self, batch: Batch) -> Iterator[pa.RecordBatch]:
        """The records of a batch, in the columns of the next window."""
        assert self.schema is not None
        results = Results(self.schema, "the next window", has_values_of)
        try:
            for table in batch.tables:
                yield from results.batches(table)
        except WrongResultError as error:
            name = self.steps[-1].what if self.steps else "the reader"
            raise failed_call(error, None, name, batch.text) from error


def call_with_batch(
    what: str,
    function: Callable[..., Any],
    params: tuple[str, ...],
    operator: str,
    batch: Batch,
    pandas: bool,
    *more: Any,
) -> Any:
    """Calls a function for a batch, with the arguments that ``params`` names and with ``more``."""
    arguments = {
        "operator": operator,
        "metadata": batch.meta.shown(),
        "data": _argument(batch.data, pandas, function),
    }
    return call(what, function, batch, *(arguments[name] for name in params), *more)


def call(what: str, function: Callable[..., Any], batch: Batch, *arguments: Any) -> Any:
    """Calls a function of an operator because of a batch."""
    try:
        return function(*arguments)
    except FAILURES as error:
        fix = ""
        if isinstance(error, AttributeError) and error.name in CONVERSIONS:
            fix = "A batch is a pyarrow.Table: write data.to_pandas(), or pandas=True for the operator"
        raise failed_call(error, function, what, batch.text, fix) from error


def as_data(result: Any, what: str) -> Data | None:
    """The result of a function as a batch: a table, or a list of tables; ``None`` if there is no result.

    A dict is a record, a list of dicts are records, and other plain values are the column ``value``.
    """
    if result is None:
        return None
    if isinstance(result, list) and result and all(_is_table(each) for each in result):
        return [_table(each) for each in result]
    if _is_table(result):
        return _table(result)
    try:
        if isinstance(result, dict):
            return pa.Table.from_pylist([result])
        if isinstance(result, (list, tuple)):
            records = all(isinstance(each, dict) for each in result) and len(result) > 0
            return pa.Table.from_pylist(list(result)) if records else pa.table({"value": pa.array(list(result))})
        if isinstance(result, (pa.Array, pa.ChunkedArray)):
            return pa.table({"value": result})
        return pa.table({"value": pa.array([result])})
    except (pa.ArrowException, TypeError, ValueError) as error:
        text = repr(result)
        raise FunctionError(
            f"{what} returned {text[:200]} ({type(result).__name__}), and a batch is an Arrow table, a pandas "
            f"DataFrame, a dict or a list of dicts, or plain values: {error}"
        ) from error


def _is_table(result: Any) -> bool:
    return isinstance(result, (pa.Table, pa.RecordBatch, KxTable)) or is_frame(result)


def _table(result: Any) -> pa.Table:
    if isinstance(result, KxTable):
        return result.pa()
    if isinstance(result, pa.RecordBatch):
        return pa.Table.from_batches([result])
    if is_frame(result):
        return pa.Table.from_pandas(result, preserve_index=False).replace_schema_metadata()
    return result


def _argument(data: Data | None, pandas: bool, function: Callable[..., Any]) -> Any:
    """A batch as the argument of a function."""
    if data is None or not (pandas or converts(function)):
        return data
    as_argument = pa.Table.to_pandas if pandas else KxTable
    return [as_argument(table) for table in data] if isinstance(data, list) else as_argument(data)


def _matching_rows(data: Data, answer: Any, what: str) -> Data | None:
    """The part of a batch that a filter keeps: all, nothing, or the marked rows."""
    if isinstance(answer, bool) or type(answer).__name__ in ("bool_", "bool", "BooleanScalar"):
        return data if bool(answer.as_py() if hasattr(answer, "as_py") else answer) else None
    if isinstance(data, list):
        raise FunctionError(
            f"{what} returned {type(answer).__name__} for a batch of mixed schemas, of which all or nothing is kept. "
            "Return True or False."
        )
    try:
        mask = answer if isinstance(answer, (pa.Array, pa.ChunkedArray)) else pa.array(answer, from_pandas=True)
        if len(mask) != data.num_rows:
            raise ValueError(f"{len(mask)} answers for {data.num_rows} records")
        if not pa.types.is_boolean(mask.type) and len(mask):
            raise ValueError(f"answers of type {mask.type}")
        return data.filter(mask.cast(pa.bool_()))
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise FunctionError(
            f"{what} returned {type(answer).__name__}, and a filter returns True or False for a batch, or a list or "
            f"array of them with one for each record: {error}"
        ) from error


def _times(result: Any, rows: int, what: str) -> pa.ChunkedArray:
    try:
        if isinstance(result, (pa.Array, pa.ChunkedArray)):
            times = result
        elif isinstance(result, (list, tuple)):
            # A time without a zone is in UTC.
            times = pa.array([_in_utc(each) for each in result], _TIMES)
        else:
            times = pa.array(result, from_pandas=True)
        if len(times) != rows:
            raise ValueError(f"{len(times)} times for {rows} records")
        if not pa.types.is_timestamp(times.type) and not pa.types.is_null(times.type):
            raise ValueError(f"values of type {times.type}")
        if pa.types.is_timestamp(times.type) and times.type.tz is None:
            times = pc.assume_timezone(times, "UTC")
        # Spark's timestamps have no nanoseconds. Rounding down keeps a record in its window.
        return times.cast(_TIMES, safe=False)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise FunctionError(
            f"{what} returned {type(result).__name__}, and has to return a list or an array of timestamps (datetimes) "
            f"with one for each record: {error}"
        ) from error


def _in_utc(time: Any) -> Any:
    return time.replace(tzinfo=UTC) if isinstance(time, datetime) and time.tzinfo is None else time


def _append(buffer: pa.Table | None, data: Data, what: str) -> pa.Table:
    tables = [*([] if buffer is None else [buffer]), *(data if isinstance(data, list) else [data])]
    try:
        return pa.concat_tables(tables, promote_options="default").combine_chunks()
    except pa.ArrowException as error:
        raise FunctionError(f"{what} buffers batches whose columns do not go together: {error}") from error


def _triggers(trigger: str, side: str, buffers: dict[str, pa.Table | None]) -> bool:
    if trigger == "both":
        return all(buffer is not None for buffer in buffers.values())
    return trigger in ("either", side)


def has_values_of(have: pa.DataType, want: pa.DataType) -> bool:
    """Returns True if each value of the type ``have`` is one of ``want``: no text becomes a number, for instance."""
    kinds = pa.types
    if kinds.is_null(have):
        return True
    if kinds.is_integer(have) and kinds.is_signed_integer(want):
        return bool(have.bit_width < want.bit_width or (kinds.is_signed_integer(have) and have == want))
    if kinds.is_floating(have) and kinds.is_floating(want):
        return bool(have.bit_width <= want.bit_width)
    texts = (kinds.is_string, kinds.is_large_string)
    if any(is_text(have) for is_text in texts) and any(is_text(want) for is_text in texts):
        return True
    if kinds.is_dictionary(have):
        return bool(have.value_type == want)
    if kinds.is_timestamp(have) and kinds.is_timestamp(want):
        return (have.tz is None) == (want.tz is None)
    # Arrow's lists and structs may differ only in the names of their items.
    nested = kinds.is_nested(have) and kinds.is_nested(want)
    return bool(nested and str(have).replace("item:", "element:") == str(want).replace("item:", "element:"))
