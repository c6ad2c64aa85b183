"""A model of sessions in plain Python: rule 7 of the pane contract. It extends the model of the rules for all panes.

Every batch with rows of a key visits all its open sessions. Open sessions and new rows are sorted by time before they
merge, so that the order of arrival cannot matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tests.support.models.custom_model import CustomRules, Customs
from tests.support.models.model import (
    AroundRules,
    Arounds,
    Batch,
    Contract,
    Firing,
    Model,
    Pane,
    Panes,
    Row,
    Rules,
    closes,
)

Key = str | None


@dataclass(frozen=True)
class SessionRules(Contract):
    """A query with sessions. With ``gaps``, a row's id selects its gap; ``None`` is no gap."""

    gap: int
    gaps: tuple[int | None, ...] = ()

    def gap_of(self, row: Row) -> int | None:
        return self.gaps[row.id % len(self.gaps)] if self.gaps else self.gap


class Part(NamedTuple):
    """A part of a session: one row, or a session that was open before the batch."""

    start: int
    end: int
    ids: list[int]
    pane: Pane | None = None

    def touches(self, start: int, end: int) -> bool:
        return self.start <= end and start <= self.end


class Sessions(Model):
    """The sessions of a query."""

    def __init__(self, rules: SessionRules) -> None:
        super().__init__(rules)
        self.rules = rules

    def _enter(self, rows: Sequence[tuple[Row, int]], wall: int, batch: Batch) -> list[Row]:
        late, in_time, too_late = [], dict[Key, list[Part]](), dict[Key, list[Part]]()
        for row, time in rows:
            gap = self.rules.gap_of(row)
            if gap is None or gap <= 0:
                batch.rows_in_no_window += 1
                continue
            alone = Part(time, time + gap, [row.id])
            if self._is_late(row.key, alone):
                late.append(row)
                too_late.setdefault(row.key, []).append(alone)
            else:
                in_time.setdefault(row.key, []).append(alone)

        if self.rules.late == "reopen":
            # Late rows merge only with one another, and their sessions are due immediately.
            for key, parts in too_late.items():
                for merged in touching(parts):
                    batch.firings.append(Firing(key, start_of(merged), end_of(merged), "close", 0, ids_of(merged)))

        for key, parts in in_time.items():
            for merged in touching([*self._open_of(key), *parts]):
                # The open session with the earliest start survives; the others merge into it.
                before = [part for part in merged if part.pane is not None]
                if len(before) == len(merged):
                    continue  # The session received no row.
                for part in before:
                    del self.open[key, part.start]
                pane = before[0].pane if before else None
                if pane is None:
                    pane = Pane(0, event=self.clock, wall=wall)
                # A session fires on time at its end; a session that has grown since fires on time again.
                pane.was_on_time = any(
                    part.pane.was_on_time for part in before if part.pane is not None and part.end == end_of(merged)
                )
                waiting = sum(part.pane.since for part in before if part.pane is not None)
                pane.since = len(merged) - len(before) + waiting
                pane.end, pane.ids = end_of(merged), list(ids_of(merged))
                self.open[key, start_of(merged)] = pane
        return late

    def _is_late(self, key: Key, alone: Part) -> bool:
        """True if the row's own session would have closed already, and it touches no session from before the batch."""
        if self.before is None or self.before < alone.end + self.rules.lateness:
            return False
        return not any(part.touches(alone.start, alone.end) for part in self._open_of(key))

    def _open_of(self, key: Key) -> Iterator[Part]:
        for (other, start), pane in self.open.items():
            if other == key:
                yield Part(start, pane.end, pane.ids, pane)


def touching(parts: Iterable[Part]) -> list[list[Part]]:
    """Groups the parts of one key, in order of time, so that parts of a group touch directly or through others."""
    groups: list[list[Part]] = []
    for part in sorted(parts, key=lambda part: (part.start, part.end)):
        if groups and part.touches(start_of(groups[-1]), end_of(groups[-1])):
            groups[-1].append(part)
        else:
            groups.append([part])
    return groups


def start_of(parts: Sequence[Part]) -> int:
    return min(part.start for part in parts)


def end_of(parts: Sequence[Part]) -> int:
    return max(part.end for part in parts)


def ids_of(parts: Sequence[Part]) -> tuple[int, ...]:
    return tuple(sorted(row for part in parts for row in part.ids))


def closes_of(rules: Rules | SessionRules | AroundRules | CustomRules, rows: Sequence[Row]) -> list[Firing]:
    """The closes of all panes when no row is late, as of a batch DataFrame."""
    if isinstance(rules, Rules):
        return closes(rules, rows)
    model, batch = model_of(rules), Batch()
    model._enter([(row, row.time) for row in rows if row.time is not None], 0, batch)
    return [
        Firing(key, model.start_of(window), pane.end, "close", 0, tuple(sorted(pane.ids)))
        for (key, window), pane in model.open.items()
    ]


def model_of(rules: Rules | SessionRules | AroundRules | CustomRules) -> Model:
    """Returns the model for a query's kind of windows."""
    if isinstance(rules, CustomRules):
        return Customs(rules)
    if isinstance(rules, AroundRules):
        return Arounds(rules)
    return Sessions(rules) if isinstance(rules, SessionRules) else Panes(rules)
