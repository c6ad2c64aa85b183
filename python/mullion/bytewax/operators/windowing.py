"""The windows of Bytewax 0.21, as of ``bytewax.operators.windowing``.

Each key has a clock of its own, and windows of its own. A window's operator gives three streams, all of
``(key, (window id, value))``::

    down    what the windows gave         late    values that came too late         meta    windows that closed

Another document's shapes are taken too, where they can be told apart: an operator that is used as a stream is its
``down`` without window ids, :class:`WindowConfig` stands for a clock and a windower, ``fold_window`` needs no merger,
and ``join_window`` takes its sides first.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Generic, TypeVar

from mullion.bytewax._windows import contents as held
from mullion.bytewax._windows.clocks import EventTime, KeyClock, OwnClock, SystemTime
from mullion.bytewax._windows.contents import Fold, FoldAgain, Join, JoinEmitMode, JoinInsertMode, MakeContents
from mullion.bytewax._windows.interfaces import (
    Clock,
    ClockLogic,
    Windower,
    WindowerLogic,
    WindowLogic,
    WindowMetadata,
)
from mullion.bytewax._windows.keyed import WindowsOfKey
from mullion.bytewax._windows.times import EPOCH, UTC_MAX, UTC_MIN, ZERO_TD, duration, micros, moment
from mullion.bytewax._windows.windowers import (
    LATE_SESSION_ID,
    KeyWindower,
    OwnWindower,
    SessionWindows,
    SlidingWindows,
)
from mullion.bytewax.dataflow import AsStream, Dataflow, KeyedStream, Stream, operator
from mullion.bytewax.operators import (
    _get_system_utc,
    _identity,
    _require_callable,
    join_label_merge,
    key_on,
    map_value,
    require_join_modes,
)
from mullion.errors import InvalidArgumentError, UnsupportedError, WrongCallError

__all__ = [
    "LATE_SESSION_ID",
    "UTC_MAX",
    "UTC_MIN",
    "ZERO_TD",
    "Clock",
    "ClockLogic",
    "EventClock",
    "JoinEmitMode",
    "JoinInsertMode",
    "SessionWindower",
    "SlidingWindower",
    "SystemClock",
    "TumblingWindower",
    "WindowConfig",
    "WindowLogic",
    "WindowMetadata",
    "WindowOut",
    "Windower",
    "WindowerLogic",
    "collect_window",
    "count_window",
    "fold_window",
    "join_window",
    "max_window",
    "min_window",
    "reduce_window",
    "window",
]

V = TypeVar("V")
W = TypeVar("W")
X = TypeVar("X")
S = TypeVar("S")


class _ClockLogic(ClockLogic[Any, Any]):
    """One of our clocks, for who asks it in datetimes."""

    def __init__(self, clock: KeyClock) -> None:
        self._clock = clock
        self._now = micros(_get_system_utc())

    def before_batch(self) -> None:
        self._now = micros(_get_system_utc())
        self._clock.before_batch(self._now)

    def on_item(self, value: Any) -> tuple[datetime, datetime]:
        time, watermark = self._clock.on_item(value)
        return moment(time), moment(watermark)

    def on_notify(self) -> datetime:
        return moment(self._clock.on_notify(micros(_get_system_utc())))

    def on_eof(self) -> datetime:
        return moment(self._clock.on_eof())

    def to_system_utc(self, timestamp: datetime) -> datetime | None:
        at = self._clock.due(micros(timestamp), self._now)
        return None if at is None else moment(at)

    def snapshot(self) -> Any:
        return self._clock.snapshot()


@dataclass(frozen=True)
class SystemClock(Clock[Any, None]):
    """The system's time: of a value, that at which it came."""

    def build(self, resume_state: None) -> ClockLogic[Any, None]:
        """The clock of a key."""
        return _ClockLogic(SystemTime(micros(_get_system_utc())))


@dataclass(frozen=True)
class EventClock(Clock[V, Any]):
    """The time that a value holds.

    The watermark of a key is its latest time, less ``wait_for_system_duration``, plus the system's time that has passed
    since that value came. A value is late if its time is before the watermark.

    - ``ts_getter``: the time of a value, a ``datetime``; one without a zone is UTC.
    - ``wait_for_system_duration``: a ``timedelta``, none if left out.
    - ``now_getter``: the system's time, where it is to be another.
    - ``to_system_utc``: the system's time for a time of values, so that windows close when it has come; ``None`` from
      it for not by time alone.
    """

    ts_getter: Callable[[V], datetime]
    wait_for_system_duration: timedelta = ZERO_TD
    now_getter: Callable[[], datetime] = _get_system_utc
    to_system_utc: Callable[[datetime], datetime | None] = _identity

    def __post_init__(self) -> None:
        for name in ("ts_getter", "now_getter", "to_system_utc"):
            given = getattr(self, name)
            if not callable(given):
                raise WrongCallError(
                    f"EventClock: {name}={given!r} ({type(given).__name__}) is not a function. Write "
                    f"EventClock(lambda event: event.time)."
                )
        if duration("wait_for_system_duration", self.wait_for_system_duration) < 0:
            raise InvalidArgumentError(
                f"wait_for_system_duration={self.wait_for_system_duration!r} is negative. Write timedelta(0) to wait "
                "for nothing."
            )

    def _of_key(self, state: Any, now_us: int) -> EventTime:
        return EventTime(
            self.ts_getter,
            duration("wait_for_system_duration", self.wait_for_system_duration),
            None if self.now_getter is _get_system_utc else self.now_getter,
            None if self.to_system_utc is _identity else self.to_system_utc,
            state,
            now_us,
        )

    def build(self, resume_state: Any) -> ClockLogic[V, Any]:
        """The clock of a key."""
        return _ClockLogic(self._of_key(resume_state, micros(_get_system_utc())))

    def extract_ts(self, value: V) -> datetime:
        """The time of a value, in UTC."""
        return moment(micros(self.ts_getter(value)))


class _WindowerLogic(WindowerLogic[Any]):
    """One of our windowers, for who asks it in datetimes."""

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
    found = duration(name, length)
    if found <= 0:
        raise InvalidArgumentError(f"{name}={length!r} is not longer than zero. Write {name}=timedelta(minutes=5).")
    return found


def _require_time(name: str, time: Any) -> None:
    if not isinstance(time, datetime):
        raise InvalidArgumentError(
            f"{name}={time!r} ({type(time).__name__}) is not a datetime. Write "
            f"{name}=datetime(2024, 1, 1, tzinfo=timezone.utc)."
        )


class _Fixed(Windower[Any]):
    """Windows that are where they are, whatever comes."""

    align_to: datetime

    def _of_key(self, state: Any) -> SlidingWindows:
        raise NotImplementedError

    def build(self, resume_state: Any) -> WindowerLogic[Any]:
        """The windows of a key."""
        return _WindowerLogic(self._of_key(resume_state))

    def windows_for_time(self, timestamp: datetime) -> list[tuple[str, datetime, datetime]]:
        """The windows that a time is in: id, start, and end, which is left out."""
        _require_time("timestamp", timestamp)
        windows = self._of_key(None)
        metadata = ((window, windows.metadata(window)) for window in windows.late_for(micros(timestamp)))
        return [(str(window), each.open_time, each.close_time) for window, each in metadata]


@dataclass(frozen=True)
class SlidingWindower(_Fixed):
    """Windows of one length, one every ``offset``.

    - ``length``, ``offset``: ``timedelta``; ``offset`` is no longer than ``length``.
    - ``align_to``: a start of a window; the epoch if left out.
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

    def _of_key(self, state: Any) -> SlidingWindows:
        zone = self.align_to.tzinfo or UTC
        return SlidingWindows(
            duration("length", self.length), duration("offset", self.offset), micros(self.align_to), zone, state
        )


@dataclass(frozen=True)
class TumblingWindower(_Fixed):
    """Windows of one length, one after the other.

    - ``length``: a ``timedelta``; ``align_to``: a start of a window, the epoch if left out.
    """

    length: timedelta
    align_to: datetime = EPOCH

    def __post_init__(self) -> None:
        _positive("length", self.length)
        _require_time("align_to", self.align_to)

    def _of_key(self, state: Any) -> SlidingWindows:
        length = duration("length", self.length)
        return SlidingWindows(length, length, micros(self.align_to), self.align_to.tzinfo or UTC, state)


@dataclass(frozen=True)
class SessionWindower(Windower[Any]):
    """Windows that end where no value comes for longer than ``gap``, a ``timedelta``."""

    gap: timedelta

    def __post_init__(self) -> None:
        if duration("gap", self.gap) < 0:
            raise InvalidArgumentError(f"gap={self.gap!r} is negative. Write gap=timedelta(minutes=30).")

    def _of_key(self, state: Any) -> SessionWindows:
        return SessionWindows(duration("gap", self.gap), state)

    def build(self, resume_state: Any) -> WindowerLogic[Any]:
        """The windows of a key."""
        return _WindowerLogic(self._of_key(resume_state))

    def windows_for_time(self, timestamp: datetime) -> list[tuple[str, datetime, datetime]]:
        """The session that a value would be in alone: id, start, and end, which is left out."""
        _require_time("timestamp", timestamp)
        start = moment(micros(timestamp))
        return [("0", start, start + self.gap)]


@dataclass(frozen=True)
class WindowConfig:
    """A clock and a windower together, to be given in the place of both."""

    clock: Clock[Any, Any]
    windower: Windower[Any]

    def __post_init__(self) -> None:
        _require("WindowConfig", self.clock, self.windower)


def _require(step_id: str, clock: Any, windower: Any) -> None:
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
    """A window's step, as it is run: one :class:`WindowsOfKey` for each key."""

    clock: Clock[Any, Any]
    windower: Windower[Any]
    contents: MakeContents
    ordered: bool

    def of_key(self, state: Any, now_us: int) -> WindowsOfKey:
        """The windows of a key that is new at a system time, or whose state was kept."""
        of_clock, of_windower, contents, queue = state or (None, None, (), ())
        clock: KeyClock
        if isinstance(self.clock, EventClock):
            clock = self.clock._of_key(of_clock, now_us)
        elif isinstance(self.clock, SystemClock):
            clock = SystemTime(now_us)
        else:
            clock = OwnClock(self.clock.build(of_clock))
        windower: KeyWindower
        if isinstance(self.windower, (_Fixed, SessionWindower)):
            windower = self.windower._of_key(of_windower)
        else:
            windower = OwnWindower(self.windower.build(of_windower))
        return WindowsOfKey(clock, windower, self.contents, self.ordered, contents, queue)


@dataclass(frozen=True)
class WindowOut(AsStream, Generic[V, W]):
    """The streams of a window's operator, of ``(key, (window id, value))``.

    - ``down``: what the windows gave; ``late``: values that came too late.
    - ``meta``: a :class:`WindowMetadata` for each window that closed.

    Used as a stream it is ``down`` without the window ids.
    """

    down: KeyedStream[tuple[int, W]]
    late: KeyedStream[tuple[int, V]]
    meta: KeyedStream[tuple[int, WindowMetadata]]

    def flow(self) -> Dataflow:
        """The dataflow that it is in."""
        return self.down.flow()

    def as_stream(self) -> Stream[tuple[str, W]]:
        """``down`` without the window ids."""
        return map_value("without_window_id", self.down, _second)

    def then(self, op_fn: Callable[..., Any], step_id: str, *args: Any, **kwargs: Any) -> Any:
        """The same as ``op_fn(step_id, windows, ...)``, for steps in a row."""
        return op_fn(step_id, self, *args, **kwargs)


def _second(pair: tuple[Any, W]) -> W:
    return pair[1]


def _taking_config(call: Callable[..., Any]) -> Callable[..., Any]:
    """Puts the clock and the windower of a :class:`WindowConfig` where they would have stood."""

    @functools.wraps(call)
    def taking(*args: Any, **kwargs: Any) -> Any:
        for index, one in enumerate(args):
            if isinstance(one, WindowConfig):
                return call(*args[:index], one.clock, one.windower, *args[index + 1 :], **kwargs)
        for name in ("clock", "config", "window_config"):
            one = kwargs.get(name)
            if isinstance(one, WindowConfig):
                others = {key: value for key, value in kwargs.items() if key != name}
                return call(*args, clock=one.clock, windower=one.windower, **others)
        return call(*args, **kwargs)

    return taking


def _windows(
    step_id: str, up: Stream[Any], clock: Any, windower: Any, contents: MakeContents, ordered: bool
) -> WindowOut[Any, Any]:
    _require(f"The step {step_id!r}", clock, windower)
    if not isinstance(ordered, bool):
        raise WrongCallError(f"The step {step_id!r}: ordered={ordered!r} is neither True nor False.")
    spec = WindowSpec(clock, windower, contents, ordered)
    down, late, meta = up.flow()._add("window", [up], ["down", "late", "meta"], spec)
    return WindowOut(down, late, meta)


@_taking_config
@operator
def window(
    step_id: str,
    up: KeyedStream[V],
    clock: Clock[V, Any],
    windower: Windower[Any],
    builder: Callable[[Any], WindowLogic[V, W, Any]],
    ordered: bool = True,
) -> WindowOut[V, W]:
    """Windows that hold a logic of their own: ``builder`` is given the state that was kept, or ``None``.

    With ``ordered`` values enter in order of time, each when the watermark has come there; else as they came.
    """
    _require_callable(step_id, "builder", builder)
    return _windows(step_id, up, clock, windower, held.Own(builder), ordered)


def _appended(values: list[V], value: V) -> list[V]:
    values.append(value)
    return values


def _added(values: set[V], value: V) -> set[V]:
    values.add(value)
    return values


def _updated(values: dict[Any, Any], more: dict[Any, Any]) -> dict[Any, Any]:
    values.update(more)
    return values


def _put(step_id: str, values: dict[Any, Any], item: Any) -> dict[Any, Any]:
    try:
        key, value = item
    except (TypeError, ValueError):
        raise WrongCallError(
            f"The step {step_id!r} collects into a dict, of (key, value) pairs, and got {item!r} "
            f"({type(item).__name__})."
        ) from None
    values[key] = value
    return values


@_taking_config
@operator
def collect_window(
    step_id: str,
    up: KeyedStream[V],
    clock: Clock[V, Any],
    windower: Windower[Any],
    into: Any = list,
    ordered: bool = True,
) -> WindowOut[V, Any]:
    """Collects the values of each window ``into`` a ``list``, a ``set`` or a ``dict``."""
    if into is list:
        fold = Fold(list, _appended, list.__add__)
    elif into is set:
        fold = Fold(set, _added, set.union)
    elif into is dict:
        fold = Fold(dict, partial(_put, step_id), _updated)
    else:
        raise WrongCallError(
            f"The step {step_id!r}: into={into!r} is neither list, set nor dict. Use fold_window for others."
        )
    return _windows(step_id, up, clock, windower, fold, ordered)


def _zero() -> int:
    return 0


def _one_more(count: int, value: Any) -> int:
    return count + 1


def _sum(one: int, other: int) -> int:
    return one + other


@_taking_config
@operator
def count_window(
    step_id: str, up: Stream[X], clock: Clock[X, Any], windower: Windower[Any], key: Callable[[X], str]
) -> WindowOut[X, int]:
    """Counts the items of each window, by ``key``."""
    _require_callable(step_id, "key", key)
    keyed = key_on("keyed", up, key)
    return _windows(step_id, keyed, clock, windower, Fold(_zero, _one_more, _sum), False)


@_taking_config
@operator
def fold_window(
    step_id: str,
    up: KeyedStream[V],
    clock: Clock[V, Any],
    windower: Windower[Any],
    builder: Callable[[], S],
    folder: Callable[[S, V], S],
    merger: Callable[[S, S], S] | None = None,
    ordered: bool = True,
) -> WindowOut[V, S]:
    """Folds the values of each window into what ``builder`` makes.

    ``merger`` puts the states of two sessions together that were merged. Without it a session keeps its values, and
    folds them in order of time when it closes.
    """
    _require_callable(step_id, "builder", builder)
    _require_callable(step_id, "folder", folder)
    if merger is not None:
        _require_callable(step_id, "merger", merger)
    merges = not isinstance(windower, _Fixed)
    fold = FoldAgain(builder, folder) if merges and merger is None else Fold(builder, folder, merger)
    return _windows(step_id, up, clock, windower, fold, ordered)


@_taking_config
@operator
def reduce_window(
    step_id: str,
    up: KeyedStream[V],
    clock: Clock[V, Any],
    windower: Windower[Any],
    reducer: Callable[[V, V], V],
) -> WindowOut[V, V]:
    """Reduces the values of each window to one."""
    _require_callable(step_id, "reducer", reducer)
    return _windows(step_id, up, clock, windower, held.Reduction(reducer), False)


@_taking_config
@operator
def max_window(
    step_id: str,
    up: KeyedStream[V],
    clock: Clock[V, Any],
    windower: Windower[Any],
    by: Callable[[V], Any] = _identity,
) -> WindowOut[V, V]:
    """The largest value of each window, by what ``by`` gives."""
    _require_callable(step_id, "by", by)
    return _windows(step_id, up, clock, windower, held.Reduction(partial(max, key=by)), False)


@_taking_config
@operator
def min_window(
    step_id: str,
    up: KeyedStream[V],
    clock: Clock[V, Any],
    windower: Windower[Any],
    by: Callable[[V], Any] = _identity,
) -> WindowOut[V, V]:
    """The smallest value of each window, by what ``by`` gives."""
    _require_callable(step_id, "by", by)
    return _windows(step_id, up, clock, windower, held.Reduction(partial(min, key=by)), False)


def _of_side(getter: Callable[[Any], Any], value: tuple[int, Any]) -> Any:
    return getter(value[1])


@operator
def _join_window(
    step_id: str,
    *sides: KeyedStream[Any],
    clock: Any,
    windower: Any,
    insert_mode: Any,
    emit_mode: Any,
    ordered: bool,
) -> WindowOut[Any, tuple[Any, ...]]:
    require_join_modes(step_id, sides, insert_mode, emit_mode)
    _require(f"The step {step_id!r}", clock, windower)
    merged = join_label_merge("add_names", *sides)
    if isinstance(clock, EventClock):
        clock = replace(clock, ts_getter=partial(_of_side, clock.ts_getter))
    return _windows(step_id, merged, clock, windower, Join(len(sides), insert_mode, emit_mode), ordered)


def join_window(
    step_id: str,
    *args: Any,
    clock: Any = None,
    windower: Any = None,
    insert_mode: JoinInsertMode = "last",
    emit_mode: JoinEmitMode | None = None,
    ordered: bool = True,
) -> WindowOut[Any, tuple[Any, ...]]:
    """Joins streams within windows, into tuples with ``None`` for a side that has no value.

    ``join_window(step_id, clock, windower, *sides)``, as in Bytewax 0.21, emits ``"final"``, when a window closes, if
    ``emit_mode`` is left out; ``join_window(step_id, *sides, clock=, windower=)`` emits ``"complete"``, each time that
    all sides have a value. ``late`` is of pairs of a side's number and its value, as in Bytewax.
    """
    first = args[0] if args else None
    if isinstance(first, WindowConfig):
        args = (first.clock, first.windower, *args[1:])
    elif isinstance(clock, WindowConfig):
        clock, windower = clock.clock, clock.windower
    if args and not isinstance(args[0], (Stream, AsStream)):
        if clock is not None or windower is not None:
            raise WrongCallError(
                f"join_window({step_id!r}): a clock is given twice. Write join_window(step_id, clock, windower, "
                "*sides) or join_window(step_id, *sides, clock=, windower=)."
            )
        if len(args) < 2:
            raise WrongCallError(
                f"join_window({step_id!r}) has no windower. Write join_window(step_id, clock, windower, *sides)."
            )
        clock, windower, *rest = args
        sides, default = tuple(rest), "final"
    else:
        sides, default = args, "complete"
    return _join_window(
        step_id,
        *sides,
        clock=clock,
        windower=windower,
        insert_mode=insert_mode,
        emit_mode=default if emit_mode is None else emit_mode,
        ordered=ordered,
    )


def __getattr__(name: str) -> Any:
    if name in ("TumblingWindow", "SlidingWindow", "SessionWindow", "EventClockConfig", "SystemClockConfig"):
        new = {"EventClockConfig": "EventClock", "SystemClockConfig": "SystemClock"}.get(name, f"{name}er")
        raise UnsupportedError(f"{name} is of Bytewax before 0.20. Use {new}.")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
