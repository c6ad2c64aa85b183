"""Warnings about rows that Spark's operators drop before a window, when panes are defined and in the log of a query.

In output mode ``update`` the log warns about panes that are emitted only when they close.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import mullion
from mullion import DroppedRowsWarning, Early, Session, Tumbling, together, windowed
from tests.support.checked import with_the_jar_alone
from tests.support.clocked import ClockedQuery
from tests.support.streams import SECOND, Feed, batches_of

COLUMNS = "k string, id bigint"


def count(rows: DataFrame, time: str = "ts") -> DataFrame:
    panes = windowed(rows, Tumbling("1 minute"), time=time, allowed_lateness="1 minute", late="drop")
    return panes.agg(F.count("*").alias("n"))


def per_minute(rows: DataFrame) -> DataFrame:
    return rows.groupBy(F.window("ts", "10 seconds").alias("window"), "k").agg(F.count("*").alias("n"))


def with_timers(rows: DataFrame, timeout: str) -> DataFrame:
    """The output of a function with Spark's state over the rows, with a watermark."""

    def same(key: Any, frames: Iterator[Any], state: Any) -> Iterator[Any]:
        yield from frames

    schema = "ts timestamp, k string, id bigint"
    counts = rows.groupBy("k").applyInPandasWithState(same, schema, "n int", "append", timeout)
    return counts.withWatermark("ts", "0 seconds")


# The name in the warning, the operator before the window, and the column of the window's time.
DROPPING: dict[str, tuple[Callable[[DataFrame], DataFrame], str]] = {
    "dropDuplicates(['id', 'ts'])": (lambda rows: rows.dropDuplicates(["id", "ts"]), "ts"),
    "dropDuplicates(['k'])": (lambda rows: rows.dropDuplicates(["k"]), "ts"),
    "dropDuplicatesWithinWatermark(['id'])": (lambda rows: rows.dropDuplicatesWithinWatermark(["id"]), "ts"),
    "dropDuplicates(['t', 'k', 'id', 'ts'])": (lambda rows: rows.distinct(), "ts"),
    "groupBy(...).agg(...)": (per_minute, "window"),
    "the join of two streams": (lambda rows: rows.join(rows.select("ts", F.col("id").alias("other")), "ts"), "ts"),
    "applyInPandasWithState with timers by event time": (lambda rows: with_timers(rows, "EventTimeTimeout"), "ts"),
}

# Operators that drop no rows, or none that would have reached the window.
SILENT: dict[str, tuple[Callable[[DataFrame], DataFrame], str]] = {
    "nothing": (lambda rows: rows, "ts"),
    "what has no state": (lambda rows: rows.where("id > 0").withColumn("more", F.col("id") + 1), "ts"),
    "a table that is joined": (lambda rows: rows.join(rows.sparkSession.range(5), "id"), "ts"),
    "duplicates dropped before the watermark": (
        lambda rows: (
            rows.sparkSession.readStream.format("rate")
            .load()
            .dropDuplicates(["value"])
            .withColumnRenamed("timestamp", "ts")
            .withWatermark("ts", "0 seconds")
        ),
        "ts",
    ),
    "timers by the wall clock": (lambda rows: with_timers(rows, "ProcessingTimeTimeout"), "ts"),
    "a window of Mullion's, then duplicates": (lambda rows: count(rows).dropDuplicates(["window"]), "window"),
}


@pytest.mark.parametrize("operator", DROPPING)
def test_a_warning_names_an_operator_that_drops_rows_by_the_watermark(
    spark: SparkSession, tmp_path: Path, operator: str
) -> None:
    before, time = DROPPING[operator]
    rows = before(Feed(tmp_path / "in", COLUMNS).stream(spark))
    with pytest.warns(DroppedRowsWarning) as warned:
        count(rows, time)
    assert len(warned) == 1
    assert str(warned[0].message).startswith(f"{operator} before windowed(...) silently drops rows that are older")
    assert "into the delay of withWatermark(...)" in str(warned[0].message)
    assert warned[0].filename == __file__, "it points at the line that makes the panes"


def test_collected_rows_cause_the_warning_too(spark: SparkSession, tmp_path: Path) -> None:
    rows = Feed(tmp_path / "in", COLUMNS).stream(spark).dropDuplicatesWithinWatermark(["id"])
    says = r"dropDuplicatesWithinWatermark\(\['id'\]\) before .* windowed\(\.\.\., dedupe_by=\['id'\]\) take its place"
    with pytest.warns(DroppedRowsWarning, match=says):
        windowed(rows, Session("1 minute"), by="k", time="ts").collect()


def test_the_warning_names_only_the_first_operator_that_drops_rows(spark: SparkSession, tmp_path: Path) -> None:
    """Rows that pass the first operator are late for none after it."""
    rows = per_minute(Feed(tmp_path / "in", COLUMNS).stream(spark).dropDuplicates(["id", "ts"]))
    with pytest.warns(DroppedRowsWarning) as warned:
        count(rows.dropDuplicates(["window"]), "window")
    assert [str(w.message).split(" before ")[0] for w in warned] == ["dropDuplicates(['id', 'ts'])"]


@pytest.mark.parametrize("what", SILENT)
def test_operators_that_drop_nothing_cause_no_warning(spark: SparkSession, tmp_path: Path, what: str) -> None:
    before, time = SILENT[what]
    rows = before(Feed(tmp_path / "in", COLUMNS).stream(spark))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        count(rows, time)


def test_a_batch_drops_nothing(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", COLUMNS)
    feed.write([(SECOND, "a", 1)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert count(feed.batch(spark).dropDuplicates(["id", "ts"])).count() == 1


class Log:
    """The messages of one of Mullion's loggers in the JVM."""

    def __init__(self, spark: SparkSession, name: str, file: Path) -> None:
        self.file = file
        log4j: Any = spark._jvm.org.apache.logging.log4j  # type: ignore[union-attr]
        layout = log4j.core.layout.PatternLayout.createDefaultLayout()
        self._appender = (
            log4j.core.appender.FileAppender.newBuilder()
            .withFileName(str(file))
            .setName(str(file))
            .setLayout(layout)
            .build()
        )
        self._appender.start()
        self._logger = log4j.LogManager.getLogger(name)
        self._level, self._configurator = log4j.Level, log4j.core.config.Configurator
        self._configurator.setLevel(name, self._level.WARN)
        self._logger.addAppender(self._appender)

    def lines(self) -> list[str]:
        return self.file.read_text(encoding="utf-8").splitlines()

    def close(self) -> None:
        self._configurator.setLevel(self._logger.getName(), self._level.OFF)
        self._logger.removeAppender(self._appender)
        self._appender.stop()


@pytest.fixture
def log(spark: SparkSession, tmp_path: Path) -> Iterator[Log]:
    log = Log(spark, "org.apache.spark.sql.mullion.plan.RunWarnings", tmp_path / "log")
    yield log
    log.close()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", ["alone", "rows one by one", "together"])
@pytest.mark.parametrize("session", ["with the extension", "with the JAR alone"])
def test_the_log_warns_once_at_each_start_of_a_query(
    spark: SparkSession, tmp_path: Path, log: Log, session: str, kind: str
) -> None:
    feed = Feed(tmp_path / "in", COLUMNS)
    stream = feed.stream(spark if session == "with the extension" else with_the_jar_alone(spark))
    rows = stream.dropDuplicatesWithinWatermark(["id"])
    queries: dict[str, Callable[[], DataFrame]] = {
        "alone": lambda: count(rows),
        "rows one by one": lambda: windowed(rows, Tumbling("1 minute"), time="ts").collect(),
        "together": lambda: together(ones=count(rows), others=count(rows)),
    }
    with pytest.warns(DroppedRowsWarning):
        panes = queries[kind]()
    panes.explain()
    assert log.lines() == [], "no query has started"
    for life in (1, 2):
        with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:
            for batch in range(3):
                feed.write([(100 * life * SECOND + batch, "a", 10 * life + batch)])
                query.settle()
        messages = [line for line in log.lines() if "dropDuplicatesWithinWatermark(['id']) before windowed" in line]
        assert len(messages) == life


@pytest.mark.parametrize("early", [None, Early(count=1)], ids=["closes alone", "early=Early(count=1)"])
@pytest.mark.parametrize("kind", ["alone", "together"])
def test_the_log_of_a_query_in_update_mode_names_the_firings_that_show_changes(
    spark: SparkSession, tmp_path: Path, log: Log, kind: str, early: Early | None
) -> None:
    feed = Feed(tmp_path / "in", COLUMNS)
    one = windowed(feed.stream(spark), Tumbling("1 minute"), time="ts", early=early).agg(F.count("*").alias("n"))
    panes = one if kind == "alone" else together(ones=one, others=one)
    shown: dict[str, list[tuple[str, int]]] = {}
    for mode in ("append", "update"):
        with ClockedQuery(panes, checkpoint=tmp_path / mode, output_mode=mode) as query:
            feed.write([(100 * SECOND, "a", 1)])
            shown[mode] = [(row.pane.firing, row.n) for row in query.settle()]
        warned = [line for line in log.lines() if "output mode 'update'" in line and "early=Early(count=1)" in line]
        assert len(warned) == (mode == "update" and early is None)
    assert (shown["update"] == []) == (early is None), "and what the warning names shows the change"


def test_a_longer_delay_keeps_the_rows_that_the_warning_names(spark: SparkSession, tmp_path: Path) -> None:
    """The warning is true: a row does not reach its open pane. Its fix works too."""
    totals = {}
    for delay, lateness in (("0 seconds", "1 minute"), ("70 seconds", "0 seconds")):
        feed = Feed(tmp_path / delay, COLUMNS)
        rows = feed.stream(spark, delay).dropDuplicatesWithinWatermark(["id"])
        with pytest.warns(DroppedRowsWarning):
            panes = windowed(rows, Tumbling("1 minute"), time="ts", allowed_lateness=lateness, late="emit").agg(
                F.count("*").alias("n")
            )
        with ClockedQuery(panes, checkpoint=tmp_path / f"{delay} checkpoint") as query:
            feed.write([(1 * SECOND, "a", 1), (70 * SECOND, "a", 2)])
            fired = query.settle()
            feed.write([(2 * SECOND, "a", 3), (3 * SECOND, "a", 1), (80 * SECOND, "a", 4)])
            fired += query.settle()
            feed.flood()
            fired += query.settle()
            dropped = sum(batch["numRowsDroppedByWatermark"] for batch in batches_of(query, operator=1))
        totals[delay] = ([row.n for row in fired if row.pane.firing == "close"], len(fired), dropped)
    assert totals == {"0 seconds": ([1, 2], 2, 2), "70 seconds": ([2, 2], 2, 0)}


def test_the_warning_is_one_of_the_packages_names() -> None:
    assert mullion.DroppedRowsWarning is DroppedRowsWarning
    assert issubclass(DroppedRowsWarning, UserWarning)
