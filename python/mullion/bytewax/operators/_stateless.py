"""The stateless operators. They run on batches of items."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from mullion.bytewax._key_windows.specs import system_utc
from mullion.bytewax._steps import Kept, KeptValues, Keyed, Mapped, MappedValues, Unkeyed, pair_of
from mullion.bytewax.dataflow import KeyedStream, Stream, operator
from mullion.bytewax.operators._core import (
    NOTHING,
    flat_map_batch,
    inspect_debug,
    output,
    require_callable,
)
from mullion.bytewax.outputs import DynamicSink, StatelessSinkPartition
from mullion.errors import WrongCallError

X = TypeVar("X")
Y = TypeVar("Y")
V = TypeVar("V")
W = TypeVar("W")
DK = TypeVar("DK")
DV = TypeVar("DV")


@dataclass
class TTLCache(Generic[DK, DV]):
    """A cache of results of ``v_getter`` by key. Entries expire after ``ttl``."""

    v_getter: Callable[[DK], DV]
    now_getter: Callable[[], datetime]
    ttl: timedelta
    _cache: dict[DK, tuple[datetime, DV]] = field(default_factory=dict)

    def get(self, k: DK) -> DV:
        """The value of a key. Calls ``v_getter`` if it is missing or expired."""
        now = self.now_getter()
        entry = self._cache.get(k)
        if entry is None or now - entry[0] > self.ttl:
            entry = self._cache[k] = (now, self.v_getter(k))
        return entry[1]

    def remove(self, k: DK) -> None:
        """Removes a key. Raises :class:`KeyError` if it is not cached."""
        del self._cache[k]


@operator
def enrich_cached(
    step_id: str,
    up: Stream[X],
    getter: Callable[[DK], DV],
    mapper: Callable[[TTLCache[DK, DV], X], Y],
    ttl: timedelta = timedelta.max,
    _now_getter: Callable[[], datetime] = system_utc,
) -> Stream[Y]:
    """Maps items with a cache of results of ``getter``. Each worker has its own cache."""
    require_callable(step_id, "getter", getter)
    require_callable(step_id, "mapper", mapper)
    cache: TTLCache[DK, DV] = TTLCache(getter, _now_getter, ttl)
    return flat_map_batch("flat_map_batch", up, lambda xs: [mapper(cache, x) for x in xs])


@operator
def flat_map(step_id: str, up: Stream[X], mapper: Callable[[X], Iterable[Y]]) -> Stream[Y]:
    """Maps each item to any number of items."""
    require_callable(step_id, "mapper", mapper)
    return flat_map_batch("flat_map_batch", up, lambda xs: itertools.chain.from_iterable([mapper(x) for x in xs]))


@operator
def flat_map_value(step_id: str, up: KeyedStream[V], mapper: Callable[[V], Iterable[W]]) -> KeyedStream[W]:
    """Maps each value to any number of values with the same key."""
    require_callable(step_id, "mapper", mapper)

    def pairs(item: tuple[str, V]) -> list[tuple[str, W]]:
        key, value = pair_of(step_id, item)
        return [(key, one) for one in mapper(value)]

    return flat_map("flat_map", up, pairs)


@operator
def flatten(step_id: str, up: Stream[Iterable[X]]) -> Stream[X]:
    """Emits the elements of iterable items."""

    def parts(item: Iterable[X]) -> Iterable[X]:
        if not isinstance(item, Iterable):
            raise WrongCallError(
                f"The step {step_id!r} received {item!r} ({type(item).__name__}), which is not iterable. Emit lists."
            )
        return item

    return flat_map("flat_map", up, parts)


@operator
def filter(step_id: str, up: Stream[X], predicate: Callable[[X], bool]) -> Stream[X]:  # noqa: A001
    """Keeps items for which ``predicate`` returns ``True``."""
    require_callable(step_id, "predicate", predicate)
    return flat_map_batch("flat_map_batch", up, Kept(step_id, predicate))


@operator
def filter_value(step_id: str, up: KeyedStream[V], predicate: Callable[[V], bool]) -> KeyedStream[V]:
    """Keeps pairs for whose values ``predicate`` returns ``True``."""
    require_callable(step_id, "predicate", predicate)
    return flat_map_batch("filter", up, KeptValues(step_id, predicate))


@operator
def filter_map(step_id: str, up: Stream[X], mapper: Callable[[X], Y | None]) -> Stream[Y]:
    """Maps items, and drops results that are ``None``."""
    require_callable(step_id, "mapper", mapper)

    def mapped(xs: list[X]) -> list[Y]:
        return [y for x in xs if (y := mapper(x)) is not None]

    return flat_map_batch("flat_map_batch", up, mapped)


@operator
def filter_map_value(step_id: str, up: KeyedStream[V], mapper: Callable[[V], W | None]) -> KeyedStream[W]:
    """Maps values, and drops pairs whose result is ``None``."""
    require_callable(step_id, "mapper", mapper)

    def mapped(value: V) -> Iterable[W]:
        mapped = mapper(value)
        return NOTHING if mapped is None else (mapped,)

    return flat_map_value("flat_map_value", up, mapped)


def _print(step_id: str, item: Any) -> None:
    print(f"{step_id}: {item!r}", flush=True)  # noqa: T201


@operator
def inspect(step_id: str, up: Stream[X], inspector: Callable[[str, X], Any] = _print) -> Stream[X]:
    """Calls ``inspector(step_id, item)`` in the driver for each item, and emits the items unchanged."""
    require_callable(step_id, "inspector", inspector)
    return inspect_debug("inspect_debug", up, lambda _step, item, _batch, _worker: inspector(step_id, item))


@operator
def key_on(step_id: str, up: Stream[X], key: Callable[[X], str]) -> KeyedStream[X]:
    """Pairs each item with the result of ``key``, which must be a string."""
    require_callable(step_id, "key", key)

    return flat_map_batch("map", up, Keyed(step_id, key))


@operator
def key_rm(step_id: str, up: KeyedStream[X]) -> Stream[X]:
    """Removes keys: emits the value of each pair."""
    return flat_map_batch("map", up, Unkeyed(step_id))


@operator
def map(step_id: str, up: Stream[X], mapper: Callable[[X], Y]) -> Stream[Y]:  # noqa: A001
    """Maps each item to another."""
    require_callable(step_id, "mapper", mapper)
    return flat_map_batch("flat_map_batch", up, Mapped(mapper))


@operator
def map_value(step_id: str, up: KeyedStream[V], mapper: Callable[[V], W]) -> KeyedStream[W]:
    """Maps each value to another with the same key."""
    require_callable(step_id, "mapper", mapper)

    return flat_map_batch("map", up, MappedValues(step_id, mapper))


class _RaisePartition(StatelessSinkPartition[Any]):
    def __init__(self, step_id: str) -> None:
        self._step_id = step_id

    def write_batch(self, items: list[Any]) -> None:
        for item in items:
            raise RuntimeError(f"The step {self._step_id!r} must not receive items, and received {item!r}.")


class _RaiseSink(DynamicSink[Any]):
    def __init__(self, step_id: str) -> None:
        self._step_id = step_id

    def build(self, step_id: str, worker_index: int, worker_count: int) -> _RaisePartition:
        return _RaisePartition(self._step_id)


@operator
def raises(step_id: str, up: Stream[Any]) -> None:
    """Fails the dataflow on the first item."""
    output("output", up, _RaiseSink(step_id))
