"""One side of one workload in a process of its own: ``side.py SIDE WORKLOAD FOLDER`` prints its figures as JSON."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion import Sliding, Tumbling, configure, windowed
from workloads import ALL, CORES, Workload

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def aggregates() -> tuple[Column, ...]:
    return (
        F.count("*").alias("n"),
        F.sum("v").alias("total"),
        F.min("v").alias("least"),
        F.max("v").alias("most"),
    )


def mullion_panes(rows: DataFrame, workload: Workload, state: str = "rocksdb") -> DataFrame:
    window = Tumbling(workload.size) if workload.slide is None else Sliding(workload.size, workload.slide)
    return windowed(rows, window, by="k", time="ts", state=state).agg(*aggregates())


def memory_panes(rows: DataFrame, workload: Workload) -> DataFrame:
    return mullion_panes(rows, workload, state="memory")


def spark_panes(rows: DataFrame, workload: Workload) -> DataFrame:
    return rows.groupBy("k", F.window("ts", workload.size, workload.slide)).agg(*aggregates())


def no_state(rows: DataFrame, _: Workload) -> DataFrame:
    """Each batch for itself: see ``run``."""
    return rows


SIDES = {"mullion": mullion_panes, "memory": memory_panes, "spark": spark_panes, "no state": no_state}


def session() -> SparkSession:
    builder = (
        SparkSession.builder.master(f"local[{CORES}]")
        .config("spark.driver.memory", "8g")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
        .config("spark.sql.streaming.numRecentProgressUpdates", "1000")
        # Without Hadoop's native library the usual manager starts a process for each small file of a checkpoint.
        .config(
            "spark.sql.streaming.checkpointFileManagerClass",
            "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager",
        )
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "ERROR")
    )
    spark: SparkSession = configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def run(side: str, workload: Workload, folder: Path) -> dict[str, Any]:
    spark = session()
    answer = {"panes": 0, "checksum": 0}

    def add(batch: DataFrame, _: int) -> None:
        if side == "no state":
            # What no engine can be faster than: the panes of each batch, as if there were no other.
            batch = spark_panes(batch, workload)
        # In any order, and so cheap that it does not hide what is measured: the hashes of all that a pane says.
        hashed = F.xxhash64("k", "window.start", "n", "total", "least", "most")
        found = batch.agg(F.count("*").alias("n"), F.bit_xor(hashed).alias("hashes")).head()
        assert found is not None
        answer["panes"] += found["n"]
        answer["checksum"] ^= found["hashes"] or 0

    with tempfile.TemporaryDirectory() as checkpoint, tempfile.TemporaryDirectory(dir=folder.parent) as fed:
        source = Path(fed)
        rows = spark.readStream.schema("ts timestamp, k bigint, v bigint").parquet(fed)
        panes = SIDES[side](rows.withWatermark("ts", workload.delay), workload)
        query = panes.writeStream.foreachBatch(add).option("checkpointLocation", checkpoint).start()
        # One file at a time, so that the batches without rows come between.
        for file in sorted(folder.iterdir()):
            hidden = source / f".{file.name}"
            shutil.copy(file, hidden)
            hidden.rename(source / file.name)
            query.processAllAvailable()
        query.stop()
        progress = [json.loads(p.json()) for p in query._jsq.recentProgress()]
    batches = [
        {
            "rows": p["numInputRows"],
            "ms": p["durationMs"]["addBatch"],
            "state_rows": p["stateOperators"][0]["numRowsTotal"] if p["stateOperators"] else 0,
        }
        for p in progress
        if "addBatch" in p["durationMs"]
    ]
    pid = spark._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    spark.stop()
    return {"batches": batches, "peak_mb": peak // 1024, **answer}


if __name__ == "__main__":
    _, wanted_side, wanted_workload, wanted_folder = sys.argv
    chosen = next(w for w in ALL if w.name == wanted_workload)
    print(json.dumps(run(wanted_side, chosen, Path(wanted_folder))))
