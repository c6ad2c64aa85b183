"""The windowed queries of Nexmark, with Mullion and with Spark's own operators, in the same form.

Where the published query joins a stream with an aggregate of itself (q5, q7), or two streams window by window (q8),
both sides use aggregates instead. Answers have the columns of all other answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from harness.nexmark import AUCTION, BID, PERSON
from mullion import Session, Sliding, Tumbling, windowed

if TYPE_CHECKING:
    from harness.workloads import Workload

COLUMNS = "kind int, ts timestamp, auction bigint, person bigint, price bigint"


def panes(rows: DataFrame, workload: Workload, *, ours: bool) -> DataFrame:
    """The panes of a query, with Mullion's windows if ``ours``, or with Spark's own operators."""
    if workload.kind != "q12":
        rows = rows.withWatermark("ts", f"{workload.delay} seconds")
    result: DataFrame = globals()[workload.kind](rows, workload, ours)
    times = {"start_ms": F.unix_millis("window.start"), "end_ms": F.unix_millis("window.end")}
    zeros = {name: F.lit(0) for name in ("k", "n", "total", "least", "most") if name not in result.columns}
    return result.withColumns(zeros).select("k", "n", "total", "least", "most", *(c.alias(n) for n, c in times.items()))


def tumbling(rows: DataFrame, workload: Workload, ours: bool, by: list[str], *values: Column) -> DataFrame:
    size = f"{workload.size} seconds"
    if ours:
        return windowed(rows, Tumbling(size), by=by, time="ts").agg(*values)
    return rows.groupBy(*by, F.window("ts", size)).agg(*values)


def q5(rows: DataFrame, workload: Workload, ours: bool) -> DataFrame:
    """The auction with the most bids in each sliding window; the latest of several."""
    size, slide = f"{workload.size} seconds", f"{workload.slide} seconds"
    bids, n = rows.where(F.col("kind") == BID), F.count("*").alias("n")
    most = F.max(F.struct("n", "auction")).alias("top")
    if ours:
        counts = windowed(bids, Sliding(size, slide), by="auction", time="ts").agg(n)
        # All windows with the same end are in one tumbling window of the slide's length.
        top = windowed(counts.drop("pane"), Tumbling(slide), time="window").agg(most)
        start = (F.col("window.end") - F.expr(f"INTERVAL {size}")).alias("start")
        top = top.withColumn("window", F.struct(start, F.col("window.end").alias("end")))
    else:
        top = bids.groupBy("auction", F.window("ts", size, slide)).agg(n).groupBy("window").agg(most)
    return top.select("window", F.col("top.auction").alias("k"), F.col("top.n").alias("n"))


def q7(rows: DataFrame, workload: Workload, ours: bool) -> DataFrame:
    """The highest bid of each window."""
    bids = rows.where(F.col("kind") == BID)
    top = tumbling(bids, workload, ours, [], F.max(F.struct("price", "auction", "person")).alias("top"))
    return top.select("window", F.col("top.auction").alias("k"), F.col("top.price").alias("total"))


def q8(rows: DataFrame, workload: Workload, ours: bool) -> DataFrame:
    """The people who registered and opened auctions in the same window."""
    came, opened = (F.count_if(F.col("kind") == kind).alias(name) for kind, name in ((PERSON, "came"), (AUCTION, "n")))
    both = tumbling(rows.where(F.col("kind") != BID), workload, ours, ["person"], came, opened)
    return both.where("came > 0 AND n > 0").select("window", F.col("person").alias("k"), "n")


def q11(rows: DataFrame, workload: Workload, ours: bool) -> DataFrame:
    """The bids of each bidder's session."""
    bids, gap, n = rows.where(F.col("kind") == BID), f"{workload.size} seconds", F.count("*").alias("n")
    if ours:
        counts = windowed(bids, Session(gap), by="person", time="ts").agg(n)
    else:
        counts = bids.groupBy("person", F.session_window("ts", gap).alias("window")).agg(n)
    return counts.select("window", F.col("person").alias("k"), "n")


def q12(rows: DataFrame, workload: Workload, ours: bool) -> DataFrame:
    """The bids of each bidder by the wall clock. The contents of each window depend on chance."""
    bids, size, n = rows.where(F.col("kind") == BID), f"{workload.size} seconds", F.count("*").alias("n")
    if ours:
        counts = windowed(bids, Tumbling(size), by="person", time=None).agg(n)
    else:
        now = bids.withColumn("ts", F.current_timestamp()).withWatermark("ts", "0 seconds")
        counts = now.groupBy("person", F.window("ts", size)).agg(n)
    return counts.select("window", F.col("person").alias("k"), "n")
