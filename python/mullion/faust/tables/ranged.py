"""Tables of values by key and range of time: the time of reads, and operations on ranges."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self, final

from mullion.errors import InvalidArgumentError, UnsupportedError
from mullion.faust._context import Context, Event, context, current_event, event_for
from mullion.faust._values.times import seconds, time_us
from mullion.faust.models import FieldDescriptor
from mullion.faust.tables.operations import NAMED
from mullion.faust.tables.plain import PlainTable
from mullion.faust.tables.records import MISSING, TableData
from mullion.faust.windows import SlidingWindow, WindowRange, WindowT

__all__ = ["RangedTable"]


@final
@dataclass(frozen=True, slots=True)
class _Relative:
    """The time of reads: that of the stream, the clock, a field, or a given timestamp."""

    to: str = "stream"
    # A FieldDescriptor or the name of an item. ``Any``, because type checkers would apply the descriptor's ``__get__``.
    field: Any = None
    us: int = 0

    def __repr__(self) -> str:
        return self.to if self.field is None else f"field {_field_name(self.field)}"


class RangedTable:
    """A table by key and range of time: a :class:`WindowedTable` without access by key."""

    def __init__(
        self, table: PlainTable, window: WindowT, *, key_index_size: int | None = None, _key_index: bool = True
    ) -> None:
        if not isinstance(window, WindowT):
            raise InvalidArgumentError(
                f"window={window!r} ({type(window).__name__}) of the table {table.name!r} is not a window. Give, for "
                "instance, TumblingWindow(300)."
            )
        if table.window is not None and table.window != window:
            raise InvalidArgumentError(
                f"The table {table.name!r} has the window {table.window!r}, and cannot have {window!r} too. Make "
                "another table for it, under another name."
            )
        if table.changelog is not None:
            raise UnsupportedError(
                f"changelog_topic= of the windowed table {table.name!r} is not supported. Yield its changes to a sink: "
                " @app.agent(topic, sink=[changes])."
            )
        table.window = window
        table.key_index = table.key_index or _key_index
        self._table = table
        self._window = window
        self._relative = _Relative()

    @property
    def name(self) -> str:
        """The table's name, under which its records are stored."""
        return self._table.name

    @property
    def table(self) -> PlainTable:
        """The table without its window."""
        return self._table

    @property
    def window(self) -> WindowT:
        """The window."""
        return self._window

    # -- the time of reads

    def relative_to_stream(self) -> Self:
        """Returns the table, read at the event's time; without an event, at the largest time that it has applied."""
        return self._read_at(_Relative())

    def relative_to_now(self) -> Self:
        """Returns the table, read at the time of the clock. Events are still applied at their own time."""
        return self._read_at(_Relative("now"))

    def relative_to_field(self, field: FieldDescriptor | str) -> Self:
        """Returns the table, read and written at the time in a field of the event: a date, or seconds.

        ``field`` is a record's field, such as ``Account.date_created``, or the name of an item of a dict.
        """
        if not isinstance(field, (FieldDescriptor, str)):
            raise InvalidArgumentError(
                f"relative_to_field({field!r}) is not a field. Give one of a record, as Account.date_created, or a "
                "name."
            )
        return self._read_at(_Relative("field", field))

    def relative_to_timestamp(self, timestamp: float) -> Self:
        """Returns the table, read at a time, in seconds since the epoch."""
        return self._read_at(_Relative("timestamp", us=time_us(timestamp)))

    def relative_to(self, timestamp: float | FieldDescriptor) -> Self:
        """Returns the table, relative to a field or read at a time."""
        if isinstance(timestamp, FieldDescriptor):
            return self.relative_to_field(timestamp)
        return self.relative_to_timestamp(timestamp)

    def on_recover(self, function: Callable[[], Any]) -> Callable[[], Any]:
        """Adds a function that is called when the program starts. See :meth:`Table.on_recover`."""
        return self._table.on_recover(function)

    # -- ranges

    def __delitem__(self, key: Any) -> None:
        at = self._at(key)
        data = self._writes(key, at)
        k, us = at if at is not None else (key, self._event_us())
        if isinstance(self._window, SlidingWindow):
            there = [data.forget(k, us)]
        else:
            there = [data.delete_range(k, one) for one in self._window.ranges(seconds(us))]
        if not any(there):
            raise KeyError(key)

    def get_window(self, key: Any, window_range: tuple[float, float]) -> Any:
        """Returns the value of one range, or the table's default."""
        data = self._reads(key)
        if isinstance(self._window, SlidingWindow):
            value = data.fold(key, time_us(window_range[0]), time_us(window_range[1]))
        else:
            value = data.get_range(key, window_range)
        return data.default_of_range(key, window_range) if value is MISSING else value

    def set_window(self, key: Any, window_range: tuple[float, float], value: Any) -> None:
        """Sets the value of one range. A sliding window stores it at the range's reference time."""
        data = self._writes(key)
        if isinstance(self._window, SlidingWindow):
            data.contribute(key, time_us(window_range[0]) + self._window._before_us, "=", value)
        else:
            data.put_range(key, window_range, value)

    def windows_for_key(self, key: Any) -> list[tuple[WindowRange, Any]]:
        """Returns the existing ranges of a key that are not stale, in order, each with its value."""
        return self._reads(key).ranges_of(key)

    def expire_windows(self, latest_timestamp: float) -> int:
        """Removes ranges that are stale at a time, in seconds since the epoch, and returns their number."""
        current = context(f"The windows of {self.name!r} were expired")
        data: TableData = current.shard.data(self._table)
        before = data.closed
        data.advance(time_us(latest_timestamp, "latest_timestamp"))
        current.shard.expire()
        return data.closed - before

    def __repr__(self) -> str:
        return f"<WindowedTable: {self.name}, {self._window!r}, relative to {self._relative!r}>"

    # -- internal

    def _read_at(self, relative: _Relative) -> Self:
        view = copy.copy(self)
        view._relative = relative
        return view

    def _at(self, key: Any) -> tuple[Any, int] | None:
        """The key and time of ``table[key, timestamp]``; ``None`` for a plain key."""
        if type(key) is tuple and len(key) == 2 and self._table.key_type is not tuple and type(key[1]) in (int, float):
            return key[0], time_us(key[1])
        return None

    def _context(self, doing: str) -> Context:
        return context(f"{self.name}{doing}")

    def _reads(self, key: Any, at: tuple[Any, int] | None = None) -> TableData:
        current = self._context(f"[{key!r}] was read")
        current.shard.require_own(self.name, key if at is None else at[0], current.event)
        data: TableData = current.shard.data(self._table)
        return data

    def _writes(self, key: Any, at: tuple[Any, int] | None = None) -> TableData:
        event = event_for(f"{self.name}[{key!r}] was changed")
        shard = self._context("").shard
        shard.require_own(self.name, key if at is None else at[0], event)
        data: TableData = shard.data(self._table)
        return data

    def _event_us(self, event: Event | None = None) -> int:
        """The time at which an event is applied."""
        event = event or event_for(f"{self.name} was changed")
        if self._relative.field is None:
            return time_us(event.timestamp)
        return _field_us(self._relative.field, event, self.name)

    def _read_us(self, data: TableData, event: Event | None = None) -> int | None:
        """The time of a read; ``None`` without an event, before the first one."""
        if self._relative.to == "now":
            return context("").shard.clock.time_us()
        if self._relative.to == "timestamp":
            return self._relative.us
        return self._applied_us(data, event)

    def _applied_us(self, data: TableData, event: Event | None = None) -> int | None:
        """The time at which an event is applied; without an event, the largest applied time."""
        event = event or current_event()
        return data.applied_us if event is None else self._event_us(event)

    def _stream_us(self, data: TableData, event: Event | None = None) -> int | None:
        """The time of an event, regardless of the table's relation; without an event, the largest applied time."""
        event = event or current_event()
        return data.applied_us if event is None else time_us(event.timestamp)

    def _stored(self, data: TableData, key: Any, us: int) -> Any:
        """The value at a time, or ``MISSING``."""
        one = self._touch(us)
        if one is None:
            return MISSING
        if isinstance(self._window, SlidingWindow):
            return data.fold(key, us - self._window._before_us, us + self._window._after_us)
        return data.get_range(key, one)

    def _value(self, data: TableData, key: Any, us: int | None) -> Any:
        """The value at a time, or the table's default, or ``MISSING``."""
        value = MISSING if us is None else self._stored(data, key, us)
        if value is not MISSING:
            return value
        one = None if us is None else self._window.current(seconds(us))
        return data.default_of_range(key, (0.0, 0.0) if one is None else one)

    def _touch(self, us: int) -> WindowRange | None:
        one = self._window.current(seconds(us))
        current = context("")
        current.range = None if one is None else WindowRange(*one)
        return current.range

    def _assign(self, data: TableData, key: Any, us: int, value: Any) -> None:
        self._apply(data, key, us, "=", value)

    def _apply(self, data: TableData, key: Any, us: int, operation: str, value: Any) -> None:
        """Applies an operation to every range of a time that is not stale."""
        data.applies(us)
        self._touch(us)
        ranges = data.ranges_at(us)
        if not ranges:
            if not isinstance(self._window, SlidingWindow):
                data.take_back(key, us)
            # An event outside of all ranges is not late.
            if self._window.ranges(seconds(us)):
                context("").shard.count_dropped(self._table)
            return
        if isinstance(self._window, SlidingWindow):
            data.contribute(key, us, operation, value)
            return
        for one in ranges:
            if operation == "=":
                data.put_range(key, one, value)
                continue
            before = data.get_range(key, one)
            if before is MISSING:
                before = data.default_of_range(key, one)
            if before is MISSING:
                raise KeyError(key)
            data.put_range(key, one, NAMED[operation](before, value))


def _field_name(field: FieldDescriptor | str) -> str:
    return field.ident if isinstance(field, FieldDescriptor) else repr(field)


def _field_us(field: FieldDescriptor | str, event: Event, table: str) -> int:
    value = event.value
    for name in field.path if isinstance(field, FieldDescriptor) else (field,):
        value = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
    if value is None:
        raise InvalidArgumentError(
            f"The table {table!r} is relative to the field {_field_name(field)}, which the event {event.value!r} does "
            "not have. Give every event a time there, or make the table relative_to_stream()."
        )
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError as error:
            raise InvalidArgumentError(
                f"{_field_name(field)}={value!r}, which the table {table!r} is relative to, is not a time: {error}."
            ) from error
    return time_us(value, _field_name(field))
