"""Sets of windows: a windowed table's values for one key, in each range that an event falls into."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any, Self

from mullion.faust._context import Event, context, current_event
from mullion.faust._values.times import Seconds, length_us
from mullion.faust.tables import per_range
from mullion.faust.tables.operations import NAMED
from mullion.faust.tables.ranged import RangedTable
from mullion.faust.tables.records import MISSING, TableData
from mullion.faust.windows import SlidingWindow, WindowRange

__all__ = ["WindowSet"]


class WindowSet:
    """A windowed table's values for a key, in each range that the event falls into.

    ``+=`` and similar operators are applied to all those ranges. An item is read from the current range, and
    set in all of them once the set is assigned back::

        stats = averages[name]
        stats["sum"] += value
        averages[name] = stats
    """

    def __init__(self, table: RangedTable, key: Any, event: Event | None = None) -> None:
        self._of = table
        self._event = event
        self._pending: list[Any] | None = None
        self._ranges: list[WindowRange] = []
        self.key = key

    @property
    def table(self) -> RangedTable:
        """The table of the set."""
        return self._of

    # -- values at a time

    def value(self, event: Event | None = None) -> Any:
        """Returns the value at the table's time of reads, by default the event's time."""
        data = self._data()
        return self._read(data, self._of._read_us(data, event or self._event))

    def current(self, event: Event | None = None) -> Any:
        """Returns the value at the time of the event, or of another one."""
        data = self._data()
        return self._read(data, self._of._stream_us(data, event or self._event))

    def now(self) -> Any:
        """Returns the value at the time of the clock."""
        return self._read(self._data(), context("").shard.clock.time_us())

    def delta(self, d: Seconds, event: Event | None = None) -> Any:
        """Returns the value at the time of the event minus ``d``, seconds or a ``timedelta``."""
        data = self._data()
        us = self._of._stream_us(data, event or self._event)
        return self._read(data, None if us is None else us - length_us(d, "d"))

    # -- all ranges

    def apply(self, operation: Callable[[Any, Any], Any], value: Any, event: Event | None = None) -> WindowSet:
        """Applies ``range = operation(range, value)`` to each range of the event."""
        data = self._of._writes(self.key)
        us = self._of._event_us(event or self._event)
        named = next((name for name, one in NAMED.items() if one is operation), None)
        if named is None:
            if isinstance(self._of._window, SlidingWindow):
                self._of._apply(data, self.key, us, "=", operation(self._read(data, us), value))
                return self
            data.applies(us)
            for one in data.ranges_at(us):
                data.put_range(self.key, one, operation(self._of.get_window(self.key, one), value))
            return self
        self._of._apply(data, self.key, us, named, per_range.plain(value))
        return self

    def __iadd__(self, value: Any) -> Self:
        return self._in_place("+", value)

    def __isub__(self, value: Any) -> Self:
        return self._in_place("-", value)

    def __imul__(self, value: Any) -> Self:
        return self._in_place("*", value)

    def __itruediv__(self, value: Any) -> Self:
        return self._in_place("/", value)

    def __ifloordiv__(self, value: Any) -> Self:
        return self._in_place("//", value)

    def __imod__(self, value: Any) -> Self:
        return self._in_place("%", value)

    def __ipow__(self, value: Any) -> Self:
        return self._in_place("**", value)

    def __ilshift__(self, value: Any) -> Self:
        return self._in_place("<<", value)

    def __irshift__(self, value: Any) -> Self:
        return self._in_place(">>", value)

    def __iand__(self, value: Any) -> Self:
        return self._in_place("&", value)

    def __ixor__(self, value: Any) -> Self:
        return self._in_place("^", value)

    def __ior__(self, value: Any) -> Self:
        return self._in_place("|", value)

    # -- items of the value

    def __getitem__(self, name: Any) -> Any:
        if isinstance(name, Event):
            return WindowSet(self._of, self.key, name)
        if isinstance(name, WindowRange):
            return self._of.get_window(self.key, name)
        return self._items()[name]

    def __setitem__(self, name: Any, value: Any) -> None:
        if isinstance(name, Event):
            of = self._of
            of._assign(of._writes(self.key), self.key, of._event_us(name), per_range.plain(value))
            return
        if isinstance(name, WindowRange):
            self._of.set_window(self.key, name, value)
            return
        self._items()[name] = value

    def __delitem__(self, name: Any) -> None:
        if isinstance(name, Event):
            del self._of[self.key, name.timestamp]
            return
        if isinstance(name, WindowRange):
            self._of._writes(self.key).delete_range(self.key, name)
            return
        del self._items()[name]

    def __contains__(self, name: object) -> bool:
        return name in self._items()

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items())

    def __len__(self) -> int:
        return len(self._items())

    def __getattr__(self, name: str) -> Any:
        """Returns a method of the value that is applied in every range: ``append``, ``update`` and others."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._items(), name)

    def __repr__(self) -> str:
        return f"<WindowSet: {self._of.name}[{self.key!r}]>"

    # -- internal

    def _data(self) -> TableData:
        return self._of._reads(self.key)

    def _read(self, data: TableData, us: int | None) -> Any:
        value = self._of._value(data, self.key, us)
        if value is MISSING:
            raise KeyError(self.key)
        return value

    def _in_place(self, operation: str, value: Any) -> Self:
        of = self._of
        of._apply(of._writes(self.key), self.key, of._event_us(self._event), operation, per_range.plain(value))
        return self

    def _items(self) -> Any:
        """The value, for access to its items: that of one range, or a wrapper over several ranges."""
        data = self._data()
        if self._pending is None:
            us = self._of._applied_us(data, self._event)
            current = copy.deepcopy(self._read(data, us))
            if us is None or isinstance(self._of._window, SlidingWindow):
                self._pending = [current]
            else:
                self._ranges = data.ranges_at(us)
                earlier = [copy.deepcopy(self._of.get_window(self.key, one)) for one in self._ranges[:-1]]
                self._pending = [*earlier, current]
            if current_event() is not None:
                data.hand(id(self._pending), self._pending, self.key)
        if not isinstance(self._pending[-1], (dict, list, set)):
            raise TypeError(
                f"{self._of.name}[{self.key!r}] is a WindowSet, and its value {self._pending[-1]!r} has no items. Read "
                ".value(), .current() or .now()."
            )
        return self._pending[0] if len(self._pending) == 1 else per_range.Each(self._pending)

    def _assigned_to(self, table: RangedTable, key: Any) -> None:
        """Saves the changes of items, for ``table[key] = set``."""
        data = table._writes(key)
        if table._table is not self._of._table or key != self.key:
            table._assign(data, key, table._event_us(), self.value())
            return
        if self._pending is None:
            return
        us = table._event_us(self._event)
        data.applies(us)
        table._touch(us)
        if isinstance(table._window, SlidingWindow) or not self._ranges:
            table._apply(data, key, us, "=", self._pending[-1])
        else:
            for one, value in zip(self._ranges, self._pending, strict=True):
                data.put_range(key, one, value)
        data.saved(id(self._pending), self._pending, key)
