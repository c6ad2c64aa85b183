# mypy: disable-error-code="untyped-decorator, import-untyped, attr-defined, arg-type"
"""Programs as people write them for Faust: each gives the answers that follow by hand, in this process."""

from __future__ import annotations

from typing import Any

import pytest

import mullion.faust as faust
from mullion import InvalidArgumentError, UnsupportedError
from mullion.faust._program.program import Program
from mullion.faust.agents import ReqRepResponse
from mullion.faust.streams import GroupBy
from tests.support.faust.local_run import LocalRun
from tests.support.faust.programs import faust_people as people
from tests.support.faust.programs.faust_people_runs import Clock, items, published, run_of

pytestmark = pytest.mark.filterwarnings("error")


def produced(run: LocalRun, topic: str, *values: Any, key: Any = None) -> None:
    run.produce(topic, [(key, value, float(at)) for at, value in enumerate(values)])


def test_agents_send_to_agents_that_have_types_of_their_own() -> None:
    app, run = run_of(people.words)
    produced(run, "posts", "the fox", "the dog")
    assert items(app, run, "counts") == {"the": 2, "fox": 1, "dog": 1}


def test_sets_keep_added_and_discarded_values() -> None:
    app, run = run_of(people.people)
    produced(run, "joining", "ann", "bob", "ann", key="here")
    produced(run, "leaving", "bob", "eve", key="here")
    assert items(app, run, "people") == {"here": {"ann"}}


def test_a_table_of_sets_has_what_sets_have() -> None:
    app = faust.App("sets", broker="dir:/nowhere")
    table = app.SetTable("s")

    @app.agent(app.topic("in"))
    async def change(stream: Any) -> None:
        async for how, values in stream:
            members = table["k"]
            if how == "|":
                table["k"] |= set(values)
            else:
                getattr(members, how)(values)
            print(sorted(members), len(members), 1 in members, sorted(members | {9}))

    run = LocalRun(app, Clock())
    ours: set[int] = set()
    for how, values in [
        ("update", [1, 2, 3, 4]),
        ("difference_update", [4]),
        ("intersection_update", [1, 2, 9]),
        ("symmetric_difference_update", [2, 5]),
        ("|", [7]),
    ]:
        produced(run, "in", [how, values])
        ours = ours | set(values) if how == "|" else ours
        if how != "|":
            getattr(ours, how)(values)
        assert items(app, run, "s") == {"k": ours}
    assert run.read(lambda: table.get("none", 0)) == [0]


def test_agents_answer_what_they_are_asked(capsys: pytest.CaptureFixture[str]) -> None:
    _, run = run_of(people.questions)
    run.clock.us = 10_000_000
    run.tick()
    assert capsys.readouterr().out == "[400.0, 900.0] [1600.0]\n[2500.0] 3600.0\n"
    produced(run, "squares", 1.0)


def test_a_request_without_a_reply_raises_an_error_and_is_undone() -> None:
    app = faust.App("asks", broker="dir:/nowhere")
    counts = app.Table("kept", default=int)

    @app.agent()
    async def silent(stream: Any) -> None:
        async for value in stream:
            counts[value] += 1

    @app.agent(app.topic("in"), on_error="dead_letter")
    async def ask(stream: Any) -> None:
        async for value in stream:
            await silent.ask(value)

    run = LocalRun(app, Clock())
    produced(run, "in", "a")
    assert "was asked for an answer to 'a' and yielded none" in run.dead_letters[0].reason
    # What the one that was asked did belongs to the event that asked, and is undone with it.
    assert items(app, run, "kept") == {}

    @app.timer(1)
    async def tick() -> None:
        print(len(counts), await silent.ask("a"))

    other = LocalRun(app, Clock())
    other.clock.us = 1_000_000
    with pytest.raises(UnsupportedError, match="was asked where the records of one shard are"):
        other.tick()
    with pytest.raises(InvalidArgumentError, match=r"reply_to=5 .int. is no topic, no agent and no name of a topic"):
        silent.send(value=1, reply_to=5)
    with pytest.raises(InvalidArgumentError, match=r"correlation_id='x' .*reply_to= is missing"):
        silent.send(value=1, correlation_id="x")


def test_a_reply_is_sent_to_reply_to_with_the_key_and_the_identifier() -> None:
    app = Program("people")
    replies = app.topic("replies", value_type=ReqRepResponse)
    got = []

    @app.agent(value_type=int)
    async def double(stream: Any) -> Any:
        async for value in stream:
            yield 2 * value

    @app.agent(app.topic("in", value_type=int))
    async def ask(stream: Any) -> None:
        async for value in stream:
            await double.send(key="k", value=value, reply_to=replies, correlation_id=f"of {value}")
            got.append(await double.ask(value + 1, reply_to="replies"))
            got.append([one async for one in double.map([5], reply_to=replies)])
            await double.send(value=100)

    @app.agent(replies)
    async def take(stream: Any) -> None:
        async for answer in stream:
            got.append((answer.key, answer.value, answer.correlation_id))

    run = LocalRun(app, Clock())
    produced(run, "in", 3)
    assert got[:3] == [8, [10], ("k", 6, "of 3")]
    (second, third) = got[3:]
    assert (second[:2], third[:2]) == ((None, 8), (None, 10))
    assert len({second[2], third[2], "of 3"}) == 3
    assert [message.value["value"] for message in run.published["replies"]] == [6, 8, 10]


def test_an_agent_of_a_pattern_goes_through_all_topics_that_match() -> None:
    app = Program("people")
    counts = app.Table("counts", default=int)
    total = app.topic("total")

    @app.agent(app.topic(pattern=r"orders-\w\w", value_type=int), sink=[total])
    async def count(stream: Any) -> Any:
        async for value in stream:
            counts["all"] += value
            yield counts["all"]

    run = LocalRun(app, Clock())
    sent = {"orders-eu": 1, "orders-us": 2, "orders-": 4, "people-orders-eu": 8}
    for topic, value in (*sent.items(), ("orders-eu", 16)):
        produced(run, topic, value)
    assert sorted(app.agents) == ["count@orders-eu", "count@orders-us"]
    assert published(run, "total") == [1, 3, 19]
    with pytest.raises(InvalidArgumentError, match=r"topics that match 'x\.\*', and a message is for one"):
        app.topic(pattern="x.*").send(value=1)
    with pytest.raises(InvalidArgumentError, match=r"topic\('a', pattern='b'\) has names and a pattern"):
        app.topic("a", pattern="b")
    with pytest.raises(InvalidArgumentError, match=r"pattern='\(' is not a regular expression: .*orders"):
        app.topic(pattern="(")


def test_channels_need_no_names_and_agents_may_be_bound() -> None:
    _, run = run_of(people.stages)
    produced(run, "adding", {"x": 2, "y": 1}, {"x": 0, "y": 7})
    assert published(run, "told") == ["first: 7"]
    assert published(run, "people-channel-2") == [{"x": 5, "y": 1}]


def test_a_bare_agent_gets_the_records_that_it_is_sent(capsys: pytest.CaptureFixture[str]) -> None:
    _, run = run_of(people.untyped)
    run.clock.us = 1_000_000
    run.tick()
    assert capsys.readouterr().out == "5\n"


def test_events_may_be_made_others_and_go_through_a_topic() -> None:
    _, run = run_of(people.scores)
    produced(run, "clicks", {"page": "/", "at": 3})
    assert published(run, "scored") == [{"page": "/", "at": 3, "score": 6}] == published(run, "seen")
    assert run.published["scored"][0].key == "/"
    with pytest.raises(TypeError, match="lacks the field 'at'"):
        people.Click("a")  # type: ignore[call-arg]
    assert repr(people.Click("a", 1)) == "<Click: page='a', at=1, score=0>"


def test_raw_values_are_bytes_or_text_as_they_are() -> None:
    _, run = run_of(people.raw)
    produced(run, "bytes", '{"a": 1}', {"b": 2})
    produced(run, "text", "hello", '"quoted"', key='{"k": [1]}')
    assert published(run, "made") == [
        '{"got": {"a": 1}}',
        '{"got": {"b": 2}}',
        "{'k': [1]}: hello",
        "{'k': [1]}: \"quoted\"",
    ]
    assert run.published["made"][0].key == "k"
    produced(run, "text", "hello", key="{no json")
    assert "is not JSON" in run.dead_letters[0].reason


def test_lists_of_records_are_made_one_when_their_window_closes() -> None:
    _, run = run_of(people.means)
    produced(run, "readings", *({"date": at, "value": at / 2} for at in (1, 2, 9, 12)))
    assert published(run, "means") == [{"count": 3, "mean": 2.0, "since": 0.0}]
    # One that is too late for its range is not among those that are kept, nor seen after it was written.
    produced(run, "readings", {"date": 25, "value": 0.0}, {"date": 3, "value": 100.0}, {"date": 45, "value": 1.0})
    assert published(run, "means") == [
        {"count": 3, "mean": 2.0, "since": 0.0},
        {"count": 1, "mean": 6.0, "since": 10.0},
        {"count": 1, "mean": 0.0, "since": 20.0},
    ]


def test_values_appended_after_a_write_or_too_late_are_not_stored() -> None:
    app = faust.App("late", broker="dir:/nowhere")
    plain = app.Table("plain", default=list)
    late = app.Table("late", default=list).tumbling(10, expires=10)

    @app.agent(app.topic("in"))
    async def keep(stream: Any) -> None:
        async for value in stream:
            values = plain["k"]
            values.append(value)
            plain["k"] = values
            values.append("unseen")
            print(plain["k"])
            there = late["k"].value()
            there.append(value)
            late["k"] = there
            there.append("unseen")
            print(late["k"].value())

    run = LocalRun(app, Clock())
    with pytest.warns(faust.ForgottenChangeWarning):
        run.produce("in", [(None, 1, 100.0)])
    assert items(app, run, "plain") == {"k": [1]}
    # Of a line it is warned once.
    run.produce("in", [(None, 2, 5.0)])
    assert items(app, run, "plain") == {"k": [1, 2]}
    assert run.read(lambda: late["k", 5.0]) == [[]]


def test_a_late_value_is_not_shown_after_its_write(capsys: pytest.CaptureFixture[str]) -> None:
    app = faust.App("late", broker="dir:/nowhere")
    late = app.Table("late", default=list).tumbling(10, expires=10)

    @app.agent(app.topic("in"))
    async def keep(stream: Any) -> None:
        async for value in stream:
            there = late["k"].value()
            there.append(value)
            late["k"] = there
            print(late["k"].value())

    run = LocalRun(app, Clock())
    run.produce("in", [(None, 1, 100.0), (None, 2, 5.0), (None, 3, 101.0)])
    assert capsys.readouterr().out == "[1]\n[]\n[1, 3]\n"


def test_a_table_may_be_relative_to_a_field_of_a_record_in_a_record(capsys: pytest.CaptureFixture[str]) -> None:
    _, run = run_of(people.logins)
    produced(run, "logins", *({"id": "x", "data": {"time": at, "who": 1}} for at in (1.0, 29.0, 31.0)))
    assert capsys.readouterr().out == "user:1 1\nuser:1 2\nuser:1 1\n"
    nested = people.Login.data.time
    assert (nested.ident, nested.path, nested.type) == ("Login.data.time", ("data", "time"), float)
    assert GroupBy(nested).of(people.Login("x", people.Place(5.0, 1))) == 5.0
    with pytest.raises(AttributeError, match=r"Login.data has no field 'nowhere'"):
        _ = people.Login.data.nowhere


def test_tables_with_other_constant_keys_are_in_one_shard() -> None:
    app, run = run_of(people.sales)
    produced(run, "sales", {"x": 2, "y": 5}, {"x": 1, "y": 3})
    assert run.read(lambda: (app.tables["amount"].window, len(list(run.program.tables)))) != []
    assert "one shard, because its tables are of 'amount_1min'" in str(app.explain())


def test_an_agent_may_read_several_topics() -> None:
    app, run = run_of(people.rides)
    produced(run, "yellow", {"page": "a", "at": 1}, {"page": "b", "at": 1})
    produced(run, "green", {"page": "a", "at": 1})
    assert items(app, run, "rides") == {"a": 2, "b": 1}


def test_a_global_table_is_seen_whole_for_its_program_is_in_one_shard(capsys: pytest.CaptureFixture[str]) -> None:
    app, run = run_of(people.everywhere)
    produced(run, "naming", {"x": 1, "y": 5})
    produced(run, "asking", 1, 2)
    assert capsys.readouterr().out == "1 n5\n2 \n"
    assert str(app.explain()).count("one shard, because it uses a table that is global") == 2


def test_a_changelog_topic_is_sent_what_a_table_is_given() -> None:
    app, run = run_of(people.stations)
    produced(run, "raw-stations", {"x": 1, "y": 0}, {"x": 1, "y": 2})
    assert [(one.key, one.value["page"]) for one in run.published["changes"]] == [(1, "blue"), (1, "red")]
    assert items(app, run, "stations") == {1: people.Click("red", 2)}
    table = app.Table("windowed", default=int, changelog_topic=app.topic("changes"))
    with pytest.raises(UnsupportedError, match="changelog_topic= of the windowed table 'windowed' is not supported"):
        table.tumbling(10)


def test_a_crontab_is_called_at_its_times(capsys: pytest.CaptureFixture[str]) -> None:
    _, run = run_of(people.morning)
    for hours in (8, 9, 10, 32, 33):
        run.clock.us = hours * 3_600_000_000
        run.tick()
    assert capsys.readouterr().out == "good morning\n" * 2


def test_sends_of_what_cannot_be_sent_are_rejected() -> None:
    app = faust.App("sends", broker="dir:/nowhere")
    raw = app.topic("made", value_serializer="raw")

    @app.agent(app.topic("in"), on_error="dead_letter")
    async def send(stream: Any) -> None:
        async for value in stream:
            if value == 1:
                await raw.send(value=b"\xff")
            await app.topic("json").send(value=b"{no json", key=b"\xff" if value == 2 else None)

    run = LocalRun(app, Clock())
    produced(run, "in", 1, 2, 3)
    reasons = " ".join(letter.reason for letter in run.dead_letters)
    assert "are not text in UTF-8" in reasons
    assert "is not text in UTF-8, which keys of topics are" in reasons
    assert "are not JSON" in reasons
