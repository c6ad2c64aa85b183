"""The border to the JVM: the only file that touches py4j.

Everything that Python asks of the JAR goes through its ``Facade``; every error that the JAR raises, at once or later
inside a streaming query, comes back as one of :mod:`mullion.errors`.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import col, unix_micros
from pyspark.sql.types import BinaryType, IntegerType, StructType

from mullion import _jars
from mullion._clock import ManualClock
from mullion._options import Options
from mullion._ranges import ranges_of
from mullion._splits import splits_of
from mullion._tracebacks import raised_in_worker
from mullion._version import __version__
from mullion.errors import (
    IncompatibleStateError,
    MullionError,
    TaskFailedError,
    UnsupportedError,
    VersionMismatchError,
    error_of,
)
from mullion.windows import Around, Count, Custom, Global, Session, Sliding, Tumbling, Window

if TYPE_CHECKING:
    from pyspark.errors import StreamingQueryException
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

BridgeError = Py4JError
"""What the bridge to the JVM raises."""

FACADE = "dev.mullion.Facade"
EXCEPTION = "dev.mullion.MullionException"
OPERATOR = "WindowedAggregate"
"""The name of Mullion's node in a plan."""
_SEVERAL = "WindowsTogether"
_FAILED = "org.apache.spark.sql.streaming.StreamingQueryException"
_TASK = "org.apache.spark.executor.Executor$TaskRunner"
"""What runs a task: it is in the trace of what a task failed by."""

_Error = TypeVar("_Error", bound=MullionError)

_SOURCES = re.compile(r".*There are \[(\d+)\] sources in the checkpoint offsets and now there are \[(\d+)\]", re.S)

_trigger_clocks: WeakKeyDictionary[ManualClock, Any] = WeakKeyDictionary()
_facades: WeakKeyDictionary[SparkSession, Any] = WeakKeyDictionary()


def require_classic(thing: object, what: str) -> None:
    """Raises :class:`UnsupportedError` when ``thing`` (a DataFrame, session or column) lives in Spark Connect."""
    if any(kind.__module__.startswith("pyspark.sql.connect") for kind in type(thing).__mro__):
        raise UnsupportedError(
            f"{what} belongs to Spark Connect, and Mullion adds an operator to Spark's planner, which only a classic "
            "session can reach. Create the session on the driver, without .remote(...) and with SPARK_REMOTE and "
            "SPARK_CONNECT_MODE_ENABLED unset; on Databricks, use a cluster in dedicated (single-user) access mode, "
            "not a shared or serverless one."
        )


def facade(spark: SparkSession) -> Any:
    """The JAR's entry point, its version checked and its planner rules installed: once for each session.

    Raises :class:`UnsupportedError` under Spark Connect, :class:`MullionError` where the JAR is not on the class path
    and :class:`VersionMismatchError` where it is not this package's, or not for this Spark.
    """
    require_classic(spark, "this Spark session")
    known = _facades.get(spark)
    if known is None:
        known = _found(spark)
        _check_versions(known.version(), known.sparkLine(), spark.version)
        translate_errors()
        _ship_jars(spark)
        known.install(_internal(spark, "_jsparkSession"))
        _facades[spark] = known
    return known


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
    jvm = facade(spark)
    asked = jvm.options()
    # The time first: without one there is no lateness.
    if options.time is not None:
        asked = asked.withTime(_column(options.time))
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
        asked = asked.withDedupeBy(_columns(spark, options.dedupe_by))
    if options.running:
        asked = asked.withRunning()
    if options.per_key:
        asked = asked.withClockPerKey()
    if collect is not None:
        asked = asked.withCollect(*collect)
    match window:
        case Tumbling(calendar=(count, unit)):
            spec = jvm.calendar(count, unit, window.timezone)
        case Tumbling():
            spec = jvm.tumbling(window.size_us, window.offset_us)
        case Sliding():
            spec = jvm.sliding(window.size_us, window.slide_us, window.offset_us)
        case Around():
            spec = jvm.around(window.before_us, window.after_us)
        case Session(gap=Column() as gap):
            spec = jvm.sessionByRow()
            asked = asked.withGap(_column(gap))
        case Session():
            spec = jvm.session(window.gap_us)
        case Count():
            spec = jvm.count(window.size, window.every)
        case Global(condition=(Column() | str()) as condition):
            spec = jvm.globalWhen()
            asked = asked.withTrigger(_column(condition))
        case Global(changing=(Column() | str()) as changing):
            spec = jvm.globalChanges()
            asked = asked.withTrigger(_column(changing))
        case Global(splitting=function) if function is not None:
            assert window.function is not None
            spec = jvm.globalSplit(window.function)
            asked = asked.withSplit(_column(splits_of(function, window.takes_offset)), window.function)
            if window.columns is not None:
                asked = asked.withSplitColumns(_columns(spark, [quoted(name) for name in window.columns]))
        case Global():
            spec = jvm.globalEvery(window.count)
        case Custom(ranges=(str() | Column()) as ranges):
            spec = jvm.custom()
            asked = asked.withRanges(_column(ranges))
        case Custom(ranges=ranges_function):
            assert callable(ranges_function)
            spec = jvm.custom()
            name = f"the function {window.function}"
            assert options.time is not None
            ranges = ranges_of(ranges_function, name, _micros(df, options.time))
            asked = asked.withRanges(_column(ranges)).withRangesText(name)
    return _dataframe(
        jvm.windowed(_internal(df, "_jdf"), spec, _columns(spark, by), asked, _columns(spark, aggregates)), spark
    )


def dropped_before(df: DataFrame) -> list[str]:
    """What is to be said of rows that operators of Spark's drop before a window over ``df``."""
    return str(facade(df.sparkSession).droppedBefore(_internal(df, "_jdf"))).splitlines()


def row_in_batch(spark: SparkSession) -> Column:
    """The number of a row in its micro-batch, in the order in which the source is read."""
    return _as_column(facade(spark).rowInBatch())


def batch_number(spark: SparkSession) -> Column:
    """The number of the micro-batch that a row came in; it is known below a window of a stream."""
    return _as_column(facade(spark).batchNumber())


def in_shard(spark: SparkSession, key: Column, shown: Column, before: str, after: str) -> Column:
    """A condition that is true of rows in the shard of their key, and fails for others with ``before`` and ``after``.

    For rows that a first stage of :func:`mullion._stateful.api.staged` gives to a window; ``shown`` is the key,
    as text.
    """
    return _as_column(facade(spark).inShard(_column(key), _column(shown), before, after))


def per_text(spark: SparkSession, text: Column, condition: Column) -> Column:
    """A condition on nothing but a text that is the same for many rows on end: it is asked when the text changes."""
    return _as_column(facade(spark).perText(_column(text), _column(condition)))


def json_shape(spark: SparkSession, text: Column) -> Column:
    """What a text is as JSON: ``{`` and each field's name between newlines, ``n`` for null, ``.`` for another value.

    Null for what is none.
    """
    return _as_column(facade(spark).jsonShape(_column(text)))


def json_fit(spark: SparkSession, text: Column, schema: StructType, scalar: bool) -> Column:
    """The same where columns hold the text's value as it is, and ``!`` where they do not.

    An int in a column of floats is marked: a zero character is before the column's name. With ``scalar`` values are no
    records, and are in the only column; without it all are records.
    """
    return _as_column(facade(spark).jsonFit(_column(text), schema.json(), scalar))


def json_shard(spark: SparkSession, text: Column, field: str) -> Column:
    """The shard of a value in JSON, by a field of it, as ``mullion.faust._shards`` has it; null where it has none."""
    return _as_column(facade(spark).jsonShard(_column(text), field))


def json_decimals(spark: SparkSession, text: Column, schema: StructType) -> Column:
    """Whether a text in JSON has a number with more digits after the point than the decimal that it is read as."""
    return _as_column(facade(spark).jsonDecimals(_column(text), schema.json()))


def topic_path(spark: SparkSession, folder: str) -> str:
    """How a session reads the folder of a ``dir:`` topic."""
    return str(facade(spark).topicPath(_internal(spark, "_jsparkSession"), folder))


def plan_of_batch(spark: SparkSession, query: str, batch: int) -> str:
    """What a running query, by its id, noted of a batch before it ran it; empty if nothing."""
    return str(facade(spark).planOf(_internal(spark, "_jsparkSession"), query, batch))


def checkpoint_of(spark: SparkSession, query: str) -> str:
    """Where a running query, by its id, has its checkpoint, as a URI; empty if it does not run."""
    return str(facade(spark).checkpointOf(_internal(spark, "_jsparkSession"), query))


class Counter:
    """Counts rows in the JVM, on their way past."""

    def __init__(self, spark: SparkSession) -> None:
        self._facade = facade(spark)
        self._counter = self._facade.counter(_internal(spark, "_jsparkSession"))

    def counted(self, condition: Column) -> Column:
        """The condition; a row for which it is not true is counted, each time that a task to its end reads it."""
        return _as_column(self._facade.counted(_column(condition), self._counter))

    @property
    def value(self) -> int:
        """How many there were."""
        return int(self._counter.value())


def session_with(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """A session like ``spark``, with other settings: queries that are started in it keep them."""
    facade(spark)
    session = SparkSession(spark.sparkContext, _internal(spark, "_jsparkSession").cloneSession())
    for key, value in settings.items():
        session.conf.set(key, value)
    return session


@contextmanager
def active(spark: SparkSession) -> Iterator[None]:
    """Makes a session the active one meanwhile: Spark takes settings of casts from that, not from the DataFrame's."""
    sessions = spark.sparkContext._jvm.org.apache.spark.sql.classic.SparkSession  # type: ignore[union-attr]
    before = sessions.getActiveSession()
    sessions.setActiveSession(_internal(spark, "_jsparkSession"))
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


class Stateful:
    """Functions with state, and the windows between them, as they are being asked for."""

    def __init__(
        self,
        spark: SparkSession,
        process: Callable[..., Any],
        schema: StructType,
        shards: Sequence[Column | str],
        state: str,
        wall_timers: bool,
    ) -> None:
        self._spark = spark
        self._facade = facade(spark)
        self._asked = self._facade.stateful(_function(spark, process), schema.json())
        self._asked = self._asked.withShards(_columns(spark, shards)).withState(state)
        if wall_timers:
            self._asked = self._asked.withWallTimers()

    def begin(self) -> None:
        """``process`` is called in the first partition until it has set a timer by the wall clock there."""
        self._asked = self._asked.withBegins()

    def add_folds(self, folds: str) -> None:
        """What is done in the JVM of what ``process`` would do."""
        self._asked = self._asked.withFolds(folds)

    def rows_of(self, window: int, schema: StructType) -> DataFrame:
        """The rows that ``process`` makes for a window, by its number from 1."""
        session = _internal(self._spark, "_jsparkSession")
        return _dataframe(self._facade.statefulRows(session, window, schema.json()), self._spark)

    def add_window(self, name: str, panes: DataFrame, clock: str | None) -> None:
        """The next window; those of one ``clock`` share it."""
        self._asked = self._asked.withWindow(name, _internal(panes, "_jdf"), clock or "")

    def add_callbacks(self, callbacks: Callable[..., Any]) -> None:
        """What gets the firings of all windows."""
        self._asked = self._asked.withCallbacks(_function(self._spark, callbacks))

    def over(self, df: DataFrame) -> DataFrame:
        """The functions over the rows of a stream."""
        return _dataframe(self._facade.statefulOver(_internal(df, "_jdf"), self._asked), self._spark)


def read_state(spark: SparkSession, checkpoint: str, operator: int) -> DataFrame:
    """The records of functions' state in a checkpoint."""
    return _dataframe(facade(spark).readState(_internal(spark, "_jsparkSession"), checkpoint, operator), spark)


def _function(spark: SparkSession, function: Callable[..., Any]) -> Any:
    """A function pickled, as ``mapInArrow`` hands it to the JVM. Without pandas, which that asks for and never uses."""
    from pyspark.sql.udf import UserDefinedFunction
    from pyspark.util import PythonEvalType

    frame = StructType().add("kind", IntegerType()).add("data", BinaryType())
    udf = UserDefinedFunction(
        function,
        returnType=frame,
        name=getattr(getattr(function, "function", function), "__name__", type(function).__name__),
        evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF,
    )
    return _internal(udf, "_judf")


def together(windows: Mapping[str, DataFrame]) -> DataFrame:
    """Several results of :func:`windowed` in one, each under its name."""
    spark = next(iter(windows.values())).sparkSession
    jvm = facade(spark)
    frames = [_internal(panes, "_jdf") for panes in windows.values()]
    names = _array(spark, "java.lang.String", list(windows))
    return _dataframe(jvm.together(names, _array(spark, "org.apache.spark.sql.Dataset", frames)), spark)


def pane_keys(panes: DataFrame) -> list[str]:
    """The columns that name a pane together with its id."""
    return list(facade(panes.sparkSession).paneKeys(_internal(panes, "_jdf")))


def upsert_jdbc(rows: DataFrame, keys: DataFrame, options: Mapping[str, str]) -> None:
    """Puts rows into a table of a database in place of those of ``keys``."""
    facade(rows.sparkSession).upsertJdbc(_internal(rows, "_jdf"), _internal(keys, "_jdf"), dict(options))


def read_jdbc(spark: SparkSession, options: Mapping[str, str]) -> DataFrame | None:
    """What a table of a database holds; ``None`` where there is none."""
    found = facade(spark).readJdbc(_internal(spark, "_jsparkSession"), dict(options))
    return None if found is None else _dataframe(found, spark)


def newest_version(spark: SparkSession, table: str) -> int:
    """The newest version of a table that is written whole each time; -1 if there is none."""
    return int(facade(spark).newestVersion(_internal(spark, "_jsparkSession"), table))


def version_folder(spark: SparkSession, version: int) -> str:
    """What the folder of a version is called."""
    return str(facade(spark).versionFolder(version))


def remove_versions_before(spark: SparkSession, table: str, version: int) -> None:
    """Removes the folders of older versions."""
    facade(spark).removeVersionsBefore(_internal(spark, "_jsparkSession"), table, version)


def read_panes(
    spark: SparkSession, checkpoint: str, which: int, panes: DataFrame | None, window: str | None
) -> DataFrame:
    """The open panes of a checkpoint; the aggregates' code comes from ``panes`` where it is given."""
    jvm = facade(spark)
    if window is not None:
        return _dataframe(jvm.readBranchPanes(_internal(spark, "_jsparkSession"), checkpoint, which, window), spark)
    if panes is None:
        return _dataframe(jvm.readPanes(_internal(spark, "_jsparkSession"), checkpoint, which), spark)
    return _dataframe(jvm.readPanesOf(_internal(panes, "_jdf"), checkpoint, which), spark)


def open_panes(spark: SparkSession, of: Any, which: int, panes: DataFrame | None, window: str | None) -> DataFrame:
    """Why panes are open, of a query of the JVM or of a checkpoint."""
    jvm = facade(spark)
    code = None if panes is None else _internal(panes, "_jdf")
    if isinstance(of, str):
        return _dataframe(jvm.openPanes(_internal(spark, "_jsparkSession"), of, which, code, window), spark)
    return _dataframe(jvm.openPanesOf(of, which, code, window), spark)


def java_query(query: StreamingQuery) -> Any:
    """The JVM's side of a query."""
    return query._jsq


def recover(spark: SparkSession, checkpoint: str) -> int:
    """Takes a checkpoint with state in memory back to its newest snapshot; how many batches that is."""
    return int(facade(spark).recover(_internal(spark, "_jsparkSession"), checkpoint))


def keep_state(spark: SparkSession, query: StreamingQuery) -> bool:
    """Writes down what a query that has ended left in memory; whether all of it could be."""
    return bool(facade(spark).keepState(query._jsq))


def begin_redo(spark: SparkSession, checkpoint: str) -> int:
    """Readies a checkpoint whose state was in memory and is lost; how many batches are to be done again."""
    return int(facade(spark).beginRedo(_internal(spark, "_jsparkSession"), checkpoint))


def next_redo(spark: SparkSession, checkpoint: str) -> bool:
    """Readies it for the next of these batches; whether there is one."""
    return bool(facade(spark).nextRedo(_internal(spark, "_jsparkSession"), checkpoint))


def start_clocked(panes: DataFrame, checkpoint: str, output_mode: str, start_ms: int) -> Any:
    """A query on a clock that a test moves, which starts at ``start_ms`` milliseconds since the epoch."""
    return facade(panes.sparkSession).startClocked(_internal(panes, "_jdf"), checkpoint, output_mode, start_ms)


def start_on_clock(
    outputs: DataFrame,
    name: str,
    checkpoint: str,
    publish: Callable[[DataFrame, int], None],
    clock: ManualClock,
    drain: bool,
) -> StreamingQuery:
    """A query that gives each batch to ``publish``, on a clock that a test moves; with ``drain`` it ends by itself."""
    from pyspark.java_gateway import ensure_callback_server_started
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.utils import ForeachBatchFunction

    spark = outputs.sparkSession
    jvm = facade(spark)
    ensure_callback_server_started(spark.sparkContext._gateway)  # type: ignore[no-untyped-call]
    trigger_clock = _trigger_clocks.get(clock)
    if trigger_clock is None:
        trigger_clock = _trigger_clocks[clock] = jvm.manualClock(clock.time_us() // 1000)
        clock.follow(trigger_clock)
    function = ForeachBatchFunction(spark, publish)
    return StreamingQuery(
        jvm.startBatches(_internal(outputs, "_jdf"), name, checkpoint, function, trigger_clock, drain)
    )


def output_since(query: Any, batch: int, spark: SparkSession) -> DataFrame:
    """What batches of a clocked query after ``batch`` wrote."""
    return _dataframe(query.since(batch), spark)


def progress_of(query: Any) -> list[str]:
    """The progress reports of a clocked query's batches, as JSON."""
    return [report.json() for report in query.query().recentProgress()]


def last_batch_of(query: StreamingQuery) -> int | None:
    """The number of the last batch that a query reported, or ``None`` before the first.

    PySpark's own reading of a report fails where no time passed in a batch, as on a clock that stands still.
    """
    progress = query._jsq.lastProgress()
    return None if progress is None else int(progress.batchId())


def reports_of(query: StreamingQuery) -> list[str]:
    """The progress reports of a query's batches, as JSON."""
    return [report.json() for report in query._jsq.recentProgress()]


def running_conf(key: str) -> str | None:
    """What the JVM that this process talks to already was started with; ``None`` where none runs or nothing is set."""
    from pyspark import SparkConf, SparkContext

    if "PYSPARK_GATEWAY_PORT" not in os.environ and SparkContext._gateway is None:
        return None
    SparkContext._ensure_initialized()
    return SparkConf().get(key)


def is_running() -> bool:
    """Whether a JVM already runs for this process: its class path can no longer be added to."""
    from pyspark import SparkContext

    return "PYSPARK_GATEWAY_PORT" in os.environ or SparkContext._gateway is not None


def traced(error: _Error, theirs: BaseException) -> _Error:
    """The error with the JVM's stack trace of the one that it is raised in place of."""
    if isinstance(theirs, MullionError):
        error.jvm_trace = "\n\n".join(filter(None, (error.jvm_trace, theirs.jvm_trace)))
        return error
    said, trace = getattr(theirs, "_desc", None), getattr(theirs, "_stackTrace", None)
    if trace is None:
        trace = str(theirs)
    elif said and said not in trace:
        # Of a query that has ended PySpark has the frames alone.
        trace = f"{said}\n{trace}"
    error.jvm_trace = "\n\n".join(filter(None, (error.jvm_trace, trace)))
    return error


def error_in(exception: Any) -> MullionError | None:
    """Mullion's error in a Java exception or its causes, or ``None`` when it is not ours."""
    # A chain of causes may be a circle; none that is real is this long.
    cause = exception
    for _ in range(64):
        if cause is None:
            return None
        if cause.getClass().getName() == EXCEPTION:
            error = error_of(cause.condition(), cause.getMessage())
            error.jvm_trace = str(cause.trace())
            if cause.getCause() is not None:
                error.add_note(f"Cause: {str(cause.getCause().toString()).splitlines()[0]}")
            return error
        sources = _SOURCES.match(cause.getMessage() or "")
        if sources is not None and OPERATOR in exception.toString():
            return _other_sources(int(sources[1]), int(sources[2]))
        cause = cause.getCause()
    return None


def failure_in(exception: Any, trace: str) -> TaskFailedError | None:
    """Why a query over windows failed, in a line, where a task of it did by an error that is not ours."""
    said = exception.toString()
    of_windows = exception.getClass().getName() == _FAILED and any(name in said for name in (OPERATOR, _SEVERAL))
    if not of_windows or _TASK not in trace:
        return None
    cause, message = exception, ""
    for _ in range(64):
        if cause is None:
            break
        message = cause.getMessage() or cause.toString()
        cause = cause.getCause()
    line = raised_in_worker(message) or next(iter(message.strip().splitlines()), "")
    line = re.sub(r"\s*SQLSTATE: \w+\s*$", "", line).rstrip(".")
    return TaskFailedError(
        f"A task of the query failed: {line}. Nothing of its batch was kept, and the query goes on from its checkpoint "
        "once that is mended."
    )


def _other_sources(was: int, now: int) -> IncompatibleStateError:
    """Spark compares the sources of a query with those of its checkpoint before it asks operators for theirs."""
    return IncompatibleStateError(
        f"The checkpoint is of a query with {was} source{'s' * (was != 1)}, and this query has {now}. Beside its "
        "streams a query has a source of ticks where panes close or fire by the wall clock: with time=None, "
        "idle_after= or early=Early(every=...). Change the query back, or start it with a new checkpointLocation. "
        "Nothing was overwritten."
    )


def translate_errors() -> None:
    """Makes PySpark raise Mullion's own types for errors of the JAR, at whichever call they surface. Idempotent.

    PySpark turns Java exceptions into Python ones in a wrapper around py4j's ``get_return_value``, which it lays anew
    for every session. Ours goes around that wrapper, and not into ``convert_exception``, whose result is raised
    ``from None``: Spark's own exception would be lost.
    """
    from py4j.java_gateway import JavaMember
    from pyspark.errors.exceptions import captured
    from pyspark.sql.streaming import readwriter
    from pyspark.sql.streaming.query import StreamingQuery

    if getattr(captured.capture_sql_exception, "_mullion", False):
        return
    captured.capture_sql_exception = _translating(captured.capture_sql_exception)
    captured.install_exception_handler()
    setattr(JavaMember, "__call__", _without_the_bridge(JavaMember.__call__))  # noqa: B010
    setattr(StreamingQuery, "exception", _translating_result(StreamingQuery.exception))  # noqa: B010
    for name in ("start", "toTable"):
        setattr(
            readwriter.DataStreamWriter, name, _explaining_complete_mode(getattr(readwriter.DataStreamWriter, name))
        )


def _translating(capture: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Callable[..., Any]:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors.exceptions.captured import CapturedException

    def capture_ours(call: Callable[..., Any]) -> Callable[..., Any]:
        captured = capture(call)

        def calling(*args: Any, **kwargs: Any) -> Any:
            try:
                return captured(*args, **kwargs)
            except CapturedException as theirs:
                ours = error_in(theirs._origin)
                if ours is None and theirs._origin is not None:
                    ours = failure_in(theirs._origin, theirs._stackTrace or "")
                if ours is None:
                    raise
                raise traced(ours, theirs) from None
            except Py4JJavaError as theirs:
                ours = error_in(theirs.java_exception)
                if ours is None:
                    raise
                raise traced(ours, theirs) from None

        return calling

    capture_ours._mullion = True  # type: ignore[attr-defined]
    return capture_ours


def _without_the_bridge(call: Callable[..., Any]) -> Callable[..., Any]:
    """A traceback of an error of ours begins at the call in the user's code or in PySpark, not below it in py4j."""

    @functools.wraps(call)
    def calling(member: Any, *args: Any) -> Any:
        try:
            return call(member, *args)
        except MullionError as ours:
            raise ours.with_traceback(None) from None

    return calling


def _translating_result(
    exception: Callable[[StreamingQuery], StreamingQueryException | None],
) -> Callable[[StreamingQuery], Any]:
    """``query.exception()`` gives the error and does not raise it, so the wrapper above does not see it."""

    @functools.wraps(exception)
    def exception_of(query: StreamingQuery) -> Any:
        theirs = exception(query)
        if theirs is None:
            return None
        origin = query._jsq.exception().get()
        ours = error_in(origin)
        if ours is not None:
            return traced(ours, theirs)
        from pyspark import SparkContext

        # Of a query that has ended PySpark has the frames of the driver alone.
        jvm: Any = SparkContext._jvm
        whole = str(jvm.org.apache.spark.util.Utils.exceptionString(origin))
        failed = failure_in(origin, whole)
        if failed is None:
            return theirs
        failed.jvm_trace = whole
        return failed

    return exception_of


def _explaining_complete_mode(start: Callable[..., StreamingQuery]) -> Callable[..., StreamingQuery]:
    """Spark refuses complete mode by saying that there is no streaming aggregation, for it knows only its own."""
    from pyspark.errors import AnalysisException

    @functools.wraps(start)
    def starting(writer: DataStreamWriter, *args: Any, **kwargs: Any) -> StreamingQuery:
        try:
            return start(writer, *args, **kwargs)
        except AnalysisException as theirs:
            refused = theirs.getCondition() == "STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION"
            mode = (theirs.getMessageParameters() or {}).get("outputMode")
            if refused and mode == "complete" and OPERATOR in _plan(writer._df):
                refusal = UnsupportedError(
                    "outputMode('complete') would have to keep every pane that ever closed. Write with "
                    "outputMode('append'), or 'update': each pane comes out when it fires, and closes once."
                )
                raise traced(refusal, theirs) from None
            raise

    return starting


def _plan(df: DataFrame) -> str:
    return str(_internal(df, "_jdf").queryExecution().analyzed().toString())


def _found(spark: SparkSession) -> Any:
    from py4j.java_gateway import JavaClass

    found = getattr(spark._jvm, FACADE)
    if isinstance(found, JavaClass):
        return found
    raise MullionError(
        f"Mullion's JAR is not on the class path of this Spark {spark.version} application. Add it before Spark "
        "starts, in one of two ways: where Python starts Spark, mullion.configure(SparkSession.builder).getOrCreate(); "
        "where something else does (spark-submit, a notebook, a cluster), as a library of the cluster or with "
        f"{_jars.submit_option()}. A session that was running before configure() keeps its class path: stop it, and "
        "start Python again."
    )


def _check_versions(jar: str, line: str, running: str) -> None:
    if jar != __version__:
        raise VersionMismatchError(
            f"The JAR on Spark's class path is Mullion {jar}, and the Python package is {__version__}. They must be "
            f"the same: pip install mullion-spark=={jar}, or replace the JAR with {_jars.submit_option()}."
        )
    if running.split(".")[:2] != line.split("."):
        raise VersionMismatchError(
            f"The Mullion JAR on Spark's class path is built for Spark {line}, and this is Spark {running}. "
            f"Run it on Spark {line}, or take the JAR for this Spark, if this version of Mullion has one: "
            f"{_jars.submit_option('.'.join(running.split('.')[:2]))}."
        )


def _ship_jars(spark: SparkSession) -> None:
    """Hands executors the JARs that ``spark.jars.packages`` brought.

    spark-submit merges them into ``spark.jars`` of the JVM. A builder that sets ``spark.jars`` too, as
    :func:`mullion.configure` makes it do, hides that list from the SparkContext: the driver has those JARs, executors
    would not.
    """
    context = _internal(spark.sparkContext, "_jsc").sc()
    if context.isLocal():
        return
    shipped = {_jars.file_name(jar) for jar in context.listJars().mkString(",").split(",")}
    launched = getattr(spark._jvm, "java.lang.System").getProperty("spark.jars") or ""
    for jar in filter(None, launched.split(",")):
        if _jars.file_name(jar) not in shipped:
            context.addJar(jar)


def _column(column: Column | str) -> Any:
    return _internal(col(column) if isinstance(column, str) else column, "_jc")


def _as_column(made: Any) -> Column:
    """A column that the JAR made."""
    # Only a classic PySpark has this module; one that is Connect's client alone must still be able to import us.
    from pyspark.sql.classic.column import Column as ClassicColumn

    return ClassicColumn(made)


def _micros(df: DataFrame, time: Column | str) -> Column:
    """The event time in microseconds; of a window column, that of its last one."""
    kind = df.select(time).schema.fields[0].dataType
    column = col(time) if isinstance(time, str) else time
    return unix_micros(column["end"]) - 1 if isinstance(kind, StructType) else unix_micros(column)


def quoted(name: str) -> str:
    """A column of that name, whatever is in it."""
    return f"`{name.replace('`', '``')}`"


def _columns(spark: SparkSession, columns: Sequence[Column | str]) -> Any:
    return _array(spark, "org.apache.spark.sql.Column", [_column(column) for column in columns])


def _array(spark: SparkSession, kind: str, items: Sequence[Any]) -> Any:
    """A Java array."""
    context = spark.sparkContext
    assert context._gateway is not None
    array = context._gateway.new_array(getattr(spark._jvm, kind), len(items))
    for index, item in enumerate(items):
        array[index] = item
    return array


def _dataframe(jdf: Any, spark: SparkSession) -> DataFrame:
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

    return ClassicDataFrame(jdf, spark)


def _internal(thing: object, name: str) -> Any:
    """The JVM object behind one of PySpark's."""
    return getattr(thing, name)
