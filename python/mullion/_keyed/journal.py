"""Records with undo: a failed call leaves no writes behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import final

from mullion._keyed.store import Records, Store


class RecordJournal:
    """Records that remember how to undo writes since :meth:`begin`."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._before: dict[bytes, bytes | None] = {}

    def begin(self) -> None:
        """Accepts all earlier writes; later ones can be undone."""
        self._before.clear()

    def undo(self) -> None:
        """Undoes the writes since :meth:`begin`."""
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
        """Removes ``key``, if it exists."""
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
    """The same for a store, with its timers."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._store = store
        self._undo: list[Callable[[], None]] = []

    def begin(self) -> None:
        """Accepts all earlier writes; later ones can be undone."""
        self._undo.clear()
        super().begin()

    def undo(self) -> None:
        """Undoes the writes since :meth:`begin`."""
        for step in reversed(self._undo):
            step()
        super().undo()

    def put_timer(self, due_us: int, key: bytes) -> None:
        """Sets a timer of ``key`` at a time. Undo also removes an equal earlier one, so a table sets it once."""
        self._undo.append(lambda: self._store.delete_timer(due_us, key))
        self._store.put_timer(due_us, key)

    def delete_timer(self, due_us: int, key: bytes) -> None:
        """Removes an existing timer."""
        self._undo.append(lambda: self._store.put_timer(due_us, key))
        self._store.delete_timer(due_us, key)

    def due(self, until_us: int, since_us: int) -> Iterator[tuple[int, bytes]]:
        """The timers due between two times, inclusive, in order; each returned one is removed."""
        for due_us, key in self._store.due(until_us, since_us=since_us):
            self._undo.append(lambda due_us=due_us, key=key: self._store.put_timer(due_us, key))  # type: ignore[misc]
            yield due_us, key
