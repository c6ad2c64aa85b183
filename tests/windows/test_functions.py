"""The functions over times, compared with their definitions in plain Python, Spark's ``window`` and ``windowed``."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion import InvalidArgumentError, Sliding, Tumbling, windowed
from mullion import functions as MF
from tests.support.checked import length, settings
from tests.support.models.model import Rules

FIRST, LAST = -(2**63), 2**63 - 1
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
HOUR = 3_600_000_000


def specs(rng: random.Random, number: int, *, gaps: bool) -> Iterator[tuple[int, int, int]]:
    """Windows of a few slides, in any relation and of any unit: size, slide and offset."""
    for _ in range(number):
        unit = rng.choice((1, 1_000_003, 60_000_000, 86_400_000_000))
        slide = rng.randint(1, 30) * unit
        size = rng.choice((slide, slide * rng.randint(1, 7), slide * rng.randint(1, 5) + rng.randrange(slide)))
        if gaps and rng.random() < 0.3:
            size = max(1, slide - rng.randrange(slide))
        yield size, slide, rng.choice((0, rng.randrange(-slide + 1, slide)))


def times(rng: random.Random) -> list[int | None]:
    near = [rng.randrange(-(10**13), 10**13) for _ in range(60)]
    far = [rng.randrange(FIRST, LAST) for _ in range(20)]
    ends = [FIRST + rng.randrange(10**9) for _ in range(5)] + [LAST - rng.randrange(10**9) for _ in range(5)]
    return [None, 0, -1, 1, FIRST, LAST, *near, *far, *ends]


def clamp(us: int) -> int:
    return min(max(us, FIRST), LAST)


def starts(ts: int, size: int, slide: int, offset: int) -> list[int]:
    """The starts of a time's windows, by their definition, in order."""
    return sorted(Rules(size, slide, offset).starts(ts))


def windows(ts: int, size: int, slide: int, offset: int) -> list[list[int]]:
    # A window that would start before the first time starts there, with the same end.
    return [[clamp(start), clamp(start + size)] for start in starts(ts, size, slide, offset)]


def tumbling(ts: int, size: int, _: int, offset: int) -> list[int]:
    return windows(ts, size, size, offset)[0]


def slice_of(ts: int, size: int, slide: int, offset: int) -> list[int] | None:
    ascending = starts(ts, size, slide, offset)
    if not ascending:
        return None
    near = range(ascending[-1] - (size // slide + 2) * slide, ascending[-1] + 2 * slide, slide)
    edges = [edge for start in near for edge in (start, start + size)]
    return [clamp(max(edge for edge in edges if edge <= ts)), clamp(min(edge for edge in edges if edge > ts))]


def in_micros(interval: Column) -> Column:
    pair = F.array(F.unix_micros(interval["start"]), F.unix_micros(interval["end"]))
    return F.when(interval.isNotNull(), pair)


def rows_of(spark: SparkSession, microseconds: list[int | None]) -> DataFrame:
    rows = spark.createDataFrame([(i, us) for i, us in enumerate(microseconds)], "id int, us bigint")
    return rows.select("id", F.timestamp_micros("us").alias("ts"))


@pytest.mark.parametrize("conf", [{}, INTERPRETED], ids=["generated", "interpreted"])
def test_the_functions_equal_their_definitions(spark: SparkSession, conf: dict[str, str]) -> None:
    rng = random.Random(4)
    microseconds = times(rng)
    cases: list[tuple[Column, Callable[[int, int, int, int], Any], tuple[int, int, int]]] = []
    for spec in specs(rng, 24, gaps=True):
        size, slide, offset = (length(us) for us in spec)
        starts_and_ends = F.transform(MF.windows("ts", size, slide, offset), in_micros)
        cases += [
            (starts_and_ends, windows, spec),
            (in_micros(MF.slice_of(F.col("ts"), size, slide, offset)), slice_of, spec),
            (F.unix_micros(MF.window_start("ts", size, offset)), lambda ts, *w: tumbling(ts, *w)[0], spec),
            (F.unix_micros(MF.window_end("ts", size, offset)), lambda ts, *w: tumbling(ts, *w)[1], spec),
            (in_micros(MF.session("ts", size)), lambda ts, size, *_: [ts, clamp(ts + size)], spec),
            (F.unix_micros(MF.session_end("ts", size)), lambda ts, size, *_: clamp(ts + size), spec),
        ]
    with settings(spark, conf):
        actual = (
            rows_of(spark, microseconds)
            .select("id", *(column.alias(f"c{i}") for i, (column, _, _) in enumerate(cases)))
            .collect()
        )
    assert len(actual) == len(microseconds)
    for row in actual:
        ts = microseconds[row.id]
        for i, (column, definition, spec) in enumerate(cases):
            assert row[f"c{i}"] == (None if ts is None else definition(ts, *spec)), (ts, spec, column)


def intervals(rows: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, rows.select("id", in_micros(F.col("w"))).collect()))


def test_windows_and_sessions_agree_with_those_of_spark(spark: SparkSession) -> None:
    rng = random.Random(5)
    # Spark's arithmetic overflows at the ends of time.
    rows = rows_of(spark, [us for us in times(rng) if us is not None and abs(us) < 10**14]).cache()
    for size, slide, offset in specs(rng, 8, gaps=False):
        text = [f"{us} microseconds" for us in (size, slide, offset)]
        ours = rows.select("id", F.explode(MF.windows("ts", *(length(us) for us in (size, slide, offset)))).alias("w"))
        assert intervals(ours) == intervals(rows.select("id", F.window("ts", *text).alias("w")))
    alone = rows.groupBy("id", F.session_window("ts", "7 seconds").alias("w")).count()
    assert intervals(rows.select("id", MF.session("ts", "7 seconds").alias("w"))) == intervals(alone)
    rows.unpersist()


def test_a_row_is_in_the_panes_of_the_windows_that_the_functions_give(spark: SparkSession) -> None:
    rows = rows_of(spark, [us for us in times(random.Random(6)) if us is not None])
    start, end = MF.window_start("ts", "5 hours"), MF.window_end("ts", "5 hours")
    only = F.array(F.struct(start.alias("start"), end.alias("end")))
    for window, windows_of_row in (
        (Sliding("7 hours", "2 hours", "1 hour"), MF.windows("ts", "7 hours", "2 hours", "1 hour")),
        (Sliding("2 hours", "3 hours", gaps=True), MF.windows("ts", "2 hours", "3 hours")),
        (Tumbling("5 hours"), only),
    ):
        ids = F.sort_array(F.collect_list("id")).alias("ids")
        panes = windowed(rows, window, time="ts").agg(ids)
        mine = rows.select("id", F.explode(windows_of_row).alias("window")).groupBy("window").agg(ids)
        actual, wanted = (df.select(in_micros(F.col("window")), "ids").collect() for df in (panes, mine))
        assert sorted(map(tuple, actual)) == sorted(map(tuple, wanted))


def test_a_gap_may_be_each_rows_own(spark: SparkSession) -> None:
    rows = spark.sql(
        "SELECT * FROM VALUES (0, INTERVAL 5 SECONDS, '5 seconds'), (1, INTERVAL 0 SECONDS, '0 seconds'), "
        "(2, INTERVAL -1 SECOND, '1 month'), (3, NULL, NULL) AS t(id, g, t)"
    ).withColumn("ts", F.timestamp_seconds("id"))
    actual = rows.select(
        "id",
        in_micros(MF.session("ts", F.col("g"))).alias("by_interval"),
        in_micros(MF.session("ts", F.col("t"))).alias("by_text"),
        F.unix_micros(MF.session_end("ts", F.col("g"))).alias("end"),
    ).collect()
    assert sorted(map(tuple, actual)) == [
        (0, [0, 5_000_000], [0, 5_000_000], 5_000_000),
        (1, None, None, None),
        (2, None, None, None),
        (3, None, None, None),
    ]


def test_the_functions_are_columns_with_the_documented_types(spark: SparkSession) -> None:
    rows = rows_of(spark, [0])
    interval = "struct<start:timestamp,end:timestamp>"
    for column, kind in (
        (MF.windows("ts", "1 hour"), f"array<{interval}>"),
        (MF.slice_of("ts", "1 hour", "20 minutes"), interval),
        (MF.window_start("ts", timedelta(hours=1)), "timestamp"),
        (MF.window_end("ts", "1 hour", "-5 minutes"), "timestamp"),
        (MF.session("ts", "1 hour"), interval),
        (MF.session_end("ts", "1 hour"), "timestamp"),
    ):
        assert rows.select(column.alias("c")).dtypes == [("c", kind)]


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda: MF.windows("ts", "10s"), "Write windows(ts, '10 seconds')"),
        (lambda: MF.windows("ts", "1 hour", "0 seconds"), "slide='0 seconds' is zero"),
        (lambda: MF.windows("ts", "1 day", "1 millisecond"), "86400000 windows"),
        (
            lambda: MF.slice_of("ts", "1 hour", 5),  # type: ignore[arg-type]
            "slide=5 has no unit",
        ),
        (lambda: MF.window_start("ts", "1 month"), "not of a fixed length"),
        (lambda: MF.window_end("ts", "1 hour", offset="soon"), "offset='soon'"),
        (lambda: MF.session("ts", "-1 hour"), "gap='-1 hour' is negative"),
        (lambda: MF.session_end(5, "1 hour"), "neither a column's name nor a Column"),  # type: ignore[arg-type]
    ],
)
def test_a_wrong_argument_is_rejected_at_once(spark: SparkSession, call: Callable[[], Column], why: str) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        call()
    assert why in str(refused.value)


def test_a_column_that_is_no_timestamp_is_rejected_when_it_is_used(spark: SparkSession) -> None:
    with pytest.raises(InvalidArgumentError, match="of type STRING, and must be a TIMESTAMP"):
        spark.sql("SELECT '2013-01-01' AS ts").select(MF.windows("ts", "1 hour"))
    with pytest.raises(InvalidArgumentError, match="The gap of mullion_session is"):
        spark.sql("SELECT current_timestamp() AS ts, id AS v FROM range(1)").select(MF.session("ts", F.col("v")))


def test_sql_describes_the_functions(spark: SparkSession) -> None:
    description = "\n".join(row[0] for row in spark.sql("DESCRIBE FUNCTION EXTENDED mullion_windows").collect())
    assert "mullion_windows(ts, size[, slide[, offset]]) - Returns every window that holds the time" in description
    assert "Since: 0.1.0" in description
