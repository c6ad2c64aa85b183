"""Agents that run in the JVM: which do, and that they give the answers that they give in Python."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle

import faust_bodies as bodies
import faust_programs as programs
import mullion.faust as faust
from mullion import topics
from mullion._app.clock import ManualClock
from mullion._stateful import read_state
from mullion.faust import _values

pytestmark = pytest.mark.usefixtures("spark")
# Workers do not have the folder of the tests on their path.
for module in (sys.modules[__name__], programs, bodies):
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]

Batch = Sequence[tuple[Any, float]]


class Both:
    """A program on both paths, each with topics of its own."""

    def __init__(self, folder: Path, make: Callable[[faust.App], None], clock_ms: int = 12_000) -> None:
        self.make = make
        self.folders = {True: folder / "jvm", False: folder / "python"}
        self.clock_ms = clock_ms
        self.app = self.made(True)

    def made(self, compiled: bool, of: bool | None = None) -> faust.App:
        """The program on a path, with the topics of that path or of the other."""
        folder = self.folders[compiled if of is None else of]
        clock = ManualClock(self.clock_ms)
        app = faust.App("both", broker=f"dir:{folder}", compiled=compiled, clock=clock)
        self.make(app)
        return app

    def run(self, batches: dict[str, Sequence[Batch]], jvm: set[str]) -> dict[bool, faust.App]:
        """Runs all there is on both, agents of these names in the JVM."""
        apps = {compiled: self.made(compiled) for compiled in self.folders}
        for app in apps.values():
            for topic, all_ in batches.items():
                for batch in all_:
                    produce(app, topic, batch)
        assert {part.name.removeprefix("agent ") for part in apps[True].explain().parts if part.runs == "JVM"} == jvm
        assert {part.runs for part in apps[False].explain().parts} == {"Python"}
        for app in apps.values():
            app.run(until="drained")
        return apps

    def agree(self, apps: dict[bool, faust.App], *sinks: str) -> dict[Any, Any]:
        """All that is kept and all that was sent is the same; what is kept."""
        kept = {compiled: state_of(app) for compiled, app in apps.items()}
        assert kept[True] == kept[False]
        for sink in (*sinks, apps[True].dead_letters):
            sent = [topics.read(app.broker, sink) for app in apps.values()]
            lines = [sorted(map(str, one.drop_columns(["_timestamp"]).to_pylist())) for one in sent]
            assert lines[0] == lines[1], sink
        return kept[True]


def produce(app: faust.App, topic: str, batch: Batch) -> None:
    rows, times = [value for value, _ in batch], [at for _, at in batch]
    keys = [value["k"] if isinstance(value, dict) and isinstance(value.get("k"), str) else None for value in rows]
    topics.produce(app.broker, topic, rows, timestamps=times, keys=keys)


def state_of(app: faust.App) -> dict[Any, Any]:
    """Every record of the state, by shard and key: numbers of one value may be written in two ways."""

    def value(held: bytes) -> Any:
        try:
            return _values.decode(held)
        except ValueError:
            return held

    rows = read_state(app.folder_of("agents").absolute() / "query").collect()
    return {(row.shard, bytes(row.key)): repr(value(bytes(row.value))) for row in rows}


def kept(app: faust.App, table: str) -> Any:
    rows = app.table(table).read().collect()
    return {(json.loads(row.key), row.window.start.timestamp()): json.loads(row.value) for row in rows}


# -- the programs of the documents


def test_the_folds_of_the_documents_run_in_the_jvm_with_the_same_answers(tmp_path: Path) -> None:
    def make(app: faust.App) -> None:
        for one in (programs.tumbling_counts, programs.multi_window, programs.by_country, programs.page_views):
            one(app)

    chance = random.Random(7)
    pages = [[(chance.choice(["/", "/a", "/b"]), 10.0 * n + chance.random()) for n in range(40)] for _ in range(2)]
    events = [[({"category": f"c{n % 7}"}, 40.0 * n) for n in range(60)], [({"category": "late"}, 1.0)]]
    spent = [({"user": "u", "country": f"C{n % 5}", "amount": n / 3, "account": "a"}, 3.0 * n) for n in range(50)]
    kinds = [[({"type": f"t{n % 4}"}, 100.0 * n) for n in range(50)]]
    both = Both(tmp_path, make)
    found = both.run(
        {"events": events, "both-multi_window_analysis": kinds, "withdrawals": [spent], "page_views": pages},
        {"count_events", "multi_window_analysis", "process_withdrawal", "aggregate_page_views"},
    )
    both.agree(found)
    assert kept(found[True], "event-counts")[("c0", 2100.0)] == 1


# -- any programs


def test_random_bodies_give_the_same_answers_on_both_paths(tmp_path: Path) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    chance = random.Random(seed)
    plan = []
    for number in range(8):
        record, reads = chance.random() < 0.5, chance.random() < 0.5
        tables = [f"t{number}{letter}" for letter in "xy"[: chance.randint(1, 2)]]
        lines = bodies.Bodies(chance, record, reads).body(["x", "y"][: len(tables)])
        # Both kinds of number, and every kind of range.
        windows = [
            (
                chance.choice([int, float]),
                chance.choice([10, 7.5, 30]),
                chance.choice([10, 5, 4, 25]),
                chance.choice([0, 15, 40]),
            )
            for _ in tables
        ]
        plan.append((record, tables, windows, lines))
        print(number, "record" if record else "dict", tables, windows, *lines, sep="\n    ")

    def make(app: faust.App) -> None:
        for number, (record, tables, windows, lines) in enumerate(plan):
            named = {
                name: app.Table(table, default=default).hopping(size, step, expires=expires, key_index=number % 2 == 0)
                for name, table, (default, size, step, expires) in zip("xy", tables, windows, strict=False)
            }
            tells = any("yield" in line for line in lines)
            topic = app.topic("orders", value_type=bodies.Order) if record else app.topic("dicts", value_type=dict)
            bodies.agent(
                app,
                f"agent{number}",
                topic,
                lines,
                [app.topic(f"out{number}")],
                "stop" if tells else "dead_letter",
                LIMIT=3,
                PAUSE=timedelta(seconds=20),
                **named,
            )

    def batch() -> list[tuple[Any, float]]:
        base = chance.randrange(0, 150)
        return [
            (
                {
                    "k": chance.choice(["b", "c", "é\n", '"a'] + [f"k{n}" for n in range(150)]),
                    "n": chance.randrange(-5, 50),
                    "share": chance.choice([0.5, -1.25, 3.0, 0.1]),
                    "on": chance.random() < 0.5,
                    "note": chance.choice([None, "x"]),
                },
                base + chance.randrange(-60_000_000, 60_000_000) / 1e6,
            )
            for _ in range(120)
        ]

    given = [batch() for _ in range(4)]
    both = Both(tmp_path, make)
    found = both.run({"orders": given, "dicts": given}, {f"agent{number}" for number in range(8)})
    both.agree(found, *(f"out{number}" for number in range(8)))
