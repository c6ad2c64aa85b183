"""What keyed state is to the stages of Python that use it: records of bytes by key, and timers.

::

    Records     get  put  delete  scan                   what a function keeps
    Store       the same, and put_timer delete_timer due      what a table with windows needs beside it

``state.State`` is the store of a task, in Spark's state; ``memory.MemoryStore`` is one of a process. A journal goes
around either, to take back what a call that failed has written.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol


class Records(Protocol):
    """What holds bytes by key."""

    def get(self, key: bytes) -> bytes | None:
        """The value of ``key``; ``None`` if there is none."""

    def put(self, key: bytes, value: bytes) -> None:
        """Sets it."""

    def delete(self, key: bytes) -> None:
        """Removes it, if it is there."""

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The records whose keys begin with ``prefix``."""


class Store(Records, Protocol):
    """The same with timers, whose times are microseconds since the epoch."""

    def put_timer(self, due_us: int, key: bytes) -> None:
        """Notes that ``key`` is due at a time; again is no more than once."""

    def delete_timer(self, due_us: int, key: bytes) -> None:
        """Removes a timer, if it is there."""

    def due(self, until_us: int, since_us: int) -> Iterator[tuple[int, bytes]]:
        """The timers due from a time to another, both included, in order; each one that is taken is removed."""
