"""Runs agents of Faust in this process, on a clock that tests advance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mullion.faust import Record, WindowedTable
from mullion.faust._program.program import Program
from tests.support.faust.faust_shards import Clock
from tests.support.faust.local_run import LocalRun


class Order(Record):
    account: str
    amount: float = 0.0


def run_of(
    make: Callable[[Any], Any], shards: int = 1, now: float = 0.0, name: str = "app"
) -> tuple[LocalRun, Program, Clock]:
    program, clock = Program(name), Clock(now)
    make(program)
    return LocalRun(program, clock, shards), program, clock


def windowed(program: Program, name: str) -> WindowedTable:
    table = program.tables[name]
    assert table.window is not None
    return WindowedTable(table, table.window, _key_index=table.key_index)


def collecting(app: Program, body: Callable[[Any, list[Any]], Any], **options: Any) -> list[Any]:
    items: list[Any] = []

    @app.agent(app.topic("in", value_type=options.pop("value_type", None)), name="body", **options)
    async def run(stream: Any) -> None:
        await body(stream, items)

    return items
