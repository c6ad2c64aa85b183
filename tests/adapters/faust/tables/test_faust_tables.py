"""Faust's plain tables over a store in memory, and values that are changed by reference."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mullion.faust as faust
from mullion import InvalidArgumentError
from mullion._util.codec import values as codec
from mullion.faust import (
    Table,
)
from mullion.faust._values.shards import shard_of
from mullion.faust.tables.keys import encode_key
from tests.support.faust.faust_shards import Shards
from tests.support.faust.programs.faust_table_examples import Account


class Colour(Enum):
    RED = "red"


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


def test_a_default_that_is_a_value_is_rejected_with_the_function_that_was_meant() -> None:
    with pytest.raises(InvalidArgumentError, match=r"default=0 of the table 'totals'.*default=lambda: 0"):
        Table("totals", default=0)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", "a b", "a/b", None])
def test_a_name_that_cannot_be_a_folder_is_rejected(name: Any) -> None:
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


def test_numbers_of_numpy_are_keys_like_pythons() -> None:
    for key, other in ((np.int64(3), 3), (np.float64(2.5), 2.5), (np.float64(2.0), 2), (np.str_("a"), "a")):
        assert encode_key(key, "t") == encode_key(other, "t")
        assert shard_of(key) == shard_of(other)


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


def test_a_key_of_none_and_what_cannot_be_kept_is_rejected() -> None:
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


# -- changes by reference


def test_a_value_changed_by_reference_is_saved_when_it_is_assigned_back() -> None:
    withdrawals = Table("withdrawals", default=list)
    shards = Shards(withdrawals)
    for amount in (1, 2):
        with shards.at(amount):
            amounts = withdrawals["a"]
            amounts.append(amount)
            withdrawals["a"] = amounts
    with shards.timer():
        assert withdrawals["a"] == [1, 2]


def test_a_value_that_is_not_assigned_back_is_warned_of_once_with_the_line_and_not_saved() -> None:
    withdrawals = Table("withdrawals", default=list)
    shards = Shards(withdrawals)

    def forget() -> None:
        amounts = withdrawals["a"]
        amounts.append(1)
        assert withdrawals["a"] is amounts

    line = forget.__code__.co_firstlineno + 1
    with pytest.warns(  # noqa: PT031
        faust.ForgottenChangeWarning, match=rf"test_faust_tables\.py:{line}: .*withdrawals\['a'\] was changed"
    ) as warned:
        for timestamp in (1.0, 2.0):
            with shards.at(timestamp):
                forget()
    assert len(warned) == 1
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
