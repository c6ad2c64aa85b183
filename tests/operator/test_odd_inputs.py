"""Keys and rows that few streams have: the result of Spark's windows, or an error before the query starts."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion import Early, Tumbling, together, topics, windowed
from mullion.errors import MullionError
from tests.support.clocked import ClockedQuery
from tests.support.streams import SECOND, Feed

KEYS = ["a", "A", "a\0b", "a\0", "", "ä" * 10_000, "x" * 9_999 + "y", "7", None]

ODD = {
    "strings with NUL, and of 10,000 characters": "k",
    "maps, whatever the order of their keys": "if(length(k) > 3, map('a', k, 'b', ''), map('b', '', 'a', k))",
    "structs": "named_struct('name', k, 'inner', named_struct('long', length(k), 'none', cast(null as int)))",
    "decimals of 38 digits": "cast(length(k) as decimal(38, 18)) / 7",
    "arrays": "array(k, reverse(k))",
    "binary": "cast(k as binary)",
    "floats with every zero and NaN": "case length(k) when 1 then -0.0D when 0 then 0.0D when 4 then double('NaN') end",
    "intervals": "make_dt_interval(length(k))",
}


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    feed = Feed(tmp_path / "in", "k string")
    for number in range(3):
        feed.write((number * SECOND * 4 + i * SECOND, key) for i, key in enumerate(KEYS + KEYS[:number]))
    feed.flood()
    return feed


def closes(panes: DataFrame, checkpoint: Path) -> list[Any]:
    with ClockedQuery(panes, checkpoint=checkpoint) as query:
        return [row for row in query.settle() if row.pane.firing == "close"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("key", ODD)
def test_keys_that_few_streams_have_are_grouped_as_spark_groups_them(
    spark: SparkSession, tmp_path: Path, feed: Feed, key: str
) -> None:
    def keyed(rows: DataFrame) -> DataFrame:
        return rows.withColumn("key", F.expr(ODD[key]))

    stream = windowed(keyed(feed.stream(spark)), Tumbling("10 seconds"), by="key", time="ts")
    got = closes(stream.agg(F.count("*").alias("n"), F.max("t").alias("last")), tmp_path / "checkpoint")
    plain = keyed(feed.batch(spark)).groupBy("key", F.window("ts", "10 seconds"))
    wanted = plain.agg(F.count("*").alias("n"), F.max("t").alias("last")).collect()

    def shown(rows: list[Any]) -> Counter[str]:
        def plain(value: Any) -> Any:
            return sorted(value.items()) if isinstance(value, dict) else value

        return Counter(repr((plain(row.key), row.window.start, row.n, row.last)) for row in rows)

    assert shown(got) == shown(wanted)
    assert len(wanted) > 3


@pytest.mark.parametrize("key", ["k collate UTF8_LCASE", "parse_json('1')"])
def test_keys_without_a_unique_binary_form_are_rejected_when_the_window_is_defined(
    spark: SparkSession, feed: Feed, key: str
) -> None:
    rows = feed.stream(spark).withColumn("key", F.expr(key))
    with pytest.raises((MullionError, AnalysisException), match=r"(?i)key|group"):
        windowed(rows, Tumbling("10 seconds"), by="key", time="ts").agg(F.count("*"))


def test_windows_of_a_microsecond_hold_a_row_each(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "k string")
    feed.write((SECOND + i, "a") for i in range(50))
    feed.write((SECOND + i, "a") for i in range(50, 60))
    feed.flood()
    panes = windowed(feed.stream(spark), Tumbling("1 microsecond"), by="k", time="ts").agg(F.count("*").alias("n"))
    assert [row.n for row in closes(panes, tmp_path / "checkpoint")] == [1] * 60


def test_days_on_which_clocks_change_have_the_hours_that_they_have(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "k string")
    # Half hours of the last days of March and October 2024, in Berlin.
    for begin in (1711753200, 1729893600):
        feed.write(((begin + 1800 * i) * SECOND, "a") for i in range(3 * 48))
    feed.flood()
    days = windowed(feed.stream(spark), Tumbling("1 day", timezone="Europe/Berlin"), by="k", time="ts")
    rows = closes(days.agg(F.count("*").alias("n")), tmp_path / "checkpoint")
    hours = [(row.window.end - row.window.start).total_seconds() / 3600 for row in rows]
    assert sorted(set(hours)) == [23.0, 24.0, 25.0]
    assert sum(row.n for row in rows) == 2 * 3 * 48


def test_five_hundred_columns_are_aggregated_side_by_side(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "k string")
    feed.write((i * SECOND, "a") for i in range(4))
    feed.flood()
    wide = feed.stream(spark).select("*", *((F.col("t") + i).alias(f"c{i}") for i in range(500)))
    panes = windowed(wide, Tumbling("10 seconds"), by="k", time="ts").agg(
        *(F.max(f"c{i}").alias(f"m{i}") for i in range(500))
    )
    (row,) = closes(panes, tmp_path / "checkpoint")
    assert [row[f"m{i}"] for i in range(500)] == [3 * SECOND + i for i in range(500)]


@pytest.mark.slow
@pytest.mark.parametrize(("windows", "rows"), [(100, 100), (1000, 20)])
def test_many_windows_in_one_query_are_one_operator(
    spark: SparkSession, tmp_path: Path, windows: int, rows: int
) -> None:
    feed = Feed(tmp_path / "in", "k string")
    feed.write((i * SECOND, "a") for i in range(rows))
    feed.flood()
    stream = feed.stream(spark)
    panes = together(
        **{
            f"w{n}": windowed(stream, Tumbling(f"{n} seconds"), by="k", time="ts").agg(F.count("*").alias("n"))
            for n in range(1, windows + 1)
        }
    )
    by_window = Counter({f"w{n}": 0 for n in range(1, windows + 1)})
    for row in closes(panes, tmp_path / "checkpoint"):
        by_window[row.window_name] += row.n
    assert set(by_window.values()) == {rows}


@pytest.mark.slow
def test_a_stream_of_ten_thousand_columns_is_windowed(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "k string")
    feed.write((i * SECOND, "a") for i in range(4))
    feed.flood()
    wide = feed.stream(spark).select("*", *((F.col("t") + i).alias(f"c{i}") for i in range(10_000)))
    panes = windowed(wide, Tumbling("10 seconds"), by="k", time="ts").agg(
        F.max("c0").alias("first"), F.max("c9999").alias("last"), F.count("*").alias("n")
    )
    (row,) = closes(panes, tmp_path / "checkpoint")
    assert (row.first, row.last, row.n) == (3 * SECOND, 3 * SECOND + 9_999, 4)


@pytest.mark.slow
def test_a_second_query_on_a_checkpoint_stops_the_first_and_continues_from_there(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed = Feed(tmp_path / "in", "k string")
    feed.write([(SECOND, "a")])
    panes = windowed(feed.stream(spark), Tumbling("10 seconds"), by="k", time="ts").agg(F.count("*").alias("n"))
    with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as first:
        assert first.settle() == []
        with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as second:
            assert second.settle() == []
            assert not first.java_query.isActive()
            feed.write([(2 * SECOND, "a")])
            feed.flood()
            assert [row.n for row in second.settle() if row.pane.firing == "close"] == [2]


def test_a_checkpoint_restored_from_an_older_copy_continues_from_there(spark: SparkSession, tmp_path: Path) -> None:
    feed, checkpoint, copy = Feed(tmp_path / "in", "k string"), tmp_path / "checkpoint", tmp_path / "copy"
    rows = feed.stream(spark)
    early = Early(every="5 seconds")
    panes = windowed(rows, Tumbling("20 seconds"), by="k", time="ts", early=early)
    counted = panes.agg(F.count("*").alias("n"))

    def run() -> list[Any]:
        with ClockedQuery(counted, checkpoint=checkpoint) as query:
            return query.settle()

    feed.write([(1 * SECOND, "a"), (2 * SECOND, "b")])
    assert run() == []
    shutil.copytree(checkpoint, copy)
    for second in (8, 15, 24):
        feed.write([(second * SECOND, "a")])
    feed.flood()
    gone_on = run()
    assert [(r.k, r.n) for r in gone_on if r.pane.firing == "close"] == [("a", 3), ("b", 1), ("a", 1)]
    # The same session has the state of the later batches in memory.
    shutil.rmtree(checkpoint)
    shutil.copytree(copy, checkpoint)
    assert run() == gone_on


def test_times_at_the_ends_of_their_range_come_through_files_and_topics_as_they_are(
    spark: SparkSession, tmp_path: Path
) -> None:
    ends = [-(2**63) + 1, -62_135_596_800_000_001, 0, 253_402_300_800_000_000, 2**63 - 1]
    rows = spark.createDataFrame([(us, "a") for us in ends], "us bigint, k string")
    timed = rows.withColumn("ts", F.timestamp_micros("us")).repartition(1)
    panes = windowed(timed, Tumbling("1 second"), by="us", time="ts").agg(
        F.min("ts").alias("at"), F.count("*").alias("n")
    )
    at = panes.select("us", "at", "n", F.unix_micros("window.start").alias("start"))
    at.write.parquet(str(tmp_path / "panes"))
    got = spark.read.parquet(str(tmp_path / "panes")).select("us", F.unix_micros("at").alias("at"), "n", "start")
    panes_by_time = {row.us: row for row in got.collect()}
    assert set(panes_by_time) <= set(ends)
    assert all(
        row.at == us and row.n == 1 and row.start <= us < row.start + SECOND for us, row in panes_by_time.items()
    )
    assert set(ends[1:4]) <= set(panes_by_time)
    broker = topics.broker(f"dir:{tmp_path / 'topics'}")
    topics.produce(broker, "ends", pa.table({"at": pa.array(ends, pa.timestamp("us", "UTC"))}))
    times = broker.stream(spark, "ends").select(F.unix_micros("at").alias("at"))
    query = times.writeStream.format("memory").queryName("ends_of_time").trigger(availableNow=True).start()
    query.awaitTermination()
    assert sorted(row["at"] for row in spark.table("ends_of_time").collect()) == ends
