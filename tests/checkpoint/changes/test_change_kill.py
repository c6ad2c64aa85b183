"""Queries that are killed in the first batch after a change, and resume with the old or the new code."""

from __future__ import annotations

import json
import os
import random
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from mullion import IncompatibleStateError, Session, Sliding, Tumbling, Upgrade, windowed
from mullion.windows import Window
from tests.support.killing import committed, files, is_half_planned, kill_after, session_of_its_own
from tests.support.seeds import SEED
from tests.support.streams import SECOND, Feed

pytestmark = pytest.mark.slow

ROUNDS = int(os.environ.get("MULLION_TEST_ROUNDS", "2"))
# No row is late in any batch, so closes depend only on the rows and the boundary.
DELAY = 1000
CODE: dict[str, dict[str, dict[str, Any]]] = {
    "size": {
        "old": {"window": Tumbling("50 seconds")},
        "new": {"window": Tumbling("75 seconds"), "upgrade": Upgrade(window="drain")},
    },
    "slide": {
        "old": {"window": Sliding("60 seconds", "20 seconds")},
        "new": {"window": Tumbling("50 seconds"), "upgrade": Upgrade(window="drain")},
    },
    "gap": {
        "old": {"window": Session("20 seconds")},
        "new": {"window": Session("35 seconds"), "upgrade": Upgrade(window="drain")},
    },
    "lateness": {
        "old": {"window": Tumbling("50 seconds")},
        "new": {"window": Tumbling("50 seconds"), "allowed_lateness": "30 seconds"},
    },
}


def run(spark: SparkSession, home: Path, kind: str, code: str) -> None:
    """Runs the query before or after the change to the end of its input."""
    options = CODE[kind][code]
    stream = Feed(home / "in", "k string").stream(spark, f"{DELAY} seconds")
    panes = windowed(stream, by="k", time="ts", **options).agg(F.count("*").alias("n"))
    flat = panes.selectExpr("k", "window.start AS start", "window.end AS end", "n")
    writer = flat.writeStream.format("parquet").option("path", str(home / "out"))
    writer = writer.option("checkpointLocation", str(home / "checkpoint")).trigger(availableNow=True)
    writer.start().awaitTermination()


class Rows:
    """The input of a query: each batch is forty seconds after the previous one."""

    def __init__(self, home: Path, chance: random.Random) -> None:
        self.feed = Feed(home / "in", "k string")
        self.chance = chance
        self.batches = 0
        self.all: list[tuple[int, str]] = []

    def write(self, batches: int) -> None:
        for _ in range(batches):
            start = 2000 + 40 * self.batches
            rows = [(self.chance.randrange(start - 200, start + 40), self.chance.choice("abcde")) for _ in range(30)]
            self.feed.write([(time * SECOND, key) for time, key in rows])
            self.all += rows
            self.batches += 1


def in_its_first_batch(checkpoint: Path, chance: random.Random) -> Iterator[float]:
    """Ends some files after the start of the next batch, or soon after its end."""
    batch, more = committed(checkpoint), chance.randrange(70)
    while not (checkpoint / "offsets" / str(batch)).exists():
        yield 0.01
    before = files(checkpoint.parent)
    while files(checkpoint.parent) < before + more and committed(checkpoint) < batch + 2:
        yield 0.003
    while is_half_planned(checkpoint):
        yield 0.003


def boundary(checkpoint: Path) -> int | None:
    """The time in microseconds from which on rows enter the new window, if a window has replaced another."""
    headers = [json.loads(file.read_text()) for file in (checkpoint / "state/0/_mullion").glob("header*.json")]
    boundaries: set[int] = {header["boundary"] for header in headers if "boundary" in header}
    assert len(boundaries) <= 1
    return next(iter(boundaries), None)


def panes_of(window: Window, times: list[int]) -> list[tuple[int, int, int]]:
    """The panes of a key: start, end and number of rows."""
    match window:
        case Session():
            assert window.gap_us is not None
            gap, panes = window.gap_us // SECOND, list[tuple[int, int, int]]()
            for time in sorted(times):
                if panes and time <= panes[-1][1]:
                    start, _, n = panes.pop()
                    panes.append((start, time + gap, n + 1))
                else:
                    panes.append((time, time + gap, 1))
            return panes
        case Sliding() | Tumbling():
            size = window.size_us // SECOND
            slide = window.slide_us // SECOND if isinstance(window, Sliding) else size
            starts = Counter(s for t in times for s in range(t - t % slide, t - size, -slide))
            return [(start, start + size, n) for start, n in starts.items()]
    raise AssertionError(window)


def expected(kind: str, rows: list[tuple[int, str]], at: int | None) -> Counter[tuple[str, int, int, int]]:
    sides = [("old", [r for r in rows if at is None or r[0] * SECOND < at])]
    if at is not None:
        sides.append(("new", [r for r in rows if r[0] * SECOND >= at]))
    return Counter(
        (key, *pane)
        for code, side in sides
        for key in {key for _, key in side}
        for pane in panes_of(CODE[kind][code]["window"], [time for time, of in side if of == key])
    )


@pytest.mark.parametrize("kind", CODE)
@pytest.mark.parametrize("number", range(ROUNDS))
def test_a_query_that_is_killed_during_a_change_continues_from_either_side_or_raises_an_error(
    spark: SparkSession, tmp_path: Path, kind: str, number: int
) -> None:
    chance = random.Random(f"{SEED}-{kind}-{number}")
    checkpoint = tmp_path / "checkpoint"
    rows = Rows(tmp_path, chance)
    rows.write(4)
    run(spark, tmp_path, kind, "old")
    rows.write(8)
    before = committed(checkpoint)
    kill_after(tmp_path, in_its_first_batch(checkpoint, chance), __file__, kind, "new")
    has_changed = committed(checkpoint) > before

    code = chance.choice(("old", "new"))
    # The lateness changes back in the same way.
    if code == "old" and has_changed and kind != "lateness":
        with pytest.raises(IncompatibleStateError, match="window was"):
            run(spark, tmp_path, kind, "old")
    else:
        run(spark, tmp_path, kind, code)
    rows.write(2)
    run(spark, tmp_path, kind, "new")
    rows.feed.flood()
    run(spark, tmp_path, kind, "new")
    out = [
        (row.k, int(row.start.timestamp()), int(row.end.timestamp()), row.n)
        for row in spark.read.parquet(str(tmp_path / "out")).collect()
    ]
    at = boundary(checkpoint)
    assert (at is None) == (kind == "lateness")
    assert Counter(out) == expected(kind, rows.all, at), f"{SEED}-{kind}-{number}: {code}, {has_changed}"


if __name__ == "__main__":
    home = Path(sys.argv[1])
    run(session_of_its_own(home), home, *sys.argv[2:4])
