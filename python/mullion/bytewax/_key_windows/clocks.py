"""The clocks of one key, in microseconds.

The event clock advances with the system time between values::

    system time      0 s        1 s        4 s
    value arrives    12:00:10   12:00:20
    watermark        12:00:05   12:00:15   12:00:18     wait_for_system_duration = 5 s

A value never moves the watermark back.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Protocol

from mullion.bytewax._key_windows.interfaces import ClockLogic
from mullion.bytewax._key_windows.logics import KeptLogics
from mullion.bytewax._key_windows.times import EPOCH, MAX_US, MICROSECOND, MIN_US, micros, moment


class KeyClock(Protocol):
    """The clock of one key."""

    def before_batch(self, now_us: int) -> None:
        """Sets the system time of the next values."""

    def on_item(self, value: Any) -> tuple[int, int]:
        """Returns the time of a value and the watermark after it."""

    def on_notify(self, now_us: int) -> int:
        """The watermark at a system time."""

    def on_eof(self) -> int:
        """The watermark at the end of the input."""

    def due(self, watermark: int, now_us: int) -> int | None:
        """The system time at which the clock reaches ``watermark``, or of the next check; ``None`` for never."""

    def snapshot(self) -> Any:
        """The state to store."""


class SystemTime:
    """The system time, both as the time of each value and as the watermark."""

    __slots__ = ("_now",)

    def __init__(self, now_us: int) -> None:
        self._now = now_us

    def before_batch(self, now_us: int) -> None:
        self._now = max(self._now, now_us)

    def on_item(self, value: Any) -> tuple[int, int]:
        return self._now, self._now

    def on_notify(self, now_us: int) -> int:
        self.before_batch(now_us)
        return self._now

    def on_eof(self) -> int:
        return MAX_US

    def due(self, watermark: int, now_us: int) -> int | None:
        return watermark

    def snapshot(self) -> None:
        return None


_LOOK_AGAIN_US = 1_000_000
_NEVER = EPOCH


class EventTime:
    """The event time of values, which advances with the system time.

    - ``_base``: the watermark that a value last set, at the system time ``_base_set_at``.
    - ``_now_getter``: the program's own system clock, if any.
    - ``_to_system``: the program's own conversion from event time to system time, if any.
    """

    __slots__ = ("_base", "_base_set_at", "_getter", "_last_now", "_now", "_now_getter", "_to_system", "_wait")

    def __init__(
        self,
        getter: Callable[[Any], datetime],
        wait_us: int,
        now_getter: Callable[[], datetime] | None,
        to_system: Callable[[datetime], datetime | None] | None,
        state: tuple[int, int] | None,
        now_us: int,
    ) -> None:
        self._getter = getter
        self._wait = wait_us
        self._now_getter = now_getter
        self._to_system = to_system
        self._last_now = _NEVER if now_getter is None else now_getter()
        self._now = now_us if now_getter is None else micros(self._last_now)
        self._base, self._base_set_at = (MIN_US, self._now) if state is None else state
        # Time never goes back, so that closed windows never reopen.
        self._now = max(self._now, self._base_set_at)

    def before_batch(self, now_us: int) -> None:
        if self._now_getter is not None:
            now = self._now_getter()
            # Most programs with their own clock use a constant time.
            if now is self._last_now:
                return
            self._last_now = now
            now_us = micros(now)
        if now_us > self._now:
            self._now = now_us

    def on_item(self, value: Any) -> tuple[int, int]:
        at = self._getter(value)
        try:
            time = (at - EPOCH) // MICROSECOND
        except TypeError:
            time = micros(at)
        watermark = self._base + self._now - self._base_set_at
        base = time - self._wait
        if base > watermark and base >= MIN_US:
            self._base = base
            self._base_set_at = self._now
            return time, base
        return time, watermark

    def on_notify(self, now_us: int) -> int:
        self.before_batch(now_us)
        return self._base + self._now - self._base_set_at

    def on_eof(self) -> int:
        return MAX_US

    def due(self, watermark: int, now_us: int) -> int | None:
        if self._now_getter is None and self._to_system is None:
            return self._base_set_at + watermark - self._base
        at = moment(watermark) if self._to_system is None else self._to_system(moment(watermark))
        return None if at is None else max(micros(at), now_us + _LOOK_AGAIN_US)

    def snapshot(self) -> tuple[int, int]:
        """The watermark, and the system time of that reading."""
        return self._base + self._now - self._base_set_at, self._now


class OwnClock:
    """A clock defined by the program."""

    __slots__ = ("_logic", "_logics")

    def __init__(self, logic: ClockLogic[Any, Any], logics: KeptLogics) -> None:
        self._logic = logic
        self._logics = logics

    def before_batch(self, now_us: int) -> None:
        self._logic.before_batch()

    def on_item(self, value: Any) -> tuple[int, int]:
        time, watermark = self._logic.on_item(value)
        return micros(time), micros(watermark)

    def on_notify(self, now_us: int) -> int:
        return micros(self._logic.on_notify())

    def on_eof(self) -> int:
        return micros(self._logic.on_eof())

    def due(self, watermark: int, now_us: int) -> int | None:
        at = self._logic.to_system_utc(moment(watermark))
        return None if at is None else max(micros(at), now_us + _LOOK_AGAIN_US)

    def snapshot(self) -> Any:
        return self._logics.state_of(self._logic)
