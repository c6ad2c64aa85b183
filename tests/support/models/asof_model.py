"""A model of an as-of join over micro-batches, in plain Python: all rows in lists, and no sorting of state."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Row(NamedTuple):
    """A row of either side: its time in microseconds, its key, and the value that identifies it."""

    time: int | None
    key: Any
    value: Any


@dataclass
class AsOfModel:
    """One join. ``before`` is the clock of the previous batch, ``None`` before the first one."""

    direction: str
    tolerance: int | None
    allow_exact: bool
    before: int | None = None
    waiting: list[Row] = field(default_factory=list)
    rights: list[Row] = field(default_factory=list)
    late: int = 0

    @property
    def _ahead(self) -> int:
        return 0 if self.direction == "backward" else self.tolerance or 0

    def batch(self, lefts: Iterable[Row], rights: Iterable[Row], now: int) -> list[tuple[Row, Any]]:
        """Applies a micro-batch whose clock is ``now``. Returns the emitted left rows, each with its match's value."""
        earlier = list(self.rights)
        for row in rights:
            if row.time is None or row.key is None:
                continue
            if self._can_be_needed(row, earlier):
                same = [other for other in self.rights if (other.time, other.key) == (row.time, row.key)]
                for other in same:
                    self.rights.remove(other)
                self.rights.append(row)
            else:
                self.late += 1
        for row in lefts:
            if row.time is None:
                continue
            if self.before is not None and row.time + self._ahead <= self.before:
                self.late += 1
            else:
                self.waiting.append(row)
        due = [row for row in self.waiting if row.time is not None and row.time + self._ahead <= now]
        for row in due:
            self.waiting.remove(row)
        self.before = now
        return [(row, self.match(row)) for row in due]

    def _can_be_needed(self, right: Row, earlier: Iterable[Row]) -> bool:
        """True if a left row that is not late may match ``right``, given the right rows of earlier batches."""
        if self.before is None:
            return True
        assert right.time is not None
        if self.direction == "backward":
            newer = any(other.key == right.key and right.time < (other.time or 0) <= self.before for other in earlier)
            within = self.tolerance is None or right.time + self.tolerance > self.before
            return within and not newer
        reach = (self.tolerance or 0) * (2 if self.direction == "nearest" else 1)
        return right.time + reach > self.before

    def match(self, left: Row) -> Any:
        assert left.time is not None
        best: Row | None = None
        for right in self.rights:
            assert right.time is not None
            distance = right.time - left.time
            if right.key != left.key or left.key is None or (distance == 0 and not self.allow_exact):
                continue
            if self.direction == "backward" and distance > 0:
                continue
            if self.direction == "forward" and distance < 0:
                continue
            if self.tolerance is not None and abs(distance) > self.tolerance:
                continue
            # Of two rows at the same distance, the earlier matches.
            if (
                best is None
                or best.time is None
                or (abs(distance), distance) < (abs(best.time - left.time), best.time - left.time)
            ):
                best = right
        return None if best is None else best.value
