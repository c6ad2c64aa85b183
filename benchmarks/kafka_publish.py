"""The cost of publishing a batch to Kafka in one transaction: ``kafka_publish.py [BATCHES]``.

Each micro-batch of a query is published twice: by a publisher, and with Spark's own sink for Kafka, which sends from
its tasks and repeats messages if a task runs again. Both write the same JSON of the same rows in the same workers, and
the contents of the topics are compared. Times are medians of warm batches, from the call to the acknowledgement. Needs
``make kafka``.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from tests.support.kafka.kafka_server import KafkaServer

from faust_counts import session
from harness.workloads import CORES
from mullion import topics
from mullion.topics import _json
from mullion.topics._kafka import client as _kafka_client

SIZES = (100, 10_000, 200_000)
COLD = 3


def outputs(topic: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if batch.num_rows:
            encoded = topics.encoded(batch)
            yield pa.RecordBatch.from_pydict({"topic": [topic], "key": ["k"], "batch": [encoded]})


def records(topic: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for rows in outputs(topic, batches):
        for key, encoded in zip(rows["key"].to_pylist(), rows["batch"].to_pylist(), strict=True):
            values = _json.written(pa.Table.from_batches([topics.decoded(encoded)]))
            yield pa.RecordBatch.from_pydict({"key": [key] * len(values), "value": values})


def measure(spark: SparkSession, server: KafkaServer, rows: int, batches: int, home: Path) -> tuple[float, float]:
    """The seconds per batch of the publisher and of Spark's sink."""
    source, kafka = topics.DirBroker(home / "source"), topics.broker(server.url)
    for number in range(batches + COLD):
        numbers = range(number * rows, (number + 1) * rows)
        topics.produce(source, "in", pa.table({"n": numbers, "text": [f"a row of some length, {n}" for n in numbers]}))
    publisher = kafka.publisher()
    ours_topic, theirs_topic = f"ours-{rows}", f"sparks-{rows}"
    took: dict[str, list[float]] = {"ours": [], "sparks": []}

    def ours(batch: DataFrame, number: int) -> None:
        publisher.publish(batch.mapInArrow(lambda of: outputs(ours_topic, of), topics.OUTPUTS), number)

    def sparks(batch: DataFrame, _: int) -> None:
        sent = batch.mapInArrow(lambda of: records(theirs_topic, of), "key string, value binary")
        writer = sent.write.format("kafka").option("kafka.bootstrap.servers", server.servers)
        writer.option("topic", theirs_topic).save()

    def publish(batch: DataFrame, number: int) -> None:
        both = [("ours", ours), ("sparks", sparks)]
        for side, function in both if number % 2 else reversed(both):
            begun = time.perf_counter()
            function(batch, number)
            took[side].append(time.perf_counter() - begun)

    stream = source.stream(spark, "in").select("n", "text").repartition(CORES)
    writer = stream.writeStream.foreachBatch(publish).option("checkpointLocation", str(home / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    publisher.close()
    there = [
        sorted(r.value or b"" for r in _kafka_client.read(server.servers, of)) for of in (ours_topic, theirs_topic)
    ]
    assert there[0] == there[1]
    assert len(there[0]) == rows * (batches + COLD)
    return statistics.median(took["ours"][COLD:]), statistics.median(took["sparks"][COLD:])


def main(batches: int) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        server = KafkaServer(folder)
        server.start()
        try:
            spark = session()
            print(f"{batches} batches each, {CORES} cores, Kafka and all; Spark {spark.version}")
            for rows in SIZES:
                ours, sparks = measure(spark, server, rows, batches, folder / str(rows))
                print(
                    f"{rows:>8,} rows a batch   publisher {1000 * ours:>6,.0f} ms   "
                    f"Spark's sink {1000 * sparks:>6,.0f} ms   ratio {ours / sparks:.2f}"
                )
        finally:
            server.kill()


if __name__ == "__main__":
    main(*[int(argument) for argument in sys.argv[1:]] or [15])
