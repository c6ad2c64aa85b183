"""Queries with values of the previous window, ``previous`` and ``empty="forward"``, that are killed in batches."""

from __future__ import annotations

import random
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion import Tumbling, windowed
from mullion import functions as MF
from tests.support.killing import committed, kill_after, session_of_its_own, somewhere_in_a_batch
from tests.support.seeds import SEED
from tests.support.streams import SECOND, Feed

pytestmark = pytest.mark.slow

SIZE = 10
# The seconds of a batch, and of the watermark's delay, so that no row is late.
SPAN = 60
NAMES = ("previous", "forward")

Row = tuple[int, str | None, int]
"""A time in seconds, a key and a value."""


def feed_in(folder: Path) -> Feed:
    return Feed(folder / "in", "k string, v bigint")


def panes(rows: DataFrame, name: str) -> DataFrame:
    fills = name == "forward"
    window = windowed(
        rows,
        Tumbling(f"{SIZE} seconds"),
        by="k",
        time="ts",
        empty="forward" if fills else "skip",
        at_end="close",
    )
    total = F.sum("v")
    columns = {} if fills else {"before": MF.previous(total)}
    return window.agg(n=F.count("*"), total=total, **columns).withColumn("at", F.unix_seconds("window.start"))


def run(spark: SparkSession, folder: Path) -> list[int]:
    """Runs both queries to the end of the input, into files. Returns the number of records left in each state."""
    stream = feed_in(folder).stream(spark, f"{SPAN} seconds")
    running = [
        panes(stream, name)
        .drop("window", "pane")
        .writeStream.format("parquet")
        .option("path", str(folder / name))
        .option("checkpointLocation", str(folder / f"{name}-checkpoint"))
        .trigger(availableNow=True)
        .start()
        for name in NAMES
    ]
    for query in running:
        query.awaitTermination()
    return [report["stateOperators"][0]["numRowsTotal"] for query in running if (report := query.lastProgress)]


def closes(rows: list[Row], name: str) -> Counter[tuple[Any, ...]]:
    """The closes of each key: key, start, count, sum, and with ``previous`` the previous sum."""
    windows: dict[str | None, dict[int, list[int]]] = defaultdict(dict)
    for time, key, value in rows:
        windows[key].setdefault(time // SIZE * SIZE, []).append(value)
    clock = max(time for time, _, _ in rows) - SPAN
    closed: Counter[tuple[Any, ...]] = Counter()
    for key, with_rows in windows.items():
        last: tuple[int, int] | None = None
        # The windows of a key end with its last row, or at the clock.
        until = max(max(with_rows) + SIZE, clock // SIZE * SIZE)
        for start in range(min(with_rows), until, SIZE):
            values = with_rows.get(start)
            if values is None and name == "previous":
                continue
            before, last = last, (len(values), sum(values)) if values else last
            assert last is not None
            closed[key, start, *last, *(() if name == "forward" else (None if before is None else before[1],))] += 1
    return closed


def test_closes_after_kills_take_values_from_the_close_before_once(spark: SparkSession, tmp_path: Path) -> None:
    rng = random.Random(SEED)
    feed = feed_in(tmp_path)
    rows: list[Row] = []
    number = 0
    for name in (*NAMES, "forward"):
        for _ in range(5):
            batch = [
                # Few rows, so that keys have windows without rows.
                (SPAN * number + rng.randrange(SPAN), rng.choice([*"abcdefgh", None]), rng.randrange(50))
                for _ in range(20)
            ]
            feed.write([(time * SECOND, key, value) for time, key, value in batch])
            rows += batch
            number += 1
        kill_after(tmp_path, somewhere_in_a_batch(tmp_path / f"{name}-checkpoint", rng), __file__)
    assert committed(tmp_path / "forward-checkpoint") < 2 * number
    assert run(spark, tmp_path) == [0, 0], "records are left"
    for name in NAMES:
        written = spark.read.parquet(str(tmp_path / name))
        values = ["k", "at", "n", "total", *(["before"] if name == "previous" else [])]
        expected = closes(rows, name)
        assert Counter(tuple(row) for row in written.select(*values).collect()) == expected, f"MULLION_SEED={SEED}"
        assert expected.total() > 100


if __name__ == "__main__":
    home = Path(sys.argv[1])
    run(session_of_its_own(home), home)
