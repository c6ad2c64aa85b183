"""Counts a topic with faust-streaming itself: ``faust_original.py SERVERS TOPIC ROWS ANSWERS PORT``.

Its tables are in memory, its broker and changelog in Kafka. When all rows have been counted it writes the counts to the
file ANSWERS as JSON, with how long they took from the first event on: its start is not counted.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import faust

servers, topic, rows, answers, port = sys.argv[1:]
app = faust.App(
    "original",
    broker=f"kafka://{servers}",
    store="memory://",
    value_serializer="json",
    key_serializer="raw",
    topic_partitions=2,
    datadir=tempfile.mkdtemp(),
    web_port=int(port),
    consumer_auto_offset_reset="earliest",
)
counts = app.Table("counts", default=int, partitions=2).tumbling(10, expires=timedelta(days=365))
done = 0
began = 0.0


@app.agent(app.topic(topic, key_type=bytes))
async def count(events: Any) -> None:
    global done, began
    async for event in events:
        if not done:
            began = time.perf_counter()
        counts[event["k"]] += 1
        done += 1
        if done == int(rows):
            took = time.perf_counter() - began
            counted = [[key, at[0], n] for (key, at), n in counts.table.data.items()]
            Path(answers).write_text(json.dumps({"seconds": took, "counts": counted}))
            os._exit(0)


if __name__ == "__main__":
    sys.argv = ["faust", "worker", "--loglevel=error"]
    app.main()
