"""Streams that a test writes batch by batch, and what a query made of each."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from mullion._util.spark_versions import IN_UTC
from tests.support.clocked import ClockedQuery

SECOND = 1_000_000

FLOOD = 4_000_000_000 * SECOND
"""A time (in the year 2096) after all others: a row there moves the watermark and enters no pane."""


class Feed:
    """A folder that a query reads one file a batch from. Rows have a time ``t`` in microseconds, and ``columns``."""

    def __init__(self, folder: Path, columns: str) -> None:
        self.folder = folder
        self.folder.mkdir(parents=True, exist_ok=True)
        self.ddl = f"t bigint, {columns}"
        schema = StructType.fromDDL(self.ddl)
        assert isinstance(schema, StructType)
        self._arrow = to_arrow_schema(schema, **IN_UTC)
        self._written = len(list(self.folder.glob("*.parquet")))

    def write(self, rows: Iterable[Sequence[Any] | Mapping[str, Any]]) -> None:
        """One batch: rows in the order of the columns, or by their names."""
        names = self._arrow.names
        dicts = [row if isinstance(row, Mapping) else dict(zip(names, row, strict=True)) for row in rows]
        hidden = self.folder / f".{self._written:06}"
        pq.write_table(pa.Table.from_pylist(dicts, self._arrow), hidden)
        # The source takes files by their age, which must not be equal.
        os.utime(hidden, (self._written, self._written))
        hidden.rename(self.folder / f"{self._written:06}.parquet")
        self._written += 1

    def flood(self) -> None:
        """A batch that moves the clock past the end of every window."""
        self.write([{"t": FLOOD}])

    def stream(self, spark: SparkSession, delay: str = "0 seconds") -> DataFrame:
        """The rows with their event time ``ts``, watermarked; without the floods, which only the watermark sees."""
        files = spark.readStream.schema(self.ddl).option("maxFilesPerTrigger", 1).parquet(str(self.folder))
        # The condition is on the event time, so Spark leaves it above the watermark.
        seen = files.withColumn("ts", F.timestamp_micros("t")).withWatermark("ts", delay)
        return seen.where(F.col("ts").isNull() | (F.col("ts") != F.timestamp_micros(F.lit(FLOOD))))

    def batch(self, spark: SparkSession) -> DataFrame:
        """All rows so far as a batch DataFrame."""
        rows = spark.read.schema(self.ddl).parquet(str(self.folder)).withColumn("ts", F.timestamp_micros("t"))
        return rows.where(F.col("ts").isNull() | (F.col("ts") != F.timestamp_micros(F.lit(FLOOD))))


def rows_of(spark: SparkSession, feed: Feed, delay: str | None = "0 seconds") -> DataFrame:
    """The rows of a feed with their event time ``ts``; without a delay, without a watermark."""
    stream = spark.readStream.schema(feed.ddl).option("maxFilesPerTrigger", 1).parquet(str(feed.folder))
    timed = stream.withColumn("ts", F.timestamp_micros("t"))
    return timed if delay is None else timed.withWatermark("ts", delay)


# --- Keys of one hash ------------------------------------------------------------------------------------------------


def batches_of(query: ClockedQuery, operator: int = 0) -> list[dict[str, Any]]:
    """What one stateful operator reported of each batch that ran: its metrics, Mullion's own beside Spark's."""
    reports: dict[int, dict[str, Any]] = {}
    for report in query.progress:
        # A query that waits reports now and then that it does nothing.
        if "addBatch" in report["durationMs"]:
            metrics = report["stateOperators"][operator]
            reports[report["batchId"]] = {**metrics["customMetrics"], **metrics, "batchId": report["batchId"]}
    return [reports[batch] for batch in sorted(reports)]
