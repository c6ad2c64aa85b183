"""``suggest_delay``: the lateness of rows in order of arrival, compared with its definition in plain Python."""

from __future__ import annotations

import random
from datetime import timedelta
from math import ceil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from mullion import InvalidArgumentError, Tumbling, UnknownColumnError, plot, suggest_delay, windowed
from mullion._util.delays import ROUND_US, SHARES, SuggestedDelay, rounded_up
from tests.support.clocked import ClockedQuery
from tests.support.seeds import SEED

SECOND = 1_000_000
SCHEMA = "at timestamp, came bigint, k string"
ROUNDS = 3


def lateness(rows: list[tuple[int, int, str]]) -> list[tuple[int, str]]:
    """Of each row, in seconds: compared with all rows that arrived before it."""
    return [
        (max([0, *(other - time for other, earlier, _ in rows if earlier < came)]), key) for time, came, key in rows
    ]


def quantile(values: list[int], share: float) -> int:
    return sorted(values)[max(ceil(share * len(values)), 1) - 1]


def frame(spark: SparkSession, rows: list[tuple[int, int, str]]) -> Any:
    df = spark.createDataFrame(rows, "s bigint, came bigint, k string")
    return df.select(F.timestamp_seconds("s").alias("at"), "came", "k").repartition(3)


@pytest.mark.parametrize("round_", range(ROUNDS))
def test_random_rows_have_the_lateness_of_the_definition(spark: SparkSession, round_: int) -> None:
    chance = random.Random(f"{SEED} {round_}")
    # Few values of arrival, so that rows arrive together; or far apart, so that parts are empty.
    spread = chance.choice([5, 40, 10**9])
    rows = [
        (1000 + n + chance.choice([0, 0, 0, -7, -90]), n * spread // 40 - spread, chance.choice("abc"))
        for n in range(120)
    ]
    late = lateness(rows)
    keep = chance.choice([0.5, 0.9, 0.999, 1.0])
    suggested = suggest_delay(frame(spark, rows), time="at", arrival="came", by=["k"], keep=keep)
    values = [seconds for seconds, _ in late]
    assert suggested.rows == len(rows)
    assert suggested.quantiles == tuple((share, timedelta(seconds=quantile(values, share))) for share in SHARES)
    assert suggested.delay == rounded_up(quantile(values, keep) * SECOND)
    assert [count for _, count in suggested.late_rows] == [
        sum(seconds * SECOND > bound for seconds in values) for bound in ROUND_US
    ]
    assert {(one.key, one.rows, one.late_by, one.latest) for one in suggested.keys} == {
        (
            (key,),
            len(own),
            timedelta(seconds=quantile(own, keep)),
            timedelta(seconds=max(own)),
        )
        for key in {key for _, key in late}
        for own in [[seconds for seconds, one in late if one == key]]
    }
    assert [one.late_by for one in suggested.keys] == sorted((one.late_by for one in suggested.keys), reverse=True)


def test_with_the_suggested_delay_no_more_rows_are_late_than_requested(spark: SparkSession, tmp_path: Path) -> None:
    chance = random.Random(SEED)
    rows = [
        (10_000 + 60 * batch - chance.choice([0, 30, 30, 200, 900]), batch, "a") for batch in range(30) for _ in "xyz"
    ]
    frame(spark, rows).coalesce(1).write.json(str(tmp_path / "all"))
    suggested = suggest_delay(
        spark.read.schema(SCHEMA).json(str(tmp_path / "all")), time="at", arrival="came", keep=0.7
    )
    for batch in range(30):
        frame(spark, [row for row in rows if row[1] == batch]).coalesce(1).write.mode("append").json(
            str(tmp_path / "in")
        )
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(tmp_path / "in"))
    panes = windowed(stream.withWatermark("at", suggested.text), Tumbling("1 second"), time="at", late="emit").agg(
        F.count("*").alias("n")
    )
    with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:
        late = sum(row.late_row is not None for row in query.settle())
    assert 0 < late <= 0.3 * len(rows)


def test_the_lateness_of_a_query_is_that_of_the_latest_row_of_each_batch(spark: SparkSession, tmp_path: Path) -> None:
    for minutes in ((0, 10), (5, 20), (20, 30), (0, 31)):
        frame(spark, [(60 * m, 0, "a") for m in minutes]).coalesce(1).write.mode("append").json(str(tmp_path / "in"))
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(tmp_path / "in"))
    panes = windowed(stream.withWatermark("at", "1 hour"), Tumbling("1 hour"), time="at").agg(F.count("*").alias("n"))
    with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:
        query.settle()
        suggested = suggest_delay(query, keep=0.5)
    assert (suggested.rows, suggested.unit) == (3, "batches")
    assert suggested.quantiles[0] == (0.5, timedelta(minutes=5))
    assert suggested.quantiles[-1] == (1.0, timedelta(minutes=30))
    assert suggested.delay == timedelta(minutes=5)


def test_rows_without_a_time_or_an_arrival_are_left_out_and_timestamps_are_an_arrival(spark: SparkSession) -> None:
    rows = spark.sql(
        "SELECT * FROM VALUES (timestamp'2024-01-01 10:00:00', timestamp'2024-01-01 10:00:01'), "
        "(timestamp'2024-01-01 09:59:50', timestamp'2024-01-01 10:00:02'), (null, timestamp'2024-01-01 10:00:03'), "
        "(timestamp'2024-01-01 10:00:00', null) AS t(at, came)"
    )
    suggested = suggest_delay(rows, time=F.col("at"), arrival=F.col("came"), keep=1)
    assert (suggested.rows, suggested.text) == (2, "10 seconds")


EXAMPLE = SuggestedDelay(
    timedelta(minutes=2),
    0.999,
    ((0.5, timedelta(0)), (1.0, timedelta(seconds=300))),
    tuple((timedelta(microseconds=us), max(1000 - us // 200_000, 0)) for us in ROUND_US),
    2000,
)


def test_the_text_is_a_table_and_the_picture_marks_the_delay() -> None:
    assert str(EXAMPLE).splitlines() == [
        "Delay: 2 minutes, for 99.9 % of 2000 rows",
        "",
        "share of rows  late by at most",
        "50 %           0 seconds",
        "100 %          5 minutes",
    ]
    assert "<td" in EXAMPLE._repr_html_()
    axes = plot.delays(EXAMPLE)
    labels = [label.get_text() for label in axes.get_yticklabels()]
    # No row is later than five minutes.
    assert (labels[0], labels[-1]) == ("0 seconds", "5 minutes")
    colours = [bar.get_facecolor() for bar in axes.patches]
    chosen = labels.index("2 minutes")
    assert colours.count(colours[chosen]) == 1
    assert [label.get_fontweight() for label in axes.get_yticklabels()].count("bold") == 1
    assert axes.get_yticklabels()[chosen].get_fontweight() == "bold"
    assert axes.texts[0].get_text() == "1000 (50 %)"


@pytest.mark.parametrize(
    ("us", "text"),
    [(0, "0 seconds"), (1, "1 second"), (3 * SECOND, "5 seconds"), (3600 * SECOND + 1, "2 hours")],
)
def test_delays_are_rounded_up(us: int, text: str) -> None:
    assert SuggestedDelay(rounded_up(us), 1, (), (), 1).text == text
    assert rounded_up(8 * 86_400 * SECOND) == timedelta(weeks=2)


def test_wrong_arguments_are_errors_that_name_the_fix(spark: SparkSession) -> None:
    rows = frame(spark, [(1, 1, "a")])
    with pytest.raises(InvalidArgumentError, match=r"not given arrival=, the column with the order of arrival"):
        suggest_delay(rows, time="at")
    with pytest.raises(InvalidArgumentError, match=r"not given time="):
        suggest_delay(rows, arrival="came")
    with pytest.raises(UnknownColumnError, match=r"by='q'"):
        suggest_delay(rows, time="at", arrival="came", by="q")
    with pytest.raises(InvalidArgumentError, match=r"time='came' is of the type bigint, and must be a TIMESTAMP"):
        suggest_delay(rows, time="came", arrival="came")
    with pytest.raises(InvalidArgumentError, match=r"arrival='k' is of the type string"):
        suggest_delay(rows, time="at", arrival="k")
    with pytest.raises(InvalidArgumentError, match=r"keep=99.9 is not a share"):
        suggest_delay(rows, time="at", arrival="came", keep=99.9)
    with pytest.raises(InvalidArgumentError, match=r"found no row"):
        suggest_delay(rows.limit(0), time="at", arrival="came")
    with pytest.raises(InvalidArgumentError, match=r"this DataFrame is a stream"):
        suggest_delay(spark.readStream.format("rate").load(), time="timestamp", arrival="value")
    with pytest.raises(InvalidArgumentError, match=r"neither a DataFrame nor a query"):
        suggest_delay("rows")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match=r"Pass the result of suggest_delay"):
        plot.delays(rows)


def test_a_query_needs_reports_and_no_columns(spark: SparkSession, tmp_path: Path) -> None:
    panes = windowed(
        spark.readStream.schema(SCHEMA).json(str(tmp_path)).withWatermark("at", "1 hour"), Tumbling("1 hour"), time="at"
    ).agg(F.count("*").alias("n"))
    with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:
        with pytest.raises(InvalidArgumentError, match=r"fewer than two micro-batches"):
            suggest_delay(query)
        with pytest.raises(InvalidArgumentError, match=r"time='at' is for a DataFrame"):
            suggest_delay(query, time="at")
