"""Faust programs whose changes of variables are found in the workers, because the code does not show them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle

import mullion.faust as faust
from mullion import InvalidArgumentError, MullionError, UnsupportedError, topics
from mullion._util.clock import ManualClock

pytestmark = pytest.mark.usefixtures("spark")
# Workers do not have the folder of the tests on their path.
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]

SEEN: set[str] = set()
LOG: list[str] = []
RATES = {"low": 1}
add_seen, write_log = SEEN.add, LOG.append
client: Any = None


def app_in(folder: Path) -> faust.App:
    app = faust.App("shop", broker=f"dir:{folder}/topics")
    topics.produce(app.broker, "orders", [{"k": "a"}, {"k": "b"}])
    return app


def stored(app: faust.App) -> list[Any]:
    return [row.key for row in app.table("totals").read().collect()]


def let_time_pass(app: faust.App) -> None:
    with app.start() as running:
        running.settle()
        running.advance("10 seconds")
        running.settle()


@pytest.mark.always
def test_an_agent_that_changes_a_variable_by_another_name_stores_nothing(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    totals = app.Table("totals", default=int)

    @app.agent(app.topic("orders"))
    async def count(orders: Any) -> None:
        async for order in orders:
            totals[order["k"]] += 1
            add_seen(order["k"])

    with pytest.raises(
        UnsupportedError,
        match=r"A micro-batch has changed the variable '(add_seen|SEEN)' of the module '.*_variables', which is "
        r"not a table: had 0 items and has \d\. Agents and timers run in several worker processes, .* Use a "
        r"table: .* Nothing of the batch was stored",
    ):
        app.run(until="drained")
    with pytest.raises(InvalidArgumentError, match=r"No batch in .* has been committed yet"):
        stored(app)


def test_a_timer_that_changes_a_variable_is_stopped(tmp_path: Path) -> None:
    app = faust.App("shop", broker=f"dir:{tmp_path}/topics", clock=ManualClock(start_ms=0))

    @app.timer(10)
    async def tick() -> None:
        write_log("tick")

    with pytest.raises(MullionError, match=r"has changed the variable '(write_log|LOG)'"):
        let_time_pass(app)


def test_an_attribute_that_a_program_adds_to_its_app_is_a_variable(tmp_path: Path) -> None:
    app: Any = app_in(tmp_path)
    app.visits = 0

    async def count(orders: Any) -> None:
        async for _ in orders:
            app.visits += 1

    app.agent(app.topic("orders"))(count)

    with pytest.raises(MullionError, match=r"has changed the variable 'app' .*: \.visits was 0 and is [12]\."):
        app.run(until="drained")


@pytest.mark.always
def test_a_program_that_creates_its_own_objects_once_runs(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    totals = app.Table("totals", default=int)

    @app.agent(app.topic("orders"))
    async def count(orders: Any) -> None:
        global client
        async for order in orders:
            if client is None:
                client = dict(RATES)
            if "high" not in RATES:
                RATES["high"] = max(3, 1)
            app.topic(f"out-{order['k']}")
            totals[order["k"]] += client["low"]

    app.run(until="drained")
    assert sorted(stored(app)) == ['"a"', '"b"']
