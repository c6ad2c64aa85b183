"""Items on their way between tasks: many in one row, for one step and one shard.

A row is ``target`` (the step), ``shard``, ``first`` and ``part`` (by which rows are put in order), and ``data``, the
items with their origins. A key is always of one shard, and a shard of one task of a stage.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple
from zlib import crc32

import pyarrow as pa

from mullion.bytewax._run.plan import STATEFUL, Origin, Plan
from mullion.bytewax._run.values import decode, encode, encode_one
from mullion.errors import WrongCallError

SHARDS: Final = 64
"""State is laid out by them: the number stays what it is."""

END: Final = -1
"""The target of a row that says which inputs have ended; every stage reads it, and passes it on."""

READ: Final = -2
"""The target of a row that says which entry of the log was read, ``first``; it is passed on to the end."""

CHUNKS: Final = "target int, shard int, first bigint, part int, data binary"
"""The rows between tasks, as DDL."""

_SCHEMA: Final = pa.schema(
    [
        ("target", pa.int32()),
        ("shard", pa.int32()),
        ("first", pa.int64()),
        ("part", pa.int32()),
        ("data", pa.binary()),
    ]
)
_ITEMS_OF_A_CHUNK: Final = 20_000
_CHUNKS_OF_A_BATCH: Final = 256

_order = itemgetter(0, 1)


class Entry(NamedTuple):
    """An item on its way: :class:`Origin`, and for a stage the key of the item, else ``None``."""

    place: int
    of_key: str
    now_us: int
    key: str | None
    value: Any


def shard_of(key: str) -> int:
    """The shard of a key."""
    return crc32(key.encode("utf-8", "surrogatepass")) % SHARDS


class Collector:
    """What a task gives to others: takes items, and yields rows."""

    def __init__(self, plan: Plan, task: int) -> None:
        self._plan = plan
        self._task_shard = task % SHARDS
        self._shards: dict[str, int] = {}
        self._held: dict[tuple[int, int], list[tuple[Any, ...]]] = {}
        self._rows: list[tuple[int, int, int, int, bytes]] = []
        self._part = 0

    def give(self, step: int, items: Sequence[Any], origin: Origin) -> None:
        """Takes items for a step."""
        place, of_key, now_us = origin.place, origin.key, origin.now_us
        planned = self._plan.steps[step]
        if planned.kind not in STATEFUL:
            held = self._of(step, self._task_shard)
            held += [(place, of_key, now_us, None, item) for item in items]
            self._cut(step, self._task_shard, held)
            return
        shards = self._shards
        for item in items:
            try:
                key, value = item
                shard = shards[key]
            except (KeyError, TypeError, ValueError):
                key, value = self._pair(planned.step_id, item)
                if len(shards) > 200_000:
                    shards.clear()
                shard = shards[key] = shard_of(key)
            held = self._held.get((step, shard)) or self._of(step, shard)
            held.append((place, of_key, now_us, key, value))
            if len(held) >= _ITEMS_OF_A_CHUNK:
                self._cut(step, shard, held)

    def _of(self, step: int, shard: int) -> list[tuple[Any, ...]]:
        return self._held.setdefault((step, shard), [])

    def _cut(self, step: int, shard: int, held: list[tuple[Any, ...]]) -> None:
        if len(held) >= _ITEMS_OF_A_CHUNK:
            self._put(step, shard, held)
            del self._held[step, shard]

    def _put(self, step: int, shard: int, held: list[tuple[Any, ...]]) -> None:
        self._rows.append((step, shard, held[0][0], self._part, encode(held)))
        self._part += 1

    @staticmethod
    def _pair(step_id: str, item: Any) -> tuple[str, Any]:
        if not isinstance(item, tuple) or len(item) != 2:
            raise WrongCallError(
                f"The step {step_id!r} takes (key, value) pairs, and got {item!r} ({type(item).__name__}). Put "
                "key_on(...) before it."
            )
        if not isinstance(item[0], str):
            raise WrongCallError(
                f"The step {step_id!r} takes pairs whose keys are text, and got {item!r}, whose key is "
                f"{type(item[0]).__name__}. Write str(...) round the key."
            )
        return item

    def end(self, before: frozenset[int], now: frozenset[int], number: int) -> None:
        """Says to all shards which inputs have ended."""
        data = encode_one((sorted(before), sorted(now)))
        self._rows += [(END, shard, number, 0, data) for shard in range(SHARDS)]

    def read(self, number: int) -> None:
        """Says that an entry of the log was read."""
        self._rows.append((READ, self._task_shard, number, 0, b""))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows so far."""
        for (step, shard), held in self._held.items():
            self._put(step, shard, held)
        self._held = {}
        rows, self._rows = self._rows, []
        for start in range(0, len(rows), _CHUNKS_OF_A_BATCH):
            columns = zip(*rows[start : start + _CHUNKS_OF_A_BATCH], strict=True)
            arrays = [pa.array(column, field.type) for column, field in zip(columns, _SCHEMA, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)


def in_order(chunks: Iterable[tuple[int, int, bytes]]) -> list[tuple[Any, ...]]:
    """The entries of rows ``(first, part, data)``, in the order of what they came of."""
    entries: list[tuple[Any, ...]] = []
    for _, _, data in sorted(chunks, key=_order):
        entries += decode(data)
    # Of a single task they are in order already, and sorting finds it so.
    entries.sort(key=_order)
    return entries
