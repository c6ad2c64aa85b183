"""A table's records in one shard: their layout in a store, and their expiry.

::

    value of a key            h(table, "v") key                     value
    value of a range          h(table, "r", key) key start end      value
    changes of a sliding one  h(table, "r", key) key time time      [(operation, value), ...]
    keys of a windowed table  h(table, "k") key                     number of ranges
    clocks                    h(table, "m")                         expiry, largest applied time, completed expiry

``h`` is 8 bytes, the prefix of a store's scans. Each range that can expire has a timer at the first time at which it is
stale, so ranges that are not due cost nothing. The timers of a table have their own order: see ``timer_order``.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol

from mullion._util.codec import values as codec
from mullion.faust._context import Context, Shard, enter, line_of_user
from mullion.faust._values.times import seconds, time_us
from mullion.faust.tables import timer_order
from mullion.faust.tables.keys import encode_key
from mullion.faust.tables.operations import NAMED
from mullion.faust.windows import SlidingWindow, WindowRange, WindowT, _Grid

MISSING: Final = object()
_TIMES = struct.Struct(">qq")
_TIME = struct.Struct(">q")
_LENGTH = struct.Struct(">I")
_CLOSE, _FORGET = b"c", b"f"
_NEVER: Final = -(2**63)


class Kept(Protocol):
    """The properties of a table that its records depend on."""

    name: str
    default: Callable[[], Any] | None
    window: WindowT | None
    key_index: bool
    on_window_close: Callable[[Any, Any], Any] | None


def table_id(name: str) -> bytes:
    """The prefix of a table's timers."""
    return _hash(name, b"t")


class _Handed:
    """A mutable value passed to user code, with its saved bytes and the place of the access."""

    def __init__(self, value: Any, saved: bytes, where: str, key: Any) -> None:
        self.value = value
        self.saved = saved
        self.where = where
        self.key = key


class TableData:
    """A table's records in one shard."""

    def __init__(self, shard: Shard, table: Kept) -> None:
        self.table = table
        self.closed = 0
        self._shard = shard
        self._store = shard.store
        self._values = _hash(table.name, b"v")
        self._keys = _hash(table.name, b"k")
        self._clocks = _hash(table.name, b"m")
        self._timers = table_id(table.name)
        self._order = timer_order.order_of(self._timers)
        stored = self._store.get(self._clocks)
        self._clock_us = self._applied_us = self._expired_us = _NEVER
        if stored is not None:
            self._clock_us, self._applied_us = _TIMES.unpack_from(stored)
            if len(stored) > _TIMES.size:
                (self._expired_us,) = _TIME.unpack_from(stored, _TIMES.size)
        self._handed: dict[Any, _Handed] = {}
        self._written: dict[Any, _Handed] = {}

    # -- a value by key

    def get(self, key: Any) -> Any:
        """Returns the value of a key, or ``MISSING``."""
        return self._get(self._of_key(key), key)

    def put(self, key: Any, value: Any) -> None:
        """Sets the value of a key."""
        self._put(self._of_key(key), value, key)

    def delete(self, key: Any) -> bool:
        """Removes a key. Returns True if it existed."""
        record = self._of_key(key)
        there = self._store.get(record) is not None
        self._store.delete(record)
        self._handed.pop(record, None)
        self._written.pop(record, None)
        return there

    def items(self) -> list[tuple[Any, Any]]:
        """Returns all keys and values, in order of the keys' bytes."""
        records = sorted(self._store.scan(self._values))
        return [(codec.decode(record[8:]), codec.decode(value)) for record, value in records]

    def default(self, key: Any) -> Any:
        """Returns the default of a missing key, without storing it; ``MISSING`` if there is none."""
        return self._default(self._of_key(key), key)

    # -- a value by key and range

    @property
    def window(self) -> WindowT:
        """The table's window."""
        window = self.table.window
        assert window is not None
        return window

    @property
    def applied_us(self) -> int | None:
        """The largest time that the table has applied; ``None`` before the first one."""
        return None if self._applied_us == _NEVER else self._applied_us

    def applies(self, us: int) -> None:
        """Records the time of an event that changes the table."""
        if us > self._applied_us:
            self._applied_us = us
            self._clock_us = max(self._clock_us, us)
            self._save_clocks()

    def advance(self, us: int) -> None:
        """Advances the clock of expiry to a time."""
        if us > self._clock_us:
            self._clock_us = us
            self._save_clocks()

    def ranges_at(self, us: int) -> list[WindowRange]:
        """Returns the ranges of a time that are not stale, the earliest first."""
        ranges = [WindowRange(start, end) for start, end in self.window.ranges(seconds(us))]
        return sorted(one for one in ranges if not self.stale(one))

    def stale(self, one: tuple[float, float]) -> bool:
        """True if a range is stale."""
        return self._clock_us != _NEVER and self.window.stale(one[1], seconds(self._clock_us))

    def get_range(self, key: Any, one: tuple[float, float]) -> Any:
        """Returns the value of a range, or ``MISSING``."""
        return self._get(self._of_range(key, one), key)

    def default_of_range(self, key: Any, one: tuple[float, float]) -> Any:
        """Returns the default of a missing range, without storing it."""
        return self._default(self._of_range(key, one), key)

    def put_range(self, key: Any, one: tuple[float, float], value: Any) -> None:
        """Sets the value of a range."""
        record = self._of_range(key, one)
        if self._store.get(record) is None:
            self._open_range(key, record, self._due_us(one))
        self._put(record, value, key)

    def delete_range(self, key: Any, one: tuple[float, float]) -> bool:
        """Removes a range. Returns True if it existed."""
        record = self._of_range(key, one)
        if self._store.get(record) is None:
            return False
        self._remove(key, record)
        due_us = self._due_us(one)
        if due_us is not None:
            self._store.delete_timer(self._later(due_us), self._timers + _CLOSE + record)
        return True

    def ranges_of(self, key: Any) -> list[tuple[WindowRange, Any]]:
        """Returns the existing ranges of a key that are not stale, in order, each with its value."""
        window = self.window
        if isinstance(window, SlidingWindow):
            windows = [window.current(seconds(us)) for us in self._times(key)]
            return [
                (one, self.fold(key, time_us(one.start), time_us(one.end))) for one in windows if not self.stale(one)
            ]
        ranges = []
        for record, value in self._store.scan(self._of_ranges(key)):
            start, end = _TIMES.unpack(record[-_TIMES.size :])
            ranges.append((WindowRange(seconds(start), seconds(end)), value))
        return [(one, codec.decode(value)) for one, value in sorted(ranges) if not self.stale(one)]

    def all_keys(self) -> list[Any]:
        """Returns the keys that have ranges, in order of their bytes; requires a key index."""
        return [codec.decode(record[8:]) for record, _ in sorted(self._store.scan(self._keys))]

    # -- sliding windows: the changes at each time, combined by reads

    def contribute(self, key: Any, us: int, operation: str, value: Any) -> None:
        """Records a change at a time: ``=`` or an operator, and its operand."""
        record = self._of_times(key, us, us)
        stored = self._store.get(record)
        before = [] if stored is None else codec.decode(stored)
        if stored is None:
            window = self.window
            assert isinstance(window, SlidingWindow)
            self._open_range(key, record, self._due_us(window.current(seconds(us))))
        if operation == "=":
            before = []
        written = codec.encode([*before, (operation, value)], self._of_what(key))
        self._store.put(record, written)

    def fold(self, key: Any, start_us: int, end_us: int) -> Any:
        """Combines the changes from a time to another, both inclusive; ``MISSING`` if there are none."""
        folded = MISSING
        for us in self._times(key):
            if start_us <= us <= end_us:
                stored = self._store.get(self._of_times(key, us, us))
                assert stored is not None
                for operation, value in codec.decode(stored):
                    if operation == "=":
                        folded = value
                    else:
                        before = self._create_default() if folded is MISSING else folded
                        folded = NAMED[operation](before, value)
        return folded

    def forget(self, key: Any, us: int) -> bool:
        """Removes the changes at a time."""
        record = self._of_times(key, us, us)
        there = self._store.get(record) is not None
        if there:
            self._remove(key, record)
        return there

    # -- values that are changed in place

    def hand(self, record: Any, value: Any, key: Any) -> Any:
        """Returns a value for user code, and watches a mutable one until the event is complete."""
        if codec.changeable(value):
            self._handed[record] = _Handed(value, codec.encode(value, self._of_what(key)), line_of_user(), key)
        return value

    def saved(self, record: Any, value: Any, key: Any) -> None:
        """Records that a value of user code has been written."""
        handed = self._handed.get(record)
        written = codec.encode(value, self._of_what(key))
        where = line_of_user() if handed is None else handed.where
        self._handed[record] = _Handed(value, written, where, key)

    def handed(self, record: Any) -> Any:
        """Returns the value that user code already received in this event, or ``MISSING``."""
        handed = self._handed.get(record)
        return MISSING if handed is None else handed.value

    def forgotten(self) -> list[tuple[str, Any]]:
        """Returns the places and keys of values that changed without being written, and stops watching all."""
        places = [
            (one.where, one.key)
            for one in (*self._handed.values(), *self._written.values())
            if codec.encode(one.value, self._of_what(one.key)) != one.saved
        ]
        self._handed.clear()
        self._written.clear()
        return places

    def take_back(self, key: Any, us: int) -> None:
        """Stops watching the values of a time's ranges, which dropped the event."""
        for one in self.window.ranges(seconds(us)):
            self._handed.pop(self._of_range(key, one), None)

    # -- expiry

    def due(self, due_us: int, timer: bytes) -> bool:
        """Runs a timer of this table. Returns True if it was due by the table's own clock."""
        if due_us > self._clock_us:
            return False
        what, record = timer[8:9], timer[9:]
        stored = self._store.get(record)
        if stored is None:
            return True
        (length,) = _LENGTH.unpack_from(record, 8)
        key = codec.decode(record[12 : 12 + length])
        start_us, end_us = _TIMES.unpack(record[-_TIMES.size :])
        window = self.window
        if what == _FORGET:
            self._remove(key, record)
            return True
        if isinstance(window, SlidingWindow):
            one = window.current(seconds(start_us))
            value = self.fold(key, time_us(one.start), time_us(one.end))
            # The windows of later events still contain these changes.
            self._store.put_timer(self._later(due_us + window._before_us), self._timers + _FORGET + record)
        else:
            one = WindowRange(seconds(start_us), seconds(end_us))
            if not self.stale(one):
                # A user's window: the timer is retried after the clock has advanced.
                self._store.put_timer(self._later(due_us), timer)
                return True
            value = codec.decode(stored)
            self._remove(key, record)
        self.closed += 1
        self._close(key, one, value)
        return True

    @property
    def clock_us(self) -> int:
        """The clock of expiry; far in the past before the first event."""
        return int(self._clock_us)

    def take_due(self) -> Iterator[tuple[int, bytes]]:
        """Removes and yields the timers due by the table's clock; they may include those of other tables."""
        if self._clock_us != _NEVER:
            until = timer_order.at(self._order, self._clock_us)
            yield from self._store.due(until, timer_order.at(self._order, self._expired_us))

    def expired(self) -> None:
        """Records that all timers due by the table's clock have run, so that the next scan starts there."""
        if self._expired_us != self._clock_us:
            self._expired_us = self._clock_us
            self._save_clocks()

    def put_back(self, due_us: int, timer: bytes) -> None:
        """Restores a timer of the table that is not due."""
        self._store.put_timer(timer_order.at(self._order, due_us), timer)

    def _save_clocks(self) -> None:
        times = _TIMES.pack(self._clock_us, self._applied_us)
        self._store.put(self._clocks, times + _TIME.pack(self._expired_us))

    def _later(self, due_us: int) -> int:
        """The store's time of a timer. An overdue timer that must be retried is due after the clock has advanced."""
        return timer_order.at(self._order, max(due_us, self._clock_us + 1))

    def _close(self, key: Any, one: WindowRange, value: Any) -> None:
        if self.table.on_window_close is not None:
            before = enter(Context(self._shard, None))
            try:
                self._shard.wait(self.table.on_window_close((key, one), value))
            finally:
                enter(before)

    def _due_us(self, one: tuple[float, float]) -> int | None:
        """The first time at which a range is stale; for a user's window, the first possible time."""
        window, end_us = self.window, time_us(one[1])
        if window.expires is None:
            return None
        expires_us = time_us(window.expires)
        if isinstance(window, _Grid) and type(window).stale is _Grid.stale:
            # The first range that starts at or after the end.
            return end_us + (-(end_us + window._size_us)) % window._step_us + expires_us
        return end_us + expires_us

    # -- records

    def _get(self, record: bytes, key: Any) -> Any:
        stored = self._store.get(record)
        if stored is None:
            return MISSING
        handed = self._handed.get(record)
        if handed is not None:
            return handed.value
        value = codec.decode(stored)
        if codec.changeable(value):
            self._handed[record] = _Handed(value, stored, line_of_user(), key)
        return value

    def _put(self, record: bytes, value: Any, key: Any) -> None:
        written = codec.encode(value, self._of_what(key))
        self._store.put(record, written)
        # A read after a write returns the written value, even if user code changes its own object afterwards.
        self._handed.pop(record, None)
        self._written.pop(record, None)
        if codec.changeable(value):
            self._written[record] = _Handed(value, written, line_of_user(), key)

    def _default(self, record: bytes, key: Any) -> Any:
        handed = self._handed.get(record)
        if handed is not None:
            return handed.value
        default = self._create_default()
        return default if default is MISSING else self.hand(record, default, key)

    def _create_default(self) -> Any:
        return MISSING if self.table.default is None else self.table.default()

    def _open_range(self, key: Any, record: bytes, due_us: int | None) -> None:
        if due_us is not None:
            self._store.put_timer(self._later(due_us), self._timers + _CLOSE + record)
        if self.table.key_index:
            index = self._keys + encode_key(key, self.table.name)
            stored = self._store.get(index)
            self._store.put(index, _LENGTH.pack(1 + (_LENGTH.unpack(stored)[0] if stored else 0)))

    def _remove(self, key: Any, record: bytes) -> None:
        self._store.delete(record)
        self._handed.pop(record, None)
        self._written.pop(record, None)
        if self.table.key_index:
            index = self._keys + encode_key(key, self.table.name)
            stored = self._store.get(index)
            remaining = (_LENGTH.unpack(stored)[0] if stored else 1) - 1
            if remaining:
                self._store.put(index, _LENGTH.pack(remaining))
            else:
                self._store.delete(index)

    def _times(self, key: Any) -> list[int]:
        records = self._store.scan(self._of_ranges(key))
        return sorted(_TIMES.unpack(record[-_TIMES.size :])[0] for record, _ in records)

    def _of_key(self, key: Any) -> bytes:
        return self._values + encode_key(key, self.table.name)

    def _of_ranges(self, key: Any) -> bytes:
        written = encode_key(key, self.table.name)
        return _hash(self.table.name, b"r", written) + _LENGTH.pack(len(written)) + written

    def _of_range(self, key: Any, one: tuple[float, float]) -> bytes:
        return self._of_times(key, time_us(one[0], "start"), time_us(one[1], "end"))

    def _of_times(self, key: Any, start_us: int, end_us: int) -> bytes:
        return self._of_ranges(key) + _TIMES.pack(start_us, end_us)

    def _of_what(self, key: Any) -> str:
        return f"{self.table.name}[{key!r}]"


def _hash(table: str, *parts: bytes) -> bytes:
    # The JVM computes the same hash.
    return hashlib.sha256(b"\0".join([table.encode(), *parts])).digest()[:8]


def take_due(shard: Shard, tables: dict[bytes, TableData]) -> None:
    """Runs the timers that are due in a shard, in order of time."""
    latest = max((data.clock_us for data in tables.values()), default=_NEVER)
    if latest == _NEVER:
        return
    first, last = timer_order.BEFORE_ORDERS
    timers = list(shard.store.due(min(latest, last), first))
    for data in tables.values():
        timers += data.take_due()
    # At equal times, ranges close before the changes in them are removed.
    for place, timer in sorted(timers, key=lambda one: (timer_order.time_of(one[0]), one[1][8:9], one[1])):
        table = tables.get(timer[:8])
        if table is None:
            # A table that is no longer in the program.
            shard.store.put_timer(place, timer)
        elif not table.due(timer_order.time_of(place), timer):
            table.put_back(timer_order.time_of(place), timer)
    for data in tables.values():
        data.expired()
