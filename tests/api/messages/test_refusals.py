"""Errors that only the plan or the running query shows, with the value and the fix; and times at the ends of the range
of timestamps, which are valid.

Errors of the arguments are in test_api_validation.py, changed queries over old checkpoints in test_restart.py, and
operators around a window in test_chaining.py.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import Window as Over
from pyspark.sql import functions as F

from mullion import (
    Around,
    DroppedRowsWarning,
    Early,
    InvalidArgumentError,
    MullionError,
    PerKey,
    Session,
    Sliding,
    Tumbling,
    UnknownColumnError,
    UnsupportedError,
    Watermark,
    windowed,
)
from mullion.windows import Window
from tests.support.checked import bounds_of, settings
from tests.support.clocked import ClockedQuery
from tests.support.models.model import Rules
from tests.support.streams import SECOND, Feed, batches_of

TEN = Tumbling("10 seconds")


@pytest.fixture(scope="module")
def stream(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    feed = Feed(tmp_path_factory.mktemp("in"), "k string, v int, other timestamp, m map<string, int>")
    files = spark.readStream.schema(feed.ddl).parquet(str(feed.folder))
    return files.withColumn("ts", F.timestamp_micros("t"))


@pytest.fixture(scope="module")
def rows(stream: DataFrame) -> DataFrame:
    return stream.withWatermark("ts", "1 minute")


def n() -> Column:
    return F.count("*").alias("n")


@pytest.mark.parametrize(
    ("gap", "why"),
    [
        ("make_dt_interval(0, 0, 0, rand() * 5)", "differs each time that it is computed"),
        ("make_dt_interval(0, 0, 0, max(v))", "more than one value for each row"),
        ("make_dt_interval(0, 0, 0, max(v) OVER (PARTITION BY k))", "more than one value for each row"),
    ],
)
def test_a_gap_that_is_no_value_of_its_row_is_rejected(rows: DataFrame, gap: str, why: str) -> None:
    with pytest.raises(InvalidArgumentError, match=why):
        windowed(rows, Session(F.expr(gap)), by="k", time="ts").agg(n())


def test_a_stream_without_a_watermark_is_rejected_with_the_call_that_sets_one(stream: DataFrame) -> None:
    with pytest.raises(InvalidArgumentError, match=r"event time ts, but the stream has no watermark") as refused:
        windowed(stream, TEN, by="k", time="ts").agg(n())
    assert "df.withWatermark('ts', '10 minutes') before windowed(...)" in str(refused.value)


def test_a_watermark_on_another_column_is_rejected_with_its_name(stream: DataFrame) -> None:
    with pytest.raises(InvalidArgumentError, match=r"event time ts, but the watermark is on other") as refused:
        windowed(stream.withWatermark("other", "1 minute"), TEN, by="k", time="ts").agg(n())
    assert "time='other'" in str(refused.value)
    assert "withWatermark('ts', ...) in the place of withWatermark('other', ...)" in str(refused.value)


@pytest.mark.parametrize(
    "clock",
    [
        {"time": None},
        {"time": "ts", "clock": Watermark(idle_after="1 minute")},
        {"time": "ts", "at_end": "close"},
        {"time": "ts", "clock": PerKey(wall_time=True)},
    ],
)
def test_panes_that_close_by_the_wall_clock_or_at_the_end_need_batches_without_rows(
    spark: SparkSession, rows: DataFrame, tmp_path: Path, clock: dict[str, Any]
) -> None:
    with settings(spark, {"spark.sql.streaming.noDataMicroBatches.enabled": "false"}):
        panes = windowed(rows, TEN, by="k", **clock).agg(n())
        with pytest.raises(UnsupportedError, match="noDataMicro"):
            ClockedQuery(panes, checkpoint=tmp_path)


def test_a_row_of_a_wrong_time_does_not_fill_the_years_with_windows(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "k string")
    panes = windowed(feed.stream(spark), Tumbling("1 second"), by="k", time="ts", empty="emit").agg(n())
    with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:
        feed.write([(0, "a"), (1_000_002 * SECOND, "a")])
        with pytest.raises(InvalidArgumentError, match=r"1000002 windows of one key .* limit is 1000000"):
            query.settle()


@pytest.mark.parametrize(
    ("after", "why"),
    [
        (
            lambda df: df.withColumn("ts", F.date_trunc("minute", "ts")),
            r"ts was computed anew after withWatermark\('ts', \.\.\.\), which removes the watermark.*"
            r"df\.withColumn\('ts', \.\.\.\)\.withWatermark\('ts', \.\.\.\)",
        ),
        (
            lambda df: df.drop("ts").withColumnRenamed("other", "then"),
            r"withWatermark\('ts', \.\.\.\) was called, and ts is no longer a column.*'ts'.*withWatermark\('then'",
        ),
    ],
    ids=["computed anew", "dropped"],
)
def test_a_watermark_that_was_lost_is_named_with_the_order_that_keeps_it(rows: DataFrame, after: Any, why: str) -> None:
    changed = after(rows)
    with pytest.raises(InvalidArgumentError, match=why):
        windowed(changed, TEN, by="k", time="ts" if "ts" in changed.columns else "then").agg(n())


def test_a_union_of_streams_with_and_without_a_watermark_names_the_call_on_each(
    stream: DataFrame, rows: DataFrame, tmp_path: Path
) -> None:
    with pytest.raises(InvalidArgumentError, match=r"of a union some have .*\('ts', \.\.\.\) on each stream"):
        windowed(stream.union(rows), TEN, by="k", time="ts").agg(n())
    both = windowed(stream.withWatermark("ts", "1 minute").union(rows), TEN, by="k", time="ts").agg(n())
    with ClockedQuery(both, checkpoint=tmp_path) as query:
        query.settle()


def test_a_time_named_by_the_frame_before_its_watermark_is_that_column(stream: DataFrame, tmp_path: Path) -> None:
    panes = windowed(stream.withWatermark("ts", "1 minute"), TEN, by="k", time=stream.ts).agg(n())
    with ClockedQuery(panes, checkpoint=tmp_path) as query:
        query.settle()


def test_a_time_that_is_no_timestamp_is_rejected_with_the_conversion(rows: DataFrame) -> None:
    with pytest.raises(InvalidArgumentError, match=r"time='t' is of type bigint") as refused:
        windowed(rows, TEN, by="k", time="t")
    assert "F.timestamp_millis('t')" in str(refused.value)


def test_an_unknown_column_inside_of_an_aggregate_is_rejected_with_the_one_that_is_meant(rows: DataFrame) -> None:
    with pytest.raises(UnknownColumnError, match=r"no column 'othr'\. Did you mean 'other'\?"):
        windowed(rows, TEN, by="k", time="ts").agg(F.max("othr"))


@pytest.mark.parametrize(
    ("of", "why"),
    [
        ("parse_json(k)", r"VARIANT, whose values Spark cannot compare\. .*to_json\(\.\.\.\)"),
        ("v, k COLLATE UTF8_LCASE", r"collation under which different texts are equal .*lower\(\.\.\.\)"),
    ],
)
def test_distinct_values_that_cannot_be_compared_are_rejected_with_a_form_that_can(
    rows: DataFrame, of: str, why: str
) -> None:
    with pytest.raises(UnsupportedError, match=rf"count\(DISTINCT .*compares .*{why}"):
        windowed(rows, TEN, by="k", time="ts").agg(F.expr(f"count(DISTINCT {of})").alias("d"))


def test_a_nested_aggregate_is_rejected_with_the_workaround(rows: DataFrame) -> None:
    with pytest.raises(InvalidArgumentError, match="Aggregate the inner one first"):
        windowed(rows, TEN, by="k", time="ts").agg(F.max(F.count("v") + 1))


# PySpark's advice on type hints, which it cannot read from a module with postponed annotations.
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_pandas_aggregate_is_rejected_with_the_ways_round(rows: DataFrame) -> None:
    def mean(values: pd.Series) -> float:
        return float(values.mean())

    mean.__annotations__ = {"values": pd.Series, "return": float}
    udaf = F.pandas_udf(mean, "double")  # type: ignore[attr-defined]
    with pytest.raises(UnsupportedError, match=r"mean is a pandas aggregate function.* collect_list"):
        windowed(rows, TEN, by="k", time="ts").agg(udaf("v").alias("mean"))


@pytest.mark.parametrize(
    ("aggregates", "name"),
    [
        (lambda: [F.sum("v").alias("x"), F.max("v").alias("x")], "x"),
        (lambda: [F.sum("v").alias("x"), F.max("v").alias("X")], "x"),
        (lambda: [F.sum("v"), F.sum("v")], "sum(v)"),
        (lambda: [F.sum("v").alias("K")], "k"),
    ],
)
def test_two_columns_of_one_name_are_rejected_with_the_name(rows: DataFrame, aggregates: Any, name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"2 columns named .*alias\('\.\.\.'\)") as refused:
        windowed(rows, TEN, by="k", time="ts").agg(*aggregates())
    assert f"'{name}'" in str(refused.value)


def test_two_keys_of_one_name_are_rejected_with_the_name(rows: DataFrame) -> None:
    with pytest.raises(InvalidArgumentError, match="2 columns named 'k'"):
        windowed(rows, TEN, by=["k", F.upper("k").alias("k")], time="ts").agg(n())


@pytest.mark.parametrize("name", ["window", "pane", "late_row", "WINDOW"])
def test_a_name_of_the_result_is_rejected_for_an_aggregate(rows: DataFrame, name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"named '{name}'.*alias\('\.\.\.'\)"):
        windowed(rows, TEN, by="k", time="ts", late="emit").agg(F.count("*").alias(name))


@pytest.mark.parametrize(
    ("key", "form"),
    [
        ("collate(k, 'UTF8_LCASE')", "F.expr(\"lower(CAST(text AS STRING))\").alias('text')"),
        (
            "struct(v, collate(k, 'UNICODE_CI') AS s)",
            "F.expr(\"CAST(text AS STRUCT<v: INT, s: STRING>)\").alias('text')",
        ),
    ],
)
def test_a_key_whose_equality_is_not_of_bytes_is_rejected_with_a_form_that_is(
    rows: DataFrame, key: str, form: str
) -> None:
    with pytest.raises(UnsupportedError, match=rf"The key text has a collation .* Group by {re.escape(form)}"):
        windowed(rows.withColumn("text", F.expr(key)), TEN, by="text", time="ts").agg(n())


@pytest.mark.parametrize(
    "aggregate",
    [
        lambda: F.explode(F.collect_list("v")).alias("x"),
        lambda: F.sum(F.sum("v")).over(Over.partitionBy("k")).alias("x"),
    ],
    ids=["explode", "over"],
)
def test_operators_over_the_aggregates_are_rejected_with_the_workaround(rows: DataFrame, aggregate: Any) -> None:
    with pytest.raises(MullionError, match=r"result of windowed\(\.\.\.\)\.agg\(\.\.\.\)"):
        windowed(rows, TEN, by="k", time="ts").agg(aggregate())


def test_a_subquery_in_an_aggregate_is_rejected_with_the_workaround(spark: SparkSession, rows: DataFrame) -> None:
    most = spark.range(3).agg(F.max("id")).scalar()
    with pytest.raises(UnsupportedError, match=r"is a subquery.*df\.withColumn\(\.\.\.\), or join the table"):
        windowed(rows, TEN, by="k", time="ts").agg((F.sum("v") + most).alias("x"))


def test_a_key_that_is_an_aggregate_is_rejected(rows: DataFrame) -> None:
    with pytest.raises(InvalidArgumentError):
        windowed(rows, TEN, by=F.max("v").alias("most"), time="ts").agg(n())


def test_a_key_that_is_a_session_of_sparks_is_rejected_with_ours(spark: SparkSession, rows: DataFrame) -> None:
    """Spark merges such sessions only in its own aggregates. As a key, each row would have its own session."""
    session = F.session_window("ts", "10 seconds")
    before = rows.withColumn("s", session)
    keys: list[tuple[DataFrame, Any]] = [
        (rows, session.alias("s")),
        (rows, session.getField("start").alias("s")),
        (before, "s"),
        (before.withColumnRenamed("s", "r"), "r"),
        (before.select("k", "ts", F.col("s.end").alias("e"), "s"), F.struct("s").alias("t")),
    ]
    for frame, key in keys:
        with pytest.raises(UnsupportedError, match=r"session_window.*Session\(gap\)"):
            windowed(frame, TEN, by=["k", key], time="ts").agg(n())
    # The result of an aggregate has merged sessions, which can be a key.
    merged = rows.groupBy("k", session.alias("s")).agg(n())
    with pytest.warns(DroppedRowsWarning):
        panes = windowed(merged, TEN, by=["k", F.col("s").alias("key")], time="s").agg(n())
    assert panes.columns[1] == "key"


def test_a_key_that_is_an_interval_and_may_be_null_is_rejected_with_forms_that_may(rows: DataFrame) -> None:
    interval = F.expr("CASE WHEN v > 0 THEN make_interval(0, 0, 0, v) END")
    for key in (interval, F.struct(interval), F.array(F.expr("make_interval(0, 0, 0, 1)"))):
        with pytest.raises(UnsupportedError, match=r"key length .* make_dt_interval .*'length'\)\.cast\('string'\)"):
            windowed(rows, TEN, by=key.alias("length"), time="ts").agg(n())
    windowed(rows, TEN, by=interval.cast("string").alias("length"), time="ts").agg(n())
    windowed(rows, TEN, by=F.expr("make_dt_interval(v)").alias("length"), time="ts").agg(n())


LEAST, MOST = -(2**63), 2**63 - 1
ENDS = [
    *(LEAST + i for i in (0, 1, SECOND, 10 * SECOND)),
    *(MOST - i for i in (0, 1, SECOND, 10 * SECOND)),
    *(edge + i for edge in (-62135596800000000, 253402300800000000) for i in (-1, 0, 1)),  # the years 1 and 9999
]


def windows_at_the_ends() -> Iterator[Tumbling | Sliding]:
    for size, slide, offset in itertools.product((1, 3, 86400), (1, 2, 7, 86400), (0, 5)):
        if size / slide <= 10:
            gaps = slide > size
            yield Sliding(f"{size} seconds", f"{slide} seconds", offset=f"{offset} seconds", gaps=gaps)
    yield Tumbling("1 microsecond")
    yield Tumbling("200000 days", offset="-1 microsecond")
    yield Tumbling(f"{MOST} microseconds")
    yield Sliding(f"{MOST} microseconds", f"{MOST // 3} microseconds")


def clamped(start: int, end: int) -> tuple[int, int]:
    return max(start, LEAST), min(end, MOST)


def windows_of(window: Tumbling | Sliding, t: int) -> Counter[tuple[int, int]]:
    """The windows that hold a time, computed with integers of any size."""
    size, slide = (window.size_us, window.slide_us) if isinstance(window, Sliding) else (window.size_us,) * 2
    start = (t - window.offset_us) // slide * slide + window.offset_us
    return Counter(clamped(s, s + size) for s in range(start, t - size, -slide))


def test_times_at_the_ends_of_their_range_neither_wrap_nor_fail_in_a_batch(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(t,) for t in ENDS], "t bigint").withColumn("ts", F.timestamp_micros("t"))

    def panes_in_a_batch(window: Window) -> dict[int, Counter[tuple[int, int]]]:
        panes = windowed(rows, window, by="t", time="ts", allowed_lateness="1 day").agg(n())
        panes_by_time = {t: Counter[tuple[int, int]]() for t in ENDS}
        for row in panes.select("t", *bounds_of("window"), "n").collect():
            assert row.n == 1, window
            panes_by_time[row.t][row.start, row.end] += 1
        return panes_by_time

    for window in windows_at_the_ends():
        # Windows that would begin before the first timestamp are clamped to it, and none is missing.
        assert panes_in_a_batch(window) == {t: windows_of(window, t) for t in ENDS}, window
    around = panes_in_a_batch(Around("10 seconds", "5 seconds"))
    assert around == {t: Counter([clamped(t - 10 * SECOND, t + 5 * SECOND + 1)]) for t in ENDS}


@pytest.mark.parametrize("window", [TEN, Sliding("10 seconds", "5 seconds"), Session("3 seconds")])
def test_what_ends_at_the_end_of_time_is_kept_once_however_many_batches_come(
    spark: SparkSession, tmp_path: Path, window: Window
) -> None:
    feed = Feed(tmp_path / "in", "k string")
    panes = windowed(feed.stream(spark), window, by="k", time="ts", early=Early(each_row=True)).agg(n())
    with ClockedQuery(panes.select("n"), checkpoint=tmp_path / "checkpoint") as query:
        for _ in range(4):
            feed.write([(MOST - 1, "a"), (MOST - SECOND, "b")])
            query.settle()
        assert len({report["numRowsTotal"] for report in batches_of(query)}) == 1


@pytest.mark.parametrize(("slide", "offset"), [(10, 0), (4, 1)], ids=["tumbling", "sliding"])
def test_times_at_the_ends_of_their_range_neither_wrap_nor_fail_in_a_stream(
    spark: SparkSession, tmp_path: Path, slide: int, offset: int
) -> None:
    feed = Feed(tmp_path / "in", "k string")
    rules = Rules(10 * SECOND, slide * SECOND, offset * SECOND, lateness=SECOND)
    window = Sliding("10 seconds", f"{slide} seconds", offset=f"{offset} seconds")
    panes = windowed(feed.stream(spark), window, by="k", time="ts", allowed_lateness="1 second", late="emit").agg(
        F.sort_array(F.collect_list("t")).alias("times")
    )
    shown = panes.select("k", *bounds_of("window"), "pane", "times", F.col("late_row.t").alias("late"))
    with ClockedQuery(shown, checkpoint=tmp_path / "checkpoint") as query:
        # The first rows have the first timestamps: their panes end before the epoch and close at once.
        feed.write([(t, "first") for t in ENDS if t < 0])
        first = query.settle()
        # A row with the last timestamp moves the clock there. Panes that end there stay open: no clock is later.
        feed.write([(t, "last") for t in ENDS if t > 0])
        last = query.settle()
        feed.write([(t, "again") for t in ENDS])
        again = query.settle()
    clock = MOST // 1000 * 1000
    closing = {t: [rules.closes(start) <= clock for start in rules.starts(t)] for t in ENDS}

    for fired, key in ((first, "first"), (last, "last")):
        assert {row.k for row in fired} == {key}
        counts = Counter[tuple[int, tuple[int, int]]]()
        for row in fired:
            assert row.pane.firing == "close"
            counts.update((t, (row.start, row.end)) for t in row.times)
        of = [(t, bounds) for t in ENDS if (t < 0) == (key == "first") for bounds in windows_of(window, t)]
        assert counts == Counter((t, (start, end)) for t, (start, end) in of if rules.closes(end - rules.size) <= clock)
    assert {t for row in first for t in row.times} == {t for t in ENDS if t < 0}
    assert {t for row in last for t in row.times} == {t for t in ENDS if t > 0 and any(closing[t])}
    assert {row.late for row in again} == {t for t in ENDS if all(closing[t])}
