"""Windows in Spark's real-time mode, from Kafka to Kafka: ``real_time.py [--batch 5] [--seconds 30] [--only KIND]...``.

Needs Spark 4.3: ``make venv kafka SPARK=4.3``, then ``PYTHONPATH=. .venv-4.3/bin/python benchmarks/real_time.py``. A
row is sent every 20 ms. The kinds of queries:

- ``stateless`` forwards the rows. The latency is the time from a row to its copy.
- ``spark`` counts rows in windows of one second with Spark's own aggregation. It emits each change of a window.
- ``rejected`` does the same with Mullion. Spark rejects its operators.
- ``mullion`` does that with ``spark.sql.streaming.realTimeMode.allowlistCheck=false``. Each window is emitted once.

The latency of a window is the time from its end to its last result. ``docs/reference/performance.md``
explains the results.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from pathlib import Path

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from tests.support.kafka.kafka_connector import connector_jars
from tests.support.kafka.kafka_server import KafkaServer

from mullion import Tumbling, configure, windowed

STATE = "spark.sql.streaming.stateStore"
REAL_TIME = "spark.sql.streaming.realTimeMode"
KINDS = ["stateless", "spark", "rejected", "mullion"]


def session() -> SparkSession:
    # The tasks of a real-time query all run at once, those of both stages: two read, two have state.
    builder = SparkSession.builder.master("local[6]").config("spark.jars", ",".join(map(str, connector_jars())))
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        f"{STATE}.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        # Real-time mode requires it.
        f"{STATE}.checkpointFormatVersion": "2",
        f"{STATE}.rocksdb.changelogCheckpointing.enabled": "true",
        f"{REAL_TIME}.minBatchDuration": "1s",
        # It is on for queries without state. Spark does not recognise that a query with Mullion's operator has state.
        f"{REAL_TIME}.asyncProgressTrackingByDefault.enabled": "false",
    }.items():
        builder = builder.config(name, value)
    spark: SparkSession = configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def results(kind: str, rows: DataFrame) -> DataFrame:
    """The column ``value`` is JSON: the time from which the latency counts, and how many rows there are."""
    if kind == "stateless":
        counted = rows.select("k", F.unix_millis("at").alias("since"), F.lit(1).alias("n"))
    elif kind == "spark":
        panes = rows.groupBy(F.window("at", "1 second"), "k").agg(F.count("*").alias("n"))
        counted = panes.select("k", F.unix_millis("window.end").alias("since"), "n")
    else:
        panes = windowed(rows, Tumbling("1 second"), by=["k"], time="at").agg(F.count("*").alias("n"))
        counted = panes.select("k", F.unix_millis("window.end").alias("since"), "n")
    return counted.select(F.to_json(F.struct("k", "since", "n")).alias("value"))


def start(spark: SparkSession, servers: str, kind: str, batch: int, home: Path) -> StreamingQuery:
    spark.conf.set(f"{REAL_TIME}.allowlistCheck", str(kind != "mullion").lower())
    kafka = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
    messages = kafka.option("subscribe", f"{kind}-in").option("startingOffsets", "earliest").load()
    sent = F.timestamp_millis(F.col("value").cast("string").cast("long"))
    rows = messages.select(F.col("key").cast("string").alias("k"), sent.alias("at")).withWatermark("at", "0 seconds")
    writer = results(kind, rows).writeStream.format("kafka").option("kafka.bootstrap.servers", servers)
    writer = writer.option("topic", f"{kind}-out").option("checkpointLocation", str(home / kind))
    # Only newer versions have real-time triggers.
    return writer.outputMode("update").trigger(realTime=f"{batch} seconds").start()  # type: ignore[call-overload,no-any-return,unused-ignore]


def send(servers: str, topic: str, until: float) -> None:
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 0})
    number = 0
    while time.time() < until:
        producer.produce(topic, str(int(time.time() * 1000)), f"k{number % 5}", partition=number % 2)
        producer.poll(0)
        number += 1
        time.sleep(0.02)
    producer.flush()


def measure(spark: SparkSession, servers: str, kind: str, options: argparse.Namespace, home: Path) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    for created in admin.create_topics([NewTopic(f"{kind}-in", 2), NewTopic(f"{kind}-out", 1)]).values():
        created.result()
    query = start(spark, servers, kind, options.batch, home)
    ends = time.time() + options.seconds
    sender = threading.Thread(target=send, args=(servers, f"{kind}-in", ends))
    sender.start()
    consumer = Consumer({"bootstrap.servers": servers, "group.id": kind, "auto.offset.reset": "earliest"})
    consumer.subscribe([f"{kind}-out"])
    last: dict[tuple[str, int], int] = {}
    results = 0
    while time.time() < ends + options.batch and query.isActive:
        message = consumer.poll(0.2)
        if message is None or message.error():
            continue
        value = json.loads(message.value() or b"{}")
        last[value["k"], value["since"]] = message.timestamp()[1]
        results += 1
    failure = query.exception()
    if failure is not None:
        print(f"{kind}: {failure.getCondition()}\n  {str(failure).splitlines()[0][:600]}")
    lags = sorted(at - since for (_, since), at in last.items())
    if lags:
        print(f"{kind}: {results} results, p50 {lags[len(lags) // 2]} ms, p99 {lags[len(lags) * 99 // 100]} ms")
    for progress in query.recentProgress:
        state = [(of.operatorName, of.numRowsTotal, of.commitTimeMs) for of in progress.stateOperators]
        watermark = progress.eventTime.get("watermark")
        print(f"  batch {progress.batchId}: {progress.numInputRows} rows, watermark {watermark}, state {state}")
    query.stop()
    sender.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--only", action="append", choices=KINDS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        server = KafkaServer(home)
        try:
            server.start()
            spark = session()
            for kind in options.only or KINDS:
                measure(spark, server.servers, kind, options, home)
            spark.stop()
        finally:
            server.kill()


if __name__ == "__main__":
    main()
