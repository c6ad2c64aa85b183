"""Tables of sets: added and discarded members are saved immediately, without assignment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableSet
from typing import Any, NoReturn, final

from mullion.errors import UnsupportedError
from mullion.faust.tables.records import MISSING
from mullion.faust.tables.table import Table, WindowedTable
from mullion.faust.windows import WindowT

__all__ = ["KeptSet", "SetTable"]


class SetTable(Table):
    """A table whose values are sets: ``people[place].add(name)`` is saved.

    A missing key is an empty set. Members have the types that tables support: text, numbers, dates, tuples, records.
    """

    def __init__(self, name: str, *, key_type: Any = None, value_type: Any = None) -> None:
        # ``value_type`` is the type of the members.
        super().__init__(name, default=set, key_type=key_type)
        self.member_type = value_type

    def __getitem__(self, key: Any) -> KeptSet:
        self._reads(key)
        return KeptSet(self, key)

    def __setitem__(self, key: Any, value: Iterable[Any]) -> None:
        self._put(self._writes(key), key, set(value))

    def get(self, key: Any, default: Any = None) -> Any:
        """Returns the set of a key, or ``default``."""
        there = self._reads(key).get(key) is not MISSING
        return KeptSet(self, key) if there else default

    def using_window(self, window: WindowT, *, key_index: bool = False) -> WindowedTable:
        """Raises :class:`UnsupportedError`: a windowed table of sets is ``app.Table(name, default=set)``."""
        raise UnsupportedError(
            f"The SetTable {self.name!r} cannot have the window {window!r}. Keep the sets in a windowed table: "
            f"app.Table({self.name!r}, default=set).using_window(...), and assign the set back once it is changed."
        )

    def __repr__(self) -> str:
        return f"<SetTable: {self.name}>"


@final
class KeptSet(MutableSet[Any]):
    """A live view of the set of a key."""

    def __init__(self, table: SetTable, key: Any) -> None:
        self._table = table
        self._key = key

    def add(self, value: Any) -> None:
        """Adds a member."""
        self._keep({*self._now(), value})

    def discard(self, value: Any) -> None:
        """Removes a member, if it exists."""
        self._keep(self._now() - {value})

    def clear(self) -> None:
        """Removes all members."""
        self._keep(set())

    def update(self, *others: Iterable[Any]) -> None:
        """Adds the members of others."""
        self._keep(self._now().union(*others))

    def difference_update(self, *others: Iterable[Any]) -> None:
        """Removes the members of others."""
        self._keep(self._now().difference(*others))

    def intersection_update(self, *others: Iterable[Any]) -> None:
        """Keeps the members that all others have too."""
        self._keep(self._now().intersection(*others))

    def symmetric_difference_update(self, other: Iterable[Any]) -> None:
        """Keeps the members of exactly one of the two sets."""
        self._keep(self._now().symmetric_difference(other))

    def union(self, *others: Iterable[Any]) -> set[Any]:
        """Returns the union as a plain set."""
        return self._now().union(*others)

    def difference(self, *others: Iterable[Any]) -> set[Any]:
        """Returns the difference as a plain set."""
        return self._now().difference(*others)

    def intersection(self, *others: Iterable[Any]) -> set[Any]:
        """Returns the intersection as a plain set."""
        return self._now().intersection(*others)

    def copy(self) -> set[Any]:
        """Returns a copy as a plain set."""
        return self._now()

    def __contains__(self, value: object) -> bool:
        return value in self._now()

    def __iter__(self) -> Iterator[Any]:
        return iter(self._now())

    def __len__(self) -> int:
        return len(self._now())

    @classmethod
    def _from_iterable(cls, it: Iterable[Any]) -> Any:
        # Operators return plain sets.
        return set(it)

    def __hash__(self) -> NoReturn:
        raise TypeError("unhashable type: 'KeptSet'")

    def __repr__(self) -> str:
        return repr(self._now())

    def _now(self) -> set[Any]:
        members = self._table._reads(self._key).get(self._key)
        return set() if members is MISSING else set(members)

    def _keep(self, members: set[Any]) -> None:
        self._table._put(self._table._writes(self._key), self._key, members)
