"""``at_end="close"`` as its users run it: through ``foreachBatch``, from sources that give their rows bit by bit."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion import Tumbling, windowed


def written(spark: SparkSession, folder: Path, name: str, *rows: tuple[int, str]) -> None:
    spark.createDataFrame(list(rows), "s long, k string").coalesce(1).write.mode("append").json(str(folder / name))


def counts(spark: SparkSession, *folders: Path) -> DataFrame:
    """Rows of ten seconds each, which come file by file."""
    read = spark.readStream.option("maxFilesPerTrigger", 1).schema("s long, k string")
    streams = [
        read.json(str(folder)).select("k", F.timestamp_seconds("s").alias("ts")).withWatermark("ts", "0 seconds")
        for folder in folders
    ]
    rows = streams[0] if len(streams) == 1 else streams[0].union(streams[1])
    return windowed(rows, Tumbling("10 seconds"), by="k", time="ts", at_end="close").agg(F.count("*").alias("n"))


def test_a_query_over_several_sources_closes_once_all_of_them_are_read(spark: SparkSession, tmp_path: Path) -> None:
    for second in (1, 2, 3):
        written(spark, tmp_path, "one", (second, "a"))
    written(spark, tmp_path, "two", (4, "a"), (12, "b"))
    batches: list[list[tuple[str, int]]] = []

    def write(firings: DataFrame, _number: int) -> None:
        batches.append(sorted((row.k, row.n) for row in firings.collect()))

    def run() -> None:
        batches.clear()
        panes = counts(spark, tmp_path / "one", tmp_path / "two")
        writer = panes.writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()

    run()
    assert batches[-1] == [("a", 4), ("b", 1)]
    assert not any(batches[:-1])
    written(spark, tmp_path, "two", (13, "b"))
    run()
    assert batches[-1] == [("b", 1)]
    assert not any(batches[:-1])
    run()
    assert not any(batches)
