"""Quix Streams from Kafka to Kafka: ``kafka_quix.py SYSTEM SETTINGS``. One process for each core, in one group."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

from quixstreams import Application
from quixstreams.dataframe.windows import Count, Sum

CORES = 2


def worker(settings: dict[str, Any], number: int) -> None:
    app = Application(
        settings["servers"],
        consumer_group="panes",
        auto_offset_reset="earliest",
        state_dir=Path(settings["home"], str(number)),
        loglevel="ERROR",
    )
    source = app.topic(
        settings["source"],
        value_deserializer="json",
        key_deserializer="str",
        timestamp_extractor=lambda value, headers, timestamp, kind: value["ts"],
    )
    target = app.topic(settings["target"], value_serializer="json", key_serializer="str")
    windows = app.dataframe(source).tumbling_window(timedelta(seconds=1), timedelta(seconds=1))
    panes = windows.agg(n=Count(), total=Sum("v")).final(closing_strategy="partition")
    results = panes.apply(
        lambda pane, key, timestamp, headers: {
            "k": key,
            "start": pane["start"],
            "n": pane["n"],
            "total": int(pane["total"]),
        },
        metadata=True,
    )
    results.to_topic(target)
    app.run()


def main(settings: dict[str, Any]) -> None:
    workers = [subprocess.Popen([sys.executable, *sys.argv, str(number)]) for number in range(CORES)]
    sys.stdin.read()
    for each in workers:
        each.kill()
        each.wait()


if __name__ == "__main__":
    if len(sys.argv) > 3:
        worker(json.loads(sys.argv[2]), int(sys.argv[3]))
    else:
        main(json.loads(sys.argv[2]))
