"""Chunks: rows that carry many items between tasks, each for one step and one shard.

The columns are ``target`` (the step), ``shard``, ``first`` and ``part`` (the sort order of rows), and ``data`` (the
items with their origins). A key belongs to one shard, and one task of a stage processes a shard.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby, repeat
from operator import itemgetter
from typing import Any, Final
from zlib import crc32

import pyarrow as pa

from mullion.bytewax._dataflow_plan import STATEFUL, Origin, Plan
from mullion.bytewax._key_windows.keyed import Group
from mullion.bytewax._values.copies import copied
from mullion.bytewax._values.values import Runs, decode_columns, encode_columns, encode_one
from mullion.errors import InvalidArgumentError, WrongCallError

SHARDS: Final = 64
"""The number of shards. It is part of the state layout and must not change."""

END: Final = -1
"""The target of a row that lists the inputs that have ended. Every stage reads it and forwards it."""

READ: Final = -2
"""The target of a row that acknowledges a log entry: ``first`` is its number. Stages forward it to the sinks."""

EVENTS: Final = -3
"""The target of a row from the JVM to Python in one task: output of windows, as place, key, time, stream and items."""

HANDED: Final = -4
"""The target of a row from the JVM to Python in one task: the keys that Python processes, each with its first phase."""

OF_VALUES: Final = 0
OF_TIME: Final = 1
OF_END: Final = 2
"""Phases of a batch. Python processes a key from one phase on; its state includes the results of earlier phases."""

CHUNKS: Final = "target int, shard int, first bigint, part int, data binary"
"""The schema of chunks, as DDL."""

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

PARTS: Final = 5
"""The number of columns in ``data``: the three fields of :class:`Origin`, the key for a stateful step, and the item."""


def shard_of(key: str) -> int:
    return crc32(key.encode("utf-8", "surrogatepass")) % SHARDS


class _Held:
    """Buffered items of one step and shard: keys and values, grouped by origin."""

    __slots__ = ("count", "groups")

    def __init__(self) -> None:
        self.groups: list[tuple[Origin, list[Any], list[Any]]] = []
        self.count = 0

    def add(self, origin: Origin, keys: list[Any], values: list[Any]) -> None:
        self.groups.append((origin, keys, values))
        self.count += len(values)

    def columns(self) -> list[Sequence[Any]]:
        counts = [len(values) for _, _, values in self.groups]
        of_origins = (Runs([origin[part] for origin, _, _ in self.groups], counts) for part in range(3))
        keys = chain.from_iterable(keys or repeat(None, len(values)) for _, keys, values in self.groups)
        return [*of_origins, list(keys), list(chain.from_iterable(values for _, _, values in self.groups))]


class Collector:
    """Collects a task's output items and encodes them as rows."""

    def __init__(self, plan: Plan, task: int) -> None:
        self._plan = plan
        self._task_shard = task % SHARDS
        self._shards: dict[str, int] = {}
        self._buffers: defaultdict[tuple[int, int], _Held] = defaultdict(_Held)
        self._rows: list[tuple[int, int, int, int, bytes]] = []
        self._part = 0

    def give(self, step: int, items: Sequence[Any], origin: Origin) -> None:
        """Copies items into the buffer of a step."""
        planned = self._plan.steps[step]
        items = copied(items)
        if planned.kind not in STATEFUL:
            self._buffers[step, self._task_shard].add(origin, [], items)
            return
        shards = self._shards
        of_shards: dict[int, tuple[list[Any], list[Any]]] = {}
        for item in items:
            try:
                key, value = item
                shard = shards[key]
            except (KeyError, TypeError, ValueError):
                key, value = self._pair(planned.step_id, item)
                if len(shards) > 200_000:
                    shards.clear()
                shard = shards[key] = shard_of(key)
            lists = of_shards.get(shard)
            if lists is None:
                lists = of_shards[shard] = ([], [])
            lists[0].append(key)
            lists[1].append(value)
        for shard, (keys, values) in of_shards.items():
            self._buffers[step, shard].add(origin, keys, values)

    def cut(self) -> None:
        """Flushes buffers that reached the size limit.

        Call it only between keys: the items of one origin must stay in one row, in order.
        """
        for (step, shard), buffer in list(self._buffers.items()):
            if buffer.count >= _ITEMS_OF_A_CHUNK:
                self._put(step, shard, buffer)
                del self._buffers[step, shard]

    def _put(self, step: int, shard: int, buffer: _Held) -> None:
        first = buffer.groups[0][0].place
        try:
            data = encode_columns(buffer.columns())
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"The step {self._plan.steps[step].step_id!r}: {error}") from error
        self._rows.append((step, shard, first, self._part, data))
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
        """Adds a row for each shard that lists the ended inputs, before and after log entry ``number``."""
        data = encode_one((sorted(before), sorted(now)))
        self._rows += [(END, shard, number, 0, data) for shard in range(SHARDS)]

    def read(self, number: int) -> None:
        """Adds a row that acknowledges a log entry."""
        self._rows.append((READ, self._task_shard, number, 0, b""))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Flushes all buffers and yields the rows collected since the last call."""
        for (step, shard), buffer in self._buffers.items():
            self._put(step, shard, buffer)
        self._buffers.clear()
        rows, self._rows = self._rows, []
        for start in range(0, len(rows), _CHUNKS_OF_A_BATCH):
            columns = zip(*rows[start : start + _CHUNKS_OF_A_BATCH], strict=True)
            arrays = [pa.array(column, field.type) for column, field in zip(columns, _SCHEMA, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)


Chunk = tuple[int, int, int, bytes]
"""A row: ``(shard, first, part, data)``."""


def of_keys(chunks: Iterable[Chunk], only: frozenset[str] | None = None) -> dict[str, list[Group]]:
    """The values of chunks by key, in the order of their origins.

    ``only``: the keys to return, ``None`` for all.
    """
    groups_of: dict[str, list[Group]] = {}
    get = groups_of.get
    for place, _, now_us, key, value in _in_order(chunks):
        groups = get(key)
        if groups is None:
            groups_of[key] = [(place, now_us, [value])]
        elif groups[-1][0] == place:
            groups[-1][2].append(value)
        else:
            groups.append((place, now_us, [value]))
    return groups_of if only is None else {key: groups for key, groups in groups_of.items() if key in only}


def _in_order(chunks: Iterable[Chunk]) -> Iterator[tuple[Any, ...]]:
    """The entries of chunks in the order of their origins, one shard after another."""
    for _, rows in groupby(sorted(chunks, key=itemgetter(0, 1, 2)), itemgetter(0)):
        read = [decode_columns(data, PARTS) for _, _, _, data in rows]
        entries = chain.from_iterable(zip(*columns, strict=True) for columns in read)
        yield from entries if _are_in_order(read) else sorted(entries, key=itemgetter(0, 1))


def _are_in_order(read: list[list[list[Any]]]) -> bool:
    """True if the entries need no sort. Chunks from one task before the first stateful step are always in order."""
    newest = -1
    for places, origins, *_ in read:
        if not places or places[0] < newest or any(origins) or places != sorted(places):
            return False
        newest = places[-1]
    return True
