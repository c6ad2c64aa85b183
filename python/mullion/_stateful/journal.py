"""Records whose last writes can be undone: a call that failed leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import final

from mullion._stateful.store import Records, Store


class RecordJournal:
    """Records that note how to undo what is written since :meth:`begin`."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._before: dict[bytes, bytes | None] = {}

    def begin(self) -> None:
        """What has been written stays; what is written from here on can be undone."""
        self._before.clear()

    def undo(self) -> None:
        """Takes back what was written since :meth:`begin`."""
        for key, value in self._before.items():
            if value is None:
                self._records.delete(key)
            else:
                self._records.put(key, value)
        self.begin()

    def get(self, key: bytes) -> bytes | None:
        """The value of ``key``; ``None`` if there is none."""
        return self._records.get(key)

    def put(self, key: bytes, value: bytes) -> None:
        """Sets the value of ``key``."""
        self._note(key)
        self._records.put(key, value)

    def delete(self, key: bytes) -> None:
        """Removes ``key``, if it is there."""
        self._note(key)
        self._records.delete(key)

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The records whose keys begin with ``prefix``."""
        return self._records.scan(prefix)

    def _note(self, key: bytes) -> None:
        if key not in self._before:
            self._before[key] = self._records.get(key)


@final
class Journal(RecordJournal):
    """The same of a store, with its timers."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._store = store
        self._undo: list[Callable[[], None]] = []

    def begin(self) -> None:
        """What has been written stays; what is written from here on can be undone."""
        self._undo.clear()
        super().begin()

    def undo(self) -> None:
        """Takes back what was written since :meth:`begin`."""
        for step in reversed(self._undo):
            step()
        super().undo()

    def put_timer(self, due_us: int, key: bytes) -> None:
        """Notes that ``key`` is due at a time. Undone, one that was there before is lost, so a table sets it once."""
        self._undo.append(lambda: self._store.delete_timer(due_us, key))
        self._store.put_timer(due_us, key)

    def delete_timer(self, due_us: int, key: bytes) -> None:
        """Removes a timer that is there."""
        self._undo.append(lambda: self._store.put_timer(due_us, key))
        self._store.delete_timer(due_us, key)

    def due(self, until_us: int, since_us: int) -> Iterator[tuple[int, bytes]]:
        """The timers due from a time to another, both included, in order; each one that is taken is removed."""
        for due_us, key in self._store.due(until_us, since_us=since_us):
            self._undo.append(lambda due_us=due_us, key=key: self._store.put_timer(due_us, key))  # type: ignore[misc]
            yield due_us, key
