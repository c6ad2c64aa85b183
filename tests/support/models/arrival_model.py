"""A model of queries that process rows one by one, in plain Python. Panes are lists of rows; each row visits all panes
of its key.

Like ``model.py`` it shares no design with the operator. Times and lengths are microseconds, or row numbers for windows
of rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from mullion.windows import Late, LateBy, Order
from tests.support.models.model import Row


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """A query: its windows with their lengths, and the options for rows."""

    kind: str
    size: int
    slide: int = 0
    delay: int = 0
    lateness: int = 0
    early: int | None = None
    late: Late = "drop"
    running: bool = False
    per_key: bool = False
    # True if a key's clock advances with the wall clock; ``late_by`` decides whether rows behind the clock are late.
    goes_on: bool = False
    late_by: LateBy = "panes"
    collect: Order | None = None
    # The longest window that depends on the order of rows. A row ends a window if its id is a multiple of ``ends``.
    most: int | None = None
    ends: int | None = None
    # The wall time after which windows of a number of rows close.
    timeout: int | None = None

    @property
    def is_numbered(self) -> bool:
        return self.kind in ("count", "every", "when", "changes", "sum")

    @property
    def follows_wall(self) -> bool:
        return self.goes_on or self.timeout is not None


class Shown(NamedTuple):
    """An output row with the ids of the pane's rows in order; a late row contains only its own id."""

    key: str | None
    start: int | None
    end: int | None
    firing: str
    number: int | None
    ids: tuple[int, ...]


@dataclass
class Pane:
    start: int
    end: int
    rows: list[Row] = field(default_factory=list)
    fired: int = 0
    reading: int | None = None
    changed: bool = False
    is_old: bool = False
    end_row: Row | None = None


class KeyPanes:
    """The panes of one key, and all its rows."""

    def __init__(self, rules: Arrival, key: str | None) -> None:
        self.rules = rules
        self.key = key
        self.rows: list[Row] = []
        self.began = 0
        self.panes: list[Pane] = []
        self.clock: int | None = None
        # The wall time of that reading.
        self.wall = 0
        # The reading of the clock for early firings.
        self.now: int | None = None
        self.late = 0
        self.reopened: list[Pane] = []

    def batch(self, rows: Sequence[Row], before: int | None, now: int) -> Iterator[Shown]:
        """Adds the rows of one batch, with the stream's clock before and in the batch."""
        self.now = now
        for pane in self.panes:
            pane.is_old = True
        bounds = [(pane.start, pane.end) for pane in self.panes]
        for row in rows:
            if self.rules.is_numbered:
                yield from self._numbered(row)
            else:
                yield from self._timed(row, before, bounds)
        if self.rules.per_key:
            yield from self.early(self.clock)
        for pane in self.reopened:
            yield self._shown(pane, "close")
        self.reopened = []

    def close(self, clock: int | None) -> Iterator[Shown]:
        """Closes the panes that are due by a clock."""
        for pane in self.due(clock):
            self.panes.remove(pane)
            yield self._shown(pane, "close")

    def due(self, clock: int | None) -> list[Pane]:
        ordered = sorted(self.panes, key=lambda pane: (pane.end, pane.start))
        return [pane for pane in ordered if clock is not None and pane.end + self.rules.lateness <= clock]

    def passing(self, wall: int) -> Iterator[Shown]:
        """Advances the wall clock."""
        if self.clock is not None:
            self.clock += wall - self.wall
        self.wall = wall
        if self.rules.timeout is None:
            yield from self.close(self.clock)
            return
        for pane in self.panes[:]:
            if (pane.reading or 0) + self.rules.timeout <= wall:
                self.panes.remove(pane)
                yield self._shown(pane, "close")

    def forget(self) -> None:
        """Ends a batch: a key of aligned windows without open panes is forgotten."""
        if self.rules.goes_on and self.rules.kind == "aligned" and not self.panes:
            self.clock = None

    def _numbered(self, row: Row) -> Iterator[Shown]:
        rules, number = self.rules, len(self.rows)
        assert row.time is not None
        changes = bool(self.rows) and mark(self.rows[-1], rules.size) != mark(row, rules.size)
        if rules.kind == "changes" and changes and self.panes:
            yield self._shown(self.panes.pop(), "close")
        self.rows.append(row)
        if rules.kind == "count":
            if number % rules.slide == 0:
                self.panes.append(Pane(number, number + rules.size))
            touched = [pane for pane in self.panes if pane.start <= number < pane.end]
        else:
            if not self.panes:
                self.panes.append(Pane(number, number, reading=self.wall))
            touched = self.panes[:]
            touched[0].end = number + 1
        for pane in touched:
            pane.rows.append(row)
            if rules.running:
                yield self._shown(pane, "running")
                pane.fired += 1
        for pane in touched:
            match rules.kind:
                case "count":
                    closes = pane.end == number + 1
                case "every":
                    closes = len(pane.rows) == rules.size
                case "when":
                    closes = row.id % rules.size == 0
                case "sum":
                    closes = sum(of.id % 10 for of in pane.rows) > rules.size
                case _:
                    closes = False
            if closes or (rules.ends is not None and row.id % rules.ends == 0):
                self.panes.remove(pane)
                yield self._shown(pane, "close")

    def _timed(self, row: Row, before: int | None, bounds: list[tuple[int, int]]) -> Iterator[Shown]:
        rules = self.rules
        assert row.time is not None
        clock = self.clock if rules.per_key else before
        if rules.per_key:
            reading = row.time - rules.delay
            self.clock = self.now = reading if self.clock is None else max(self.clock, reading)
            bounds = [(pane.start, pane.end) for pane in self.panes]
        alone = self._alone(row.time)
        if rules.late_by == "watermark" and clock is not None and row.time < clock:
            panes = []
        elif rules.kind == "session":
            (own,) = alone
            touches = any(start <= own.end and own.start <= end for start, end in bounds)
            panes = [] if self._closed(own, clock) and not touches else [self._joined(own)]
        else:
            panes = [self._open_pane(pane) for pane in alone if not self._closed(pane, clock)]
        if not panes:
            self.late += 1
            if rules.late == "emit":
                yield Shown(self.key, None, None, "late", None, (row.id,))
            for pane in alone if rules.late == "reopen" else []:
                if rules.per_key:
                    yield Shown(self.key, pane.start, pane.end, "close", 0, (row.id,))
                else:
                    self._reopen(pane, row)
        for pane in panes:
            pane.rows.append(row)
            pane.changed = True
            if rules.running:
                yield self._shown(pane, "running")
                pane.fired += 1
        if rules.per_key:
            yield from self.close(self.clock)

    def _reopen(self, pane: Pane, row: Row) -> None:
        """Adds a late row to a reopened pane. By the stream's clock, late rows of one batch share reopened panes."""
        session = self.rules.kind == "session"
        same = [
            pane_
            for pane_ in self.reopened
            if pane_.start == pane.start or (session and pane_.start <= pane.end and pane.start <= pane_.end)
        ]
        for pane_ in same:
            self.reopened.remove(pane_)
        of_one = [*same, pane]
        pane.rows = sorted([row, *(row for pane_ in same for row in pane_.rows)], key=lambda row: row.id)
        pane.start, pane.end = min(pane_.start for pane_ in of_one), max(pane_.end for pane_ in of_one)
        self.reopened.append(pane)

    def _alone(self, time: int) -> list[Pane]:
        rules = self.rules
        if rules.kind == "session":
            return [Pane(time, time + rules.size)]
        last = time // rules.slide * rules.slide
        starts = range(last, time - rules.size, -rules.slide)
        return [Pane(start, start + rules.size) for start in sorted(starts)]

    def _closed(self, pane: Pane, clock: int | None) -> bool:
        return clock is not None and pane.end + self.rules.lateness <= clock

    def _open_pane(self, pane: Pane) -> Pane:
        for existing in self.panes:
            if existing.start == pane.start:
                return existing
        pane.reading = self.now
        self.panes.append(pane)
        return pane

    def _joined(self, own: Pane) -> Pane:
        ordered = sorted(self.panes, key=lambda pane: pane.start)
        touched = [pane for pane in ordered if pane.start <= own.end and own.start <= pane.end]
        if not touched:
            own.reading = self.now
            self.panes.append(own)
            return own
        survivor = next((pane for pane in touched if pane.is_old), touched[0])
        start, end = min(own.start, touched[0].start), max(own.end, touched[-1].end)
        rows = sorted((row for pane in touched for row in pane.rows), key=lambda row: row.id)
        for pane in touched:
            self.panes.remove(pane)
        survivor.start, survivor.end, survivor.rows = start, end, rows
        self.panes.append(survivor)
        return survivor

    def begin(self, clock: int) -> None:
        """Panes that opened before the stream's clock had a reading count from the first one."""
        for pane in self.panes:
            pane.reading = clock

    def waits(self, clock: int | None) -> list[Pane]:
        """Fires the panes that are due to fire early by a clock."""
        every = self.rules.early
        if every is None or clock is None:
            return []
        return [pane for pane in self.panes if pane.changed and (pane.reading or 0) + every <= clock]

    def early(self, clock: int | None) -> Iterator[Shown]:
        for pane in self.waits(clock):
            yield self._shown(pane, "early")
            pane.fired, pane.reading, pane.changed = pane.fired + 1, clock, False

    def _shown(self, pane: Pane, firing: str) -> Shown:
        return Shown(self.key, pane.start, pane.end, firing, pane.fired, self.ids(pane))

    def ids(self, pane: Pane) -> tuple[int, ...]:
        """The ids of a pane's rows in the requested order; ids follow the order of arrival."""
        by_time = self.rules.collect == "time"
        ordered = sorted(pane.rows, key=lambda row: (row.time or 0 if by_time else 0, row.id))
        return tuple(row.id for row in ordered)


def mark(row: Row, size: int) -> int:
    """The value of a row that a window of changes compares."""
    return row.id // size % 3


class ArrivalModel:
    """All keys of a query, and the stream's clock."""

    def __init__(self, rules: Arrival, panes_of_key: type[KeyPanes] = KeyPanes) -> None:
        self.rules = rules
        self.panes_of_key = panes_of_key
        self.keys: dict[str | None, KeyPanes] = {}
        self.before: int | None = None
        self.clock = 0

    def settle(self, rows: Sequence[Row], wall: int = 0) -> list[Shown]:
        """Runs a batch with rows, and a batch without rows after it if panes are due."""
        firings: list[Shown] = []
        if self.rules.follows_wall:
            for panes in self.keys.values():
                firings += panes.passing(wall)
        of: dict[str | None, list[Row]] = {}
        for row in rows:
            of.setdefault(row.key, []).append(row)
        for key, its in of.items():
            panes = self.keys.setdefault(key, self.panes_of_key(self.rules, key))
            panes.wall = wall
            firings += panes.batch(its, self.before, self.clock)
        for panes in self.keys.values():
            panes.forget()
        timed = not (self.rules.is_numbered or self.rules.per_key)
        if timed:
            firings += self._close()
            before = self.clock
            self.clock = max([self.clock, *(row.time - self.rules.delay for row in rows if row.time is not None)])
            if before == 0:
                for panes in self.keys.values():
                    panes.begin(self.clock)
            if any(panes.due(self.clock) or panes.waits(self.clock) for panes in self.keys.values()):
                firings += self._close()
        return firings

    def _close(self) -> list[Shown]:
        self.before = self.clock
        return [
            firing for panes in self.keys.values() for firing in (*panes.close(self.clock), *panes.early(self.clock))
        ]

    @property
    def late(self) -> int:
        return sum(panes.late for panes in self.keys.values())

    @property
    def open(self) -> list[tuple[str | None, int, int, tuple[int, ...]]]:
        """The open panes. An open window of row numbers may show the end that it will have."""
        return [(k, pane.start, pane.end, panes.ids(pane)) for k, panes in self.keys.items() for pane in panes.panes]
