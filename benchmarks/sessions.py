"""Sessions of very many keys that come and go, and what they leave in state: nothing.

``sessions.py [KEYS]``: ten million keys by default, a million new ones in each batch. Each
key's session closes with the next batch.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.rows import SECOND
from harness.spark_session import session
from harness.workloads import CORES
from mullion import Session, windowed

BATCH = 1_000_000
BASE = 1_700_000_000 * SECOND


def main(keys: int) -> None:
    spark = session()
    closed = 0

    def add(batch: DataFrame, _: int) -> None:
        nonlocal closed
        closed += batch.count()

    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as checkpoint:
        rows = spark.readStream.schema("ts timestamp, k bigint").parquet(folder).withWatermark("ts", "1 second")
        # The last row only moves the watermark.
        counts = windowed(rows.where("k >= 0 OR ts IS NULL"), Session("5 seconds"), by="k", time="ts")
        panes = counts.agg(F.count("*").alias("n"))
        query = panes.writeStream.foreachBatch(add).option("checkpointLocation", checkpoint).start()
        for first in [*range(0, keys, BATCH), keys]:
            number = np.arange(first, min(first + BATCH, keys)) if first < keys else np.array([-1])
            times = np.full(len(number), BASE + first // BATCH * 60 * SECOND)
            table = pa.table({"ts": pa.array(times, pa.timestamp("us", "UTC")), "k": pa.array(number, pa.int64())})
            hidden = Path(folder, f".{first:012}")
            pq.write_table(table, hidden, row_group_size=max(1, len(number) // CORES))
            hidden.rename(Path(folder, f"{first:012}.parquet"))
            query.processAllAvailable()
            operator = json.loads(query._jsq.lastProgress().json())["stateOperators"][0]
            open_sessions, used = operator["customMetrics"]["panesOpen"], operator["memoryUsedBytes"] >> 20
            print(
                f"{min(first + BATCH, keys):,} keys read, {closed:,} sessions closed; in state "
                f"{operator['numRowsTotal']:,} records of {open_sessions:,} sessions, {used:,} MB"
            )
        query.stop()
    if closed != keys or operator["numRowsTotal"]:
        raise SystemExit(f"{closed:,} of {keys:,} sessions closed, and {operator['numRowsTotal']:,} records are left.")


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 10_000_000)
