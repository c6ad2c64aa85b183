"""The contents of a topic, and the batches of its stream."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Row


def values(table: pa.Table) -> list[dict[str, Any]]:
    """The rows of a topic, without their keys and times."""
    rows: list[dict[str, Any]] = table.drop_columns(["_key", "_timestamp"]).to_pylist()
    return rows


def batches(stream: DataFrame, checkpoint: Path) -> list[list[Row]]:
    """The rows of each available micro-batch, in order."""
    rows_by_batch: list[list[Row]] = []
    query = (
        stream.writeStream.foreachBatch(lambda rows, _: rows_by_batch.append(rows.collect()))
        .option("checkpointLocation", str(checkpoint / "_checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return rows_by_batch
