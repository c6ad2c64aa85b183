"""What Python stages of a query hand to a publisher: RecordBatches of any schema, as bytes in a binary column."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame

from mullion._codec.arrow import decoded, encoded
from mullion.errors import InvalidArgumentError
from mullion.topics._records import Headers

OUTPUTS = "topic string, key string, batch binary"
"""The rows a publisher takes, as DDL: where to, the key of all rows of the batch or null, and the batch or null."""

OUTPUTS_WITH_HEADERS = f"{OUTPUTS}, headers array<struct<key: string, value: binary>>"
"""The same with what Kafka has beside key and value: the headers of all rows of the batch, or null."""

_HEADERS = ("headers", "array<struct<key:string,value:binary>>")

PRINTED = ""
"""Where to of what the driver prints once the batch is published: RecordBatches with texts in the column ``value``."""

NOTED = "callback string, topic string, key string, batch binary, note binary"
"""The same with a note, as DDL, and what made it."""

_NOTED_SCHEMA: Final = pa.schema(
    [
        ("callback", pa.string()),
        ("topic", pa.string()),
        ("key", pa.string()),
        ("batch", pa.binary()),
        ("note", pa.binary()),
    ]
)

_MOST_BYTES: Final = 64 << 20
"""About how large a batch may be that crosses Spark in one row."""


class Note(NamedTuple):
    """What a worker has to say of what a callback made, before any of it is published."""

    callback: str
    says: bytes


class Output(NamedTuple):
    """A RecordBatch on its way to a topic, in a worker; ``key`` is of all its rows."""

    topic: str
    key: str | None
    batch: pa.RecordBatch
    note: Note | None = None
    headers: Headers | None = None


Make: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterable[Output]]
"""What a worker makes of the rows of a task. It is pickled."""

Tell: TypeAlias = Callable[[Iterable[Note]], None]
"""What the driver does with the notes of a batch, in which there may be equal ones."""


def carried(outputs: Sequence[Output]) -> Iterator[pa.RecordBatch]:
    """What a worker made as rows :data:`NOTED`, for a later stage of its query."""
    rows = []
    for output in outputs:
        callback, says = output.note or (None, None)
        rows += [(callback, output.topic, output.key, encoded(batch), says) for batch in _in_pieces(output.batch)]
    if rows:
        columns = zip(*rows, strict=True)
        arrays = [pa.array(list(values), field.type) for values, field in zip(columns, _NOTED_SCHEMA, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=_NOTED_SCHEMA)


def outputs_in(batches: Iterable[pa.RecordBatch]) -> Iterator[Output]:
    """What rows :data:`OUTPUTS` or :data:`NOTED` carry."""
    for rows in batches:
        count = rows.num_rows
        noted = "note" in rows.schema.names
        columns = [rows[name].to_pylist() for name in ("topic", "key", "batch")]
        columns += [rows[name].to_pylist() if noted else [None] * count for name in ("callback", "note")]
        columns.append(rows["headers"].to_pylist() if "headers" in rows.schema.names else [None] * count)
        for topic, key, batch, callback, says, headers in zip(*columns, strict=True):
            if batch is not None:
                note = None if says is None else Note(callback, says)
                yield Output(topic, key, decoded(batch), note, _headers(topic, headers))


def _headers(topic: str, given: Sequence[Mapping[str, Any] | None] | None) -> Headers | None:
    if given is None:
        return None
    found = []
    for header in given:
        if header is None or header["key"] is None:
            raise InvalidArgumentError(
                f"A row for topic {topic!r} has a header without a name. Kafka needs one: leave the header out."
            )
        found.append((header["key"], header["value"]))
    return found


def _in_pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    rows = max(1, batch.num_rows * _MOST_BYTES // max(batch.nbytes, 1))
    for start in range(0, max(1, batch.num_rows), rows):
        yield batch.slice(start, rows)


def show(printed: Iterable[tuple[int, str]]) -> None:
    """Prints what tasks printed, each with its partition: in their order, whichever came first."""
    for _, text in sorted(printed, key=lambda one: one[0]):
        sys.stdout.write(text)
    sys.stdout.flush()


def partition_of_task() -> int:
    """The partition that this process computes; 0 outside of a task."""
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()


def require_outputs(outputs: DataFrame) -> None:
    """Refuses a DataFrame whose columns are not :data:`OUTPUTS`."""
    plain = [("topic", "string"), ("key", "string"), ("batch", "binary")]
    if outputs.dtypes not in (plain, [*plain, _HEADERS]):
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
