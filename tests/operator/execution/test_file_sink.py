"""The files of a Parquet sink: a batch without firings leaves an empty file, unless the sink has partitions."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from mullion import Tumbling, windowed
from tests.support.streams import SECOND, Feed


@pytest.mark.always
@pytest.mark.parametrize("by_day", [False, True], ids=["one folder", "partitions"])
def test_only_a_sink_with_partitions_has_no_file_for_a_batch_without_firings(
    by_day: bool, spark: SparkSession, tmp_path: Path
) -> None:
    feed = Feed(tmp_path / "in", "k string")
    for minute in range(10):
        feed.write([(minute * 60 * SECOND, "a")])
    feed.write([(7200 * SECOND, "a")])
    panes = windowed(feed.stream(spark), Tumbling("1 hour"), by="k", time="ts").agg(F.count("*").alias("n"))
    rows = panes.select("k", "n", F.to_date("window.start").alias("day"))
    writer = rows.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    if by_day:
        writer = writer.partitionBy("day")
    writer.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()

    files = list((tmp_path / "out").rglob("*.parquet"))
    assert [(row.k, row.n) for row in spark.read.parquet(str(tmp_path / "out")).collect()] == [("a", 10)]
    # Eleven batches of rows, and one without, which closes the window.
    assert len(files) == (1 if by_day else 12)
