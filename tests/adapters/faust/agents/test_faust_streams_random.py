"""Random programs of agents, topics of ``group_by``, timers and global variables, against a model in plain Python.

::

    in ── group_by(field[, topic=]) ── agent a: a table, and an item for ── middle ── agent b: windowed counts
                                       timer: reads a's table, every 10 seconds ── ticks

Each program runs with several batches, restarts and calls of its timers. ``MULLION_SEED`` repeats a failed run, and
``MULLION_TEST_ROUNDS`` sets the number of programs.
"""

from __future__ import annotations

import os
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

import mullion.faust as faust
from mullion import topics
from mullion._util.clock import ManualClock
from tests.support.cache_sizes import draw_size
from tests.support.faust.spark_app import app_in, put, table_of
from tests.support.seeds import SEED

# Workers do not have the folder of the tests on their path.
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]

ROUNDS = int(os.environ.get("MULLION_TEST_ROUNDS", "2"))

FACTORS: dict[str, int] = {"u": 2, "v": 3}
"""A global variable that agents and timers read."""

Event = tuple[dict[str, Any], float]


class Shape:
    """The random parts of a program."""

    def __init__(self, rng: random.Random) -> None:
        self.group = rng.choice(("k", "g"))
        self.has_topic = rng.random() < 0.6
        self.updates = rng.choice(("add", "count", "last"))
        self.reads_global = rng.random() < 0.5
        self.sends = rng.choice(("yield", "send", "every second"))
        self.size = rng.choice((10, 30))
        self.compiled = rng.random() < 0.7
        self.timer = rng.choice(("items", "none", "leader"))

    def __repr__(self) -> str:
        return repr(vars(self))

    def define(self, app: faust.App) -> None:
        grouped = app.topic("grouped") if self.has_topic else None
        middle, ticks = app.topic("middle"), app.topic("ticks")
        totals = app.Table("totals", default=int)
        views = app.Table("views", default=int).tumbling(self.size, expires=1000)
        shape = self

        @app.agent(app.topic("in"), name="a", sink=[middle] if self.sends == "yield" else [])
        async def total(stream: Any) -> Any:
            async for event in stream.group_by(shape.group, topic=grouped):
                key = event[shape.group]
                totals[key] = shape.updated(totals[key], event)
                if shape.sends == "yield":
                    yield {"k": key, "n": event["n"]}
                elif shape.sends == "send" or event["n"] % 2:
                    await middle.send(key=key, value={"k": key, "n": event["n"]})

        @app.agent(middle, name="b")
        async def count(stream: Any) -> None:
            async for event in stream:
                views[event["k"]] += event["n"]

        if self.timer == "items":

            @app.timer(10)
            async def tell() -> None:
                for key, value in totals.items():
                    await ticks.send(key=key, value={"k": key, "value": value * FACTORS["u"]})

        elif self.timer == "leader":

            @app.timer(10, on_leader=True)
            async def tick() -> None:
                await ticks.send(value={"k": "tick", "value": FACTORS["v"]})

    def updated(self, total: int, event: dict[str, Any]) -> int:
        """The new value of a key of the table."""
        if self.updates == "last":
            return int(event["n"])
        amount = event["n"] if self.updates == "add" else 1
        return int(total + amount * (FACTORS[event["f"]] if self.reads_global else 1))


class Model:
    """The tables and the ticks of a program after all of its events so far."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.totals: dict[str, int] = {}
        self.sent: Counter[str] = Counter()
        self.ticks: Counter[tuple[str, int]] = Counter()

    def process(self, events: list[Event]) -> None:
        for event, _ in events:
            key = event[self.shape.group]
            self.totals[key] = self.shape.updated(self.totals.get(key, 0), event)
            if self.shape.sends != "every second" or event["n"] % 2:
                self.sent[key] += event["n"]

    def tick(self) -> None:
        if self.shape.timer == "items":
            self.ticks.update((key, value * FACTORS["u"]) for key, value in self.totals.items())
        elif self.shape.timer == "leader":
            self.ticks["tick", FACTORS["v"]] += 1


def random_events(rng: random.Random) -> list[Event]:
    """The events of one batch, with their times."""
    events = []
    for _ in range(rng.randrange(1, 40)):
        event = {"k": f"k{rng.randrange(12)}", "g": rng.choice("xyz"), "f": rng.choice("uv"), "n": rng.randrange(1, 9)}
        events.append((event, float(rng.randrange(100))))
    return events


@pytest.mark.parametrize("number", range(ROUNDS))
def test_random_programs_have_the_tables_and_messages_of_a_model(
    spark: SparkSession, tmp_path: Path, number: int
) -> None:
    rng = random.Random(f"{SEED} faust streams {number}")
    shape = Shape(rng)
    context = f"MULLION_SEED={SEED}, round {number}, {draw_size(spark, rng)}, {shape}"
    print(context)
    clock, model = ManualClock(start_ms=0), Model(shape)
    messages: list[Event] = []
    for _ in range(2):
        app = app_in(tmp_path, clock=clock, compiled=shape.compiled, spark=spark)
        shape.define(app)
        with app.start() as running:
            running.settle()
            for _ in range(rng.randrange(1, 4)):
                events = random_events(rng)
                put(app, "in", *events)
                running.settle()
                model.process(events)
                messages += events
                if rng.random() < 0.6:
                    running.advance("10 seconds")
                    running.settle()
                    model.tick()
        assert table_of(app, "totals") == model.totals, context
        views: Counter[str] = Counter()
        for (key, _), value in table_of(app, "views").items():
            views[key] += value
        assert views == model.sent, context
        ticks = topics.read(app.broker, "ticks").to_pylist() if model.ticks else []
        assert Counter((row["k"], row["value"]) for row in ticks) == model.ticks, context
        if shape.has_topic:
            sent = topics.read(app.broker, "grouped").to_pylist()
            expected = Counter((event[shape.group], event["n"]) for event, _ in messages)
            assert Counter((row["_key"], row["n"]) for row in sent) == expected, context
