"""The Spark session of a benchmark: local, with few partitions, and with Mullion."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from harness.workloads import CORES
from mullion import configure

_STATE = "org.apache.spark.sql.execution.streaming.state."
STORES = {"rocksdb": f"{_STATE}RocksDBStateStoreProvider", "hdfs": f"{_STATE}HDFSBackedStateStoreProvider"}


def session(
    store: str = "rocksdb", cores: int = CORES, heap: int = 8, partitions: int = CORES, *, ui: bool = False
) -> SparkSession:
    # Workers use the packages and modules of this process.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    here = str(Path(__file__).parents[1])
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))
    builder = (
        SparkSession.builder.master(f"local[{cores}]")
        .config("spark.driver.memory", f"{heap}g")
        .config("spark.sql.shuffle.partitions", str(partitions))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.streaming.stateStore.providerClass", STORES[store])
        .config("spark.sql.streaming.numRecentProgressUpdates", "1000")
        # Without Hadoop's native library the default manager starts a process for each file of a checkpoint.
        .config(
            "spark.sql.streaming.checkpointFileManagerClass",
            "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager",
        )
        .config("spark.ui.enabled", str(ui).lower())
        .config("spark.ui.port", "0")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
    )
    spark: SparkSession = configure(builder, local_files=True).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark
