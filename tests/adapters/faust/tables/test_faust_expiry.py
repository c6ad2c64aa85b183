"""Expiry in Faust's windowed tables: ranges that expire, and events that are too late for them."""

from __future__ import annotations

from typing import Any

import pytest

import mullion.faust as faust
from mullion.faust import (
    Table,
    TumblingWindow,
)
from tests.support.faust.faust_shards import Shards


def test_a_range_goes_by_the_largest_time_and_is_handed_over_once() -> None:
    closed: list[Any] = []
    table = Table("t", default=int, on_window_close=lambda key, value: closed.append((key, value)))
    views = table.tumbling(10, expires=20, key_index=True)
    shards = Shards(table)
    for timestamp, key in ((-3.0, "a"), (5.0, "a"), (5.0, "b"), (19.9, "a"), (29.999, "c")):
        with shards.at(timestamp):
            views[key] += 1
    assert shards.shard.expire() == 1
    assert closed == [(("a", (-10.0, 0.0)), 1)]
    with shards.at(30.0):
        views["c"] += 1
        assert views.windows_for_key("a") == [((10.0, 20.0), 1)]
    shards.restarted()
    assert shards.shard.expire() == 2
    assert closed[1:] == [(("a", (0.0, 10.0)), 1), (("b", (0.0, 10.0)), 1)]
    assert shards.shard.expire() == 0
    with shards.timer():
        assert list(views.relative_to_timestamp(15.0).keys()) == ["a"]
    with shards.at(1000.0):
        views["z"] += 1
    assert shards.shard.expire() == 3
    # The last range, its key and its timer remain, and the clock.
    assert (len(shards.store), len(shards.store.timers)) == (3, 1)


def test_an_event_whose_ranges_have_all_gone_is_counted_and_not_applied() -> None:
    views = Table("views", default=int).hopping(10, 5, expires=10)
    shards = Shards(views.table)
    for timestamp in (100.0, 80.0, 92.0):
        with shards.at(timestamp):
            views["a"] += 1
    assert shards.shard.dropped == {"views": 1}
    with shards.timer():
        there = views.windows_for_key("a")
        assert [one.start for one, _ in there] == [85.0, 90.0, 95.0, 100.0]
        assert [value for _, value in there] == [1, 1, 1, 1]
    with shards.at(88.0):
        # [80, 90) has gone, [85, 95) has not.
        views["a"] += 1
        assert views.windows_for_key("a")[0] == ((85.0, 95.0), 2)
    assert shards.shard.dropped == {"views": 1}


def test_windows_can_be_expired_by_hand_and_say_how_many_went() -> None:
    closed: list[Any] = []
    table = Table("hourly", default=int, on_window_close=lambda key, value: closed.append(key))
    hourly = table.using_window(TumblingWindow(size=3600, expires=7200))
    shards = Shards(table)
    for timestamp in (0.0, 3600.0, 7200.0):
        with shards.at(timestamp):
            hourly["a"] += 1
    with shards.timer():
        assert hourly.expire_windows(10_799.0) == 0
        assert hourly.expire_windows(14_400.0) == 2
        assert hourly.expire_windows(14_400.0) == 0
    assert closed == [("a", (0.0, 3600.0)), ("a", (3600.0, 7200.0))]
    with shards.at(3599.0):
        hourly["a"] += 1
    assert shards.shard.dropped == {"hourly": 1}
    with shards.timer():
        assert hourly["a"].value() == 1, "the largest time applied is as it was"


def test_tables_of_one_shard_expire_by_their_own_clocks() -> None:
    one, other = Table("one", default=int).tumbling(10, 10), Table("other", default=int).tumbling(10, 10)
    shards = Shards(one.table, other.table)
    with shards.at(0.0):
        one["a"] += 1
        other["a"] += 1
    with shards.at(1000.0):
        one["b"] += 1
    assert shards.shard.expire() == 1
    with shards.at(20.0):
        other["b"] += 1
    assert shards.shard.expire() == 1
    shards.shard.advance(5_000_000_000)
    assert shards.shard.expire() == 2
    assert shards.store.timers == []


def test_a_window_close_may_be_a_coroutine_but_may_not_wait() -> None:
    closed = []

    async def on_close(key: Any, value: Any) -> None:
        closed.append(key)

    class Never:
        def __await__(self) -> Any:
            yield

    async def waits(key: Any, value: Any) -> None:
        await Never()

    for handler in (on_close, waits):
        views = Table("views", default=int, on_window_close=handler).tumbling(10, expires=10)
        shards = Shards(views.table)
        for timestamp in (0.0, 100.0):
            with shards.at(timestamp):
                views["a"] += 1
        if handler is waits:
            with pytest.raises(faust.UnsupportedError, match="waits for something outside of the program"):
                shards.shard.expire()
        else:
            assert shards.shard.expire() == 1
    assert closed == [("a", (0.0, 10.0))]
