"""Output of Python stages for a publisher: RecordBatches of any schema, as bytes in a binary column."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import FunctionType
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame

from mullion._bridge.query_errors import NO_FUNCTION
from mullion._util.codec.arrow import decoded, encoded
from mullion.errors import InvalidArgumentError
from mullion.topics._records import Headers

OUTPUTS = "topic string, key string, batch binary"
"""The input rows of a publisher, as DDL: the topic, the key of all rows or null, and the batch or null."""

OUTPUTS_WITH_HEADERS = f"{OUTPUTS}, headers array<struct<key: string, value: binary>>"
"""The same with the Kafka headers of all rows of the batch, or null."""

OUTPUTS_WITH_TIMES = f"{OUTPUTS_WITH_HEADERS}, timestamp bigint"
"""The same with the time of all rows of the batch in microseconds since the epoch; null is the time of publication."""

_HEADERS = ("headers", "array<struct<key:string,value:binary>>")
_TIMESTAMP = ("timestamp", "bigint")

PRINTED = ""
"""The topic of texts that the driver prints after the batch is published, in the column ``value``."""

NOTED = "callback string, topic string, key string, batch binary, note binary"
"""The same with a note and its callback, as DDL."""

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
"""The approximate maximum size of a batch in one Spark row."""


class Note(NamedTuple):
    """A message of a worker about the output of a callback, sent before any of it is published."""

    callback: str
    content: bytes


class Output(NamedTuple):
    """A RecordBatch for a topic, in a worker; ``key`` applies to all its rows."""

    topic: str
    key: str | None
    batch: pa.RecordBatch
    note: Note | None = None
    headers: Headers | None = None
    timestamp_us: int | None = None


Make: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterable[Output]]
"""A function from the rows of a task to outputs, run in a worker. It is pickled."""


def functions_of(make: Make) -> str:
    """The user's functions that ``make`` calls, for plans and errors."""
    return NO_FUNCTION if isinstance(make, FunctionType) else str(getattr(make, "__name__", NO_FUNCTION))


Tell: TypeAlias = Callable[[Iterable[Note]], None]
"""A function of the notes of a batch on the driver. Notes may be repeated."""


def carried(outputs: Sequence[Output]) -> Iterator[pa.RecordBatch]:
    """A worker's outputs as rows :data:`NOTED`, for a later stage of its query."""
    rows = []
    for output in outputs:
        callback, content = output.note or (None, None)
        rows += [(callback, output.topic, output.key, encoded(batch), content) for batch in _in_pieces(output.batch)]
    if rows:
        columns = zip(*rows, strict=True)
        arrays = [pa.array(list(values), field.type) for values, field in zip(columns, _NOTED_SCHEMA, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=_NOTED_SCHEMA)


def outputs_in(batches: Iterable[pa.RecordBatch]) -> Iterator[Output]:
    """The outputs in rows :data:`OUTPUTS` or :data:`NOTED`."""
    for rows in batches:
        count = rows.num_rows
        noted = "note" in rows.schema.names
        columns = [rows[name].to_pylist() for name in ("topic", "key", "batch")]
        columns += [rows[name].to_pylist() if noted else [None] * count for name in ("callback", "note")]
        for name in ("headers", "timestamp"):
            columns.append(rows[name].to_pylist() if name in rows.schema.names else [None] * count)
        for topic, key, batch, callback, content, headers, timestamp in zip(*columns, strict=True):
            if batch is not None:
                note = None if content is None else Note(callback, content)
                yield Output(topic, key, decoded(batch), note, _headers(topic, headers), timestamp)


def _headers(topic: str, headers: Sequence[Mapping[str, Any] | None] | None) -> Headers | None:
    if headers is None:
        return None
    pairs = []
    for header in headers:
        if header is None or header["key"] is None:
            raise InvalidArgumentError(
                f"A row for topic {topic!r} has a header without a name. Kafka needs one: leave the header out."
            )
        pairs.append((header["key"], header["value"]))
    return pairs


def _in_pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    rows = max(1, batch.num_rows * _MOST_BYTES // max(batch.nbytes, 1))
    for start in range(0, max(1, batch.num_rows), rows):
        yield batch.slice(start, rows)


def show(printed: Iterable[tuple[int, str]]) -> None:
    """Prints the texts of tasks in the order of their partitions."""
    for _, text in sorted(printed, key=lambda one: one[0]):
        sys.stdout.write(text)
    sys.stdout.flush()


def partition_of_task() -> int:
    """The partition that this process computes; 0 outside of a task."""
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()


def require_outputs(outputs: DataFrame) -> None:
    """Raises :class:`InvalidArgumentError` if the columns are not :data:`OUTPUTS`."""
    plain = [("topic", "string"), ("key", "string"), ("batch", "binary")]
    if outputs.dtypes not in (plain, [*plain, _HEADERS], [*plain, _HEADERS, _TIMESTAMP]):
        columns = ", ".join(f"{name} {kind}" for name, kind in outputs.dtypes)
        raise InvalidArgumentError(
            f"The columns of the published rows are ({columns}). A publisher requires ({OUTPUTS})."
        )


def query_id_of(outputs: DataFrame) -> str:
    """The id of the streaming query of a batch, which is stored in its checkpoint."""
    query_id = outputs.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    if not query_id:
        raise InvalidArgumentError(
            "publish() was called outside a streaming query. Pass it to DataStreamWriter.foreachBatch, which calls it "
            "with the query's batches."
        )
    return query_id
