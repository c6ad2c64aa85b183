"""Timers of several tables in one list, each table's in an order of its own.

A table whose clock lags leaves its timers alone, however far the clocks of others are. As in the JVM
(``folds/TimerOrder.scala``)::

    due    order * 2**56  +  time + 2**55        order from 1 to 126; two tables may share one
    due    time                                  as it was before there were orders; of the years -313 to 4253

Times that are further than 2**55 microseconds (1,141 years) from 1970 are there as if they were that far.
"""

from __future__ import annotations

from typing import Final

_WIDTH: Final = 1 << 56
_MIDDLE: Final = _WIDTH // 2
_ORDERS: Final = 126

BEFORE_ORDERS: Final = (-(2**63), _WIDTH - 1)
"""From where to where timers are that have no order."""


def order_of(timers: bytes) -> int:
    """The order of a table, by what its timers begin with."""
    return 1 + timers[0] % _ORDERS


def at(order: int, us: int) -> int:
    """Where a timer of an order is that is due at a time."""
    return order * _WIDTH + max(1 - _MIDDLE, min(us, _MIDDLE - 1)) + _MIDDLE


def time_of(due: int) -> int:
    """The time that a timer is due."""
    return due if due < _WIDTH else due % _WIDTH - _MIDDLE
