"""Publishing to Kafka, with Spark's sink for it: at least once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import final
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyspark import Accumulator, AccumulatorParam
from pyspark.sql import DataFrame

from mullion import _jvm
from mullion.topics import _json, _leases
from mullion.topics._outputs import (
    NOTED,
    PRINTED,
    Make,
    Note,
    Tell,
    carried,
    outputs_in,
    partition_of_task,
    query_id_of,
    require_outputs,
    show,
)
from mullion.topics._records import normal

_RECORDS = "topic string, key string, value binary"


@final
class KafkaPublisher:
    """Publishes the batches of one query; see :class:`mullion.topics.Publisher`.

    A batch that is done again is published again: Spark's sink does not take part in Kafka's transactions. Rows have
    the time at which they are sent, for the sink takes none. A second process that runs from the same checkpoint is
    refused where that is in a folder, of this machine or mounted here.
    """

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self._published: Counter[str] = Counter()
        self._lease: Path | None = None

    @property
    def published(self) -> Mapping[str, int]:
        """How many rows each topic got."""
        return self._published

    def publish(self, outputs: DataFrame, batch_id: int) -> None:
        """Publishes a batch."""
        require_outputs(outputs)
        self.publish_made(outputs, batch_id, outputs_in)

    def publish_made(self, rows: DataFrame, batch_id: int, make: Make, tell: Tell | None = None) -> None:
        """The same of what ``make`` makes, which is kept in Spark for as long as ``tell`` looks at its notes."""
        self._hold(rows)
        if tell is None:
            self._send(rows, make)
            return
        noted = rows.mapInArrow(lambda batches: carried(list(make(batches))), NOTED).persist()
        try:
            notes = noted.where("note IS NOT NULL").select("callback", "note").collect()
            tell(Note(row.callback, bytes(row.note)) for row in notes)
            self._send(noted, outputs_in)
        finally:
            noted.unpersist()

    def close(self) -> None:
        """Lets another process publish for the query."""
        if self._lease is not None:
            _leases.release(self._lease, self)
            self._lease = None

    def _hold(self, rows: DataFrame) -> None:
        query = query_id_of(rows)
        checkpoint = urlsplit(_jvm.checkpoint_of(rows.sparkSession, query))
        if checkpoint.scheme == "file":
            lease = Path(unquote(checkpoint.path)) / "_publisher.lock"
            _leases.take(lease, self, query)
            self._lease = lease

    def _send(self, rows: DataFrame, make: Make) -> None:
        # Counted as they are written: to evaluate the batch once more would run its operators again.
        context = rows.sparkSession.sparkContext
        counted = context.accumulator(Counter(), _Counts())
        printed: Accumulator[list[tuple[int, str]]] = context.accumulator([], _Texts())

        def records(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for output in make(batches):
                if output.topic == PRINTED:
                    partition = partition_of_task()
                    printed.add([(partition, text) for text in output.batch["value"].to_pylist()])
                    continue
                table = normal(output.topic, pa.Table.from_batches([output.batch]))
                counted.add(Counter({output.topic: table.num_rows}))
                yield _records(output.topic, output.key, table)

        sent = rows.mapInArrow(records, _RECORDS)
        sent.write.format("kafka").option("kafka.bootstrap.servers", self._servers).save()
        self._published.update(counted.value)
        show(printed.value)


def _records(topic: str, key: str | None, values: pa.Table) -> pa.RecordBatch:
    count = values.num_rows
    return pa.RecordBatch.from_arrays(
        [
            pa.repeat(topic, count),
            pa.repeat(pa.scalar(key, pa.string()), count),
            pa.array(_json.written(values), pa.binary()),
        ],
        names=["topic", "key", "value"],
    )


class _Counts(AccumulatorParam["Counter[str]"]):
    def zero(self, value: Counter[str]) -> Counter[str]:
        return Counter()

    def addInPlace(self, value1: Counter[str], value2: Counter[str]) -> Counter[str]:  # noqa: N802
        value1.update(value2)
        return value1


class _Texts(AccumulatorParam["list[tuple[int, str]]"]):
    def zero(self, value: list[tuple[int, str]]) -> list[tuple[int, str]]:
        return []

    def addInPlace(  # noqa: N802
        self, value1: list[tuple[int, str]], value2: list[tuple[int, str]]
    ) -> list[tuple[int, str]]:
        value1.extend(value2)
        return value1
