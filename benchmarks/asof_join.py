"""Each trade with the last quote before it: ``asof_join`` compared with ``transformWithStateInPandas``.

    python benchmarks/asof_join.py [keys]

Each batch has one quote and one trade of each key, and emits the trades of the previous batch; the last trades are
emitted in a batch without rows. Both sides must return the same answers. The processor of
``transformWithStateInPandas`` keeps the rows of both sides in lists, and sets a timer for each trade. The first two
batches are left out, because they include the start. The mean of the others is shown.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from harness.spark_session import session
from mullion import asof_join

BATCHES = 5
BATCH_S = 100
SCHEMA = "k bigint, ts timestamp, v bigint"
OUT = "k bigint, ms bigint, trade bigint, quote bigint"


def ours(trades: DataFrame, quotes: DataFrame) -> DataFrame:
    joined = asof_join(trades, quotes, by="k", left_time="ts", right_time="ts")
    return joined.select(
        "k", F.unix_millis("ts").alias("ms"), F.col("v").alias("trade"), F.col("v_right").alias("quote")
    )


class LastQuote(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.trades = handle.getListState("trades", "ms bigint, v bigint")
        self.quotes = handle.getListState("quotes", "ms bigint, v bigint")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        for frame in rows:
            for ms, is_trade, value in frame[["ms", "is_trade", "v"]].itertuples(index=False):
                (self.trades if is_trade else self.quotes).appendValue((ms, value))
                if is_trade:
                    self.handle.registerTimer(ms)
        yield pd.DataFrame()

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:
        now = expiredTimerInfo.getExpiryTimeInMs()
        quotes = sorted(self.quotes.get())
        past = [quote for quote in quotes if quote[0] <= now]
        trades = list(self.trades.get())
        due = [trade for trade in trades if trade[0] <= now]
        waiting = [trade for trade in trades if trade[0] > now]
        if waiting:
            self.trades.put(waiting)
        else:
            self.trades.clear()
        if len(past) > 1:
            self.quotes.put(quotes[len(past) - 1 :])
        value = past[-1][1] if past else None
        yield pd.DataFrame([(*key, ms, v, value) for ms, v in due], columns=["k", "ms", "trade", "quote"])

    def close(self) -> None:
        pass


def sparks(trades: DataFrame, quotes: DataFrame) -> DataFrame:
    sides = [rows.withColumn("is_trade", F.lit(rows is trades)) for rows in (trades, quotes)]
    rows = sides[0].union(sides[1]).withColumn("ms", F.unix_millis("ts"))
    return rows.groupBy("k").transformWithStateInPandas(LastQuote(), OUT, "Append", "EventTime")


def write(spark: SparkSession, folder: str, keys: int, shift: int) -> None:
    """One row of each key in each batch, the quotes of a key before or after its trade."""
    for batch in range(BATCHES):
        # After the end of the previous batch: Spark drops rows at the watermark.
        second = F.pmod(F.xxhash64("id", F.lit(batch * 2 + shift)), F.lit(BATCH_S - 1)) + 1 + batch * BATCH_S
        rows = spark.range(keys).select(
            F.col("id").alias("k"), F.timestamp_seconds(second).alias("ts"), (F.col("id") * 10 + batch).alias("v")
        )
        # The end of each batch, so that the next one closes it on both sides.
        end = spark.createDataFrame([(-1, batch)], "k bigint, v bigint")
        last = end.select("k", F.timestamp_seconds(F.lit((batch + 1) * BATCH_S)).alias("ts"), "v")
        rows.union(last).coalesce(1).write.parquet(f"{folder}/batch={batch}")


def run(
    side: Callable[[DataFrame, DataFrame], DataFrame], spark: SparkSession, home: Path
) -> tuple[float, list[tuple[Any, ...]]]:
    """The mean time of a batch in seconds, and the answers."""
    files = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    trades, quotes = (files.parquet(f"{home}/{name}").withWatermark("ts", "0 seconds") for name in ("trades", "quotes"))
    out = f"{home}/{side.__name__}"
    query = side(trades, quotes).writeStream.format("parquet").option("checkpointLocation", f"{out}.checkpoint")
    running = query.trigger(availableNow=True).start(out)
    running.awaitTermination()
    reports = [report for report in running.recentProgress if "addBatch" in report["durationMs"]]
    with_rows = [report["batchId"] for report in reports if report["numInputRows"]][2:]
    took = sum(report["durationMs"]["addBatch"] / 1000 for report in reports if report["batchId"] >= with_rows[0])
    answers = spark.read.parquet(out).where("k >= 0").collect()
    return took / len(with_rows), sorted(map(tuple, answers))


def main(keys: int) -> None:
    spark = session()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        write(spark, f"{home}/trades", keys, shift=0)
        write(spark, f"{home}/quotes", keys, shift=1)
        ours_s, own = run(ours, spark, home)
        sparks_s, others = run(sparks, spark, home)
    if own != others or len(own) != BATCHES * keys:
        raise SystemExit(f"The answers differ: {len(own)} and {len(others)} trades.")
    print(f"{len(own)} equal trades, {keys} keys with one quote and one trade in each batch")
    print(f"{'side':<28} {'seconds a batch':>16} {'rows/s':>10}")
    for name, seconds in (("asof_join", ours_s), ("transformWithStateInPandas", sparks_s)):
        print(f"{name:<28} {seconds:>16.2f} {2 * keys / seconds:>10.0f}")
    print(f"{sparks_s / ours_s:.1f} times as fast")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
