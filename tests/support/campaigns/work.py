"""Counts the work of fixed streams: calls of the state store, and the rows that it reads.

Counts do not depend on the load of a machine, so they show additional work that no clock would.
``python tests/support/campaigns/work.py`` counts again and writes ``work.json``, with which ``test_work.py`` compares.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from mullion import Early, Session, Sliding, Tumbling, configure, windowed
from tests.support.clocked import ClockedQuery
from tests.support.streams import SECOND, Feed, batches_of

FILE = Path(__file__).with_name("work.json")

KEYS = 50
BATCHES = 3
COUNTED = ("rocksdbGetCount", "rocksdbPutCount", "stateRowsRead", "numRowsUpdated", "numRowsRemoved", "numRowsTotal")

QUERIES: dict[str, dict[str, Any]] = {
    "tumbling": {"window": Tumbling("10 seconds")},
    "sliding": {"window": Sliding("20 seconds", "1 second")},
    "sessions": {"window": Session("2 seconds")},
    "early": {"window": Tumbling("1 minute"), "early": Early("5 seconds")},
    "lateness": {"window": Tumbling("10 seconds"), "allowed_lateness": "20 seconds", "late": "reopen"},
}


def rows(batch: int) -> Iterator[tuple[int, int, int]]:
    """A thousand rows of 20 seconds: each key has one row per second."""
    for second in range(20):
        for key in range(KEYS):
            # Half of the keys pause for five seconds of ten, so that sessions end.
            if key % 2 or second % 10 < 5:
                yield (batch * 20 + second) * SECOND + key * 1000, key, key * second


def count(spark: SparkSession, query: str, home: Path) -> list[dict[str, int]]:
    """The work of each batch of a query, including the batch without rows at its end."""
    feed = Feed(home / "in", "k int, v bigint")
    for batch in range(BATCHES):
        feed.write(rows(batch))
    feed.flood()
    panes = windowed(feed.stream(spark, "1 second"), by="k", time="ts", **QUERIES[query]).agg(
        F.count("*").alias("n"), F.sum("v").alias("total"), F.max("v").alias("most")
    )
    with ClockedQuery(panes, checkpoint=home / "checkpoint") as running:
        running.settle()
        return [{name: report[name] for name in COUNTED} for report in batches_of(running)]


def idle(spark: SparkSession, keys: int, home: Path) -> list[int]:
    """The rows of state that a batch reads to close one small pane, while panes of many keys are open."""
    feed = Feed(home / "in", "k int, v bigint")
    feed.write([(1000 * SECOND, key, 0) for key in range(keys)] + [(second * SECOND, -1, 0) for second in range(5)])
    feed.write([(1000 * SECOND + 1, 0, 0)])
    panes = windowed(feed.stream(spark, "998 seconds"), Tumbling("1 second"), by="k", time="ts").agg(F.count("*"))
    with ClockedQuery(panes, checkpoint=home / "checkpoint") as running:
        running.settle()
        for second in range(1, 4):
            feed.write([((1000 + second) * SECOND, 0, 0)])
            running.settle()
        return [report["stateRowsRead"] for report in batches_of(running)][1:]


def main() -> None:
    builder = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "2")
    session = configure(builder.config("spark.ui.enabled", "false")).getOrCreate()
    with tempfile.TemporaryDirectory() as home:
        counts = {query: count(session, query, Path(home, query)) for query in QUERIES}
    session.stop()
    FILE.write_text(as_text(counts))


def as_text(counts: dict[str, list[dict[str, int]]]) -> str:
    """JSON with a line per batch."""
    queries = [
        f"  {json.dumps(query)}: [\n" + ",\n".join(f"    {json.dumps(batch)}" for batch in batches) + "\n  ]"
        for query, batches in counts.items()
    ]
    return "{\n" + ",\n".join(queries) + "\n}\n"


if __name__ == "__main__":
    main()
