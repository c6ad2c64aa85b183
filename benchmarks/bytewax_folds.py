"""The same fold with Bytewax itself and with Mullion: ``bytewax_folds.py [ROWS] [KEYS]``.

Both run the same dataflow in this process, over the same items: sums by key, in tumbling windows of 10 seconds of event
time, in which each key has ten rows. The sums of both are compared. There are two such dataflows: one whose functions
only compute, which Mullion runs in the JVM, and one whose functions call what only Python knows.

Each is measured from the call of ``run_main`` until it returns. Bytewax and Mullion run in turns, and of each the
fastest of its runs counts; Mullion has one more before, in which Spark compiles.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Functions:
    """What a dataflow calls for each item."""

    key: Callable[[Item], str]
    folder: Callable[[float, Item], float]


ONLY_COMPUTE = Functions(lambda item: item[0], lambda total, item: total + item[2])
CALL_PYTHON = Functions(lambda item: "".join([item[0]]), lambda total, item: sum([item[2]], total))

THEIRS = (their_dataflow, their_op, their_win, their_testing)
OURS = (our_dataflow, our_op, our_win, our_testing)


def measured(items: list[Item], functions: Functions, modules: tuple[Any, ...]) -> tuple[float, list[Any]]:
    """The seconds that a run takes, and the sums in order."""
    dataflow, op, win, testing = modules
    sums: list[Any] = []
    flow = dataflow.Dataflow("sums")
    keyed = op.key_on("key", op.input("in", flow, testing.TestingSource(items, BATCH)), functions.key)
    clock = win.EventClock(lambda item: item[1], timedelta(0), now_getter=lambda: START)
    windower = win.TumblingWindower(timedelta(seconds=10), START)
    windows = win.fold_window("sums", keyed, clock, windower, float, functions.folder, lambda one, other: one + other)
    op.output("out", windows.down, testing.TestingSink(sums))
    before = time.monotonic()
    testing.run_main(flow)
    return time.monotonic() - before, sorted(sums)


def compared(items: list[Item], functions: Functions, rounds: int) -> tuple[float, float]:
    """The seconds of Bytewax and of Mullion."""
    measured(items, functions, OURS)
    theirs, ours = [], []
    for _ in range(rounds):
        seconds, expected = measured(items, functions, THEIRS)
        theirs.append(seconds)
        seconds, sums = measured(items, functions, OURS)
        ours.append(seconds)
        if sums != expected:
            raise SystemExit("the sums differ")
    return min(theirs), min(ours)


def main(rows: int, keys: int, rounds: int) -> None:
    items = items_of(rows, keys)
    session()
    print(f"{rows} rows, {keys} keys, {rounds} rounds")
    for name, functions in (("only compute", ONLY_COMPUTE), ("call Python", CALL_PYTHON)):
        theirs, ours = compared(items, functions, rounds)
        speeds = f"Bytewax {rows / theirs:,.0f} rows/s, Mullion {rows / ours:,.0f} rows/s"
        print(f"functions that {name}: {speeds}, {theirs / ours:.2f} times as fast", flush=True)


if __name__ == "__main__":
    given = [int(number) for number in sys.argv[1:]]
    main(*[*given, *(500_000, 1000, 2)[len(given) :]])
