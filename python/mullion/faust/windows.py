"""Windows: the ranges of time that an event falls into, and their expiry.

Times are float seconds since the epoch, lengths are seconds or ``timedelta``. A range is half-open, ``[start, end)``,
so the ranges of a :class:`TumblingWindow` touch. In faust-streaming they end 0.1 seconds early, which leaves a gap.

Internal arithmetic uses whole microseconds: it is exact for fractional sizes and for times before the epoch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol, final, runtime_checkable

from mullion.errors import InvalidArgumentError
from mullion.faust._values import times
from mullion.faust._values.times import Seconds


@final
class WindowRange(NamedTuple):
    """A half-open range of time, ``[start, end)``, in seconds since the epoch. It equals the plain tuple.

    >>> WindowRange(0.0, 10.0) == (0.0, 10.0), WindowRange(0.0, 10.0).contains(10.0)
    (True, False)
    """

    start: float
    end: float

    def contains(self, timestamp: float) -> bool:
        """True if a time is within the range: at or after its start, and before its end."""
        return self.start <= timestamp < self.end

    def overlaps(self, other: tuple[float, float]) -> bool:
        """True if the ranges have a time in common; ranges that only touch do not overlap."""
        start, end = other
        return max(self.start, start) < min(self.end, end)

    @property
    def duration(self) -> float:
        """The length of the range, in seconds."""
        return times.seconds(times.time_us(self.end) - times.time_us(self.start))

    @property
    def midpoint(self) -> float:
        """The time halfway between start and end."""
        return (times.time_us(self.start) + times.time_us(self.end)) / 2_000_000


@runtime_checkable
class WindowT(Protocol):
    """The interface of windows that tables use. ``expires`` and ``ident`` may be plain attributes."""

    @property
    def expires(self) -> float | None:
        """The retention of a range, in seconds; ``None`` is unlimited."""

    @property
    def ident(self) -> str:
        """The identity of the window's definition."""

    def ranges(self, timestamp: float) -> Sequence[tuple[float, float]]:
        """Returns the ranges that an event at ``timestamp`` falls into, the earliest first."""

    def stale(self, timestamp: float, latest_timestamp: float) -> bool:
        """True if a range that ends at ``timestamp`` is stale, when the latest event was at ``latest_timestamp``."""

    def current(self, timestamp: float) -> tuple[float, float] | None:
        """Returns the range that reads at ``timestamp`` use; ``None`` if it falls into none."""


@runtime_checkable
class TumblingWindowT(WindowT, Protocol):
    """The interface of tumbling windows."""

    @property
    def size(self) -> float:
        """The length of a range, in seconds."""


@runtime_checkable
class HoppingWindowT(WindowT, Protocol):
    """The interface of hopping windows."""

    @property
    def size(self) -> float:
        """The length of a range, in seconds."""

    @property
    def step(self) -> float:
        """The time between the starts of consecutive ranges, in seconds."""


@runtime_checkable
class SlidingWindowT(WindowT, Protocol):
    """The interface of sliding windows."""

    @property
    def before(self) -> float:
        """The length of a range before the event, in seconds."""

    @property
    def after(self) -> float:
        """The length of a range after the event, in seconds."""

    @property
    def total_size(self) -> float:
        """``before + after``, in seconds."""


class Window(ABC):
    """The base of windows. A subclass defines :meth:`ranges`; the other methods have defaults based on it.

    >>> class Mornings(Window):
    ...     def ranges(self, timestamp):
    ...         day = timestamp // 86_400 * 86_400
    ...         return [(day, day + 43_200)] if timestamp < day + 43_200 else []
    >>> Mornings().current(86_401.0), Mornings().current(86_400.0 + 50_000)
    (WindowRange(start=86400.0, end=129600.0), None)

    ``expires`` is the retention of a range after its end, in seconds or as a ``timedelta``; the default is unlimited.
    """

    _expires_us: int | None = None

    def __init__(self, *, expires: Seconds | None = None, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self._expires_us = times.expires_us(expires, None)

    @abstractmethod
    def ranges(self, timestamp: float) -> Sequence[tuple[float, float]]:
        """Returns the ranges of an event at ``timestamp``, ``[(start, end)]``; an event without ranges is ignored."""

    def current(self, timestamp: float) -> WindowRange | None:
        """Returns the range of ``timestamp`` that starts last; ``None`` if it falls into none."""
        return max(_ranges(self.ranges(timestamp)), default=None)

    def earliest(self, timestamp: float) -> WindowRange | None:
        """Returns the range of ``timestamp`` that starts first; ``None`` if it falls into none."""
        return min(_ranges(self.ranges(timestamp)), default=None)

    def delta(self, timestamp: float, d: Seconds) -> WindowRange | None:
        """Returns the current range at ``d`` before ``timestamp``."""
        return self.current(_back(timestamp, d))

    def stale(self, timestamp: float, latest_timestamp: float) -> bool:
        """True if a range that ends at ``timestamp`` is stale, when the latest event was at ``latest_timestamp``.

        It is stale if it ends at or before the start of the range that was current ``expires`` ago; never without
        ``expires``.
        """
        if self._expires_us is None:
            return False
        before = _back(latest_timestamp, times.seconds(self._expires_us))
        current = self.current(before)
        return timestamp <= (before if current is None else current.start)

    @property
    def expires(self) -> float | None:
        """The retention of a range, in seconds; ``None`` is unlimited."""
        return None if self._expires_us is None else times.seconds(self._expires_us)

    @property
    def ident(self) -> str:
        """The identity of the window: its class and its attributes."""
        values = [str(value) for name, value in vars(self).items() if not name.startswith("_")]
        return "_".join([type(self).__name__, *values])

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), self.ident))

    def __repr__(self) -> str:
        arguments = [f"{name}={value!r}" for name, value in vars(self).items() if not name.startswith("_")]
        if self._expires_us is not None:
            arguments.append(f"expires={times.short(self._expires_us)}")
        return f"{type(self).__name__}({', '.join(arguments)})"


class _Grid(Window):
    """Ranges of one size that end at multiples of ``step``, as in faust-streaming.

    ::

        size 10, step 4     |---------|          [-6, 4)
                                |---------|      [-2, 8)
                                    |---------|  [2, 12)
                                0   4   8   12
    """

    _size_us: int
    _step_us: int

    def ranges(self, timestamp: float) -> list[WindowRange]:
        """Returns the ranges that contain ``timestamp``, the earliest first."""
        us = times.time_us(timestamp)
        last = self._last_start(us)
        first = last - (self._size_us - 1 - (us - last)) // self._step_us * self._step_us
        return [self._range(start) for start in range(first, last + 1, self._step_us)]

    def current(self, timestamp: float) -> WindowRange | None:
        """Returns the range with ``timestamp`` that starts last; ``None`` in a gap, if ``step > size``."""
        us = times.time_us(timestamp)
        start = self._last_start(us)
        return self._range(start) if us < start + self._size_us else None

    def earliest(self, timestamp: float) -> WindowRange | None:
        """Returns the range with ``timestamp`` that starts first; ``None`` in a gap, if ``step > size``."""
        return next(iter(self.ranges(timestamp)), None)

    def stale(self, timestamp: float, latest_timestamp: float) -> bool:
        """True if a range that ends at ``timestamp`` is stale, when the latest event was at ``latest_timestamp``.

        It is stale if it ends at or before the start of the last range that had started ``expires`` ago.
        """
        if self._expires_us is None:
            return False
        before = self._last_start(times.time_us(latest_timestamp, "latest_timestamp") - self._expires_us)
        return times.time_us(timestamp) <= before

    @property
    def size(self) -> float:
        """The length of a range, in seconds."""
        return times.seconds(self._size_us)

    @property
    def step(self) -> float:
        """The time between the starts of consecutive ranges, in seconds."""
        return times.seconds(self._step_us)

    def _last_start(self, us: int) -> int:
        """The start of the last range that has started by a time."""
        return us - (us + self._size_us) % self._step_us

    def _range(self, start_us: int) -> WindowRange:
        return WindowRange(times.seconds(start_us), times.seconds(start_us + self._size_us))


class TumblingWindow(_Grid):
    """Consecutive ranges without overlap or gap, aligned to the epoch: an event falls into exactly one.

    ``size`` is the length of a range; ``expires`` is its retention, by default ``size * 2``, and 0 is unlimited.

    >>> TumblingWindow(300).ranges(1000.0)
    [WindowRange(start=900.0, end=1200.0)]

    Raises :class:`InvalidArgumentError` if ``size`` is not a length of time above zero.
    """

    def __init__(self, size: Seconds, expires: Seconds | None = None) -> None:
        super().__init__()
        self._size_us = self._step_us = times.positive_us(size, "size")
        self._expires_us = times.expires_us(expires, self._size_us * 2)

    @property
    def ident(self) -> str:
        """``tumbling_{size}``."""
        return f"tumbling_{times.short(self._size_us)}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({times.short(self._size_us)}{_expires(self._expires_us, self._size_us * 2)})"


class HoppingWindow(_Grid):
    """Ranges of one size that start every ``step``: an event falls into each range that contains it.

    Ranges end at multiples of ``step``, so they do not start at them if ``step`` does not divide ``size``. A ``step``
    longer than ``size`` leaves gaps, and events in them are in no range. ``expires`` is the retention of a range, by
    default ``size * 2``, and 0 is unlimited.

    >>> HoppingWindow(size=10, step=5).ranges(7.0)
    [WindowRange(start=0.0, end=10.0), WindowRange(start=5.0, end=15.0)]

    Raises :class:`InvalidArgumentError` if ``size`` or ``step`` is not a length of time above zero.
    """

    def __init__(self, size: Seconds, step: Seconds, expires: Seconds | None = None) -> None:
        super().__init__()
        self._size_us = times.positive_us(size, "size")
        self._step_us = times.positive_us(step, "step")
        self._expires_us = times.expires_us(expires, self._size_us * 2)

    @property
    def ident(self) -> str:
        """``hopping_{size}_{step}``."""
        return f"hopping_{times.short(self._size_us)}_{times.short(self._step_us)}"

    def __repr__(self) -> str:
        size, step = times.short(self._size_us), times.short(self._step_us)
        return f"{type(self).__name__}(size={size}, step={step}{_expires(self._expires_us, self._size_us * 2)})"


class SlidingWindow(Window):
    """A range around each event: from ``before`` its time to ``after`` it.

    ``expires`` is the retention of an event's contribution, by default ``before + after + 60`` seconds, and 0 is
    unlimited.

    >>> SlidingWindow(before=300, after=120).current(1000.0)
    WindowRange(start=700.0, end=1120.0)

    Raises :class:`InvalidArgumentError` if ``before`` or ``after`` is not a length of time of zero or more.
    """

    _before_us: int
    _after_us: int

    def __init__(self, before: Seconds, after: Seconds, expires: Seconds | None = None) -> None:
        super().__init__()
        self._before_us = times.not_negative_us(before, "before")
        self._after_us = times.not_negative_us(after, "after")
        self._expires_us = times.expires_us(expires, self._retention_us)

    def ranges(self, timestamp: float) -> list[WindowRange]:
        """Returns the one range around ``timestamp``."""
        return [self.current(timestamp)]

    def current(self, timestamp: float) -> WindowRange:
        """Returns the range around ``timestamp``."""
        us = times.time_us(timestamp)
        return WindowRange(times.seconds(us - self._before_us), times.seconds(us + self._after_us))

    def earliest(self, timestamp: float) -> WindowRange:
        """Returns the range around ``timestamp``."""
        return self.current(timestamp)

    def stale(self, timestamp: float, latest_timestamp: float) -> bool:
        """True if ``timestamp`` is ``expires`` or more before ``latest_timestamp``."""
        if self._expires_us is None:
            return False
        latest = times.time_us(latest_timestamp, "latest_timestamp")
        return times.time_us(timestamp) <= latest - self._expires_us

    @property
    def before(self) -> float:
        """The length of a range before the event, in seconds."""
        return times.seconds(self._before_us)

    @property
    def after(self) -> float:
        """The length of a range after the event, in seconds."""
        return times.seconds(self._after_us)

    @property
    def total_size(self) -> float:
        """``before + after``, in seconds."""
        return times.seconds(self._before_us + self._after_us)

    @property
    def ident(self) -> str:
        """``sliding_{before}_{after}``."""
        return f"sliding_{times.short(self._before_us)}_{times.short(self._after_us)}"

    @property
    def _retention_us(self) -> int:
        return self._before_us + self._after_us + 60_000_000

    def __repr__(self) -> str:
        before, after = times.short(self._before_us), times.short(self._after_us)
        return f"{type(self).__name__}(before={before}, after={after}{_expires(self._expires_us, self._retention_us)})"


def _back(timestamp: float, d: Seconds) -> float:
    return times.seconds(times.time_us(timestamp) - times.length_us(d, "d"))


def _expires(us: int | None, otherwise: int) -> str:
    return "" if us == otherwise else f", expires={times.short(us or 0)}"


def _ranges(pairs: Iterable[tuple[float, float]]) -> list[WindowRange]:
    """Validates the ranges of a user's window."""
    ranges = []
    for start, end in pairs:
        if not start < end:
            raise InvalidArgumentError(f"ranges() gave ({start!r}, {end!r}), which does not end after it starts.")
        ranges.append(WindowRange(start, end))
    return ranges
