"""A pandas function over panes of ten rows: ``.apply`` compared with ``applyInPandasWithState``.

    python benchmarks/pane_functions.py [panes in a batch] [panes in a batch of Spark's]

Each batch has ten rows for each key in one window, and closes the panes of the previous batch. Both sides call the same
function with the rows of each pane and must return the same answers. ``applyInPandasWithState`` keeps the rows in its
state until the timeout of their window. The first two batches are left out: the first closes no panes, and both pay for
starting the workers. The median of the others is shown.

Spark's side has fewer panes, 5,000 in a batch unless stated otherwise, because it calls Python for each key that has
rows or a timeout. With 100,000 keys a run takes longer than half an hour. Mullion runs with both numbers, and both
ratios are printed: at the same number of panes, and of the panes per second at the number that each has.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from harness.spark_session import session
from mullion import Tumbling, windowed

ROWS = 10
BATCHES = 5
WINDOW_S = 60
GOAL = 5
OUT = "k bigint, start bigint, spread double, mean double"


def of_rows(values: pd.Series[float]) -> tuple[float, float]:
    return float(values.max() - values.min()), float(values.mean())


def spread(key: tuple[int], pane: Any, rows: pd.DataFrame) -> dict[str, float]:
    most, mean = of_rows(rows["v"])
    return {"spread": most, "mean": mean}


def ours(rows: DataFrame) -> DataFrame:
    panes = windowed(rows, Tumbling(f"{WINDOW_S} seconds"), by="k", time="ts").apply(
        spread, "spread double, mean double"
    )
    return panes.select("k", F.unix_seconds("window.start").alias("start"), "spread", "mean")


def with_timeout(key: tuple[int, int], frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    if state.hasTimedOut:
        most, mean = of_rows(pd.Series(np.frombuffer(state.get[0])))
        state.remove()
        yield pd.DataFrame({"k": [key[0]], "start": [key[1]], "spread": [most], "mean": [mean]})
        return
    # Spark's worker cannot read an array in this state.
    values = [bytes(state.get[0])] if state.exists else []
    values += (frame["v"].to_numpy().tobytes() for frame in frames)
    state.update((b"".join(values),))
    state.setTimeoutTimestamp(int(key[1] + WINDOW_S) * 1000)


def sparks(rows: DataFrame) -> DataFrame:
    start = F.unix_seconds(F.window("ts", f"{WINDOW_S} seconds")["start"]).alias("start")
    grouped = rows.select("k", "v", "ts", start).groupBy("k", "start")
    return grouped.applyInPandasWithState(
        with_timeout, OUT, "values binary", "append", GroupStateTimeout.EventTimeTimeout
    )


def write(spark: SparkSession, source: str, panes: int) -> None:
    for batch in range(BATCHES):
        # Not from 1970 on: Spark drops rows at its first watermark.
        at = F.timestamp_seconds(F.lit((batch + 1) * WINDOW_S) + F.pmod("id", F.lit(WINDOW_S)))
        value = F.pmod(F.xxhash64("id", F.lit(batch)), F.lit(1000)) / 10
        rows = spark.range(panes * ROWS).select(F.pmod("id", F.lit(panes)).alias("k"), at.alias("ts"), value.alias("v"))
        rows.coalesce(1).write.parquet(f"{source}/batch={batch}")


def run(side: Callable[[DataFrame], DataFrame], spark: SparkSession, home: Path) -> tuple[float, list[Any]]:
    """The median time of a batch in seconds, and the answers."""
    files = spark.readStream.schema("k bigint, ts timestamp, v double").option("maxFilesPerTrigger", 1)
    rows = files.parquet(f"{home}/in").withWatermark("ts", "0 seconds")
    out = f"{home}/{side.__name__}"
    query = side(rows).writeStream.format("parquet").option("checkpointLocation", f"{out}.checkpoint")
    running = query.trigger(availableNow=True).start(out)
    running.awaitTermination()
    reports = [report for report in running.recentProgress if report["numInputRows"]]
    took = [report["durationMs"]["addBatch"] / 1000 for report in reports][2:]
    answers = spark.read.parquet(out).orderBy("start", "k").collect()
    return statistics.median(took), [(row.k, row.start, row.spread, round(row.mean, 6)) for row in answers]


def rate_of(side: Callable[[DataFrame], DataFrame], name: str, spark: SparkSession, home: Path) -> tuple[float, Any]:
    """The panes per second of one side, and its answers."""
    panes = int(home.name)
    seconds, answers = run(side, spark, home)
    print(f"{name:<24} {panes:>9,} panes a batch {seconds:>8.2f} s {panes / seconds:>10,.0f} panes/s", flush=True)
    return panes / seconds, answers


def main(panes: int, fewer: int) -> None:
    spark = session()
    with tempfile.TemporaryDirectory() as folder:
        homes = {n: Path(folder, str(n)) for n in (panes, fewer)}
        for n, home in homes.items():
            write(spark, f"{home}/in", n)
        full = rate_of(ours, "apply", spark, homes[panes])[0] if panes != fewer else None
        mine, own = rate_of(ours, "apply", spark, homes[fewer])
        other_rate, other_answers = rate_of(sparks, "applyInPandasWithState", spark, homes[fewer])
    closed = {answer[1] for answer in own} & {answer[1] for answer in other_answers}
    own, other_answers = ([answer for answer in side if answer[1] in closed] for side in (own, other_answers))
    if own != other_answers or len(own) < (BATCHES - 2) * fewer:
        raise SystemExit(f"The answers differ: {len(own)} and {len(other_answers)} panes.")
    print(f"equal answers of {len(own):,} panes of {ROWS} rows (goal: {GOAL} times as fast)")
    print(f"{mine / other_rate:.1f} times as fast at the same number")
    if full is not None:
        print(f"{full / other_rate:.1f} times as fast with {panes:,} panes in a batch")


if __name__ == "__main__":
    numbers = [int(text) for text in sys.argv[1:3]]
    panes_, fewer_ = (*numbers, *(100_000, 5000)[len(numbers) :])
    main(panes_, min(panes_, fewer_))
