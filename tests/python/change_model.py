"""What a query gives that changes between its runs: its panes as lists of rows, without accumulators, state or timers.

A pane holds its rows and the run in which each came. What an aggregate knows of a pane are the rows since the run from
which on the query has had it without a gap; it is whole if those are all.
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
"""By the name under which the tests ask Spark for them."""


@dataclass(frozen=True)
class Grid:
    """Windows of time of one size."""

    size: int
    slide: int

    def ends(self, time: int) -> list[int]:
        last = time - time % self.slide
        return [start + self.size for start in range(last, time - self.size, -self.slide)]


@dataclass(frozen=True)
class Gap:
    """Sessions."""

    gap: int


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


Shown = tuple[str, int, int, tuple[Any, ...], tuple[str, ...]]
"""A close: key, start and end of the window, the aggregates, and the names of those that are not whole."""


class Changing:
    """A query in several runs. Times and lengths are whole seconds."""

    def __init__(self, window: Grid | Gap) -> None:
        self._window = window
        self._panes: dict[str, list[Pane]] = {}
        self._since: dict[str, int] = {}
        self._run = -1
        self._lateness = 0
        self._asked: tuple[str, ...] = ()
        self._watermark = 0
        self._now = 0
        # What ends by then has closed.
        self._closed: int | None = None
        self.late = 0

    def begin(self, asked: Sequence[str], lateness: int) -> None:
        """Another run of the query, as it is from now on."""
        self._run += 1
        self._since = {name: self._since.get(name, self._run) for name in asked}
        self._asked = tuple(asked)
        self._lateness = lateness

    def write(self, rows: Sequence[tuple[int, str, int]]) -> list[Shown]:
        """A batch of rows, and the batches without rows after it; what closes."""
        for key in {key for _, key, _ in rows}:
            self._enter(key, [(time, value) for time, of, value in rows if of == key])
        closes = self._close(self._watermark)
        self._watermark = max([self._watermark, *(time for time, _, _ in rows)])
        while any(p.end + self._lateness <= self._watermark for panes in self._panes.values() for p in panes):
            closes += self._close(self._watermark)
        return sorted(closes)

    def open(self) -> list[Shown]:
        return sorted(self._shown(key, pane) for key, panes in self._panes.items() for pane in panes)

    def _is_closed(self, end: int) -> bool:
        return self._closed is not None and end <= self._closed

    def _enter(self, key: str, rows: Sequence[tuple[int, int]]) -> None:
        panes = self._panes.setdefault(key, [])
        before = [(pane.start, pane.end) for pane in panes]
        for time, value in rows:
            held = Held(time, value, self._run)
            match self._window:
                case Grid():
                    ends = [end for end in self._window.ends(time) if not self._is_closed(end)]
                    self.late += not ends
                    for end in ends:
                        pane = next((p for p in panes if p.end == end), None)
                        if pane is None:
                            pane = Pane(end - self._window.size, end)
                            panes.append(pane)
                        pane.rows.append(held)
                case Gap(gap):
                    touches = any(start <= time + gap and time <= end for start, end in before)
                    if self._is_closed(time + gap) and not touches:
                        self.late += 1
                        continue
                    merged = Pane(time, time + gap, [held])
                    for pane in [p for p in panes if p.start <= merged.end and merged.start <= p.end]:
                        merged = Pane(
                            min(merged.start, pane.start), max(merged.end, pane.end), [*pane.rows, *merged.rows]
                        )
                        panes.remove(pane)
                    panes.append(merged)

    def _close(self, now: int) -> list[Shown]:
        closed = now - self._lateness
        self._closed = closed if self._closed is None else max(self._closed, closed)
        done = []
        for key, panes in self._panes.items():
            for pane in [p for p in panes if self._is_closed(p.end)]:
                panes.remove(pane)
                done.append(self._shown(key, pane))
        return done

    def _shown(self, key: str, pane: Pane) -> Shown:
        values: list[Value] = []
        incomplete = []
        for name in self._asked:
            known = [held.value for held in pane.rows if held.run >= self._since[name]]
            if len(known) < len(pane.rows):
                incomplete.append(name)
            values.append(AGGREGATES[name](known) if known else None)
        return key, pane.start, pane.end, tuple(values), tuple(incomplete)
