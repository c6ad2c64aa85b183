"""Mistakes of users. The traceback has the lines of the user and the message, and no line of the bridge or the JVM."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import mullion.functions
from mullion import (
    Around,
    Count,
    Custom,
    Early,
    Global,
    InvalidArgumentError,
    MullionError,
    Session,
    Sliding,
    Tumbling,
    UnknownColumnError,
    Watermark,
    read_panes,
    recover,
    together,
    windowed,
)
from mullion.errors import FunctionError, IncompatibleStateError, NotAggregatedError, TaskFailedError, WrongCallError

HOUR = Tumbling("1 hour")
LINES = 24
"""The most that a traceback may have: a screen."""

wrong: Any = windowed
"""``windowed`` without types, for calls that a type checker rejects."""


@pytest.fixture(scope="module")
def events(spark: SparkSession) -> DataFrame:
    rows = spark.readStream.format("rate").load().withColumnRenamed("timestamp", "ts")
    return rows.selectExpr("*", "cast(ts AS string) AS text", "cast(value AS string) AS k", "map(k, value) AS m")


def n() -> Any:
    return F.count("*").alias("n")


def as_printed(mistake: Callable[[], Any]) -> tuple[BaseException, list[str]]:
    """The error of a mistake, and the lines of its traceback."""
    try:
        mistake()
    except Exception as error:
        return error, "".join(traceback.format_exception(error)).splitlines()
    raise AssertionError("it was accepted")


def mistakes(spark: SparkSession, events: DataFrame, folder: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Each with what its message must say."""
    stream = events.withWatermark("ts", "1 minute")
    batch = spark.createDataFrame([], "ts timestamp, k string, v double, text string")

    def of(df: Any = stream, window: Any = HOUR, **options: Any) -> Any:
        return wrong(df, window, **{"by": "k", "time": "ts", **options})

    yield "no watermark", lambda: of(events).agg(n())
    yield "withColumn('event_time', F.expr(", lambda: of(events, time=F.to_timestamp("text")).agg(n())
    yield "withWatermark('at'", lambda: of(events, time=F.to_timestamp("text").alias("at")).agg(n())
    yield "Did you mean 'ts'?", lambda: of(time="tss").agg(n())
    yield "is of type string", lambda: of(time="text")
    yield "'time'. Name the column", lambda: wrong(stream, HOUR)
    yield "'window'. Say how rows", lambda: wrong(stream, time="ts")
    yield "no argument 'lateness'. Did you mean 'allowed_lateness'?", lambda: of(lateness="1 hour")
    yield (
        "Did you mean 'allowed_lateness'? Write allowed_lateness='5 minutes'.",
        lambda: of(allowed_latenes="5 minutes"),
    )
    yield "a Tumbling, which is not a Spark DataFrame. The DataFrame comes first", lambda: of(HOUR, stream)
    yield "it has a column that is not an aggregate", lambda: of(by=()).agg(F.col("value"))
    yield "'a' is not a result of windowed(...).agg(...) or .collect(). Window", lambda: together(a=stream)
    yield "no argument 'keys'. Did you mean 'by'?", lambda: wrong(stream, HOUR, keys="k", time="ts")
    yield "accepts 2 (df, window)", lambda: wrong(stream, HOUR, "k", "ts")
    yield "was given 'df' twice", lambda: wrong(stream, HOUR, df=stream, time="ts")
    yield "is not a Spark DataFrame", lambda: of([1, 2])
    yield "Write Tumbling('1 hour')", lambda: of(window="1 hour")
    yield "no column 'kk'", lambda: of(by="kk")
    yield "by=['k', 'value']", lambda: of(by="k, value")
    yield "is also the name", lambda: of(by=F.col("k").alias("window"))
    yield "late='emmit' is not one of", lambda: of(late="emmit")
    yield "no argument 'state'. State is always in RocksDB", lambda: of(state="memory")
    yield "empty='yes' is not one of", lambda: of(empty="yes")
    yield "df.withWatermark('ts', '5 minutes')", lambda: of(watermark="5 minutes")
    yield "clock='key' (str) is not a clock", lambda: of(clock="key")
    yield "clock=Watermark (the class itself, without parentheses)", lambda: of(clock=Watermark)
    yield "early=Early (the class itself, without parentheses)", lambda: of(early=Early)
    yield "window=Tumbling (the class itself, without parentheses)", lambda: of(window=Tumbling)
    yield "where no row is ahead of the clock", lambda: of(time=None, clock=Watermark(max_ahead="1 hour"))
    yield "on_time=True adds nothing", lambda: of(on_time=True)
    yield "early=Early(every='1 minute')", lambda: of(early="1 minute")
    yield "600 seconds", lambda: of(allowed_lateness=600)
    yield "needs windows that exist without rows", lambda: of(window=Session("1 hour"), empty="emit")
    yield "time=None", lambda: of(time=None, late="emit")
    yield "has no aggregate", lambda: of().agg()
    yield "given a str", lambda: of().agg("count(*)")
    yield "no column 'w'", lambda: of().agg(F.max("w"))
    yield "Aggregate the inner one first", lambda: of().agg(F.max(F.sum("value")))
    yield "add it to by=", lambda: of().agg(F.col("value"))
    yield "named 'pane'", lambda: of().agg(n().alias("pane"))
    yield "DATATYPE_MISMATCH|cannot be computed", lambda: of().agg(F.sum("m"))
    yield "Sliding('1 hour', '5 minutes')", lambda: Sliding("1 hour")  # type: ignore[call-arg]
    yield "'slide'. Say how far apart", lambda: Sliding("1 hour")  # type: ignore[call-arg]
    yield "no argument 'hop'. Did you mean 'slide'?", lambda: Sliding("1 hour", hop="1 minute")  # type: ignore[call-arg]
    yield "'size'. Say how long", lambda: Tumbling()  # type: ignore[call-arg]
    yield "Tumbling('10 seconds')", lambda: Tumbling("10s")
    yield "Write Tumbling('5 minutes')", lambda: Tumbling("5m")
    yield "timezone='UTC'", lambda: Tumbling("1 month")
    yield "Did you mean 'America/New_York'?", lambda: Tumbling("1 day", timezone="New York")
    yield "a number of days, weeks", lambda: Tumbling("12 hours", timezone="UTC")
    yield "needs a time zone", lambda: Tumbling("1 week", week_start="Sunday")
    yield "add gaps=True", lambda: Sliding("5 minutes", "1 hour")
    yield "has no unit", lambda: Tumbling(10)  # type: ignore[arg-type]
    yield "longer than zero", lambda: Tumbling(timedelta(0))
    yield "'gap'. Say how long a pause", lambda: Session()  # type: ignore[call-arg]
    yield "no argument 'timeout'. Did you mean 'gap'?", lambda: Session(timeout="1 hour")  # type: ignore[call-arg]
    yield "'before'. Say how far back", lambda: Around()  # type: ignore[call-arg]
    yield "'ranges'. Name the column", lambda: Custom()  # type: ignore[call-arg]
    yield "whole number of rows", lambda: Count(0)
    yield "'size'. Say how many rows", lambda: Count()  # type: ignore[call-arg]
    yield "does not say when a window closes", lambda: Global()
    yield "neither every nor count", lambda: Early()
    yield "no argument 'interval'", lambda: Early(interval="1 minute")  # type: ignore[call-arg]
    yield "writeStream", lambda: of().show()
    yield ".agg(F.count('*').alias('n')).select", lambda: of().select("k")
    yield "given with by=", lambda: of().groupBy("k")
    yield "aggregates are columns of agg()", lambda: of().count()
    yield "Did you mean 'agg'?", lambda: of().aggg(n())
    yield "has no columns yet", lambda: of()["k"]
    yield "writeStream", lambda: of().writeStream.x
    yield "order='tme' is not one of", lambda: of().collect("tme")
    yield "no argument 'by'", lambda: of().collect(by="ts")
    yield "accepts none. Give each a name", lambda: together(of().agg(n()))  # type: ignore[call-arg]
    yield "given no window", lambda: together()
    yield "does not say what its panes hold", lambda: together(a=of())
    yield "no folder 'state'", lambda: read_panes(folder / "nothing", spark=spark)
    yield "no argument 'path'. ", lambda: read_panes(path=folder)  # type: ignore[call-arg]
    yield "no folder 'state'", lambda: recover(folder / "nothing", spark=spark)
    yield "was not given 'checkpoint'", lambda: recover()  # type: ignore[call-arg]
    yield "outputMode('append')", lambda: started(of().agg(n()), folder / "complete", "complete")
    yield "session_window", lambda: of(by=F.session_window("ts", "1 minute")).agg(n())
    yield "collation", lambda: of(by=F.expr("collate(k, 'UTF8_LCASE')").alias("c")).agg(n())
    yield "array<struct", lambda: of(window=Custom("k"))
    yield "of days and time", lambda: of(batch, Session(F.col("v")))
    yield "IANA|units|size", lambda: batch.select(mullion.functions.windows("ts", "soon")).collect()


def started(panes: DataFrame, checkpoint: Path, mode: str = "append") -> None:
    writer = panes.writeStream.format("noop").outputMode(mode).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()


def told_in_short(error: BaseException, lines: list[str]) -> None:
    assert isinstance(error, MullionError), lines
    text = "\n".join(lines)
    for foreign in ("py4j", "Py4J", "\tat ", "JVM stacktrace", "java_gateway", "During handling", "direct cause"):
        assert foreign not in text, text
    assert len(lines) <= LINES, text


def test_the_error_of_every_mistake_fits_a_screen(spark: SparkSession, events: DataFrame, tmp_path: Path) -> None:
    tried = 0
    for says, mistake in mistakes(spark, events, tmp_path):
        error, lines = as_printed(mistake)
        told_in_short(error, lines)
        assert any(part in str(error) for part in says.split("|")), (says, str(error))
        tried += 1
    assert tried >= 55


def test_the_trace_of_the_jvm_is_kept_with_the_error(events: DataFrame) -> None:
    error, _ = as_printed(lambda: windowed(events, HOUR, by="k", time="ts").agg(n()))
    assert isinstance(error, InvalidArgumentError)
    assert "dev.mullion.MullionException" in (error.jvm_trace or "")
    assert "\tat org.apache.spark.sql.mullion" in (error.jvm_trace or "")
    assert as_printed(lambda: windowed(events, HOUR, by="k", time="tss"))[0].jvm_trace is None  # type: ignore[attr-defined]


def test_a_wrong_call_is_a_type_error_too_and_a_missing_attribute_an_attribute_error(events: DataFrame) -> None:
    with pytest.raises(TypeError):
        wrong(events, HOUR)
    panes: Any = windowed(events.withWatermark("ts", "1 minute"), HOUR, time="ts")
    assert not hasattr(panes, "show")
    assert not hasattr(panes, "__array__")
    assert issubclass(WrongCallError, InvalidArgumentError)
    assert issubclass(NotAggregatedError, InvalidArgumentError)


def no_ranges(time: datetime) -> list[tuple[datetime, datetime]]:
    raise KeyError("no such day")


def failing(stream: DataFrame) -> Iterator[tuple[str, DataFrame]]:
    """Queries that fail in a task, each with what its message must say."""
    source = stream.withWatermark("ts", "1 minute")

    names: dict[int, str] = {}
    doubled = source.withColumn("w", F.udf(lambda v: names[v])("v"))
    of_none = F.sum(F.lit(1) / (F.col("v") - F.col("v")))
    yield "ARITHMETIC_OVERFLOW", windowed(source, HOUR, by="k", time="ts").agg(F.sum("v"))
    yield (
        "ARITHMETIC_OVERFLOW",
        windowed(source, HOUR, by="k", time="ts", dedupe_by="n", early=Early(each_row=True)).agg(F.sum("v")),
    )
    yield (
        "DIVIDE_BY_ZERO",
        windowed(source, HOUR, by="k", time="ts", early=Early(each_row=True)).agg(of_none.alias("x")),
    )
    yield "KeyError: 'no such day', at ", windowed(source, Custom(no_ranges), by="k", time="ts").agg(n())
    yield "KeyError: 4611686018427387904, at ", windowed(doubled, HOUR, by="k", time="ts").agg(F.max("w"))
    several = {name: windowed(source, HOUR, by="k", time="ts").agg(F.sum("v").alias("v")) for name in ("a", "b")}
    yield "ARITHMETIC_OVERFLOW", together(**several)


def test_an_error_in_a_task_has_one_line_and_keeps_its_trace(spark: SparkSession, tmp_path: Path) -> None:
    rows = tmp_path / "rows"
    some = [("2024-01-01", "a", 2**62, 1), ("2024-01-01", "a", 2**62, 2)]
    spark.createDataFrame(some, "t string, k string, v bigint, n int").coalesce(1).write.json(str(rows))
    stream = spark.readStream.schema("t string, k string, v bigint, n int").json(str(rows))
    stream = stream.select("k", "v", "n", F.to_timestamp("t").alias("ts"))
    for number, (says, panes) in enumerate(failing(stream)):
        error, lines = as_printed(lambda number=number, panes=panes: finished(panes, tmp_path / str(number)))  # type: ignore[misc]
        told_in_short(error, lines)
        if "no such day" in says:
            assert isinstance(error, FunctionError), lines
        else:
            assert isinstance(error, TaskFailedError), lines
            assert isinstance(error, StreamingQueryException), "what waits for Spark's error gets it"
        assert says in str(error), str(error)
        assert len(str(error).splitlines()) == 1, str(error)
        assert "\tat org.apache.spark.executor.Executor" in (error.jvm_trace or "")


def finished(panes: DataFrame, checkpoint: Path) -> None:
    """Runs a query. Its error is also the exception that it has afterwards."""
    writer = panes.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    with pytest.raises(MullionError) as raised:
        query.awaitTermination()
    error: Any = query.exception()
    assert (type(error), str(error)) == (type(raised.value), str(raised.value))
    assert "Executor$TaskRunner" in error.jvm_trace
    raise raised.value.with_traceback(None) from None


@contextmanager
def printed_by_the_jvm(spark: SparkSession, folder: Path) -> Iterator[Callable[[], str]]:
    """The JVM's logs meanwhile, at the level that Spark starts with."""
    context: Any = spark._jvm
    file = folder / "printed"
    manager = context.org.apache.logging.log4j.LogManager
    root = manager.getContext(False).getConfiguration().getRootLogger()
    layout = context.org.apache.logging.log4j.core.layout.PatternLayout.newBuilder().withPattern("%p %c{1}: %m%n%ex")
    appender = (
        context.org.apache.logging.log4j.core.appender.FileAppender.newBuilder()
        .setName("printed")
        .withFileName(str(file))
        .setLayout(layout.build())
        .build()
    )
    appender.start()
    root.addAppender(appender, None, None)
    spark.sparkContext.setLogLevel("WARN")
    try:
        yield file.read_text
    finally:
        spark.sparkContext.setLogLevel("OFF")
        root.removeAppender("printed")
        appender.stop()


def test_a_checkpoint_that_is_rejected_prints_a_line_and_no_trace_of_the_jvm(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = tmp_path / "rows"
    spark.createDataFrame([("2024-01-01", "a", 1)], "t string, k string, v int").write.json(str(rows))
    stream = spark.readStream.schema("t string, k string, v int").json(str(rows))
    stream = stream.select("k", "v", F.to_timestamp("t").alias("ts")).withWatermark("ts", "1 minute")
    at = tmp_path / "checkpoint"
    started(windowed(stream, HOUR, by="k", time="ts").agg(n()), at)
    # For a batch to be planned.
    spark.createDataFrame([("2024-01-02", "a", 2)], "t string, k string, v int").write.mode("append").json(str(rows))
    changed: list[DataFrame] = [
        windowed(stream, Tumbling("2 hours"), by="k", time="ts").agg(n()),
        windowed(stream, Sliding("2 hours", "1 hour"), by="k", time="ts").agg(n()),
        windowed(stream, Session("1 hour"), by="k", time="ts").agg(n()),
        windowed(stream, HOUR, by="v", time="ts").agg(n()),
        windowed(stream, HOUR, by="k", time="ts").agg(F.sum("v")),
        windowed(stream, HOUR, by="k", time="ts", empty="emit").agg(n()),
        windowed(stream, HOUR, by=["k", "v"], time="ts").agg(n()),
    ]
    with printed_by_the_jvm(spark, tmp_path) as printed:
        for panes in changed:
            error, lines = as_printed(lambda panes=panes: started(panes, at))  # type: ignore[misc]
            assert isinstance(error, IncompatibleStateError), lines
            told_in_short(error, lines)
        text = printed()
    assert "\tat " not in text, text
    assert len(text.splitlines()) <= 4 * len(changed), text
    assert text.count("MullionException: ") == len(changed), text


class Logged(logging.Handler):
    """The messages that PySpark logs of errors about columns."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())

    @contextmanager
    def attached(self) -> Iterator[list[str]]:
        loggers = [PySparkLogger.getLogger(f"{kind}QueryContextLogger") for kind in ("DataFrame", "SQL")]
        for logger in loggers:
            logger.addHandler(self)
        try:
            yield self.messages
        finally:
            for logger in loggers:
                logger.removeHandler(self)


def test_only_the_error_reports_a_wrong_column(events: DataFrame) -> None:
    events = events.withWatermark("ts", "1 minute")
    mistakes: list[Callable[[], Any]] = [
        lambda: windowed(events, HOUR, by="nope", time="ts"),
        lambda: windowed(events, HOUR, by="k, value", time="ts"),
        lambda: windowed(events, HOUR, by=F.col("nope"), time="ts"),
        lambda: windowed(events, HOUR, by="k", time="ts").agg(F.sum("nope")),
        lambda: windowed(events, HOUR, by="k", time="ts").agg(F.expr("sum(nope)")),
    ]
    with Logged().attached() as messages:
        for mistake in mistakes:
            with pytest.raises(UnknownColumnError, match=r"nope|k, value"):
                mistake()
        assert messages == []
        # Errors of the user's own calls are logged as ever.
        with pytest.raises(AnalysisException):
            events.select(F.col("nope"))
        assert len(messages) == 1
