"""Faust's agents, streams and timers, run in this process on a clock that tests move."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import faust_programs as programs
import mullion.faust as faust
from faust_shards import Clock
from mullion import InvalidArgumentError, UnsupportedError
from mullion.faust import Record, TumblingWindow, WindowedTable, _tasks
from mullion.faust._local_run import AgentError, LocalRun
from mullion.faust._program import Program
from mullion.faust.agents import OnError


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


# -- the programs of the documents


def test_events_are_counted_in_tumbling_windows(capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    run, program, clock = run_of(programs.tumbling_counts)
    monkeypatch.setattr(time, "time", lambda: clock.us / 1e6)
    run.produce(
        "events", [(None, {"category": c}, at) for c, at in (("a", 10.0), ("b", 299.9), ("a", 299), ("a", 300))]
    )
    assert run.read(lambda: windowed(program, "event-counts").windows_for_key("a")) == [
        [((0.0, 300.0), 2), ((300.0, 600.0), 1)]
    ]
    clock.us = 120_000_000
    run.tick()
    assert capsys.readouterr().out == "Category a: 1 events in window 0.0\n"


def test_averages_of_hopping_windows_are_right_in_every_range(capsys: pytest.CaptureFixture[str]) -> None:
    run, program, clock = run_of(programs.hopping_averages)
    for name, value, at in (("cpu", 10, 100.0), ("cpu", 20, 400.0), ("mem", 5, 410.0)):
        run.produce("metrics", [(None, {"name": name, "value": value}, at)])
    assert run.read(lambda: windowed(program, "sliding-averages").windows_for_key("cpu")) == [
        [
            ((-300.0, 300.0), {"sum": 10, "count": 1}),
            ((0.0, 600.0), {"sum": 30, "count": 2}),
            ((300.0, 900.0), {"sum": 20, "count": 1}),
        ]
    ]
    clock.us = 300_000_000
    run.tick()
    assert capsys.readouterr().out == "Sliding average for cpu: 20.0\nSliding average for mem: 5.0\n"


def test_sessions_end_after_half_an_hour() -> None:
    run, program, _ = run_of(programs.sessions)
    for at in (1000.0, 2000.0, 2700.0):
        run.produce("user-activity", [(None, {"user_id": "u", "timestamp": at}, at)])
    (ranges,) = run.read(lambda: windowed(program, "user-sessions").windows_for_key("u"))
    assert [(value["start_time"], len(value["events"])) for _, value in ranges] == [
        (1000.0, 1),
        (1000.0, 2),
        (1000.0, 3),
    ]
    run.produce("user-activity", [(None, {"user_id": "u", "timestamp": at}, at) for at in (4501.0, 4600.0)])
    (ranges,) = run.read(lambda: windowed(program, "user-sessions").windows_for_key("u"))
    assert ranges[-1][1]["start_time"] == 4501.0
    assert [event["timestamp"] for event in ranges[-1][1]["events"]] == [4501.0, 4600.0]


def test_business_hours_are_counted_and_nights_are_not() -> None:
    run, program, _ = run_of(programs.business_hours)
    noon = 1_704_906_000.0
    run.produce("metrics", [(None, {"name": "m", "value": 2}, at) for at in (noon, noon + 60, noon + 8 * 3600)])
    assert run.read(lambda: [v for _, v in windowed(program, "business-metrics").windows_for_key("m")]) == [[4]]


def test_a_timer_may_expire_windows_by_hand(capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    run, _, clock = run_of(programs.expiring, now=86_400.0)
    monkeypatch.setattr(time, "time", lambda: clock.us / 1e6)
    run.produce("events", [(None, {"category": "a"}, at) for at in (0.0, 3600.0, 86_400.0)])
    run.produce("events", [(None, {"category": "b"}, 86_400.0)])
    clock.us += 4 * 3600 * 1_000_000
    run.tick()
    assert capsys.readouterr().out == "Expired 2 old windows\n"


def test_several_tables_are_updated_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    run, _, clock = run_of(programs.multi_window)
    run.produce("app-multi_window_analysis", [(None, {"type": "x"}, at) for at in (10.0, 70.0, 75.0)])
    clock.us = 60_000_000
    run.tick()
    assert capsys.readouterr().out == (
        "=== Multi-Window Analysis ===\nx:\n  Last minute: 2\n  Last hour: 3\n  Sliding 10min: 2\n"
    )


WITHDRAWALS = [
    ("u1", {"user": "u1", "country": "AT", "amount": 5.0, "account": "a"}, 1.0),
    ("u2", {"user": "u2", "country": "AT", "amount": 7.0, "account": "b"}, 2.0),
    ("u1", {"user": "u1", "country": "DE", "amount": 1.0, "account": "a"}, 3.0),
    ("u3", {"user": "u3", "country": "AT", "amount": 2.0, "account": "c"}, 12.0),
]


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("make", [programs.by_country, programs.rightly_sharded])
def test_a_stream_is_sharded_by_what_it_is_grouped_by(make: Callable[[Any], None], shards: int) -> None:
    run, program, _ = run_of(make, shards)
    # A bare agent gets what is sent to it, and the field that it groups by says what that is.
    run.produce("app-process_withdrawal" if make is programs.by_country else "withdrawals", WITHDRAWALS)
    found = run.read(lambda: windowed(program, "country_to_total").windows_for_key("AT"))
    assert [one for one in found if one] == [[((0.0, 10.0), 12.0), ((10.0, 20.0), 2.0)]]
    if make is programs.rightly_sharded:
        by_user = run.read(lambda: program.tables["user_to_total"].items())
        assert sorted(item for items in by_user for item in items) == [("u1", 6.0), ("u2", 7.0), ("u3", 2.0)]


def test_tables_that_are_not_sharded_as_the_stream_have_their_totals_in_pieces() -> None:
    run, program, _ = run_of(programs.wrongly_sharded, 3)
    run.produce("withdrawals", WITHDRAWALS)
    found = run.read(lambda: windowed(program, "country_to_total").windows_for_key("AT"))
    assert len([one for one in found if one]) > 1


def test_what_is_written_back_is_kept_and_what_is_not_is_warned_of() -> None:
    run, program, _ = run_of(programs.written_back)
    run.produce("withdrawals", WITHDRAWALS)
    assert run.read(lambda: program.tables["user_withdrawals"].items()) == [
        [("a", [5.0, 1.0]), ("b", [7.0]), ("c", [2.0])]
    ]
    run, program, _ = run_of(programs.not_written_back)
    lines, start = inspect.getsourcelines(programs.not_written_back)
    line = start + next(i for i, text in enumerate(lines) if "withdrawals = user_withdrawals[" in text)
    with pytest.warns(faust.ForgottenChangeWarning, match=rf"faust_programs\.py:{line}: "):
        run.produce("withdrawals", WITHDRAWALS)
    assert run.read(lambda: program.tables["user_withdrawals"].items()) == [[]]


def test_reading_what_was_just_written_follows_the_event(capsys: pytest.CaptureFixture[str]) -> None:
    run, program, clock = run_of(programs.page_views)
    run.produce("page_views", [(None, "/", 5.0)] * 9999)
    assert capsys.readouterr().out == ""
    clock.us = 5_000_000
    run.produce("page_views", [(None, "/", 5.0)])
    assert capsys.readouterr().out.splitlines() == ["Trending now"] + ["Trending when event happened"] * 2
    clock.us = 1805_000_000
    run.produce("page_views", [(None, "/", 1805.0)])
    assert capsys.readouterr().out.splitlines() == ["Less popular compared to 30 minutes back"]
    assert run.read(lambda: windowed(program, "views").windows_for_key("/")) == [
        [((0.0, 60.0), 10_000), ((1800.0, 1860.0), 1)]
    ]


def test_a_table_may_be_relative_to_the_stream_the_clock_or_a_field(capsys: pytest.CaptureFixture[str]) -> None:
    run, _, _ = run_of(programs.relative_times, now=70.0)
    accounts = [
        ("a", "1970-01-01T00:01:10Z", 500.0),
        ("a", "1970-01-01T00:01:50Z", 600.0),
        ("a", "1970-01-01T00:00:10Z", 1.0),
    ]
    for name, created, at in accounts:
        run.produce("accounts", [(None, {"name": name, "date_created": created}, at)])
    assert capsys.readouterr().out.split() == ["1", "1", "1", "0", "2", "2", "2", "2", "1", "1", "2", "0"]


def test_keys_values_and_items_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    run, _, _ = run_of(programs.iterated, now=40.0)
    run.produce("pages", [(None, "/a", 10.0), (None, "/b", 12.0)])
    assert capsys.readouterr().out.splitlines() == [
        *("['/a']", "[('/a', 1)]", "[1]", "[]", "[('/a', 1)]"),
        *("['/a', '/b']", "[('/a', 1), ('/b', 1)]", "[1, 1]", "[]", "[('/a', 1), ('/b', 1)]"),
    ]


# -- streams


def collecting(app: Program, body: Callable[[Any, list[Any]], Any], **options: Any) -> list[Any]:
    seen: list[Any] = []

    @app.agent(app.topic("in", value_type=options.pop("value_type", None)), name="body", **options)
    async def run(stream: Any) -> None:
        await body(stream, seen)

    return seen


def test_a_stream_gives_values_events_or_items() -> None:
    async def values(stream: Any, seen: list[Any]) -> None:
        async for value in stream:
            event = faust.current_event()
            assert event is not None
            seen.append((value, event.key, event.timestamp, event.message.offset))

    async def events(stream: Any, seen: list[Any]) -> None:
        async for event in stream.events():
            assert event == faust.current_event()
            seen.append((event.value, event.key, event.timestamp, event.message.offset))

    async def items(stream: Any, seen: list[Any]) -> None:
        async for key, value in stream.items():
            seen.append((key, value))

    for body in (values, events, items):
        program = Program("app")
        seen = collecting(program, body)
        run = LocalRun(program, Clock())
        run.produce("in", [("k", 1, 5.0), (None, 2, 4.0)])
        run.produce("in", [("k", 3, 6.0)])
        if body is items:
            assert seen == [("k", 1), (None, 2), ("k", 3)]
        else:
            assert seen == [(1, "k", 5.0, 0), (2, None, 4.0, 1), (3, "k", 6.0, 2)]


def test_a_stream_can_be_filtered_and_grouped() -> None:
    async def is_large(value: Any) -> bool:
        return bool(value["n"] > 1)

    async def body(stream: Any, seen: list[Any]) -> None:
        async for event in stream.filter(is_large).filter(lambda v: v["n"] != 4).group_by("name").events():
            current = faust.current_event()
            assert current is not None
            assert current.key == event.key
            seen.append((event.key, event.value["n"]))

    program = Program("app")
    seen = collecting(program, body)
    LocalRun(program, Clock(), shards=2).produce("in", [(None, {"name": "ab"[n % 2], "n": n}, 0.0) for n in range(6)])
    assert sorted(seen) == [("a", 2), ("b", 3), ("b", 5)]


def test_events_are_taken_in_lists_that_end_with_the_batch() -> None:
    async def body(stream: Any, seen: list[Any]) -> None:
        async for some in stream.filter(lambda n: n != 2).take(3, within=10):
            seen.append(some)

    program = Program("app")
    seen = collecting(program, body)
    run = LocalRun(program, Clock())
    run.produce("in", [(None, n, 0.0) for n in range(8)])
    run.produce("in", [(None, 8, 0.0)])
    assert seen == [[0, 1, 3], [4, 5, 6], [7], [8]]


def test_what_a_stream_cannot_do_is_refused() -> None:
    stream = Program("app").topic("in").stream()
    with pytest.raises(InvalidArgumentError, match=r"group_by\(5\) says no key"):
        stream.group_by(5)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match=r"group_by\('b'\) groups a stream that is grouped already"):
        stream.group_by("a").group_by("b")
    with pytest.raises(InvalidArgumentError, match=r"filter\(5\) is not a function"):
        stream.filter(5)  # type: ignore[arg-type]

    async def go(through: Any) -> None:
        async for _ in through:
            pass

    with pytest.raises(InvalidArgumentError, match=r"take\(0\) is not a number of events above 0"):
        asyncio.run(go(stream.take(0)))
    with pytest.raises(InvalidArgumentError, match="stream of 'in' is gone through outside of an agent"):
        asyncio.run(go(stream))


def test_a_body_begins_anew_with_each_batch_and_is_closed_where_it_waits() -> None:
    async def body(stream: Any, seen: list[Any]) -> None:
        seen.append("begin")
        try:
            async for value in stream:
                seen.append(value)
            seen.append("never")
        finally:
            seen.append("closed")

    program = Program("app")
    seen = collecting(program, body)
    run = LocalRun(program, Clock())
    run.produce("in", [(None, n, 0.0) for n in range(2)])
    run.produce("in", [(None, 2, 0.0)])
    assert seen == ["begin", 0, 1, "closed", "begin", 2, "closed"]


def test_a_body_that_ends_by_itself_begins_anew_with_the_next_event() -> None:
    async def first(stream: Any, seen: list[Any]) -> None:
        async for value in stream:
            seen.append(value)
            break

    async def nothing(stream: Any, seen: list[Any]) -> None:
        seen.append("called")

    for body, expected in ((first, [0, 1, 2]), (nothing, ["called"])):
        program = Program("app")
        seen = collecting(program, body)
        LocalRun(program, Clock()).produce("in", [(None, n, 0.0) for n in range(3)])
        assert seen == expected


# -- what agents send


def test_what_an_agent_yields_goes_to_its_sinks() -> None:
    program, seen = Program("app"), list[Any]()
    topic, doubled = program.topic("in"), program.topic("doubled")

    async def log(value: Any) -> None:
        seen.append(("log", value))

    @program.agent()
    async def last(stream: Any) -> None:
        async for event in stream.events():
            seen.append(("last", event.key, event.value, event.timestamp))

    @program.agent(topic, sink=[doubled, last, log, lambda value: seen.append(("plain", value))])
    async def double(stream: Any) -> Any:
        async for value in stream:
            yield value * 2

    run = LocalRun(program, Clock())
    run.produce("in", [("k", 1, 5.0), ("l", 2, 6.0)])
    assert [(m.key, m.value, m.timestamp) for m in run.published["doubled"]] == [("k", 2, 5.0), ("l", 4, 6.0)]
    assert seen == [
        *(("log", 2), ("plain", 2), ("log", 4), ("plain", 4)),
        *(("last", "k", 2, 5.0), ("last", "l", 4, 6.0)),
    ]


def test_agents_and_topics_can_be_sent_messages_from_agents_timers_and_tasks() -> None:
    program, seen = Program("app"), []
    out = program.topic("out", value_type=Order)

    @program.agent
    async def receive(stream: Any) -> None:
        async for value in stream:
            seen.append(value)
            if value == "again":
                await receive.cast("once more")

    @program.task
    async def begin() -> None:
        await receive.cast("task")

    @program.task()
    def plainly() -> None:
        receive.send(value="task 2", key="k")

    @program.timer(10)
    async def often() -> None:
        await receive.send(value="timer")
        await out.send(key="k", value=Order("a", 1.5), timestamp=3.0)

    run_clock = Clock(100.0)
    run = LocalRun(program, run_clock)
    assert seen == ["task", "task 2"]
    run_clock.us += 25_000_000
    run.tick()
    run.tick()
    assert seen[2:] == ["timer"]
    run_clock.us += 5_000_000
    run.tick()
    assert seen[3:] == ["timer"]
    run.produce("app-receive", [(None, "again", 0.0)])
    assert seen[4:] == ["again", "once more"]
    assert [(m.value, m.timestamp) for m in run.published["out"]] == [({"account": "a", "amount": 1.5}, 3.0)] * 2
    assert [m.timestamp for m in run.published["app-receive"]] == [100.0, 100.0, 125.0, 130.0, 0.0, 0.0]


def test_nothing_can_be_sent_where_no_program_runs_or_that_json_cannot_hold() -> None:
    program = Program("app")
    out = program.topic("out")
    with pytest.raises(faust.OutsideStreamError, match=r"A message was sent to 'out' outside of a running program"):
        out.send(value=1)

    async def body(stream: Any, seen: list[Any]) -> None:
        async for _ in stream:
            await out.send(value=object())

    collecting(program, body)
    with pytest.raises(AgentError, match=r"value for 'out'=<object object .* cannot be written as JSON"):
        LocalRun(program, Clock()).produce("in", [(None, 1, 0.0)])


def test_a_window_that_closes_may_send_what_it_held() -> None:
    program = Program("app")
    closed = program.topic("closed")

    def on_close(key: Any, value: Any) -> None:
        closed.send(key=key[0], value={"n": value, "start": key[1][0]})

    views = program.Table("views", default=int, on_window_close=on_close).tumbling(10, expires=10)

    @program.agent(program.topic("in"))
    async def count(stream: Any) -> None:
        async for value in stream:
            views[value] += 1

    run = LocalRun(program, Clock())
    run.produce("in", [(None, "a", 1.0), (None, "a", 2.0), (None, "b", 25.0)])
    assert [(m.key, m.value) for m in run.published["closed"]] == [("a", {"n": 2, "start": 0.0})]


# -- errors


def failing(program: Program, on_error: OnError) -> list[Any]:
    totals = program.Table("totals", default=int)
    views = program.Table("views", default=int).tumbling(10, key_index=True)
    out, seen = program.topic("out"), []

    @program.agent(program.topic("in", value_type=Order), on_error=on_error)
    async def fold(orders: Any) -> None:
        async for order in orders:
            totals[order.account] += order.amount
            views[order.account] += 1
            await out.send(value=order.account)
            seen.append(1 / order.amount)

    return seen


ORDERS = [("k", {"account": "a", "amount": n}, float(i)) for i, n in enumerate((1, 0, 2, 0, 4))]


def test_an_agent_that_fails_stops_the_program_and_names_the_event_and_the_line() -> None:
    program = Program("app")
    seen = failing(program, "stop")
    lines, start = inspect.getsourcelines(failing)
    line = start + next(i for i, text in enumerate(lines) if "1 / order" in text)
    run = LocalRun(program, Clock())
    with pytest.raises(
        AgentError,
        match=r"^The agent 'fold' failed on the event \{'account': 'a', 'amount': 0\} \(topic 'in', offset 1, key 'k', "
        rf"time 1\.0\), at .*test_faust_agents\.py:{line}: ZeroDivisionError: .*on_error='dead_letter'",
    ) as failed:
        run.produce("in", ORDERS)
    assert isinstance(failed.value.__cause__, ZeroDivisionError)
    assert seen == [1.0]


def test_an_event_that_fails_is_put_aside_and_leaves_nothing_behind() -> None:
    program = Program("app")
    seen = failing(program, "dead_letter")
    run = LocalRun(program, Clock())
    run.produce("in", ORDERS)
    assert seen == [1.0, 0.5, 0.25]
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
    seen = failing(program, "stop")
    run = LocalRun(program, Clock())
    run.produce("in", [("k", {"amount": 1}, 1.0), ("k", {"account": "a", "amount": 1}, 2.0), ("k", "x", 3.0)])
    assert seen == [1.0]
    assert [d.reason for d in run.dead_letters] == [
        "value of in.account: it is missing, and has no default.",
        "value of in: 'x' (str) is not an object with fields.",
    ]


def test_a_body_that_fails_before_its_first_event_stops_the_program() -> None:
    async def body(stream: Any, seen: list[Any]) -> None:
        raise ValueError("no")

    program = Program("app")
    collecting(program, body, on_error="dead_letter")
    with pytest.raises(AgentError, match=r"The agent 'body' failed before its first event, at .*: ValueError: no"):
        LocalRun(program, Clock()).produce("in", [(None, 1, 0.0)])


def test_an_agent_may_await_what_takes_time() -> None:
    async def body(stream: Any, seen: list[Any]) -> None:
        async for value in stream:
            await asyncio.sleep(0)
            seen.append(value)

    program = Program("app")
    seen = collecting(program, body)
    LocalRun(program, Clock()).produce("in", [(None, n, 0.0) for n in range(3)])
    assert seen == [0, 1, 2]


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
    async def body(stream: Any, seen: list[Any]) -> None:
        async for n in stream:
            if n == 1:
                raise asyncio.CancelledError("by hand")
            if n == 3:
                work = asyncio.create_task(asyncio.sleep(0))
                work.cancel()
                await work
            seen.append(n)

    program = Program("app")
    seen = collecting(program, body, on_error="dead_letter")
    run = LocalRun(program, Clock())
    run.produce("in", [(None, n, 0.0) for n in range(5)])
    assert seen == [0, 2, 4]
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
    async def body(stream: Any, seen: list[Any]) -> None:
        async def through() -> None:
            async for n in stream:
                await asyncio.sleep(0)
                seen.append(n)

        seen.append("begin")
        asyncio.create_task(through())  # noqa: RUF006

    program = Program("app")
    seen = collecting(program, body)
    run = LocalRun(program, Clock())
    run.produce("in", [(None, n, 0.0) for n in range(3)])
    assert seen == ["begin", 0, 1, 2]


def test_work_that_never_ends_is_an_error_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def heartbeat() -> None:
        await asyncio.Event().wait()

    async def body(stream: Any, seen: list[Any]) -> None:
        async for n in stream:
            asyncio.create_task(heartbeat())  # noqa: RUF006
            seen.append(n)

    monkeypatch.setattr(_tasks, "LONGEST_SECONDS", 0.01)
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


# -- programs that cannot be right


@pytest.mark.parametrize(
    ("use", "why"),
    [
        (lambda app, agent, stream: stream.join(Order.account), "stream.join is not served. Keep .*in a table"),
        (lambda app, agent, stream: stream & stream, "stream.'&' is not served"),
        (lambda app, agent, stream: app.service(int), "app.service.'int'. is not served. .*@app.timer"),
        (lambda app, agent, stream: app.SetTable("s").tumbling(10), "Keep the sets in a windowed table: .*default=set"),
    ],
)
def test_what_faust_has_and_is_not_here_is_refused_by_name(use: Callable[..., Any], why: str) -> None:
    program = Program("app")

    @program.agent
    async def agent(stream: Any) -> None: ...

    with pytest.raises(faust.UnsupportedError, match=why):
        use(program, agent, program.topic("in").stream())


def test_what_a_program_is_made_of_is_checked_when_it_is_made() -> None:
    program = Program("app")
    program.Table("t")
    with pytest.raises(InvalidArgumentError, match="Two tables of the program 'app' are called 't'"):
        program.Table("t", window=TumblingWindow(10))
    with pytest.raises(InvalidArgumentError, match=r"topic\('a', ''\) is not the name of a topic"):
        program.topic("a", "")
    with pytest.raises(InvalidArgumentError, match="serializer='pickle' of the topic 'a' is not served"):
        program.topic("a", value_serializer="pickle")
    assert program.topic("in") is program.topic("in", value_type=str) is program.topic("in")
    with pytest.raises(InvalidArgumentError, match="'in' has value_type=<class 'str'>, and is given <class 'int'>"):
        program.topic("in", value_type=int)
    with pytest.raises(InvalidArgumentError, match=r"agent\(5\) is not given a topic"):
        program.agent(5)  # type: ignore[call-overload]
    with pytest.raises(InvalidArgumentError, match=r"The agent 'plain' is not a coroutine function"):

        @program.agent
        def plain(stream: Any) -> None:
            pass

    @program.agent
    async def twice(stream: Any) -> None:
        pass

    with pytest.raises(InvalidArgumentError, match="Two agents of the program 'app' are called 'twice'"):
        program.agent(twice.function)
    with pytest.raises(InvalidArgumentError, match="on_error='ignore' of the agent 'other' is neither"):
        program.agent(name="other", on_error="ignore")(twice.function)  # type: ignore[call-overload]
    with pytest.raises(InvalidArgumentError, match="interval=0 is not longer than nothing"):
        program.timer(0)


# -- random batches and shards


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(-50, 50), st.integers(0, 300)), max_size=40),
    st.lists(st.integers(0, 40), max_size=5),
    st.integers(2, 4),
)
def test_answers_are_the_same_in_any_batches_and_shards(
    events: list[tuple[str, int, int]], cuts: list[int], shards: int
) -> None:
    def make(app: Program) -> None:
        views = app.Table("views", default=int).hopping(30, 10, expires=0, key_index=True)
        totals = app.Table("totals", default=list)

        @app.agent(app.topic("in"))
        async def fold(stream: Any) -> Any:
            async for event in stream.group_by("k"):
                views[event["k"]] += event["n"]
                kept = totals[event["k"]]
                kept.append(views[event["k"]].value())
                totals[event["k"]] = kept

    def answers(n: int, edges: list[int]) -> Any:
        run, program, _ = run_of(make, n)
        for start, end in itertools.pairwise(edges):
            run.produce("in", [(None, {"k": k, "n": v}, float(at)) for k, v, at in events[start:end]])
        kept = run.read(lambda: program.tables["totals"].items())
        ranges = run.read(lambda: [(k, windowed(program, "views").windows_for_key(k)) for k in "abcdef"])
        return (
            sorted(item for items in kept for item in items),
            sorted((k, one) for items in ranges for k, ones in items for one in ones),
        )

    all_cuts = sorted({0, len(events), *(cut for cut in cuts if cut < len(events))})
    assert answers(shards, all_cuts) == answers(1, [0, len(events)])
