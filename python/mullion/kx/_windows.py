"""What the engine is asked for, for each window: the only file of this package that knows how.

All records are one buffer, so windows have no keys, and one partition has them all. Windows of records, and windows of
time that are flushed when they are full, are rows that the engine keeps as they came. Other windows of time hold their
records as an aggregate, each with its place in the order of arrival: where windows overlap, a record is kept once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as T  # noqa: N812

from mullion import _durations, _engine
from mullion._columns import field_of
from mullion._described import quoted
from mullion._pane_functions.lists import BATCH, RECORD, ROW, list_of, sorted_lists
from mullion._windowed import windowed
from mullion.errors import InvalidArgumentError
from mullion.kx._batches import CLOSING, unmixed
from mullion.kx._kx_table import KxTable, converts
from mullion.kx._window_spec import ANY_COUNT, Window
from mullion.kx._worker import TIME
from mullion.windows import Count, Early, Global, Sliding, SplitOf, Tumbling

_CLOCK: Final = "_mullion_clock"


def panes_of(records: DataFrame, window: Window, name: str, *, closes: bool) -> DataFrame:
    """The windows of a stream's records: ``window``, ``pane`` and ``rows``, an array of the records as structs.

    Late records that pass through are rows too, with the firing ``late``. ``closes``: whether all windows close where
    the input ends.
    """
    asked: dict[str, Any] = {"time": None, "at_end": "close" if closes else "keep"}
    if not window.clocked:
        found = windowed(records, _of_records(window, name), **asked).collect()
        return found.select("window", "pane", "rows")
    record = sf.struct(*(sf.col(quoted(each)) for each in records.columns if each != TIME))
    held = records.select(record.alias(RECORD))
    if window.on_event_time:
        clock = _clock(records, window, name).alias(_CLOCK)
        held = records.select(record.alias(RECORD), clock).withWatermark(_CLOCK, "0 seconds")
        asked["time"] = _CLOCK
        asked["allowed_lateness"] = _durations.written(window.lateness_us)
        asked["late"] = "emit" if window.passthrough else "drop"
    if not window.skip_empty_windows:
        asked["empty"] = "emit"
    size = _durations.written(window.size_us)
    kind = (
        Tumbling(size)
        if window.size_us == window.slide_us
        else Sliding(size, _durations.written(window.slide_us), gaps=True)
    )
    panes = _whole if window.count_trigger == ANY_COUNT else _flushed
    found = panes(held, kind, window, asked)
    shown = sf.col("rows")
    if window.passthrough:
        late = sf.array(sf.col("late_row").getField(RECORD))
        shown = sf.when(sf.col("pane.firing") == "late", late).otherwise(shown)
    none = sf.array().cast(found.schema["rows"].dataType)
    return found.select("window", "pane", sf.coalesce(shown, none).alias("rows"))


def _whole(held: DataFrame, kind: Tumbling | Sliding, window: Window, asked: dict[str, Any]) -> DataFrame:
    """Windows that come once, with all of their records."""
    ordered = _engine.with_arrival(held, BATCH, ROW)
    place = map(sf.col, [*([_CLOCK] if window.sort else []), BATCH, ROW])
    found = windowed(ordered, kind, **asked).agg(list_of(sf.col(RECORD), list(place), "rows"))
    return sorted_lists(found, "rows")


def _flushed(held: DataFrame, kind: Tumbling | Sliding, window: Window, asked: dict[str, Any]) -> DataFrame:
    """Windows that come in several batches: one each time that so many records are in the buffer, and the rest."""
    asked |= {"early": Early(count=window.count_trigger), "accumulate": False}
    found = windowed(held, kind, **asked).collect("time" if window.sort else "arrival", max_rows=window.count_trigger)
    firing = sf.col("pane.firing")
    if window.skip_empty_windows:
        # One that had none does not come, and one that has shown all is no empty window.
        firing = sf.when((firing == "close") & (sf.size("rows") == 0), sf.lit(CLOSING)).otherwise(firing)
    shown = sf.transform("rows", lambda each: each[RECORD])
    pane = sf.struct(firing.alias("firing"), sf.col("pane.seq").alias("seq"))
    return found.withColumns({"rows": shown, "pane": pane})


def _of_records(window: Window, name: str) -> Count | Global:
    if window.shape == "count":
        return Count(window.size, window.frequency)
    return Global.split(_split(window, name))


def _split(window: Window, name: str) -> SplitOf:
    """The trigger, as the engine asks it."""
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

    # By its name a checkpoint knows a function again.
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
        # The session is in UTC, and so are times without a zone.
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
