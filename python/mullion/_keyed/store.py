"""The interface of keyed state for Python stages: records of bytes by key, and timers.

::

    Records     get  put  delete  scan                   the state of a function
    Store       the same, and put_timer delete_timer due      additionally needed by a table with windows

``state.State`` is the store of a task, in Spark's state; ``memory.MemoryStore`` is one of a process. A journal wraps
either, to undo the writes of a failed call.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol


class Records(Protocol):
    """A container of bytes by key."""

    def get(self, key: bytes) -> bytes | None:
        """The value of ``key``; ``None`` if there is none."""

    def put(self, key: bytes, value: bytes) -> None:
        """Sets the value of ``key``."""

    def delete(self, key: bytes) -> None:
        """Removes ``key``, if it exists."""

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The records whose keys begin with ``prefix``."""


class Store(Records, Protocol):
    """The same with timers, whose times are microseconds since the epoch."""

    def put_timer(self, due_us: int, key: bytes) -> None:
        """Sets a timer of ``key`` at a time; repeated calls have no effect."""

    def delete_timer(self, due_us: int, key: bytes) -> None:
        """Removes a timer, if it exists."""

    def due(self, until_us: int, since_us: int) -> Iterator[tuple[int, bytes]]:
        """The timers due between two times, inclusive, in order; each returned one is removed."""
