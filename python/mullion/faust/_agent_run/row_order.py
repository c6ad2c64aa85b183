"""The rows of a task in order of arrival, converted to Python objects a thousand at a time.

They stay in Arrow until then: as a dict, a row takes about a kilobyte.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Iterator
from typing import Any, final

import pyarrow as pa
import pyarrow.compute as pc

_RUN = 1000


@final
class InOrder:
    """The rows of all agents; iteration is by the agent's number."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = [batch for batch in batches if batch.num_rows]
        self._starts = [0, *itertools.accumulate(batch.num_rows for batch in self._batches)]
        self._order = pc.sort_indices(self._column("_position", pa.int64()))
        self._agents = self._column("_agent", pa.int32()).take(self._order)
        self._is_effect = self._column("_statement", pa.int32()).take(self._order).is_valid()

    def of(self, agent: int, *, effects: bool = False) -> Iterator[dict[str, Any]]:
        """Yields the rows of an agent: its events, or with ``effects`` the effects of an agent that ran in the JVM."""
        mine = pc.and_(pc.equal(self._agents, agent), self._is_effect if effects else pc.invert(self._is_effect))
        order = self._order.filter(mine)
        for start in range(0, len(order), _RUN):
            yield from self._rows(order.slice(start, _RUN).to_pylist())

    def _rows(self, numbers: list[int]) -> Iterator[dict[str, Any]]:
        """Rows by number: one ``take`` per batch."""
        places = [bisect.bisect_right(self._starts, number) - 1 for number in numbers]
        wanted: dict[int, list[int]] = {}
        for place, number in zip(places, numbers, strict=True):
            wanted.setdefault(place, []).append(number - self._starts[place])
        taken = {place: iter(self._batches[place].take(pa.array(rows)).to_pylist()) for place, rows in wanted.items()}
        for place in places:
            yield next(taken[place])

    def _column(self, name: str, kind: pa.DataType) -> pa.Array:
        parts = [
            batch.column(name) if name in batch.schema.names else pa.nulls(batch.num_rows, kind)
            for batch in self._batches
        ]
        return pa.concat_arrays(parts) if parts else pa.array([], kind)
