"""The same fold with Bytewax itself and with Mullion: ``bytewax_folds.py [ROWS] [KEYS] [ROUNDS] [SOURCE ...]``.

Both run the same dataflow in this process, over the same items: sums by key, in tumbling windows of 10 seconds of event
time, in which each key has ten rows. The sums of both are compared. There are two such dataflows: one whose functions
only compute, which Mullion runs in the JVM, and one whose functions call modules that exist only in Python. Items come
from a ``list`` of the program, or from a file that is read in batches of 1,000 lines: ``json``, an object in each line,
or ``csv``.

Each is measured from the call of ``run_main`` until it returns. Bytewax and Mullion alternate, and the
fastest run of each counts. Mullion has two runs before, in which Spark and Java compile.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import bytewax.connectors.files as their_files
import bytewax.dataflow as their_dataflow
import bytewax.operators as their_op
import bytewax.operators.windowing as their_win
import bytewax.testing as their_testing

import mullion.bytewax.connectors.files as our_files
import mullion.bytewax.dataflow as our_dataflow
import mullion.bytewax.operators as our_op
import mullion.bytewax.operators.windowing as our_win
import mullion.bytewax.testing as our_testing
from harness.spark_session import session

START = datetime(2024, 1, 1, tzinfo=UTC)
BATCH = 1000


@dataclass(frozen=True)
class Functions:
    """The functions that a dataflow calls for each item."""

    key: Callable[[Any], str]
    at: Callable[[Any], datetime]
    folder: Callable[[float, Any], float]


@dataclass(frozen=True)
class Source:
    """A source of items, and the functions for its items."""

    items: Any
    is_json: bool
    only_compute: Functions
    call_python: Functions


def rows_of(rows: int, keys: int) -> list[tuple[str, datetime, float]]:
    """A row of each key in a second."""
    return [(f"k{n % keys}", START + timedelta(seconds=n / keys), float(n % 7)) for n in range(rows)]


def from_list(rows: int, keys: int, folder: Path) -> Source:
    def at(item: Any) -> Any:
        return item[1]

    return Source(
        rows_of(rows, keys),
        False,
        Functions(lambda item: item[0], at, lambda total, item: total + item[2]),
        Functions(lambda item: "".join([item[0]]), at, lambda total, item: sum([item[2]], total)),
    )


def from_json(rows: int, keys: int, folder: Path) -> Source:
    lines = (
        json.dumps({"key": key, "at": at.isoformat(timespec="microseconds"), "value": value})
        for key, at, value in rows_of(rows, keys)
    )
    return Source(
        written(folder / "rows.json", lines),
        True,
        Functions(lambda item: item["key"], at_of_text, lambda total, item: total + item["value"]),
        Functions(lambda item: "".join([item["key"]]), at_of_text, lambda total, item: sum([item["value"]], total)),
    )


def from_csv(rows: int, keys: int, folder: Path) -> Source:
    lines = (f"{key},{at.isoformat(timespec='microseconds')},{value}" for key, at, value in rows_of(rows, keys))
    return Source(
        written(folder / "rows.csv", ["key,at,value", *lines]),
        False,
        Functions(lambda item: item["key"], at_of_text, lambda total, item: total + float(item["value"])),
        Functions(
            lambda item: "".join([item["key"]]), at_of_text, lambda total, item: sum([float(item["value"])], total)
        ),
    )


def at_of_text(item: Any) -> datetime:
    return datetime.fromisoformat(item["at"])


def written(path: Path, lines: Any) -> Path:
    with path.open("w") as file:
        file.writelines(f"{line}\n" for line in lines)
    return path


SOURCES = {"list": from_list, "json": from_json, "csv": from_csv}
THEIRS = (their_dataflow, their_op, their_win, their_testing, their_files)
OURS = (our_dataflow, our_op, our_win, our_testing, our_files)


def measured(source: Source, functions: Functions, modules: tuple[Any, ...]) -> tuple[float, list[Any]]:
    """The seconds that a run takes, and the sums in order."""
    dataflow, op, win, testing, files = modules
    sums: list[Any] = []
    if isinstance(source.items, list):
        read = testing.TestingSource(source.items, BATCH)
    else:
        read = (files.FileSource if source.is_json else files.CSVSource)(source.items, BATCH)
    flow = dataflow.Dataflow("sums")
    items = op.input("in", flow, read)
    if source.is_json:
        items = op.map("parse", items, json.loads)
    keyed = op.key_on("key", items, functions.key)
    clock = win.EventClock(functions.at, timedelta(0), now_getter=lambda: START)
    windower = win.TumblingWindower(timedelta(seconds=10), START)
    windows = win.fold_window("sums", keyed, clock, windower, float, functions.folder, lambda one, other: one + other)
    op.output("out", windows.down, testing.TestingSink(sums))
    before = time.monotonic()
    testing.run_main(flow)
    return time.monotonic() - before, sorted(sums)


def compared(source: Source, functions: Functions, rounds: int) -> tuple[float, float]:
    """The seconds of Bytewax and of Mullion."""
    for _ in range(2):
        measured(source, functions, OURS)
    other, ours = [], []
    for _ in range(rounds):
        seconds, expected = measured(source, functions, THEIRS)
        other.append(seconds)
        seconds, sums = measured(source, functions, OURS)
        ours.append(seconds)
        if sums != expected:
            raise SystemExit("the sums differ")
    return min(other), min(ours)


def main(rows: int, keys: int, rounds: int, names: list[str]) -> None:
    session()
    print(f"{rows} rows, {keys} keys, {rounds} rounds")
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            source = SOURCES[name](rows, keys, Path(folder))
            for what, functions in (("only compute", source.only_compute), ("call Python", source.call_python)):
                other, ours = compared(source, functions, rounds)
                speeds = f"Bytewax {rows / other:,.0f} rows/s, Mullion {rows / ours:,.0f} rows/s"
                goal = " (goal: 20)" if source.is_json and functions is source.only_compute else ""
                print(f"{name}, functions that {what}: {speeds}, {other / ours:.2f} times as fast{goal}", flush=True)


if __name__ == "__main__":
    names = [name for name in sys.argv[1:] if name in SOURCES]
    numbers = [int(number) for number in sys.argv[1:] if number not in SOURCES]
    rows, keys, rounds = [*numbers, *(500_000, 1000, 2)[len(numbers) :]]
    main(rows, keys, rounds, names or list(SOURCES))
