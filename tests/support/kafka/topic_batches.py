"""What a topic holds, and what its stream gives batch by batch."""

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
    """The rows of each micro-batch that there is, in order."""
    seen: list[list[Row]] = []
    query = (
        stream.writeStream.foreachBatch(lambda rows, _: seen.append(rows.collect()))
        .option("checkpointLocation", str(checkpoint / "_checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return seen
