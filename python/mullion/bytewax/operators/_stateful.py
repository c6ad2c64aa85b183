"""The operators that keep state for each key, except windows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from mullion.bytewax._key_windows.contents import Join, JoinEmitMode, JoinInsertMode
from mullion.bytewax._key_windows.specs import identity, system_utc
from mullion.bytewax._steps import pair_of
from mullion.bytewax.dataflow import KeyedStream, Stream, f_repr, operator
from mullion.bytewax.operators._core import (
    NOTHING,
    StatefulLogic,
    flat_map_batch,
    merge,
    require_callable,
    stateful,
)
from mullion.bytewax.operators._stateless import map as map_items
from mullion.bytewax.operators._stateless import map_value
from mullion.errors import InvalidArgumentError, WrongCallError

X = TypeVar("X")
V = TypeVar("V")
W = TypeVar("W")
S = TypeVar("S")


class _Collect(StatefulLogic[V, list[V], Any]):
    _snapshot_is_complete = True

    def __init__(self, timeout: timedelta, max_size: int, state: Any) -> None:
        self._timeout = timeout
        self._max_size = max_size
        self._buffer: list[V] = state[0] if state else []
        self._until: datetime | None = state[1] if state else None

    def on_item(self, value: V) -> tuple[Iterable[list[V]], bool]:
        self._until = system_utc() + self._timeout
        self._buffer.append(value)
        if len(self._buffer) >= self._max_size:
            return (self._buffer,), self.DISCARD
        return NOTHING, self.RETAIN

    def on_notify(self) -> tuple[Iterable[list[V]], bool]:
        return (self._buffer,), self.DISCARD

    def on_eof(self) -> tuple[Iterable[list[V]], bool]:
        return (self._buffer,), self.DISCARD

    def notify_at(self) -> datetime | None:
        return self._until

    def snapshot(self) -> Any:
        return self._buffer, self._until


@operator
def collect(step_id: str, up: KeyedStream[V], timeout: timedelta, max_size: int) -> KeyedStream[list[V]]:
    """Collects values into lists of ``max_size``. A shorter list is emitted after ``timeout`` without a value."""
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
    """Counts items by key. Emits at the end of the input."""
    require_callable(step_id, "key", key)
    down = map_items("init_count", up, lambda x: (key(x), 1))
    return reduce_final("sum", down, lambda total, n: total + n)


class _FoldFinal(StatefulLogic[V, S, Any]):
    _snapshot_is_complete = True

    def __init__(self, builder: Callable[[], S], folder: Callable[[S, V], S], state: Any) -> None:
        self._folder = folder
        self._state = builder() if state is None else state[0]

    def on_item(self, value: V) -> tuple[Iterable[S], bool]:
        self._state = self._folder(self._state, value)
        return NOTHING, self.RETAIN

    def on_eof(self) -> tuple[Iterable[S], bool]:
        return (self._state,), self.DISCARD

    def snapshot(self) -> Any:
        return (self._state,)


@operator
def fold_final(
    step_id: str, up: KeyedStream[V], builder: Callable[[], S], folder: Callable[[S, V], S]
) -> KeyedStream[S]:
    """Folds the values of each key. Emits at the end of the input."""
    require_callable(step_id, "builder", builder)
    require_callable(step_id, "folder", folder)
    return stateful("stateful", up, partial(_FoldFinal, builder, folder))


class _Join(StatefulLogic[tuple[int, Any], tuple[Any, ...], Any]):
    """The values of each side, as in a window that never closes before the end of the input."""

    _snapshot_is_complete = True

    def __init__(self, join: Join, state: Any) -> None:
        self._emit = join.emit
        self._values = join.new() if state is None else join.restore(state)

    def on_item(self, value: tuple[int, Any]) -> tuple[Iterable[tuple[Any, ...]], bool]:
        rows = self._values.add(value, 0)
        return rows, self._emit == "complete" and bool(rows)

    def on_eof(self) -> tuple[Iterable[tuple[Any, ...]], bool]:
        return self._values.close(), self._emit == "final"

    def snapshot(self) -> Any:
        return self._values.snapshot()


def require_join_modes(step_id: str, sides: tuple[Any, ...], insert_mode: Any, emit_mode: Any) -> None:
    """Raises an error for an unknown mode of a join, and for a join without sides."""
    if not sides:
        raise WrongCallError(f"The step {step_id!r} joins no streams. Give it two or more.")
    for name, mode, modes in (
        ("insert_mode", insert_mode, ("first", "last", "product")),
        ("emit_mode", emit_mode, ("complete", "final", "running")),
    ):
        if mode not in modes:
            choices = " or ".join(f"{name}={one!r}" for one in modes)
            raise InvalidArgumentError(f"The step {step_id!r}: unknown join mode {name}={mode!r}. Write {choices}.")


@operator
def join_label_merge(step_id: str, *ups: KeyedStream[Any]) -> KeyedStream[tuple[int, Any]]:
    """Merges the sides of a join. Each value is paired with the number of its side."""
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
    """Joins streams by key into tuples. A side without a value is ``None``."""
    require_join_modes(step_id, sides, insert_mode, emit_mode)
    merged = join_label_merge("add_names", *sides)
    return stateful("join", merged, partial(_Join, Join(len(sides), insert_mode, emit_mode)))


@operator
def max_final(step_id: str, up: KeyedStream[V], by: Callable[[V], Any] = identity) -> KeyedStream[V]:
    """The largest value of each key by ``by``. Emits at the end of the input."""
    require_callable(step_id, "by", by)
    return reduce_final("reduce_final", up, partial(max, key=by))


@operator
def min_final(step_id: str, up: KeyedStream[V], by: Callable[[V], Any] = identity) -> KeyedStream[V]:
    """The smallest value of each key by ``by``. Emits at the end of the input."""
    require_callable(step_id, "by", by)
    return reduce_final("reduce_final", up, partial(min, key=by))


class _Reduced(StatefulLogic[V, V, Any]):
    _snapshot_is_complete = True

    def __init__(self, reducer: Callable[[V, V], V], state: Any) -> None:
        self._reducer = reducer
        self._state = None if state is None else state[0]

    def on_item(self, value: V) -> tuple[Iterable[V], bool]:
        self._state = value if self._state is None else self._reducer(self._state, value)
        return NOTHING, self.RETAIN

    def on_eof(self) -> tuple[Iterable[V], bool]:
        return (self._state,), self.DISCARD  # type: ignore[return-value]

    def snapshot(self) -> Any:
        return (self._state,)


@operator
def reduce_final(step_id: str, up: KeyedStream[V], reducer: Callable[[V, V], V]) -> KeyedStream[V]:
    """Reduces the values of each key to one. Emits at the end of the input."""
    require_callable(step_id, "reducer", reducer)

    def of_batch(pairs: list[tuple[str, V]]) -> list[tuple[str, V]]:
        reduced: dict[str, V] = {}
        for item in pairs:
            key, value = pair_of(step_id, item)
            reduced[key] = reducer(reduced[key], value) if key in reduced else value
        return list(reduced.items())

    return stateful("stateful", flat_map_batch("of_batch", up, of_batch), partial(_Reduced, reducer))


class _FlatMapped(StatefulLogic[V, W, Any]):
    _snapshot_is_complete = True

    def __init__(self, step_id: str, mapper: Callable[[Any, V], tuple[Any, Iterable[W]]], state: Any) -> None:
        self._step_id = step_id
        self._mapper = mapper
        self._state = state

    def on_item(self, value: V) -> tuple[Iterable[W], bool]:
        result = self._mapper(self._state, value)
        try:
            self._state, emitted = result
        except (TypeError, ValueError):
            raise WrongCallError(
                f"The step {self._step_id!r}: the mapper {f_repr(self._mapper)} returned {result!r} "
                f"({type(result).__name__}), and must return (state, emitted value)."
            ) from None
        return emitted, self.DISCARD if self._state is None else self.RETAIN

    def snapshot(self) -> Any:
        return self._state


@operator
def stateful_flat_map(
    step_id: str, up: KeyedStream[V], mapper: Callable[[Any, V], tuple[Any, Iterable[W]]]
) -> KeyedStream[W]:
    """Maps each value to any number of values, with state for each key.

    ``mapper(state, value)`` returns the new state and the values to emit. A state of ``None`` deletes the state.
    """
    require_callable(step_id, "mapper", mapper)
    return stateful("stateful", up, partial(_FlatMapped, step_id, mapper))


@operator
def stateful_map(step_id: str, up: KeyedStream[V], mapper: Callable[[Any, V], tuple[Any, W]]) -> KeyedStream[W]:
    """Maps each value to another, with state for each key.

    ``mapper(state, value)`` returns the new state and the value to emit. A state of ``None`` deletes the state.
    """
    require_callable(step_id, "mapper", mapper)

    def flat(state: Any, value: V) -> tuple[Any, tuple[W]]:
        result = mapper(state, value)
        try:
            state, mapped = result
        except (TypeError, ValueError):
            raise WrongCallError(
                f"The step {step_id!r}: the mapper {f_repr(mapper)} returned {result!r} ({type(result).__name__}), and "
                "must return (state, value)."
            ) from None
        return state, (mapped,)

    return stateful_flat_map("stateful_flat_map", up, flat)
