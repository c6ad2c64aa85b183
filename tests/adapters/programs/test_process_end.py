"""The end of a process whose query has ended."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.killing import environment

PROGRAM = """
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from mullion import Tumbling, configure, windowed

options = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1", "spark.sql.session.timeZone": "UTC"}
spark = configure(SparkSession.builder.master("local[1]").config(map=options)).getOrCreate()
log4j = spark._jvm.org.apache.logging.log4j
log4j.core.config.Configurator.setLevel(
    "org.apache.spark.sql.execution.streaming.state.StateStore", log4j.Level.INFO
)
folder = sys.argv[1]
spark.range(20).select(F.timestamp_seconds("id").alias("ts")).coalesce(1).write.parquet(f"{folder}/in")
rows = spark.readStream.schema("ts timestamp").parquet(f"{folder}/in").withWatermark("ts", "0 seconds")
panes = windowed(rows, Tumbling("10 seconds"), time="ts").agg(F.count("*").alias("n"))
query = panes.writeStream.format("noop").option("checkpointLocation", f"{folder}/checkpoint")
query.trigger(availableNow=True).start().awaitTermination()
print("ended", file=sys.stderr, flush=True)
"""


def test_stores_that_a_query_left_open_are_closed_before_the_process_ends(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, str(program), str(tmp_path)], env=environment(), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    _, after = done.stderr.split("ended\n")
    assert "StateStore stopped" in after
