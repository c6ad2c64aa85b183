"""Quix Streams over a broker of Kafka: for each core a process with a topic of its own, keys dealt out among them.

``quix_windows.py SYSTEM WORKLOAD FOLDER`` prints its figures as JSON. It starts the broker, fills the topics, and
starts itself once more for each process; only what they do is timed. Values are JSON, times those of the messages,
state is in RocksDB with its changelog topics.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Producer
from quixstreams import Application
from quixstreams.dataframe.windows import Count, Max, Min, Sum
from tests.support.kafka.kafka_server import KafkaServer

from systems.answers import Answer


def fill(servers: str, folder: Path, topics: int) -> int:
    """Writes the rows, and one more of each key a day later, which makes the panes of the key close."""
    producer = Producer({"bootstrap.servers": servers, "queue.buffering.max.messages": 1_000_000})
    files = [file for file in sorted(folder.iterdir()) if not file.stem.endswith("end")]
    rows, last, count = 0, 0, set[int]()
    for file in files:
        table = pq.read_table(file)
        times = table["ts"].cast(pa.int64()).to_pylist()
        keys = table["k"].to_pylist()
        for us, key, value in zip(times, keys, table["v"].to_pylist(), strict=True):
            producer.produce(f"rows-{key % topics}", b'{"v": %d}' % value, str(key).encode(), timestamp=us // 1000)
        producer.flush()
        rows, last = rows + len(times), max(times) // 1000
        count.update(keys)
    for key in count:
        producer.produce(f"rows-{key % topics}", b'{"v": 0}', str(key).encode(), timestamp=last + 86_400_000)
    producer.flush()
    return rows


def worker(workload: dict[str, Any], servers: str, number: int, home: Path) -> None:
    answer = Answer()
    times: list[float] = []
    app = Application(
        servers,
        consumer_group=f"panes-{number}",
        auto_offset_reset="earliest",
        state_dir=home / str(number),
        loglevel="ERROR",
        on_message_processed=lambda topic, partition, offset: times.append(time.perf_counter()),
    )
    rows = app.dataframe(app.topic(f"rows-{number}", value_deserializer="json", key_deserializer="str"))
    size, grace = timedelta(seconds=workload["size"]), timedelta(seconds=workload["delay"])
    if workload["slide"]:
        windows = rows.hopping_window(size, timedelta(seconds=workload["slide"]), grace)
    else:
        windows = rows.tumbling_window(size, grace)
    panes = windows.agg(n=Count(), total=Sum("v"), least=Min("v"), most=Max("v")).final()
    panes.update(
        lambda pane, key, timestamp, headers: answer.add(
            int(key), pane["start"], pane["end"], *(int(pane[name]) for name in ("n", "total", "least", "most"))
        ),
        metadata=True,
    )
    app.run(timeout=10)
    print(json.dumps({"s": times[-1] - times[0], **answer.values()}))


def main(workload: dict[str, Any], folder: Path) -> None:
    with tempfile.TemporaryDirectory() as home:
        server = KafkaServer(Path(home))
        try:
            server.start()
            rows = fill(server.servers, folder, workload["cores"])
            workers = [
                subprocess.Popen([sys.executable, *sys.argv, server.servers, str(each), home], stdout=subprocess.PIPE)
                for each in range(workload["cores"])
            ]
            reports = [json.loads(worker.communicate()[0].splitlines()[-1]) for worker in workers]
        finally:
            server.kill()
    answer = {name: sum(each[name] for each in reports) for name in ("panes", "of_rows", "checksum")}
    seconds = max(each["s"] for each in reports)
    batches = [{"rows": rows, "ms": seconds * 1000}]
    print(json.dumps({"batches": batches, "warm": 0, "whole_s": seconds, "answer": answer}))


if __name__ == "__main__":
    if len(sys.argv) > 4:
        worker(json.loads(sys.argv[2]), sys.argv[4], int(sys.argv[5]), Path(sys.argv[6]))
    else:
        main(json.loads(sys.argv[2]), Path(sys.argv[3]))
