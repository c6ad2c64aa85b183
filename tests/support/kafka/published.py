"""A query that publishes to several topics, and the expected contents."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from mullion import topics
from mullion.topics._kafka import client
from mullion.topics._kafka.transactions import Row
from tests.support.kafka.kafka_server import KafkaServer


def outputs_of(stream: DataFrame, prefix: str = "") -> DataFrame:
    """Sends each row's number to its topic, and another number for multiples of three to ``threes``."""

    def publish(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                yield rows_for(prefix + row["to"], [{"n": row["n"]}])
                if row["n"] % 3 == 0:
                    yield rows_for(f"{prefix}threes", [{"half": row["n"] / 2, "note": None}])
        yield rows_for(f"{prefix}nothing", None)

    # Several tasks have rows.
    return stream.select("n", "to").repartition(2, "n").mapInArrow(publish, topics.OUTPUTS)


def rows_for(topic: str, rows: list[dict[str, Any]] | None) -> pa.RecordBatch:
    batch = None if rows is None else topics.encoded(pa.RecordBatch.from_pylist(rows))
    return pa.RecordBatch.from_arrays(
        [pa.array([topic]), pa.array([None], pa.string()), pa.array([batch], pa.binary())],
        names=["topic", "key", "batch"],
    )


def start(
    spark: SparkSession, broker: topics.Broker, publisher: topics.Publisher, checkpoint: Path, prefix: str = ""
) -> StreamingQuery:
    """Starts a query that publishes the rows of topic ``in``. The names of all topics begin with ``prefix``."""
    outputs = outputs_of(broker.stream(spark, f"{prefix}in", schema="n bigint, to string"), prefix)
    writer = outputs.writeStream.foreachBatch(publisher.publish).option("checkpointLocation", str(checkpoint))
    return writer.trigger(availableNow=True).start()


def feed(broker: topics.Broker, calls: range, prefix: str = "") -> None:
    for call in calls:
        rows = range(10 * call, 10 * call + 10)
        topics.produce(broker, f"{prefix}in", [{"n": n, "to": ["even", "odd"][n % 2]} for n in rows])


def rows_of(broker: topics.Broker, topic: str, column: str = "n") -> list[Any]:
    table = topics.read(broker, topic)
    return sorted(table[column].to_pylist()) if table.num_rows else []


def is_whole(broker: topics.Broker, until: int, prefix: str = "") -> None:
    assert rows_of(broker, f"{prefix}even") == list(range(0, until, 2))
    assert rows_of(broker, f"{prefix}odd") == list(range(1, until, 2))
    assert rows_of(broker, f"{prefix}threes", "half") == [n / 2 for n in range(0, until, 3)]


def of_batch(topic: str, batch: int) -> list[Row]:
    """Four rows of a batch, with consecutive numbers across batches."""
    return [Row(topic, b"key %d" % (n % 3), json.dumps({"n": n}).encode()) for n in range(4 * batch, 4 * batch + 4)]


def numbers(kafka: KafkaServer, topic: str) -> list[int]:
    """The numbers of all rows in a topic, sorted."""
    return sorted(json.loads(record.value or b"")["n"] for record in client.read(kafka.servers, topic))


def records_by_partition(kafka: KafkaServer, topic: str) -> list[tuple[int, list[int]]]:
    """The numbers of each partition, in the order of their offsets."""
    partitions: dict[int, list[int]] = {}
    for record in sorted(client.read(kafka.servers, topic), key=lambda record: record.offset):
        partitions.setdefault(record.partition, []).append(json.loads(record.value or b"")["n"])
    return list(partitions.items())
