"""Sessions and running queries: starting them, and their reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, SparkSession

from mullion._bridge.jvm.entry import facade
from mullion._bridge.jvm.objects import dataframe_of, internal
from mullion._util.clock import ManualClock

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_trigger_clocks: WeakKeyDictionary[ManualClock, Any] = WeakKeyDictionary()


def plan_of_batch(spark: SparkSession, query: str, batch: int) -> str:
    """The log entry of a running query, by its id, for a batch before it ran; empty if there is none."""
    return str(facade(spark).planOf(internal(spark, "_jsparkSession"), query, batch))


def checkpoint_of(spark: SparkSession, query: str) -> str:
    """The checkpoint of a running query, by its id, as a URI; empty if it is not running."""
    return str(facade(spark).checkpointOf(internal(spark, "_jsparkSession"), query))


def session_with(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """A session like ``spark`` with other settings, which queries started in it keep."""
    facade(spark)
    session = SparkSession(spark.sparkContext, internal(spark, "_jsparkSession").cloneSession())
    for key, value in settings.items():
        session.conf.set(key, value)
    return session


@contextmanager
def active(spark: SparkSession) -> Iterator[None]:
    """Makes a session the active one temporarily: Spark reads settings of casts from that, not from the DataFrame's."""
    sessions = spark.sparkContext._jvm.org.apache.spark.sql.classic.SparkSession  # type: ignore[union-attr]
    before = sessions.getActiveSession()
    sessions.setActiveSession(internal(spark, "_jsparkSession"))
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def java_query(query: StreamingQuery) -> Any:
    """The JVM's side of a query."""
    return query._jsq


def recover(spark: SparkSession, checkpoint: str) -> int:
    """Resets a checkpoint that has lost state to an earlier batch. Returns the number of batches to repeat."""
    return int(facade(spark).recover(internal(spark, "_jsparkSession"), checkpoint))


def savepoint(
    spark: SparkSession,
    checkpoint: str,
    to: str,
    *,
    partitions: int | None,
    checkpoint_format: int | None,
    panes: DataFrame | None,
    spark_query: DataFrame | None,
) -> int:
    """Writes a savepoint of a checkpoint. Returns the number of its last batch."""
    code, before = (None if of is None else internal(of, "_jdf") for of in (panes, spark_query))
    session = internal(spark, "_jsparkSession")
    sizes = (partitions or -1, checkpoint_format or -1)
    return int(facade(spark).savepoint(session, checkpoint, to, *sizes, code, before))


def start_clocked(panes: DataFrame, checkpoint: str, output_mode: str, start_ms: int | None, drain: bool) -> Any:
    """A query on a clock that a test moves, which starts at ``start_ms`` milliseconds since the epoch, or now."""
    return facade(panes.sparkSession).startClocked(internal(panes, "_jdf"), checkpoint, output_mode, start_ms, drain)


def start_on_clock(
    outputs: DataFrame,
    name: str,
    checkpoint: str,
    publish: Callable[[DataFrame, int], None],
    clock: ManualClock,
    drain: bool,
) -> StreamingQuery:
    """A query that passes each batch to ``publish``, on a clock that a test moves; with ``drain`` it ends by itself."""
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
    return StreamingQuery(jvm.startBatches(internal(outputs, "_jdf"), name, checkpoint, function, trigger_clock, drain))


def output_since(query: Any, batch: int, spark: SparkSession) -> DataFrame:
    """The output of a clocked query's batches after ``batch``."""
    return dataframe_of(query.since(batch), spark)


def progress_of(query: Any) -> list[str]:
    """The progress reports of a clocked query's batches, as JSON."""
    return [report.json() for report in query.query().recentProgress()]


def last_batch_of(query: StreamingQuery) -> int | None:
    """The number of the last reported batch, or ``None`` before the first.

    PySpark's own parser of a report fails if no time passed in a batch, as on a clock that does not move.
    """
    progress = query._jsq.lastProgress()
    return None if progress is None else int(progress.batchId())


def reports_of(query: StreamingQuery) -> list[str]:
    """The progress reports of a query's batches, as JSON."""
    return [report.json() for report in query._jsq.recentProgress()]
