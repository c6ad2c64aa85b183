"""A batch DataFrame has the closes of a stream over the same rows."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from mullion import InvalidArgumentError, Session, Sliding, Tumbling, windowed
from tests.support.checked import Case, shown, shown_row
from tests.support.clocked import ClockedQuery
from tests.support.models.custom_model import CustomRules
from tests.support.models.model import SECOND, AroundRules, Row, Rules
from tests.support.models.session_model import SessionRules, closes_of
from tests.support.seeds import SEED
from tests.support.streams import Feed

TEN = 10 * SECOND
RANGES = (((0, TEN), (-SECOND, TEN)), None, ((0, SECOND), (0, SECOND)), (), ((-TEN, 2),))

CASES = [
    Case("tumbling", Rules(TEN, TEN), aggregates="figures"),
    Case("tumbling, offset", Rules(TEN, TEN, offset=3 * SECOND, late="emit")),
    Case("sliding", Rules(TEN, 2 * SECOND, early=SECOND), aggregates="figures"),
    Case("sliding, slide does not divide size", Rules(TEN, 4 * SECOND, offset=-SECOND, late="reopen")),
    Case("gaps", Rules(4 * SECOND, TEN, offset=SECOND, late="emit")),
    Case("custom", CustomRules(unit=3 * SECOND, lists=RANGES, early=SECOND, late="emit"), aggregates="figures"),
    Case("custom by a function", CustomRules(unit=3 * SECOND, lists=RANGES, in_python=True)),
    Case("around", AroundRules(before=4 * SECOND, after=2 * SECOND, early=SECOND)),
    Case("around, nothing before", AroundRules(before=0, after=SECOND, late="emit"), aggregates="figures"),
    Case("sliding, distinct values", Rules(TEN, 4 * SECOND), aggregates="distinct"),
    Case("sessions, distinct values", SessionRules(gap=3 * SECOND), aggregates="distinct"),
    Case("sessions", SessionRules(gap=3 * SECOND, early=SECOND, late="reopen")),
    Case("sessions, a gap per row", SessionRules(gap=SECOND, gaps=(SECOND, None, 1, 6 * SECOND, 0))),
]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_batch_returns_the_closing_results_of_a_stream(spark: SparkSession, tmp_path: Path, case: Case) -> None:
    rng = random.Random(f"{SEED} {case.name}")
    keys = [None, "", *(f"key {i}" for i in range(20))]
    # Rows without time, before the epoch, on edges, in gaps, and far from others.
    times = [None, -1, 0, TEN, -TEN, 10**6 * TEN, *(rng.randrange(-60 * SECOND, 60 * SECOND) for _ in range(400))]
    rows = [Row(i, rng.choice(keys), time) for i, time in enumerate(times)]
    feed = Feed(tmp_path / "in", "k string, id bigint")
    feed.write([(row.time, row.key, row.id) for row in rows])
    batch = Counter(shown_row(row) for row in case.panes(feed.batch(spark)).collect())
    assert batch == Counter(shown(case, firing) for firing in closes_of(case.rules, rows)), f"MULLION_SEED={SEED}"

    # A stream with all rows in its first batch, in which none is late, without its early firings and late rows.
    with ClockedQuery(case.panes(feed.stream(spark)), checkpoint=tmp_path / "checkpoint") as query:
        fired = query.settle()
        feed.flood()
        fired += query.settle()
    # A batch counts no firings before the close.
    closed = [row for row in fired if row.pane.firing == "close"]
    assert Counter((r.k, r.start, r.end, str(r.made)) for r in closed) == Counter(
        (r.k, r.start, r.end, str(r.made)) for r in case.panes(feed.batch(spark)).collect()
    )


def test_a_batch_and_a_stream_have_the_same_columns(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "k string, v int")
    feed.write([(SECOND, "a", 1)])
    for late in ("drop", "emit"):
        batch, stream = (
            windowed(rows, Tumbling("10 seconds"), by="k", time="ts", late=late).agg(F.sum("v").alias("v"))
            for rows in (feed.batch(spark), feed.stream(spark))
        )
        assert batch.columns == stream.columns
        assert [field.dataType for field in batch.schema] == [field.dataType for field in stream.schema]
    (row,) = batch.collect()
    assert (row.late_row, row.pane.firing, row.pane.seq) == (None, "close", 0)


def test_map_keys_whose_hashes_are_one_are_keys_of_their_own(spark: SparkSession) -> None:
    rows = spark.range(40).selectExpr(
        "map('x', 1) AS m",
        "IF(id % 2 = 0, 'a', NULL) AS l",
        "IF(id % 2 = 0, NULL, 'a') AS r",
        "timestamp_seconds(id DIV 2) AS ts",
    )
    for window, each in ((Session("10 seconds"), [20]), (Tumbling("10 seconds"), [10, 10])):
        panes = windowed(rows, window, by=["m", "l", "r"], time="ts").agg(F.count("*").alias("n")).collect()
        assert sorted((p.l or p.r, p.n) for p in panes) == [("a", n) for n in each + each]


def test_a_batch_of_no_rows_has_no_panes(spark: SparkSession) -> None:
    rows = spark.createDataFrame([], "ts timestamp, v int")
    for window in (Tumbling("10 seconds"), Sliding("10 seconds", "3 seconds"), Session("10 seconds")):
        assert windowed(rows, window, time="ts").agg(F.count("*").alias("n")).collect() == []


def test_a_batch_needs_no_watermark_and_may_have_one(spark: SparkSession) -> None:
    rows = spark.sql("SELECT timestamp'2024-01-01 00:00:01' AS ts")
    for frame in (rows, rows.withWatermark("ts", "1 minute")):
        assert windowed(frame, Tumbling("10 seconds"), time="ts").agg(F.count("*").alias("n")).collect()[0].n == 1


def test_batch_panes_can_be_used_in_ordinary_queries(spark: SparkSession) -> None:
    rows = spark.range(100).select(F.timestamp_seconds("id").alias("ts"), (F.col("id") % 3).alias("k"), "id")
    panes = windowed(rows, Tumbling("10 seconds"), by="k", time="ts").agg(F.sum("id").alias("s"))
    joined = panes.alias("a").join(panes.alias("b"), ["k", "window"]).where("k = 1 AND a.s = b.s")
    assert joined.count() == 10
    assert panes.where("window.start >= timestamp_seconds(90)").agg(F.sum("s")).collect()[0][0] == sum(range(90, 100))
    minutes = windowed(panes, Tumbling("1 minute"), by="k", time="window").agg(F.sum("s").alias("s"))
    assert sorted((r.k, r.s) for r in minutes.collect()) == sorted(
        (k, sum(i for i in some if i % 3 == k)) for k in range(3) for some in (range(60), range(60, 100))
    )
    # Column pruning must not change the results.
    assert sorted(r.s for r in panes.select("s").collect()) == sorted(r.s for r in panes.collect())
    assert panes.count() == 30


def test_on_processing_time_all_rows_of_a_batch_are_in_the_panes_of_now(spark: SparkSession) -> None:
    rows = spark.createDataFrame([("a", 1), ("a", 2), ("b", 4)], "k string, v int")
    panes = windowed(rows, Tumbling("365000 days"), by="k", time=None).agg(F.sum("v").alias("total")).collect()
    assert sorted((pane.k, pane.pane.firing, pane.total) for pane in panes) == [("a", "close", 3), ("b", "close", 4)]


@pytest.mark.parametrize("window", [Tumbling("10 seconds"), Sliding("10 seconds", "5 seconds")])
def test_windows_without_rows_come_between_those_of_their_key(spark: SparkSession, window: Tumbling | Sliding) -> None:
    rows = spark.createDataFrame([("a", 3), ("a", 42), ("b", 20), ("a", 47), ("c", 8), ("c", 19)], "k string, t int")
    rows = rows.withColumn("ts", F.timestamp_seconds("t"))
    starts_by_option = {}
    for empty in ("skip", "emit"):
        panes = windowed(rows, window, by="k", time="ts", empty=empty).agg(
            F.count("*").alias("n"), F.sum("t").alias("total"), F.collect_set("t").alias("all")
        )
        starts_by_option[empty] = {
            (p.k, p.start): (p.n, p.total, sorted(p.all))
            for p in panes.select("k", F.unix_seconds("window.start").alias("start"), "n", "total", "all").collect()
        }
    step = 5 if isinstance(window, Sliding) else 10
    for key in "abc":
        starts = [start for k, start in starts_by_option["skip"] if k == key]
        for start in range(min(starts), max(starts) + 1, step):
            nothing = (0, None, list[int]())
            assert starts_by_option["emit"].pop((key, start)) == starts_by_option["skip"].get((key, start), nothing)
    assert starts_by_option["emit"] == {}


@pytest.mark.parametrize("window", [Tumbling("1 second"), Sliding("2 seconds", "1 second")])
def test_a_wrong_time_does_not_fill_the_years_with_windows_without_rows(
    spark: SparkSession, window: Tumbling | Sliding
) -> None:
    def count_until(last: int) -> int:
        rows = spark.createDataFrame([("a", 0), ("a", last), ("b", 7)], "k string, t bigint")
        rows = rows.withColumn("ts", F.timestamp_micros("t"))
        return windowed(rows, window, by="k", time="ts", empty="emit").agg(F.count("*").alias("n")).count()

    assert count_until(1000 * SECOND) in (1002, 1004)
    with pytest.raises(
        InvalidArgumentError, match=r"from 1970-01-01T00:00:0[12]Z to 3170.* the limit is 1000000"
    ) as error:
        count_until(12 * 3_155_760_000 * SECOND)
    assert "Is a row's time wrong?" in str(error.value)
