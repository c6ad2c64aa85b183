"""The clock of a program: default timestamps, processing time, timers, idle rules.

A program uses the machine's clock. A test uses one that only the test advances.
"""

from __future__ import annotations

import threading
import time
from typing import Any, Protocol, final, runtime_checkable

from mullion._util import durations
from mullion._util.durations import Duration


@runtime_checkable
class Clock(Protocol):
    """The interface of a clock."""

    def time_us(self) -> int:
        """Now, in microseconds since the epoch."""


@final
class SystemClock:
    """The machine's clock."""

    def time_us(self) -> int:
        """Now, in microseconds since the epoch."""
        return time.time_ns() // 1000

    def __repr__(self) -> str:
        return "SystemClock()"


@final
class ManualClock:
    """A clock that only :meth:`advance` moves. It starts at ``start_ms`` milliseconds since the epoch.

    It also drives the trigger clocks of its queries, and thereby the processing time of their batches.
    """

    def __init__(self, start_ms: int = 0) -> None:
        self._ms = start_ms
        self._followers: list[Any] = []
        self._lock = threading.Lock()

    def time_us(self) -> int:
        """Now, in microseconds since the epoch."""
        return self._ms * 1000

    def advance(self, by: Duration) -> None:
        """Moves the clock forward by ``by``, text or a ``timedelta``, in whole milliseconds."""
        ms = durations.not_negative(by, "by", "advance({})") // 1000
        with self._lock:
            self._ms += ms
            for follower in self._followers:
                follower.advance(ms)

    def follow(self, follower: Any) -> None:
        """Advances another clock with this one: an object with ``advance(ms)`` and the same time."""
        with self._lock:
            self._followers.append(follower)

    def __repr__(self) -> str:
        return f"ManualClock(start_ms={self._ms})"


_SYSTEM = SystemClock()


def system() -> Clock:
    """The machine's clock."""
    return _SYSTEM
