"""What a clock, a windower and the contents of a window are, for those who write their own.

Each has two parts: the public object, which a program makes and which holds settings, and a logic, which is made for
each key (of contents: for each window) and holds state. ``snapshot()`` gives that state, and ``build`` takes it again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeVar

V = TypeVar("V")
W = TypeVar("W")
S = TypeVar("S")


class ClockLogic(ABC, Generic[V, S]):
    """The clock of one key."""

    @abstractmethod
    def before_batch(self) -> None:
        """Called once before the values that came together: the time to read the system's clock."""

    @abstractmethod
    def on_item(self, value: V) -> tuple[datetime, datetime]:
        """The time of a value, and the watermark after it."""

    @abstractmethod
    def on_notify(self) -> datetime:
        """The watermark when no value came."""

    @abstractmethod
    def on_eof(self) -> datetime:
        """The watermark when no more values will come; :data:`UTC_MAX` closes all windows."""

    @abstractmethod
    def to_system_utc(self, timestamp: datetime) -> datetime | None:
        """The system time at which the watermark may have come to ``timestamp``; ``None`` if that is not known."""

    @abstractmethod
    def snapshot(self) -> S:
        """The state, to be kept."""


class Clock(ABC, Generic[V, S]):
    """What time it is for a key, by the values that came."""

    @abstractmethod
    def build(self, resume_state: S | None) -> ClockLogic[V, S]:
        """The clock of a key that is new, or whose state was kept."""

    def extract_ts(self, value: V) -> datetime:
        """The time of a value, in UTC."""
        logic = self.build(None)
        logic.before_batch()
        return logic.on_item(value)[0]


@dataclass
class WindowMetadata:
    """What is known of a window when it closes.

    - ``open_time``, ``close_time``: of a session the times of its first and last value, that one included; of others
      where it starts, and where it ends, that time left out.
    - ``merged_ids``: of the windows that were merged into it.
    """

    open_time: datetime
    close_time: datetime
    merged_ids: set[int] = field(default_factory=set)


class WindowerLogic(ABC, Generic[S]):
    """The windows of one key."""

    @abstractmethod
    def open_for(self, timestamp: datetime) -> Iterable[int]:
        """The ids of the windows that a value which is not late is in; they are open from now on."""

    @abstractmethod
    def late_for(self, timestamp: datetime) -> Iterable[int]:
        """The ids of the windows that a late value would have been in. Nothing is kept."""

    @abstractmethod
    def merged(self) -> Iterable[tuple[int, int]]:
        """The windows that were merged since the last call, as pairs of ``(original, target)``."""

    @abstractmethod
    def close_for(self, watermark: datetime) -> Iterable[tuple[int, WindowMetadata]]:
        """The windows that are closed at ``watermark``; they are forgotten."""

    @abstractmethod
    def notify_at(self) -> datetime | None:
        """When the next window closes, by the clock's time."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Whether nothing need be kept of the key."""

    @abstractmethod
    def snapshot(self) -> S:
        """The state, to be kept."""


class Windower(ABC, Generic[S]):
    """Which windows a time is in."""

    @abstractmethod
    def build(self, resume_state: S | None) -> WindowerLogic[S]:
        """The windows of a key that is new, or whose state was kept."""

    def windows_for_time(self, timestamp: datetime) -> list[tuple[str, datetime, datetime]]:
        """The windows that a time is in: id, start, and end, which is left out."""
        logic = self.build(None)
        ids = list(logic.open_for(timestamp))
        closed = dict(logic.close_for(datetime.max.replace(tzinfo=timestamp.tzinfo)))
        return [(str(one), closed[one].open_time, closed[one].close_time) for one in ids if one in closed]


class WindowLogic(ABC, Generic[V, W, S]):
    """What one window holds."""

    @abstractmethod
    def on_value(self, value: V) -> Iterable[W]:
        """Takes a value of the window; what it returns is emitted."""

    @abstractmethod
    def on_merge(self, original: Any) -> Iterable[W]:
        """Takes the contents of a window that is merged into this one."""

    @abstractmethod
    def on_close(self) -> Iterable[W]:
        """What is emitted as the window closes."""

    @abstractmethod
    def snapshot(self) -> S:
        """The state, to be kept."""
