"""The operators of Bytewax 0.21 that do not window, as of ``bytewax.operators``.

Functions run in Spark's Python workers, on batches of items; :func:`inspect`, sources and sinks in the program itself.
"""

from __future__ import annotations

import copy
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, ClassVar, Generic, Literal, TypeAlias, TypeVar

from mullion.bytewax.dataflow import Dataflow, KeyedStream, Stream, f_repr, operator
from mullion.bytewax.inputs import Source
from mullion.bytewax.outputs import DynamicSink, Sink, StatelessSinkPartition
from mullion.errors import InvalidArgumentError, UnsupportedError, WrongCallError

__all__ = [
    "BranchOut",
    "JoinEmitMode",
    "JoinInsertMode",
    "KeyedStream",
    "StatefulBatchLogic",
    "StatefulLogic",
    "TTLCache",
    "branch",
    "collect",
    "count_final",
    "enrich_cached",
    "filter",
    "filter_map",
    "filter_map_value",
    "filter_value",
    "flat_map",
    "flat_map_batch",
    "flat_map_value",
    "flatten",
    "fold_final",
    "input",
    "inspect",
    "inspect_debug",
    "join",
    "key_on",
    "key_rm",
    "map",
    "map_value",
    "max_final",
    "merge",
    "min_final",
    "output",
    "raises",
    "redistribute",
    "reduce_final",
    "stateful",
    "stateful_batch",
    "stateful_flat_map",
    "stateful_map",
]

X = TypeVar("X")
Y = TypeVar("Y")
V = TypeVar("V")
W = TypeVar("W")
S = TypeVar("S")
DK = TypeVar("DK")
DV = TypeVar("DV")

JoinInsertMode: TypeAlias = Literal["first", "last", "product"]
"""What a join keeps of the values of a side: the first, the last, or all."""

JoinEmitMode: TypeAlias = Literal["complete", "final", "running"]
"""When a join emits: once all sides have a value, at the end, or with each value."""

_NOTHING: tuple[()] = ()


def _identity(x: X) -> X:
    return x


def _none() -> Any:
    return None


def _get_system_utc() -> datetime:
    return datetime.now(tz=UTC)


def _require_callable(step_id: str, name: str, given: Any) -> None:
    if not callable(given):
        raise WrongCallError(
            f"The step {step_id!r}: {name}={given!r} ({type(given).__name__}) is not a function. "
            f"Write {name}=lambda item: ..."
        )


@dataclass(frozen=True)
class BranchOut(Generic[X, Y]):
    """The streams of :func:`branch`."""

    trues: Stream[X]
    falses: Stream[Y]


@operator(_core=True)
def branch(step_id: str, up: Stream[X], predicate: Callable[[X], bool]) -> BranchOut[X, X]:
    """Divides a stream in two by what ``predicate`` says, which must be a ``bool``."""
    _require_callable(step_id, "predicate", predicate)
    trues, falses = up.flow()._add("branch", [up], ["trues", "falses"], predicate)
    return BranchOut(trues, falses)


@operator(_core=True)
def flat_map_batch(step_id: str, up: Stream[X], mapper: Callable[[list[X]], Iterable[Y]]) -> Stream[Y]:
    """Gives ``mapper`` the items that came together, and passes on what it returns."""
    _require_callable(step_id, "mapper", mapper)
    (down,) = up.flow()._add("flat_map_batch", [up], ["down"], mapper)
    return down


@operator(_core=True)
def input(step_id: str, flow: Dataflow, source: Source[X]) -> Stream[X]:  # noqa: A001
    """Reads a source."""
    if not isinstance(source, Source):
        raise WrongCallError(
            f"The step {step_id!r}: source={source!r} ({type(source).__name__}) is not a Source. Use "
            "TestingSource([...]), a source of mullion.bytewax.connectors, or a subclass of FixedPartitionedSource or "
            "DynamicSource."
        )
    (down,) = flow._add("input", [], ["down"], source)
    return down


def _print_debug(step_id: str, item: Any, epoch: int, worker: int) -> None:
    print(f"{step_id} W{worker} @{epoch}: {item!r}", flush=True)  # noqa: T201


@operator(_core=True)
def inspect_debug(
    step_id: str, up: Stream[X], inspector: Callable[[str, X, int, int], Any] = _print_debug
) -> Stream[X]:
    """Shows items to ``inspector(step_id, item, batch, worker)``, in the program itself, and passes them on."""
    _require_callable(step_id, "inspector", inspector)
    (down,) = up.flow()._add("inspect", [up], ["down"], partial(inspector, step_id))
    return down


@operator(_core=True)
def merge(step_id: str, *ups: Stream[Any]) -> Stream[Any]:
    """Puts streams together; the items of each keep their order."""
    if not ups:
        raise WrongCallError(f"The step {step_id!r} merges no streams. Write merge('all', one, other).")
    (down,) = ups[0].flow()._add("merge", ups, ["down"], None)
    return down


@operator(_core=True)
def output(step_id: str, up: Stream[X], sink: Sink[X]) -> None:
    """Writes a stream to a sink."""
    if not isinstance(sink, Sink):
        raise WrongCallError(
            f"The step {step_id!r}: sink={sink!r} ({type(sink).__name__}) is not a Sink. Use TestingSink([]), "
            "StdOutSink(), a sink of mullion.bytewax.connectors, or a subclass of FixedPartitionedSink or DynamicSink."
        )
    up.flow()._add("output", [up], [], sink)


@operator(_core=True)
def redistribute(step_id: str, up: Stream[X]) -> Stream[X]:
    """Passes items on: Spark distributes them as it is."""
    (down,) = up.flow()._add("redistribute", [up], ["down"], None)
    return down


class StatefulBatchLogic(ABC, Generic[V, W, S]):
    """What a key of :func:`stateful_batch` does. Its methods return what is emitted, and whether it is discarded."""

    RETAIN: ClassVar[bool] = False
    DISCARD: ClassVar[bool] = True

    @abstractmethod
    def on_batch(self, values: list[V]) -> tuple[Iterable[W], bool]:
        """Called with the values that came together."""

    def on_notify(self) -> tuple[Iterable[W], bool]:
        """Called when the time of :meth:`notify_at` has come."""
        return _NOTHING, self.RETAIN

    def on_eof(self) -> tuple[Iterable[W], bool]:
        """Called when no more values will come."""
        return _NOTHING, self.RETAIN

    def notify_at(self) -> datetime | None:
        """The system time, in UTC, at which :meth:`on_notify` is to be called."""
        return None

    @abstractmethod
    def snapshot(self) -> S:
        """The state, which the builder is given again."""


class StatefulLogic(ABC, Generic[V, W, S]):
    """What a key of :func:`stateful` does: the same, value by value."""

    RETAIN: ClassVar[bool] = False
    DISCARD: ClassVar[bool] = True

    @abstractmethod
    def on_item(self, value: V) -> tuple[Iterable[W], bool]:
        """Called with each value."""

    def on_notify(self) -> tuple[Iterable[W], bool]:
        """Called when the time of :meth:`notify_at` has come."""
        return _NOTHING, self.RETAIN

    def on_eof(self) -> tuple[Iterable[W], bool]:
        """Called when no more values will come."""
        return _NOTHING, self.RETAIN

    def notify_at(self) -> datetime | None:
        """The system time, in UTC, at which :meth:`on_notify` is to be called."""
        return None

    @abstractmethod
    def snapshot(self) -> S:
        """The state, which the builder is given again."""


@operator(_core=True)
def stateful_batch(
    step_id: str, up: KeyedStream[V], builder: Callable[[Any], StatefulBatchLogic[V, W, S]]
) -> KeyedStream[W]:
    """Runs a logic of its own for each key; ``builder`` is given the state that was kept, or ``None``."""
    _require_callable(step_id, "builder", builder)
    (down,) = up.flow()._add("stateful", [up], ["down"], builder)
    return down


class _ByItem(StatefulBatchLogic[V, W, S]):
    def __init__(self, logic: StatefulLogic[V, W, S] | None, builder: Callable[[Any], StatefulLogic[V, W, S]]) -> None:
        self._logic = logic
        self._builder = builder

    def _of(self) -> StatefulLogic[V, W, S]:
        assert self._logic is not None
        return self._logic

    def on_batch(self, values: list[V]) -> tuple[Iterable[W], bool]:
        emitted: list[W] = []
        for value in values:
            if self._logic is None:
                self._logic = self._builder(None)
            more, discarded = self._logic.on_item(value)
            emitted.extend(more)
            if discarded:
                self._logic = None
        return emitted, self._logic is None

    def on_notify(self) -> tuple[Iterable[W], bool]:
        return self._of().on_notify()

    def on_eof(self) -> tuple[Iterable[W], bool]:
        return self._of().on_eof()

    def notify_at(self) -> datetime | None:
        return self._of().notify_at()

    def snapshot(self) -> S:
        return self._of().snapshot()


@operator
def stateful(step_id: str, up: KeyedStream[V], builder: Callable[[Any], StatefulLogic[V, W, S]]) -> KeyedStream[W]:
    """Runs a logic of its own for each key, value by value."""
    _require_callable(step_id, "builder", builder)
    return stateful_batch("stateful_batch", up, lambda state: _ByItem(builder(state), builder))


class _Collect(StatefulLogic[V, list[V], Any]):
    def __init__(self, timeout: timedelta, max_size: int, state: Any) -> None:
        self._timeout = timeout
        self._max_size = max_size
        self._held: list[V] = state[0] if state else []
        self._until: datetime | None = state[1] if state else None

    def on_item(self, value: V) -> tuple[Iterable[list[V]], bool]:
        self._until = _get_system_utc() + self._timeout
        self._held.append(value)
        if len(self._held) >= self._max_size:
            return (self._held,), self.DISCARD
        return _NOTHING, self.RETAIN

    def on_notify(self) -> tuple[Iterable[list[V]], bool]:
        return (self._held,), self.DISCARD

    def on_eof(self) -> tuple[Iterable[list[V]], bool]:
        return (self._held,), self.DISCARD

    def notify_at(self) -> datetime | None:
        return self._until

    def snapshot(self) -> Any:
        return self._held, self._until


@operator
def collect(step_id: str, up: KeyedStream[V], timeout: timedelta, max_size: int) -> KeyedStream[list[V]]:
    """Collects values into lists of ``max_size``, or of what there is when none came for ``timeout``."""
    if not isinstance(timeout, timedelta):
        raise InvalidArgumentError(
            f"The step {step_id!r}: timeout={timeout!r} is not a timedelta. Write timeout=timedelta(seconds=10)."
        )
    if isinstance(max_size, bool) or not isinstance(max_size, int) or max_size < 1:
        raise InvalidArgumentError(
            f"The step {step_id!r}: max_size={max_size!r} is not the size of a list, a whole number from 1 on."
        )
    return stateful("stateful", up, partial(_Collect, timeout, max_size))


@operator
def count_final(step_id: str, up: Stream[X], key: Callable[[X], str]) -> KeyedStream[int]:
    """Counts items by key; emits at the end of the input."""
    _require_callable(step_id, "key", key)
    down = map("init_count", up, lambda x: (key(x), 1))
    return reduce_final("sum", down, lambda total, n: total + n)


@dataclass
class TTLCache(Generic[DK, DV]):
    """What ``getter`` gave for a key, for as long as ``ttl``."""

    v_getter: Callable[[DK], DV]
    now_getter: Callable[[], datetime]
    ttl: timedelta
    _cache: dict[DK, tuple[datetime, DV]] = field(default_factory=dict)

    def get(self, k: DK) -> DV:
        """The value of a key, read again where it is too old."""
        now = self.now_getter()
        found = self._cache.get(k)
        if found is None or now - found[0] > self.ttl:
            found = self._cache[k] = (now, self.v_getter(k))
        return found[1]

    def remove(self, k: DK) -> None:
        """Forgets a key."""
        del self._cache[k]


@operator
def enrich_cached(
    step_id: str,
    up: Stream[X],
    getter: Callable[[DK], DV],
    mapper: Callable[[TTLCache[DK, DV], X], Y],
    ttl: timedelta = timedelta.max,
    _now_getter: Callable[[], datetime] = _get_system_utc,
) -> Stream[Y]:
    """Maps items with a cache of what ``getter`` gives; each worker has its own."""
    _require_callable(step_id, "getter", getter)
    _require_callable(step_id, "mapper", mapper)
    cache: TTLCache[DK, DV] = TTLCache(getter, _now_getter, ttl)
    return flat_map_batch("flat_map_batch", up, lambda xs: [mapper(cache, x) for x in xs])


@operator
def flat_map(step_id: str, up: Stream[X], mapper: Callable[[X], Iterable[Y]]) -> Stream[Y]:
    """Maps an item to any number of them."""
    _require_callable(step_id, "mapper", mapper)
    return flat_map_batch("flat_map_batch", up, lambda xs: itertools.chain.from_iterable([mapper(x) for x in xs]))


def _pair(step_id: str, item: Any) -> tuple[Any, Any]:
    try:
        key, value = item
    except (TypeError, ValueError):
        raise WrongCallError(
            f"The step {step_id!r} takes (key, value) pairs, and got {item!r} ({type(item).__name__}). Put "
            "key_on(...) before it."
        ) from None
    return key, value


@operator
def flat_map_value(step_id: str, up: KeyedStream[V], mapper: Callable[[V], Iterable[W]]) -> KeyedStream[W]:
    """Maps a value to any number of them, under its key."""
    _require_callable(step_id, "mapper", mapper)

    def pairs(item: tuple[str, V]) -> list[tuple[str, W]]:
        key, value = _pair(step_id, item)
        return [(key, one) for one in mapper(value)]

    return flat_map("flat_map", up, pairs)


@operator
def flatten(step_id: str, up: Stream[Iterable[X]]) -> Stream[X]:
    """Passes on what is in the items."""

    def parts(item: Iterable[X]) -> Iterable[X]:
        if not isinstance(item, Iterable):
            raise WrongCallError(
                f"The step {step_id!r} takes items that can be iterated over, and got {item!r} ({type(item).__name__})."
            )
        return item

    return flat_map("flat_map", up, parts)


def _checked(step_id: str, predicate: Callable[[X], bool], item: X) -> bool:
    keep = predicate(item)
    if not isinstance(keep, bool):
        raise WrongCallError(
            f"The step {step_id!r}: the predicate {f_repr(predicate)} returned {keep!r} ({type(keep).__name__}), and "
            "must return a bool. Write bool(...) round it."
        )
    return keep


@operator
def filter(step_id: str, up: Stream[X], predicate: Callable[[X], bool]) -> Stream[X]:  # noqa: A001
    """Passes on the items that ``predicate`` is ``True`` for."""
    _require_callable(step_id, "predicate", predicate)
    return flat_map_batch("flat_map_batch", up, lambda xs: [x for x in xs if _checked(step_id, predicate, x)])


@operator
def filter_value(step_id: str, up: KeyedStream[V], predicate: Callable[[V], bool]) -> KeyedStream[V]:
    """Passes on the pairs whose values ``predicate`` is ``True`` for."""
    _require_callable(step_id, "predicate", predicate)
    return filter("filter", up, lambda item: _checked(step_id, predicate, _pair(step_id, item)[1]))


@operator
def filter_map(step_id: str, up: Stream[X], mapper: Callable[[X], Y | None]) -> Stream[Y]:
    """Maps items, and leaves out those that become ``None``."""
    _require_callable(step_id, "mapper", mapper)

    def kept(xs: list[X]) -> list[Y]:
        return [y for x in xs if (y := mapper(x)) is not None]

    return flat_map_batch("flat_map_batch", up, kept)


@operator
def filter_map_value(step_id: str, up: KeyedStream[V], mapper: Callable[[V], W | None]) -> KeyedStream[W]:
    """Maps values, and leaves out those that become ``None``."""
    _require_callable(step_id, "mapper", mapper)

    def kept(value: V) -> Iterable[W]:
        mapped = mapper(value)
        return _NOTHING if mapped is None else (mapped,)

    return flat_map_value("flat_map_value", up, kept)


class _FoldFinal(StatefulLogic[V, S, Any]):
    def __init__(self, builder: Callable[[], S], folder: Callable[[S, V], S], state: Any) -> None:
        self._folder = folder
        self._state = builder() if state is None else state[0]

    def on_item(self, value: V) -> tuple[Iterable[S], bool]:
        self._state = self._folder(self._state, value)
        return _NOTHING, self.RETAIN

    def on_eof(self) -> tuple[Iterable[S], bool]:
        return (self._state,), self.DISCARD

    def snapshot(self) -> Any:
        return (self._state,)


@operator
def fold_final(
    step_id: str, up: KeyedStream[V], builder: Callable[[], S], folder: Callable[[S, V], S]
) -> KeyedStream[S]:
    """Folds the values of a key; emits at the end of the input."""
    _require_callable(step_id, "builder", builder)
    _require_callable(step_id, "folder", folder)
    return stateful("stateful", up, partial(_FoldFinal, builder, folder))


def _print(step_id: str, item: Any) -> None:
    print(f"{step_id}: {item!r}", flush=True)  # noqa: T201


@operator
def inspect(step_id: str, up: Stream[X], inspector: Callable[[str, X], Any] = _print) -> Stream[X]:
    """Shows items to ``inspector(step_id, item)``, in the program itself, and passes them on."""
    _require_callable(step_id, "inspector", inspector)
    return inspect_debug("inspect_debug", up, lambda _step, item, _batch, _worker: inspector(step_id, item))


class _Join(StatefulLogic[tuple[int, Any], tuple[Any, ...], Any]):
    def __init__(self, sides: int, insert: JoinInsertMode, emit: JoinEmitMode, state: Any) -> None:
        self._insert = insert
        self._emit = emit
        self._sides: list[list[Any]] = [[] for _ in range(sides)] if state is None else state

    def _rows(self) -> list[tuple[Any, ...]]:
        return list(itertools.product(*(side or [None] for side in self._sides)))

    def on_item(self, value: tuple[int, Any]) -> tuple[Iterable[tuple[Any, ...]], bool]:
        side, one = value
        if self._insert == "product":
            self._sides[side].append(one)
        elif self._insert == "last" or not self._sides[side]:
            self._sides[side] = [one]
        if self._emit == "complete" and all(self._sides):
            return self._rows(), self.DISCARD
        return (self._rows() if self._emit == "running" else _NOTHING), self.RETAIN

    def on_eof(self) -> tuple[Iterable[tuple[Any, ...]], bool]:
        if self._emit == "final":
            return self._rows(), self.DISCARD
        return _NOTHING, self.RETAIN

    def snapshot(self) -> Any:
        return self._sides


def require_join_modes(step_id: str, sides: tuple[Any, ...], insert_mode: Any, emit_mode: Any) -> None:
    """Refuses what is no mode of a join, and a join of nothing."""
    if not sides:
        raise WrongCallError(f"The step {step_id!r} joins no streams. Give it two or more.")
    for name, mode, modes in (
        ("insert_mode", insert_mode, ("first", "last", "product")),
        ("emit_mode", emit_mode, ("complete", "final", "running")),
    ):
        if mode not in modes:
            known = " or ".join(f"{name}={one!r}" for one in modes)
            raise InvalidArgumentError(f"The step {step_id!r}: unknown join mode {name}={mode!r}. Write {known}.")


@operator
def join_label_merge(step_id: str, *ups: KeyedStream[Any]) -> KeyedStream[tuple[int, Any]]:
    """Merges the sides of a join, each value with the number of its side."""
    sides = [
        map_value(f"label_{number}", up, partial(lambda side, value: (side, value), number))
        for number, up in enumerate(ups)
    ]
    return merge("merge", *sides)


@operator
def join(
    step_id: str,
    *sides: KeyedStream[Any],
    insert_mode: JoinInsertMode = "last",
    emit_mode: JoinEmitMode = "complete",
) -> KeyedStream[tuple[Any, ...]]:
    """Joins streams by key, into tuples with ``None`` for a side that has no value yet."""
    require_join_modes(step_id, sides, insert_mode, emit_mode)
    merged = join_label_merge("add_names", *sides)
    return stateful("join", merged, partial(_Join, len(sides), insert_mode, emit_mode))


@operator
def key_on(step_id: str, up: Stream[X], key: Callable[[X], str]) -> KeyedStream[X]:
    """Puts a key before each item, which must be a text."""
    _require_callable(step_id, "key", key)

    def pairs(xs: list[X]) -> list[tuple[str, X]]:
        made = [(key(x), x) for x in xs]
        for found, x in made:
            if not isinstance(found, str):
                raise WrongCallError(
                    f"The step {step_id!r}: the key {f_repr(key)} of {x!r} is {found!r} ({type(found).__name__}), and "
                    "must be a str. Write str(...) round it."
                )
        return made

    return flat_map_batch("map", up, pairs)


@operator
def key_rm(step_id: str, up: KeyedStream[X]) -> Stream[X]:
    """Takes the keys away."""
    return map("map", up, lambda item: _pair(step_id, item)[1])


@operator
def map(step_id: str, up: Stream[X], mapper: Callable[[X], Y]) -> Stream[Y]:  # noqa: A001
    """Maps each item to another."""
    _require_callable(step_id, "mapper", mapper)
    return flat_map_batch("flat_map_batch", up, lambda xs: [mapper(x) for x in xs])


@operator
def map_value(step_id: str, up: KeyedStream[V], mapper: Callable[[V], W]) -> KeyedStream[W]:
    """Maps each value to another, under its key."""
    _require_callable(step_id, "mapper", mapper)

    def pair(item: tuple[str, V]) -> tuple[str, W]:
        key, value = _pair(step_id, item)
        return key, mapper(value)

    return map("map", up, pair)


@operator
def max_final(step_id: str, up: KeyedStream[V], by: Callable[[V], Any] = _identity) -> KeyedStream[V]:
    """The largest value of a key; emits at the end of the input."""
    _require_callable(step_id, "by", by)
    return reduce_final("reduce_final", up, partial(max, key=by))


@operator
def min_final(step_id: str, up: KeyedStream[V], by: Callable[[V], Any] = _identity) -> KeyedStream[V]:
    """The smallest value of a key; emits at the end of the input."""
    _require_callable(step_id, "by", by)
    return reduce_final("reduce_final", up, partial(min, key=by))


class _RaisePartition(StatelessSinkPartition[Any]):
    def __init__(self, step_id: str) -> None:
        self._step_id = step_id

    def write_batch(self, items: list[Any]) -> None:
        for item in items:
            raise RuntimeError(f"The step {self._step_id!r} is to get no items, and got {item!r}.")


class _RaiseSink(DynamicSink[Any]):
    def __init__(self, step_id: str) -> None:
        self._step_id = step_id

    def build(self, step_id: str, worker_index: int, worker_count: int) -> _RaisePartition:
        return _RaisePartition(self._step_id)


@operator
def raises(step_id: str, up: Stream[Any]) -> None:
    """Fails the dataflow on the first item."""
    output("output", up, _RaiseSink(step_id))


class _Reduced(StatefulLogic[V, V, Any]):
    def __init__(self, reducer: Callable[[V, V], V], state: Any) -> None:
        self._reducer = reducer
        self._state = None if state is None else state[0]

    def on_item(self, value: V) -> tuple[Iterable[V], bool]:
        self._state = value if self._state is None else self._reducer(self._state, value)
        return _NOTHING, self.RETAIN

    def on_eof(self) -> tuple[Iterable[V], bool]:
        return (self._state,), self.DISCARD  # type: ignore[return-value]

    def snapshot(self) -> Any:
        return (self._state,)


@operator
def reduce_final(step_id: str, up: KeyedStream[V], reducer: Callable[[V, V], V]) -> KeyedStream[V]:
    """Reduces the values of a key to one; emits at the end of the input."""
    _require_callable(step_id, "reducer", reducer)

    def of_batch(pairs: list[tuple[str, V]]) -> list[tuple[str, V]]:
        reduced: dict[str, V] = {}
        for item in pairs:
            key, value = _pair(step_id, item)
            reduced[key] = reducer(reduced[key], value) if key in reduced else value
        return list(reduced.items())

    return stateful("stateful", flat_map_batch("of_batch", up, of_batch), partial(_Reduced, reducer))


class _FlatMapped(StatefulLogic[V, W, Any]):
    def __init__(self, step_id: str, mapper: Callable[[Any, V], tuple[Any, Iterable[W]]], state: Any) -> None:
        self._step_id = step_id
        self._mapper = mapper
        self._state = state

    def on_item(self, value: V) -> tuple[Iterable[W], bool]:
        made = self._mapper(self._state, value)
        try:
            self._state, emitted = made
        except (TypeError, ValueError):
            raise WrongCallError(
                f"The step {self._step_id!r}: the mapper {f_repr(self._mapper)} returned {made!r} "
                f"({type(made).__name__}), and must return (state, what is emitted)."
            ) from None
        return emitted, self.DISCARD if self._state is None else self.RETAIN

    def snapshot(self) -> Any:
        return copy.deepcopy(self._state)


@operator
def stateful_flat_map(
    step_id: str, up: KeyedStream[V], mapper: Callable[[Any, V], tuple[Any, Iterable[W]]]
) -> KeyedStream[W]:
    """Maps values to any number of them, with a state for each key: ``mapper(state, value)`` gives both."""
    _require_callable(step_id, "mapper", mapper)
    return stateful("stateful", up, partial(_FlatMapped, step_id, mapper))


@operator
def stateful_map(step_id: str, up: KeyedStream[V], mapper: Callable[[Any, V], tuple[Any, W]]) -> KeyedStream[W]:
    """Maps values, with a state for each key: ``mapper(state, value)`` gives both; a state of ``None`` is forgotten."""
    _require_callable(step_id, "mapper", mapper)

    def flat(state: Any, value: V) -> tuple[Any, tuple[W]]:
        made = mapper(state, value)
        try:
            state, mapped = made
        except (TypeError, ValueError):
            raise WrongCallError(
                f"The step {step_id!r}: the mapper {f_repr(mapper)} returned {made!r} ({type(made).__name__}), and "
                "must return (state, value)."
            ) from None
        return state, (mapped,)

    return stateful_flat_map("stateful_flat_map", up, flat)


def __getattr__(name: str) -> Any:
    old = {
        "reduce_window": "mullion.bytewax.operators.windowing.reduce_window",
        "fold_window": "mullion.bytewax.operators.windowing.fold_window",
        "collect_window": "mullion.bytewax.operators.windowing.collect_window",
        "count_window": "mullion.bytewax.operators.windowing.count_window",
        "join_window": "mullion.bytewax.operators.windowing.join_window",
        "unary": "stateful_batch",
        "count": "count_final",
        "reduce": "reduce_final",
        "fold": "fold_final",
    }
    if name in old:
        raise UnsupportedError(f"{name} is not an operator of Bytewax 0.21. Use {old[name]}.")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
