"""The contents of a window: a fold, a reduction, the sides of a join, or a logic defined by the program."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

from mullion.bytewax._key_windows.interfaces import WindowLogic
from mullion.bytewax._key_windows.logics import KeptLogics, Snapshots

JoinInsertMode: TypeAlias = Literal["first", "last", "product"]
"""The values that a join keeps of each side: the first, the last, or all."""

JoinEmitMode: TypeAlias = Literal["complete", "final", "running"]
"""The time at which a join emits: once all sides have a value, at the end, or for each value."""

_NOTHING: tuple[()] = ()
_Combine = Callable[[Any, Any], Any]


class Contents(Protocol):
    """The contents of one window."""

    def add(self, value: Any, time: int) -> Iterable[Any]:
        """Adds a value. Returns the results to emit."""

    def merge(self, other: Any) -> Iterable[Any]:
        """Adds the contents of a window that is merged into this one. Returns the results to emit."""

    def close(self) -> Iterable[Any]:
        """Returns the results to emit when the window closes."""

    def snapshot(self) -> Any:
        """The state to store."""


class MakeContents(Protocol):
    """A factory of contents."""

    def new(self) -> Contents:
        """The contents of a new window."""

    def restore(self, state: Any) -> Contents:
        """The contents of a window with stored state."""


class _Folded:
    __slots__ = ("_merger", "_step", "state")

    def __init__(self, state: Any, step: _Combine, merger: _Combine | None) -> None:
        self.state = state
        self._step = step
        self._merger = merger

    def add(self, value: Any, time: int) -> tuple[()]:
        self.state = self._step(self.state, value)
        return _NOTHING

    def merge(self, other: _Folded) -> tuple[()]:
        assert self._merger is not None
        self.state = self._merger(self.state, other.state)
        return _NOTHING

    def close(self) -> tuple[Any]:
        return (self.state,)

    def snapshot(self) -> Any:
        return self.state


class _Reduced(_Folded):
    __slots__ = ()

    def add(self, value: Any, time: int) -> tuple[()]:
        self.state = value if self.state is None else self._step(self.state, value)
        return _NOTHING


@dataclass(frozen=True)
class Fold:
    """Folds values into a state, and merges the states of merged windows."""

    builder: Callable[[], Any]
    folder: Callable[[Any, Any], Any]
    merger: Callable[[Any, Any], Any] | None

    def new(self) -> _Folded:
        return self.restore(self.builder())

    def restore(self, state: Any) -> _Folded:
        return _Folded(state, self.folder, self.merger)


@dataclass(frozen=True)
class Reduction:
    """Reduces values to one. After a result of ``None``, the next value starts a new reduction."""

    reducer: Callable[[Any, Any], Any]

    def new(self) -> _Reduced:
        return self.restore(None)

    def restore(self, state: Any) -> _Reduced:
        return _Reduced(state, self.reducer, self.reducer)


class _Refolded:
    __slots__ = ("_of", "rows")

    def __init__(self, of: FoldAgain, rows: list[tuple[int, Any]]) -> None:
        self._of = of
        self.rows = rows

    def add(self, value: Any, time: int) -> tuple[()]:
        self.rows.append((time, value))
        return _NOTHING

    def merge(self, other: _Refolded) -> tuple[()]:
        self.rows += other.rows
        return _NOTHING

    def close(self) -> tuple[Any]:
        state = self._of.builder()
        for _, value in sorted(self.rows, key=lambda row: row[0]):
            state = self._of.folder(state, value)
        return (state,)

    def snapshot(self) -> Any:
        return self.rows


@dataclass(frozen=True)
class FoldAgain:
    """A fold without a merger for windows that merge. It keeps values, and folds them in time order at the close."""

    builder: Callable[[], Any]
    folder: Callable[[Any, Any], Any]

    def new(self) -> _Refolded:
        return _Refolded(self, [])

    def restore(self, state: Any) -> _Refolded:
        return _Refolded(self, [(time, value) for time, value in state])


class _Joined:
    """The values of each side. :meth:`add` receives ``(side, value)``."""

    __slots__ = ("_of", "sides")

    def __init__(self, of: Join, sides: list[list[Any]]) -> None:
        self._of = of
        self.sides = sides

    def add(self, value: tuple[int, Any], time: int) -> Sequence[tuple[Any, ...]]:
        side, one = value
        if self._of.insert == "product":
            self.sides[side].append(one)
        elif self._of.insert == "last" or not self.sides[side]:
            self.sides[side] = [one]
        return self._emitted()

    def merge(self, other: _Joined) -> Sequence[tuple[Any, ...]]:
        pairs = zip(self.sides, other.sides, strict=True)
        # As in Bytewax 0.21: with "first" the values of the merged window win, with "last" those of the target.
        match self._of.insert:
            case "first":
                self.sides = [others or own for own, others in pairs]
            case "last":
                self.sides = [own or others for own, others in pairs]
            case _:
                self.sides = [own + others for own, others in pairs]
        return self._emitted()

    def _emitted(self) -> Sequence[tuple[Any, ...]]:
        if self._of.emit == "running":
            return self._rows()
        if self._of.emit == "complete" and all(self.sides):
            rows = self._rows()
            self.sides = [[] for _ in self.sides]
            return rows
        return _NOTHING

    def _rows(self) -> list[tuple[Any, ...]]:
        return list(itertools.product(*(side or [None] for side in self.sides)))

    def close(self) -> Sequence[tuple[Any, ...]]:
        return self._rows() if self._of.emit == "final" else _NOTHING

    def snapshot(self) -> Any:
        return self.sides


@dataclass(frozen=True)
class Join:
    """Joins the values of the sides into rows."""

    sides: int
    insert: JoinInsertMode
    emit: JoinEmitMode

    def new(self) -> _Joined:
        return _Joined(self, [[] for _ in range(self.sides)])

    def restore(self, state: Any) -> _Joined:
        return _Joined(self, [list(side) for side in state])


class _Own:
    __slots__ = ("_logics", "logic")

    def __init__(self, logic: WindowLogic[Any, Any, Any], logics: KeptLogics) -> None:
        self.logic = logic
        self._logics = logics

    def add(self, value: Any, time: int) -> Iterable[Any]:
        return self.logic.on_value(value)

    def merge(self, other: _Own) -> Iterable[Any]:
        return self.logic.on_merge(other.logic)

    def close(self) -> Iterable[Any]:
        return self.logic.on_close()

    def snapshot(self) -> Any:
        return self._logics.state_of(self.logic)


@dataclass(frozen=True)
class Own:
    """Contents defined by the program."""

    builder: Callable[[Any], WindowLogic[Any, Any, Any]]
    logics: KeptLogics = field(default_factory=Snapshots)

    def new(self) -> _Own:
        return _Own(self.builder(None), self.logics)

    def restore(self, state: Any) -> _Own:
        return _Own(self.logics.restored(state, self.builder), self.logics)
