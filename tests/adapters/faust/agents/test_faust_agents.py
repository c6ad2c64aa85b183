"""Faust's streams and what agents send, run in this process on a clock that tests move."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mullion.faust as faust
from mullion import InvalidArgumentError
from mullion.faust import TumblingWindow
from mullion.faust._program.program import Program
from mullion.faust.streams import Process
from tests.support.faust.faust_agent_runs import Order, collecting, run_of, windowed
from tests.support.faust.faust_shards import Clock
from tests.support.faust.local_run import AgentError, LocalRun


def test_a_stream_gives_values_events_or_items() -> None:
    async def values(stream: Any, received: list[Any]) -> None:
        async for value in stream:
            event = faust.current_event()
            assert event is not None
            received.append((value, event.key, event.timestamp, event.message.offset))

    async def events(stream: Any, received: list[Any]) -> None:
        async for event in stream.events():
            assert event == faust.current_event()
            received.append((event.value, event.key, event.timestamp, event.message.offset))

    async def items(stream: Any, received: list[Any]) -> None:
        async for key, value in stream.items():
            received.append((key, value))

    for body in (values, events, items):
        program = Program("app")
        received = collecting(program, body)
        run = LocalRun(program, Clock())
        run.produce("in", [("k", 1, 5.0), (None, 2, 4.0)])
        run.produce("in", [("k", 3, 6.0)])
        if body is items:
            assert received == [("k", 1), (None, 2), ("k", 3)]
        else:
            assert received == [(1, "k", 5.0, 0), (2, None, 4.0, 1), (3, "k", 6.0, 2)]


def test_group_by_sends_its_events_to_the_topic_that_it_is_given() -> None:
    async def key_of(value: Any) -> Any:
        return value["k"]

    for key in ("k", lambda value: value["k"], key_of):
        program = Program("app")
        counts, grouped = program.Table("counts", default=int), program.topic("grouped")

        @program.agent(program.topic("in"))
        async def first(stream: Any, key: Any = key, grouped: Any = grouped) -> None:
            async for event in stream.group_by(key, name="k", topic=grouped).events():
                assert event.key == event.value["k"]

        @program.agent(grouped)
        async def count(stream: Any, counts: Any = counts) -> None:
            async for value in stream:
                counts[value["k"]] += 1

        run = LocalRun(program, Clock())
        run.produce("in", [(None, {"k": "a"}, 0.0), ("x", {"k": "b"}, 0.0), (None, {"k": "a"}, 0.0)])
        assert run.read(counts.items) == [[("a", 2), ("b", 1)]]
        assert [(one.key, one.value) for one in run.published["grouped"]] == [(k, {"k": k}) for k in "aba"]
    with pytest.raises(InvalidArgumentError, match=r"group_by\(key, topic='grouped'\): the argument is not a topic"):
        Program("app").topic("in").stream().group_by("k", topic="grouped")


def test_noack_take_gives_events_and_streams_take_processors() -> None:
    async def body(stream: Any, received: list[Any]) -> None:
        async for events in stream.noack().noack_take(2, within=1):
            received.append([(event.key, event.value, event.ack()) for event in events])

    program = Program("app")
    received = collecting(program, body)
    LocalRun(program, Clock()).produce("in", [("k", 1, 0.0), (None, 2, 0.0), (None, 3, 0.0)])
    assert received == [[("k", 1, True), (None, 2, True)], [(None, 3, True)]]
    topic = program.topic("in")
    steps = topic.stream(processors=[str, len], enable_acks=False)._steps
    assert [step.function for step in steps if isinstance(step, Process)] == [str, len]
    with pytest.raises(TypeError, match=r"stream\(\) got an unexpected keyword argument 'processor'"):
        topic.stream(processor=str)
    with pytest.raises(faust.UnsupportedError, match=r"on_start= of the stream of 'in' is not supported. .*@app.task"):
        topic.stream(on_start=print)


def test_a_stream_can_be_filtered_and_grouped() -> None:
    async def is_large(value: Any) -> bool:
        return bool(value["n"] > 1)

    async def body(stream: Any, received: list[Any]) -> None:
        async for event in stream.filter(is_large).filter(lambda v: v["n"] != 4).group_by("name").events():
            current = faust.current_event()
            assert current is not None
            assert current.key == event.key
            received.append((event.key, event.value["n"]))

    program = Program("app")
    received = collecting(program, body)
    LocalRun(program, Clock(), shards=2).produce("in", [(None, {"name": "ab"[n % 2], "n": n}, 0.0) for n in range(6)])
    assert sorted(received) == [("a", 2), ("b", 3), ("b", 5)]


def test_events_are_taken_in_lists_that_end_with_the_batch() -> None:
    async def body(stream: Any, received: list[Any]) -> None:
        async for some in stream.filter(lambda n: n != 2).take(3, within=10):
            received.append(some)

    program = Program("app")
    received = collecting(program, body)
    run = LocalRun(program, Clock())
    run.produce("in", [(None, n, 0.0) for n in range(8)])
    run.produce("in", [(None, 8, 0.0)])
    assert received == [[0, 1, 3], [4, 5, 6], [7], [8]]


def test_what_a_stream_cannot_do_is_rejected() -> None:
    stream = Program("app").topic("in").stream()
    with pytest.raises(InvalidArgumentError, match=r"group_by\(5\) has no key"):
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
    with pytest.raises(InvalidArgumentError, match="stream of 'in' is read outside of an agent"):
        asyncio.run(go(stream))


def test_a_body_begins_anew_with_each_batch_and_is_closed_where_it_waits() -> None:
    async def body(stream: Any, calls: list[Any]) -> None:
        calls.append("begin")
        try:
            async for value in stream:
                calls.append(value)
            calls.append("never")
        finally:
            calls.append("closed")

    program = Program("app")
    calls = collecting(program, body)
    run = LocalRun(program, Clock())
    run.produce("in", [(None, n, 0.0) for n in range(2)])
    run.produce("in", [(None, 2, 0.0)])
    assert calls == ["begin", 0, 1, "closed", "begin", 2, "closed"]


def test_a_body_that_ends_by_itself_begins_anew_with_the_next_event() -> None:
    async def first(stream: Any, calls: list[Any]) -> None:
        async for value in stream:
            calls.append(value)
            break

    async def nothing(stream: Any, calls: list[Any]) -> None:
        calls.append("called")

    for body, expected in ((first, [0, 1, 2]), (nothing, ["called"])):
        program = Program("app")
        calls = collecting(program, body)
        LocalRun(program, Clock()).produce("in", [(None, n, 0.0) for n in range(3)])
        assert calls == expected


# -- what agents send


def test_what_an_agent_yields_goes_to_its_sinks() -> None:
    program, outputs = Program("app"), list[Any]()
    topic, doubled = program.topic("in"), program.topic("doubled")

    async def log(value: Any) -> None:
        outputs.append(("log", value))

    @program.agent()
    async def last(stream: Any) -> None:
        async for event in stream.events():
            outputs.append(("last", event.key, event.value, event.timestamp))

    @program.agent(topic, sink=[doubled, last, log, lambda value: outputs.append(("plain", value))])
    async def double(stream: Any) -> Any:
        async for value in stream:
            yield value * 2

    run = LocalRun(program, Clock(9.0))
    run.produce("in", [("k", 1, 5.0), ("l", 2, 6.0)])
    assert [(m.key, m.value, m.timestamp) for m in run.published["doubled"]] == [("k", 2, 9.0), ("l", 4, 9.0)]
    assert outputs == [
        *(("log", 2), ("plain", 2), ("log", 4), ("plain", 4)),
        *(("last", "k", 2, 9.0), ("last", "l", 4, 9.0)),
    ]


def test_agents_and_topics_can_be_sent_messages_from_agents_timers_and_tasks() -> None:
    program, received = Program("app"), []
    out = program.topic("out", value_type=Order)

    @program.agent
    async def receive(stream: Any) -> None:
        async for value in stream:
            received.append(value)
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
    assert received == ["task", "task 2"]
    run_clock.us += 25_000_000
    run.tick()
    run.tick()
    assert received[2:] == ["timer"]
    run_clock.us += 5_000_000
    run.tick()
    assert received[3:] == ["timer"]
    run.produce("app-receive", [(None, "again", 0.0)])
    assert received[4:] == ["again", "once more"]
    assert [(m.value, m.timestamp) for m in run.published["out"]] == [({"account": "a", "amount": 1.5}, 3.0)] * 2
    assert [m.timestamp for m in run.published["app-receive"]] == [100.0, 100.0, 125.0, 130.0, 0.0, 130.0]


def test_nothing_can_be_sent_where_no_program_runs_or_that_json_cannot_hold() -> None:
    program = Program("app")
    out = program.topic("out")
    with pytest.raises(faust.OutsideStreamError, match=r"A message was sent to 'out' outside of a running program"):
        out.send(value=1)

    async def body(stream: Any, received: list[Any]) -> None:
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


# -- programs that cannot be right


@pytest.mark.parametrize(
    ("use", "why"),
    [
        (lambda app, agent, stream: stream.join(Order.account), "stream.join is not supported. Store .*in a table"),
        (lambda app, agent, stream: stream & stream, "stream.'&' is not supported"),
        (lambda app, agent, stream: app.service(int), "app.service.'int'. is not supported. .*@app.timer"),
        (lambda app, agent, stream: app.SetTable("s").tumbling(10), "Keep the sets in a windowed table: .*default=set"),
    ],
)
def test_what_faust_has_and_is_not_here_is_rejected_by_name(use: Callable[..., Any], why: str) -> None:
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
    with pytest.raises(InvalidArgumentError, match="serializer='pickle' of the topic 'a' is not supported"):
        program.topic("a", value_serializer="pickle")
    assert program.topic("in") is program.topic("in", value_type=str) is program.topic("in")
    with pytest.raises(
        InvalidArgumentError, match="'in' has value_type=<class 'str'>, and another call sets <class 'int'>"
    ):
        program.topic("in", value_type=int)
    with pytest.raises(InvalidArgumentError, match=r"agent\(5\): the argument is not a topic"):
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
    with pytest.raises(InvalidArgumentError, match="interval=0 must be longer than zero"):
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
                values = totals[event["k"]]
                values.append(views[event["k"]].value())
                totals[event["k"]] = values

    def answers(n: int, edges: list[int]) -> Any:
        run, program, _ = run_of(make, n)
        for start, end in itertools.pairwise(edges):
            run.produce("in", [(None, {"k": k, "n": v}, float(at)) for k, v, at in events[start:end]])
        items_by_shard = run.read(lambda: program.tables["totals"].items())
        ranges = run.read(lambda: [(k, windowed(program, "views").windows_for_key(k)) for k in "abcdef"])
        return (
            sorted(item for items in items_by_shard for item in items),
            sorted((k, one) for items in ranges for k, ones in items for one in ones),
        )

    all_cuts = sorted({0, len(events), *(cut for cut in cuts if cut < len(events))})
    assert answers(shards, all_cuts) == answers(1, [0, len(events)])
