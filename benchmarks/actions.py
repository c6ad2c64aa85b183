"""The cost of several actions on each batch in `foreachBatch`, against Spark's own windows.

    python benchmarks/actions.py [OPEN PANES] [ROUNDS]

The first batch opens all panes (500,000 by default). Each later batch has 100 rows of open panes, and the function
uses its DataFrame in one of six ways. The script prints the median time of the function for each way, the median time
of the same actions on a table of 100 rows, which is the cost of Spark's jobs, and the records of state that were read.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from harness.rows import SECOND
from harness.spark_session import session
from harness.workloads import CORES
from mullion import Early, Tumbling, windowed

BASE = 1_700_000_000 * SECOND
ROWS = 100
# The number of warm-up rounds of each way.
WARM = 2


def write(df: DataFrame) -> None:
    df.write.format("noop").mode("overwrite").save()


def two(df: DataFrame) -> None:
    df.count()
    write(df)


def three(df: DataFrame) -> None:
    df.count()
    two(df)


def is_empty_first(df: DataFrame) -> None:
    if not df.isEmpty():
        write(df)


def limit_first(df: DataFrame) -> None:
    df.limit(20).collect()
    write(df)


def persisted(df: DataFrame) -> None:
    df.persist()
    is_empty_first(df)
    df.unpersist()


WAYS: dict[str, Callable[[DataFrame], None]] = {
    "one action": write,
    "two actions": two,
    "three actions": three,
    "isEmpty first": is_empty_first,
    "limit first": limit_first,
    "persist, isEmpty first": persisted,
}


def panes(spark: SparkSession, folder: Path, system: str) -> DataFrame:
    files = spark.readStream.schema("ts timestamp, k bigint").option("maxFilesPerTrigger", 1).parquet(str(folder))
    rows = files.withWatermark("ts", "0 seconds")
    if system == "mullion":
        return windowed(rows, Tumbling("10 days"), by="k", time="ts", early=Early(count=1)).agg(F.count("*").alias("n"))
    return rows.groupBy(F.window("ts", "10 days"), "k").agg(F.count("*").alias("n"))


def run(spark: SparkSession, system: str, opened: int, rounds: int) -> None:
    took: defaultdict[str, list[float]] = defaultdict(list)
    jobs: defaultdict[str, list[float]] = defaultdict(list)
    table = spark.range(0, ROWS, 1, CORES)
    read: dict[str, str] = {}
    names = list(WAYS)
    way = ""

    def use(df: DataFrame, _: int) -> None:
        began = time.monotonic()
        WAYS[way](df)
        took[way].append((time.monotonic() - began) * 1000)
        began = time.monotonic()
        WAYS[way](table)
        jobs[way].append((time.monotonic() - began) * 1000)

    with tempfile.TemporaryDirectory() as home:
        source = Path(home, "in")
        source.mkdir()
        writer = panes(spark, source, system).writeStream.outputMode("update").foreachBatch(use)
        query = None
        for batch in range(1 + rounds * len(names)):
            way = names[batch % len(names)]
            keys = np.arange(opened if batch == 0 else ROWS)
            times = pa.array(np.full(len(keys), BASE + batch * SECOND), pa.timestamp("us", "UTC"))
            hidden = source / f".{batch:06}"
            pq.write_table(pa.table({"ts": times, "k": pa.array(keys, pa.int64())}), hidden)
            hidden.rename(source / f"{batch:06}.parquet")
            query = query or writer.option("checkpointLocation", str(Path(home, "checkpoint"))).start()
            query.processAllAvailable()
            last = query.lastProgress
            assert last is not None
            read[way] = str(last["stateOperators"][0]["customMetrics"].get("stateRowsRead", "-"))
        assert query is not None
        query.stop()
    first = took[names[0]].pop(0)
    print(f"{system}: {opened:,} panes opened in {first:,.0f} ms", flush=True)
    for name in names:
        used, alone = statistics.median(took[name][WARM:]), statistics.median(jobs[name][WARM:])
        print(f"  {name:<24} {used:6.0f} ms, jobs alone {alone:6.0f} ms, records read {read[name]}", flush=True)


if __name__ == "__main__":
    numbers = [int(number) for number in sys.argv[1:3]]
    count, repeats = (*numbers, *(500_000, 12)[len(numbers) :])
    spark_of_all = session(heap=2)
    # Spark's windows would run a batch without rows after each batch that moves the watermark.
    spark_of_all.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
    for name_of in ("spark", "mullion"):
        run(spark_of_all, name_of, count, repeats)
    spark_of_all.stop()
