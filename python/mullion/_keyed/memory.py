"""The in-memory store of records and timers, for tests."""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from typing import final


@final
class MemoryStore:
    """A store in memory."""

    def __init__(self) -> None:
        self._records: dict[bytes, bytes] = {}
        self._timers: list[tuple[int, bytes]] = []

    def get(self, key: bytes) -> bytes | None:
        """The value of ``key``; ``None`` if there is none."""
        return self._records.get(key)

    def put(self, key: bytes, value: bytes) -> None:
        """Sets the value of ``key``."""
        self._records[key] = value

    def delete(self, key: bytes) -> None:
        """Removes ``key``, if it exists."""
        self._records.pop(key, None)

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The current records whose keys begin with ``prefix``."""
        return iter([(key, value) for key, value in self._records.items() if key.startswith(prefix)])

    def put_timer(self, due_us: int, key: bytes) -> None:
        """Sets a timer of ``key`` at a time; repeated calls have no effect."""
        at = bisect.bisect_left(self._timers, (due_us, key))
        if at == len(self._timers) or self._timers[at] != (due_us, key):
            self._timers.insert(at, (due_us, key))

    def delete_timer(self, due_us: int, key: bytes) -> None:
        """Removes a timer, if it exists."""
        at = bisect.bisect_left(self._timers, (due_us, key))
        if at < len(self._timers) and self._timers[at] == (due_us, key):
            del self._timers[at]

    def due(self, until_us: int, since_us: int) -> Iterator[tuple[int, bytes]]:
        """The timers due between two times, inclusive, in order; each returned one is removed."""
        for timer in [timer for timer in self._timers if since_us <= timer[0] <= until_us]:
            self.delete_timer(*timer)
            yield timer

    @property
    def timers(self) -> list[tuple[int, bytes]]:
        """The timers that are set, in order."""
        return list(self._timers)

    def __len__(self) -> int:
        return len(self._records)
