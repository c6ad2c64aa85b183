"""A model of the windows of the KX Stream Processor in plain Python, over lists, without Spark or Mullion's code.

Rows are ``(time in microseconds, value)``; a stream is a list of batches. The output is a list of
``(window, partial, values)`` in order, and ``("late", values)`` for late rows that pass through.

The event clock of a batch is the largest time of the previous batches, in whole milliseconds, and 0 before the first
rows. A window closes in the first batch whose clock has reached its end plus the lateness. A row is late if all its
windows had closed in the previous batch. A batch without rows follows the last one, because the clock has advanced.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Row = tuple[int, int]
Out = tuple[Any, ...]


@dataclass
class Timed:
    """Tumbling and sliding windows, all in microseconds.

    ``flush``: the number of rows after which a window emits its rows before it closes.
    """

    slide: int
    length: int
    lateness: int = 0
    passthrough: bool = False
    sort: bool = False
    skip_empty: bool = False
    flush: int | None = None

    def starts(self, time: int) -> list[int]:
        """The windows that contain a time, in ascending order."""
        last = time // self.slide * self.slide
        ascending = []
        start = last
        while start + self.length > time:
            ascending.append(start)
            start -= self.slide
        return ascending[::-1]

    def run(self, batches: Sequence[Sequence[Row]], *, end: bool) -> list[Out]:
        """The output of all batches, and of open windows if the input ends."""
        return [(*head, [value for _, value in rows]) for out in self.rounds(batches, end=end) for *head, rows in out]

    def rounds(self, batches: Sequence[Sequence[Row]], *, end: bool) -> list[list[Out]]:
        """The output of each batch, with complete rows; then of the batch without rows, and of the end of the input."""
        rounds_: list[list[Out]] = []
        panes: dict[int, list[Row]] = {}
        before, clock, latest = -math.inf, -math.inf, 0
        first: int | None = None
        closed: int | None = None
        for batch in [*batches, []]:
            before, clock = clock, latest // 1000 * 1000
            late = []
            out: list[Out] = []
            rounds_.append(out)
            for time, value in batch:
                open_ones = [s for s in self.starts(time) if s + self.length + self.lateness > before]
                if not open_ones and self.starts(time):
                    late.append((time, value))
                for start in open_ones:
                    panes.setdefault(start, []).append((time, value))
                    if self.flush is not None and len(panes[start]) == self.flush:
                        out.append(self._shown(start, panes[start], partial=True))
                        panes[start] = []
                    first = start if first is None else min(first, start)
                latest = max(latest, time)
            if late and self.passthrough:
                out.append(("late", late))
            due = [start for start in panes if start + self.length + self.lateness <= clock]
            if first is not None and not self.skip_empty:
                start = first if closed is None else closed + self.slide
                while start + self.length + self.lateness <= clock:
                    due.append(start)
                    start += self.slide
            for start in sorted(set(due)):
                rows = panes.pop(start, [])
                if rows or not self.skip_empty:
                    out.append(self._shown(start, rows))
                closed = start if closed is None else max(closed, start)
        if end:
            remaining = {start for start in panes if panes[start] or not self.skip_empty}
            if remaining and not self.skip_empty and first is not None:
                # Windows without rows too, up to the last window with rows.
                start = first if closed is None else closed + self.slide
                remaining |= set(range(start, max(remaining), self.slide))
            rounds_.append([self._shown(start, panes.get(start, [])) for start in sorted(remaining)])
        return rounds_

    def _shown(self, start: int, rows: list[Row], *, partial: bool = False) -> Out:
        if self.sort:
            rows = sorted(rows, key=lambda row: row[0])
        return (start, start + self.length), partial, rows


@dataclass
class Counted:
    """Windows of this many records."""

    size: int
    frequency: int

    def run(self, batches: Sequence[Sequence[Row]], *, end: bool) -> list[Out]:
        """The output, and incomplete windows at the end."""
        values = [value for batch in batches for _, value in batch]
        out: list[Out] = []
        for start in range(0, len(values), self.frequency):
            rows = values[start : start + self.size]
            if len(rows) == self.size or end:
                out.append(((start, start + self.size), False, rows))
        return out


@dataclass
class Triggered:
    """A global window. The trigger receives the buffer and the position of the batch in it."""

    trigger: Callable[[list[int], int], list[int] | None]

    def run(self, batches: Sequence[Sequence[Row]], *, end: bool) -> list[Out]:
        """The output, and the buffer at the end."""
        out: list[Out] = []
        buffer: list[int] = []
        at = 0
        for batch in batches:
            offset = len(buffer)
            buffer += [value for _, value in batch]
            begin = 0
            for index in self.trigger(list(buffer), offset) or []:
                if index > begin:
                    out.append(((at + begin, at + index), False, buffer[begin:index]))
                begin = index
            buffer, at = buffer[begin:], at + begin
        if end and buffer:
            out.append(((at, at + len(buffer)), False, buffer))
        return out
