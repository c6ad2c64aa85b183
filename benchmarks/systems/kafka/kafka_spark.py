"""Mullion, and Spark's own windows, from Kafka to Kafka: ``kafka_spark.py SYSTEM SETTINGS``. Ends with its input.

Micro-batches follow each other without a pause. A batch has a tenth of the messages at most, so that both run several
batches under full load.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

ROOT = Path(__file__).parents[3]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT)]

COLUMNS = "id string, k string, ts long, v long, country string, price double"


def session() -> SparkSession:
    from tests.support.kafka.kafka_connector import connector_jars

    from harness import spark_session
    from mullion._util.jars import carried, running_line

    os.environ["PYSPARK_SUBMIT_ARGS"] = (
        f"--jars {','.join(map(str, [carried(running_line()), *connector_jars()]))} pyspark-shell"
    )
    return spark_session.session(heap=2)


def panes(system: str, rows: DataFrame) -> DataFrame:
    aggregates = F.count("*").alias("n"), F.sum("v").alias("total")
    if system == "mullion":
        from mullion import Tumbling, windowed

        return windowed(rows, Tumbling("1 second"), by=["k"], time="at").agg(*aggregates)
    return rows.groupBy(F.window("at", "1 second"), "k").agg(*aggregates)


def main(system: str, settings: dict[str, Any]) -> None:
    spark = session()
    messages = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", settings["servers"])
        .option("subscribe", settings["source"])
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", max(20_000, settings["rows"] // 10))
        .load()
    )
    rows = (
        messages.select(F.from_json(F.col("value").cast("string"), COLUMNS).alias("message"))
        .select("message.*")
        .withColumn("at", F.timestamp_millis("ts"))
        .withWatermark("at", "1 second")
    )
    results = F.struct("k", F.unix_millis("window.start").alias("start"), "n", "total")
    query = (
        panes(system, rows)
        .select(F.col("k").alias("key"), F.to_json(results).alias("value"))
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", settings["servers"])
        .option("topic", settings["target"])
        .option("checkpointLocation", f"{settings['home']}/checkpoint")
        .outputMode("append")
        .start()
    )
    sys.stdin.read()
    query.stop()


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
