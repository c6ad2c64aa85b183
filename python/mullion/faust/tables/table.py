"""Tables: values by key, and values by key and range of time.

``+=`` changes every range that the event falls into::

    views = app.Table("views", default=int).hopping(10, 5)       the event is at 7 s
    views["/"] += 1          [0, 10)  3 -> 4
                             [5, 15)  0 -> 1
    views["/"].current()     1, of the range that starts last
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from mullion.errors import InvalidArgumentError
from mullion.faust._context import Event, context
from mullion.faust._values.times import Seconds, length_us
from mullion.faust.tables import per_range
from mullion.faust.tables.ansi_table import draw_table
from mullion.faust.tables.plain import PlainTable
from mullion.faust.tables.ranged import RangedTable
from mullion.faust.tables.records import MISSING, TableData
from mullion.faust.tables.window_set import WindowSet
from mullion.faust.windows import HoppingWindow, TumblingWindow, WindowT

__all__ = ["Table", "WindowedTable", "WindowedView"]


class Table(PlainTable):
    """A table by key: a dict of which each shard holds its own keys.

    - ``name``: the name of its records; letters, digits, '.', '_' and '-'.
    - ``default``: creates the value of a missing key, as in ``default=int``; it is not stored. Without a default,
      reading a missing key raises ``KeyError``.
    - ``key_type``: the type of the keys. Use ``tuple`` for pairs whose second part is a number: otherwise a windowed
      table interprets them as ``(key, timestamp)``.
    - ``changelog``: a topic that receives each value that is assigned to a key, and ``None`` when a key is removed.
    - ``on_window_close(key, value)``: called once for each range that expires, with ``key`` as ``(k, (start, end))``.

    Raises :class:`InvalidArgumentError` for an invalid name or default.
    """

    def using_window(self, window: WindowT, *, key_index: bool = False) -> WindowedTable:
        """Returns the table by range of time. ``key_index=True`` stores the existing keys, to iterate over them.

        Raises :class:`InvalidArgumentError` if the table already has another window.
        """
        return WindowedTable(self, window, key_index_size=None, _key_index=key_index)

    def tumbling(self, size: Seconds, expires: Seconds | None = None, key_index: bool = False) -> WindowedTable:
        """Returns the table by consecutive ranges: see :class:`TumblingWindow`."""
        return self.using_window(TumblingWindow(size, expires), key_index=key_index)

    def hopping(
        self, size: Seconds, step: Seconds, expires: Seconds | None = None, key_index: bool = False
    ) -> WindowedTable:
        """Returns the table by overlapping ranges: see :class:`HoppingWindow`."""
        return self.using_window(HoppingWindow(size, step, expires), key_index=key_index)


class WindowedTable(RangedTable):
    """A table by key and range of time.

    ``table[key]`` is a :class:`WindowSet`: all ranges of the key that the event falls into. ``table[key, timestamp]``
    is the value at a time, in seconds; an assignment to it sets every range of that time.

    It is created by :meth:`Table.tumbling` and similar methods, or from a table and a window; then it has a key index.
    ``key_index_size`` is accepted and ignored: the index grows and shrinks with the keys.

    Raises :class:`InvalidArgumentError` if the table already has another window.
    """

    _table: Table

    @property
    def table(self) -> Table:
        """The table without its window."""
        return self._table

    # -- values by key

    def __getitem__(self, key: Any) -> Any:
        at = self._at(key)
        if at is not None:
            value = self._value(self._reads(key, at), at[0], at[1])
            if value is MISSING:
                raise KeyError(key)
            return value
        self._reads(key)
        return WindowSet(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        at = self._at(key)
        data = self._writes(key, at)
        if at is not None:
            self._assign(data, at[0], at[1], per_range.plain(value))
        elif isinstance(value, WindowSet):
            value._assigned_to(self, key)
        else:
            self._assign(data, key, self._event_us(), per_range.plain(value))

    def __contains__(self, key: Any) -> bool:
        return self.get(key, MISSING) is not MISSING

    def get(self, key: Any, default: Any = None) -> Any:
        """Returns the value of a key at the time of reads, or ``default`` (not the table's default)."""
        at = self._at(key)
        data = self._reads(key, at)
        k, us = at if at is not None else (key, self._read_us(data))
        value = MISSING if us is None else self._stored(data, k, us)
        return default if value is MISSING else value

    # -- all keys

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(list(self.keys()))

    def __bool__(self) -> bool:
        # Always true, as for tables without a window.
        return True

    def keys(self) -> WindowedView:
        """The keys that exist at the time of reads, in this shard."""
        return WindowedView(self, lambda key, value: key, "keys")

    def values(self) -> WindowedView:
        """The values at the time of reads, in this shard."""
        return WindowedView(self, lambda key, value: value, "values")

    def items(self) -> WindowedView:
        """The keys and values at the time of reads, in this shard."""
        return WindowedView(self, lambda key, value: (key, value), "items")

    def as_ansitable(
        self,
        title: str = "{table.name}",
        *,
        key: str = "Key",
        value: str = "Value",
        sort: bool = False,
        sortkey: Callable[[Any], Any] = lambda row: row[0],
        **_: Any,
    ) -> str:
        """Formats the keys and values at the time of reads as a table for a terminal."""
        return draw_table(list(self.items()), title.format(table=self), key, value, sortkey if sort else None)


class WindowedView:
    """The keys, values or items of a windowed table at a time."""

    def __init__(self, table: WindowedTable, of: Callable[[Any, Any], Any], what: str) -> None:
        self._table = table
        self._of = of
        self._what = what

    def __iter__(self) -> Iterator[Any]:
        data = self._data()
        return self._at(data, self._table._read_us(data))

    def now(self) -> Iterator[Any]:
        """Iterates over the entries at the time of the clock."""
        return self._at(self._data(), context("").shard.clock.time_us())

    def current(self, event: Event | None = None) -> Iterator[Any]:
        """Iterates over the entries at the time of the event."""
        data = self._data()
        return self._at(data, self._table._stream_us(data, event))

    def delta(self, d: Seconds, event: Event | None = None) -> Iterator[Any]:
        """Iterates over the entries at ``d`` before the event, in seconds or as a ``timedelta``.

        A table that is relative to the clock or to a timestamp is read at ``d`` before that time.
        """
        data = self._data()
        of_event = self._table._relative.to in ("stream", "field")
        us = self._table._stream_us(data, event) if of_event else self._table._read_us(data, event)
        return self._at(data, None if us is None else us - length_us(d, "d"))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, item: object) -> bool:
        return item in list(iter(self))

    def __or__(self, other: Iterable[Any]) -> set[Any]:
        return {*self, *other}

    def __and__(self, other: Iterable[Any]) -> set[Any]:
        return {*self} & {*other}

    def __repr__(self) -> str:
        return f"<{self._what} of {self._table.name}>"

    def _data(self) -> TableData:
        table = self._table
        if not table.table.key_index:
            raise InvalidArgumentError(
                f"The {self._what} of the windowed table {table.name!r} cannot be listed: it does not keep which keys "
                "there are. Make it with key_index=True, as in .tumbling(10, key_index=True)."
            )
        current = context(f"The {self._what} of {table.name!r} were read")
        current.shard.require_all_keys(table.name, current.event)
        data: TableData = current.shard.data(table.table)
        return data

    def _at(self, data: TableData, us: int | None) -> Iterator[Any]:
        if us is None:
            return
        for key in data.all_keys():
            value = self._table._stored(data, key, us)
            if value is not MISSING:
                yield self._of(key, value)
