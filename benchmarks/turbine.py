"""What Turbine's callbacks cost beside the native API, on the same rows: ``turbine.py [ROWS] [KEYS]``.

The native side writes its panes away, with Spark's ``noop`` sink. Turbine's ``on_close`` gets them as one Arrow table
a tick and shard and publishes a row for each; ``on_close_each`` is called for each. All read the same topic, batch by
batch, until it is drained.
"""

# ruff: noqa: N801

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import mullion.turbine as turbine
from mullion import Tumbling, topics, windowed
from mullion.turbine import aggregates as agg
from mullion.turbine import windowing as win
from spark_session import session
from workloads import CORES

BATCHES = 8
SIZE_MS = 10_000


def feed(broker: str, rows: int, keys: int) -> None:
    """Batches of 10 seconds of event time each, so that each closes the panes of the one before."""
    rng = np.random.default_rng(1)
    for batch in range(BATCHES):
        topics.produce(
            broker,
            "events",
            pa.table(
                {
                    "k": rng.integers(0, keys, rows),
                    "v": rng.random(rows),
                    "ts": batch * SIZE_MS + rng.integers(0, SIZE_MS, rows),
                }
            ),
        )


def native(spark: SparkSession, broker: str, home: Path) -> None:
    rows = topics.broker(broker).stream(spark, "events").withColumn("time", F.timestamp_millis("ts"))
    panes = windowed(
        rows.withWatermark("time", "0 seconds"), Tumbling(f"{SIZE_MS} milliseconds"), by="k", time="time", late="reopen"
    ).agg(F.sum("v").alias("value"), F.count("*").alias("n"))
    query = panes.writeStream.format("noop").option("checkpointLocation", str(home / "native"))
    query.trigger(availableNow=True).start().awaitTermination()


def program(spark: SparkSession, broker: str, home: Path, each: bool) -> None:
    app = turbine.App("each" if each else "whole", broker=broker, checkpoint=home / str(each), spark=spark)

    @app.subscribe("events", publish_to=f"out-{each}", parallelism=CORES)
    class benchmark:
        def __init__(self) -> None:
            callback: dict[str, Any] = {"on_close_each": self._each} if each else {"on_close": self._whole}
            self._win = win.PersistentTumbling(
                self,
                name="panes",
                size_ms=SIZE_MS,
                key="k",
                value=agg.Multi(value=agg.Sum("v"), n=agg.Count()),
                time_column="ts",
                **callback,
            )

        def _whole(self, state: object, panes: pa.Table) -> pa.RecordBatch:
            mean = pc.divide(panes["value"], panes["n"].cast(pa.float64()))
            return panes.append_column("mean", mean).combine_chunks().to_batches()[0]

        def _each(self, state: object, window: win.Window, value: Any) -> pa.RecordBatch:
            row = {**window.group, "mean": value.value / value.n, "window_start_ms": window.start_ms}
            return pa.RecordBatch.from_pylist([row])

        def process(self, batch: pa.RecordBatch, state: object) -> None:
            self._win.update(batch, state)

    app.run(until="drained")


def main(rows: int, keys: int) -> None:
    spark = session()
    spark.conf.set("spark.sql.shuffle.partitions", CORES)
    with tempfile.TemporaryDirectory() as folder:
        broker = f"dir:{folder}/topics"
        feed(broker, rows, keys)
        sides: dict[str, Callable[[Path], None]] = {
            "native": lambda home: native(spark, broker, home),
            "on_close": lambda home: program(spark, broker, home, each=False),
            "on_close_each": lambda home: program(spark, broker, home, each=True),
        }
        figures: dict[str, float] = {}
        for run in ("warm-up", "measured"):
            for name, side in sides.items():
                start = time.perf_counter()
                side(Path(folder, run, name))
                figures[name] = rows * BATCHES / (time.perf_counter() - start)
    print(f"{BATCHES} batches of {rows:,} rows, {keys:,} keys, {CORES} cores; Spark {spark.version}")
    for name, figure in figures.items():
        print(f"{name:<14} {figure:>12,.0f} rows/s   {figure / figures['native']:.2f} of native")


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[1:]]
    main(*(numbers + [500_000, 20_000][len(numbers) :]))
