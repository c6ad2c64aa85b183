"""Custom windows from a column and from a function: their ranges, and the errors of unsupported and invalid ones."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion import (
    Custom,
    FunctionError,
    IncompatibleStateError,
    InvalidArgumentError,
    Tumbling,
    UnsupportedError,
    read_panes,
    windowed,
)
from mullion import functions as MF
from mullion.windows import RangesOf
from tests.support.clocked import ClockedQuery
from tests.support.streams import SECOND, Feed

NEW_YORK = ZoneInfo("America/New_York")


def shifts_in(zone: tzinfo) -> tuple[RangesOf, RangesOf]:
    # Local functions, so that cloudpickle sends them by value: workers do not have this module.
    def business_hours(time: datetime) -> list[tuple[datetime, datetime]]:
        """From nine to five."""
        local = time.astimezone(zone)
        if not 9 <= local.hour < 17:
            return []
        nine, five = (local.replace(hour=hour, minute=0, second=0, microsecond=0) for hour in (9, 17))
        return [(nine, five)]

    def night_shift(time: datetime) -> list[tuple[datetime, datetime]]:
        """From ten in the evening to six in the morning, also if clocks change in between."""
        local = time.astimezone(zone)
        evening = local.replace(hour=22, minute=0, second=0, microsecond=0)
        if local.hour < 6:
            evening -= timedelta(days=1)
        elif local.hour < 22:
            return []
        return [(evening, (evening + timedelta(days=1)).replace(hour=6))]

    return business_hours, night_shift


business_hours, night_shift = shifts_in(NEW_YORK)


def rows_at(spark: SparkSession, *times: str) -> DataFrame:
    """Rows at times in ISO 8601 with offsets from UTC."""
    return spark.createDataFrame([(i, time) for i, time in enumerate(times)], "id int, t string").select(
        "id", F.to_timestamp("t").alias("ts")
    )


def shown(panes: DataFrame) -> list[tuple[Any, ...]]:
    text = [F.date_format(f"window.{bound}", "MM-dd HH:mm") for bound in ("start", "end")]
    return sorted(map(tuple, panes.select(*text, "ids").collect()))


def test_business_hours_are_windows_by_a_function_and_rows_outside_are_in_none(spark: SparkSession) -> None:
    # In winter New York is five hours behind UTC, and in summer four; the clocks changed on 10 March.
    rows = rows_at(
        spark,
        "2013-03-08T13:59:59Z",
        "2013-03-08T14:00:00Z",
        "2013-03-08T21:59:59Z",
        "2013-03-08T22:00:00Z",
        "2013-03-11T12:59:59Z",
        "2013-03-11T13:00:00Z",
        "2013-03-11T20:59:59Z",
        "2013-03-11T21:00:00Z",
    )
    panes = windowed(rows, Custom(business_hours), time="ts").agg(F.expr("sort_array(collect_list(id)) AS ids"))
    assert shown(panes) == [("03-08 14:00", "03-08 22:00", [1, 2]), ("03-11 13:00", "03-11 21:00", [5, 6])]


def test_a_window_over_the_change_of_clocks_is_as_long_as_that_night(spark: SparkSession) -> None:
    rows = rows_at(
        spark, "2013-03-10T04:00:00Z", "2013-03-10T09:59:00Z", "2013-11-03T10:59:00Z", "2013-11-03T11:00:00Z"
    )
    panes = windowed(rows, Custom(night_shift), time="ts").agg(F.expr("sort_array(collect_list(id)) AS ids"))
    assert shown(panes) == [("03-10 03:00", "03-10 10:00", [0, 1]), ("11-03 02:00", "11-03 11:00", [2])]


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu", "America/New_York"])
def test_a_function_gets_and_gives_times_in_no_zone_but_its_own(spark: SparkSession, zone: str) -> None:
    text = "2013-03-10T07:30:00.123456Z"

    def around(time: datetime) -> list[tuple[datetime, datetime]]:
        assert time == datetime.fromisoformat(text)
        assert time.tzinfo == UTC
        return [(time - timedelta(microseconds=1), time.astimezone(NEW_YORK) + timedelta(microseconds=1))]

    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        window = windowed(rows_at(spark, text), Custom(around), time="ts").agg(F.expr("count(*) AS n")).select("window")
        bounds = window.select(F.unix_micros("window.start"), F.unix_micros("window.end")).collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))
    us = int(datetime.fromisoformat(text).timestamp()) * SECOND + 123456
    assert [tuple(row) for row in bounds] == [(us - 1, us + 1)]


def test_ranges_may_be_a_column_by_name_and_of_a_window_column_too(spark: SparkSession) -> None:
    rows = rows_at(spark, "2013-01-01T10:07:00Z", "2013-01-01T10:12:00Z").withColumn(
        "shifts", MF.windows("ts", "10 minutes", "5 minutes")
    )
    by_name = windowed(rows, Custom("shifts"), time="ts").agg(F.expr("sort_array(collect_list(id)) AS ids"))
    assert len(by_name.collect()) == 3
    tumbling = windowed(rows, Tumbling("5 minutes"), time="ts").agg(F.min("id").alias("id"))

    def next_hour(time: datetime) -> list[tuple[datetime, datetime]]:
        return [(time, time + timedelta(hours=1))]

    chained = windowed(tumbling, Custom(next_hour), time="window").agg(F.expr("sort_array(collect_list(id)) AS ids"))
    starts = chained.select(F.date_format("window.start", "HH:mm:ss.SSSSSS")).collect()
    assert sorted(row[0] for row in starts) == ["10:09:59.999999", "10:14:59.999999"]


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda time: [time], "which is not a list of ranges"),
        (lambda time: [(time, 5)], r"returned 5 \(int\) for the time"),
        (lambda time: [(time, datetime(2013, 1, 1))], "a datetime without time zone"),
        (
            lambda time: 1 / 0,
            r"failed for the time 2013-01-01 10:00.*: ZeroDivisionError: .*, at .*\.py:\d",
        ),
        (lambda time: 5, "TypeError: 'int' object is not iterable"),
    ],
)
def test_a_function_that_gives_no_ranges_fails_with_what_it_gave(
    spark: SparkSession, function: Callable[[datetime], Any], why: str
) -> None:
    panes = windowed(rows_at(spark, "2013-01-01T10:00:00Z"), Custom(function), time="ts").agg(F.expr("count(*) AS n"))
    with pytest.raises(FunctionError, match=rf"^The function <lambda> .*{why}"):
        panes.collect()


@pytest.mark.parametrize("sink", ["noop", "foreachBatch"])
def test_a_function_that_fails_in_a_stream_is_named_also_within_the_function_of_a_sink(
    spark: SparkSession, tmp_path: Path, sink: str
) -> None:
    def shifts_of(time: datetime) -> list[tuple[datetime, datetime]]:
        raise KeyError("no such day")

    rows = rows_at(spark, "2013-01-01T10:00:00Z")
    rows.write.parquet(str(tmp_path / "rows"))
    stream = spark.readStream.schema(rows.schema).parquet(str(tmp_path / "rows"))
    panes = windowed(stream.withWatermark("ts", "1 minute"), Custom(shifts_of), time="ts").agg(F.expr("count(*) AS n"))
    writer = panes.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)

    def put(batch: DataFrame, _: int) -> None:
        batch.collect()

    writer = writer.format("noop") if sink == "noop" else writer.foreachBatch(put)
    query = writer.start()
    says = (
        r"^The function shifts_of failed for the time 2013-01-01 10:00:00\+00:00: KeyError: 'no such day', at .*\.py:\d"
    )
    with pytest.raises(FunctionError, match=says):
        query.awaitTermination()
    assert isinstance(query.exception(), FunctionError)


def test_a_time_that_python_cannot_hold_is_not_guessed(spark: SparkSession) -> None:
    rows = spark.range(1).select(F.timestamp_seconds(F.lit(10**12)).alias("ts"))
    with pytest.raises(FunctionError, match="years 1 to"):
        windowed(rows, Custom(business_hours), time="ts").agg(F.expr("count(*) AS n")).collect()


@pytest.mark.parametrize("conf", [{}, {"spark.sql.codegen.wholeStage": "false"}], ids=["generated", "interpreted"])
@pytest.mark.parametrize(
    ("ranges", "why"),
    [
        ("array(struct(ts AS start, ts AS end))", "ends at 1970-01-01T00:00:01Z, and must end after its start"),
        ("array(struct(ts AS start, ts - INTERVAL 1 SECOND AS end))", "starts at 1970-01-01T00:00:01Z"),
        ("array(struct(ts AS start, CAST(NULL AS TIMESTAMP) AS end))", "has a null in it"),
        ("array(if(id < 0, struct(ts AS start, ts AS end), NULL))", "has a null in it"),
    ],
)
def test_a_range_that_is_none_fails_the_query_and_is_shown(
    spark: SparkSession, tmp_path: Path, ranges: str, why: str, conf: dict[str, str]
) -> None:
    feed = Feed(tmp_path / "in", "id int")
    feed.write([(SECOND, 1)])
    for name, value in conf.items():
        spark.conf.set(name, value)
    try:
        panes = windowed(feed.stream(spark), Custom(F.expr(ranges)), time="ts").agg(F.expr("count(*) AS n"))
        with (
            ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query,
            pytest.raises(InvalidArgumentError, match=why),
        ):
            query.settle()
    finally:
        for name in conf:
            spark.conf.unset(name)


@pytest.mark.parametrize(
    ("ranges", "why"),
    [
        ("id", "is of type int, and must be an array<struct<start: timestamp, end: timestamp>>"),
        ("times", "is of type array<timestamp>"),
        ("pairs", "is of type array<struct<ts:timestamp,ts:timestamp>>"),
        ("shift", "the input has no column 'shift'"),
    ],
)
def test_a_column_that_holds_no_ranges_is_rejected(spark: SparkSession, ranges: str, why: str) -> None:
    rows = rows_at(spark, "2013-01-01T10:00:00Z")
    rows = rows.select("*", F.array("ts").alias("times"), F.array(F.struct("ts", "ts")).alias("pairs"))
    with pytest.raises(InvalidArgumentError, match=why):
        windowed(rows, Custom(ranges), time="ts")


def test_ranges_of_several_rows_are_rejected(spark: SparkSession) -> None:
    rows = rows_at(spark, "2013-01-01T10:00:00Z").withColumn("r", MF.windows("ts", "1 hour"))
    for ranges in (F.max("r"), F.explode(F.array("r"))):
        with pytest.raises(InvalidArgumentError, match="more than one value for each row"):
            windowed(rows, Custom(ranges), time="ts").agg(F.expr("count(*) AS n"))
    with pytest.raises(InvalidArgumentError, match="differs each time that it is computed"):
        windowed(rows, Custom(F.shuffle("r")), time="ts").agg(F.expr("count(*) AS n"))


def test_custom_windows_on_processing_time_are_rejected(spark: SparkSession) -> None:
    with pytest.raises(UnsupportedError, match="Custom windows need event time"):
        windowed(rows_at(spark, "2013-01-01T10:00:00Z"), Custom("r"), time=None)


def test_the_window_is_said_in_words_in_the_plan(
    spark: SparkSession, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    feed = Feed(tmp_path / "in", "id int")
    windowed(feed.stream(spark), Custom(MF.windows("ts", "1 hour")), time="ts").agg(F.expr("count(*) AS n")).explain()
    assert "custom by mullion_windows(ts, '1 hour', '1 hour'), closes at its end" in capsys.readouterr().out
    windowed(feed.stream(spark), Custom(business_hours), time="ts").agg(F.expr("count(*) AS n")).explain()
    assert "custom by the function business_hours, closes at its end" in capsys.readouterr().out


def test_state_is_identified_by_the_expression_of_the_ranges(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "id int")

    def started(ranges: Custom) -> ClockedQuery:
        panes = windowed(feed.stream(spark), ranges, time="ts").agg(F.expr("count(*) AS n"))
        return ClockedQuery(panes, checkpoint=tmp_path / "checkpoint")

    day = timedelta(days=1).total_seconds() * SECOND
    with started(Custom(business_hours)) as query:
        feed.write([(int(day + 15 * 3600 * SECOND), 1), (int(day + 3600 * SECOND), 2)])
        query.settle()
    (pane,) = read_panes(tmp_path / "checkpoint", spark=spark).select(F.unix_micros("window.end"), "n").collect()
    assert tuple(pane) == (int(day + 22 * 3600 * SECOND), 1)
    feed.write([(int(day + 16 * 3600 * SECOND), 3)])
    for other in (Custom(night_shift), Custom(MF.windows("ts", "1 hour"))):
        with started(other) as query, pytest.raises(IncompatibleStateError, match="custom by the function business"):
            query.settle()
    with started(Custom(business_hours)) as query:
        query.settle()
        feed.write([(int(3 * day), 4)])
        (closed,) = query.settle()
        assert closed.n == 2


def test_ranges_may_be_computed_by_a_udf_and_survive_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "id int")

    def next_hour(us: int) -> list[tuple[int, int]]:
        return [(us, us + 3600 * 1_000_000)]

    def started() -> ClockedQuery:
        ranges = F.udf(next_hour, "array<struct<a: bigint, b: bigint>>", useArrow=False)(F.unix_micros("ts"))
        bounds = F.transform(
            ranges,
            lambda r: F.struct(F.timestamp_micros(r["a"]).alias("start"), F.timestamp_micros(r["b"]).alias("end")),
        )
        panes = windowed(feed.stream(spark), Custom(bounds), time="ts").agg(F.expr("count(*) AS n"))
        return ClockedQuery(panes, checkpoint=tmp_path / "checkpoint")

    with started() as query:
        feed.write([(SECOND, 1), (SECOND, 2)])
        query.settle()
    with started() as query:
        feed.write([(7200 * SECOND, 3)])
        (closed,) = query.settle()
    assert closed.n == 2


@pytest.mark.usefixtures("spark")
def test_custom_is_a_value() -> None:
    column = F.col("ts")
    assert Custom("shifts") == Custom("shifts") != Custom("other")
    assert Custom(column) == Custom(column) != Custom(F.col("ts"))
    assert Custom(business_hours) == Custom(business_hours) != Custom(night_shift)
    assert len({Custom("shifts"), Custom("shifts"), Custom(column), Custom(column), Custom(night_shift)}) == 3
    assert repr(Custom(business_hours)) == "Custom(business_hours)"
    assert repr(Custom("shifts")) == "Custom('shifts')"
    assert repr(Custom(column)) == f"Custom({column!r})"
    with pytest.raises(AttributeError):
        Custom("shifts").ranges = "other"  # type: ignore[misc]
    with pytest.raises(InvalidArgumentError, match=r"ranges=5 \(int\) is neither a column nor a function"):
        Custom(5)  # type: ignore[arg-type]
