"""The agents of Faust's documents, run in this process on a clock that tests move."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from typing import Any

import pytest

import mullion.faust as faust
from tests.support.faust.faust_agent_runs import run_of, windowed
from tests.support.faust.programs import faust_programs as programs


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
    # A bare agent receives the messages sent to it. The field that it groups by has their type.
    run.produce("app-process_withdrawal" if make is programs.by_country else "withdrawals", WITHDRAWALS)
    totals = run.read(lambda: windowed(program, "country_to_total").windows_for_key("AT"))
    assert [one for one in totals if one] == [[((0.0, 10.0), 12.0), ((10.0, 20.0), 2.0)]]
    if make is programs.rightly_sharded:
        by_user = run.read(lambda: program.tables["user_to_total"].items())
        assert sorted(item for items in by_user for item in items) == [("u1", 6.0), ("u2", 7.0), ("u3", 2.0)]


def test_tables_that_are_not_sharded_as_the_stream_have_their_totals_in_pieces() -> None:
    run, program, _ = run_of(programs.wrongly_sharded, 3)
    run.produce("withdrawals", WITHDRAWALS)
    totals = run.read(lambda: windowed(program, "country_to_total").windows_for_key("AT"))
    assert len([one for one in totals if one]) > 1


def test_assigned_values_are_stored_and_others_cause_a_warning() -> None:
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


def test_a_read_after_a_write_returns_the_value_of_the_event(capsys: pytest.CaptureFixture[str]) -> None:
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
    assert capsys.readouterr().out.split() == ["1", "0", "1", "0", "2", "0", "2", "0", "1", "1", "2", "0"]


def test_keys_values_and_items_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    run, _, _ = run_of(programs.iterated, now=40.0)
    run.produce("pages", [(None, "/a", 10.0), (None, "/b", 12.0)])
    assert capsys.readouterr().out.splitlines() == [
        *("['/a']", "[('/a', 1)]", "[1]", "[]", "[('/a', 1)]"),
        *("['/a', '/b']", "[('/a', 1), ('/b', 1)]", "[1, 1]", "[]", "[('/a', 1), ('/b', 1)]"),
    ]
