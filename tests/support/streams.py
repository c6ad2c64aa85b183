"""Streams that a test writes batch by batch, and a query's progress of each batch."""

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
"""A time (in the year 2096) after all others. Its row advances the watermark and enters no pane."""


class Feed:
    """A folder from which a query reads one file per batch. Rows have a time ``t`` in microseconds, and ``columns``."""

    def __init__(self, folder: Path, columns: str) -> None:
        self.folder = folder
        self.folder.mkdir(parents=True, exist_ok=True)
        self.ddl = f"t bigint, {columns}"
        schema = StructType.fromDDL(self.ddl)
        assert isinstance(schema, StructType)
        self._arrow = to_arrow_schema(schema, **IN_UTC)
        self._written = len(list(self.folder.glob("*.parquet")))

    def write(self, rows: Iterable[Sequence[Any] | Mapping[str, Any]]) -> None:
        """Writes one batch: rows in the order of the columns, or by their names."""
        names = self._arrow.names
        dicts = [row if isinstance(row, Mapping) else dict(zip(names, row, strict=True)) for row in rows]
        hidden = self.folder / f".{self._written:06}"
        pq.write_table(pa.Table.from_pylist(dicts, self._arrow), hidden)
        # The source orders files by age, which must differ.
        os.utime(hidden, (self._written, self._written))
        hidden.rename(self.folder / f"{self._written:06}.parquet")
        self._written += 1

    def flood(self) -> None:
        """Writes a batch that advances the clock past the end of every window."""
        self.write([{"t": FLOOD}])

    def stream(self, spark: SparkSession, delay: str = "0 seconds") -> DataFrame:
        """The rows with their event time ``ts`` and a watermark. Only the watermark receives the rows of ``flood``."""
        files = spark.readStream.schema(self.ddl).option("maxFilesPerTrigger", 1).parquet(str(self.folder))
        # Spark does not push a condition on the event time below the watermark.
        rows = files.withColumn("ts", F.timestamp_micros("t")).withWatermark("ts", delay)
        return rows.where(F.col("ts").isNull() | (F.col("ts") != F.timestamp_micros(F.lit(FLOOD))))

    def batch(self, spark: SparkSession) -> DataFrame:
        """All rows so far as a batch DataFrame."""
        rows = spark.read.schema(self.ddl).parquet(str(self.folder)).withColumn("ts", F.timestamp_micros("t"))
        return rows.where(F.col("ts").isNull() | (F.col("ts") != F.timestamp_micros(F.lit(FLOOD))))


def rows_of(spark: SparkSession, feed: Feed, delay: str | None = "0 seconds") -> DataFrame:
    """The rows of a feed with their event time ``ts``, and with a watermark if ``delay`` is set."""
    stream = spark.readStream.schema(feed.ddl).option("maxFilesPerTrigger", 1).parquet(str(feed.folder))
    timed = stream.withColumn("ts", F.timestamp_micros("t"))
    return timed if delay is None else timed.withWatermark("ts", delay)


# --- Keys of one hash ------------------------------------------------------------------------------------------------


def batches_of(query: ClockedQuery, operator: int = 0) -> list[dict[str, Any]]:
    """The progress of one stateful operator in each batch: Spark's and Mullion's metrics."""
    reports: dict[int, dict[str, Any]] = {}
    for report in query.progress:
        # A waiting query also reports progress without a batch.
        if "addBatch" in report["durationMs"]:
            metrics = report["stateOperators"][operator]
            reports[report["batchId"]] = {**metrics["customMetrics"], **metrics, "batchId": report["batchId"]}
    return [reports[batch] for batch in sorted(reports)]
