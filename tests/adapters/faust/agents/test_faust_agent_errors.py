"""Faust's agents that fail, that wait, and timers, run in this process on a clock that tests move."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

from mullion import UnsupportedError
from mullion.faust._agent_run import tasks
from mullion.faust._program.program import Program
from mullion.faust.agents import OnError
from tests.support.faust.faust_agent_runs import Order, collecting, windowed
from tests.support.faust.faust_shards import Clock
from tests.support.faust.local_run import AgentError, LocalRun

# -- errors


def failing(program: Program, on_error: OnError) -> list[Any]:
    totals = program.Table("totals", default=int)
    views = program.Table("views", default=int).tumbling(10, key_index=True)
    out, results = program.topic("out"), []

    @program.agent(program.topic("in", value_type=Order), on_error=on_error)
    async def fold(orders: Any) -> None:
        async for order in orders:
            totals[order.account] += order.amount
            views[order.account] += 1
            await out.send(value=order.account)
            results.append(1 / order.amount)

    return results


ORDERS = [("k", {"account": "a", "amount": n}, float(i)) for i, n in enumerate((1, 0, 2, 0, 4))]


def test_an_agent_that_fails_stops_the_program_and_names_the_event_and_the_line() -> None:
    program = Program("app")
    results = failing(program, "stop")
    lines, start = inspect.getsourcelines(failing)
    line = start + next(i for i, text in enumerate(lines) if "1 / order" in text)
    run = LocalRun(program, Clock())
    with pytest.raises(
        AgentError,
        match=r"^The agent 'fold' failed on the event \{'account': 'a', 'amount': 0\} \(topic 'in', offset 1, key 'k', "
        rf"time 1\.0\), at .*test_faust_agent_errors\.py:{line}: ZeroDivisionError: .*on_error='dead_letter'",
    ) as failed:
        run.produce("in", ORDERS)
    assert isinstance(failed.value.__cause__, ZeroDivisionError)
    assert results == [1.0]


def test_an_event_that_fails_is_put_aside_and_leaves_nothing_behind() -> None:
    program = Program("app")
    results = failing(program, "dead_letter")
    run = LocalRun(program, Clock())
    run.produce("in", ORDERS)
    assert results == [1.0, 0.5, 0.25]
    assert run.read(lambda: program.tables["totals"].items()) == [[("a", 7)]]
    assert run.read(lambda: windowed(program, "views").windows_for_key("a")) == [[((0.0, 10.0), 3)]]
    assert [m.value for m in run.published["out"]] == ["a"] * 3
    assert [(d.agent, d.topic, d.value["amount"], d.timestamp) for d in run.dead_letters] == [
        ("fold", "in", 0, 1.0),
        ("fold", "in", 0, 3.0),
    ]
    assert "ZeroDivisionError: " in run.dead_letters[0].reason


def test_the_first_event_of_a_table_may_fail_without_leaving_a_clock_behind() -> None:
    program = Program("app")
    failing(program, "dead_letter")
    run = LocalRun(program, Clock())
    run.produce("in", [("k", {"account": "a", "amount": 0}, 1000.0), ("k", {"account": "a", "amount": 1}, 1.0)])
    assert run.read(lambda: windowed(program, "views").windows_for_key("a")) == [[((0.0, 10.0), 1)]]
    assert run.shards[0].dropped == {}


def test_what_does_not_fit_the_topics_type_is_put_aside_with_the_reason() -> None:
    program = Program("app")
    results = failing(program, "stop")
    run = LocalRun(program, Clock())
    run.produce("in", [("k", {"amount": 1}, 1.0), ("k", {"account": "a", "amount": 1}, 2.0), ("k", "x", 3.0)])
    assert results == [1.0]
    assert [d.reason for d in run.dead_letters] == [
        "value of in.account: it is missing, and has no default.",
        "value of in: 'x' (str) is not an object with fields.",
    ]


def test_a_body_that_fails_before_its_first_event_stops_the_program() -> None:
    async def body(stream: Any, received: list[Any]) -> None:
        raise ValueError("no")

    program = Program("app")
    collecting(program, body, on_error="dead_letter")
    with pytest.raises(AgentError, match=r"The agent 'body' failed before its first event, at .*: ValueError: no"):
        LocalRun(program, Clock()).produce("in", [(None, 1, 0.0)])


def test_an_agent_may_await_what_takes_time() -> None:
    async def body(stream: Any, received: list[Any]) -> None:
        async for value in stream:
            await asyncio.sleep(0)
            received.append(value)

    program = Program("app")
    received = collecting(program, body)
    LocalRun(program, Clock()).produce("in", [(None, n, 0.0) for n in range(3)])
    assert received == [0, 1, 2]


def test_of_a_list_that_fails_only_the_event_at_fault_is_put_aside() -> None:
    """``take(n)``: the list is undone, and its events are tried one by one."""
    program = Program("app")
    totals, out = program.Table("totals", default=int), program.topic("out")
    lists: list[list[int]] = []

    @program.agent(program.topic("in"), on_error="dead_letter")
    async def fold(stream: Any) -> None:
        async for some in stream.take(4):
            for n in some:
                totals["all"] += n
                await out.send(value=n)
            assert not {3, 6}.intersection(some), "odd"
            lists.append(some)

    run = LocalRun(program, Clock())
    run.produce("in", [("k", n, 0.0) for n in range(1, 12)])
    assert lists == [[1], [2], [4], [5], [7], [8], [9, 10, 11]]
    assert [letter.value for letter in run.dead_letters] == [3, 6]
    assert run.read(lambda: totals["all"]) == [66 - 9]
    assert [message.value for message in run.published["out"]] == [1, 2, 4, 5, 7, 8, 9, 10, 11]

    program.agents["fold"].on_error = "stop"
    with pytest.raises(
        AgentError, match=r"failed on a list of 3 events, the last of which is the event 4 \(topic 'in'"
    ):
        run.produce("in", [("k", n, 0.0) for n in (2, 3, 4)])


def test_a_cancellation_that_a_body_raises_is_an_error_of_its_event() -> None:
    async def body(stream: Any, received: list[Any]) -> None:
        async for n in stream:
            if n == 1:
                raise asyncio.CancelledError("by hand")
            if n == 3:
                work = asyncio.create_task(asyncio.sleep(0))
                work.cancel()
                await work
            received.append(n)

    program = Program("app")
    received = collecting(program, body, on_error="dead_letter")
    run = LocalRun(program, Clock())
    run.produce("in", [(None, n, 0.0) for n in range(5)])
    assert received == [0, 2, 4]
    assert [(letter.value, letter.reason.split(":")[0]) for letter in run.dead_letters] == [
        (1, "CancelledError"),
        (3, "CancelledError"),
    ]
    program = Program("app")
    collecting(program, body)
    with pytest.raises(AgentError, match=r"failed on the event 1 .*CancelledError: by hand"):
        LocalRun(program, Clock()).produce("in", [(None, n, 0.0) for n in range(5)])


def test_work_that_a_body_begins_and_does_not_await_belongs_to_its_event() -> None:
    program = Program("app")
    totals, out = program.Table("totals", default=int), program.topic("out")

    async def later(n: int) -> None:
        await asyncio.sleep(0)
        await asyncio.create_task(asyncio.sleep(0))
        totals["all"] += n
        await out.send(value=n)
        if n == 2:
            raise ValueError("two")

    @program.agent(program.topic("in"), on_error="dead_letter")
    async def fold(stream: Any) -> None:
        async for n in stream:
            asyncio.create_task(later(n))  # noqa: RUF006
            if n == 4:
                # Its work is undone with it.
                raise KeyError(n)

    @program.agent(program.topic("in"))
    async def seen_and_handled(stream: Any) -> None:
        async for _ in stream:
            await asyncio.gather(asyncio.sleep(0), later(2), return_exceptions=True)
            break

    run = LocalRun(program, Clock())
    run.produce("in", [(None, n, 0.0) for n in range(1, 6)])
    assert [(letter.agent, letter.value, letter.reason.split(" (")[0]) for letter in run.dead_letters] == [
        ("fold", 2, "ValueError: two"),
        ("fold", 4, "KeyError: 4"),
    ]
    assert run.read(lambda: totals["all"]) == [1 + 3 + 5 + 5 * 2]


def test_a_body_may_go_through_its_stream_in_work_of_its_own() -> None:
    async def body(stream: Any, received: list[Any]) -> None:
        async def through() -> None:
            async for n in stream:
                await asyncio.sleep(0)
                received.append(n)

        received.append("begin")
        asyncio.create_task(through())  # noqa: RUF006

    program = Program("app")
    received = collecting(program, body)
    run = LocalRun(program, Clock())
    run.produce("in", [(None, n, 0.0) for n in range(3)])
    assert received == ["begin", 0, 1, 2]


def test_work_that_never_ends_is_an_error_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def heartbeat() -> None:
        await asyncio.Event().wait()

    async def body(stream: Any, received: list[Any]) -> None:
        async for n in stream:
            asyncio.create_task(heartbeat())  # noqa: RUF006
            received.append(n)

    monkeypatch.setattr(tasks, "LONGEST_SECONDS", 0.01)
    program = Program("app")
    collecting(program, body)
    with pytest.raises(
        AgentError, match=r"on the event 0 .*UnsupportedError: Work .* 0.01 seconds .*heartbeat \(.*py:"
    ):
        LocalRun(program, Clock()).produce("in", [(None, n, 0.0) for n in range(3)])


def test_a_timer_is_called_once_and_one_that_works_on_tables_in_each_shard() -> None:
    program = Program("app")
    called: list[Any] = []

    @program.timer(10.0)
    async def plain() -> None:
        await ticks.send(value="tick")

    @program.timer(10.0, on_leader=True)
    async def leader() -> None:
        called.append("leader")

    def helper() -> int:
        return len(list(counts.items()))

    @program.timer(10.0)
    def of_tables() -> None:
        called.append(helper())

    # Named after the timers that use them.
    counts, ticks = program.Table("counts", default=int), program.topic("ticks")

    @program.agent(program.topic("in"))
    async def count(stream: Any) -> None:
        async for value in stream.group_by(lambda value: value):
            counts[value] += 1

    clock = Clock()
    run = LocalRun(program, clock, shards=3)
    run.produce("in", [(None, n, 0.0) for n in range(10)])
    clock.us = 10_000_000
    run.tick()
    assert [message.value for message in run.published["ticks"]] == ["tick"]
    assert called[0] == "leader"
    assert len(called) == 4
    assert sum(called[1:]) == 10


def test_a_timer_that_is_called_once_may_not_see_a_part_of_a_table() -> None:
    for on_leader, why in ((False, "names in its code do not say so"), (True, "Leave on_leader out")):
        program = Program("app")
        program.Table("counts", default=int)

        @program.timer(10.0, on_leader=on_leader)
        def show(program: Program = program) -> None:
            print(list(program.tables["counts"].items()))

        clock = Clock()
        run = LocalRun(program, clock)
        clock.us = 10_000_000
        with pytest.raises(UnsupportedError, match=f"The timer 'show' .* the table 'counts'.*{why}"):
            run.tick()
