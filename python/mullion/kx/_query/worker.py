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

from mullion._keyed.memory import MemoryStore
from mullion._keyed.store import Records
from mullion._util.codec import objects
from mullion._util.user_code import failed_at
from mullion.errors import FunctionError, MullionError
from mullion.kx._operators import Accumulate, Filter, Function, Map, Merge, Reduce
from mullion.kx._query.batches import Batch, Data, Form, Meta, as_tables, batches_in, mixed_records
from mullion.kx._query.kx_table import CONVERSIONS, KxTable, converts
from mullion.kx._window_spec import Window

TIME: Final = "_mullion_time"
"""The column of the times from a ``time_assigner``."""

_TIMES: Final = pa.timestamp("us", tz="UTC")

Given: TypeAlias = Literal["tables", "rows", "mixed"]
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

    def _ask(self, batch: Batch, *more: Any) -> Any:
        operator = self.operator
        function = operator.time_assigner if isinstance(operator, Window) else operator.function
        assert function is not None
        return called(self.what, function, operator.params, self.id, batch, operator.pandas, *more)

    def _assign_times(self, batches: Iterator[Batch], window: Window) -> Iterator[Batch]:
        for batch in (each for each in batches if not each.meta.closing):
            assert isinstance(batch.data, pa.Table)
            times = _times(self._ask(batch), batch.rows, f"the time_assigner of {self.what}")
            yield replace(batch, data=batch.data.append_column(TIME, times))

    def _map(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        for batch in batches:
            made = batch.data if batch.meta.closing else as_data(self._ask(batch), self.what)
            if made is not None:
                yield replace(batch, data=made)

    def _filter(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        for batch in batches:
            kept = batch.data if batch.meta.closing else _kept_rows(batch.data, self._ask(batch), self.what)
            if kept is not None:
                yield replace(batch, data=kept)

    def _emit(self, operator: Accumulate | Reduce, accumulator: Any, meta: Meta) -> Iterator[Batch]:
        made = accumulator if operator.output is None else guarded(self.what, operator.output, accumulator)
        data = as_data(made, self.what)
        if data is not None:
            yield Batch(data, meta)

    def _accumulate(self, batches: Iterator[Batch], operator: Accumulate, records: Records) -> Iterator[Batch]:
        key = f"{self.id}\0accumulator".encode()
        accumulator = self._read(records, key, operator.initial)
        for batch in batches:
            accumulator = self._ask(batch, accumulator)
            written = objects.encode(accumulator, f"the accumulator of {self.what}")
            records.put(key, written)
            yield from self._emit(operator, accumulator, batch.meta)
            # Changes that ``output`` makes to it must have no effect, with or without a restart.
            accumulator = objects.decode(written)

    def _reduce(self, batches: Iterator[Batch], operator: Reduce, records: Records) -> Iterator[Batch]:
        for batch in batches:
            key = f"{self.id}\0{batch.meta.window}".encode()
            own = batch.meta.window is not None
            accumulator = self._read(records if own else None, key, operator.initial)
            if not batch.meta.closing:
                accumulator = self._ask(batch, accumulator)
            if batch.meta.partial:
                records.put(key, objects.encode(accumulator, f"the accumulator of {self.what}"))
                continue
            if own:
                records.delete(key)
            yield from self._emit(operator, accumulator, replace(batch.meta, closing=False))

    def _read(self, records: Records | None, key: bytes, initial: Any) -> Any:
        written = None if records is None else records.get(key)
        if written is None:
            # A copy: changes that a function makes to it must not reach the next window.
            written = objects.encode(initial, f"initial= of {self.what}")
        return objects.decode(written)

    def _merge(self, batches: Iterator[Batch], operator: Merge, records: Records) -> Iterator[Batch]:
        # The right stream comes first, so that the left one finds its partner of the same micro-batch.
        for batch in sorted(batches, key=lambda batch: not batch.meta.right):
            side = "right" if batch.meta.right else "left"
            buffers = {name: self._buffer(records, name) for name in ("left", "right")}
            buffers[side] = _append(buffers[side], batch.data, self.what)
            if _triggers(operator.trigger, side, buffers):
                asked = [_given(buffers[name], operator.pandas, operator.function) for name in ("left", "right")]
                made = as_data(guarded(self.what, operator.function, *asked), self.what)
                for name in ("left", "right"):
                    if operator.flush in (name, "both"):
                        buffers[name] = None
                if made is not None:
                    yield Batch(made, Meta(batch.meta.batch))
            for name, buffer in buffers.items():
                self._keep(records, name, buffer)

    def _buffer(self, records: Records, side: str) -> pa.Table | None:
        written = records.get(f"{self.id}\0{side}".encode())
        return None if written is None else objects.decode(written)

    def _keep(self, records: Records, side: str, buffer: pa.Table | None) -> None:
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
    gives: Given = "tables"
    mixed: bool = False
    schema: pa.Schema | None = None
    right: bool = False

    def __call__(self, found: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Runs without state, in each task."""
        context = TaskContext.get()
        number = None if context is None else context.getLocalProperty("streaming.sql.batchId")
        partition = 0 if context is None else context.partitionId()
        return self._given(found, int(number or 0), partition, MemoryStore())

    def with_state(self, found: Iterable[pa.RecordBatch], state: Any) -> Iterator[pa.RecordBatch]:
        """Runs with state, in one task."""
        return self._given(found, state.batch_id, state.shard, state)

    def batches(self, found: Iterable[pa.RecordBatch], number: int, records: Records) -> Iterator[Batch]:
        """The output of the last step."""
        batches = batches_in(self.form, found, number, mixed=self.mixed)
        for step in self.steps:
            batches = step.run(batches, records)
        return batches

    def _given(
        self, found: Iterable[pa.RecordBatch], number: int, partition: int, records: Records
    ) -> Iterator[pa.RecordBatch]:
        batches = self.batches(found, number, records)
        if self.right:
            batches = (replace(batch, meta=replace(batch.meta, right=True)) for batch in batches)
        if self.gives == "tables":
            yield from as_tables(batches, partition)
        elif self.gives == "mixed":
            yield from mixed_records(batches, partition)
        else:
            what = self.steps[-1].what if self.steps else "what was read"
            for batch in (each for each in batches if not each.meta.closing):
                for table in batch.data if isinstance(batch.data, list) else [batch.data]:
                    assert self.schema is not None
                    yield from conformed(table, self.schema, what).to_batches()


def called(
    what: str,
    function: Callable[..., Any],
    params: tuple[str, ...],
    operator: str,
    batch: Batch,
    pandas: bool,
    *more: Any,
) -> Any:
    """Calls a function for a batch, with the arguments that ``params`` names and with ``more``."""
    given = {"operator": operator, "metadata": batch.meta.shown(), "data": _given(batch.data, pandas, function)}
    return guarded(what, function, *(given[name] for name in params), *more)


def guarded(what: str, function: Callable[..., Any], *given: Any) -> Any:
    """Calls a function; its errors name the operator and the line."""
    try:
        return function(*given)
    except MullionError:
        raise
    except Exception as error:
        raise FunctionError(f"{what} failed {_error_text(error, function)}") from error


def as_data(made: Any, what: str) -> Data | None:
    """The result of a function as a batch: a table, or a list of tables; ``None`` if there is no result.

    A dict is a record, a list of dicts are records, and other plain values are the column ``value``.
    """
    if made is None:
        return None
    if isinstance(made, list) and made and all(_is_table(each) for each in made):
        return [_table(each) for each in made]
    if _is_table(made):
        return _table(made)
    try:
        if isinstance(made, dict):
            return pa.Table.from_pylist([made])
        if isinstance(made, (list, tuple)):
            records = all(isinstance(each, dict) for each in made) and len(made) > 0
            return pa.Table.from_pylist(list(made)) if records else pa.table({"value": pa.array(list(made))})
        if isinstance(made, (pa.Array, pa.ChunkedArray)):
            return pa.table({"value": made})
        return pa.table({"value": pa.array([made])})
    except (pa.ArrowException, TypeError, ValueError) as error:
        shown = repr(made)
        raise FunctionError(
            f"{what} gave {shown[:200]} ({type(made).__name__}), and a batch is an Arrow table, a pandas DataFrame, a "
            f"dict or a list of dicts, or plain values: {error}"
        ) from error


def _is_table(made: Any) -> bool:
    return isinstance(made, (pa.Table, pa.RecordBatch, KxTable)) or _is_pandas(made)


def _is_pandas(made: Any) -> bool:
    return type(made).__name__ == "DataFrame" and type(made).__module__.split(".")[0] == "pandas"


def _table(made: Any) -> pa.Table:
    if isinstance(made, KxTable):
        return made.pa()
    if isinstance(made, pa.RecordBatch):
        return pa.Table.from_batches([made])
    return pa.Table.from_pandas(made, preserve_index=False).replace_schema_metadata() if _is_pandas(made) else made


def _given(data: Data | None, pandas: bool, function: Callable[..., Any]) -> Any:
    """A batch as the argument of a function."""
    if data is None or not (pandas or converts(function)):
        return data
    as_argument = pa.Table.to_pandas if pandas else KxTable
    return [as_argument(table) for table in data] if isinstance(data, list) else as_argument(data)


def _kept_rows(data: Data, answer: Any, what: str) -> Data | None:
    """The part of a batch that a filter keeps: all, nothing, or the marked rows."""
    if isinstance(answer, bool) or type(answer).__name__ in ("bool_", "bool", "BooleanScalar"):
        return data if bool(answer.as_py() if hasattr(answer, "as_py") else answer) else None
    if isinstance(data, list):
        raise FunctionError(
            f"{what} gave {type(answer).__name__} for a batch of mixed schemas, of which all or nothing is kept. Give "
            "True or False."
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
            f"{what} gave {type(answer).__name__}, and a filter gives True or False for a batch, or a list or array of "
            f"them with one for each record: {error}"
        ) from error


def _times(given: Any, rows: int, what: str) -> pa.ChunkedArray:
    try:
        if isinstance(given, (pa.Array, pa.ChunkedArray)):
            times = given
        elif isinstance(given, (list, tuple)):
            # A time without a zone is in UTC.
            times = pa.array([_in_utc(each) for each in given], _TIMES)
        else:
            times = pa.array(given, from_pandas=True)
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
            f"{what} gave {type(given).__name__}, and gives a list or an array of timestamps (datetimes) with one for "
            f"each record: {error}"
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


def conformed(table: pa.Table, schema: pa.Schema, what: str) -> pa.Table:
    """A table with the columns of a schema, matched by name. Only casts that keep all values are applied.

    Raises :class:`FunctionError` for other columns, and for types that do not match those of the schema.
    """
    if table.schema.equals(schema):
        return table
    found, wanted = set(table.column_names), set(schema.names)
    if found != wanted:
        raise FunctionError(
            f"{what} gave the columns {_join(table.column_names)}, and the next window has {_join(schema.names)}, "
            "which came first. Give the same columns in each batch, or say which there are with schema=."
        )
    columns = []
    for field in schema:
        column = table.column(field.name)
        if column.type != field.type:
            if not _keeps(column.type, field.type):
                raise FunctionError(
                    f"{what} gave the column {field.name!r} as {column.type}, and the next window has it as "
                    f"{field.type}, which came first. Cast it in the function, or say its type with schema=."
                )
            column = column.cast(field.type)
        columns.append(column)
    return pa.table(columns, schema=schema)


def _keeps(have: pa.DataType, want: pa.DataType) -> bool:
    """Returns True if a cast keeps every value."""
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


def _join(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names)) or "none"


def _error_text(error: Exception, function: object) -> str:
    """The place and the message of an error in a function, in one line."""
    hint = ""
    if isinstance(error, AttributeError) and error.name in CONVERSIONS:
        hint = ". A batch is a pyarrow.Table: write data.to_pandas(), or pandas=True for the operator"
    return f"at {failed_at(error, function)}: {type(error).__name__}: {' '.join(str(error).split())}{hint}"
