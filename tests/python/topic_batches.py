"""What the tests of topics share."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, Row


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
