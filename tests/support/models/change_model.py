"""A model of a query that changes between its runs. Panes are lists of rows, without accumulators, state or timers.

A pane contains its rows and the run in which each arrived. An aggregate covers the rows since the run from which on the
query has had it without a gap; it is complete if these are all rows of the pane. The record of a pane's firings begins
with the first batch whose rules fire panes before their close, as if the pane had just fired. From then on the record
continues, even under rules that fire no pane before its close.

While a new window replaces another one, the previous window receives the rows before the boundary. It is removed when
the query is restarted after the last of its panes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Value = int | float | list[int] | None
Aggregate = Callable[[Sequence[int]], Value]

AGGREGATES: Mapping[str, Aggregate] = {
    "n": len,
    "total": sum,
    "most": max,
    "odd": lambda values: sum(1 for v in values if v % 2),
    "mean": lambda values: sum(values) / len(values),
    "everything": sorted,
    "more": lambda values: [v + 1 for v in sorted(values)],
}
"""Aggregates by the names that the tests use in Spark."""


@dataclass(frozen=True)
class Grid:
    """Windows of one length."""

    size: int
    slide: int

    def ends(self, time: int) -> list[int]:
        last = time - time % self.slide
        return [start + self.size for start in range(last, time - self.size, -self.slide)]

    def is_edge(self, time: int) -> bool:
        return time % self.slide == 0

    def over(self, boundary: int) -> int:
        """The time at which all windows with a time before the boundary have ended."""
        return (boundary - 1) // self.slide * self.slide + self.size


@dataclass(frozen=True)
class Gap:
    """Sessions."""

    gap: int

    def over(self, boundary: int) -> int:
        return boundary + self.gap


def boundary(previous: Grid | Gap, following: Grid | Gap, after: int) -> int:
    """The time from which on the new window receives the rows."""
    grids = [window for window in (previous, following) if isinstance(window, Grid)]
    if not grids:
        return after
    reach = after + 10 * max(grid.slide for grid in grids) + 1
    both = (time for time in range(after, reach) if all(grid.is_edge(time) for grid in grids))
    one = (time for time in range(after, reach) if grids[0].is_edge(time))
    return next(both, next(one))


@dataclass(frozen=True)
class Held:
    time: int
    value: int
    run: int


@dataclass
class Pane:
    start: int
    end: int
    rows: list[Held] = field(default_factory=list)
    is_old: bool = False
    fired: int = 0
    reading: int = 0
    since: int = 0
    was_on_time: bool = False


@dataclass(frozen=True)
class Firings:
    """Firings before the close: after seconds of event time, after a number of rows, and at the pane's end."""

    every: int | None = None
    unchanged: bool = False
    count: int | None = None
    on_time: bool = False

    @property
    def any(self) -> bool:
        return self.every is not None or self.count is not None or self.on_time


Rows = Sequence[tuple[int, str, int]]
Shown = tuple[str, int, int, tuple[Any, ...], tuple[str, ...], str, int]
"""A firing: key, start and end of the window, aggregates, names of incomplete aggregates, kind, seq. An open pane has
the kind ``open``."""


class Changing:
    """A query in several runs. Times and lengths are whole seconds."""

    def __init__(self, window: Grid | Gap) -> None:
        self._window = window
        self._panes: dict[str, list[Pane]] = {}
        self._since: dict[str, int] = {}
        self._run = -1
        self._lateness = 0
        self._aggregates: tuple[str, ...] = ()
        self._firings = Firings()
        self._notes = False
        self._watermark = 0
        self._first: int | None = None  # the first reading of the watermark
        # Windows that end by then have closed.
        self._closed: int | None = None
        # Windows that had ended by then had closed when the lateness changed.
        self._closed_to = 0
        self._committed = 0
        self._before: Changing | None = None
        self._boundary = 0
        self.late = 0

    @property
    def is_draining(self) -> bool:
        """True if another run still has the previous window."""
        if self._before is None:
            return False
        return self._committed < max(
            part._window.over(self._boundary) + part._lateness for part in (self._before, self)
        )

    def may_drain(self) -> bool:
        return self._before is None and self._closed_to + self._lateness <= self._committed

    def drained(self, window: Grid | Gap) -> Changing:
        """Returns the query with another window from now on."""
        now = Changing(window)
        now._before, now._boundary = self, boundary(self._window, window, self._watermark + 1)
        now._run, now._since, now._aggregates = self._run, dict(self._since), self._aggregates
        now._watermark, now._committed = self._watermark, self._committed
        now._closed_to = now._boundary
        return now

    def begin(self, aggregates: Sequence[str], lateness: int, firings: Firings = Firings()) -> None:
        """Starts another run of the query with these aggregates and options."""
        if self._before is not None and self._run >= 0 and not self.is_draining:
            self._closed = max(self._boundary, self._boundary if self._closed is None else self._closed)
            self._before = None
        if self._before is not None:
            self._before.begin(aggregates, self._before._lateness, self._before._firings)
        if self._run >= 0 and lateness != self._lateness and self._before is None:
            self._closed_to = max(self._closed_to, self._committed - self._lateness)
        self._run += 1
        self._since = {name: self._since.get(name, self._run) for name in aggregates}
        self._aggregates = tuple(aggregates)
        self._lateness = lateness
        previous, self._firings = self._firings, firings
        noted, self._notes = self._notes, self._notes or firings.any
        for pane in self._all():
            if not noted:
                pane.fired, pane.reading, pane.since, pane.was_on_time = 0, self._watermark, 0, False
            if firings.count is not None and previous.count is None:
                pane.since = min(pane.since, 1)
            pane.was_on_time = pane.was_on_time and firings.on_time

    def _all(self) -> list[Pane]:
        return [pane for panes in self._panes.values() for pane in panes]

    def write(self, rows: Sequence[tuple[int, str, int]]) -> list[Shown]:
        """Runs a batch of rows, and the batches without rows after it. Returns the firings."""
        parts = [self] if self._before is None else [self._before, self]
        sides = [
            [row for row in rows if self._before is None or (row[0] >= self._boundary) == (part is self)]
            for part in parts
        ]
        return sorted(fired for _, fired in in_batches(parts, sides, rows))

    def _take(self, rows: Sequence[tuple[int, str, int]]) -> None:
        for pane in self._all():
            pane.is_old = True
        for key in {key for _, key, _ in rows}:
            self._enter(key, [(time, value) for time, of, value in rows if of == key])

    def _is_due(self, now: int) -> bool:
        return any(
            pane.end + self._lateness <= now
            or (self._firings.on_time and not pane.was_on_time and pane.end <= now)
            or self._fires_early(pane, now)
            for pane in self._all()
        )

    def _fires_early(self, pane: Pane, now: int) -> bool:
        every = self._firings.every
        waits = not pane.was_on_time and (self._firings.unchanged or pane.since > 0)
        first = now if self._first is None else self._first
        return every is not None and waits and 0 < now >= max(pane.reading, first) + every

    def open(self) -> list[Shown]:
        before = [] if self._before is None else self._before.open()
        return sorted(before + [self._shown(key, pane, "open") for key, panes in self._panes.items() for pane in panes])

    def _fire_for_rows(self, keys: set[str], now: int) -> list[Shown]:
        fired = []
        for key in keys:
            for pane in self._panes.get(key, []):
                if not pane.since or pane.end + self._lateness <= now:
                    continue
                if pane.was_on_time:
                    fired.append(self._fired(key, pane, "update", now))
                elif self._firings.on_time and pane.end <= now:
                    fired.append(self._fired(key, pane, "on_time", now))
                elif self._firings.count is not None and pane.since >= self._firings.count:
                    fired.append(self._fired(key, pane, "early", now))
        return fired

    def _fire(self, now: int) -> list[Shown]:
        fired = self._close(now)
        for key, panes in self._panes.items():
            for pane in panes:
                if self._firings.on_time and not pane.was_on_time and pane.end <= now:
                    fired.append(self._fired(key, pane, "on_time", now))
        for key, panes in self._panes.items():
            for pane in panes:
                if self._fires_early(pane, now):
                    fired.append(self._fired(key, pane, "early", now))
        return fired

    def _fired(self, key: str, pane: Pane, kind: str, now: int) -> Shown:
        shown = self._shown(key, pane, kind)
        pane.fired, pane.reading, pane.since = pane.fired + 1, now, 0
        pane.was_on_time = pane.was_on_time or kind == "on_time"
        return shown

    def _is_closed(self, end: int) -> bool:
        return self._closed is not None and end <= self._closed

    def _enter(self, key: str, rows: Sequence[tuple[int, int]]) -> None:
        panes = self._panes.setdefault(key, [])
        before = [(pane.start, pane.end) for pane in panes]
        for time, value in rows:
            arrived = Held(time, value, self._run)
            match self._window:
                case Grid():
                    ends = [end for end in self._window.ends(time) if not self._is_closed(end)]
                    self.late += not ends
                    for end in ends:
                        pane = next((p for p in panes if p.end == end), None)
                        if pane is None:
                            pane = Pane(end - self._window.size, end, reading=self._watermark)
                            panes.append(pane)
                        pane.rows.append(arrived)
                        pane.since += self._notes
                case Gap(gap):
                    touches = any(start <= time + gap and time <= end for start, end in before)
                    if self._is_closed(time + gap) and not touches:
                        self.late += 1
                        continue
                    first = Pane(time, time + gap, [arrived], reading=self._watermark, since=int(self._notes))
                    touched = sorted(
                        (p for p in panes if p.start <= first.end and first.start <= p.end), key=lambda p: p.start
                    )
                    panes.append(self._merged(first, touched))
                    for pane in touched:
                        panes.remove(pane)

    def _merged(self, row: Pane, touched: Sequence[Pane]) -> Pane:
        """Merges a row with sessions. The earliest session that was open before the batch survives."""
        if not touched:
            return row
        survivor = next((p for p in touched if p.is_old), touched[0])
        last = max(touched, key=lambda p: p.end)
        parts = [*touched, row]
        return Pane(
            min(p.start for p in parts),
            max(p.end for p in parts),
            [row_ for p in parts for row_ in p.rows],
            survivor.is_old,
            survivor.fired,
            survivor.reading,
            sum(p.since for p in parts),
            last.was_on_time and row.end <= last.end,
        )

    def _close(self, now: int) -> list[Shown]:
        self._committed = now
        closed = now - self._lateness
        self._closed = closed if self._closed is None else max(self._closed, closed)
        done = []
        for key, panes in self._panes.items():
            for pane in [p for p in panes if self._is_closed(p.end)]:
                panes.remove(pane)
                done.append(self._shown(key, pane, "close"))
        return done

    def _shown(self, key: str, pane: Pane, kind: str) -> Shown:
        values: list[Value] = []
        incomplete = []
        for name in self._aggregates:
            values_ = [row.value for row in pane.rows if row.run >= self._since[name]]
            if len(values_) < len(pane.rows):
                incomplete.append(name)
            values.append(AGGREGATES[name](values_) if values_ else None)
        seq = 0 if kind == "open" else pane.fired
        return key, pane.start, pane.end, tuple(values), tuple(incomplete), kind, seq


def in_batches(parts: Sequence[Changing], sides: Sequence[Rows], rows: Rows) -> list[tuple[int, Shown]]:
    """Runs a batch of rows for the windows of one query, each of which receives its own part, and the batches without
    rows after it. Returns the firings with the number of the window.
    """
    watermark = parts[0]._watermark
    keys = {key for _, key, _ in rows}
    for part, side in zip(parts, sides, strict=True):
        if part._first is None and watermark > 0:
            part._first = watermark
        part._take(side)
    fired = [(i, shown) for i, part in enumerate(parts) for shown in part._fire_for_rows(keys, watermark)]
    fired += [(i, shown) for i, part in enumerate(parts) for shown in part._fire(watermark)]
    watermark = max([watermark, *(time for time, _, _ in rows)])
    for part in parts:
        part._watermark = watermark
    # A batch without rows runs only if a pane is due in it.
    while any(part._is_due(watermark) for part in parts):
        fired += [(i, shown) for i, part in enumerate(parts) for shown in part._fire(watermark)]
    return fired


class Several:
    """Windows of one query by name. Runs of the query add and remove windows."""

    def __init__(self) -> None:
        self.windows: dict[str, Changing] = {}
        self._watermark = 0
        self._committed: int | None = None

    def add(self, name: str, window: Grid | Gap, aggregates: Sequence[str], lateness: int, firings: Firings) -> None:
        """Adds a window that receives rows from now on. Windows that the clock has closed are closed for it too."""
        new = Changing(window)
        new._watermark = self._watermark
        new.begin(aggregates, lateness, firings)
        new._closed = None if self._committed is None else self._committed - lateness
        self.windows[name] = new

    def write(self, rows: Rows) -> list[tuple[str, Shown]]:
        names, parts = list(self.windows), list(self.windows.values())
        fired = in_batches(parts, [rows] * len(parts), rows)
        self._watermark, self._committed = parts[0]._watermark, parts[0]._committed
        return sorted((names[i], shown) for i, shown in fired)

    def open(self) -> list[tuple[str, Shown]]:
        return sorted((name, shown) for name, window in self.windows.items() for shown in window.open())
