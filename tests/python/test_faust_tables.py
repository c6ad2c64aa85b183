"""Faust's tables: plain and by window, over a store in memory."""

from __future__ import annotations

import copy
import operator
import pickle
import zoneinfo
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mullion.faust as faust
from faust_shards import Shards
from mullion import InvalidArgumentError
from mullion._codec import values as codec
from mullion.faust import (
    HoppingWindow,
    Record,
    SlidingWindow,
    Table,
    TumblingWindow,
    WindowedTable,
    WindowRange,
)
from mullion.faust.tables.keys import encode_key
from mullion.faust.tables.operations import NAMED


class Colour(Enum):
    RED = "red"


class Account(Record):
    name: str
    created: datetime | None = None
    tags: list[str] = []  # noqa: RUF012


# -- plain tables


def test_a_table_is_a_dict_of_its_shard() -> None:
    totals = Table("totals", default=int)
    shards = Shards(totals)
    with shards.at(1.0):
        totals["a"] += 30
        totals["b"] = 5
        assert totals["a"] == 30
        assert totals["nobody"] == 0
        assert "nobody" not in totals
        assert totals.get("nobody") is None
        assert totals.get("nobody", 7) == 7
        assert sorted(totals) == sorted(totals.keys()) == ["a", "b"]
        assert sorted(totals.values()) == [5, 30]
        assert dict(totals.items()) == {"a": 30, "b": 5}
        assert len(totals) == 2
        assert totals.pop("b") == 5
        assert totals.pop("b", None) is None
        assert totals.setdefault("c", 9) == totals.setdefault("c", 10) == 9
        totals.update({"d": 1}, e=2)
        del totals["d"]
        assert dict(totals.items()) == {"a": 30, "c": 9, "e": 2}
    other = Shards(totals)
    with other.at(1.0):
        assert len(totals) == 0
    shards.restarted()
    with shards.timer():
        assert totals["a"] == 30
    with shards.at(2.0):
        totals.clear()
        assert len(totals) == 0
    assert len(shards.store) == 0


def test_a_missing_key_without_a_default_is_a_key_error() -> None:
    totals = Table("totals")
    views = Table("views").tumbling(10)
    with Shards(totals, views.table).at(1.0):
        misses: list[Callable[[], Any]] = [
            lambda: totals["a"],
            lambda: totals.pop("a"),
            lambda: views["a"].value(),
            lambda: views[("a", 1.0)],
        ]
        for miss in misses:
            with pytest.raises(KeyError, match="a"):
                miss()
        with pytest.raises(KeyError):
            del totals["a"]
        with pytest.raises(KeyError):
            del views["a"]
        with pytest.raises(KeyError):
            views["a"] += 1


def test_a_default_that_is_a_value_is_refused_with_the_function_that_was_meant() -> None:
    with pytest.raises(InvalidArgumentError, match=r"default=0 of the table 'totals'.*default=lambda: 0"):
        Table("totals", default=0)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", "a b", "a/b", None])
def test_a_name_that_cannot_be_a_folder_is_refused(name: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="is not the name of a table"):
        Table(name)


KEYS = st.one_of(
    st.text(),
    st.integers(),
    st.floats(allow_nan=False),
    st.booleans(),
    st.dates(),
    st.uuids(),
    st.binary(),
    st.decimals(allow_nan=False),
    st.tuples(st.text(), st.integers()),
    st.just(Colour.RED),
    st.builds(Account, st.text()),
)
VALUES = st.recursive(
    KEYS
    | st.none()
    | st.floats(allow_nan=False)
    | st.datetimes(timezones=st.sampled_from([UTC]))
    | st.times()
    | st.timedeltas(timedelta(days=-9), timedelta(days=9)),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(KEYS.filter(lambda key: not isinstance(key, Account)), inner, max_size=3)
        | st.tuples(inner, inner)
        | st.sets(st.integers(), max_size=3)
        | st.frozensets(st.text(), max_size=3)
    ),
    max_leaves=4,
)


@settings(max_examples=150)
@given(VALUES)
def test_a_value_is_read_as_it_was_written(value: Any) -> None:
    again = codec.decode(codec.encode(value, "t"))
    assert again == value
    assert type(again) is type(value)
    assert codec.encode(again, "t") == codec.encode(value, "t")


@settings(max_examples=150)
@given(KEYS, KEYS)
def test_keys_are_one_when_they_are_equal(one: Any, other: Any) -> None:
    if isinstance(one, bool) or isinstance(other, bool) or isinstance(one, Decimal) or isinstance(other, Decimal):
        return
    assert (encode_key(one, "t") == encode_key(other, "t")) == (one == other)
    assert codec.decode(encode_key(one, "t")) == one


def test_special_values_are_kept() -> None:
    for value in (
        float("inf"),
        {"!": "x"},
        {1: "a", "1": "b"},
        (1, [2, (3,)]),
        UUID(int=1),
        time(1, 2),
        date(1, 2, 3),
        "\ud800",
    ):
        assert codec.decode(codec.encode(value, "t")) == value
    assert encode_key(1.0, "t") == encode_key(1, "t") != encode_key("1", "t")


def test_a_key_of_none_and_what_cannot_be_kept_is_refused() -> None:
    totals = Table("totals", default=list)
    with Shards(totals).at(1.0):
        with pytest.raises(InvalidArgumentError, match="'totals' was given the key None"):
            totals[None] = 1
        with pytest.raises(InvalidArgumentError, match=r"given the key \[1\] \(list\), which can change\. Use a tuple"):
            totals[[1]] = 1
        with pytest.raises(InvalidArgumentError, match=r"totals\['a'\]: <object .* cannot be kept in a table"):
            totals["a"] = [1, object()]
        with pytest.raises(InvalidArgumentError, match=r"totals\['a'\], in name: <built-in function"):
            totals["a"] = Account(len)
        assert "a" not in totals


def test_a_table_can_only_be_changed_while_an_event_is_processed() -> None:
    totals, views = Table("totals", default=int), Table("views", default=int).tumbling(10, key_index=True)

    def add(table: Any) -> None:
        table["foo"] += 30

    def assign(table: Any) -> None:
        table["foo"] = 30

    for change in (add, assign):
        for table in (totals, views):
            with pytest.raises(faust.OutsideStreamError, match="outside of a"), Shards(totals).timer():
                change(table)
            with pytest.raises(RuntimeError, match="outside of a"):
                change(table)
    with pytest.raises(faust.OutsideStreamError, match=r"totals\['a'\] was read outside of a running program"):
        totals["a"]
    with pytest.raises(faust.OutsideStreamError, match=r"views\['a'\] was read outside of a running program"):
        views["a"]
    with pytest.raises(faust.OutsideStreamError, match="The items of 'views' were read outside"):
        list(views.items())


# -- what was changed by reference


def test_a_value_changed_by_reference_is_saved_when_it_is_assigned_back() -> None:
    withdrawals = Table("withdrawals", default=list)
    shards = Shards(withdrawals)
    for amount in (1, 2):
        with shards.at(amount):
            held = withdrawals["a"]
            held.append(amount)
            withdrawals["a"] = held
    with shards.timer():
        assert withdrawals["a"] == [1, 2]


def test_a_value_that_is_not_assigned_back_is_warned_of_once_with_the_line_and_not_saved() -> None:
    withdrawals = Table("withdrawals", default=list)
    shards = Shards(withdrawals)

    def forget() -> None:
        held = withdrawals["a"]
        held.append(1)
        assert withdrawals["a"] is held

    line = forget.__code__.co_firstlineno + 1
    with pytest.warns(  # noqa: PT031
        faust.ForgottenChangeWarning, match=rf"test_faust_tables\.py:{line}: .*withdrawals\['a'\] was changed"
    ) as seen:
        for timestamp in (1.0, 2.0):
            with shards.at(timestamp):
                forget()
    assert len(seen) == 1
    with shards.timer():
        assert withdrawals["a"] == []


def test_a_value_changed_after_it_was_assigned_is_warned_of_too() -> None:
    accounts = Table("accounts")
    shards = Shards(accounts)
    account = Account("a")
    with pytest.warns(faust.ForgottenChangeWarning), shards.at(1.0):  # noqa: PT031
        accounts["a"] = account
        account.tags.append("late")
    with shards.timer():
        assert accounts["a"] == Account("a")


def test_items_of_a_window_set_that_are_not_assigned_back_are_warned_of() -> None:
    stats = Table("stats", default=dict).tumbling(10)
    shards = Shards(stats.table)
    with pytest.warns(faust.ForgottenChangeWarning, match=r"stats\['a'\]"), shards.at(1.0):
        stats["a"]["sum"] = 5
    with shards.at(1.0):
        assert stats["a"].value() == {}


def test_a_failed_event_warns_of_nothing() -> None:
    withdrawals = Table("withdrawals", default=list)
    with pytest.raises(ZeroDivisionError), Shards(withdrawals).at(1.0):  # noqa: PT012
        withdrawals["a"].append(1)
        raise ZeroDivisionError


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


def test_a_table_relative_to_a_field_is_read_and_applied_at_the_time_in_it() -> None:
    made = Table("made", default=int).tumbling(60)
    by_field, by_item = made.relative_to_field(Account.created), made.relative_to_field("at")  # type: ignore[arg-type]
    shards = Shards(made.table)
    with shards.at(1000.0, Account("a", datetime(1970, 1, 1, 0, 1, tzinfo=UTC))):
        by_field["a"] += 1
        assert by_field["a"].value() == 1
        assert made["a"].value() == 0
        assert made["a"].delta(940) == 1
    for at in (61.0, "1970-01-01T00:01:01Z", datetime(1970, 1, 1, 0, 1, 1)):
        with shards.at(1000.0, {"at": at}):
            by_item["a"] += 1
    with shards.timer():
        assert made.windows_for_key("a") == [((60.0, 120.0), 4)]
    with pytest.raises(InvalidArgumentError, match=r"Account\.created, which the event <Account.* does not"):  # noqa: SIM117
        with shards.at(1.0, Account("a")):
            by_field["a"] += 1
    with pytest.raises(InvalidArgumentError, match=r"'at'='soon', which the table .* is no time"):  # noqa: SIM117
        with shards.at(1.0, {"at": "soon"}):
            by_item["a"] += 1
    with pytest.raises(InvalidArgumentError, match=r"relative_to_field\(5\) is not a field"):
        made.relative_to_field(5)  # type: ignore[arg-type]


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


def test_pairs_are_keys_where_the_table_says_so() -> None:
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
    with pytest.raises(InvalidArgumentError, match=r"window='10 s' .* is no window"):
        Table("u").using_window("10 s")  # type: ignore[arg-type]


# -- items of values, in every range


def averages(window: faust.Window) -> WindowedTable:
    return Table("averages", default=lambda: {"sum": 0, "count": 0}).using_window(window)


def test_items_that_are_written_are_right_in_every_range() -> None:
    table = averages(HoppingWindow(size=600, step=300))
    shards = Shards(table.table)
    for timestamp, value in ((100.0, 5), (200.0, 7), (400.0, 1.5), (650.0, 2)):
        with shards.at(timestamp):
            stats = table["m"]
            stats["sum"] += value
            stats["count"] += 1
            table["m"] = stats
    with shards.timer():
        assert dict(table.windows_for_key("m")) == {
            (-300.0, 300.0): {"sum": 12, "count": 2},
            (0.0, 600.0): {"sum": 13.5, "count": 3},
            (300.0, 900.0): {"sum": 3.5, "count": 2},
            (600.0, 1200.0): {"sum": 2, "count": 1},
        }


def test_what_arithmetic_makes_of_items_is_of_each_range() -> None:
    table = averages(HoppingWindow(10, 5))
    shards = Shards(table.table)
    with shards.at(3.0):
        table["m"] = {"sum": 8, "count": 2}
    with shards.at(7.0):
        stats = table["m"]
        stats["count"] = stats["count"] + 1
        stats["sum"] = 2 * (stats["sum"] + 5) - 1
        stats["mean"] = stats["sum"] / stats["count"]
        assert stats["count"] == 1
        assert isinstance(stats["sum"], int)
        assert f"{stats['sum']}" == "9"
        assert "mean" in stats
        assert "nothing" not in stats
        assert set(stats) == {"sum", "count", "mean"}
        assert len(stats) == 3
        assert stats.get("nothing", 4) == 4
        table["m"] = stats
        assert table.windows_for_key("m")[1:] == [
            ((0.0, 10.0), {"sum": 25, "count": 3, "mean": 25 / 3}),
            ((5.0, 15.0), {"sum": 9, "count": 1, "mean": 9.0}),
        ]


def test_containers_within_are_changed_in_every_range_and_not_shared() -> None:
    table = Table("t", default=lambda: {"events": [], "by": {}}).hopping(10, 5)
    shards = Shards(table.table)
    for timestamp, name in ((3.0, "a"), (7.0, "b"), (8.0, "a")):
        with shards.at(timestamp):
            held = table["k"]
            held["events"].append(name)
            held["by"][name] = held["by"].get(name, 0) + 1
            table["k"] = held
    with shards.at(9.0):
        held = table["k"]
        assert held["events"] == ["b", "a"]
        assert list(held["events"]) == ["b", "a"]
        assert held["events"][0] == "b"
        assert repr(held["by"]) == "{'b': 1, 'a': 1}"
        held["events"] += ["c"]
        del held["by"]["a"]
        held["new"] = []
        held["new"].append(held["events"])
        table["k"] = held
        assert table.windows_for_key("k")[1:] == [
            ((0.0, 10.0), {"events": ["a", "b", "a", "c"], "by": {"b": 1}, "new": [["a", "b", "a", "c"]]}),
            ((5.0, 15.0), {"events": ["b", "a", "c"], "by": {"b": 1}, "new": [["b", "a", "c"]]}),
        ]


def test_a_list_itself_can_be_appended_to_in_every_range() -> None:
    table = Table("t", default=list).hopping(10, 5)
    shards = Shards(table.table)
    for timestamp in (3, 7):
        with shards.at(timestamp):
            held = table["k"]
            held.append(timestamp)
            table["k"] = held
    with shards.timer():
        assert table.windows_for_key("k") == [((-5.0, 5.0), [3]), ((0.0, 10.0), [3, 7]), ((5.0, 15.0), [7])]


def test_a_failure_in_another_range_is_raised_when_it_would_be_written() -> None:
    table = averages(HoppingWindow(10, 5))
    shards = Shards(table.table)
    with shards.at(7.0):
        table.set_window("m", (5.0, 15.0), {"sum": 1, "count": 1})
        stats = table["m"]
        mean = stats["sum"] / stats["count"]
        assert mean == 1.0
        with pytest.raises(ZeroDivisionError):
            stats["mean"] = mean


def test_numbers_of_ranges_can_be_copied_and_pickled_as_plain_ones() -> None:
    table = averages(HoppingWindow(10, 5))
    with Shards(table.table).at(7.0):
        total = table["m"]["sum"]
        assert type(pickle.loads(pickle.dumps(total))) is type(copy.deepcopy(total)) is int


def test_a_value_without_items_says_how_it_is_read() -> None:
    views = Table("views", default=int).tumbling(10)
    with Shards(views.table).at(1.0), pytest.raises(TypeError, match=r"its value 0 has no items\. Read \.value\(\)"):
        views["/"]["sum"]


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


# -- what is too old


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
    # What is left is the last range, its key and its timer, and the clock.
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


# -- sliding


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


def test_a_session_is_tracked_as_the_document_says() -> None:
    sessions = Table(
        "user-sessions",
        default=lambda: {"start_time": None, "last_activity": None, "events": []},
    ).using_window(SlidingWindow(before=1800, after=0))
    shards = Shards(sessions.table)
    seen = []
    for timestamp in (1000.0, 1500.0, 3300.0, 3301.0, 9000.0):
        with shards.at(timestamp):
            session = sessions["u"]
            if session["last_activity"] is None or timestamp - session["last_activity"] > 1800:
                session["start_time"] = timestamp
                session["events"] = []
            session["last_activity"] = timestamp
            session["events"].append(timestamp)
            sessions["u"] = session
            seen.append(sessions["u"].value())
    assert [(one["start_time"], one["events"]) for one in seen] == [
        (1000.0, [1000.0]),
        (1000.0, [1000.0, 1500.0]),
        (1000.0, [1000.0, 1500.0, 3300.0]),
        (1000.0, [1000.0, 1500.0, 3300.0, 3301.0]),
        (9000.0, [9000.0]),
    ]


# -- windows of one's own


class BusinessHoursWindow(faust.Window):
    def __init__(self, *, start_hour: int = 9, end_hour: int = 17, expires: float | None = None) -> None:
        super().__init__(expires=expires)
        self.start_hour = start_hour
        self.end_hour = end_hour

    def ranges(self, timestamp: float) -> Sequence[tuple[float, float]]:
        at = datetime.fromtimestamp(timestamp, zoneinfo.ZoneInfo("US/Eastern"))
        if self.start_hour <= at.hour < self.end_hour:
            opens = at.replace(hour=self.start_hour, minute=0, second=0, microsecond=0)
            return [(opens.timestamp(), at.replace(hour=self.end_hour, minute=0, second=0, microsecond=0).timestamp())]
        return []


NOON = datetime(2024, 1, 10, 17, tzinfo=UTC).timestamp()
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


# -- random programs, against dicts


OPERATIONS = st.sampled_from(["+", "-", "=", "read", "expire"])
STEPS = st.lists(
    st.tuples(OPERATIONS, st.sampled_from("abc"), st.integers(-400, 400).map(lambda n: n / 4), st.integers(-5, 5)),
    max_size=30,
)
WINDOWS = st.one_of(
    st.builds(TumblingWindow, st.integers(1, 40), st.integers(0, 60)),
    st.builds(HoppingWindow, st.integers(1, 40), st.integers(1, 20), st.integers(0, 60)),
)


@settings(max_examples=200, deadline=None)
@given(WINDOWS, STEPS)
def test_a_windowed_table_is_a_dict_by_key_and_range(
    window: faust.Window, steps: list[tuple[str, str, float, int]]
) -> None:
    closed: list[Any] = []
    table = Table("t", default=int, on_window_close=lambda key, value: closed.append((key, value)))
    windowed = table.using_window(window, key_index=True)
    shards = Shards(table)
    model: dict[tuple[str, tuple[float, float]], int] = {}
    gone: list[Any] = []
    latest: float | None = None
    for step, (operation, key, timestamp, n) in enumerate(steps):
        if operation == "expire":
            stale = [at for at in model if latest is not None and window.stale(at[1][1], latest)]
            gone += [(at, model.pop(at)) for at in stale]
            assert shards.shard.expire() == len(stale)
            continue
        if step % 7 == 6:
            shards.restarted()
        with shards.at(timestamp):
            if operation == "read":
                current = window.current(timestamp)
                expected = 0 if current is None else model.get((key, current), 0)
                assert windowed[key].value() == expected
                continue
            latest = timestamp if latest is None else max(latest, timestamp)
            if operation == "+":
                windowed[key] += n
            elif operation == "-":
                windowed[key] -= n
            else:
                windowed[key] = n
        for one in window.ranges(timestamp):
            if not window.stale(one[1], latest):
                before = model.get((key, one), 0)
                model[key, one] = before + n if operation == "+" else before - n if operation == "-" else n
    assert sorted(closed) == sorted(gone)
    with shards.timer():
        for key in "abc":
            there = sorted((at[1], value) for at, value in model.items() if at[0] == key)
            kept = [one for one in there if latest is None or not window.stale(one[0][1], latest)]
            assert windowed.windows_for_key(key) == kept
    shards.shard.advance(10**12)
    shards.shard.expire()
    if window.expires is not None:
        assert len(shards.store) <= 1, "the clock alone is left"
        assert shards.store.timers == []


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
