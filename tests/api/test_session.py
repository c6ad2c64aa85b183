"""A session with Mullion: the location of the JAR, and the JVM's errors in a running query."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion import IncompatibleStateError, MullionError, Tumbling, UnsupportedError, together, windowed
from mullion._bridge import jvm
from mullion._native.configure import EXTENSIONS
from mullion._util.jars import running_line


def panes(spark: SparkSession, folder: Path, window: Tumbling) -> DataFrame:
    rows = spark.sql("SELECT timestamp'2024-01-01 00:10:00' AS ts, 'AA' AS carrier")
    rows.write.mode("overwrite").parquet(str(folder))
    stream = spark.readStream.schema(rows.schema).parquet(str(folder))
    counted = windowed(stream.withWatermark("ts", "1 minute"), window, by="carrier", time="ts")
    return counted.agg(F.count("*").alias("n"))


@pytest.fixture
def query_over_another_state(spark: SparkSession, tmp_path: Path) -> Any:
    """A query whose checkpoint was written with windows of another size."""
    for size in ("1 hour", "2 hours"):
        writer = panes(spark, tmp_path / "in", Tumbling(size)).writeStream.format("noop")
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        if size == "1 hour":
            query.processAllAvailable()
            query.stop()
    return query


def test_a_session_has_the_extension(spark: SparkSession) -> None:
    assert EXTENSIONS in (spark.conf.get("spark.sql.extensions") or "")


def test_a_second_session_of_the_same_application_has_mullion_too(spark: SparkSession) -> None:
    other = spark.newSession()
    frame = other.sql("SELECT timestamp'2024-01-01 00:10:00' AS ts")
    assert windowed(frame, Tumbling("1 hour"), time="ts").agg(F.count("*").alias("n")).collect()[0]["n"] == 1


def test_without_the_jar_both_ways_to_add_it_are_named(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mullion._bridge.jvm.entry.FACADE", "dev.mullion.NoSuchFacade")
    with pytest.raises(MullionError, match=r"mullion\.configure\(SparkSession\.builder\)") as refused:
        jvm.facade(spark.newSession())
    assert "--jars" in str(refused.value)
    assert f"--packages dev.mullion:mullion-spark-{running_line()}_2.13:" in str(refused.value)


def test_an_error_of_ours_in_a_query_is_raised_where_the_query_is_waited_for(query_over_another_state: Any) -> None:
    for wait in (query_over_another_state.processAllAvailable, query_over_another_state.awaitTermination):
        with pytest.raises(IncompatibleStateError, match="2 hours") as refused:
            wait()
        trace = refused.value.jvm_trace or ""
        assert "StreamingQueryException" in trace, "Spark's own error is kept"
        assert "\tat " in trace


def test_the_exception_of_a_query_is_of_our_type(query_over_another_state: Any) -> None:
    with pytest.raises(IncompatibleStateError):
        query_over_another_state.processAllAvailable()
    error = query_over_another_state.exception()
    assert isinstance(error, IncompatibleStateError)
    assert "dev.mullion.MullionException" in (error.jvm_trace or "")


def test_errors_of_spark_stay_sparks(spark: SparkSession) -> None:
    with pytest.raises(PySparkException):
        spark.sql("SELECT nonsense")


def test_complete_mode_is_rejected_with_the_modes_there_are(spark: SparkSession, tmp_path: Path) -> None:
    writer = panes(spark, tmp_path, Tumbling("1 hour")).writeStream.format("noop").outputMode("complete")
    with pytest.raises(UnsupportedError, match=r"outputMode\('append'\)"):
        writer.start()


def test_a_frame_of_another_session_than_the_active_one_has_that_sessions_settings(spark: SparkSession) -> None:
    other = spark.newSession()
    other.conf.set("spark.sql.retainGroupColumns", "false")
    rows = other.createDataFrame([("a", 1), ("a", 2)], "k string, v int").withColumn("ts", F.timestamp_seconds("v"))
    spark.createDataFrame([(1,)], "v int")  # makes its session the active one
    panes = windowed(rows, Tumbling("10 seconds"), by="k", time="ts").agg(
        F.count("*").alias("n"), F.sum("v").alias("s")
    )
    both = together(a=panes, b=panes)
    assert panes.columns == ["k", "window", "pane", "n", "s"]
    assert both.columns == ["window_name", "k", "window", "pane", "n", "s"]
    assert [(row.n, row.s) for row in both.collect()] == [(2, 3), (2, 3)]
