"""The metrics of a query in its progress, in Spark's list of operators and in its plan.

test_differential.py compares each count of each batch with a model. The tests here show the meaning of the counts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion import Around, Custom, Early, Global, Session, Sliding, Tumbling, Watermark, together, windowed
from mullion.windows import Late, Window
from tests.support.clocked import ClockedQuery
from tests.support.streams import SECOND, Feed, batches_of

ROOT = Path(__file__).parents[3]

OURS = ("rowsLate", "rowsWithoutTime", "rowsInNoWindow", "panesOpen", "firingsEarly", "firingsClose")


def test_each_batch_counts_its_rows_and_its_panes(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "k string")
    # Four seconds of every ten.
    window, early = Sliding("4 seconds", "10 seconds", gaps=True), Early("5 seconds")
    panes = windowed(feed.stream(spark), window, by="k", time="ts", early=early).agg(F.count("*").alias("n"))
    reports: list[dict[str, Any]] = []
    with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:

        def settle() -> list[tuple[int, ...]]:
            """The counts of the new batches, in the order of ``OURS``."""
            query.settle()
            new = batches_of(query)[len(reports) :]
            reports.extend(new)
            return [tuple(report[name] for name in OURS) for report in new]

        feed.write([(1 * SECOND, "a"), (2 * SECOND, "a"), (1 * SECOND, "b"), (5 * SECOND, "b"), (None, "b")])
        # The rows; then the clock, at 5 s, has passed the pane's end at 4 s.
        assert settle() == [(0, 1, 1, 2, 0, 0), (0, 0, 0, 0, 0, 2)]
        feed.write([(3 * SECOND, "a"), (11 * SECOND, "a"), (None, None), (None, None), (9 * SECOND, "a")])
        assert settle() == [(1, 2, 1, 1, 0, 0), (0, 0, 0, 1, 1, 0)], "the clock has moved from 5 s to 11 s"
        feed.write([(12 * SECOND, "b")])
        assert settle() == [(0, 0, 0, 2, 0, 0)]
        query.advance("5 seconds")
        assert settle() == [(0, 0, 0, 2, 1, 0)], "a has no new row"
        feed.flood()
        assert settle() == [(0, 0, 0, 2, 0, 0), (0, 0, 0, 0, 0, 2)]

    # Spark's counts: rows are new, removed or present panes.
    assert [report["numRowsUpdated"] for report in reports] == [2, 0, 1, 0, 1, 0, 0, 0]
    assert [report["numRowsRemoved"] for report in reports] == [0, 2, 0, 0, 0, 0, 0, 2]
    assert reports[-1]["numRowsTotal"] == 0
    assert all(report["operatorName"] == "mullionWindow" for report in reports)
    assert all(report["numShufflePartitions"] == 2 for report in reports)
    assert all(report["memoryUsedBytes"] > 0 for report in reports)


def test_the_panes_that_a_row_missed_are_counted_where_it_entered_others(spark: SparkSession, tmp_path: Path) -> None:
    each: tuple[tuple[Late, int], ...] = (("drop", 3), ("reopen each", 0))
    for late, missed in each:
        feed = Feed(tmp_path / late, "k string")
        panes = windowed(feed.stream(spark), Sliding("10 seconds", "5 seconds"), by="k", time="ts", late=late).agg(
            F.count("*").alias("n")
        )
        with ClockedQuery(panes, checkpoint=tmp_path / f"{late} checkpoint") as query:
            feed.write([(1 * SECOND, "a"), (15 * SECOND, "a")])
            query.settle()
            # Three rows are late for the window of 5 s but not for that of 10 s, and one row is late for both.
            feed.write([(at * SECOND, k) for at, k in ((13, "a"), (14, "a"), (11, "b"), (16, "b"), (8, "b"))])
            query.settle()
            reports = batches_of(query)
        assert [sum(report[name] for report in reports) for name in ("panesMissed", "rowsLate")] == [missed, 1]


def five_seconds(time: datetime) -> list[tuple[datetime, datetime]]:
    return [(time, time + timedelta(seconds=5))]


def counted_drops(panes: DataFrame, feed: Feed, folder: Path) -> list[tuple[int, int]]:
    """The number of late rows of each batch in Spark's metric and in Mullion's."""
    with ClockedQuery(panes.select("pane"), checkpoint=folder) as query:
        feed.write([(1 * SECOND, "a"), (40 * SECOND, "b")])
        query.settle()
        feed.write([(2 * SECOND, "a"), (3 * SECOND, "c"), (41 * SECOND, "b")])
        query.settle()
        reports = batches_of(query)
    return [(report["numRowsDroppedByWatermark"], report["rowsLate"]) for report in reports if report["rowsLate"]]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "window", [Tumbling("10 seconds"), Session("5 seconds"), Around("5 seconds"), Custom(five_seconds)]
)
def test_late_rows_that_are_dropped_are_in_sparks_own_metric_too(
    spark: SparkSession, tmp_path: Path, window: Window
) -> None:
    policies: tuple[Late, ...] = ("drop", "emit", "reopen")
    for late in policies:
        feed = Feed(tmp_path / late, "k string")
        panes = windowed(feed.stream(spark), window, by="k", time="ts", late=late).agg(F.count("*").alias("n"))
        dropped = 2 if late == "drop" else 0
        assert counted_drops(panes, feed, tmp_path / f"{late} checkpoint") == [(dropped, 2)], late


def test_late_rows_of_several_windows_are_dropped_by_those_that_drop_them(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "k string")
    rows, n = feed.stream(spark), F.count("*").alias("n")
    panes = together(
        dropping=windowed(rows, Tumbling("10 seconds"), by="k", time="ts").agg(n),
        emitting=windowed(rows, Tumbling("10 seconds"), by="k", time="ts", late="emit").agg(n),
        sessions=windowed(rows, Session("5 seconds"), by="k", time="ts").agg(n),
    )
    assert counted_drops(panes, feed, tmp_path / "checkpoint") == [(4, 6)]


def test_late_rows_that_come_one_by_one_are_counted_as_dropped(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "k string")
    panes = windowed(feed.stream(spark), Tumbling("10 seconds"), by="k", time="ts", early=Early(each_row=True)).agg(
        F.count("*")
    )
    assert counted_drops(panes, feed, tmp_path / "checkpoint") == [(2, 2)]


def test_every_metric_of_ours_is_named_in_the_docs_with_its_unit(spark: SparkSession) -> None:
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text("utf-8")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("| `")]
    documented = {row[0].strip("`"): row[1:] for row in rows}
    metrics: Any = spark._jvm
    all_metrics = metrics.org.apache.spark.sql.mullion.operator.metrics.WindowMetrics.all()
    ours = {all_metrics.apply(i).name() for i in range(all_metrics.size())}
    assert ours <= documented.keys()
    assert documented.keys() - ours == {
        *("numRowsDroppedByWatermark", "numRowsUpdated", "numRowsRemoved", "numRowsTotal", "numShufflePartitions"),
        *("memoryUsedBytes", "allUpdatesTimeMs", "allRemovalsTimeMs", "commitTimeMs"),
    }
    assert all(len(row) == 2 and all(row) for row in documented.values())


PAGE = """
import sys, tempfile, urllib.request
from pyspark.sql import SparkSession, functions as F
from mullion import Tumbling, configure, windowed

builder = SparkSession.builder.master("local[1]").config("spark.ui.port", "0").config("spark.log.level", "OFF")
builder = builder.config("spark.sql.shuffle.partitions", "1")
builder = builder.config("spark.sql.streaming.ui.enabledCustomMetricList", "rowsLate,panesOpen,stateRowsRead")
spark = configure(builder).getOrCreate()
folder = tempfile.mkdtemp()
spark.createDataFrame([("2024-01-01",)], "ts string").write.mode("append").json(folder)
rows = spark.readStream.schema("ts timestamp").json(folder).withWatermark("ts", "1 second")
panes = windowed(rows, Tumbling("1 hour"), time="ts").agg(F.count("*").alias("n"))
query = panes.writeStream.format("noop").start()
query.processAllAvailable()
address = f"{spark.sparkContext.uiWebUrl}/StreamingQuery/statistics/?id={query.runId}"
page = urllib.request.urlopen(address).read().decode()
query.stop()
spark.stop()
print("Aggregated Custom Metric rowsLate" in page, "late rows" in page, "panes open" in page)
"""


@pytest.mark.slow
def test_sparks_page_of_a_query_draws_the_metrics_that_it_is_asked_for(tmp_path: Path) -> None:
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    ran = subprocess.run(
        [sys.executable, "-c", PAGE], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert ran.stdout.split() == ["True"] * 3, ran.stderr[-3000:]


def test_rows_of_a_pane_take_one_record_however_many_windows_hold_them(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "k string")
    panes = windowed(feed.stream(spark), Sliding("1 minute", "1 second"), by="k", time="ts").agg(
        F.count("*").alias("n")
    )
    with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:
        feed.write([(SECOND * 100 + i, "a") for i in range(1000)])
        query.settle()
        (report,) = batches_of(query)
    assert report["panesOpen"] == 60
    # A slice, the key's record and its timer.
    assert report["numRowsTotal"] == 3


def test_spark_lists_the_operator_and_its_state(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "k string")
    panes = windowed(feed.stream(spark), Tumbling("10 seconds"), by="k", time="ts").agg(F.count("*").alias("n"))
    feed.write([(SECOND, "a")])
    with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:
        query.settle()
    (row,) = spark.read.format("state-metadata").load(str(tmp_path / "checkpoint")).collect()
    assert (row.operatorId, row.operatorName, row.stateStoreName) == (0, "mullionWindow", "default")
    assert (row.numPartitions, row.minBatchId, row.maxBatchId) == (2, 0, 0)


def explained(panes: DataFrame, capsys: pytest.CaptureFixture[str], mode: str) -> str:
    capsys.readouterr()
    panes.explain(mode=mode)
    return capsys.readouterr().out


@pytest.mark.parametrize("mode", ["simple", "extended", "formatted"])
def test_the_plan_shows_the_window_the_keys_the_lateness_and_the_firings(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], mode: str
) -> None:
    feed = Feed(tmp_path / "in", "k string, j int")
    rows = feed.stream(spark, "1 minute")
    panes = windowed(
        rows,
        Sliding("1 hour", "15 minutes", offset="5 minutes"),
        by=["k", F.col("j").alias("flight")],
        time="ts",
        allowed_lateness="10 minutes",
        early=Early("1 minute"),
        late="emit",
    ).agg(F.count("*").alias("n"))
    assert (
        "WindowedAggregate sliding 1 hour every 15 minutes, offset 5 minutes, closes 10 minutes after its end, "
        "fires early every 1 minute if changed, late rows emitted, by [k, flight]"
    ) in explained(panes, capsys, mode)

    plain = windowed(rows, Tumbling("1 day"), time="ts", late="reopen").agg(F.count("*").alias("n"))
    text = explained(plain, capsys, mode)
    assert "WindowedAggregate tumbling 1 day, closes at its end, late rows reopen panes, by []" in text
    assert "mullion_no_key" not in text.split("WindowedAggregate")[1].split("\n")[0]


@pytest.mark.parametrize("mode", ["simple", "formatted"])
@pytest.mark.parametrize(
    ("window", "time", "text"),
    [
        (Global.every(100), None, "ArrivalBatch global, closing every 100 rows"),
        (Session("5 minutes"), "ts", "MergeSessions session with a gap of 5 minutes"),
        (Sliding("1 hour", "15 minutes"), "ts", "SlicesToWindows sliding 1 hour every 15 minutes"),
    ],
)
def test_the_plan_of_a_batch_shows_the_window(
    window: Global | Session | Sliding,
    time: str | None,
    text: str,
    mode: str,
    spark: SparkSession,
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = spark.sql("SELECT timestamp'2024-01-01' AS ts, 'a' AS k")
    assert text in explained(windowed(rows, window, by="k", time=time).agg(n=F.count("*")), capsys, mode)


def test_a_quiet_stream_next_to_a_slow_one_requests_no_batch_until_the_slow_one_advances(
    spark: SparkSession, tmp_path: Path
) -> None:
    quiet, behind = Feed(tmp_path / "quiet", "k string"), Feed(tmp_path / "behind", "k string")

    def counts(feed: Feed, idle_after: str | None) -> DataFrame:
        rows = feed.stream(spark)
        return windowed(rows, Tumbling("10 seconds"), by="k", time="ts", clock=Watermark(idle_after)).agg(
            F.count("*").alias("n")
        )

    both = counts(quiet, "5 seconds").unionByName(counts(behind, None))
    with ClockedQuery(both, checkpoint=tmp_path / "checkpoint", start_ms=1_000_000) as query:
        quiet.write([(3 * SECOND, "a")])
        behind.write([(4 * SECOND, "b")])
        assert query.settle() == []
        ran = len(batches_of(query))
        # The idle stream no longer holds the query's watermark, which the other stream would move to 4 s.
        query.advance("1 minute")
        assert query.settle() == []
        assert len(batches_of(query)) == ran
        query.advance("1 minute")
        assert query.settle() == []
        assert len(batches_of(query)) == ran
        behind.write([(12 * SECOND, "b")])
        assert sorted((row.k, row.n) for row in query.settle()) == [("a", 1), ("b", 1)]


def test_a_batch_that_is_read_twice_or_by_one_task_counts_and_gives_the_same(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Each partition has its late rows although a task has several, and counts once although two actions read it."""
    feed = Feed(tmp_path / "in", "k string, v int")
    rows = feed.stream(spark)
    feed.write([(100 * SECOND, "far", 0)])
    feed.write([(101 * SECOND, "far", 0)])
    feed.write([(s * SECOND, f"k{i}", i) for s in (1, 102) for i in range(7)] + [(None, "k1", 9)])
    feed.write([(s * SECOND, f"k{i}", i) for s in (2, 115) for i in range(4)])

    def of(window: Any) -> DataFrame:
        windows = windowed(rows, window, by="k", time="ts", late="emit")
        return windows.agg(F.count("*").alias("n")).select("k", "pane", "late_row.v", "n")

    tumbling, sessions = Tumbling("10 seconds"), Session("5 seconds")
    both = {
        name: windowed(rows, window, by="k", time="ts", late="emit").agg(F.count("*").alias("n"))
        for name, window in (("a", tumbling), ("b", sessions))
    }
    queries = {
        "tumbling": of(tumbling),
        "sessions": of(sessions),
        "together": together(**both),
    }
    counts = {
        "numRowsTotal",
        "numRowsUpdated",
        "numRowsRemoved",
        "numShufflePartitions",
        "stateRowsRead",
        "panesOpen",
        "firingsClose",
        "rowsLate",
        "rowsWithoutTime",
    }

    def run(panes: DataFrame, folder: Path, *, coalesced: bool) -> tuple[list[str], list[dict[str, int]]]:
        fired: list[str] = []

        def take(batch: DataFrame, _: int) -> None:
            fired.extend(map(str, (batch.coalesce(1) if coalesced else batch).collect()))
            if coalesced:
                batch.count()

        query = panes.writeStream.foreachBatch(take).option("checkpointLocation", str(folder)).start()
        try:
            query.processAllAvailable()
            reports = [json.loads(report.json()) for report in query._jsq.recentProgress()]
        finally:
            query.stop()
        operators = [report["stateOperators"][0] for report in reports if report["stateOperators"]]
        return sorted(fired), [
            {count: value for count, value in {**of, **of["customMetrics"]}.items() if count in counts}
            for of in operators
        ]

    for name, panes in queries.items():
        fired, counted = run(panes, tmp_path / name / "once", coalesced=False)
        assert run(panes, tmp_path / name / "twice", coalesced=True) == (fired, counted)
        late = sum("firing='late'" in row for row in fired)
        assert late == sum(report["rowsLate"] + report["rowsWithoutTime"] for report in counted) > 10
