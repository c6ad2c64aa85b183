"""A model of windows that rows list, in plain Python. It extends the model of the rules for all panes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.support.models.model import Batch, Contract, Firing, Model, Pane, Row

Window = tuple[int, int]
"""A start and an end."""


@dataclass(frozen=True)
class CustomRules(Contract):
    """A query with custom windows. A row's list of ranges follows from the number of ``unit``s before its time.

    Ranges are relative to the row's unit, so that rows of one unit share windows.
    """

    unit: int
    lists: tuple[tuple[Window, ...] | None, ...]
    in_python: bool = False

    def ranges(self, time: int) -> list[Window] | None:
        base = time // self.unit
        pairs = self.lists[base % len(self.lists)]
        return None if pairs is None else [(base * self.unit + start, base * self.unit + end) for start, end in pairs]


class Customs(Model):
    """The panes of a query with custom windows."""

    def __init__(self, rules: CustomRules) -> None:
        super().__init__(rules)
        self.rules = rules

    def start_of(self, window: Window) -> int:
        return window[0]

    def _enter(self, rows: Sequence[tuple[Row, int]], wall: int, batch: Batch) -> list[Row]:
        late = []
        reopened: dict[tuple[str | None, Window], list[int]] = {}
        for row, time in rows:
            windows = set(self.rules.ranges(time) or ())
            if not windows:
                batch.rows_in_no_window += 1
                continue
            in_time = [w for w in windows if self.before is None or self.before < w[1] + self.rules.lateness]
            for window in in_time:
                pane = self.open.setdefault((row.key, window), Pane(window[1], event=self.clock, wall=wall))
                pane.ids.append(row.id)
                pane.since += 1
            if not in_time:
                late.append(row)
            if self.rules.late == "reopen each" or (self.rules.late == "reopen" and not in_time):
                for window in windows.difference(in_time):
                    reopened.setdefault((row.key, window), []).append(row.id)

        # A reopened pane is due immediately.
        for (key, (start, end)), ids in reopened.items():
            batch.firings.append(Firing(key, start, end, "close", 0, tuple(sorted(ids))))
        return late
