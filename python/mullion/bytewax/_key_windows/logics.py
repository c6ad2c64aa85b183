"""Keeps logics defined by the program between micro-batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class KeptLogics(Protocol):
    """Converts logics to values of state, and back."""

    def state_of(self, logic: Any) -> tuple[Any, ...]:
        """Converts a logic to a value of state."""

    def restored(self, state: tuple[Any, ...], builder: Callable[[Any], Any]) -> Any:
        """Restores the logic from a result of :meth:`state_of`."""


class Snapshots:
    """Stores the snapshot of each logic, and rebuilds the logic from it."""

    def state_of(self, logic: Any) -> tuple[Any, ...]:
        return (logic.snapshot(),)

    def restored(self, state: tuple[Any, ...], builder: Callable[[Any], Any]) -> Any:
        return builder(state[0])
