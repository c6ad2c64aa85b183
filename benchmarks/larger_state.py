"""State that is larger than memory: tumbling windows with very many open panes, in RocksDB, against Spark's own.

    python benchmarks/larger_state.py [MILLIONS OF PANES] [HEAP IN GB]

The defaults are thirty million panes and 2 GB. Each system runs in a separate process, and both read the same files. A
batch of a million new keys opens a million panes, until all are open. Later batches have a million rows of random open
keys. The script prints the median time of a batch and its processor time in the JVM, with few panes open and with all;
the time from a restart to the end of its first batch; and the size of the checkpoint. The processor time depends less
on other work on the machine. The number of open panes must be the same for both systems.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from harness.rows import SECOND
from harness.spark_session import session
from harness.workloads import CORES
from mullion import Tumbling, windowed

BATCH = 1_000_000
BASE = 1_700_000_000 * SECOND
UPDATES = 5
SYSTEMS = ("mullion", "spark")


def write(folder: Path, name: int, keys: np.ndarray[tuple[int], np.dtype[np.int64]]) -> None:
    times = np.full(len(keys), BASE + SECOND)
    table = pa.table({"ts": pa.array(times, pa.timestamp("us", "UTC")), "k": pa.array(keys, pa.int64())})
    hidden = folder / f".{name:06}"
    pq.write_table(table, hidden, row_group_size=len(keys) // CORES)
    hidden.rename(folder / f"{name:06}.parquet")


def panes(spark: SparkSession, folder: Path, system: str) -> DataFrame:
    files = spark.readStream.schema("ts timestamp, k bigint").option("maxFilesPerTrigger", 1).parquet(str(folder))
    rows = files.withWatermark("ts", "1 second")
    if system == "mullion":
        return windowed(rows, Tumbling("1 day"), by="k", time="ts").agg(F.count("*").alias("n"))
    return rows.groupBy(F.window("ts", "1 day"), "k").agg(F.count("*").alias("n"))


def start(frame: DataFrame, checkpoint: Path) -> StreamingQuery:
    return frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).start()


def batch_ms(query: StreamingQuery) -> list[int]:
    """The milliseconds of each batch that had rows."""
    return [report["durationMs"]["triggerExecution"] for report in query.recentProgress if report["numInputRows"]]


def processor_ms(spark: SparkSession) -> int:
    """The processor time of the JVM."""
    jvm: Any = spark._jvm
    fields = (
        Path("/proc", str(jvm.java.lang.ProcessHandle.current().pid()), "stat").read_text().rpartition(")")[2].split()
    )
    # User and system time.
    return (int(fields[11]) + int(fields[12])) * 1000 // os.sysconf("SC_CLK_TCK")


def run(system: str, millions: int, heap: int) -> None:
    spark = session(heap=heap)
    rng = np.random.default_rng(7)
    with tempfile.TemporaryDirectory() as home:
        source, checkpoint = Path(home, "in"), Path(home, "checkpoint")
        source.mkdir()
        frame = panes(spark, source, system)
        query = start(frame, checkpoint)
        few: list[int] = []
        began_few = processors_few = 0
        for batch in range(millions):
            write(source, batch, np.arange(batch * BATCH, (batch + 1) * BATCH))
            query.processAllAvailable()
            if batch == 0:
                # The first batches of a JVM include the start of shared parts.
                for more in range(2 * UPDATES):
                    if more == UPDATES:
                        began_few = processor_ms(spark)
                    write(source, 900_000 + more, rng.integers(0, BATCH, BATCH))
                    query.processAllAvailable()
                few = batch_ms(query)[-UPDATES:]
                processors_few = processor_ms(spark) - began_few
        began_many = processor_ms(spark)
        for more in range(UPDATES):
            write(source, 950_000 + more, rng.integers(0, millions * BATCH, BATCH))
            query.processAllAvailable()
        many = batch_ms(query)[-UPDATES:]
        processors_many = processor_ms(spark) - began_many
        query.stop()
        write(source, 990_000, rng.integers(0, millions * BATCH, BATCH))
        began = time.monotonic()
        query = start(frame, checkpoint)
        query.processAllAvailable()
        restart = time.monotonic() - began
        progress = query.lastProgress
        query.stop()
        assert progress is not None
        state = progress["stateOperators"][0]
        size = sum(file.stat().st_size for file in checkpoint.rglob("*") if file.is_file())
        figures = {
            "system": system,
            "few ms": statistics.median(few),
            "many ms": statistics.median(many),
            "few processor ms": processors_few // UPDATES,
            "many processor ms": processors_many // UPDATES,
            "restart s": round(restart, 1),
            "checkpoint MB": size >> 20,
            "open": state["customMetrics"].get("panesOpen", state["numRowsTotal"]),
        }
    print(json.dumps(figures))


def main(millions: int, heap: int) -> None:
    open_counts = set()
    for system in SYSTEMS:
        command = [sys.executable, __file__, str(millions), str(heap), system]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            print(f"{system}: ended with {done.returncode}")
            continue
        figures = json.loads(done.stdout.splitlines()[-1])
        open_counts.add(figures["open"])
        print(
            "  ".join(
                f"{name} {value:,}" if isinstance(value, int) else f"{name} {value}" for name, value in figures.items()
            )
        )
    if len(open_counts) > 1:
        raise SystemExit(f"The numbers of open panes differ: {sorted(open_counts)}.")


if __name__ == "__main__":
    numbers = [int(number) for number in sys.argv[1:3]]
    count, gigabytes = (*numbers, *(30, 2)[len(numbers) :])
    if sys.argv[3:]:
        run(sys.argv[3], count, gigabytes)
    else:
        main(count, gigabytes)
