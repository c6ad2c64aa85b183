"""Bytewax from Kafka to Kafka: ``kafka_bytewax.py SYSTEM SETTINGS``. One process for each core, a clock per key."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import bytewax.operators as op
import bytewax.operators.windowing as win
from bytewax.connectors.kafka import KafkaSink, KafkaSinkMessage, KafkaSource
from bytewax.dataflow import Dataflow
from bytewax.testing import cluster_main
from tests.support.kafka.kafka_server import free_ports

CORES = 2
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Sums = tuple[int, int]
Row = tuple[datetime, int]


def keyed(message: Any) -> tuple[str, Row]:
    fields = json.loads(message.value)
    return fields["k"], (datetime.fromtimestamp(fields["ts"] / 1000, UTC), fields["v"])


def result(pane: tuple[str, tuple[int, Sums]]) -> Any:
    key, (window, (n, total)) = pane
    value = {"k": key, "start": window * 1000, "n": n, "total": total}
    return KafkaSinkMessage(key.encode(), json.dumps(value).encode())


def flow(settings: dict[str, Any]) -> Dataflow:
    dataflow = Dataflow("panes")
    source = KafkaSource([settings["servers"]], [settings["source"]], batch_size=1000)
    rows = op.map("keyed", op.input("source", dataflow, source), keyed)
    # A clock that advances with the system's clock would overtake rows that wait in the topic.
    clock = win.EventClock(lambda row: row[0], timedelta(seconds=1), now_getter=lambda: EPOCH)
    windower = win.TumblingWindower(length=timedelta(seconds=1), align_to=EPOCH)
    panes = win.fold_window(
        "panes",
        rows,
        clock,
        windower,
        lambda: (0, 0),
        lambda sums, row: (sums[0] + 1, sums[1] + row[1]),
        lambda one, other: (one[0] + other[0], one[1] + other[1]),
    )
    op.output("target", op.map("result", panes.down, result), KafkaSink([settings["servers"]], settings["target"]))
    return dataflow


def main(settings: dict[str, Any]) -> None:
    addresses = ",".join(f"localhost:{port}" for port in free_ports(CORES))
    workers = [subprocess.Popen([sys.executable, *sys.argv, addresses, str(number)]) for number in range(CORES)]
    sys.stdin.read()
    for worker in workers:
        worker.kill()
        worker.wait()


if __name__ == "__main__":
    options = json.loads(sys.argv[2])
    if len(sys.argv) > 3:
        cluster_main(flow(options), sys.argv[3].split(","), int(sys.argv[4]))
    else:
        main(options)
