"""A model of windows whose bounds depend on the order of rows: sessions with a maximum length, sessions that a row
ends, and windows from a key's first row.

A pane is a list of rows. Its bounds follow from these, and from the pane after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.support.models.arrival_model import KeyPanes, Pane, Shown
from tests.support.models.model import Row


class OrderedPanes(KeyPanes):
    """The panes of one key, in order of time. Panes with the same start are in the order in which they opened."""

    def batch(self, rows: Sequence[Row], before: int | None, now: int) -> Iterator[Shown]:
        yield from super().batch(sorted(rows, key=lambda row: (row.time or 0, row.id)), before, now)

    def _timed(self, row: Row, before: int | None, bounds: list[tuple[int, int]]) -> Iterator[Shown]:
        rules, time = self.rules, row.time
        assert time is not None
        clock = self.clock if rules.per_key else before
        if rules.per_key:
            reading = time - rules.delay
            self.clock = self.now = reading if self.clock is None else max(self.clock, reading)
        pane = self._pane_of(row, clock)
        if pane is None:
            self.late += 1
            if rules.late == "emit":
                yield Shown(self.key, None, None, "late", None, (row.id,))
        else:
            pane.changed = True
            if rules.running:
                yield self._shown(pane, "running")
                pane.fired += 1
        if rules.per_key:
            yield from self.close(self.clock)

    def _pane_of(self, row: Row, clock: int | None) -> Pane | None:
        """The pane that a row enters; none if it is late."""
        time = row.time or 0
        behind = self.rules.late_by == "watermark" and clock is not None and time < clock
        earlier = [pane for pane in self.panes if pane.start <= time]
        at = len(earlier)
        joins = bool(earlier) and self._takes(earlier[-1], time)
        ends = self._is_end(row)
        if joins:
            at -= 1
            pane = self.panes[at]
            parts = [pane]
            rows = [*pane.rows, row]
            start, last = min(pane.start, time), max(self._times(rows))
            # Only the last row ends a pane, and not before the clock.
            is_ended = pane.end_row is not None or (ends and last == time and not self._past(time + 1, clock))
        else:
            pane = Pane(time, time)
            parts, rows, start, last, is_ended = [], [row], time, time, ends
        following = self.panes[at + len(parts) :]
        while self.rules.kind == "ordered" and following and not is_ended:
            other = following[0]
            too_long = self.rules.most is not None and other.end - start > self.rules.most
            if other.start - last > self.rules.size or too_long:
                break
            parts.append(other)
            rows += other.rows
            last, is_ended = max(self._times(rows)), other.end_row is not None
            following = following[1:]
        end = self._end(start, last, is_ended, following)
        if behind or (not parts and self._past(end, clock)):
            return None
        survivor = next((part for part in parts if part.is_old), parts[0] if parts else pane)
        survivor.start, survivor.end, survivor.rows = start, end, sorted(rows, key=lambda row: row.id)
        if is_ended and survivor.end_row is None:
            others = [part.end_row for part in parts if part.end_row is not None]
            survivor.end_row = others[0] if others else row
        if not parts:
            survivor.reading = self.now
        self.panes[at : at + len(parts)] = [survivor]
        return survivor

    def _takes(self, pane: Pane, time: int) -> bool:
        if pane.end_row is not None:
            return time < (pane.end_row.time or 0)
        most = self.rules.size if self.rules.kind == "first row" else self.rules.most
        return time - max(self._times(pane.rows)) <= self.rules.size and (most is None or time - pane.start < most)

    def _end(self, start: int, last: int, is_ended: bool, following: Sequence[Pane]) -> int:
        if is_ended:
            return last + 1
        ends = [(start if self.rules.kind == "first row" else last) + self.rules.size]
        if self.rules.most is not None:
            ends.append(start + self.rules.most)
        return min([*ends, *(pane.start for pane in following[:1])])

    def _is_end(self, row: Row) -> bool:
        return self.rules.ends is not None and row.id % self.rules.ends == 0

    def _past(self, end: int, clock: int | None) -> bool:
        return clock is not None and end + self.rules.lateness <= clock

    @staticmethod
    def _times(rows: Sequence[Row]) -> list[int]:
        return [row.time or 0 for row in rows]
