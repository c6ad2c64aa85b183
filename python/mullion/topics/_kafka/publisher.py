"""Publishes to Kafka exactly once: a batch is one transaction, which contains the number of the batch.

::

    tasks:  make rows, kept in Spark     killed here: the batch runs again
    driver: begin, send all, {batch}     killed here: Kafka drops the rows, and the batch runs again
            commit                       killed here: the batch runs again, and is discarded by its number

One producer on the driver sends a batch, because a Kafka transaction has one producer. The driver gets the rows with
the results of tasks. A batch that may be too large for the driver's memory is computed again and stored by Spark, in
memory or on disk; it is then sent in pieces, and so are later batches.

A repeated batch is evaluated again, for the state of its operators, and is discarded if its plan equals that of the
batch in topics. Another batch with the same number raises an error.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, final
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyspark.sql import DataFrame

from mullion._bridge import jvm
from mullion._util.codec.arrow import decoded, encoded
from mullion.errors import MullionError
from mullion.topics import _json, _json_rows, _leases
from mullion.topics._batch_plans import plan_of, require_same
from mullion.topics._kafka import client as _kafka_client
from mullion.topics._kafka.transactions import Row, Transactions
from mullion.topics._outputs import (
    PRINTED,
    Make,
    Note,
    Tell,
    functions_of,
    outputs_in,
    partition_of_task,
    query_id_of,
    require_outputs,
    show,
)
from mullion.topics._records import normal

_MADE = "partition int, callback string, note binary, printed string, rows binary, left bigint"
"""A task's messages to the driver, as DDL: a note, a text, or rows; and the size of the rows that follow, in bytes."""

_MADE_SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("callback", pa.string()),
        ("note", pa.binary()),
        ("printed", pa.string()),
        ("rows", pa.binary()),
        ("left", pa.int64()),
    ]
)

_ROWS_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.map_(pa.string(), pa.binary())),
        ("timestamp_us", pa.int64()),
    ]
)

_PIECE = 1 << 20
"""The approximate size of a piece of rows on its way to the driver, in bytes."""

_IN_HAND = 64 << 20
"""The approximate size of the pieces that wait in the driver, in bytes."""

_AT_ONCE = 256 << 20
"""The approximate limit of the bytes that reach the driver with the results of all tasks."""


@final
class KafkaPublisher:
    """Publishes the batches of one query; see :class:`mullion.topics.Publisher`.

    Rows without a time have their sending time. A second process on the same checkpoint is rejected if that is in a
    local or mounted folder; elsewhere Kafka rejects the first one's rows from then on.
    """

    def __init__(self, servers: _kafka_client.At) -> None:
        self._servers = servers
        self._published: Counter[str] = Counter()
        self._lease: Path | None = None
        self._transactions: Transactions | None = None
        self._waits = False

    @property
    def published(self) -> Mapping[str, int]:
        """The number of rows published to each topic."""
        return self._published

    def publish(self, outputs: DataFrame, batch_id: int) -> None:
        """Publishes a batch once. A query that was reset to an earlier batch repeats nothing."""
        require_outputs(outputs)
        self.publish_made(outputs, batch_id, outputs_in)

    def publish_made(self, rows: DataFrame, batch_id: int, make: Make, tell: Tell | None = None) -> None:
        """Publishes the output of ``make``."""
        query = query_id_of(rows)
        self._hold(rows, query)
        if not self._waits:
            # The usual maximum number of tasks.
            tasks = int(rows.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
            reports = rows.mapInArrow(_Pieces(make, _AT_ONCE // tasks), _MADE).collect()
            self._waits = any(row.left for row in reports)
            if not self._waits:
                pieces = [row.rows for row in reports if row.rows is not None]
                self._publish_pieces(rows, batch_id, query, reports, _InHand(pieces) if pieces else None, tell)
                return
        stored = rows.mapInArrow(_Pieces(make, 0), _MADE).persist()
        try:
            reports = stored.drop("rows").collect()
            remaining = sum(row.left or 0 for row in reports)
            self._publish_pieces(
                rows, batch_id, query, reports, _Waiting(stored, remaining) if remaining else None, tell
            )
        finally:
            stored.unpersist()

    def _publish_pieces(
        self,
        rows: DataFrame,
        batch: int,
        query: str,
        reports: Sequence[Any],
        pieces: Iterable[Row] | None,
        tell: Tell | None,
    ) -> None:
        if tell is not None:
            tell(Note(row.callback, bytes(row.note)) for row in reports if row.note is not None)
        if pieces is None or self._sent(rows, batch, query, pieces):
            show((row.partition, row.printed) for row in reports if row.printed is not None)

    def flush(self) -> None:
        """Waits until the published rows are visible to readers; a few seconds at most."""
        if self._transactions is not None:
            self._transactions.flush()

    def close(self) -> None:
        """Releases the query for another process."""
        if self._transactions is not None:
            # Ignore errors on close: the broker is unreachable and the program is stopping.
            with contextlib.suppress(MullionError):
                self._transactions.flush()
            self._transactions.close()
            self._transactions = None
        if self._lease is not None:
            _leases.release(self._lease, self)
            self._lease = None

    def _hold(self, rows: DataFrame, query: str) -> None:
        checkpoint = urlsplit(jvm.checkpoint_of(rows.sparkSession, query))
        if checkpoint.scheme == "file":
            lease = Path(unquote(checkpoint.path)) / "_publisher.lock"
            _leases.take(lease, self, query)
            self._lease = lease

    def _sent(self, rows: DataFrame, batch: int, query: str, outputs: Iterable[Row]) -> bool:
        """Sends a batch, unless it is in topics already. Returns whether it was sent."""
        if self._transactions is None:
            self._transactions = Transactions(self._servers, query)
        transactions = self._transactions
        transactions.open()
        plan = plan_of(rows.sparkSession, query, batch)
        if batch <= transactions.last:
            require_same(transactions.plans, transactions.last, batch, plan, query, "")
            return False
        self._published.update(transactions.publish(batch, plan, outputs))
        return True


class _InHand:
    """Rows that arrived with the results of tasks."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = pieces

    def __iter__(self) -> Iterator[Row]:
        for piece in self._pieces:
            yield from _rows_in(piece)


class _Waiting:
    """Rows stored by Spark."""

    def __init__(self, outputs: DataFrame, size: int) -> None:
        self._outputs = outputs
        self._size = size

    def __iter__(self) -> Iterator[Row]:
        pieces = self._outputs.where("rows IS NOT NULL").select("rows")
        for row in pieces.coalesce(1 + self._size // _IN_HAND).toLocalIterator():
            yield from _rows_in(row.rows)


def _rows_in(piece: bytes) -> Iterator[Row]:
    batch = decoded(piece)
    return map(Row, *(batch[name].to_pylist() for name in _ROWS_SCHEMA.names))


class _Pieces:
    """The work of a task. It runs in a Python worker.

    ``most``: the maximum number of bytes of rows in a task's result; beyond that it only reports their number. 0: all
    rows are stored, and each piece reports its size.
    """

    def __init__(self, make: Make, most: int) -> None:
        self.__name__ = functions_of(make)
        self._make = make
        self._most = most

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        partition = partition_of_task()
        notes: dict[Note, None] = {}
        piece: list[Row] = []
        size = total = 0

        def ended() -> Iterator[pa.RecordBatch]:
            nonlocal piece, size, total
            total += size
            if piece and not self._most:
                yield _answer([{"partition": partition, "rows": _encoded(piece), "left": size}])
            elif piece and total <= self._most:
                yield _answer([{"partition": partition, "rows": _encoded(piece)}])
            piece, size = [], 0

        for topic, key, batch, note, headers, timestamp_us in self._make(batches):
            if note is not None:
                notes[note] = None
            if topic == PRINTED:
                texts = batch["value"].to_pylist()
                yield _answer([{"partition": partition, "printed": text} for text in texts])
                continue
            _kafka_client.require_topic(topic)
            if timestamp_us is not None:
                _kafka_client.require_time(timestamp_us)
            key_bytes = None if key is None else key.encode()
            for value in _values(topic, batch):
                piece.append(Row(topic, key_bytes, value, headers, timestamp_us))
                size += len(value)
                if size > _PIECE:
                    yield from ended()
        yield from ended()
        notes_json = [{"partition": partition, "callback": note.callback, "note": note.content} for note in notes]
        if 0 < self._most < total:
            notes_json.append({"partition": partition, "left": total})
        if notes_json:
            yield _answer(notes_json)


def _values(topic: str, batch: pa.RecordBatch) -> list[bytes]:
    if _json_rows.is_json(batch):
        return [text.encode() for text in _json_rows.texts_in(batch)]
    return _json.written(normal(topic, pa.Table.from_batches([batch])))


def _answer(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=_MADE_SCHEMA)


def _encoded(rows: list[Row]) -> bytes:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(list(values), field.type) for values, field in zip(columns, _ROWS_SCHEMA, strict=True)]
    return encoded(pa.RecordBatch.from_arrays(arrays, schema=_ROWS_SCHEMA))
