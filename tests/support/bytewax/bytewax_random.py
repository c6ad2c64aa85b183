"""Random windows, run by the released package in this process and by Mullion. A case is a flow of many keys."""

from __future__ import annotations

import math
import operator
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
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
from tests.support.bytewax.bytewax_times import seconds, windower_of

START = datetime(2024, 2, 29, 23, 59, tzinfo=UTC)

Item = tuple[str, float, Any]
"""The key, the seconds after START, and a number; of a join the side is the number's remainder."""


def still() -> datetime:
    """A system time that never advances."""
    return START


def time_of(item: Item) -> datetime:
    return START + timedelta(seconds=item[1])


@dataclass(frozen=True)
class Case:
    """The random part of a flow: its window, its operator, and the batches of its items."""

    windower: tuple[Any, ...]
    kind: str
    wait: float
    ordered: bool
    insert: str
    emit: str
    batch_size: int
    items: tuple[Item, ...]


def random_case(rng: random.Random, keys: int) -> Case:
    """A flow with ``keys`` cases."""
    length = rng.choice([1, 3, 5, 10, 7.5])
    align = rng.choice([0, -3, 2.25, 1000])
    windower: tuple[Any, ...] = rng.choice(
        [
            ("tumbling", length, align),
            ("sliding", length, length / rng.choice([1, 2, 3, 2.5]), align),
            ("session", rng.choice([0, 1, 2, 5])),
        ]
    )
    items: list[Item] = []
    for key in range(keys):
        clock = rng.choice([0.0, -50.0])
        step = rng.choice([0.5, 1, 3])
        for _ in range(rng.randrange(1, 16)):
            clock += rng.choice([0, 0, step, step, step * 2, -step, -step * 3, 12])
            items.append((f"k{key}", clock, rng.randrange(-5, 6)))
    # Keys alternate; the items of each keep their order.
    places = sorted((rng.random(), index) for index in range(len(items)))
    of_keys: dict[str, list[Item]] = {}
    for item in items:
        of_keys.setdefault(item[0], []).append(item)
    shuffled = [of_keys[items[index][0]].pop(0) for _, index in places]
    return Case(
        windower,
        rng.choice(["collect", "set", "dict", "fold", "reduce", "count", "max", "min", "join", "join", "window"]),
        rng.choice([0, 0, 1, 4, 20, math.inf]),
        rng.random() < 0.7,
        rng.choice(["first", "last", "product"]),
        rng.choice(["complete", "final", "running"]),
        rng.choice([1, 1, 2, 5, 1000]),
        tuple(shuffled),
    )


def _own_logic(base: Any) -> Callable[[Any], Any]:
    """Contents that record every call."""

    class Told(base):  # type: ignore[misc]
        def __init__(self, state: Any) -> None:
            self.values = list(state or [])

        def on_value(self, value: Any) -> Any:
            self.values.append(value[2])
            return [("value", value[2])] if value[2] % 2 else []

        def on_merge(self, original: Any) -> Any:
            self.values += original.values
            return iter([("merged", sorted(original.values))])

        def on_close(self) -> Any:
            return [("closed", list(self.values))]

        def snapshot(self) -> Any:
            return list(self.values)

    return Told


def _number(item: Any) -> Any:
    return item[2]


def _size(item: Any) -> int:
    return abs(int(item[2]))


def _folded(state: Any, item: Any) -> Any:
    return [*state, item[2]]


def _bigger(one: Any, other: Any) -> Any:
    return (one[0], max(one[1], other[1]), one[2] * 2 + other[2])


def windows_of(case: Case, op: Any, win: Any, up: Any) -> Any:
    """The case's operator on a keyed stream."""
    wait = seconds(case.wait)
    clock = win.EventClock(time_of, wait, now_getter=still)
    windower = windower_of(case.windower, win, START)
    match case.kind:
        case "collect":
            return win.collect_window("w", up, clock, windower, ordered=case.ordered)
        case "set":
            numbers = win.EventClock(lambda item: time_of(item), wait, now_getter=still)
            return win.collect_window("w", up, numbers, windower, set, case.ordered)
        case "dict":
            pairs = win.EventClock(lambda pair: time_of(pair[1]), wait, now_getter=still)
            keyed = op.map_value("pair", up, lambda item: (item[2], item))
            return win.collect_window("w", keyed, pairs, windower, dict, case.ordered)
        case "fold":
            return win.fold_window("w", up, clock, windower, list, _folded, operator.add, case.ordered)
        case "reduce":
            return win.reduce_window("w", up, clock, windower, _bigger)
        case "count":
            return win.count_window("w", op.key_rm("rm", up), clock, windower, lambda item: item[0])
        case "max":
            return win.max_window("w", up, clock, windower, _size)
        case "min":
            return win.min_window("w", up, clock, windower, _number)
        case "join":
            sides = op.branch("b", up, lambda pair: pair[1][2] % 2 == 0)
            return win.join_window(
                "w",
                clock,
                windower,
                sides.trues,
                sides.falses,
                insert_mode=case.insert,
                emit_mode=case.emit,
                ordered=case.ordered,
            )
        case _:
            return win.window("w", up, clock, windower, _own_logic(win.WindowLogic), case.ordered)


Streams = dict[str, dict[str, list[Any]]]
"""The output by stream and key."""


def plain(value: Any) -> Any:
    """A value in a form that is comparable across the two packages."""
    if type(value).__name__ == "WindowMetadata":
        return ("metadata", value.open_time, value.close_time, frozenset(value.merged_ids))
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    return value


def by_key(out: list[tuple[str, Any]]) -> Streams:
    streams: Streams = {"down": {}, "late": {}, "meta": {}}
    for stream, (key, value) in out:
        streams[stream].setdefault(key, []).append(plain(value))
    return streams


def flow_of(case: Case, released: bool) -> tuple[Any, list[tuple[str, Any]]]:
    """Returns the flow of a case, and the list for its output."""
    op, win = (their_op, their_win) if released else (our_op, our_win)
    dataflow, source, sink = (TheirDataflow, TheirSource, TheirSink) if released else (OurDataflow, OurSource, OurSink)
    out: list[tuple[str, Any]] = []
    flow: Any = dataflow("random")
    up = op.input("in", flow, source(list(case.items), case.batch_size))
    up = op.key_on("key", up, lambda item: item[0])
    windows = windows_of(case, op, win, up)
    for name in ("down", "late", "meta"):
        named = op.map(f"told_{name}", getattr(windows, name), lambda item, name=name: (name, item))
        op.output(f"out_{name}", named, sink(out))
    return flow, out


def run_released(case: Case) -> Streams:
    """Runs a case in the released package."""
    flow, out = flow_of(case, released=True)
    their_run(flow)
    return by_key(out)


def ours_without_spark(case: Case, together: int = 1) -> Streams:
    """Runs a case in Mullion's windows by key, without Spark. A micro-batch has ``together`` batches of the source."""
    from mullion.bytewax._dataflow_plan import Origin, Pipeline, Plan
    from mullion.bytewax._key_windows.keyed import Group, WindowsOfKey

    flow, _ = flow_of(case, released=False)
    plan = Plan.of(flow)
    out: list[tuple[str, Any]] = []
    keys: dict[str, WindowsOfKey] = {}
    (stage,) = plan.stages()
    planned = plan.steps[stage]

    def give(step: int, items: Any, origin: Origin) -> None:
        if step != stage:
            out.extend(items)
            return
        for key, value in items:
            groups = of_keys.setdefault(key, [])
            # Both sides of a join are in one batch.
            if not groups or groups[-1][0] != origin.place:
                groups.append((origin.place, 0, []))
            groups[-1][2].append(value)

    pipeline = Pipeline(plan, give)

    def emit(key: str, events: list[Any]) -> None:
        for port, value in events:
            pipeline.push(planned.downs[port], [(key, value)], Origin(0, key, 0))

    starts = range(0, len(case.items), case.batch_size)
    for first in range(0, len(starts), together):
        of_keys: dict[str, list[Group]] = {}
        for start in starts[first : first + together]:
            batch = list(case.items[start : start + case.batch_size])
            pipeline.push(plan.steps[0].downs[0], batch, Origin(start, "", 0))
        for key, groups in of_keys.items():
            windows = keys.setdefault(key, planned.does.of_key(None, 0))
            for _, now_us, values in groups:
                emit(key, windows.on_batch(values, now_us))
                if windows.is_empty():
                    windows = planned.does.of_key(None, 0)
            # Between micro-batches, the key is a snapshot.
            keys[key] = planned.does.of_key(None if windows.is_empty() else windows.snapshot(), 0)
    for key, windows in keys.items():
        emit(key, windows.on_eof())
    return by_key(out)


def difference(case: Case, expected: Streams, actual: Streams) -> str:
    """The first key that differs, as text; empty if there is none."""
    key, text = first_difference(expected, actual)
    if not text:
        return ""
    items = [item[1:] for item in case.items if item[0] == key]
    shown = f"{case.windower} {case.kind} wait={case.wait} ordered={case.ordered} {case.insert} {case.emit}"
    return f"{shown} batches of {case.batch_size}, of {items}: {text}"


def first_difference(expected: Streams, actual: Streams) -> tuple[str, str]:
    """The first key that differs, and how; empty if there is none."""
    for stream in expected:
        for key in sorted(expected[stream].keys() | actual[stream].keys()):
            one, other = expected[stream].get(key), actual[stream].get(key)
            if one != other:
                return key, f"{stream}: {other}, and Bytewax has {one}"
    return "", ""
