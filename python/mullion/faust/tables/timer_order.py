"""The order of timers: several tables share one list, in which each has its own order.

A table with a lagging clock keeps its timers, even if the clocks of others are far ahead. The JVM uses the same
encoding (``pyfunction/agents/TimerOrder.scala``)::

    due    order * 2**56  +  time + 2**55        order from 1 to 126; two tables may share one
    due    time                                  the format without orders, for the years -313 to 4253

Times further than 2**55 microseconds (1,141 years) from 1970 are clamped to that distance.
"""

from __future__ import annotations

from typing import Final

_WIDTH: Final = 1 << 56
_MIDDLE: Final = _WIDTH // 2
_ORDERS: Final = 126

BEFORE_ORDERS: Final = (-(2**63), _WIDTH - 1)
"""The bounds of timers without an order."""


def order_of(timers: bytes) -> int:
    """Returns the order of a table, from the prefix of its timers."""
    return 1 + timers[0] % _ORDERS


def at(order: int, us: int) -> int:
    """Returns the encoded due time of a timer."""
    return order * _WIDTH + max(1 - _MIDDLE, min(us, _MIDDLE - 1)) + _MIDDLE


def time_of(due: int) -> int:
    """Returns the due time of an encoded timer."""
    return due if due < _WIDTH else due % _WIDTH - _MIDDLE
