"""Windows: what the operator is asked for, what it holds, and the tables that its panes are put into."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import col, unix_micros
from pyspark.sql.types import StructType

from mullion._jvm.entry import facade
from mullion._jvm.objects import dataframe_of, internal, java_array, java_column, java_columns, quoted
from mullion._options import Options
from mullion._ranges import ranges_of
from mullion._splits import splits_of
from mullion.windows import Around, Count, Custom, Global, Session, Sliding, Tumbling, Window


def check_window(df: DataFrame, window: Window, by: Sequence[Column | str], options: Options) -> None:
    """Raises for what shows to be wrong before anybody has said what panes hold."""
    spark = df.sparkSession
    asked = _with_columns(_asked(spark, options), window)
    facade(spark).checkWindow(internal(df, "_jdf"), _spec(spark, window), java_columns(spark, by), asked)


def windowed(
    df: DataFrame,
    window: Window,
    by: Sequence[Column | str],
    options: Options,
    *,
    aggregates: Sequence[Column],
    collect: tuple[bool, str, int] | None = None,
) -> DataFrame:
    """The operator over ``df``."""
    spark = df.sparkSession
    asked = _with_functions(_with_columns(_asked(spark, options), window), df, window, options)
    if collect is not None:
        asked = asked.withCollect(*collect)
    jvm = facade(spark)
    return dataframe_of(
        jvm.windowed(
            internal(df, "_jdf"),
            _spec(spark, window),
            java_columns(spark, by),
            asked,
            java_columns(spark, aggregates),
        ),
        spark,
    )


def _asked(spark: SparkSession, options: Options) -> Any:
    """The options as the JVM has them."""
    asked = facade(spark).options()
    # The time first: without one there is no lateness.
    if options.time is not None:
        asked = asked.withTime(java_column(options.time))
    asked = (
        asked.withAllowedLateness(options.allowed_lateness_us)
        .withOnTime(options.on_time)
        .withAccumulate(options.accumulate)
        .withLate(options.late)
        .withEmpty(options.empty == "emit")
        .withIds(options.ids)
        .withState(options.state)
    )
    if options.idle_after_us is not None:
        asked = asked.withIdleAfter(options.idle_after_us)
    if options.early is not None and options.early.every_us is not None:
        asked = asked.withEarly(options.early.every_us, options.early.unchanged)
    if options.early is not None and options.early.wall_us is not None:
        asked = asked.withEarlyByWall(options.early.wall_us, options.early.unchanged)
    if options.early is not None and options.early.count is not None:
        asked = asked.withEarlyCount(options.early.count)
    if options.dedupe_by:
        asked = asked.withDedupeBy(java_columns(spark, options.dedupe_by))
    if options.at_end == "close":
        asked = asked.withCloseAtEnd()
    if options.new_aggregates == "from now":
        asked = asked.withNewAggregatesFromNow()
    if options.running:
        asked = asked.withRunning()
    if options.per_key:
        asked = asked.withClockPerKey(options.follows_wall)
    if options.late_by == "watermark":
        asked = asked.withLateBehindClock()
    return asked


def _spec(spark: SparkSession, window: Window) -> Any:
    """A window as the JVM has it."""
    jvm = facade(spark)
    match window:
        case Tumbling(calendar=(count, unit)):
            return jvm.calendar(count, unit, window.timezone)
        case Tumbling():
            return jvm.tumbling(window.size_us, window.offset_us)
        case Sliding():
            return jvm.sliding(window.size_us, window.slide_us, window.offset_us)
        case Around():
            return jvm.around(window.before_us, window.after_us)
        case Session(gap=Column()):
            return jvm.sessionByRow()
        case Session():
            return jvm.session(window.gap_us)
        case Count():
            return jvm.count(window.size, window.every)
        case Global(condition=(Column() | str())):
            return jvm.globalWhen()
        case Global(changing=(Column() | str())):
            return jvm.globalChanges()
        case Global(splitting=function) if function is not None:
            return jvm.globalSplit(window.function)
        case Global():
            return jvm.globalEvery(window.count)
        case Custom():
            return jvm.custom()


def _with_columns(asked: Any, window: Window) -> Any:
    """With the columns that a window is made by."""
    match window:
        case Session(gap=Column() as gap):
            return asked.withGap(java_column(gap))
        case Global(condition=(Column() | str()) as condition):
            return asked.withTrigger(java_column(condition))
        case Global(changing=(Column() | str()) as changing):
            return asked.withTrigger(java_column(changing))
        case Custom(ranges=(str() | Column()) as ranges):
            return asked.withRanges(java_column(ranges))
        case _:
            return asked


def _with_functions(asked: Any, df: DataFrame, window: Window, options: Options) -> Any:
    """With the functions of Python that a window is made by."""
    match window:
        case Global(splitting=function) if function is not None:
            assert window.function is not None
            asked = asked.withSplit(java_column(splits_of(function, window.takes_offset)), window.function)
            if window.columns is None:
                return asked
            return asked.withSplitColumns(java_columns(df.sparkSession, [quoted(name) for name in window.columns]))
        case Custom(ranges=function) if not isinstance(function, (str, Column)):
            name = f"the function {window.function}"
            assert options.time is not None
            ranges = ranges_of(function, name, _micros(df, options.time))
            return asked.withRanges(java_column(ranges)).withRangesText(name)
        case _:
            return asked


def dropped_before(df: DataFrame) -> list[str]:
    """What is to be said of rows that operators of Spark's drop before a window over ``df``."""
    return str(facade(df.sparkSession).droppedBefore(internal(df, "_jdf"))).splitlines()


def together(windows: Mapping[str, DataFrame]) -> DataFrame:
    """Several results of :func:`windowed` in one, each under its name."""
    spark = next(iter(windows.values())).sparkSession
    jvm = facade(spark)
    frames = [internal(panes, "_jdf") for panes in windows.values()]
    names = java_array(spark, "java.lang.String", list(windows))
    return dataframe_of(jvm.together(names, java_array(spark, "org.apache.spark.sql.Dataset", frames)), spark)


def pane_keys(panes: DataFrame) -> list[str]:
    """The columns that name a pane together with its id."""
    return list(facade(panes.sparkSession).paneKeys(internal(panes, "_jdf")))


def read_panes(
    spark: SparkSession, checkpoint: str, which: int, panes: DataFrame | None, window: str | None
) -> DataFrame:
    """The open panes of a checkpoint; the aggregates' code comes from ``panes`` where it is given."""
    jvm = facade(spark)
    if window is not None:
        return dataframe_of(jvm.readBranchPanes(internal(spark, "_jsparkSession"), checkpoint, which, window), spark)
    if panes is None:
        return dataframe_of(jvm.readPanes(internal(spark, "_jsparkSession"), checkpoint, which), spark)
    return dataframe_of(jvm.readPanesOf(internal(panes, "_jdf"), checkpoint, which), spark)


def compare(panes: DataFrame, checkpoint: str) -> DataFrame:
    """What would become of a checkpoint under a query."""
    spark = panes.sparkSession
    return dataframe_of(facade(spark).compare(internal(panes, "_jdf"), checkpoint), spark)


def open_panes(spark: SparkSession, of: Any, which: int, panes: DataFrame | None, window: str | None) -> DataFrame:
    """Why panes are open, of a query of the JVM or of a checkpoint."""
    jvm = facade(spark)
    code = None if panes is None else internal(panes, "_jdf")
    if isinstance(of, str):
        return dataframe_of(jvm.openPanes(internal(spark, "_jsparkSession"), of, which, code, window), spark)
    return dataframe_of(jvm.openPanesOf(of, which, code, window), spark)


def _micros(df: DataFrame, time: Column | str) -> Column:
    """The event time in microseconds; of a window column, that of its last one."""
    kind = df.select(time).schema.fields[0].dataType
    column = col(time) if isinstance(time, str) else time
    return unix_micros(column["end"]) - 1 if isinstance(kind, StructType) else unix_micros(column)
