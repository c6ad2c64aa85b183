"""The open, merged and closed windows of one key. Times are in microseconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, tzinfo
from typing import Any, Final, Protocol

from mullion.bytewax._key_windows.interfaces import WindowerLogic, WindowMetadata
from mullion.bytewax._key_windows.logics import KeptLogics
from mullion.bytewax._key_windows.times import MAX_US, MIN_US, micros, moment

LATE_SESSION_ID: Final = -1
"""The id of the session of a late value, which is unknown."""

Closed = tuple[int, WindowMetadata]


class KeyWindower(Protocol):
    """The windows of one key.

    - ``quiet_until``: no window closes or has merged before the watermark reaches this; the minimum if unknown.
    """

    quiet_until: int

    def open_for(self, time: int) -> Sequence[int]:
        """Opens the windows that contain a time. Returns their ids."""

    def late_for(self, time: int) -> Iterable[int]:
        """The ids of the windows that a late value would belong to."""

    def merged(self) -> Iterable[tuple[int, int]]:
        """The windows merged since the last call, as pairs of ``(original, target)``."""

    def close_for(self, watermark: int) -> Iterable[Closed]:
        """Removes and returns the windows that close at ``watermark``."""

    def next_close(self) -> int | None:
        """The watermark at which the next window closes."""

    def is_empty(self) -> bool:
        """True if the state of the key can be deleted."""

    def snapshot(self) -> Any:
        """The state to store."""


class SlidingWindows:
    """Windows of a fixed length that start every ``offset``. The window with id 0 starts at ``align``.

    With ``length=10`` and ``offset=5``, the time 7 is in two windows::

        id -1   [-5 ...... 5)
        id  0        [0 ....... 10)
        id  1              [5 ....... 15)
    """

    __slots__ = ("_align", "_length", "_offset", "_open", "_zone", "quiet_until")

    def __init__(
        self, length: int, offset: int, align: int, zone: tzinfo = UTC, state: Iterable[int] | None = None
    ) -> None:
        self._length = length
        self._offset = offset
        self._align = align
        self._zone = zone
        # A dict keeps the order: windows close in the order in which they opened.
        self._open: dict[int, None] = dict.fromkeys(state or ())
        self.quiet_until = self._close_of(min(self._open)) if self._open else MAX_US + 1

    def _close_of(self, window: int) -> int:
        return self._align + self._offset * window + self._length

    def open_for(self, time: int) -> Sequence[int]:
        ids = self.late_for(time)
        for window in ids:
            if window not in self._open:
                self._open[window] = None
                close = self._close_of(window)
                if close < self.quiet_until:
                    self.quiet_until = close
        return ids

    def late_for(self, time: int) -> range:
        since = time - self._align
        return range((since - self._length) // self._offset + 1, since // self._offset + 1)

    def merged(self) -> tuple[()]:
        return ()

    def close_for(self, watermark: int) -> Sequence[Closed]:
        if watermark < self.quiet_until:
            return ()
        closed = [window for window in self._open if self._close_of(window) <= watermark]
        for window in closed:
            del self._open[window]
        self.quiet_until = self._close_of(min(self._open)) if self._open else MAX_US + 1
        return [(window, self.metadata(window)) for window in closed]

    def metadata(self, window: int) -> WindowMetadata:
        close = self._close_of(window)
        return WindowMetadata(moment(close - self._length, self._zone), moment(close, self._zone))

    def next_close(self) -> int | None:
        return self.quiet_until if self._open else None

    def is_empty(self) -> bool:
        return not self._open

    def snapshot(self) -> list[int]:
        return list(self._open)


class _Session:
    __slots__ = ("first", "last", "merged")

    def __init__(self, first: int, last: int, merged: set[int]) -> None:
        self.first = first
        self.last = last
        self.merged = merged


class SessionWindows:
    """Sessions: windows that end after more than ``gap`` without a value. Ids count from 0.

    Sessions within ``gap`` of each other merge into the one that starts first::

        values       0    3               12   14        gap 5
        sessions    [0 .. 3] id 0        [12 .. 14] id 1
        8 arrives   [0 ................ 14] id 0, with id 1 merged into it

    The state of a key is never deleted, because a reused id would be indistinguishable from that of an earlier session.
    """

    __slots__ = ("_gap", "_last_id", "_merged", "_open")
    quiet_until = MIN_US

    def __init__(self, gap: int, state: tuple[int, list[tuple[int, int, int, list[int]]]] | None = None) -> None:
        self._gap = gap
        last_id, sessions = state or (LATE_SESSION_ID, [])
        self._last_id = last_id
        self._open = {window: _Session(first, last, set(merged)) for window, first, last, merged in sessions}
        self._merged: list[tuple[int, int]] = []

    def open_for(self, time: int) -> tuple[int]:
        for window, session in self._open.items():
            if session.first <= time <= session.last:
                return (window,)
            if 0 < session.first - time <= self._gap:
                session.first = time
                self._merge()
                return (window,)
            if 0 < time - session.last <= self._gap:
                session.last = time
                self._merge()
                return (window,)
        self._last_id += 1
        self._open[self._last_id] = _Session(time, time, set())
        return (self._last_id,)

    def _merge(self) -> None:
        if len(self._open) < 2:
            return
        by_start = sorted(self._open.items(), key=lambda one: one[1].first)
        target_id, target = by_start[0]
        for window, session in by_start[1:]:
            if session.first - target.last <= self._gap:
                target.last = max(target.last, session.last)
                target.merged.add(window)
                self._merged.append((window, target_id))
                del self._open[window]
            else:
                target_id, target = window, session

    def late_for(self, time: int) -> tuple[int]:
        return (LATE_SESSION_ID,)

    def merged(self) -> list[tuple[int, int]]:
        if not self._merged:
            return self._merged
        merged, self._merged = self._merged, []
        return merged

    def close_for(self, watermark: int) -> Sequence[Closed]:
        after = max(watermark - self._gap, MIN_US)
        closed = [(window, session) for window, session in self._open.items() if session.last < after]
        for window, _ in closed:
            del self._open[window]
        return [
            (window, WindowMetadata(moment(session.first), moment(session.last), session.merged))
            for window, session in closed
        ]

    def next_close(self) -> int | None:
        if not self._open:
            return None
        return min(session.last for session in self._open.values()) + self._gap + 1

    def is_empty(self) -> bool:
        return False

    def snapshot(self) -> tuple[int, list[tuple[int, int, int, list[int]]]]:
        return self._last_id, [(window, s.first, s.last, sorted(s.merged)) for window, s in self._open.items()]


class OwnWindower:
    """A windower defined by the program."""

    __slots__ = ("_logic", "_logics")
    quiet_until = MIN_US

    def __init__(self, logic: WindowerLogic[Any], logics: KeptLogics) -> None:
        self._logic = logic
        self._logics = logics

    def open_for(self, time: int) -> list[int]:
        return list(self._logic.open_for(moment(time)))

    def late_for(self, time: int) -> Iterable[int]:
        return self._logic.late_for(moment(time))

    def merged(self) -> Iterable[tuple[int, int]]:
        return self._logic.merged()

    def close_for(self, watermark: int) -> Iterable[Closed]:
        return self._logic.close_for(moment(watermark))

    def next_close(self) -> int | None:
        at = self._logic.notify_at()
        return None if at is None else micros(at)

    def is_empty(self) -> bool:
        return self._logic.is_empty()

    def snapshot(self) -> Any:
        return self._logics.state_of(self._logic)
