"""Functions that count, sum and average in the ranges of a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mullion.faust._values.times import time_us
from mullion.faust.tables.table import Table, WindowedTable
from mullion.faust.windows import WindowT

__all__ = ["windowed_average", "windowed_count", "windowed_sum"]


def windowed_count(table: Table, window: WindowT) -> Callable[..., Any]:
    """Returns a function ``count(key, timestamp=None)`` that adds 1 to each range of the event, or of a time.

    The time is in seconds. It returns the new count of the range that starts last.
    """
    windowed = WindowedTable(table, window)

    def count(key: Any, timestamp: float | None = None) -> Any:
        return _add(windowed, key, 1, timestamp)

    return count


def windowed_sum(table: Table, window: WindowT) -> Callable[..., Any]:
    """Returns a function ``add(key, value, timestamp=None)`` that adds a value to the ranges of the event or a time.

    It returns the new sum of the range that starts last.
    """
    windowed = WindowedTable(table, window)

    def add(key: Any, value: Any, timestamp: float | None = None) -> Any:
        return _add(windowed, key, value, timestamp)

    return add


def windowed_average(sum_table: Table, count_table: Table, window: WindowT) -> Callable[..., Any]:
    """Returns a function ``average(key, value, timestamp=None)`` that stores sums and counts of each range.

    It returns the new average of the range that starts last; ``None`` if the event falls into no range.
    """
    add, count = windowed_sum(sum_table, window), windowed_count(count_table, window)

    def average(key: Any, value: Any, timestamp: float | None = None) -> Any:
        total, n = add(key, value, timestamp), count(key, timestamp)
        return total / n if n else None

    return average


def _add(windowed: WindowedTable, key: Any, value: Any, timestamp: float | None) -> Any:
    data = windowed._writes(key)
    us = windowed._event_us() if timestamp is None else time_us(timestamp)
    if data.table.default is None:
        data.table.default = int
    windowed._apply(data, key, us, "+", value)
    return windowed._value(data, key, us)
