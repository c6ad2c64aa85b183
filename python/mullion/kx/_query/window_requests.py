"""The engine's windows for the windows of pipelines.

All records are one buffer, so windows have no keys and one partition. Windows of records, and windows of time with a
``count_trigger``, store rows in the engine as they arrived. Other windows of time store their records as an aggregate,
each with its position in the order of arrival: overlapping windows store a record once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as T  # noqa: N812

from mullion._bridge import dispatch
from mullion._bridge.columns import field_of
from mullion._bridge.request import quoted
from mullion._native.pane_functions.lists import BATCH, RECORD, ROW, list_of, sorted_lists
from mullion._native.windowed import windowed
from mullion._util import durations
from mullion.errors import InvalidArgumentError
from mullion.kx._query.batches import CLOSING, unmixed
from mullion.kx._query.kx_table import KxTable, converts
from mullion.kx._query.worker import TIME
from mullion.kx._window_spec import ANY_COUNT, Window
from mullion.windows import Count, Early, Global, Sliding, SplitOf, Tumbling

_CLOCK: Final = "_mullion_clock"


def panes_of(records: DataFrame, window: Window, name: str, *, closes: bool) -> DataFrame:
    """The windows of a stream's records: ``window``, ``pane`` and ``rows``, an array of the records as structs.

    Late records that pass through are rows too, with the firing ``late``. ``closes``: True if all windows close at the
    end of the input.
    """
    options: dict[str, Any] = {"time": None, "at_end": "close" if closes else "keep"}
    if not window.clocked:
        result = windowed(records, _of_records(window, name), **options).collect()
        return result.select("window", "pane", "rows")
    record = sf.struct(*(sf.col(quoted(each)) for each in records.columns if each != TIME))
    rows = records.select(record.alias(RECORD))
    if window.on_event_time:
        clock = _clock(records, window, name).alias(_CLOCK)
        rows = records.select(record.alias(RECORD), clock).withWatermark(_CLOCK, "0 seconds")
        options["time"] = _CLOCK
        options["allowed_lateness"] = durations.written(window.lateness_us)
        options["late"] = "emit" if window.passthrough else "drop"
    if not window.skip_empty_windows:
        options["empty"] = "emit"
    size = durations.written(window.size_us)
    kind = (
        Tumbling(size)
        if window.size_us == window.slide_us
        else Sliding(size, durations.written(window.slide_us), gaps=True)
    )
    panes = _complete_windows if window.count_trigger == ANY_COUNT else _windows_by_flushes
    result = panes(rows, kind, window, options)
    shown = sf.col("rows")
    if window.passthrough:
        late = sf.array(sf.col("late_row").getField(RECORD))
        shown = sf.when(sf.col("pane.firing") == "late", late).otherwise(shown)
    none = sf.array().cast(result.schema["rows"].dataType)
    return result.select("window", "pane", sf.coalesce(shown, none).alias("rows"))


def _complete_windows(rows: DataFrame, kind: Tumbling | Sliding, window: Window, options: dict[str, Any]) -> DataFrame:
    """Windows that are emitted once, with all of their records."""
    ordered = dispatch.with_arrival(rows, BATCH, ROW)
    place = map(sf.col, [*([_CLOCK] if window.sort else []), BATCH, ROW])
    result = windowed(ordered, kind, **options).agg(list_of(sf.col(RECORD), list(place), "rows"))
    return sorted_lists(result, "rows")


def _windows_by_flushes(
    rows: DataFrame, kind: Tumbling | Sliding, window: Window, options: dict[str, Any]
) -> DataFrame:
    """Windows that are emitted in several batches: one each time that the buffer is full, and the rest."""
    options |= {"early": Early(count=window.count_trigger), "accumulate": False}
    result = windowed(rows, kind, **options).collect(
        "time" if window.sort else "arrival", max_rows=window.count_trigger
    )
    firing = sf.col("pane.firing")
    if window.skip_empty_windows:
        # An empty window is not emitted. A window that has emitted all its records before is not an empty window.
        firing = sf.when((firing == "close") & (sf.size("rows") == 0), sf.lit(CLOSING)).otherwise(firing)
    shown = sf.transform("rows", lambda each: each[RECORD])
    pane = sf.struct(firing.alias("firing"), sf.col("pane.seq").alias("seq"))
    return result.withColumns({"rows": shown, "pane": pane})


def _of_records(window: Window, name: str) -> Count | Global:
    if window.shape == "count":
        return Count(window.size, window.frequency)
    return Global.split(_split(window, name))


def _split(window: Window, name: str) -> SplitOf:
    """The trigger in the engine's form."""
    trigger, mixed = window.trigger, window.mixed_schemas
    assert trigger is not None
    as_argument: Callable[[pa.Table], Any] = KxTable if converts(trigger) else lambda table: table

    def split(buffer: pa.RecordBatch, offset: int) -> Any:
        table = pa.Table.from_batches([buffer])
        context = TaskContext.get()
        number = None if context is None else context.getLocalProperty("streaming.sql.batchId")
        metadata = {"batch": int(number or 0)}
        if mixed:
            parts = [[as_argument(part) for part in unmixed(rows)] for rows in (buffer, buffer.slice(offset))]
            return trigger(name, parts[0], offset, metadata, parts[1])
        return trigger(name, as_argument(table), offset, metadata, as_argument(table.slice(offset)))

    # A checkpoint identifies a function by its name.
    split.__name__ = getattr(trigger, "__name__", type(trigger).__name__)
    split.__qualname__ = getattr(trigger, "__qualname__", type(trigger).__qualname__)
    return split


def _clock(records: DataFrame, window: Window, name: str) -> Column:
    if window.time_column is None:
        return sf.col(TIME)
    column, what = quoted(window.time_column), f"time_column={window.time_column!r} of {name}"
    if window.time_column not in records.columns:
        field_of(records, what, window.time_column)
    kind = records.schema[window.time_column].dataType
    if isinstance(kind, (T.TimestampType, T.TimestampNTZType, T.DateType)):
        # The session's zone is UTC, and times without a zone are in UTC.
        return sf.col(column).cast("timestamp")
    fix = {
        T.StringType: f"pc.strptime(data[{window.time_column!r}], '%Y-%m-%d %H:%M:%S', 'us')",
        T.LongType: f"data[{window.time_column!r}].cast(pa.timestamp('ms'))",
        T.DoubleType: f"pc.multiply(data[{window.time_column!r}], 1e6).cast(pa.int64()).cast(pa.timestamp('us'))",
    }.get(type(kind), f"make_timestamps(data[{window.time_column!r}])")
    raise InvalidArgumentError(
        f"{what} is of type {kind.simpleString()}, and a window's times are timestamps. Say what it is with schema= of "
        f"the reader, or write time_assigner=lambda data: {fix} in its place."
    )
