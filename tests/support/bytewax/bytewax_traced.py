"""Random windows whose functions run in the JVM, run by the released package in this process and by Mullion.

Functions have many forms, and items are tuples, dicts and objects. Only Python can compute with some values; keys with
such values fall back to Python.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import bytewax.operators as their_op
import bytewax.operators.windowing as their_win
from bytewax.dataflow import Dataflow as TheirDataflow
from bytewax.testing import TestingSink as TheirSink
from bytewax.testing import TestingSource as TheirSource
from bytewax.testing import run_main as their_run

import mullion.bytewax.operators as our_op
import mullion.bytewax.operators.windowing as our_win
from mullion.bytewax.dataflow import Dataflow as OurDataflow
from mullion.bytewax.testing import TestingSink as OurSink
from mullion.bytewax.testing import TestingSource as OurSource
from tests.support.bytewax.bytewax_random import Streams, by_key
from tests.support.bytewax.bytewax_times import seconds, windower_of

START = datetime(2024, 2, 29, 23, 59, tzinfo=UTC)
WEIGHT = 3


@dataclass
class Event:
    """An item with attributes."""

    key: str
    at: datetime
    n: Any
    s: str


@dataclass(frozen=True)
class Folding:
    """A fold: its builder, folder and merger."""

    builder: Callable[[], Any]
    folder: Callable[[Any, Any], Any]
    merger: Callable[[Any, Any], Any]


def _counted(acc: Any, x: Any) -> Any:
    """A fold that changes a dict in place."""
    acc["n"] += 1
    acc["sum"] = acc["sum"] + x[2]
    return acc


def _of_two(one: Any, other: Any) -> Any:
    one["n"] += other["n"]
    one["sum"] = one["sum"] + other["sum"]
    return one


def _steps(acc: Any, x: Any) -> Any:
    count = acc[0] + 1
    biggest = acc[1]
    if biggest is None or x[2] > biggest:
        biggest = x[2]
    return (count, biggest, acc[2] + x[3])


OF_TUPLES = [
    Folding(lambda: 0, lambda acc, x: acc + x[2], lambda a, b: a + b),
    Folding(float, lambda acc, x: acc * 0.5 + x[2], lambda a, b: a - b),
    Folding(lambda: (0, 0.0), lambda acc, x: (acc[0] + 1, acc[1] + x[2] / 7), lambda a, b: (a[0] + b[0], a[1] - b[1])),
    Folding(lambda: [0, -100], lambda acc, x: [acc[0] + WEIGHT, max(acc[1], x[2])], lambda a, b: [a[0] + b[0], b[1]]),
    Folding(str, lambda acc, x: acc + x[3], lambda a, b: a + "+" + b),
    Folding(lambda: (0, None, ""), _steps, lambda a, b: (a[0] + b[0], a[1] if a[1] > b[1] else b[1], a[2] + b[2])),
    Folding(lambda: {"n": 0, "sum": 0}, _counted, _of_two),
    Folding(lambda: 1, lambda acc, x: acc * x[2] if x[2] else acc, lambda a, b: a * b),
    Folding(lambda: None, lambda acc, x: x[1], lambda a, b: a if a > b else b),
    Folding(lambda: 0, lambda acc, x: acc // x[2] if x[2] != 0 else acc + 7 % (acc + 1000), lambda a, b: a + b),
]

OF_DICTS = [
    Folding(lambda: 0, lambda acc, x: acc + x["n"], lambda a, b: a + b),
    Folding(lambda: 0, lambda acc, x: acc + (x.get("n", 1) if x.get("none") is None else 2), lambda a, b: a + b),
    Folding(
        lambda: {"s": "", "n": 0},
        lambda acc, x: {"s": acc["s"] + x["s"], "n": acc["n"] + len(x["s"])},
        lambda a, b: {"s": a["s"] + b["s"], "n": a["n"] - b["n"]},
    ),
]

OF_OBJECTS = [
    Folding(lambda: 0, lambda acc, e: acc + e.n, lambda a, b: a + b),
    Folding(lambda: ("", 0), lambda acc, e: (e.s, acc[1] + abs(e.n)), lambda a, b: (b[0], a[1] + b[1])),
]


@dataclass(frozen=True)
class Case:
    """The random part of a flow."""

    windower: tuple[Any, ...]
    shape: str
    kind: str
    function: int
    wait: float
    ordered: bool
    plain: bool
    batch_size: int
    items: tuple[Any, ...]


def _number(rng: random.Random, sort: str) -> Any:
    match sort:
        case "ints":
            return rng.randrange(-5, 6)
        case "floats":
            return rng.choice([rng.randrange(-5, 6), rng.random() * 10, -0.0, 1e300])
        case "large":
            return rng.choice([1, 2**40, 2**62, -(2**63), 2**70])
        case _:
            return rng.choice([1, True, False, 2.5])


def _item(shape: str, key: str, seconds_: float, n: Any, s: str) -> Any:
    at = START + seconds(seconds_)
    if shape == "dict":
        return {"key": key, "at": at, "n": n, "s": s, "tags": [s, s]}
    return Event(key, at, n, s) if shape == "object" else (key, at, n, s)


def random_case(rng: random.Random, keys: int) -> Case:
    """A flow with ``keys`` cases."""
    length, align = rng.choice([1, 3, 5, 10, 7.5]), rng.choice([0, -3, 2.25, 1000])
    windower: tuple[Any, ...] = rng.choice(
        [
            ("tumbling", length, align),
            ("sliding", length, length / rng.choice([1, 2, 3, 2.5]), align),
            ("session", rng.choice([0, 1, 2, 5])),
        ]
    )
    shape, sort = (
        rng.choice(["tuple", "tuple", "dict", "object"]),
        rng.choice(["ints", "ints", "floats", "mixed", "large"]),
    )
    of_keys: list[list[Any]] = []
    for key in range(keys):
        clock, step = rng.choice([0.0, -50.0]), rng.choice([0.5, 1, 3])
        items = []
        for _ in range(rng.randrange(1, 16)):
            clock += rng.choice([0, 0, step, step, step * 2, -step, -step * 3, 12])
            # Most keys have only values that the JVM supports.
            n = _number(rng, sort if key % 3 == 0 else "ints")
            items.append(_item(shape, f"k{key}", clock, n, rng.choice(["", "a", "bc", "é", "\U0001f600", '"\\'])))
        of_keys.append(items)
    turns = [number for number, items in enumerate(of_keys) for _ in items]
    rng.shuffle(turns)
    return Case(
        windower,
        shape,
        rng.choice(["fold", "fold", "fold", "reduce", "max", "min", "count", "collect"]),
        rng.randrange(1000),
        rng.choice([0, 0, 1, 4, 20]),
        rng.random() < 0.7,
        rng.random() < 0.5,
        rng.choice([1, 2, 5, 1000]),
        tuple(of_keys[number].pop(0) for number in turns),
    )


def windows_of(case: Case, op: Any, win: Any, up: Any) -> Any:
    """The case's operator on a keyed stream."""
    of_time: Any = {"tuple": lambda x: x[1], "dict": lambda x: x["at"], "object": lambda x: x.at}[case.shape]
    of_number: Any = {"tuple": lambda x: x[2], "dict": lambda x: x["n"], "object": lambda x: abs(x.n)}[case.shape]
    clock = win.EventClock(of_time, seconds(case.wait), now_getter=lambda: START)
    windower = windower_of(case.windower, win, START)
    match case.kind:
        case "fold":
            folds = {"tuple": OF_TUPLES, "dict": OF_DICTS, "object": OF_OBJECTS}[case.shape]
            fold = folds[case.function % len(folds)]
            return win.fold_window("w", up, clock, windower, fold.builder, fold.folder, fold.merger, case.ordered)
        case "reduce" if case.shape == "tuple":
            return win.reduce_window("w", up, clock, windower, lambda a, b: (a[0], b[1], a[2] * 2 - b[2], b[3] + a[3]))
        case "reduce":
            return win.reduce_window("w", up, clock, windower, lambda a, b: b if True else a)
        case "max":
            return win.max_window("w", up, clock, windower, of_number)
        case "min":
            return win.min_window("w", up, clock, windower, of_number)
        case "count":
            of_key: Any = {"tuple": lambda x: x[0], "dict": lambda x: x["key"], "object": lambda x: x.key}[case.shape]
            return win.count_window("w", op.key_rm("rm", up), clock, windower, of_key)
        case _:
            return win.collect_window("w", up, clock, windower, list, case.ordered)


def shown(value: Any) -> Any:
    """A value with its types, comparable across the two packages."""
    if type(value).__name__ == "WindowMetadata":
        return ("metadata", value.open_time, value.close_time, frozenset(value.merged_ids))
    if isinstance(value, (tuple, list)):
        return (type(value).__name__, *map(shown, value))
    if isinstance(value, dict):
        return ("dict", *((key, shown(item)) for key, item in value.items()))
    if isinstance(value, Event):
        return ("event", *map(shown, (value.key, value.at, value.n, value.s)))
    return (type(value).__name__, repr(value))


def flow_of(case: Case, released: bool) -> tuple[Any, dict[str, list[Any]]]:
    """Returns the flow of a case, and the lists for its output."""
    op, win = (their_op, their_win) if released else (our_op, our_win)
    dataflow, source, sink = (TheirDataflow, TheirSource, TheirSink) if released else (OurDataflow, OurSource, OurSink)
    out: dict[str, list[Any]] = {"down": [], "late": [], "meta": []}
    flow: Any = dataflow("traced")
    up = op.input("in", flow, source(list(case.items), case.batch_size))
    of_key: Any = {"tuple": lambda x: x[0], "dict": lambda x: x["key"], "object": lambda x: x.key}[case.shape]
    windows = windows_of(case, op, win, op.key_on("key", up, of_key))
    for name, items in out.items():
        stream = getattr(windows, name)
        if not case.plain:
            stream = op.map(f"again_{name}", stream, lambda item: item)
        op.output(f"out_{name}", stream, sink(items))
    return flow, out


def streams(out: dict[str, list[Any]]) -> Streams:
    """The output by stream and key."""
    return by_key([(name, (key, shown(value))) for name, items in out.items() for key, value in items])


def run_released(case: Case) -> Streams:
    """Runs a case in the released package. Returns its output or its error."""
    flow, out = flow_of(case, released=True)
    their_run(flow)
    return streams(out)
