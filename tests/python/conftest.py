"""One Spark session for the suite: small, in UTC, and with Mullion added as a user adds it."""

import os
import sys
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import mullion


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    # Python workers have the packages that the tests have.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("mullion-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.streaming.stopTimeout", "30s")
        # Hundreds of small queries: what they cost is compiling, of their code by Spark and of that by the JVM.
        .config("spark.sql.codegen.cache.maxEntries", "5000")
        # Code that does not compile is a failure, and nothing to work round in silence.
        .config("spark.sql.codegen.fallback", "false")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")
        # So that what a query left in memory can be looked at, and it can go on, after any batch.
        .config("spark.sql.streaming.stateStore.mullion.snapshotEvery", "1")
        # So that what a query left in RocksDB is all in its snapshot, where it can be looked at.
        .config("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "false")
        # Without Hadoop's native library the usual manager starts a process for each small file of a checkpoint.
        .config(
            "spark.sql.streaming.checkpointFileManagerClass",
            "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager",
        )
    )
    session = mullion.configure(builder).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
