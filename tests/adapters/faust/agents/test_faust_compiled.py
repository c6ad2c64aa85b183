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

import mullion.faust as faust
from mullion import DamagedStateError, topics
from mullion._keyed.api import read_state
from mullion._util.clock import ManualClock
from mullion._util.codec import values as codec
from tests.support.faust import faust_bodies as bodies
from tests.support.faust.faust_against_python import folded
from tests.support.faust.programs import faust_programs as programs
from tests.support.seeds import SEED

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
        self.app = self.new_app(True)

    def new_app(self, compiled: bool, of: bool | None = None) -> faust.App:
        """The program on a path, with the topics of that path or of the other."""
        folder = self.folders[compiled if of is None else of]
        clock = ManualClock(self.clock_ms)
        app = faust.App("both", broker=f"dir:{folder}", compiled=compiled, clock=clock)
        self.make(app)
        return app

    def run(self, batches: dict[str, Sequence[Batch]], jvm: set[str]) -> dict[bool, faust.App]:
        """Runs all there is on both, agents of these names in the JVM."""
        apps = {compiled: self.new_app(compiled) for compiled in self.folders}
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
        """Compares the state and the sent messages. Returns the state."""
        states = {compiled: state_of(app) for compiled, app in apps.items()}
        assert states[True] == states[False]
        for sink in (*sinks, apps[True].dead_letters):
            sent = [topics.read(app.broker, sink) for app in apps.values()]
            lines = [sorted(map(str, one.drop_columns(["_timestamp"]).to_pylist())) for one in sent]
            assert lines[0] == lines[1], sink
        return states[True]


def produce(app: faust.App, topic: str, batch: Batch) -> None:
    rows, times = [value for value, _ in batch], [at for _, at in batch]
    keys = [value["k"] if isinstance(value, dict) and isinstance(value.get("k"), str) else None for value in rows]
    topics.produce(app.broker, topic, rows, timestamps=times, keys=keys)


def state_of(app: faust.App) -> dict[Any, Any]:
    """Every record of the state, by shard and key: numbers of one value may be written in two ways."""

    def value(data: bytes) -> Any:
        try:
            return codec.decode(data)
        except DamagedStateError:
            return data

    rows = read_state(app.folder_of("agents").absolute() / "query").collect()
    return {(row.shard, bytes(row.key)): repr(value(bytes(row.value))) for row in rows}


def table_items(app: faust.App, table: str) -> Any:
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
    apps = both.run(
        {
            "events": events,
            "both-multi_window_analysis": kinds,
            "both-process_withdrawal": [spent],
            "page_views": pages,
        },
        {"count_events", "multi_window_analysis", "process_withdrawal", "aggregate_page_views"},
    )
    both.agree(apps)
    assert table_items(apps[True], "event-counts")[("c0", 2100.0)] == 1


# -- any programs


def test_random_bodies_give_the_same_answers_on_both_paths(tmp_path: Path) -> None:
    seed = SEED
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

    batches = [batch() for _ in range(4)]
    both = Both(tmp_path, make)
    apps = both.run({"orders": batches, "dicts": batches}, {f"agent{number}" for number in range(8)})
    both.agree(apps, *(f"out{number}" for number in range(8)))
    assert folded(apps[True]) > len(plan) * len(batches) * 120 // 4


# -- from the one path to the other


def test_a_program_continues_in_python_from_the_jvm_and_back(tmp_path: Path) -> None:
    def make(app: faust.App) -> None:
        totals = app.Table("totals", default=int).hopping(20, 10, expires=30, key_index=True)

        @app.agent(app.topic("in", value_type=dict), sink=[app.topic("large")])
        async def add(events: Any) -> Any:
            async for e in events:
                if e["n"] is not None:
                    totals[e["k"]] += e["n"]
                if 50 < totals[e["k"]].current() != 77:
                    since = faust.current_window().start
                    yield {"n": min(totals[e["k"]].current(), 1000), "since": since, "to": faust.current_window()[1]}

    chance = random.Random(11)
    batches = [
        [
            ({"k": f"k{chance.randrange(40)}", "n": chance.randrange(30)}, 20.0 * at + chance.random() * 20)
            for _ in range(60)
        ]
        for at in range(4)
    ]
    # What the JVM leaves to Python: an int that no longer fits, a null that is none, and a float.
    batches[2][5] = ({"k": "k1", "n": 2**63 - 1}, 59.0)
    batches[2][7] = ({"k": "k2", "n": None}, 41.0)
    both = Both(tmp_path, make)
    taken = []
    for at, compiled in enumerate([True, False, True, True]):
        app, other = both.new_app(compiled, of=True), both.new_app(False)
        for one in (app, other):
            produce(one, "in", batches[at])
            one.run(until="drained")
        taken.append(folded(app))
    both.agree({True: app, False: other}, "large")
    assert taken[0] == 60
    assert taken[1] == 0
    assert 0 < taken[2] + taken[3] < 120


def test_ints_that_do_not_fit_missing_items_and_other_kinds_are_left_to_python(tmp_path: Path) -> None:
    def make(app: faust.App) -> None:
        sums = app.Table("sums", default=int).tumbling(10, expires=0)
        ratios = app.Table("ratios", default=float).tumbling(10, expires=0)

        @app.agent(app.topic("in", value_type=dict), on_error="dead_letter")
        async def add(events: Any) -> None:
            async for e in events:
                sums[e["k"]] += e["n"]

        @app.agent(app.topic("in", value_type=dict), on_error="dead_letter")
        async def divide(events: Any) -> None:
            async for e in events:
                ratios[e["k"]] += 1 / e["n"]

    rows: list[Any] = [{"k": f"k{n}", "n": n} for n in range(30)]
    both = Both(tmp_path, make)
    batches = [
        [(row, 1.0) for row in rows[1:]],
        [({"k": "k1", "n": 2**63 - 1}, 1.0), ({"k": "k2", "n": 1}, 1.0)],
        # A division by zero, and an item that is not there.
        [(row, 2.0) for row in rows],
        [({"k": "k3"}, 1.0), ({"k": "k4"}, 1.0)],
        [({"k": None, "n": 1}, 1.0), ({"k": "k3", "n": None}, 1.0)],
        [(row, 3.0) for row in rows[1:]],
    ]
    apps = both.run({"in": batches}, {"add", "divide"})
    both.agree(apps)
    assert table_items(apps[True], "sums")[("k1", 0.0)] == 2**63 + 2
    reasons = topics.read(apps[True].broker, "both-dead-letters")["reason"].to_pylist()
    assert sorted(reason.split(":")[0] for reason in reasons) == [
        "InvalidArgumentError",
        "InvalidArgumentError",
        "KeyError",
        "KeyError",
        "KeyError",
        "KeyError",
        "TypeError",
        "TypeError",
        "ZeroDivisionError",
    ]
    assert 0 < folded(apps[True]) < sum(2 * len(batch) for batch in batches)


def test_an_agent_in_the_jvm_that_fails_names_the_event_and_the_line(tmp_path: Path) -> None:
    def make(app: faust.App) -> None:
        sums = app.Table("sums", default=int).tumbling(10)

        @app.agent(app.topic("in", value_type=dict))
        async def divide(events: Any) -> None:
            async for e in events:
                sums[e["k"]] += 6 // e["n"]

    both = Both(tmp_path, make)
    app = both.app
    produce(app, "in", [({"k": "a", "n": 2}, 1.0)])
    produce(app, "in", [({"k": "a", "n": 3}, 2.0), ({"k": "a", "n": 0}, 3.0)])
    with pytest.raises(
        faust.MullionError, match=r"The agent 'divide' failed on the event \{'k': 'a', 'n': 0\}.*test_faust_compiled"
    ):
        app.run(until="drained")
    assert table_items(app, "sums") == {("a", 0.0): 3}


# -- who else sees the tables


def test_timers_and_windows_that_close_see_what_an_agent_in_the_jvm_wrote(tmp_path: Path) -> None:
    def make(app: faust.App) -> None:
        ticks, closed = app.topic("ticks"), app.topic("closed")

        def on_close(key: Any, value: Any) -> None:
            closed.send(value={"k": key[0], "start": key[1][0], "n": value})

        views = app.Table("views", default=int, on_window_close=on_close).tumbling(10, expires=10, key_index=True)

        @app.agent(app.topic("in", value_type=str))
        async def count(pages: Any) -> None:
            async for page in pages:
                views[page] += 1

        @app.timer(60)
        async def tell() -> None:
            for page, n in views.items():
                await ticks.send(value={"page": page, "n": n})

    both = Both(tmp_path, make)
    apps = {compiled: both.new_app(compiled) for compiled in both.folders}
    assert [part.runs for part in apps[True].explain().parts] == ["JVM"]
    for app in apps.values():
        topics.produce(app.broker, "in", ["a", "b", "a", "c"], timestamps=[1.0, 2.0, 3.0, 4.0])
        with app.start() as running:
            running.settle()
            running.advance("60 seconds")
            running.settle()
            topics.produce(app.broker, "in", [*"abcabcdefgh"], timestamps=[25.0] * 11)
            running.settle()
    state = both.agree(apps, "ticks", "closed")
    assert {(row["page"], row["n"]) for row in topics.read(apps[True].broker, "ticks").to_pylist()} == {
        ("a", 2),
        ("b", 1),
        ("c", 1),
    }
    assert len(topics.read(apps[True].broker, "closed")) == 3
    assert state
    assert folded(apps[True]) == 15


# -- which agents


def reasons(make: Callable[[faust.App], None], folder: Path, **options: Any) -> dict[str, str]:
    app = faust.App("reasons", broker=f"dir:{folder}", **options)
    make(app)
    for part in app.explain().parts:
        assert "test_faust_compiled.py:" in part.where
    return {part.name.removeprefix("agent "): f"{part.runs}: {part.why}" for part in app.explain().parts}


def test_explain_shows_why_an_analysed_agent_runs_in_python(tmp_path: Path) -> None:
    class Dated(faust.Record):
        k: str
        at: list[int]

    class Own(faust.Record):
        k: str

        def __post_init__(self) -> None:
            self.k = self.k.lower()

    topics.produce(f"dir:{tmp_path}", "nested", [{"k": "a", "list": [1]}], timestamps=[1.0])

    def make(app: faust.App) -> None:
        tables = [app.Table(f"t{n}", default=int).tumbling(10) for n in range(12)]
        t0, t1, t2, t3, t4, t5, t6, t7, t8 = tables[:9]
        shared = tables[9]
        large = app.Table("large", default=lambda: 2**70).tumbling(10)

        def write(value: Any) -> None:
            shared["all"] += 1

        @app.agent(app.topic("a", value_type=Dated))
        async def dated(events: Any) -> None:
            async for e in events:
                t0[e.k] += 1

        @app.agent(app.topic("b", value_type=Own))
        async def own(events: Any) -> None:
            async for e in events:
                t1[e.k] += 1

        @app.agent(app.topic("c", value_type=dict), on_error="dead_letter")
        async def aside(events: Any) -> Any:
            async for e in events:
                t2[e["k"]] += 1
                yield 1

        @app.agent(app.topic("d", value_type=dict), sink=[write])
        async def function(events: Any) -> Any:
            async for e in events:
                t3[e["k"]] += 1
                yield 1

        @app.agent(app.topic("e", value_type=dict))
        async def used(events: Any) -> None:
            async for e in events:
                shared[e["k"]] += 1

        @app.agent(app.topic("f", value_type=dict))
        async def power(events: Any) -> None:
            async for e in events:
                t4[e["k"]] += e["n"] ** 2

        @app.agent(app.topic("g", value_type=dict, key_type=int))
        async def keyed(events: Any) -> None:
            async for e in events:
                t5[e["k"]] += 1

        @app.agent(app.topic("nested", value_type=dict))
        async def nested(events: Any) -> None:
            async for e in events:
                t6[e["k"]] += len(e["list"])

        @app.agent(app.topic("h", value_type=list[int]))
        async def listed(events: Any) -> None:
            async for e in events:
                t7["all"] += len(e)

        @app.agent(app.topic("i", value_type=dict))
        async def all_fields(events: Any) -> None:
            async for e in events:
                t8[e["k"]] += len(e)

        @app.agent(app.topic("j", value_type=dict))
        async def high(events: Any) -> None:
            async for e in events:
                large[e["k"]] += 1

    explanations = reasons(make, tmp_path)
    for name, why in {
        "dated": "Dated.at is read as list",
        "own": "Own makes its values in its own way",
        "aside": "what it prints and yields is not undone for an event that becomes a dead letter",
        "function": "a sink is a function",
        "used": "the agent 'function' may use the table 't9' too",
        "power": "the operator '**'",
        "keyed": "keys of the topic 'g' are read as <class 'int'>",
        "nested": "the field 'list' is array<bigint>",
        "listed": "values of the topic 'h' are read as list[int]",
        "all_fields": "it uses the event's value as a whole",
        "high": "the default of the table 'large' is the constant 1180591620717411303424",
    }.items():
        assert explanations[name].startswith("Python: ")
        assert explanations[name].endswith(why), explanations[name]
