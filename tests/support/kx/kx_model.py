"""Windows of the KX Stream Processor in plain Python, over lists: no Spark, and no code of Mullion's.

Rows are ``(time in microseconds, value)``, a stream is a list of batches of them. What comes out is a list of
``(window, partial, values)`` in order, and for late rows that pass through ``("late", values)``.

The clock of event time in a batch is the largest time of the batches before it, in whole milliseconds, and 0 before the
first rows. A window closes in the first batch in which the clock is at or past its end and the lateness; a row is late
if all its windows had closed in the batch before. A batch without rows follows the last one, for the clock has moved.
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

    ``flush``: with how many rows a window gives what it has, before it closes.
    """

    slide: int
    length: int
    lateness: int = 0
    passthrough: bool = False
    sort: bool = False
    skip_empty: bool = False
    flush: int | None = None

    def starts(self, time: int) -> list[int]:
        """The windows that hold a time, the first one first."""
        last = time // self.slide * self.slide
        found = []
        start = last
        while start + self.length > time:
            found.append(start)
            start -= self.slide
        return found[::-1]

    def run(self, batches: Sequence[Sequence[Row]], *, end: bool) -> list[Out]:
        """What comes out of all batches, and where the input ends there, of what is open then."""
        return [(*said, [value for _, value in rows]) for out in self.rounds(batches, end=end) for *said, rows in out]

    def rounds(self, batches: Sequence[Sequence[Row]], *, end: bool) -> list[list[Out]]:
        """The same with what each batch gives, with whole rows; the last ones are of no rows and of the end."""
        found: list[list[Out]] = []
        panes: dict[int, list[Row]] = {}
        before, clock, latest = -math.inf, -math.inf, 0
        first: int | None = None
        closed: int | None = None
        for batch in [*batches, []]:
            before, clock = clock, latest // 1000 * 1000
            late = []
            out: list[Out] = []
            found.append(out)
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
            left = {start for start in panes if panes[start] or not self.skip_empty}
            if left and not self.skip_empty and first is not None:
                # Those without rows too, as far as there is one with some.
                start = first if closed is None else closed + self.slide
                left |= set(range(start, max(left), self.slide))
            found.append([self._shown(start, panes.get(start, [])) for start in sorted(left)])
        return found

    def _shown(self, start: int, rows: list[Row], *, partial: bool = False) -> Out:
        if self.sort:
            rows = sorted(rows, key=lambda row: row[0])
        return (start, start + self.length), partial, rows


@dataclass
class Counted:
    """Windows of so many records."""

    size: int
    frequency: int

    def run(self, batches: Sequence[Sequence[Row]], *, end: bool) -> list[Out]:
        """What comes out, and at the end the windows that are not full."""
        values = [value for batch in batches for _, value in batch]
        out: list[Out] = []
        for start in range(0, len(values), self.frequency):
            held = values[start : start + self.size]
            if len(held) == self.size or end:
                out.append(((start, start + self.size), False, held))
        return out


@dataclass
class Triggered:
    """A global window: the trigger sees the buffer and where the batch begins in it."""

    trigger: Callable[[list[int], int], list[int] | None]

    def run(self, batches: Sequence[Sequence[Row]], *, end: bool) -> list[Out]:
        """What comes out, and at the end what is buffered."""
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
