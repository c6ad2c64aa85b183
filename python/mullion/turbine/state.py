"""``TurbineState``: what ``process`` and the callbacks of a shard keep between calls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, final, runtime_checkable

from mullion.errors import UnsupportedError

__all__ = ["TurbineState"]


@runtime_checkable
class TurbineState(Protocol):
    """A mapping from text to plain values, one of each shard, that ``process`` and the callbacks share.

    Values are what JSON holds: ``None``, bool, int, float, str, lists and dicts of them.
    """

    def get(self, key: str, default: Any = None) -> Any:
        """The value under ``key``, or ``default``."""

    def __getitem__(self, key: str) -> Any: ...

    def __setitem__(self, key: str, value: Any) -> None: ...

    def __delitem__(self, key: str) -> None: ...

    def __contains__(self, key: object) -> bool: ...

    def items(self) -> Iterator[tuple[str, Any]]:
        """All keys with their values."""


@final
class NoState:
    """What stands for the state where the code was seen not to read it."""

    def __getattr__(self, name: str) -> Any:
        raise self._refused()

    def __getitem__(self, key: object) -> Any:
        raise self._refused()

    def __setitem__(self, key: object, value: object) -> None:
        raise self._refused()

    def __delitem__(self, key: object) -> None:
        raise self._refused()

    def __contains__(self, key: object) -> bool:
        raise self._refused()

    def _refused(self) -> UnsupportedError:
        return UnsupportedError(
            "The state is used here in a way that cannot be seen in the code. Use it by its parameter's name, as in "
            "state.get('count', 0)."
        )
