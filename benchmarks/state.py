"""The cost of state for a Python function: rows per second of one that reads and writes a record for each row.

    python benchmarks/state.py [rows in a batch]

Each side runs the same batches in turn: ``none`` counts in a dict and has no state, ``get, put`` reads each key
separately, and ``get_many`` reads the keys of an Arrow batch at once. The first batch is left out. The median of the
others is shown, with the cost of a row in addition to ``none``.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from harness.spark_session import session
from mullion._keyed.api import Function, State, stateful_map

KEYS = (1_000, 100_000)
BATCHES = 4


def without(batches: Iterator[pa.RecordBatch], state: State) -> Iterator[pa.RecordBatch]:
    counts: dict[bytes, bytes] = {}
    for batch in batches:
        for key in batch.column("k").to_pylist():
            counts[key] = b"%d" % (int(counts.get(key) or b"0") + 1)
    yield pa.RecordBatch.from_pylist([{"keys": len(counts)}])


def one_by_one(batches: Iterator[pa.RecordBatch], state: State) -> Iterator[pa.RecordBatch]:
    rows = 0
    for batch in batches:
        for key in batch.column("k").to_pylist():
            state.put(key, b"%d" % (int(state.get(key) or b"0") + 1))
        rows += batch.num_rows
    yield pa.RecordBatch.from_pylist([{"keys": rows}])


def at_once(batches: Iterator[pa.RecordBatch], state: State) -> Iterator[pa.RecordBatch]:
    rows = 0
    for batch in batches:
        keys = batch.column("k").to_pylist()
        state.get_many(keys)
        for key in keys:
            state.put(key, b"%d" % (int(state.get(key) or b"0") + 1))
        rows += batch.num_rows
    yield pa.RecordBatch.from_pylist([{"keys": rows}])


SIDES = {"none": without, "get, put": one_by_one, "get_many": at_once}


def micros_per_row(spark: SparkSession, function: Function, rows: int, keys: int) -> float:
    """The median of a query's batches, without the first."""
    with tempfile.TemporaryDirectory() as home:
        source, checkpoint = f"{home}/in", f"{home}/checkpoint"
        for batch in range(BATCHES):
            key = F.expr(f"cast(concat('key ', pmod(xxhash64(id, {batch}), {keys})) as binary) as k")
            spark.range(rows).select(key).coalesce(1).write.mode("append").parquet(source)
        stream = spark.readStream.schema("k binary").option("maxFilesPerTrigger", 1).parquet(source)
        out = stateful_map(stream, function, "keys bigint", shard_by="k")
        query = out.writeStream.format("noop").option("checkpointLocation", checkpoint)
        running = query.trigger(availableNow=True).start()
        running.awaitTermination()
        took = [report["durationMs"]["addBatch"] for report in running.recentProgress][1:]
    return float(statistics.median(took)) * 1000 / rows


def main(rows: int) -> None:
    spark = session()
    # The first query of a JVM includes the start of shared parts, so it is not measured.
    micros_per_row(spark, one_by_one, rows, KEYS[0])
    print(f"{'keys':>8} {'side':<10} {'rows/s':>10} {'µs/row':>8} {'of it state':>12}")
    for keys in KEYS:
        base = 0.0
        for side, function in SIDES.items():
            per_row = micros_per_row(spark, function, rows, keys)
            base = per_row if side == "none" else base
            beyond = "" if side == "none" else f"{per_row - base:.2f} µs"
            print(f"{keys:>8} {side:<10} {1e6 / per_row:>10,.0f} {per_row:>8.2f} {beyond:>12}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300_000)
