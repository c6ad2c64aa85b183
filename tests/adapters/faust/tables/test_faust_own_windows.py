"""Faust's sliding tables, sessions, and windows of a user's own."""

from __future__ import annotations

from typing import Any

import pytest

import mullion.faust as faust
from mullion.faust import (
    SlidingWindow,
    Table,
)
from tests.support.faust.faust_shards import Shards
from tests.support.faust.programs.faust_table_examples import NOON, BusinessHoursWindow

# -- sliding, and sessions


def test_a_sliding_table_folds_what_happened_about_the_time_that_is_read() -> None:
    recent = Table("recent", default=int).using_window(SlidingWindow(before=10, after=5), key_index=True)
    shards = Shards(recent.table)
    for timestamp, n in ((100.0, 1), (104.0, 2), (110.0, 4), (97.0, 8)):
        with shards.at(timestamp):
            recent["a"] += n
    with shards.at(102.0):
        assert recent["a"].value() == 1 + 2 + 8
        assert recent["a"].delta(2) == 1 + 2 + 8
        assert recent[("a", 110.0)] == 1 + 2 + 4
        assert recent.get_window("a", (110.0, 110.0)) == 4
        assert recent["a"].delta(60) == 0
        assert list(recent.items()) == [("a", 11)]
        assert recent.windows_for_key("a") == [
            ((87.0, 102.0), 9),
            ((90.0, 105.0), 11),
            ((94.0, 109.0), 11),
            ((100.0, 115.0), 7),
        ]
        recent["a"] *= 2
        assert recent["a"].value() == ((8 + 1) * 2 + 2)
        recent.set_window("a", (91.0, 106.0), 50)
        assert recent[("a", 101.0)] == (50 * 2 + 2)
        del recent["a"]
        assert recent[("a", 102.0)] == 50 + 2


def test_what_a_sliding_table_was_given_goes_when_no_open_range_can_hold_it() -> None:
    closed: list[Any] = []
    table = Table("recent", default=int, on_window_close=lambda key, value: closed.append((key, value)))
    recent = table.using_window(SlidingWindow(before=10, after=5), key_index=True)
    assert recent.window.expires == 75
    shards = Shards(table)
    for timestamp, n in ((100.0, 1), (104.0, 2), (108.0, 4), (179.0, 8), (180.0, 16), (99.0, 32)):
        with shards.at(timestamp):
            recent["a"] += n
    assert shards.shard.dropped == {"recent": 1}
    assert shards.shard.expire() == 1
    assert closed == [(("a", (90.0, 105.0)), 3)]
    with shards.at(300.0):
        recent["b"] += 1
    assert shards.shard.expire() == 4
    assert closed[1:] == [
        (("a", (94.0, 109.0)), 7),
        (("a", (98.0, 113.0)), 7),
        (("a", (169.0, 184.0)), 24),
        (("a", (170.0, 185.0)), 24),
    ]
    shards.shard.advance(10**12)
    assert shards.shard.expire() == 1
    shards.shard.advance(2 * 10**12)
    shards.shard.expire()
    assert (len(shards.store), shards.store.timers) == (1, [])


def test_a_session_is_tracked_as_documented() -> None:
    sessions = Table(
        "user-sessions",
        default=lambda: {"start_time": None, "last_activity": None, "events": []},
    ).using_window(SlidingWindow(before=1800, after=0))
    shards = Shards(sessions.table)
    values = []
    for timestamp in (1000.0, 1500.0, 3300.0, 3301.0, 9000.0):
        with shards.at(timestamp):
            session = sessions["u"]
            if session["last_activity"] is None or timestamp - session["last_activity"] > 1800:
                session["start_time"] = timestamp
                session["events"] = []
            session["last_activity"] = timestamp
            session["events"].append(timestamp)
            sessions["u"] = session
            values.append(sessions["u"].value())
    assert [(one["start_time"], one["events"]) for one in values] == [
        (1000.0, [1000.0]),
        (1000.0, [1000.0, 1500.0]),
        (1000.0, [1000.0, 1500.0, 3300.0]),
        (1000.0, [1000.0, 1500.0, 3300.0, 3301.0]),
        (9000.0, [9000.0]),
    ]


OPENING = NOON - 3 * 3600


def test_an_event_of_no_range_changes_nothing_and_reads_the_default() -> None:
    metrics = Table("metrics", default=int).using_window(BusinessHoursWindow(), key_index=True)
    shards = Shards(metrics.table)
    with shards.at(NOON):
        metrics["m"] += 1
        assert metrics.windows_for_key("m") == [((OPENING, OPENING + 8 * 3600), 1)]
    with shards.at(NOON + 8 * 3600):
        metrics["m"] += 1
        metrics["m"] = 5
        assert metrics["m"].value() == 0
        assert metrics["m"].delta(8 * 3600) == 1
        assert list(metrics.items()) == []
        with pytest.raises(RuntimeError, match="no windowed table"):
            faust.current_window()
    assert shards.shard.dropped == {}
    assert shards.store.timers == []


def test_a_window_of_ones_own_expires_by_its_own_rule() -> None:
    closed: list[Any] = []
    table = Table("metrics", default=int, on_window_close=lambda key, value: closed.append(key[1]))
    metrics = table.using_window(BusinessHoursWindow(expires=3600))
    shards = Shards(table)
    day = 86_400.0
    for timestamp in (NOON, NOON + day - 4 * 3600, NOON + day - 3 * 3600 + 3599, NOON + day - 3 * 3600 + 3600):
        with shards.at(timestamp):
            metrics["m"] += 1
        shards.shard.expire()
    # It was stale once the time an hour before was past its end: in the night, when nothing was applied, and then
    # when the next day's hours had begun an hour ago.
    assert closed == [(OPENING, OPENING + 8 * 3600)]
