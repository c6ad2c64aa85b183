"""Values of the previous window, ``previous`` and ``empty="forward"``, over random batches against plain Python.

The query restarts over its checkpoint with another amount of cached state, and some batches run twice.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion import Tumbling, windowed
from mullion import functions as MF
from tests.support.cache_sizes import draw_size
from tests.support.clocked import ClockedQuery
from tests.support.seeds import SEED
from tests.support.streams import SECOND, Feed, batches_of

SIZE = 10
KEYS = [*"abcdefgh", None]


@dataclass
class Model:
    """The windows of all keys. Times are seconds."""

    fills: bool
    clock: int | None = None
    open: dict[tuple[Any, int], list[int]] = field(default_factory=dict)
    last: dict[Any, tuple[int, tuple[int, int]]] = field(default_factory=dict)
    late: int = 0

    def batch(self, rows: list[tuple[int, Any, int]], clock: int) -> Counter[tuple[Any, ...]]:
        """Applies a batch. Returns the windows that close: key, start, count, sum, previous sum."""
        for time, key, value in rows:
            start = time // SIZE * SIZE
            if self.clock is not None and start + SIZE <= self.clock:
                self.late += 1
            else:
                self.open.setdefault((key, start), []).append(value)
        self.clock = clock
        closes: Counter[tuple[Any, ...]] = Counter()
        for key in KEYS:
            for start in sorted(start for of, start in self.open if of == key and start + SIZE <= clock):
                if self.fills:
                    closes += self._filled(key, start)
                values = self.open.pop((key, start))
                before = self.last.get(key)
                now = (len(values), sum(values))
                closes[key, start, *now, None if before is None or self.fills else before[1][1]] += 1
                self.last[key] = (start, now)
            if self.fills:
                closes += self._filled(key, clock // SIZE * SIZE)
        return closes

    def _filled(self, key: Any, until: int) -> Counter[tuple[Any, ...]]:
        """The windows of a key without rows, up to one that starts at ``until``."""
        closes: Counter[tuple[Any, ...]] = Counter()
        while key in self.last and self.last[key][0] + SIZE < until:
            start, values = self.last[key]
            self.last[key] = (start + SIZE, values)
            closes[key, start + SIZE, *values, None] += 1
        return closes


def panes(rows: DataFrame, *, fills: bool) -> DataFrame:
    window = windowed(rows, Tumbling("10 seconds"), by="k", time="ts", empty="forward" if fills else "skip")
    before = F.lit(None).cast("bigint") if fills else MF.previous(F.sum("v"))
    totals = window.agg(F.count("*").alias("n"), F.sum("v").alias("s"), *([] if fills else [before.alias("b")]))
    return totals.withColumn("b", before) if fills else totals


def closes_of(rows: list[Any]) -> Counter[tuple[Any, ...]]:
    epoch = datetime(1970, 1, 1)
    return Counter((row.k, (row.window.start - epoch) // timedelta(seconds=1), row.n, row.s, row.b) for row in rows)


def clocks_of(query: ClockedQuery) -> list[int]:
    """The watermark of each batch that ran, in whole seconds: all times are."""
    clocks = {}
    for report in query.progress:
        if "addBatch" in report["durationMs"]:
            watermark = datetime.fromisoformat(report["eventTime"]["watermark"].removesuffix("Z"))
            clocks[report["batchId"]] = (watermark - datetime(1970, 1, 1)) // timedelta(seconds=1)
    return [clocks[batch] for batch in sorted(clocks)]


def forget_last_commit(checkpoint: Path) -> None:
    """Removes the last commit, as if the query had died just before it."""
    last = max(int(file.name) for file in (checkpoint / "commits").iterdir() if file.name.isdigit())
    for name in (str(last), f".{last}.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)


@pytest.mark.own_cache_size("each run of the query has a random one")
@pytest.mark.parametrize("fills", [False, True], ids=["previous", "forward"])
@pytest.mark.always
def test_values_of_the_window_before_match_the_model(spark: SparkSession, tmp_path: Path, fills: bool) -> None:
    rng = random.Random(f"{SEED} {fills}")
    feed, checkpoint = Feed(tmp_path / "in", "k string, v bigint"), tmp_path / "checkpoint"
    model = Model(fills)
    late = repeated = 0
    for run in range(4):
        draw_size(spark, rng)
        with ClockedQuery(panes(feed.stream(spark, "5 seconds"), fills=fills), checkpoint=checkpoint) as query:
            compared = 0
            last: Counter[tuple[Any, ...]] = Counter()
            for batch in range(3):
                now = 40 * (3 * run + batch)
                # Few rows, so that most keys have none in most windows.
                rows = [(max(0, now - rng.randrange(90)), rng.choice(KEYS), rng.randrange(10)) for _ in range(14)]
                feed.write([(time * SECOND, key, value) for time, key, value in rows])
                rows_closed = closes_of(query.settle())
                clocks = clocks_of(query)[compared:]
                compared += len(clocks)
                expected: Counter[tuple[Any, ...]] = Counter()
                for number, clock in enumerate(clocks):
                    last = model.batch(rows if number == 0 else [], clock)
                    expected += last
                assert rows_closed == expected, f"MULLION_SEED={SEED}, run {run}, batch {batch}"
            late += sum(report["rowsLate"] for report in batches_of(query))
        if rng.random() < 0.7:
            repeated += 1
            forget_last_commit(checkpoint)
            draw_size(spark, rng)
            with ClockedQuery(panes(feed.stream(spark, "5 seconds"), fills=fills), checkpoint=checkpoint) as query:
                assert closes_of(query.settle()) == last, f"MULLION_SEED={SEED}, after run {run}"
    assert repeated > 0
    assert late == model.late > 0
    if fills:
        return
    feed.flood()
    with ClockedQuery(panes(feed.stream(spark, "5 seconds"), fills=fills), checkpoint=checkpoint) as query:
        assert closes_of(query.settle()) == model.batch([], 2**40)
        # One record per key remains.
        assert batches_of(query)[-1]["numRowsTotal"] == len(KEYS)
