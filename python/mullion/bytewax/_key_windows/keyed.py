"""The windows of one key and its clock: turns input values into output events.

::

    on_batch(values)    each value is late, or waits in the queue until the watermark reaches its time
                        then: due values enter their windows, windows merge, windows close
    on_notify(now)      the same for the elapsed time, without values
    on_eof()            the same for the watermark at the end of the input

All values of one source batch enter their windows before a window merges or closes.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any, Final

from mullion.bytewax._key_windows.clocks import KeyClock
from mullion.bytewax._key_windows.contents import Contents, MakeContents
from mullion.bytewax._key_windows.windowers import KeyWindower
from mullion.errors import InvalidArgumentError

DOWN: Final = 0
LATE: Final = 1
META: Final = 2

Group = tuple[int, int, list[Any]]
"""Values of one key from one source batch: ``(place, system time, values)``."""

Event = tuple[int, tuple[int, Any]]
"""An output event: the number of the stream, and ``(window id, value)``."""

_time = itemgetter(0)


class WindowsOfKey:
    """The windows of one key.

    - ``ordered``: values enter their windows in time order, each once the watermark reaches its time. Otherwise they
      enter at once, in order of arrival.
    """

    __slots__ = ("_clock", "_contents", "_make", "_ordered", "_queue", "_windower")

    def __init__(
        self,
        clock: KeyClock,
        windower: KeyWindower,
        make: MakeContents,
        ordered: bool,
        contents: Iterable[tuple[int, Any]] = (),
        queue: Iterable[tuple[int, Any]] = (),
    ) -> None:
        self._clock = clock
        self._windower = windower
        self._make = make
        self._ordered = ordered
        self._contents: dict[int, Contents] = {window: make.restore(state) for window, state in contents}
        self._queue: list[tuple[int, Any]] = [(time, value) for time, value in queue]

    def on_batch(self, values: Sequence[Any], now_us: int) -> list[Event]:
        """Processes the values of one source batch at a system time."""
        clock, queue = self._clock, self._queue
        clock.before_batch(now_us)
        events: list[Event] = []
        if len(values) == 1 and not queue:
            # Fast path for most batches: a single value and an empty queue.
            value = values[0]
            time, watermark = clock.on_item(value)
            if time == watermark or (watermark < time and not self._ordered):
                self._add(value, time, events)
            elif time < watermark:
                events += [(LATE, (window, value)) for window in self._windower.late_for(time)]
            else:
                queue.append((time, value))
            if watermark >= self._windower.quiet_until:
                self._settle(watermark, events)
            return events
        watermark = 0
        for value in values:
            time, watermark = clock.on_item(value)
            if time < watermark:
                events += [(LATE, (window, value)) for window in self._windower.late_for(time)]
            elif not self._ordered or not queue or queue[-1][0] <= time:
                queue.append((time, value))
            else:
                insort(queue, (time, value), key=_time)
        self._enter(self._due(watermark), watermark, events)
        return events

    def on_notify(self, now_us: int) -> list[Event]:
        """Closes the windows that are due at a system time."""
        events: list[Event] = []
        watermark = self._clock.on_notify(now_us)
        self._enter(self._due(watermark), watermark, events)
        return events

    def on_eof(self) -> list[Event]:
        """Closes the windows that are due at the end of the input."""
        events: list[Event] = []
        watermark = self._clock.on_eof()
        self._enter(self._due(watermark), watermark, events)
        return events

    def _enter(self, due: Iterable[tuple[int, Any]], watermark: int, events: list[Event]) -> None:
        for time, value in due:
            self._add(value, time, events)
        self._settle(watermark, events)

    def _add(self, value: Any, time: int, events: list[Event]) -> None:
        contents = self._contents
        for window in self._windower.open_for(time):
            window_contents = contents.get(window)
            if window_contents is None:
                window_contents = contents[window] = self._make.new()
            emitted = window_contents.add(value, time)
            if emitted != ():
                events += [(DOWN, (window, one)) for one in emitted]

    def _settle(self, watermark: int, events: list[Event]) -> None:
        contents, windower = self._contents, self._windower
        merged = windower.merged()
        if merged:
            for original, target in merged:
                if original != target:
                    emitted = contents[target].merge(contents.pop(original))
                    if emitted != ():
                        events += [(DOWN, (target, one)) for one in emitted]
        for window, metadata in windower.close_for(watermark):
            events += [(DOWN, (window, one)) for one in contents.pop(window).close()]
            events.append((META, (window, metadata)))

    def _due(self, watermark: int) -> list[tuple[int, Any]]:
        queue = self._queue
        if not queue:
            return queue
        if not self._ordered or queue[-1][0] <= watermark:
            self._queue = []
            return queue
        until = bisect_right(queue, watermark, key=_time)
        self._queue = queue[until:]
        return queue[:until]

    def is_empty(self) -> bool:
        """True if the state of the key, including its clock, can be deleted."""
        return not self._contents and not self._queue and self._windower.is_empty()

    def due(self, now_us: int) -> int | None:
        """The system time of the next call of :meth:`on_notify`; ``None`` for no call."""
        watermark = self._windower.next_close()
        if self._ordered and self._queue:
            first = self._queue[0][0]
            watermark = first if watermark is None else min(first, watermark)
        return None if watermark is None else self._clock.due(watermark, now_us)

    def snapshot(self) -> tuple[Any, Any, list[tuple[int, Any]], list[tuple[int, Any]]]:
        """The state to store: the clock, the windower, the contents of each window, and the queue."""
        return (
            self._clock.snapshot(),
            self._windower.snapshot(),
            [(window, contents.snapshot()) for window, contents in self._contents.items()],
            self._queue,
        )

    def snapshot_pickled(self, why: InvalidArgumentError) -> Any:
        """Raises ``why``: values in the queue are items, which have to be encodable."""
        raise why
