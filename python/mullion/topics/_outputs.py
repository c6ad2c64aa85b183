"""What Python stages of a query hand to a publisher: RecordBatches of any schema, as bytes in a binary column."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame

from mullion.errors import InvalidArgumentError

OUTPUTS = "topic string, key string, batch binary"
"""The rows a publisher takes, as DDL: where to, the key of all rows of the batch or null, and the batch or null."""

PRINTED = ""
"""Where to of what the driver prints once the batch is published: a text, in the place of the key."""


def show(printed: Iterable[tuple[int, str]]) -> None:
    """Prints what tasks printed, each with its partition: in their order, whichever came first."""
    for _, text in sorted(printed, key=lambda one: one[0]):
        sys.stdout.write(text)
    sys.stdout.flush()


def partition_of_task() -> int:
    """The partition that this process computes; 0 outside of a task."""
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()


def encoded(batch: pa.RecordBatch) -> bytes:
    """A RecordBatch as one Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def decoded(batch: bytes | pa.Buffer) -> pa.RecordBatch:
    """The RecordBatch that :func:`encoded` made bytes of."""
    with pa.ipc.open_stream(batch) as reader:
        return reader.read_next_batch()


def require_outputs(outputs: DataFrame) -> None:
    """Refuses a DataFrame whose columns are not :data:`OUTPUTS`."""
    if outputs.dtypes != [("topic", "string"), ("key", "string"), ("batch", "binary")]:
        found = ", ".join(f"{name} {kind}" for name, kind in outputs.dtypes)
        raise InvalidArgumentError(f"A publisher takes rows ({OUTPUTS}), and was given ({found}).")


def query_id_of(outputs: DataFrame) -> str:
    """The id of the streaming query that a batch is of, which its checkpoint keeps."""
    found = outputs.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    if not found:
        raise InvalidArgumentError(
            "publish() was called outside a streaming query. Pass it to DataStreamWriter.foreachBatch, which gives it "
            "the query's batches."
        )
    return found
