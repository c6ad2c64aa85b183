"""Windows without rows for the keys of a table: ``empty=EmitFor(...)``."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion import EmitFor, InvalidArgumentError, Session, Sliding, Tumbling, UnsupportedError, windowed
from tests.support.clocked import ClockedQuery
from tests.support.seeds import SEED
from tests.support.streams import Feed, batches_of


def keys_of(spark: SparkSession, *names: str | None) -> DataFrame:
    return spark.createDataFrame([(name, 0) for name in names], "k string, other int")


def counted(rows: DataFrame, window: Tumbling | Sliding, empty: Any) -> DataFrame:
    return windowed(rows, window, by="k", time="ts", empty=empty).agg(
        F.count("*").alias("n"), F.sum("v").alias("total")
    )


@pytest.mark.parametrize("number", range(3))
def test_a_batch_has_the_windows_of_all_rows_for_each_key_of_the_table(spark: SparkSession, number: int) -> None:
    rng = random.Random(f"{SEED} empty for {number}")
    size = rng.randrange(2, 9)
    slide = rng.choice([size, rng.randrange(1, size + 1)])
    rows = [(rng.randrange(100), rng.choice(["a", "b", None]), rng.randrange(9)) for _ in range(rng.randrange(1, 12))]
    listed = ["a", "c", None, "c"]
    frame = spark.createDataFrame(rows, "t int, k string, v int").withColumn("ts", F.timestamp_seconds("t"))
    window = Tumbling(f"{size} seconds") if size == slide else Sliding(f"{size} seconds", f"{slide} seconds")

    def starts(time: int) -> range:
        return range(time // slide * slide, time - size, -slide)

    expected: Counter[tuple[str | None, int]] = Counter()
    counts = Counter((key, start) for time, key, _ in rows for start in starts(time))
    of_all = [start for time, _, _ in rows for start in starts(time)]
    for key in {key for _, key, _ in rows} | set(listed):
        own = of_all if key in listed else [start for k, start in counts if k == key]
        for start in range(min(own), max(own) + 1, slide):
            expected[key, start] = counts[key, start]
    panes = counted(frame, window, EmitFor(keys_of(spark, *listed)))
    actual = {(row.k, int(row.window.start.timestamp())): row.n for row in panes.collect()}
    assert actual == dict(expected), f"MULLION_SEED={SEED}, round {number}, {window}, {rows}"


def test_a_stream_ends_with_a_record_for_each_key_and_no_others(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "k string, v int")
    rng = random.Random(f"{SEED} empty for a stream")
    listed = [f"key {number}" for number in range(40)]
    panes = counted(feed.stream(spark), Tumbling("10 seconds"), EmitFor(keys_of(spark, *listed)))
    rows: Counter[tuple[str, int]] = Counter()
    closed: dict[tuple[str, int], int] = {}
    for step in range(4):
        batch = [(step * 10 + rng.randrange(10), f"key {rng.randrange(50)}") for _ in range(30)]
        rows.update((key, time // 10) for time, key in batch)
        feed.write([(time * 1_000_000, key, 1) for time, key in batch])
        with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:
            closed |= {(row.k, int(row.window.start.timestamp()) // 10): row.n for row in query.settle()}
            report = batches_of(query)[-1]
    # Every clock reading is in the last window of its step, and earlier windows have closed.
    others = {key: min(window for k, window in rows if k == key) for key, _ in rows if key not in listed}
    first = dict.fromkeys(listed, 0) | others
    expected = {(key, window): rows[key, window] for key in first for window in range(first[key], 3)}
    assert closed == expected
    # The record and the timer of each key, and the open panes.
    assert report["numRowsTotal"] == 2 * len(first) + sum(window == 3 for _, window in rows)


def test_sql_names_the_table(spark: SparkSession) -> None:
    rows = spark.sql("SELECT timestamp_seconds(t) AS ts, k, 1 AS v FROM VALUES (1, 'a'), (25, 'a') AS rows(t, k)")
    rows.createOrReplaceTempView("rows_of_empty_for")
    keys_of(spark, "b").createOrReplaceTempView("keys_of_empty_for")
    query = (
        "SELECT k, n, before FROM mullion_windowed(TABLE(rows_of_empty_for), window => 'tumbling', "
        "size => '10 seconds', by => 'k', time => 'ts', "
        "aggregates => 'count(*) AS n, mullion_previous(count(*)) AS before', {}) ORDER BY k, n, before"
    )
    actual = [tuple(row) for row in spark.sql(query.format("empty_for => 'keys_of_empty_for'")).collect()]
    assert actual == [("a", 0, 1), ("a", 1, None), ("a", 1, 0), ("b", 0, None), ("b", 0, 0), ("b", 0, 0)]
    with pytest.raises(InvalidArgumentError, match="empty => 'forward'"):
        spark.sql(query.format("empty => 'forward', empty_for => 'keys_of_empty_for'"))
    with pytest.raises(InvalidArgumentError, match="empty_for => 'nothing' is not a table"):
        spark.sql(query.format("empty_for => 'nothing'"))


def test_the_table_needs_the_columns_of_the_keys(spark: SparkSession) -> None:
    rows = spark.sql("SELECT timestamp_seconds(1) AS ts, 'a' AS k, 1 AS v")

    def refused(message: str, keys: Any, kind: type[Exception] = InvalidArgumentError, **options: Any) -> None:
        arguments: dict[str, Any] = {"by": "k", "time": "ts", "window": Tumbling("1 minute"), **options}
        with pytest.raises(kind, match=message):
            windowed(rows, empty=EmitFor(keys), **arguments).agg(F.count("*").alias("n"))

    refused("has no column 'k', which is a key. It has id", spark.range(2))
    refused("'v' of empty=EmitFor.* is of type BIGINT, and the key is of type INT", spark.range(2).toDF("v"), by="v")
    refused("and the window has none", keys_of(spark, "a"), by=[])
    refused("was given a stream", spark.readStream.format("rate").load().withColumnRenamed("value", "k"))
    refused("needs windows that exist without rows", keys_of(spark, "a"), UnsupportedError, window=Session("1 minute"))
    refused("with at_end='close'", keys_of(spark, "a"), UnsupportedError, at_end="close")
    with pytest.raises(UnsupportedError, match=r"empty=EmitFor\(\.\.\.\) with collect\(\)"):
        windowed(rows, Tumbling("1 minute"), by="k", time="ts", empty=EmitFor(keys_of(spark, "a"))).collect()
    with pytest.raises(InvalidArgumentError, match=r"EmitFor\(\['a'\]\) was given a list"):
        EmitFor(["a"])  # type: ignore[arg-type]
    assert repr(EmitFor("sensors")) == "EmitFor('sensors')"
    assert EmitFor("sensors") == EmitFor("sensors")
