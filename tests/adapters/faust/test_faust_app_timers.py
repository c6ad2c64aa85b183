"""Timers of programs on Spark, and events that are late."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle

import mullion.faust as faust
from mullion import IncompatibleStateError, InvalidArgumentError, topics
from mullion._util.clock import ManualClock
from tests.support.faust.programs import faust_programs as programs
from tests.support.faust.spark_app import app_in, put, table_of

pytestmark = pytest.mark.usefixtures("spark")
# Workers do not have the folder of the tests on their path.
for module in (sys.modules[__name__], programs):
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def test_messages_dead_letters_timers_and_closed_windows_of_a_program(tmp_path: Path) -> None:
    clock = ManualClock(start_ms=0)
    app = app_in(tmp_path, clock=clock)
    closed, out = app.topic("closed"), app.topic("out", value_type=dict)

    def on_close(key: Any, value: Any) -> None:
        closed.send(key=key[0], value={"n": value, "start": key[1][0]})

    views = app.Table("views", default=int, on_window_close=on_close).tumbling(10, expires=10, key_index=True)
    ticks = app.topic("ticks")

    @app.agent(app.topic("in", value_type=programs.Withdrawal), sink=[out], on_error="dead_letter")
    async def count(stream: Any) -> Any:
        async for event in stream.group_by(programs.Withdrawal.user):
            views[event.user] += 1
            yield {"user": event.user, "share": 1 / event.amount}

    @app.timer(60)
    async def tell() -> None:
        for user, n in views.items():
            await ticks.send(key=user, value={"n": n})

    with pytest.raises(InvalidArgumentError, match=r"'shop' has no table 'view'. Its tables are: views"):
        app.table("view")
    good = {"user": "u", "country": "AT", "amount": 2.0}
    put(app, "in", (good, 1.0), ({**good, "amount": 0.0}, 2.0), (good, 3.0), ({**good, "user": None}, 4.0))
    with app.start() as running:
        running.settle()
        assert topics.read(app.broker, "out")["share"].to_pylist() == [0.5, 0.5]
        letters = topics.read(app.broker, "shop-dead-letters").to_pylist()
        assert sorted(letter["reason"].split(":")[0] for letter in letters) == [
            "InvalidArgumentError",
            "ZeroDivisionError",
        ]
        assert {letter["agent"] for letter in letters} == {"count"}
        assert table_of(app, "views") == {("u", 0.0): 2}
        running.advance("60 seconds")
        running.settle()
        assert topics.read(app.broker, "ticks")["n"].to_pylist() == [2]
        put(app, "in", (good, 25.0))
        running.settle()
        assert topics.read(app.broker, "closed").to_pylist()[0]["n"] == 2
    assert table_of(app, "views") == {("u", 20.0): 1}
    assert "agent count  Python" in str(app.explain())


def metric(app: faust.App, name: str) -> list[int]:
    """A metric of the agents' operator, of each batch that had one."""
    reports = [report["stateOperators"] for report in app.queries["agents"].progress]
    return [operators[0]["customMetrics"][name] for operators in reports if operators]


@pytest.mark.parametrize("compiled", [True, False])
def test_late_events_are_counted_and_a_table_that_lags_costs_the_others_nothing(tmp_path: Path, compiled: bool) -> None:
    """Timers of a table are in an order of their own: those of a clock that lags are not read again and again."""
    app = app_in(tmp_path, clock=ManualClock(), compiled=compiled)
    slow, fast = (app.Table(name, default=int).tumbling(10, expires=10) for name in ("slow", "fast"))

    @app.agent(app.topic("slow-in", value_type=str))
    async def count_slow(stream: Any) -> None:
        async for value in stream:
            slow[value] += 1

    @app.agent(app.topic("fast-in", value_type=str))
    async def count_fast(stream: Any) -> None:
        async for value in stream:
            fast[value] += 1

    put(app, "slow-in", *((f"key {n}", 1.0) for n in range(500)))
    put(app, "fast-in", ("a", 1.0), ("a", 1000.0), ("a", 1.0), ("a", 979.0), ("a", 985.0))
    with app.start() as running:
        running.settle()
        assert app.explain().parts[0].runs == ("JVM" if compiled else "Python")
        assert sum(metric(app, "rowsLate")) == 3
        before = sum(metric(app, "stateRowsRead"))
        for n in range(5):
            put(app, "fast-in", ("a", 2000.0 + 100 * n))
            running.settle()
        assert sum(metric(app, "stateRowsRead")) - before < 100
        assert len(table_of(app, "slow")) == 500
        assert table_of(app, "fast") == {("a", 2400.0): 1}
        put(app, "slow-in", *((f"key {n}", 100.0) for n in range(500)))
        running.settle()
    assert table_of(app, "slow") == {(f"key {n}", 100.0): 1 for n in range(500)}
    assert sum(metric(app, "rowsLate")) == 3


def test_a_timer_without_tables_is_called_once_before_there_are_events_and_as_often_after(tmp_path: Path) -> None:
    clock = ManualClock(start_ms=0)
    app = app_in(tmp_path, clock=clock)
    counts, ticks, totals = app.Table("counts", default=int), app.topic("ticks"), app.topic("totals")

    @app.timer(10, on_leader=True)
    async def tick() -> None:
        await ticks.send(value="tick")

    @app.timer(10)
    async def tell() -> None:
        await totals.send(value=sum(n for _, n in counts.items()))

    @app.agent(app.topic("in", value_type=str))
    async def count(stream: Any) -> None:
        async for value in stream:
            counts[value] += 1

    with app.start() as running:
        running.settle()
        running.advance("10 seconds")
        running.settle()
        assert topics.read(app.broker, "ticks")["value"].to_pylist() == ["tick"]
        put(app, "in", *((f"key {n}", 11.0) for n in range(20)))
        running.settle()
        running.advance("10 seconds")
        running.settle()
        assert topics.read(app.broker, "ticks")["value"].to_pylist() == ["tick"] * 2
        # From each shard its own.
        assert sum(topics.read(app.broker, "totals")["value"].to_pylist()) == 20
        assert len(topics.read(app.broker, "totals")) == 3


def test_an_app_of_timers_alone_is_called_by_the_clock_and_after_a_restart_too(tmp_path: Path) -> None:
    clock = ManualClock(start_ms=0)
    app = app_in(tmp_path, clock=clock)
    ticks = app.topic("ticks")

    @app.timer(10)
    async def tick() -> None:
        await ticks.send(value={"tick": 1})

    @app.timer(25)
    async def tock() -> None:
        await ticks.send(value={"tick": 2})

    for times in (1, 2):
        with app.start() as running:
            running.settle()
            for _ in range(3):
                running.advance("10 seconds")
                running.settle()
        published = topics.read(app.broker, "ticks")["tick"].to_pylist()
        assert sorted(published) == [1] * 3 * times + [2] * times
    app.run(until="drained")

    @app.agent(app.topic("in", value_type=str))
    async def read(stream: Any) -> None:
        async for _ in stream:
            pass

    with pytest.raises(IncompatibleStateError, match="read the topics in, and its query began with none"):
        app.start()
