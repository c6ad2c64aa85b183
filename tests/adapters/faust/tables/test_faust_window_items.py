"""Items of values in every range of one of Faust's windowed tables."""

from __future__ import annotations

import copy
import pickle

import pytest

import mullion.faust as faust
from mullion.faust import (
    HoppingWindow,
    Table,
    WindowedTable,
)
from tests.support.faust.faust_shards import Shards


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
            value = table["k"]
            value["events"].append(name)
            value["by"][name] = value["by"].get(name, 0) + 1
            table["k"] = value
    with shards.at(9.0):
        value = table["k"]
        assert value["events"] == ["b", "a"]
        assert list(value["events"]) == ["b", "a"]
        assert value["events"][0] == "b"
        assert repr(value["by"]) == "{'b': 1, 'a': 1}"
        value["events"] += ["c"]
        del value["by"]["a"]
        value["new"] = []
        value["new"].append(value["events"])
        table["k"] = value
        assert table.windows_for_key("k")[1:] == [
            ((0.0, 10.0), {"events": ["a", "b", "a", "c"], "by": {"b": 1}, "new": [["a", "b", "a", "c"]]}),
            ((5.0, 15.0), {"events": ["b", "a", "c"], "by": {"b": 1}, "new": [["b", "a", "c"]]}),
        ]


def test_a_list_itself_can_be_appended_to_in_every_range() -> None:
    table = Table("t", default=list).hopping(10, 5)
    shards = Shards(table.table)
    for timestamp in (3, 7):
        with shards.at(timestamp):
            times = table["k"]
            times.append(timestamp)
            table["k"] = times
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


def test_a_value_without_items_raises_an_error_with_the_right_call() -> None:
    views = Table("views", default=int).tumbling(10)
    with Shards(views.table).at(1.0), pytest.raises(TypeError, match=r"its value 0 has no items\. Read \.value\(\)"):
        views["/"]["sum"]
