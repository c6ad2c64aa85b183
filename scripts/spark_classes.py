"""Creates an archive of the classes of Spark that a small stream uses, which the next JVM maps instead of loading them.

    SPARK_SUBMIT_OPTS=-XX:ArchiveClassesAtExit=FILE python scripts/spark_classes.py

With -XX:SharedArchiveFile=FILE Spark then starts in half of the processor time. Java checks that its version and
Spark's JARs match the archive, and otherwise loads the classes as usual.
"""

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F


def look_at(batch: DataFrame, _: int) -> None:
    batch.collect()


def main(home: Path) -> None:
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "2").config(
        "spark.sql.streaming.stateStore.providerClass",
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    )
    spark = builder.getOrCreate()
    rows = spark.range(100).select("id", F.timestamp_seconds("id").alias("at"), F.col("id").cast("string").alias("key"))
    rows.write.parquet(str(home / "in"))
    rows.write.json(str(home / "json"))
    spark.createDataFrame([(1, "a")], ["n", "key"]).toPandas()
    stream = spark.readStream.schema(rows.schema).parquet(str(home / "in")).withWatermark("at", "1 second")
    counts = stream.groupBy(F.window("at", "10 seconds"), "key").agg(F.count("*"), F.avg("id"))
    for outputs in (
        counts.writeStream.format("memory").queryName("counts"),
        counts.writeStream.foreachBatch(look_at),
    ):
        outputs.option("checkpointLocation", tempfile.mkdtemp(dir=home)).trigger(
            availableNow=True
        ).start().awaitTermination()
    # The JVM writes the archive at its end, so wait for that.
    gateway: Any = SparkContext._gateway
    spark.stop()
    gateway.proc.stdin.close()
    gateway.proc.wait()


if __name__ == "__main__":
    # Otherwise Spark starts the first python3 on the path, which may have another version.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder))
