"""Faust's tables by window: reads, operators and keys, over a store in memory."""

from __future__ import annotations

import operator
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import mullion.faust as faust
from mullion import InvalidArgumentError
from mullion.faust import (
    HoppingWindow,
    Table,
    TumblingWindow,
    WindowedTable,
    WindowRange,
)
from mullion.faust.tables.operations import NAMED
from tests.support.faust.faust_shards import Shards
from tests.support.faust.programs.faust_table_examples import NOON, Account, BusinessHoursWindow

# -- windowed tables


def test_an_operator_touches_every_range_of_the_event_and_a_read_is_of_the_one_that_starts_last() -> None:
    views = Table("views", default=int).hopping(10, 5)
    with Shards(views.table).at(7.0) as event:
        views["/"] += 1
        views["/"] += 2
        assert views.windows_for_key("/") == [((0.0, 10.0), 3), ((5.0, 15.0), 3)]
        assert views["/"].value() == views["/"].current() == views["/"].current(event) == views["/"][event].value() == 3
        assert views.get("/") == 3
        assert "/" in views
        assert "other" not in views
        assert views["other"].value() == 0
        assert views.windows_for_key("other") == []


@pytest.mark.parametrize(("symbol", "operation"), sorted(NAMED.items()))
def test_every_operator_in_place_is_applied_to_each_range(symbol: str, operation: Callable[[Any, Any], Any]) -> None:
    table = Table("t", default=lambda: 7).hopping(10, 5)
    with Shards(table.table).at(7.0):
        table.set_window("k", (0.0, 10.0), 12)
        exec(f"table['k'] {symbol}= 2", {"table": table})
        assert table.windows_for_key("k") == [((0.0, 10.0), operation(12, 2)), ((5.0, 15.0), operation(7, 2))]
        table["k"].apply(max, 1000)
        assert [value for _, value in table.windows_for_key("k")] == [1000, 1000]
        table["k"].apply(operator.add, 1)
        assert [value for _, value in table.windows_for_key("k")] == [1001, 1001]


def test_assigning_a_value_overwrites_every_range_of_the_event() -> None:
    table = Table("t", default=int).hopping(10, 5)
    shards = Shards(table.table)
    with shards.at(7.0):
        table["k"] += 5
    with shards.at(12.0):
        table["k"] = 1
        table["other"] = table["k"]
        assert table.windows_for_key("k") == [((0.0, 10.0), 5), ((5.0, 15.0), 1), ((10.0, 20.0), 1)]
        assert table["other"].value() == 1
        del table["k"]
        assert table.windows_for_key("k") == [((0.0, 10.0), 5)]


def test_now_current_value_and_delta_read_the_ranges_of_their_times() -> None:
    views = Table("views", default=int).tumbling(60, expires=timedelta(hours=1))
    shards = Shards(views.table, now=1000.0)
    for timestamp, n in ((0.0, 1), (30.0, 2), (60.0, 4), (1010.0, 8), (120.0, 16)):
        with shards.at(timestamp):
            views["/"] += n
    with shards.at(125.0):
        assert views["/"].now() == 8
        assert views["/"].current() == views["/"].value() == 16
        assert views["/"].delta(30) == views["/"].delta(timedelta(minutes=1)) == 4
        assert views["/"].delta(timedelta(minutes=2)) == 3
        assert views["/"].delta(9999) == 0
        assert views.relative_to_now()["/"].value() == 8
        assert views.relative_to_now()["/"].current() == 16
        assert views.relative_to_now().relative_to_stream()["/"].value() == 16
        assert views.relative_to_timestamp(59.0)["/"].value() == views.relative_to(59.0).get("/") == 3
    with shards.timer():
        # The largest time that has been applied, for there is no event.
        assert views["/"].value() == views["/"].current() == views.get("/") == 8
        shards.clock.us = 60_000_000
        assert views["/"].now() == 4


def test_current_and_delta_are_of_the_event_whatever_a_table_is_relative_to() -> None:
    table = Table("views", default=int).tumbling(10, expires=1000, key_index=True)
    table = table.relative_to_field("at")
    shards = Shards(table.table)
    results = []
    for at in (5.0, 6.0, 105.0, 7.0):
        with shards.at(100.0, {"at": at}):
            table["k"] += 1
            items = table.items()
            of_event = (table["k"].current(), table["k"].delta(10), list(items.current()), list(items.delta(95)))
            results.append((table["k"].value(), table["k"].now(), dict(items), *of_event))
    first, second, third, fourth = results
    assert first == (1, 1, {"k": 1}, 0, 0, [], [("k", 1)])
    assert second == (2, 2, {"k": 2}, 0, 0, [], [("k", 2)])
    assert third == (1, 2, {"k": 1}, 1, 0, [("k", 1)], [("k", 2)])
    assert fourth == (3, 3, {"k": 3}, 1, 0, [("k", 1)], [("k", 3)])


def test_a_table_relative_to_a_field_is_read_and_applied_at_the_time_in_it() -> None:
    table = Table("made", default=int).tumbling(60)
    by_field, by_item = table.relative_to_field(Account.created), table.relative_to_field("at")  # type: ignore[arg-type]
    shards = Shards(table.table)
    with shards.at(1000.0, Account("a", datetime(1970, 1, 1, 0, 1, tzinfo=UTC))):
        by_field["a"] += 1
        assert by_field["a"].value() == 1
        assert table["a"].value() == 0
        assert table["a"].delta(940) == 1
    for at in (61.0, "1970-01-01T00:01:01Z", datetime(1970, 1, 1, 0, 1, 1)):
        with shards.at(1000.0, {"at": at}):
            by_item["a"] += 1
    with shards.timer():
        assert table.windows_for_key("a") == [((60.0, 120.0), 4)]
    with pytest.raises(InvalidArgumentError, match=r"Account\.created, which the event <Account.* does not"):  # noqa: SIM117
        with shards.at(1.0, Account("a")):
            by_field["a"] += 1
    with pytest.raises(InvalidArgumentError, match=r"'at'='soon', which the table .* is not a time"):  # noqa: SIM117
        with shards.at(1.0, {"at": "soon"}):
            by_item["a"] += 1
    with pytest.raises(InvalidArgumentError, match=r"relative_to_field\(5\) is not a field"):
        table.relative_to_field(5)  # type: ignore[arg-type]


def test_a_key_and_a_timestamp_are_the_value_at_that_time() -> None:
    table = WindowedTable(Table("t", default=int), HoppingWindow(10, 5), key_index_size=100)
    with Shards(table.table).at(100.0):
        table[("k", 97.0)] = 5
        assert table[("k", 97.0)] == table[("k", 96)] == table.get(("k", 96)) == 5
        assert table.windows_for_key("k") == [((90.0, 100.0), 5), ((95.0, 105.0), 5)]
        table[("k", 97.0)] += 1
        assert table.get_window("k", (90.0, 100.0)) == table["k"][WindowRange(90.0, 100.0)] == 6
        table.set_window("k", (90.0, 100.0), 1)
        table["k"][WindowRange(95.0, 105.0)] = 2
        assert table.windows_for_key("k") == [((90.0, 100.0), 1), ((95.0, 105.0), 2)]
        assert table.get_window("k", (0.0, 10.0)) == 0
        assert ("k", 99.0) in table
        assert ("k", 300.0) not in table
        del table["k"][WindowRange(95.0, 105.0)]
        del table[("k", 93.0)]
        assert table.windows_for_key("k") == []
        assert list(table.keys()) == []
    assert table.window == HoppingWindow(10, 5)
    assert table.table.name == table.name == "t"


def test_pairs_are_keys_if_the_table_defines_them() -> None:
    table = Table("t", default=int, key_type=tuple).tumbling(10)
    plain = Table("p", default=int).tumbling(10)
    with Shards(table.table, plain.table).at(100.0):
        table[("AA", 5)] += 1
        plain[("AA", "5")] += 1
        assert table[("AA", 5)].value() == 1
        assert plain[("AA", "5")].value() == 1


def test_a_table_has_one_window() -> None:
    table = Table("t", default=int)
    assert table.tumbling(10).window == table.using_window(TumblingWindow(10)).window
    with pytest.raises(
        InvalidArgumentError, match=r"'t' has the window TumblingWindow\(10\), and cannot have HoppingWindow"
    ):
        table.hopping(10, 5)
    with pytest.raises(InvalidArgumentError, match=r"window='10 s' .* is not a window"):
        Table("u").using_window("10 s")  # type: ignore[arg-type]


# -- which keys there are


def test_keys_values_and_items_are_those_of_a_time() -> None:
    views = Table("views", default=int).hopping(10, 5, expires=timedelta(minutes=10), key_index=True)
    shards = Shards(views.table, now=42.0)
    for timestamp, page in ((1.0, "a"), (12.0, "b"), (31.0, "a"), (41.0, "c")):
        with shards.at(timestamp):
            views[page] += 1
    with shards.at(33.0):
        assert list(views.keys()) == list(views) == ["a"]
        assert list(views.items()) == [("a", 1)]
        assert list(views.values()) == [1]
        assert len(views) == len(views.items()) == 1
        assert "a" in views.keys()  # noqa: SIM118
        assert list(views.items().now()) == list(views.relative_to_now().items()) == [("c", 1)]
        assert list(views.relative_to_now().items().delta(30.0)) == [("b", 1)]
        assert list(views.items().delta(timedelta(seconds=20))) == [("b", 1)]
        assert list(views.keys().current()) == ["a"]
        assert views.keys() | {"x"} == {"a", "x"}
        assert views.keys() & {"a", "x"} == {"a"}
        assert repr(views.items()) == "<items of views>"
    with shards.timer():
        assert list(views.items()) == [("c", 1)]
        assert views.relative_to_timestamp(1.0).get("a") == 1
    fresh = Shards(views.table)
    with fresh.timer():
        assert list(views.items()) == []


def test_keys_are_not_known_without_an_index() -> None:
    views = Table("views", default=int).tumbling(10)
    with Shards(views.table).at(1.0):
        views["a"] += 1
        for view in (views.keys(), views.values(), views.items()):
            with pytest.raises(InvalidArgumentError, match=r"'views' cannot be listed.*key_index=True"):
                list(view)


# -- helpers


def test_counts_sums_and_averages_return_the_new_value() -> None:
    counts, sums = Table("counts", default=int), Table("sums", default=float)
    window = HoppingWindow(10, 5)
    count = faust.windowed_count(counts, window)
    add = faust.windowed_sum(sums, window)
    average = faust.windowed_average(Table("s"), Table("n"), window)
    shards = Shards(counts, sums)
    with shards.at(3.0):
        assert [count("a"), count("a"), count("b")] == [1, 2, 1]
        assert add("a", 1.5) == 1.5
        assert average("a", 4) == 4.0
    with shards.at(7.0):
        assert count("a") == 1
        assert count("a", timestamp=4.0) == 4
        assert add("a", 2.0, timestamp=3.0) == 3.5
        assert average("a", 6) == 6.0
        assert average("a", 2, timestamp=4.0) == 4.0
        assert faust.current_window() == (0.0, 10.0)
        table = counts.using_window(window)
        assert table.windows_for_key("a") == [((-5.0, 5.0), 3), ((0.0, 10.0), 4), ((5.0, 15.0), 1)]
    night = faust.windowed_average(Table("s2"), Table("n2"), BusinessHoursWindow())
    with shards.at(NOON + 8 * 3600):
        assert night("a", 5) is None


def test_the_current_window_is_that_of_the_table_last_touched() -> None:
    one, other = Table("one", default=int).tumbling(10), Table("other", default=int).tumbling(60)
    shards = Shards(one.table, other.table)
    with pytest.raises(RuntimeError, match="outside of a windowed stream"):
        faust.current_window()
    with shards.at(65.0):
        with pytest.raises(RuntimeError, match="no windowed table has been read or written"):
            faust.current_window()
        one["a"] += 1
        assert faust.current_window() == (60.0, 70.0)
        assert other["a"].value() == 0
        assert faust.current_window() == (60.0, 120.0)
        assert faust.current_window().contains(65.0)
    with shards.timer():
        assert one["a"].value() == 1
        with pytest.raises(RuntimeError):
            faust.current_window()


def test_a_set_of_windows_is_read_set_and_deleted_at_another_event() -> None:
    table = faust.Table("views", default=int).tumbling(10)
    shards = Shards(table.table)
    with shards.at(5.0) as early:
        table["k"] += 1
    with shards.at(15.0):
        table["k"] += 5
        assert table["k"][early].value() == 1
        table["k"][early] = 7
        assert (table["k"][early].current(), table["k"].current()) == (7, 5)
        assert table["k"].current(early) == table["k"].value(early) == 7
        assert table["k"].delta(10.0) == 7
        del table["k"][early]
        assert table["k"][early].value() == 0
        with pytest.raises(KeyError):
            del table["k"][early]
