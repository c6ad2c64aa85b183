"""One table: cases in which an adapter was once wrong, on both of its engines, the JVM and Python's workers."""

from __future__ import annotations

import json
import sys
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Optional

import numpy as np
import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

import mullion.bytewax.operators as op
import mullion.bytewax.operators.windowing as win
import mullion.faust as faust
from mullion import topics
from mullion._util.clock import ManualClock
from mullion.bytewax import explain
from mullion.bytewax.dataflow import Dataflow
from mullion.bytewax.testing import TestingSink, TestingSource, run_main

# Workers do not have the folder of the tests on their path.
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]


class Reading(faust.Record):
    id: str
    ts: float


class Post(faust.Record):
    id: str
    note: Optional[str]  # noqa: UP045
    text: str


@dataclass(frozen=True)
class Case:
    """A part of a Faust program, its messages with their times, and the right content of its tables and topics.

    ``jvm`` are the agents that the JVM runs if it may.
    """

    define: Callable[[faust.App], None]
    messages: Mapping[str, Sequence[tuple[Any, float]]]
    tables: Mapping[str, Any] = field(default_factory=dict)
    topics: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    jvm: tuple[str, ...] = ()


def group_by_topic(app: faust.App) -> None:
    regrouped, counts = app.topic("regrouped"), app.Table("grouped", default=int).tumbling(1000)

    @app.agent(app.topic("group"), name="group")
    async def group(stream: Any) -> None:
        async for _ in stream.group_by("k", topic=regrouped):
            pass

    @app.agent(regrouped, name="grouped")
    async def count(stream: Any) -> None:
        async for event in stream:
            counts[event["k"]] += 1


def timestamp_of_send(app: faust.App) -> None:
    out = app.topic("timed")

    @app.agent(app.topic("send"), name="send")
    async def send(stream: Any) -> None:
        async for event in stream:
            await out.send(value=event["k"], timestamp=5.25)


def current_and_delta(app: faust.App) -> None:
    views = app.Table("views", default=int).tumbling(10, expires=1000).relative_to_field(Reading.ts)

    @app.agent(app.topic("readings", value_type=Reading), name="views", sink=[app.topic("seen")])
    async def view(stream: Any) -> Any:
        async for event in stream:
            views[event.id] += 1
            yield {"value": views[event.id].value(), "current": views[event.id].current()}


def iteration(app: faust.App) -> None:
    totals = app.Table("totals", default=int)

    @app.agent(app.topic("amounts"), name="totals", sink=[app.topic("sums")])
    async def total(stream: Any) -> Any:
        async for event in stream.group_by("k"):
            totals[event["k"]] += event["n"]
            yield sum(totals.values())


def processors(app: faust.App) -> None:
    lengths = app.Table("lengths", default=int)

    @app.agent(app.topic("words"), name="words")
    async def measure(stream: Any) -> None:
        stream.add_processor(len)
        async for length in stream:
            lengths[length] += 1


def noack_take(app: faust.App) -> None:
    pairs = app.Table("pairs", default=int)

    @app.agent(app.topic("taken"), name="taken")
    async def take(stream: Any) -> None:
        async for events in stream.noack().noack_take(2, within=1):
            for event in events:
                pairs[event.value] += len(events)


def null_message(app: faust.App) -> None:
    orders = app.Table("orders", default=int).tumbling(10, expires=1000)

    @app.agent(app.topic("posts", value_type=Post), name="posts")
    async def count(stream: Any) -> None:
        async for post in stream:
            orders[post.id] += 1


def table_values(app: faust.App) -> None:
    values = app.Table("values")

    @app.agent(app.topic("kept"), name="kept")
    async def keep(stream: Any) -> None:
        async for event in stream:
            values["counter"] = Counter(event)
            values["deque"] = deque([event])
            values["float"] = np.float64(1.5)
            values["range"] = faust.TumblingWindow(10).current(5.0)


def at(values: Sequence[Any], time: float = 1.0) -> list[tuple[Any, float]]:
    return [(value, time) for value in values]


CASES: dict[str, Case] = {
    "group_by(topic=) sends to the topic": Case(
        group_by_topic,
        {"group": at([{"k": "a"}, {"k": "b"}, {"k": "a"}])},
        {"grouped": {("a", 0.0): 2, ("b", 0.0): 1}},
        {"regrouped": ["a", "a", "b"]},
        jvm=("grouped",),
    ),
    "send(timestamp=) is the message's time": Case(
        timestamp_of_send, {"send": at([{"k": "a"}])}, topics={"timed": [("a", 5.25)]}
    ),
    "current() is of the event's time, value() of the field's": Case(
        current_and_delta,
        {"readings": at([{"id": "k", "ts": ts} for ts in (5.0, 6.0, 105.0, 7.0)], 100.0)},
        {"views": {("k", 0.0): 3, ("k", 100.0): 1}},
        {"seen": [(1, 0), (1, 1), (2, 0), (3, 1)]},
    ),
    "iteration behind group_by sees all keys": Case(
        iteration,
        {"amounts": at([{"k": f"k{n % 3}", "n": n} for n in range(9)])},
        {"totals": {"k0": 9, "k1": 12, "k2": 15}},
        {"sums": [0, 1, 3, 6, 10, 15, 21, 28, 36]},
    ),
    "processors change the values": Case(processors, {"words": at(["a", "bb", "cc"])}, {"lengths": {1: 1, 2: 2}}),
    "noack_take gives events": Case(noack_take, {"taken": at(["x", "y"])}, {"pairs": {"x": 2, "y": 2}}),
    "null is a dead letter, and an optional field may come first": Case(
        null_message,
        {"posts": at([{"id": "a", "text": "t"}, None, {"id": "b", "note": "n", "text": "t"}])},
        {"orders": {("a", 0.0): 1, ("b", 0.0): 1}},
        {"shop-dead-letters": ["posts"]},
        jvm=("posts",),
    ),
    "tables keep values of the standard library and NumPy": Case(
        table_values,
        {"kept": at(["aab"])},
        {"values": {"counter": {"a": 2, "b": 1}, "deque": ["aab"], "float": 1.5, "range": [0.0, 10.0]}},
    ),
}

SHOWN: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "regrouped": lambda row: row["k"],
    "timed": lambda row: (row["value"], row["_timestamp"]),
    "seen": lambda row: (row["value"], row["current"]),
    "sums": lambda row: row["value"],
    "shop-dead-letters": lambda row: row["agent"],
}


def app_of_cases(folder: Path, compiled: bool, **options: Any) -> faust.App:
    app = faust.App("shop", broker=f"dir:{folder}/topics", compiled=compiled, clock=ManualClock(200_000), **options)
    for case in CASES.values():
        case.define(app)
    return app


def table_of(app: faust.App, name: str) -> dict[Any, Any]:
    rows = app.table(name).read().collect()
    is_windowed = app.tables[name].window is not None
    keys = [(json.loads(row.key), row.window.start.timestamp()) if is_windowed else json.loads(row.key) for row in rows]
    return dict(zip(keys, (json.loads(row.value) for row in rows), strict=True))


@pytest.mark.parametrize("compiled", [True, False], ids=["JVM", "Python"])
def test_each_agent_runs_on_its_engine(tmp_path: Path, compiled: bool) -> None:
    in_jvm = {f"agent {name}" for case in CASES.values() for name in case.jvm} if compiled else set()
    assert {part.name for part in app_of_cases(tmp_path, compiled).explain().parts if part.runs == "JVM"} == in_jvm


@pytest.mark.always
@pytest.mark.parametrize("compiled", [True, False], ids=["JVM", "Python"])
def test_faust_programs_are_right_on_both_engines(tmp_path: Path, spark: SparkSession, compiled: bool) -> None:
    app = app_of_cases(tmp_path, compiled, spark=spark)
    for case in CASES.values():
        for topic, messages in case.messages.items():
            values, times = zip(*messages, strict=True)
            app.broker.produce_json(topic, list(values), list(times), [None] * len(values))
    app.run(until="drained")
    results: dict[str, dict[str, Any]] = {}
    expected: dict[str, dict[str, Any]] = {}
    for name, case in CASES.items():
        results[name] = {table: table_of(app, table) for table in case.tables}
        expected[name] = dict(case.tables)
        for topic, rows in case.topics.items():
            results[name][topic] = sorted(map(SHOWN[topic], topics.read(app.broker, topic).to_pylist()))
            expected[name][topic] = list(rows)
    assert results == expected


START = datetime(2024, 1, 1, tzinfo=UTC)


def time_of(item: tuple[datetime, int]) -> datetime:
    return item[0]


def add(total: int, item: tuple[datetime, int]) -> int:
    return total + item[1]


def add_in_python(total: int, item: tuple[datetime, int]) -> int:
    return sum([total, *item[1:]])


def merge(one: int, other: int) -> int:
    return one + other


def flow_of(is_in_jvm: bool) -> tuple[Dataflow, list[Any]]:
    """Counts of a window over items in no order, as in Bytewax's guide."""

    flow, out = Dataflow("late"), list[Any]()
    items = [("k", (START + timedelta(seconds=second), 1)) for second in (50, 0, 10, 70, 5)]
    stream = op.input("in", flow, TestingSource(items, batch_size=2))
    clock: win.EventClock[Any] = win.EventClock(time_of, timedelta.max)
    windower = win.TumblingWindower(align_to=START, length=timedelta(minutes=1))
    result = win.fold_window("sum", stream, clock, windower, int, add if is_in_jvm else add_in_python, merge)
    op.output("out", result.down, TestingSink(out))
    return flow, out


@pytest.mark.parametrize("is_in_jvm", [True, False], ids=["JVM", "Python"])
def test_bytewax_items_that_wait_for_ever_are_right_on_both_engines(spark: SparkSession, is_in_jvm: bool) -> None:
    flow, out = flow_of(is_in_jvm)
    assert ("JVM" in [part.runs for part in explain(flow).parts]) == is_in_jvm
    run_main(flow, spark=spark)
    assert sorted(out) == [("k", (0, 4)), ("k", (1, 1))]
