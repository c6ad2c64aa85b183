"""What the engine is asked for, for each window: the only file of this package that knows how.

All records are one buffer, so windows have no keys, and one partition has them all. A window of time holds its records
as an aggregate, each with its place in the order of arrival; windows of records are rows that the engine keeps as they
came.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as T  # noqa: N812

from mullion import _durations, _jvm
from mullion._columns import field_of
from mullion._windowed import windowed
from mullion.errors import InvalidArgumentError
from mullion.kx._batches import CLOSING, unmixed
from mullion.kx._window_spec import ANY_COUNT, Window
from mullion.kx._worker import TIME
from mullion.windows import Count, Early, Global, Sliding, SplitOf, Tumbling

_CLOCK: Final = "_mullion_clock"
_BATCH: Final = "_mullion_batch"
_ROW: Final = "_mullion_row"


def panes_of(records: DataFrame, window: Window, name: str, *, closes: bool) -> DataFrame:
    """The windows of a stream's records: ``window``, ``pane`` and ``rows``, an array of the records as structs.

    Late records that pass through are rows too, with the firing ``late``. ``closes``: whether all windows close where
    the input ends.
    """
    asked: dict[str, Any] = {"time": None, "at_end": "close" if closes else "keep"}
    columns = [sf.col(_jvm.quoted(each)) for each in records.columns if each != TIME]
    if not window.clocked:
        found = windowed(records, _of_records(window, name), **asked).collect()
        return found.select("window", "pane", "rows")
    ordered = records.withColumns(
        {_BATCH: _jvm.batch_number(records.sparkSession), _ROW: _jvm.row_in_batch(records.sparkSession)}
    )
    if window.on_event_time:
        ordered = ordered.withColumn(_CLOCK, _clock(records, window, name)).withWatermark(_CLOCK, "0 seconds")
        asked["time"] = _CLOCK
        asked["allowed_lateness"] = _durations.written(window.lateness_us)
        asked["late"] = "emit" if window.passthrough else "drop"
    if not window.skip_empty_windows:
        asked["empty"] = "emit"
    if window.count_trigger != ANY_COUNT:
        asked |= {"early": Early(count=window.count_trigger), "accumulate": False}
    size = _durations.written(window.size_us)
    kind = Tumbling(size) if window.size_us == window.slide_us else Sliding(size, _durations.written(window.slide_us))
    place = [sf.col(_CLOCK)] if window.sort else []
    held = sf.collect_list(
        sf.struct(sf.struct(*place, sf.col(_BATCH), sf.col(_ROW)).alias("place"), sf.struct(*columns).alias("record"))
    )
    # No two places are equal, so records are not compared; Spark would refuse those with maps all the same.
    in_order = sf.array_sort(held) if _has_order(records.schema) else sf.array_sort(held, _by_place)
    found = windowed(ordered, kind, **asked).agg(sf.transform(in_order, lambda each: each["record"]).alias("rows"))
    shown, pane = sf.col("rows"), sf.col("pane")
    if window.count_trigger != ANY_COUNT and window.skip_empty_windows:
        # One that had none does not come, and one that has shown all is no empty window.
        complete = (sf.col("pane.firing") == "close") & (sf.size("rows") == 0)
        firing = sf.when(complete, sf.lit(CLOSING)).otherwise(sf.col("pane.firing"))
        pane = sf.struct(firing.alias("firing"), sf.col("pane.seq").alias("seq")).alias("pane")
    if window.passthrough:
        late = sf.struct(*(sf.col("late_row").getField(each).alias(each) for each in records.columns if each != TIME))
        shown = sf.when(sf.col("pane.firing") == "late", sf.array(late)).otherwise(shown)
    return found.select(
        "window", pane, sf.coalesce(shown, sf.array().cast(found.schema["rows"].dataType)).alias("rows")
    )


def _by_place(left: Column, right: Column) -> Column:
    before, after = left["place"] < right["place"], left["place"] > right["place"]
    return sf.when(before, sf.lit(-1)).when(after, sf.lit(1)).otherwise(sf.lit(0))


def _has_order(kind: T.DataType) -> bool:
    """Whether Spark can sort values of a type."""
    if isinstance(kind, T.StructType):
        return all(_has_order(each.dataType) for each in kind)
    if isinstance(kind, T.ArrayType):
        return _has_order(kind.elementType)
    return not isinstance(kind, (T.MapType, T.VariantType, T.CalendarIntervalType))


def _of_records(window: Window, name: str) -> Count | Global:
    if window.shape == "count":
        return Count(window.size, window.frequency)
    return Global.split(_split(window, name))


def _split(window: Window, name: str) -> SplitOf:
    """The trigger, as the engine asks it."""
    trigger, mixed = window.trigger, window.mixed_schemas
    assert trigger is not None

    def split(buffer: pa.RecordBatch, offset: int) -> Any:
        table = pa.Table.from_batches([buffer])
        context = TaskContext.get()
        number = None if context is None else context.getLocalProperty("streaming.sql.batchId")
        metadata = {"batch": int(number or 0)}
        if mixed:
            return trigger(name, list(unmixed(buffer)), offset, metadata, list(unmixed(buffer.slice(offset))))
        return trigger(name, table, offset, metadata, table.slice(offset))

    # By its name a checkpoint knows a function again.
    split.__name__ = getattr(trigger, "__name__", type(trigger).__name__)
    split.__qualname__ = getattr(trigger, "__qualname__", type(trigger).__qualname__)
    return split


def _clock(records: DataFrame, window: Window, name: str) -> Column:
    if window.time_column is None:
        return sf.col(TIME)
    column, what = _jvm.quoted(window.time_column), f"time_column={window.time_column!r} of {name}"
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
