"""What a window holds: a fold, a reduction, the rows of a join, or what a program wrote."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from mullion.bytewax._windows.interfaces import WindowLogic
from mullion.bytewax._windows.logics import KeptLogics, Snapshots

JoinInsertMode = Literal["first", "last", "product"]
JoinEmitMode = Literal["complete", "final", "running"]

_NOTHING: tuple[()] = ()


class Contents(Protocol):
    """What one window holds."""

    def add(self, value: Any, time: int) -> Iterable[Any]:
        """Takes a value; gives what is emitted."""

    def merge(self, other: Any) -> Iterable[Any]:
        """Takes the contents of a window that is merged into this one."""

    def close(self) -> Iterable[Any]:
        """What is emitted as the window closes."""

    def snapshot(self) -> Any:
        """The state, to be kept."""


class MakeContents(Protocol):
    """Makes contents: of a window that is new, or whose state was kept."""

    def new(self) -> Contents:
        """Of a new window."""

    def kept(self, state: Any) -> Contents:
        """Of one whose state was kept."""


class _Folded:
    __slots__ = ("_of", "state")

    def __init__(self, of: Fold, state: Any) -> None:
        self._of = of
        self.state = state

    def add(self, value: Any, time: int) -> tuple[()]:
        self.state = self._of.folder(self.state, value)
        return _NOTHING

    def merge(self, other: _Folded) -> tuple[()]:
        assert self._of.merger is not None
        self.state = self._of.merger(self.state, other.state)
        return _NOTHING

    def close(self) -> tuple[Any]:
        return (self.state,)

    def snapshot(self) -> Any:
        return self.state


@dataclass(frozen=True)
class Fold:
    """Values are folded into a state, and states of merged windows merged."""

    builder: Callable[[], Any]
    folder: Callable[[Any, Any], Any]
    merger: Callable[[Any, Any], Any] | None

    def new(self) -> _Folded:
        return _Folded(self, self.builder())

    def kept(self, state: Any) -> _Folded:
        return _Folded(self, state)


class _Reduced:
    __slots__ = ("_reducer", "state")

    def __init__(self, reducer: Callable[[Any, Any], Any], state: Any) -> None:
        self._reducer = reducer
        self.state = state

    def add(self, value: Any, time: int) -> tuple[()]:
        self.state = value if self.state is None else self._reducer(self.state, value)
        return _NOTHING

    def merge(self, other: _Reduced) -> tuple[()]:
        self.state = self._reducer(self.state, other.state)
        return _NOTHING

    def close(self) -> tuple[Any]:
        return (self.state,)

    def snapshot(self) -> Any:
        return self.state


@dataclass(frozen=True)
class Reduction:
    """Values are reduced to one; a ``None`` is where the next value starts anew."""

    reducer: Callable[[Any, Any], Any]

    def new(self) -> _Reduced:
        return _Reduced(self.reducer, None)

    def kept(self, state: Any) -> _Reduced:
        return _Reduced(self.reducer, state)


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
    """A fold without a merger over windows that merge: values are kept, and folded in order of time at the close."""

    builder: Callable[[], Any]
    folder: Callable[[Any, Any], Any]

    def new(self) -> _Refolded:
        return _Refolded(self, [])

    def kept(self, state: Any) -> _Refolded:
        return _Refolded(self, [(time, value) for time, value in state])


class _Joined:
    """The values of each side; values are ``(side, value)``."""

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
        # As the released package does it: of "first" the merged window's values win, of "last" its own.
        match self._of.insert:
            case "first":
                self.sides = [theirs or mine for mine, theirs in pairs]
            case "last":
                self.sides = [mine or theirs for mine, theirs in pairs]
            case _:
                self.sides = [mine + theirs for mine, theirs in pairs]
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
    """A row for what the sides hold together."""

    sides: int
    insert: JoinInsertMode
    emit: JoinEmitMode

    def new(self) -> _Joined:
        return _Joined(self, [[] for _ in range(self.sides)])

    def kept(self, state: Any) -> _Joined:
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
        return self._logics.kept(self.logic)


@dataclass(frozen=True)
class Own:
    """Contents that a program wrote."""

    builder: Callable[[Any], WindowLogic[Any, Any, Any]]
    logics: KeptLogics = field(default_factory=Snapshots)

    def new(self) -> _Own:
        return _Own(self.builder(None), self.logics)

    def kept(self, state: Any) -> _Own:
        return _Own(self.logics.restored(state, self.builder), self.logics)
