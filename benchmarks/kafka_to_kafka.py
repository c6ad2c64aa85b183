"""From broker to broker: ``kafka_to_kafka.py [--rows 1000000] [--seconds 30] [--only SYSTEM]...``.

Each system reads JSON messages with text keys from a topic, counts and sums them by key in tumbling windows of one
second, and writes one JSON message for each pane to another topic. It runs in one process after the other, over the
same broker, with the same messages:

1. A tenth of the messages, until their panes are in the output topic: the start of its processes and compilers.
2. All messages, as fast as the broker accepts them. The rate is theirs, from the first message to the last pane.
3. For ``--seconds``, half of that rate. The latency of a pane is the time from the last message of its window to its
   result, as the broker stamps both. One second of it is the watermark delay.

Answers are compared with those of the generator. Needs ``make kafka``; PyFlink and Kafka Streams also need ``make
bench-kafka``.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.support.kafka.kafka_server import KafkaServer

from harness.environments import System, Unavailable
from harness.workloads import CORES

WINDOW_MS = 1000
DELAY_MS = 1000
"""The watermark delay of all systems: partitions are not read at the same speed."""

PATIENCE_S = 300
HERE = Path(__file__).parent

Panes = dict[tuple[str, int], tuple[int, int]]
"""The number of rows and their sum, by key and start in milliseconds since the epoch."""

SYSTEMS = {
    "mullion": System("Mullion", "kafka/kafka_spark.py"),
    "spark": System("Spark", "kafka/kafka_spark.py"),
    "bytewax": System("Bytewax", "kafka/kafka_bytewax.py", "bench-bytewax"),
    "quix": System("Quix Streams", "kafka/kafka_quix.py", "bench-quix"),
    "pyflink": System("PyFlink", "kafka/kafka_pyflink.py", "bench-pyflink"),
    "kafka streams": System("Kafka Streams", "kafka/kafka_streams.py"),
}


class Wrong(Exception):  # noqa: N818
    """A system stopped, or its panes are not those of the generator."""


@dataclass(frozen=True, slots=True)
class Figures:
    rows_per_s: float
    p50_ms: float
    p99_ms: float
    offered_per_s: float


class Topics:
    """The two topics of a system, with all messages sent and received."""

    def __init__(self, servers: str, name: str) -> None:
        self.source, self.target = f"{name}-in", f"{name}-out"
        admin = AdminClient({"bootstrap.servers": servers})
        new_topics = [
            NewTopic(each, CORES, config={"message.timestamp.type": "LogAppendTime"})
            for each in (self.source, self.target)
        ]
        for creation in admin.create_topics(new_topics).values():
            creation.result()
        self._producer = Producer(
            {"bootstrap.servers": servers, "queue.buffering.max.messages": 2_000_000, "linger.ms": 2}
        )
        settings = {"bootstrap.servers": servers, "group.id": f"{name}-answers", "auto.offset.reset": "earliest"}
        self._consumer = Consumer(settings)
        self._consumer.subscribe([self.target])
        self.expected: Panes = {}
        self.received: Panes = {}
        self.appended_ms: dict[tuple[str, int], int] = {}
        self.last_ms: dict[int, int] = {}
        """The time at which the broker had the last message of each window."""

    def send(self, rows: list[tuple[str, int, int]]) -> float:
        """Sends key, time and value of rows as fast as the broker accepts them. Returns the time of the first."""
        messages = [(self._message(number, *row), row[0]) for number, row in enumerate(rows)]
        begun = time.time()
        for number, (text, key) in enumerate(messages):
            self._producer.produce(self.source, text, key)
            if number % 1000 == 0:
                self._producer.poll(0)
        self._producer.flush()
        return begun

    def send_at(self, per_s: float, rows: list[tuple[str, int, int]]) -> None:
        """Sends rows at a rate, with the time of sending as their time."""
        begun = time.time()
        for number, (key, _, value) in enumerate(rows):
            due = begun + number / per_s
            while (now := time.time()) < due:
                self._producer.poll(0)
                time.sleep(min(0.001, due - now))
            at = int(now * 1000)
            text = self._message(number, key, at, value)
            self._producer.produce(self.source, text, key, on_delivery=self._delivered(at - at % WINDOW_MS))
            self._producer.poll(0)
        self._producer.flush()

    def _message(self, number: int, key: str, at: int, value: int) -> str:
        start = at - at % WINDOW_MS
        n, total = self.expected.get((key, start), (0, 0))
        self.expected[key, start] = (n + 1, total + value)
        # The columns that no window reads are those of an ordinary message.
        return f'{{"id":"{number:012d}","k":"{key}","ts":{at},"v":{value},"country":"CH","price":{value / 100}}}'

    def _delivered(self, start: int) -> Any:
        def note(_: Any, message: Any) -> None:
            self.last_ms[start] = max(self.last_ms.get(start, 0), message.timestamp()[1])

        return note

    def receive(self, before_ms: int, process: subprocess.Popen[bytes]) -> float:
        """Waits for all expected panes that start before a time. Returns when the broker had the last, in seconds."""
        expected = {pane for pane in self.expected if pane[1] < before_ms}
        missing, patience = expected - self.received.keys(), time.time() + PATIENCE_S
        while missing:
            if process.poll() is not None or time.time() > patience:
                raise Wrong(f"{len(missing)} of {len(expected)} panes are missing, such as {sorted(missing)[:3]}")
            for message in self._consumer.consume(10_000, timeout=0.2):
                if message.error():
                    continue
                pane = json.loads(message.value() or b"{}")
                name = (pane["k"], pane["start"])
                self.received[name] = (pane["n"], pane["total"])
                self.appended_ms.setdefault(name, message.timestamp()[1])
                missing.discard(name)
        for name in expected:
            if self.received[name] != self.expected[name]:
                raise Wrong(f"The pane {name} is {self.received[name]}, not {self.expected[name]}")
        return max(self.appended_ms[name] for name in expected) / 1000


def rows_of(count: int, keys: int, begin_ms: int, span_ms: int) -> list[tuple[str, int, int]]:
    """Rows in order of time, and one more of each key after the delay, which closes their windows."""
    chance = random.Random(59)
    rows = [
        (f"user-{chance.randrange(keys)}", begin_ms + number * span_ms // count, chance.randrange(1000))
        for number in range(count)
    ]
    after = begin_ms + span_ms + DELAY_MS
    return rows + [(f"user-{key}", after, 0) for key in range(keys)]


def start_system(system: str, servers: str, topics: Topics, rows: int, home: Path) -> subprocess.Popen[bytes]:
    of = SYSTEMS[system]
    settings = {"servers": servers, "source": topics.source, "target": topics.target, "rows": rows, "home": str(home)}
    command = [str(of.python()), str(HERE / "systems" / of.script), system, json.dumps(settings)]
    with (home / "log").open("wb") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.PIPE)


def measure(system: str, server: KafkaServer, rows: int, seconds: int, home: Path) -> Figures:
    topics = Topics(server.servers, system.replace(" ", "-"))
    keys = max(10, rows // 200)
    span_ms = 20_000
    # Far enough in the past that no clock of a system is ahead of the messages.
    first_ms = (int(time.time()) - 3600) * 1000
    second_ms = first_ms + 600_000
    warm, full = rows_of(rows // 10, keys, first_ms, span_ms), rows_of(rows, keys, second_ms, span_ms)
    topics.send(warm)
    process = start_system(system, server.servers, topics, rows, home)
    try:
        topics.receive(first_ms + span_ms, process)
        begun = topics.send(full)
        rate = rows / (topics.receive(second_ms + span_ms, process) - begun)
        half = rate / 2
        topics.send_at(half, repeated(full, half * seconds))
        ended = int(time.time() * 1000)
        # A system with a clock for each key closes a pane with a later row of its key only.
        topics.send([(f"user-{key}", ended + WINDOW_MS + DELAY_MS, 0) for key in range(keys)])
        windows = [start for start in topics.last_ms if start + 2 * WINDOW_MS + DELAY_MS < ended]
        # The first windows wait for the remaining work of the full load.
        measured = set(sorted(windows)[3:])
        topics.receive(max(measured) + WINDOW_MS, process)
        lags = sorted(at - topics.last_ms[start] for (_, start), at in topics.appended_ms.items() if start in measured)
        return Figures(rate, lags[len(lags) // 2], lags[len(lags) * 99 // 100], half)
    finally:
        stop(process)


def repeated(rows: list[tuple[str, int, int]], count: float) -> list[tuple[str, int, int]]:
    return (rows * (int(count) // len(rows) + 1))[: int(count)]


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ends the input of a system, which ends it. Kills it after a timeout."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def results(options: argparse.Namespace) -> Iterator[tuple[str, Figures | str]]:
    for system in options.only or SYSTEMS:
        with tempfile.TemporaryDirectory() as home:
            broker, work = Path(home, "broker"), Path(home, "work")
            broker.mkdir()
            work.mkdir()
            server = KafkaServer(broker)
            try:
                server.start()
                figures = measure(system, server, options.rows, options.seconds, work)
            except Unavailable as why:
                yield system, str(why)
            except Wrong as why:
                log = (work / "log").read_text(errors="replace").strip()
                yield system, f"{why}\n{log[-3000:]}"
            else:
                yield system, figures
            finally:
                server.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--only", action="append", choices=list(SYSTEMS))
    options = parser.parse_args()
    print(f"{options.rows:,} messages, {options.seconds} s at half load, {CORES} cores")
    print("| system | rows/s at full load | rows/s at half load | p50, ms | p99, ms |\n|---|---|---|---|---|")
    failed = False
    for system, result in results(options):
        title = SYSTEMS[system].title
        if isinstance(result, str):
            failed = True
            print(f"| {title} | failed | | | |\n{result}", flush=True)
        else:
            figures = (
                f"{result.rows_per_s:,.0f} | {result.offered_per_s:,.0f} | {result.p50_ms:,.0f} | {result.p99_ms:,.0f}"
            )
            print(f"| {title} | {figures} |", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
