"""A program over topics for tests. Each of its jobs passes the rows of a topic to a function that may publish."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion import topics
from mullion._program.app import App
from mullion._program.jobs import Job
from mullion._program.part_names import Named
from mullion._program.report import Part, where_of

Rows = list[dict[str, Any]]
Handler = Callable[[Rows], dict[str, Rows]]
"""A function from the rows of a task to rows by topic."""


class Relay(App):
    api = "turbine"

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(name, **options)
        self._handlers: list[Job] = []

    def relay(self, read: str, publish: Sequence[str], handler: Handler, schema: str | None = None) -> None:
        name = handler.__name__
        self.names.register(Named("handler", name, where_of(handler), name))

        def build(spark: SparkSession) -> DataFrame:
            stream = self.stream(name, read, schema).drop("_columns")
            rows = stream.withColumn("_timestamp", F.unix_micros("_timestamp") / 1e6)
            return rows.mapInArrow(handling(handler), topics.OUTPUTS)

        self._handlers.append(Job(name, (read,), tuple(publish), build))

    def _jobs(self) -> Sequence[Job]:
        return self._handlers

    def _parts(self) -> Sequence[Part]:
        return [Part(part.name, "Python", "it is a function", part.where) for part in self.names.all()]


def handling(handler: Handler) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def handle(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = [row for batch in batches for row in batch.to_pylist()]
        for topic, out in (handler(rows) if rows else {}).items():
            encoded = topics.encoded(pa.RecordBatch.from_pylist(out)) if out else None
            yield pa.RecordBatch.from_arrays(
                [pa.array([topic]), pa.array([f"to {topic}"]), pa.array([encoded], pa.binary())],
                names=["topic", "key", "batch"],
            )

    return handle
