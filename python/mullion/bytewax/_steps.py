"""The functions of steps. They are objects instead of closures, so that the planner can inspect them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mullion.bytewax.dataflow import f_repr
from mullion.errors import WrongCallError


def pair_of(step_id: str, item: Any) -> tuple[Any, Any]:
    """Splits an item into a key and a value. Raises :class:`WrongCallError` if it is not a pair."""
    try:
        key, value = item
    except (TypeError, ValueError):
        raise WrongCallError(
            f"The step {step_id!r} takes (key, value) pairs, and got {item!r} ({type(item).__name__}). Put "
            "key_on(...) before it."
        ) from None
    return key, value


def _true(step_id: str, predicate: Callable[[Any], Any], item: Any) -> bool:
    keep = predicate(item)
    if not isinstance(keep, bool):
        raise WrongCallError(
            f"The step {step_id!r}: the predicate {f_repr(predicate)} returned {keep!r} ({type(keep).__name__}), and "
            "must return a bool. Write bool(...) round it."
        )
    return keep


@dataclass(frozen=True)
class Mapped:
    """``map``: applies a function to each item."""

    mapper: Callable[[Any], Any]

    def __call__(self, items: list[Any]) -> list[Any]:
        mapper = self.mapper
        return [mapper(item) for item in items]


@dataclass(frozen=True)
class MappedValues:
    """``map_value``: applies a function to the value of each pair."""

    step_id: str
    mapper: Callable[[Any], Any]

    def __call__(self, items: list[Any]) -> list[Any]:
        mapper, step_id = self.mapper, self.step_id
        pairs = (pair_of(step_id, item) for item in items)
        return [(key, mapper(value)) for key, value in pairs]


@dataclass(frozen=True)
class Unkeyed:
    """``key_rm``: the values of pairs."""

    step_id: str

    def __call__(self, items: list[Any]) -> list[Any]:
        step_id = self.step_id
        return [pair_of(step_id, item)[1] for item in items]


@dataclass(frozen=True)
class Kept:
    """``filter``: keeps items for which a predicate returns ``True``."""

    step_id: str
    predicate: Callable[[Any], Any]

    def __call__(self, items: list[Any]) -> list[Any]:
        step_id, predicate = self.step_id, self.predicate
        return [item for item in items if _true(step_id, predicate, item)]


@dataclass(frozen=True)
class KeptValues:
    """``filter_value``: keeps pairs for whose values a predicate returns ``True``."""

    step_id: str
    predicate: Callable[[Any], Any]

    def __call__(self, items: list[Any]) -> list[Any]:
        step_id, predicate = self.step_id, self.predicate
        return [item for item in items if _true(step_id, predicate, pair_of(step_id, item)[1])]


@dataclass(frozen=True)
class Keyed:
    """``key_on``: pairs of a key, a string, and the item."""

    step_id: str
    key: Callable[[Any], Any]

    def __call__(self, items: list[Any]) -> list[Any]:
        key = self.key
        pairs = [(key(item), item) for item in items]
        for name, item in pairs:
            if not isinstance(name, str):
                raise WrongCallError(
                    f"The step {self.step_id!r}: the key {f_repr(key)} of {item!r} is {name!r} "
                    f"({type(name).__name__}), and must be a str. Write str(...) round it."
                )
        return pairs


class LogicByItem:
    """Calls a logic of single values for each value of a batch.

    After the logic is discarded, the next value builds a new one.
    """

    def __init__(self, logic: Any, builder: Callable[[Any], Any]) -> None:
        self.logic = logic
        self._builder = builder

    def on_batch(self, values: list[Any]) -> tuple[list[Any], bool]:
        emitted: list[Any] = []
        for value in values:
            if self.logic is None:
                self.logic = self._builder(None)
            more, discarded = self.logic.on_item(value)
            emitted.extend(more)
            if discarded:
                self.logic = None
        return emitted, self.logic is None

    def on_notify(self) -> Any:
        return self.logic.on_notify()

    def on_eof(self) -> Any:
        return self.logic.on_eof()

    def notify_at(self) -> Any:
        return self.logic.notify_at()


@dataclass(frozen=True)
class ByItem:
    """The builder of ``stateful``: wraps logics that process one value at a time."""

    builder: Callable[[Any], Any]

    def __call__(self, state: Any) -> Any:
        return self.of(self.builder(state))

    def of(self, logic: Any) -> LogicByItem:
        return LogicByItem(logic, self.builder)
