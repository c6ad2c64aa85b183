"""A model of the pane contract in plain Python, as simple as possible.

It keeps every row of every open pane in a dict and visits all of them in every batch. It shares no design with the
operator (slices, timers, queues), so that they cannot agree by sharing a fault. Times and lengths are microseconds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mullion.windows import Late

SECOND = 1_000_000


class Row(NamedTuple):
    """An input row with a unique ``id``."""

    id: int
    key: str | None
    time: int | None


class Firing(NamedTuple):
    """An output row, with the ids of the pane's rows. A late row has no window and no number."""

    key: str | None
    start: int | None
    end: int | None
    firing: str
    number: int | None  # the pane's ``seq``
    ids: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Contract:
    """The parameters of ``windowed`` apart from its window, and the watermark's delay."""

    delay: int = 0
    lateness: int = 0
    early: int | None = None
    unchanged: bool = False
    count: int | None = None
    on_time: bool = False
    accumulate: bool = True
    late: Late = "drop"
    empty: bool = False
    processing: bool = False
    idle_after: int | None = None

    @property
    def by_wall_clock(self) -> bool:
        """True if panes close or fire by the wall clock. Then a restarted query runs a batch immediately."""
        return self.processing or self.idle_after is not None or self.early is not None


@dataclass(frozen=True)
class Rules(Contract):
    """A query with aligned windows."""

    size: int
    slide: int
    offset: int = 0

    def starts(self, time: int) -> Iterator[int]:
        """The windows of ``time``: ``start <= time < start + size``, with ``start = offset + k * slide``."""
        start = (time - self.offset) // self.slide * self.slide + self.offset
        while start > time - self.size:
            yield start
            start -= self.slide

    def start(self, window: int) -> int:
        """The start of a window, which identifies it in this model."""
        return window

    def end(self, window: int) -> int:
        return window + self.size

    def closes(self, window: int) -> int:
        """The reading of the clock that closes a window's pane."""
        return self.end(window) + self.lateness


@dataclass(frozen=True)
class CumulativeRules(Rules):
    """A query with windows that grow by ``slide`` from the start of a cycle of ``size``. Their ends identify them."""

    def starts(self, time: int) -> Iterator[int]:
        end = self.start(time + 1) + self.size
        while end > time:
            yield end
            end -= self.slide

    def start(self, window: int) -> int:
        return (window - 1 - self.offset) // self.size * self.size + self.offset

    def end(self, window: int) -> int:
        return window


@dataclass
class Pane:
    """An open pane: its end and rows, both clocks' readings when it opened or last fired, and its rows since then."""

    end: int
    event: int
    wall: int
    ids: list[int] = field(default_factory=list)
    fired: int = 0
    since: int = 0
    was_on_time: bool = False


@dataclass
class Batch:
    """The output and the counts of one batch."""

    firings: list[Firing] = field(default_factory=list)
    rows_late: int = 0
    rows_without_time: int = 0
    rows_in_no_window: int = 0
    panes_open: int = 0

    def count(self, firing: str) -> int:
        return sum(1 for fired in self.firings if fired.firing == firing)


class Model(ABC):
    """The panes of all keys of one query, which share the event clock."""

    def __init__(self, contract: Contract) -> None:
        self.contract = contract
        # By key and window. A window is its start, or an identity for which ``start_of`` returns the start.
        self.open: dict[tuple[str | None, Any], Pane] = {}
        self.clock = 0  # the event clock of the next batch: 0 until rows arrive
        self.first: int | None = None  # its first reading after that
        self.before: int | None = None  # the clock of the previous batch: none before batch 0, in which no row is late
        self.has_run = False
        # The rows of each key, by time and id, that later panes may contain.
        self.rows: dict[str | None, list[tuple[int, int]]] = {}
        self.starts_again = False
        self.idle: tuple[int, int] | None = None  # the wall clock and the event clock when the source became empty

    def settle(self, wall: int, rows: Sequence[Row] | None = None, filtered_time: int | None = None) -> list[Batch]:
        """Runs a batch for ``rows``, if there are any, then batches without rows while a pane is due.

        ``filtered_time`` is the time of a row that is filtered out between the watermark and the window.
        """
        batches = []
        if rows is not None or self.starts_again:
            batches.append(self.batch(rows or [], wall, rows_came=rows is not None, filtered_time=filtered_time))
        while self.has_run and (
            any(self._is_due(pane, wall) for pane in self.open.values())
            or self._closes_empty(wall if self.contract.processing else self._when_idle(wall))
            or self._forgets(self._when_idle(wall))
        ):
            batches.append(self.batch([], wall, rows_came=False))
        if self.has_run:
            self._when_idle(wall)
        return batches

    def restart(self) -> None:
        """Restarts the query from its checkpoint. Spark runs no batch before rows arrive."""
        self.has_run, self.idle = False, None
        self.starts_again = self.contract.by_wall_clock

    def _is_due(self, pane: Pane, wall: int) -> bool:
        clock = wall if self.contract.processing else self._when_idle(wall)
        fires = self._fires(pane, clock, None) or self._fires(pane, self.clock, wall)
        return self._closes(pane, clock) or fires is not None

    def _when_idle(self, wall: int) -> int:
        """The event clock after a batch without rows."""
        if self.contract.idle_after is None:
            return self.clock
        since, clock = self.idle = self.idle or (wall, self.clock)
        waited = wall - since
        return self.clock if waited < self.contract.idle_after else max(self.clock, min(wall, clock + waited))

    def _closes(self, pane: Pane, clock: int) -> bool:
        return clock >= pane.end + self.contract.lateness

    def _fires(self, pane: Pane, clock: int, wall: int | None) -> str | None:
        """The firing of an open pane that does not close. The wall clock counts in batches without rows."""
        contract = self.contract
        if pane.was_on_time:
            return "update" if pane.since else None
        if contract.on_time and clock >= pane.end:
            return "on_time"
        if contract.count is not None and pane.since >= contract.count:
            return "early"
        every = contract.early
        if every is None or not (pane.since or contract.unchanged):
            return None
        if contract.processing:
            since: int | None = pane.event
        else:
            # The step of the clock from 0 to the time of the first rows is no interval.
            first = clock if self.first is None else self.first
            since = max(pane.event, first) if clock > 0 else None
        moved = (since is not None and clock >= since + every) or (wall is not None and wall >= pane.wall + every)
        return "early" if moved else None

    def batch(
        self, rows: Sequence[Row], wall: int, *, rows_came: bool = True, filtered_time: int | None = None
    ) -> Batch:
        """Runs one batch; ``settle`` decides which batches run."""
        if self.contract.processing:
            # A row has the time of its batch, and no row is late.
            self.clock, self.before = wall, None
            rows = [row._replace(time=wall) for row in rows]
        clock, batch = self.clock, Batch()
        if self.first is None and clock > 0 and not self.contract.processing:
            self.first = clock

        # All rows are applied before any pane fires.
        timed = []
        for row in rows:
            if row.time is not None:
                timed.append((row, row.time))
                continue
            batch.rows_without_time += 1
            if self.contract.late == "emit":
                batch.firings.append(Firing(row.key, None, None, "late", None, (row.id,)))
        for row in self._enter(timed, wall, batch):
            batch.rows_late += 1
            if self.contract.late == "emit":
                batch.firings.append(Firing(row.key, None, None, "late", None, (row.id,)))

        self._close_empty(clock, batch)
        for (key, window), pane in list(self.open.items()):
            closes = self._closes(pane, clock)
            firing = "close" if closes else self._fires(pane, clock, None if rows_came else wall)
            if firing is not None:
                start = self.start_of(window)
                batch.firings.append(Firing(key, start, pane.end, firing, pane.fired, tuple(sorted(pane.ids))))
                pane.fired, pane.since, pane.event, pane.wall = pane.fired + 1, 0, clock, wall
                pane.was_on_time |= firing == "on_time"
                if not self.contract.accumulate:
                    pane.ids = []
            if closes:
                del self.open[key, window]

        for key in self._forgets(clock):
            del self.rows[key]
        batch.panes_open = len(self.open)
        self.before, self.has_run, self.starts_again = clock, True, False
        if rows_came:
            self.idle = None
        else:
            self.clock = self._when_idle(wall)
        times = [row.time for row in rows if row.time is not None] + ([] if filtered_time is None else [filtered_time])
        if times and not self.contract.processing:
            # Spark keeps watermarks in whole milliseconds.
            self.clock = max(self.clock, max(times) // 1000 * 1000 - self.contract.delay)
        return batch

    def start_of(self, window: Any) -> int:
        return int(window)

    def _closes_empty(self, clock: int) -> bool:
        """True if a window without rows is due to close."""
        return False

    def _close_empty(self, clock: int, batch: Batch) -> None:
        """Closes the due windows without rows, while windows with rows are still open."""
        assert not self.contract.empty

    def _forgets(self, clock: int) -> list[str | None]:
        """The keys without panes whose rows no pane can contain any more: a batch runs to delete these rows."""
        return []

    @abstractmethod
    def _enter(self, rows: Sequence[tuple[Row, int]], wall: int, batch: Batch) -> list[Row]:
        """Adds rows with their times to panes, or reopens panes for this batch. Returns the late rows."""


class Panes(Model):
    """The panes of a query with aligned windows."""

    def __init__(self, rules: Rules) -> None:
        super().__init__(rules)
        self.rules = rules
        self.next_starts: dict[str | None, int] = {}  # where windows without rows close too: the next window of a key

    def start_of(self, window: Any) -> int:
        return self.rules.start(window)

    def _closes_empty(self, clock: int) -> bool:
        return any(self.rules.closes(start) <= clock for start in self.next_starts.values())

    def _close_empty(self, clock: int, batch: Batch) -> None:
        for key in self.next_starts:
            while self.rules.closes(start := self.next_starts[key]) <= clock:
                if (key, start) not in self.open:
                    batch.firings.append(Firing(key, self.start_of(start), self.rules.end(start), "close", 0, ()))
                self.next_starts[key] += self.rules.slide

    def _enter(self, rows: Sequence[tuple[Row, int]], wall: int, batch: Batch) -> list[Row]:
        rules, late = self.rules, []
        reopened: dict[tuple[str | None, int], list[int]] = {}
        for row, time in rows:
            starts = list(rules.starts(time))
            open_starts = [s for s in starts if self.before is None or self.before < rules.closes(s)]
            if not starts:
                batch.rows_in_no_window += 1
            elif open_starts:
                if rules.late == "reopen each":
                    for start in set(starts).difference(open_starts):
                        reopened.setdefault((row.key, start), []).append(row.id)
                if rules.empty:
                    self.next_starts[row.key] = min(self.next_starts.get(row.key, open_starts[-1]), open_starts[-1])
                for start in open_starts:
                    opened = Pane(rules.end(start), event=self.clock, wall=wall)
                    pane = self.open.setdefault((row.key, start), opened)
                    pane.ids.append(row.id)
                    pane.since += 1
            else:
                late.append(row)
                if rules.late in ("reopen", "reopen each"):
                    for start in starts:
                        reopened.setdefault((row.key, start), []).append(row.id)

        # A reopened pane is due immediately.
        for (key, start), ids in reopened.items():
            batch.firings.append(Firing(key, rules.start(start), rules.end(start), "close", 0, tuple(sorted(ids))))
        return late


@dataclass(frozen=True)
class AroundRules(Contract):
    """A query with a window around each row."""

    before: int
    after: int

    def ends(self, time: int) -> int:
        """The end of the window around a row. It is exclusive: the last microsecond is ``after`` the row."""
        return time + self.after + 1


class Arounds(Model):
    """The panes of a query with a window around each row. Rows stay until no window can contain them."""

    def __init__(self, rules: AroundRules) -> None:
        super().__init__(rules)
        self.rules = rules

    def _enter(self, rows: Sequence[tuple[Row, int]], wall: int, batch: Batch) -> list[Row]:
        rules = self.rules
        late = [(row, time) for row, time in rows if self._had_closed(time + rules.before)]
        came: dict[str | None, list[tuple[int, int]]] = {}
        for row, time in rows:
            if (row, time) not in late:
                came.setdefault(row.key, []).append((time, row.id))
        for key, new in came.items():
            self.rows.setdefault(key, []).extend(new)
            for time, _ in new:
                if not self._had_closed(time):
                    self.open.setdefault((key, time - rules.before), Pane(rules.ends(time), self.clock, wall))
            for (other, start), pane in self.open.items():
                if other == key:
                    pane.ids = [row for time, row in self.rows[key] if start <= time < pane.end]
                    pane.since += sum(1 for time, _ in new if start <= time < pane.end)
        if rules.late == "reopen":
            for key, time in {(row.key, time) for row, time in late}:
                start, end = time - rules.before, rules.ends(time)
                ids = tuple(sorted(row.id for row, at in late if row.key == key and start <= at < end))
                batch.firings.append(Firing(key, start, end, "close", 0, ids))
        return [row for row, _ in late]

    def _forgets(self, clock: int) -> list[str | None]:
        waiting = {key for key, _ in self.open}
        reach = self.rules.before + self.rules.lateness
        lasts = {key: max(time for time, _ in rows) for key, rows in self.rows.items() if key not in waiting}
        return [key for key, last in lasts.items() if self.rules.ends(last) + reach <= clock]

    def _had_closed(self, time: int) -> bool:
        """True if the window around a row at ``time`` had closed before this batch."""
        return self.before is not None and self.before >= self.rules.ends(time) + self.rules.lateness


def closes(rules: Rules, rows: Sequence[Row]) -> list[Firing]:
    """The closes of all panes when no row is late, as of a batch DataFrame."""
    panes: dict[tuple[str | None, int], list[int]] = {}
    for row in rows:
        for start in rules.starts(row.time) if row.time is not None else ():
            panes.setdefault((row.key, start), []).append(row.id)
    return [
        Firing(key, rules.start(window), rules.end(window), "close", 0, tuple(sorted(ids)))
        for (key, window), ids in panes.items()
    ]
