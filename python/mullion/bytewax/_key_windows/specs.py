"""The settings of clocks, windowers and window steps.

The state of a key is in ``clocks`` and ``windowers``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from mullion.bytewax._key_windows.clocks import EventTime, KeyClock, OwnClock, SystemTime
from mullion.bytewax._key_windows.contents import MakeContents, Own
from mullion.bytewax._key_windows.interfaces import Clock, ClockLogic, Windower, WindowerLogic, WindowMetadata
from mullion.bytewax._key_windows.keyed import WindowsOfKey
from mullion.bytewax._key_windows.logics import KeptLogics, Snapshots
from mullion.bytewax._key_windows.times import EPOCH, ZERO_TD, duration, micros, moment
from mullion.bytewax._key_windows.windowers import KeyWindower, OwnWindower, SessionWindows, SlidingWindows
from mullion.errors import InvalidArgumentError, WrongCallError

V = TypeVar("V")
X = TypeVar("X")


def system_utc() -> datetime:
    return datetime.now(tz=UTC)


def identity(x: X) -> X:
    return x


class _ClockLogic(ClockLogic[Any, Any]):
    """Adapts a built-in clock to the public interface, which uses datetimes."""

    def __init__(self, clock: KeyClock) -> None:
        self._clock = clock
        self._now = micros(system_utc())

    def before_batch(self) -> None:
        self._now = micros(system_utc())
        self._clock.before_batch(self._now)

    def on_item(self, value: Any) -> tuple[datetime, datetime]:
        time, watermark = self._clock.on_item(value)
        return moment(time), moment(watermark)

    def on_notify(self) -> datetime:
        return moment(self._clock.on_notify(micros(system_utc())))

    def on_eof(self) -> datetime:
        return moment(self._clock.on_eof())

    def to_system_utc(self, timestamp: datetime) -> datetime | None:
        at = self._clock.due(micros(timestamp), self._now)
        return None if at is None else moment(at)

    def snapshot(self) -> Any:
        return self._clock.snapshot()


@dataclass(frozen=True)
class SystemClock(Clock[Any, None]):
    """A clock that uses the system time. The time of a value is its arrival."""

    def build(self, resume_state: None) -> ClockLogic[Any, None]:
        """Builds the clock of a key."""
        return _ClockLogic(SystemTime(micros(system_utc())))


@dataclass(frozen=True)
class EventClock(Clock[V, Any]):
    """A clock that uses the event time of values.

    The watermark of a key is its latest event time, minus ``wait_for_system_duration``, plus the system time that has
    elapsed since that value arrived. A value is late if its time is before the watermark.

    - ``ts_getter``: returns the time of a value, a ``datetime``. A time without a zone is UTC.
    - ``wait_for_system_duration``: a ``timedelta``, zero by default.
    - ``now_getter``: returns the system time. The default is the time in UTC.
    - ``to_system_utc``: converts an event time to the system time at which windows close without new values. If it
      returns ``None``, they do not close by time alone.
    """

    ts_getter: Callable[[V], datetime]
    wait_for_system_duration: timedelta = ZERO_TD
    now_getter: Callable[[], datetime] = system_utc
    to_system_utc: Callable[[datetime], datetime | None] = identity

    def __post_init__(self) -> None:
        for name in ("ts_getter", "now_getter", "to_system_utc"):
            function = getattr(self, name)
            if not callable(function):
                raise WrongCallError(
                    f"EventClock: {name}={function!r} ({type(function).__name__}) is not a function. Write "
                    f"EventClock(lambda event: event.time)."
                )
        if duration("wait_for_system_duration", self.wait_for_system_duration) < 0:
            raise InvalidArgumentError(
                f"wait_for_system_duration={self.wait_for_system_duration!r} is negative. Write timedelta(0) to wait "
                "for nothing."
            )

    def of_key(self, state: Any, now_us: int) -> EventTime:
        return EventTime(
            self.ts_getter,
            duration("wait_for_system_duration", self.wait_for_system_duration),
            None if self.now_getter is system_utc else self.now_getter,
            None if self.to_system_utc is identity else self.to_system_utc,
            state,
            now_us,
        )

    def build(self, resume_state: Any) -> ClockLogic[V, Any]:
        """Builds the clock of a key."""
        return _ClockLogic(self.of_key(resume_state, micros(system_utc())))

    def extract_ts(self, value: V) -> datetime:
        """The time of a value, in UTC."""
        return moment(micros(self.ts_getter(value)))


class _WindowerLogic(WindowerLogic[Any]):
    """Adapts a built-in windower to the public interface, which uses datetimes."""

    def __init__(self, windower: KeyWindower) -> None:
        self._windower = windower

    def open_for(self, timestamp: datetime) -> list[int]:
        return list(self._windower.open_for(micros(timestamp)))

    def late_for(self, timestamp: datetime) -> list[int]:
        return list(self._windower.late_for(micros(timestamp)))

    def merged(self) -> list[tuple[int, int]]:
        return list(self._windower.merged())

    def close_for(self, watermark: datetime) -> list[tuple[int, WindowMetadata]]:
        return list(self._windower.close_for(micros(watermark)))

    def notify_at(self) -> datetime | None:
        at = self._windower.next_close()
        return None if at is None else moment(at)

    def is_empty(self) -> bool:
        return self._windower.is_empty()

    def snapshot(self) -> Any:
        return self._windower.snapshot()


def _positive(name: str, length: Any) -> int:
    micros_of = duration(name, length)
    if micros_of <= 0:
        raise InvalidArgumentError(f"{name}={length!r} is not longer than zero. Write {name}=timedelta(minutes=5).")
    return micros_of


def _require_time(name: str, time: Any) -> None:
    if not isinstance(time, datetime):
        raise InvalidArgumentError(
            f"{name}={time!r} ({type(time).__name__}) is not a datetime. Write "
            f"{name}=datetime(2024, 1, 1, tzinfo=timezone.utc)."
        )


class FixedWindower(Windower[Any]):
    """Windows at fixed times, which do not depend on the values."""

    length: timedelta
    align_to: datetime

    def of_key(self, state: Any) -> SlidingWindows:
        raise NotImplementedError

    def build(self, resume_state: Any) -> WindowerLogic[Any]:
        """Builds the windows of a key."""
        return _WindowerLogic(self.of_key(resume_state))

    def windows_for_time(self, timestamp: datetime) -> list[tuple[str, datetime, datetime]]:
        """The windows that contain a time, as (id, start, exclusive end)."""
        _require_time("timestamp", timestamp)
        windows = self.of_key(None)
        metadata = ((window, windows.metadata(window)) for window in windows.late_for(micros(timestamp)))
        return [(str(window), each.open_time, each.close_time) for window, each in metadata]


@dataclass(frozen=True)
class SlidingWindower(FixedWindower):
    """Windows of a fixed length that start every ``offset``.

    - ``length``, ``offset``: ``timedelta``; ``offset`` must not exceed ``length``.
    - ``align_to``: the start of a window, by default the epoch.
    """

    length: timedelta
    offset: timedelta
    align_to: datetime = EPOCH

    def __post_init__(self) -> None:
        if _positive("offset", self.offset) > _positive("length", self.length):
            raise InvalidArgumentError(
                f"offset={self.offset!r} is longer than length={self.length!r}, so that values between windows would "
                "be lost. Make the windows longer, or the offset shorter."
            )
        _require_time("align_to", self.align_to)

    def of_key(self, state: Any) -> SlidingWindows:
        zone = self.align_to.tzinfo or UTC
        return SlidingWindows(
            duration("length", self.length), duration("offset", self.offset), micros(self.align_to), zone, state
        )


@dataclass(frozen=True)
class TumblingWindower(FixedWindower):
    """Consecutive windows of a fixed length.

    - ``length``: a ``timedelta``; ``align_to``: the start of a window, by default the epoch.
    """

    length: timedelta
    align_to: datetime = EPOCH

    def __post_init__(self) -> None:
        _positive("length", self.length)
        _require_time("align_to", self.align_to)

    def of_key(self, state: Any) -> SlidingWindows:
        length = duration("length", self.length)
        return SlidingWindows(length, length, micros(self.align_to), self.align_to.tzinfo or UTC, state)


@dataclass(frozen=True)
class SessionWindower(Windower[Any]):
    """Sessions: windows that end after more than ``gap``, a ``timedelta``, without a value."""

    gap: timedelta

    def __post_init__(self) -> None:
        if duration("gap", self.gap) < 0:
            raise InvalidArgumentError(f"gap={self.gap!r} is negative. Write gap=timedelta(minutes=30).")

    def of_key(self, state: Any) -> SessionWindows:
        return SessionWindows(duration("gap", self.gap), state)

    def build(self, resume_state: Any) -> WindowerLogic[Any]:
        """Builds the windows of a key."""
        return _WindowerLogic(self.of_key(resume_state))

    def windows_for_time(self, timestamp: datetime) -> list[tuple[str, datetime, datetime]]:
        """The session of a single value at a time, as (id, start, exclusive end)."""
        _require_time("timestamp", timestamp)
        start = moment(micros(timestamp))
        return [("0", start, start + self.gap)]


@dataclass(frozen=True)
class WindowConfig:
    """A pair of a clock and a windower, which operators accept in place of both."""

    clock: Clock[Any, Any]
    windower: Windower[Any]

    def __post_init__(self) -> None:
        require_both("WindowConfig", self.clock, self.windower)


def require_both(step_id: str, clock: Any, windower: Any) -> None:
    if not isinstance(clock, Clock):
        raise WrongCallError(
            f"{step_id}: clock={clock!r} ({type(clock).__name__}) is not a Clock. Write "
            "EventClock(lambda event: event.time) or SystemClock()."
        )
    if not isinstance(windower, Windower):
        raise WrongCallError(
            f"{step_id}: windower={windower!r} ({type(windower).__name__}) is not a Windower. Write "
            "TumblingWindower(timedelta(minutes=5)), SlidingWindower(...) or SessionWindower(...)."
        )


@dataclass(frozen=True)
class WindowSpec:
    """The settings of a window step, which has one :class:`WindowsOfKey` for each key."""

    clock: Clock[Any, Any]
    windower: Windower[Any]
    contents: MakeContents
    ordered: bool

    def of_key(self, state: Any, now_us: int, logics: KeptLogics | None = None) -> WindowsOfKey:
        """Builds the windows of a new key (``state=None``) at a system time, or from stored state.

        ``logics`` keeps clocks, windowers and contents defined by the program, by default as their snapshots.
        """
        of_clock, of_windower, contents, queue = state or (None, None, (), ())
        logics = logics or Snapshots()
        clock: KeyClock
        if isinstance(self.clock, EventClock):
            clock = self.clock.of_key(of_clock, now_us)
        elif isinstance(self.clock, SystemClock):
            clock = SystemTime(now_us)
        else:
            clock = OwnClock(_own(logics, of_clock, self.clock.build), logics)
        windower: KeyWindower
        if isinstance(self.windower, (FixedWindower, SessionWindower)):
            windower = self.windower.of_key(of_windower)
        else:
            windower = OwnWindower(_own(logics, of_windower, self.windower.build), logics)
        make = replace(self.contents, logics=logics) if isinstance(self.contents, Own) else self.contents
        return WindowsOfKey(clock, windower, make, self.ordered, contents, queue)


def _own(logics: KeptLogics, state: tuple[Any, ...] | None, build: Callable[[Any], Any]) -> Any:
    return build(None) if state is None else logics.restored(state, build)
