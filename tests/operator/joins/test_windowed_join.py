"""Rows of two streams in the same window: the pairs, rows without a match, late rows."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion import (
    Count,
    Custom,
    IncompatibleStateError,
    InvalidArgumentError,
    PerKey,
    Session,
    Sliding,
    Tumbling,
    UnknownColumnError,
    UnsupportedError,
    windowed,
    windowed_join,
)
from tests.support.clocked import ClockedQuery
from tests.support.seeds import SEED
from tests.support.streams import SECOND, Feed, batches_of

LEFT, RIGHT = "k string, j int, v int", "k string, j int, v int, w string"


def sides(spark: SparkSession, folder: Path, delay: str = "30 seconds") -> tuple[Feed, Feed, DataFrame, DataFrame]:
    left, right = Feed(folder / "left", LEFT), Feed(folder / "right", RIGHT)
    return left, right, left.stream(spark, delay).drop("t"), right.stream(spark, delay).drop("t")


def random_rows(chance: random.Random, count: int, *more: str) -> list[tuple[Any, ...]]:
    """Few keys, times and values, so that there are ties, duplicates, nulls and rows without a partner."""
    return [
        (
            None if chance.random() < 0.02 else chance.randrange(60) * SECOND // 2,
            chance.choice(["a", "b", "c", None]),
            chance.choice([1, 1, 2, None]),
            chance.randrange(3),
            *more,
        )
        for _ in range(count)
    ]


def counted(rows: DataFrame) -> Counter[str]:
    return Counter(row[0] for row in rows.select(F.to_json(F.struct("*"))).collect())


def spark_join(left: DataFrame, right: DataFrame, window: str, how: str) -> DataFrame:
    """Spark's own batch join over Spark's own windows."""

    def assigned(rows: DataFrame) -> DataFrame:
        return rows.where("ts is not null").withColumn("window", F.expr(f"window(ts, {window})"))

    own = assigned(right).withColumnsRenamed({"ts": "ts_right", "v": "v_right"})
    rows = assigned(left).join(own, ["window", "k", "j"], how)
    return rows.select(
        "k", "j", F.struct("window.start", "window.end").alias("window"), "v", "ts", "v_right", "w", "ts_right"
    )


@pytest.mark.parametrize(
    ("window", "spark_window", "how"),
    [
        (Tumbling("10 seconds"), "'10 seconds'", "inner"),
        (Tumbling("10 seconds"), "'10 seconds'", "left"),
        (Tumbling("10 seconds"), "'10 seconds'", "full"),
        (Sliding("10 seconds", "4 seconds"), "'10 seconds', '4 seconds'", "full"),
    ],
    ids=["inner", "left", "full", "sliding"],
)
def test_a_stream_and_a_batch_return_the_rows_of_sparks_batch_join(
    spark: SparkSession, tmp_path: Path, window: Any, spark_window: str, how: Any
) -> None:
    chance = random.Random(f"{SEED} {spark_window} {how}")
    left, right, left_rows, right_rows = sides(spark, tmp_path)
    joined = windowed_join(left_rows, right_rows, window, by=["k", "j"], time="ts", how=how)
    rows = []
    with ClockedQuery(joined, checkpoint=tmp_path / "checkpoint") as query:
        for _ in range(3):
            left.write(random_rows(chance, 40))
            right.write(random_rows(chance, 30, "x"))
            rows += query.settle()
        left.flood()
        right.flood()
        rows += query.settle()
        assert batches_of(query)[-1]["numRowsTotal"] == 0
    of_left, of_right = left.batch(spark).drop("t"), right.batch(spark).drop("t")
    expected = counted(spark_join(of_left, of_right, spark_window, how).select(joined.columns))
    assert expected
    assert counted(spark.createDataFrame(rows, joined.schema)) == expected
    assert counted(windowed_join(of_left, of_right, window, by=["k", "j"], time="ts", how=how)) == expected


def at(seconds: float) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None) + timedelta(seconds=seconds)


def test_late_rows_of_both_sides_are_emitted_and_match_nothing(spark: SparkSession, tmp_path: Path) -> None:
    left, right, left_rows, right_rows = sides(spark, tmp_path, "0 seconds")
    joined = windowed_join(
        left_rows, right_rows, Tumbling("10 seconds"), by="k", time="ts", allowed_lateness="5 seconds", late="emit"
    )
    with ClockedQuery(joined, checkpoint=tmp_path / "checkpoint") as query:
        left.write([(1 * SECOND, "a", 1, 1), (14 * SECOND, "a", 1, 2)])
        right.write([(2 * SECOND, "a", 1, 1, "x"), (14 * SECOND, "b", 1, 2, "x")])
        assert query.settle() == []
        left.write([(3 * SECOND, "a", 1, 3), (20 * SECOND, "a", 1, 4)])
        right.write([(20 * SECOND, "b", 1, 3, "x")])
        pairs = query.settle()
        assert [(row.v, row.v_right, row.late_row) for row in pairs] == [(1, 1, None), (3, 1, None)]
        left.write([(4 * SECOND, "a", 1, 5)])
        right.write([(4 * SECOND, "a", 1, 5, "late")])
        late = query.settle()
        assert all(row.k == "a" and row.v is None and row.w is None for row in late)
        assert joined.schema["late_row"].dataType["left"].dataType.names == left_rows.columns  # type: ignore[index]
        emitted = [tuple(side and (side.k, side.v) for side in (row.late_row.left, row.late_row.right)) for row in late]
        assert sorted(emitted, key=str) == [(("a", 5), None), (None, ("a", 5))]
        assert batches_of(query)[-1]["rowsLate"] == 2


def test_a_session_of_both_sides_joins_their_rows(spark: SparkSession, tmp_path: Path) -> None:
    left = spark.createDataFrame([(at(0), "a", 1), (at(100), "a", 2)], "ts timestamp, k string, v int")
    right = spark.createDataFrame([(at(8), "a", 3), (at(16), "a", 4)], "at timestamp, k string, u int")
    pairs = windowed_join(left, right, Session("10 seconds"), by="k", time=("ts", "at"), how="left").collect()
    assert {(row.v, row.u) for row in pairs} == {(1, 3), (1, 4), (2, None)}


def test_a_window_over_the_join_goes_by_its_window(spark: SparkSession, tmp_path: Path) -> None:
    left, right, left_rows, right_rows = sides(spark, tmp_path, "0 seconds")
    joined = windowed_join(left_rows, right_rows, Tumbling("5 seconds"), by="k", time="ts")
    minutes = windowed(joined, Tumbling("1 minute"), by="k", time="window").agg(F.count("*").alias("n"))
    with ClockedQuery(minutes, checkpoint=tmp_path / "checkpoint") as query:
        left.write([(second * SECOND, "a", 1, 1) for second in range(0, 60, 2)])
        right.write([(second * SECOND, "a", 1, 1, "x") for second in range(0, 60, 5)])
        assert query.settle() == []
        left.flood()
        right.flood()
        assert [(row.k, row.n) for row in query.settle()] == [("a", 30)]


def test_invalid_joins_raise_errors_that_name_the_fix(spark: SparkSession, tmp_path: Path) -> None:
    _, _, left_rows, right_rows = sides(spark, tmp_path)
    batch = spark.createDataFrame([(at(0), "a", 1)], "ts timestamp, k string, v int")
    window = Tumbling("10 seconds")

    def error(kind: type[Exception], *args: Any, **options: Any) -> str:
        with pytest.raises(kind) as caught:
            windowed_join(*args, **{"by": "k", "time": "ts", **options})
        return str(caught.value)

    assert "left= is a stream and right= is a batch" in error(UnsupportedError, left_rows, batch, window)
    assert "by='q': the left side has no column 'q'" in error(UnknownColumnError, batch, batch, window, by="q")
    assert "time='at': the right side has no column" in error(
        UnknownColumnError, batch, batch, window, time=("ts", "at")
    )
    assert "by= has the column 'k' 2 times" in error(InvalidArgumentError, batch, batch, window, by=["k", "K"])
    assert "Tumbling, Sliding, Cumulate, Session or Custom" in error(UnsupportedError, batch, batch, Count(3))
    other = batch.withColumn("k", F.lit(1))
    assert "as in F.col('k').cast('STRING')" in error(InvalidArgumentError, batch, other, window)
    unmarked = right_rows.withColumn("ts", F.col("ts") + F.expr("interval 0 seconds"))
    assert "has no watermark on the right side" in error(InvalidArgumentError, left_rows, unmarked, window)
    assert "time='k' is of type STRING on the left" in error(InvalidArgumentError, batch, batch, window, time="k")
    assert "Swap the two sides, and write how='left'" in error(InvalidArgumentError, batch, batch, window, how="right")
    late = error(UnsupportedError, batch, batch, window, clock=PerKey())
    assert "close by the watermark of both streams" in late
    assert "how='outer' is not one of" in error(InvalidArgumentError, batch, batch, window, how="outer")
    named = batch.withColumnRenamed("v", "window")
    assert "several columns named 'window'" in error(InvalidArgumentError, named, batch, window)


def test_columns_of_the_window_are_evaluated_on_each_side(spark: SparkSession) -> None:
    left = spark.createDataFrame(
        [(at(0), "a", 1, False), (at(4), "a", 2, True), (at(6), "a", 3, False)],
        "ts timestamp, k string, v int, last boolean",
    )
    right = spark.createDataFrame([(at(1), "a", 4), (at(7), "a", 5)], "at timestamp, k string, u int")
    options: dict[str, Any] = {"by": "k", "time": ("ts", "at")}
    with pytest.raises(UnknownColumnError, match="ends_with of the window reads the column 'last', which the right"):
        windowed_join(left, right, Session("10 seconds", ends_with="last"), **options)
    both = right.withColumn("last", F.lit(False))
    pairs = windowed_join(left, both, Session("10 seconds", ends_with="last"), **options).collect()
    assert {(row.v, row.u) for row in pairs} == {(1, 4), (2, 4), (3, 5)}
    wide, other = (df.withColumn("gap", F.expr("INTERVAL 1 SECOND")) for df in (left, right))
    by_row = windowed_join(wide, other, Session(F.col("gap")), **options).collect()
    assert {(row.v, row.u) for row in by_row} == {(1, 4), (3, 5)}

    def tens(time: datetime) -> list[tuple[datetime, datetime]]:
        start = time.replace(second=time.second // 10 * 10, microsecond=0)
        return [(start, start + timedelta(seconds=10))]

    custom = windowed_join(left, right, Custom(tens), **options).collect()
    assert len(custom) == 6


def test_the_condition_that_ends_a_session_is_part_of_the_state(spark: SparkSession, tmp_path: Path) -> None:
    left, right, left_rows, right_rows = sides(spark, tmp_path)

    def query(condition: str) -> ClockedQuery:
        joined = windowed_join(
            left_rows, right_rows, Session("10 seconds", ends_with=F.expr(condition)), by="k", time="ts"
        )
        return ClockedQuery(joined, checkpoint=tmp_path / "checkpoint")

    left.write([(SECOND, "a", 1, 1)])
    right.write([(SECOND, "a", 1, 1, "x")])
    with query("v = 2") as running:
        running.settle()
    left.write([(2 * SECOND, "a", 1, 1)])
    with query("v = 3") as running, pytest.raises(IncompatibleStateError, match="v = 3"):
        running.settle()


def test_names_are_compared_as_spark_does(spark: SparkSession) -> None:
    left = spark.createDataFrame([(at(0), "a", 1)], "ts timestamp, Key string, v int")
    right = spark.createDataFrame([(at(1), "a", 2)], "Ts timestamp, key string, V int")
    joined = windowed_join(left, right, Tumbling("10 seconds"), by="KEY", time="TS")
    assert joined.columns == ["Key", "window", "ts", "v", "Ts_right", "V_right"]
    assert [(row.Key, row.v, row.V_right) for row in joined.collect()] == [("a", 1, 2)]
    twice = right.select("*", F.lit(3).alias("v"))
    with pytest.raises(InvalidArgumentError, match=r"several columns named 'V_right'"):
        windowed_join(left, twice, Tumbling("10 seconds"), by="key", time="ts")
    folded, other = (df.withColumn("key", F.expr("key COLLATE UTF8_LCASE")) for df in (left, right))
    with pytest.raises(UnsupportedError, match="has a collation under which different texts are equal"):
        windowed_join(folded, other, Tumbling("10 seconds"), by="key", time="ts")


def test_a_stream_joins_with_itself_and_delays_may_differ(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "rows", LEFT)
    rows, later = (feed.stream(spark, delay).drop("t") for delay in ("1 second", "20 seconds"))
    joined = windowed_join(rows, later, Tumbling("10 seconds"), by="k", time="ts")
    with ClockedQuery(joined, checkpoint=tmp_path / "checkpoint") as query:
        feed.write([(second * SECOND, "a", 1, second) for second in (1, 2, 25)])
        assert query.settle() == []
        # The watermark is that of the side with the longer delay: 30 - 20 seconds.
        feed.write([(30 * SECOND, "a", 1, 30)])
        pairs = query.settle()
        assert sorted((row.v, row.v_right) for row in pairs) == [(1, 1), (1, 2), (2, 1), (2, 2)]
