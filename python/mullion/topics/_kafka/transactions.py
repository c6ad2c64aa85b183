"""A query's own producer of Kafka, which writes each batch in one transaction.

A transaction has the rows of a batch and a record with the number of the batch::

    begin     rows, rows, rows, {query, batch}     commit
              killed here: Kafka drops all of it   killed here: all of it is there, and the batch is not sent again

The records are in the topic :data:`BATCHES`, compacted, with a key for each of a query's last batches. The producer's
id is the query's: a new producer ends open transactions of another with that id, and from then on Kafka rejects the
other's rows. The batches that a new producer reads are therefore complete and final.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import time
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, final

from mullion._util.files import reading
from mullion.errors import InvalidArgumentError, MullionError
from mullion.topics._batch_plans import MOST_PLANS
from mullion.topics._kafka import client as _kafka_client
from mullion.topics._kafka.client import BATCHES
from mullion.topics._records import Headers

log = logging.getLogger("mullion")

_PARTITIONS = 32
"""The number of its partitions in use: a reader of one waits for all open transactions in it."""

TRANSACTION_SECONDS = 300
"""The time limit of a transaction. For so long, readers wait for one whose producer was killed and not restarted."""

_CONFIG = {
    "cleanup.policy": "compact",
    # Small segments, because the last one is not compacted.
    "segment.bytes": "4194304",
    "segment.ms": "3600000",
    "min.cleanable.dirty.ratio": "0.2",
}

_FITS_ANYWHERE = 900_000
"""Rows up to this size are sent without a check of their topic's limit, in bytes."""

_AROUND_ROWS, _ABOUT_A_ROW = 61, 100
"""The maximum overhead, in bytes, of a group of rows, and of a row that is sent alone."""


class Row(NamedTuple):
    """A row to send."""

    topic: str
    key: bytes | None
    value: bytes
    headers: Headers | None = None
    timestamp_us: int | None = None

    @property
    def options(self) -> dict[str, Any]:
        """The optional arguments of Kafka's producer."""
        options: dict[str, Any] = {}
        if self.headers:
            options["headers"] = self.headers
        if self.timestamp_us is not None:
            options["timestamp"] = self.timestamp_us // 1000
        return options


class _BatchTooLargeError(Exception):
    """The rows of a batch exceed the topic's limit, although each row alone does not."""


@final
class Transactions:
    """Writes the batches of one query. It has no effect until it is opened."""

    def __init__(self, servers: _kafka_client.At, query: str) -> None:
        self._servers = servers
        self._query = query
        self._place = zlib.crc32(query.encode()) % _PARTITIONS
        self._producer: Any = None
        self._batch_bytes = _kafka_client.BATCH_BYTES
        self._largest: dict[str, int] = {}
        self._sent_to: frozenset[str] = frozenset()
        self.plans: dict[int, str] = {}
        """The plans of the last batches that are in topics."""

    @property
    def last(self) -> int:
        """The last batch that is in topics; -1 before the first."""
        return max(self.plans, default=-1)

    def open(self) -> None:
        """Fences all other producers of the query, and reads the batches in topics."""
        if self._producer is not None:
            return
        _kafka_client.make(self._servers, BATCHES, partitions=_PARTITIONS, config=_CONFIG)
        kafka = _kafka_client.client()
        how = {
            "transactional.id": f"mullion-{self._query}",
            "transaction.timeout.ms": TRANSACTION_SECONDS * 1000,
            "delivery.timeout.ms": 120_000,
            **_kafka_client.IN_ORDER,
            # The default of Kafka's own client: a key is always in the same partition.
            "partitioner": "murmur2_random",
            # The broker limits the size of a row; it rejects larger batches of rows.
            "message.max.bytes": _kafka_client.MOST_BYTES,
            "batch.size": self._batch_bytes,
            "queue.buffering.max.kbytes": 1 << 16,
        }
        producer = _kafka_client.connect(kafka.Producer, self._servers, how)
        with self._in_words(None):
            _again(producer.init_transactions)
        self.plans = self._noted()
        self._producer = producer

    def publish(self, batch: int, plan: str, rows: Iterable[Row]) -> dict[str, int]:
        """Writes a batch atomically. Returns the number of rows per topic. ``rows`` may be iterated twice."""
        try:
            return self._in_one_transaction(batch, plan, rows)
        except _BatchTooLargeError:
            self.open()
        return self._in_one_transaction(batch, plan, rows)

    def flush(self) -> None:
        """Waits until the published rows are visible to readers, or behind an open transaction of another producer.

        Kafka ends a transaction before it accepts rows of the producer's next one, so only the last one matters.
        """
        topics, self._sent_to = self._sent_to, frozenset()
        if topics and not _kafka_client.wait_for_open(self._servers, topics):
            log.warning(
                "What the query %s has published in %s is there, and readers of committed rows do not see all of it "
                "yet: another producer has a transaction open. They see it when that has ended.",
                self._query,
                ", ".join(sorted(topics)),
            )

    def close(self) -> None:
        """Discards the producer: Kafka drops its open transaction, or the query's next producer ends it."""
        self._producer = None

    def _in_one_transaction(self, batch: int, plan: str, rows: Iterable[Row]) -> dict[str, int]:
        self._largest = {}
        try:
            with self._in_words(batch):
                self._producer.begin_transaction()
                sent = self._send(rows, batch)
                note = json.dumps({"batch": batch, "plan": plan, "by": f"process {os.getpid()} on {_host()}"})
                self._produce(Row(BATCHES, f"{self._query}/{batch % MOST_PLANS}".encode(), note.encode()), self._place)
                self._commit()
        except BaseException:
            # The rows must not become visible, and the state of the producer is unknown.
            with contextlib.suppress(_kafka_client.client().KafkaException):
                self._producer.abort_transaction(_kafka_client.WAIT_SECONDS)
            self.close()
            raise
        self.plans = {number: self.plans[number] for number in sorted(self.plans)[1 - MOST_PLANS :]} | {batch: plan}
        self._sent_to = frozenset(sent)
        return sent

    def _send(self, rows: Iterable[Row], batch: int) -> dict[str, int]:
        # Hot loop: keep the per-row work minimal.
        sent: dict[str, int] = {}
        produce, largest = self._producer.produce, self._largest
        for row in rows:
            topic, key, value, headers, timestamp_us = row
            size = len(value) if key is None else len(value) + len(key)
            if headers:
                size += sum(len(name.encode()) + len(header or b"") for name, header in headers)
            if size > largest.get(topic, -1):
                self._require_room(topic, size, batch)
            try:
                if headers or timestamp_us is not None:
                    produce(topic, value, key, **row.options)
                else:
                    produce(topic, value, key)
            except (BufferError, _kafka_client.client().KafkaException):
                self._produce(row)
            sent[topic] = sent.get(topic, 0) + 1
        return sent

    def _require_room(self, topic: str, size: int, batch: int) -> None:
        self._largest[topic] = size
        limit = self._limit_of(topic) if size > _FITS_ANYWHERE else None
        if limit is not None and size + _AROUND_ROWS > limit:
            raise self._is_too_large(topic, limit, batch)

    def _produce(self, row: Row, partition: int = -1) -> None:
        while True:
            try:
                self._producer.produce(row.topic, row.value, row.key, partition, **row.options)
                return
            except BufferError:
                self._producer.poll(0.01)
            except _kafka_client.client().KafkaException:
                # A failed transaction accepts no more rows; its commit raises the reason.
                self._producer.commit_transaction(_kafka_client.WAIT_SECONDS)
                raise

    def _commit(self) -> None:
        # In small steps, because rejected rows are only detected at the beginning of a call.
        remaining, until = len(self._producer), time.monotonic() + 2 * _kafka_client.WAIT_SECONDS
        while True:
            try:
                self._producer.commit_transaction(1.0)
                return
            except _kafka_client.client().KafkaException as cause:
                if not cause.args[0].retriable():
                    raise
                before, remaining = remaining, len(self._producer)
                if remaining < before:
                    until = time.monotonic() + 2 * _kafka_client.WAIT_SECONDS
                elif time.monotonic() > until:
                    raise

    @contextlib.contextmanager
    def _in_words(self, batch: int | None) -> Iterator[None]:
        kafka = _kafka_client.client()
        try:
            yield
        except kafka.KafkaException as cause:
            error = cause.args[0]
            if error.code() == kafka.KafkaError.MSG_SIZE_TOO_LARGE and batch is not None:
                raise self._why_too_large(batch) from cause
            doing = "begin" if batch is None else f"publish batch {batch}"
            fenced = (
                kafka.KafkaError._FENCED,
                kafka.KafkaError.PRODUCER_FENCED,
                kafka.KafkaError.INVALID_PRODUCER_EPOCH,
                kafka.KafkaError.INVALID_PRODUCER_ID_MAPPING,
            )
            if error.code() in fenced:
                raise MullionError(
                    f"The query {self._query} could not {doing}: another process has begun to publish for it, and "
                    f"Kafka at {self._servers} takes nothing from this one any more, or the batch took longer than "
                    f"{TRANSACTION_SECONDS} s to send. Two at once would publish batches twice: let one of them run; a "
                    "program of its own needs a checkpoint of its own."
                ) from cause
            raise MullionError(
                f"The query {self._query} could not {doing} in Kafka at {self._servers}: {error.str()}. Run again, it "
                "continues from its checkpoint, and checks which batches are in topics."
            ) from cause

    def _limit_of(self, topic: str) -> int | None:
        return _kafka_client.limit_of(self._servers, topic)

    def _why_too_large(self, batch: int) -> Exception:
        limits = {topic: self._limit_of(topic) for topic in self._largest}
        finite = {topic: limit for topic, limit in limits.items() if limit is not None}
        for topic, limit in finite.items():
            if self._largest[topic] + _ABOUT_A_ROW > limit:
                return self._is_too_large(topic, limit, batch)
        smallest = min(finite.values(), default=self._batch_bytes)
        if smallest < self._batch_bytes:
            self._batch_bytes = smallest
            return _BatchTooLargeError()
        topic = max(self._largest, key=lambda name: self._largest[name])
        return self._is_too_large(topic, limits[topic], batch)

    def _is_too_large(self, topic: str, limit: int | None, batch: int) -> InvalidArgumentError:
        takes = "no row so large" if limit is None else f"{limit} at most, including headers"
        return InvalidArgumentError(
            f"Topic {topic!r}: a row of batch {batch} of the query {self._query} has {self._largest[topic]} bytes, its "
            f"key and its value as JSON, and Kafka at {self._servers} takes {takes}. Nothing of the batch is "
            "published. The topic's limit is max.message.bytes; make rows smaller, or raise it."
        )

    def _noted(self) -> dict[int, str]:
        prefix = f"{self._query}/"
        plans = {}
        for record in _kafka_client.read_settled(self._servers, BATCHES, self._place, TRANSACTION_SECONDS):
            if record.value is not None and (record.key or "").startswith(prefix):
                where = f"The record at offset {record.offset} of partition {record.partition} of topic {BATCHES!r}"
                with reading(where):
                    content = json.loads(record.value)
                    plans[int(content["batch"])] = str(content["plan"])
        return {number: plans[number] for number in sorted(plans)[-MOST_PLANS:]}


def _again(call: Any) -> None:
    """Makes a transactional call, and repeats it while Kafka does not respond."""
    kafka = _kafka_client.client()
    until = time.monotonic() + 2 * _kafka_client.WAIT_SECONDS
    while True:
        try:
            call(_kafka_client.WAIT_SECONDS)
            return
        except kafka.KafkaException as cause:
            if not cause.args[0].retriable() or time.monotonic() > until:
                raise


def _host() -> str:
    return socket.gethostname()
