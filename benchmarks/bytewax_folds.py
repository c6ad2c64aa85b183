"""The same fold with Bytewax itself and with Mullion: ``bytewax_folds.py [ROWS] [KEYS]``.

Both run the same dataflow in this process, over the same items: sums by key, in tumbling windows of 10 seconds of event
time, in which each key has ten rows. The sums of both are compared. Each is measured from the call of ``run_main``
until it returns; Mullion's second run counts, for in the first one Spark still compiles.
"""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import bytewax.dataflow as their_dataflow
import bytewax.operators as their_op
import bytewax.operators.windowing as their_win
import bytewax.testing as their_testing

import mullion.bytewax.dataflow as our_dataflow
import mullion.bytewax.operators as our_op
import mullion.bytewax.operators.windowing as our_win
import mullion.bytewax.testing as our_testing
from spark_session import session

START = datetime(2024, 1, 1, tzinfo=UTC)
BATCH = 1000

Item = tuple[str, datetime, float]


def items_of(rows: int, keys: int) -> list[Item]:
    """A row of each key in a second."""
    return [(f"k{n % keys}", START + timedelta(seconds=n / keys), float(n % 7)) for n in range(rows)]


def measured(items: list[Item], dataflow: Any, op: Any, win: Any, testing: Any) -> tuple[float, list[Any]]:
    """The seconds that a run takes, and the sums in order."""
    sums: list[Any] = []
    flow = dataflow.Dataflow("sums")
    keyed = op.key_on("key", op.input("in", flow, testing.TestingSource(items, BATCH)), lambda item: item[0])
    clock = win.EventClock(lambda item: item[1], timedelta(0), now_getter=lambda: START)
    windower = win.TumblingWindower(timedelta(seconds=10), START)
    windows = win.fold_window(
        "sums", keyed, clock, windower, float, lambda total, item: total + item[2], lambda one, other: one + other
    )
    op.output("out", windows.down, testing.TestingSink(sums))
    before = time.monotonic()
    testing.run_main(flow)
    return time.monotonic() - before, sorted(sums)


def main(rows: int, keys: int) -> None:
    items = items_of(rows, keys)
    session()
    theirs, expected = measured(items, their_dataflow, their_op, their_win, their_testing)
    ours = 0.0
    for _ in range(2):
        ours, sums = measured(items, our_dataflow, our_op, our_win, our_testing)
        if sums != expected:
            raise SystemExit("the sums differ")
    print(f"{rows} rows, {keys} keys, {len(expected)} windows")
    print(f"Bytewax {rows / theirs:,.0f} rows/s, Mullion {rows / ours:,.0f} rows/s: {theirs / ours:.2f} times as fast")


if __name__ == "__main__":
    given = [int(number) for number in sys.argv[1:]]
    main(*[*given, *(500_000, 1000)[len(given) :]])
