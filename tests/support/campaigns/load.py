"""The highest rate that a query from Kafka to Kafka sustains, and its behaviour beyond that rate.

    make load
    make load SECONDS=120   each step takes two minutes

The rate doubles until it is not sustained; then a binary search continues between the last two rates. A rate is
sustained if 99 of 100 batches of a step take less than the trigger's interval, and the lag at the end is at most two
intervals' rows. Then the query restarts with ``maxOffsetsPerTrigger``, at twice the highest rate::

    rows a second      yes | yes | yes | no | yes | no           twice as many, and then none
    lag                                                       ________/\\____

At the end every row must have been counted in exactly one closed pane. ``--into`` writes the table and a plot.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from mullion import Tumbling, topics, windowed
from mullion.topics._kafka import client
from tests.support.campaigns.long_run_plots import plotted
from tests.support.campaigns.small_heaps import session
from tests.support.kafka.kafka_connector import connector_jars
from tests.support.kafka.kafka_server import KafkaServer
from tests.support.killing import environment

INPUT, OUTPUT = "load", "load-panes"
KEYS = 1000
PARTITIONS = 2
BATCH_MS = "a batch, ms"


class Step(NamedTuple):
    """The result of a rate. ``behind`` is the number of offsets between the query and the topic's end."""

    what: str
    rate: int
    batches: int
    median: float
    p99: float
    behind: int
    is_sustained: bool


class Report(NamedTuple):
    """A batch in its query's progress."""

    second: float
    batch: int
    ms: float
    rows: int
    behind: int


def feed(servers: str, rate: int, seconds: float) -> None:
    """Sends rows at a rate, in a separate process, and prints their number."""
    kafka = client.client()
    how = {
        "linger.ms": 20,
        "enable.idempotence": True,
        **client.IN_ORDER,
        "queue.buffering.max.messages": 2_000_000,
    }
    producer = client.connect(kafka.Producer, servers, how)
    values = [(json.dumps({"k": f"key {key}", "v": key % 10}).encode(), str(key).encode()) for key in range(KEYS)]
    began, sent = time.monotonic(), 0
    while (passed := time.monotonic() - began) < seconds:
        due = int(rate * passed)
        for number in range(sent, due):
            value, key = values[number % KEYS]
            while True:
                try:
                    producer.produce(INPUT, value, key)
                    break
                except BufferError:
                    producer.poll(0.1)
        sent = due
        producer.poll(0.02)
    producer.flush(60)
    assert not len(producer), "rows were not acknowledged"
    print(sent)


def published(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if batch.num_rows:
            yield pa.RecordBatch.from_pydict({"topic": [OUTPUT], "key": [None], "batch": [topics.encoded(batch)]})


class Load:
    def __init__(self, spark: SparkSession, kafka: KafkaServer, home: Path, interval: float, seconds: float) -> None:
        self.spark, self.kafka, self.home = spark, kafka, home
        self.interval, self.seconds = interval, seconds
        self.sent = 0
        self.reports: list[Report] = []
        self.began = time.monotonic()
        self.query: Any = None
        self.publisher: Any = None

    def start(self, most: int | None = None) -> None:
        source = self.spark.readStream.format("kafka").option("kafka.bootstrap.servers", self.kafka.servers)
        source = source.options(subscribe=INPUT, startingOffsets="earliest")
        if most is not None:
            source = source.option("maxOffsetsPerTrigger", most)
        value = F.from_json(F.col("value").cast("string"), "k string, v long")
        rows = source.load().select(value.alias("r"), F.col("timestamp").alias("ts")).select("r.*", "ts")
        timed = rows.withWatermark("ts", "10 seconds")
        panes = windowed(timed, Tumbling("10 seconds"), by="k", time="ts").agg(
            F.count("*").alias("n"), F.sum("v").alias("v")
        )
        outputs = panes.select("k", F.col("window.start").cast("string").alias("start"), "n", "v")
        self.publisher = topics.broker(self.kafka.url).publisher()
        writer = outputs.mapInArrow(published, topics.OUTPUTS).writeStream.foreachBatch(self.publisher.publish)
        writer = writer.option("checkpointLocation", str(self.home / "checkpoint"))
        self.query = writer.trigger(processingTime=f"{self.interval} seconds").start()

    def stop(self) -> None:
        self.query.stop()
        self.publisher.close()

    def heard(self) -> None:
        """Adds the reports of new batches."""
        assert self.query.isActive, self.query.exception()
        last = self.reports[-1].batch if self.reports else -1
        for progress in self.query.recentProgress:
            if progress["batchId"] > last and progress["numInputRows"] and "triggerExecution" in progress["durationMs"]:
                behind = float((progress["sources"][0]["metrics"] or {}).get("maxOffsetsBehindLatest", 0)) * PARTITIONS
                ms, rows = progress["durationMs"]["triggerExecution"], progress["numInputRows"]
                at = time.monotonic() - self.began
                self.reports.append(Report(at, progress["batchId"], ms, rows, int(behind)))

    def fed(self, rate: int, seconds: float) -> list[Report]:
        """Sends rows at a rate. Returns the batches meanwhile."""
        before = len(self.reports)
        command = [sys.executable, __file__, "feed", self.kafka.servers, str(rate), str(seconds)]
        feeding = subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True)
        while feeding.poll() is None:
            time.sleep(0.2)
            self.heard()
        self.sent += int(feeding.communicate()[0])
        return self.reports[before:]

    def drained(self) -> float:
        """Waits until batches have read all rows. Returns the seconds of the wait."""
        began = time.monotonic()
        self.query.processAllAvailable()
        self.heard()
        return time.monotonic() - began

    def step(self, rate: int) -> Step:
        # The first batches contain earlier rows, and less than the rows of an interval.
        reports = self.fed(rate, self.seconds)[2:] or [Report(0, 0, math.inf, 0, 0)]
        behind = reports[-1].behind
        p99 = percentile([report.ms for report in reports], 0.99)
        is_sustained = p99 < 1000 * self.interval and behind <= 2 * rate * self.interval
        step = Step(
            "rows a second", rate, len(reports), percentile([r.ms for r in reports], 0.5), p99, behind, is_sustained
        )
        show(step)
        self.drained()
        return step

    def highest(self, rate: int, searches: int) -> tuple[int, list[Step]]:
        steps = [self.step(rate)]
        while steps[-1].is_sustained:
            steps.append(self.step(2 * steps[-1].rate))
        best = max((step.rate for step in steps if step.is_sustained), default=0)
        above = steps[-1].rate
        for _ in range(searches):
            steps.append(self.step((best + above) // 2))
            best, above = (steps[-1].rate, above) if steps[-1].is_sustained else (best, steps[-1].rate)
        return best, steps

    def beyond(self, highest: int) -> Step:
        """Sends twice the highest rate, in batches that are no larger than those of the highest rate."""
        self.stop()
        most = max(1000, int(highest * self.interval))
        self.start(most)
        reports = self.fed(2 * max(highest, 500), self.seconds)
        behind = max((report.behind for report in reports), default=0)
        largest = max((report.rows for report in reports), default=0)
        took = self.drained()
        print(
            f"beyond: at most {most} rows a batch were asked for, and {largest} came; up to {behind} behind", flush=True
        )
        print(
            f"without new rows the rest took {took:.0f} s, and then {self.reports[-1].behind} were behind", flush=True
        )
        times = [report.ms for report in reports] or [math.inf]
        step = Step(
            "beyond it", 2 * highest, len(reports), percentile(times, 0.5), percentile(times, 0.99), behind, False
        )
        show(step)
        return step

    def counted(self) -> int:
        """Sends a row that closes all panes. Returns the number of rows in closed panes."""
        later = int((time.time() + 3600) * 1_000_000)
        client.produce(self.kafka.servers, INPUT, [(None, b'{"k": "end", "v": 0}', later)])
        self.query.processAllAvailable()
        self.stop()
        return sum(json.loads(record.value or b"")["n"] for record in client.read(self.kafka.servers, OUTPUT))


def percentile(values: Sequence[float], of: float) -> float:
    return sorted(values)[max(0, math.ceil(of * len(values)) - 1)]


def show(step: Step) -> None:
    says = "held" if step.is_sustained else "not held"
    print(
        f"{step.what} {step.rate}: {says}, {step.batches} batches, median {step.median:.0f} ms, p99 {step.p99:.0f} ms, "
        f"{step.behind} behind",
        flush=True,
    )


def main() -> None:
    if sys.argv[1:2] == ["feed"]:
        feed(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
        return
    parser = argparse.ArgumentParser(description="Finds the highest rate that a query holds, and goes beyond it.")
    parser.add_argument("--seconds", type=float, default=60, help="of each step")
    parser.add_argument("--interval", type=float, default=2, help="seconds from batch to batch")
    parser.add_argument("--rate", type=int, default=5000, help="rows a second of the first step")
    parser.add_argument("--searches", type=int, default=3, help="steps between the last rate held and the first not")
    parser.add_argument("--into", type=Path, help="a folder for load.csv, batches.csv and load.svg")
    arguments = parser.parse_args()
    # The time zone of the workers too.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    home = Path(tempfile.mkdtemp(prefix="load"))
    kafka = KafkaServer(home)
    try:
        kafka.start()
        for topic in (INPUT, OUTPUT):
            client.make(kafka.servers, topic, partitions=PARTITIONS)
        options: dict[str, Any] = {
            "spark_ui_showConsoleProgress": "false",
            "spark_sql_streaming_numRecentProgressUpdates": 1000,
        }
        options["spark_jars"] = ",".join(jar.as_uri() for jar in connector_jars())
        spark = session(home, "2g", 2, brief=False, **options)
        spark.sparkContext.setLogLevel("ERROR")
        load = Load(spark, kafka, home, arguments.interval, arguments.seconds)
        load.start()
        # The first batches, in which the JVM compiles, are not timed.
        load.fed(arguments.rate, min(15, arguments.seconds))
        load.drained()
        highest, steps = load.highest(arguments.rate, arguments.searches)
        print(f"highest sustained rate with p99 under {arguments.interval} s: {highest} rows a second", flush=True)
        steps.append(load.beyond(highest))
        counted = load.counted()
        spark.stop()
    finally:
        kafka.kill()
    if arguments.into:
        arguments.into.mkdir(parents=True, exist_ok=True)
        for name, fields, rows in (("load", Step._fields, steps), ("batches", Report._fields, load.reports)):
            with (arguments.into / f"{name}.csv").open("w", newline="") as out:
                csv.writer(out).writerows([fields, *rows])
        columns: dict[str, list[float]] = {
            "rows in a batch": [report.rows for report in load.reports],
            BATCH_MS: [report.ms for report in load.reports],
            "offsets behind": [report.behind for report in load.reports],
        }
        minutes = [report.second / 60 for report in load.reports]
        plotted(minutes, columns, arguments.into / "load.svg", lines={BATCH_MS: 1000 * arguments.interval})
    lost, repeated = max(0, load.sent - counted), max(0, counted - load.sent)
    print(f"rows {load.sent}, counted {counted}, lost {lost}, repeated {repeated}")
    if lost or repeated:
        raise SystemExit(f"{home} has the checkpoint")
    shutil.rmtree(home)


if __name__ == "__main__":
    main()
