"""Interfaces of custom clocks, windowers and contents of windows.

Each has two parts: an object with settings, which the program creates, and a logic with state for each key (contents:
for each window). ``snapshot()`` returns the state, and ``build`` restores it.
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
        """Called once before each batch of values, to read the system clock."""

    @abstractmethod
    def on_item(self, value: V) -> tuple[datetime, datetime]:
        """Returns the time of a value and the watermark after it."""

    @abstractmethod
    def on_notify(self) -> datetime:
        """The current watermark, without a new value."""

    @abstractmethod
    def on_eof(self) -> datetime:
        """The watermark at the end of the input; :data:`UTC_MAX` closes all windows."""

    @abstractmethod
    def to_system_utc(self, timestamp: datetime) -> datetime | None:
        """The system time at which the watermark may have reached ``timestamp``; ``None`` if unknown."""

    @abstractmethod
    def snapshot(self) -> S:
        """The state to store."""


class Clock(ABC, Generic[V, S]):
    """The settings of a clock, which determines the watermark of each key."""

    @abstractmethod
    def build(self, resume_state: S | None) -> ClockLogic[V, S]:
        """Builds the clock of a new key (``None``) or from a stored snapshot."""

    def extract_ts(self, value: V) -> datetime:
        """The time of a value, in UTC."""
        logic = self.build(None)
        logic.before_batch()
        return logic.on_item(value)[0]


@dataclass
class WindowMetadata:
    """The metadata of a closed window.

    - ``open_time``, ``close_time``: the times of the first and last value of a session, both inclusive. For other
      windows the inclusive start and the exclusive end.
    - ``merged_ids``: the ids of the windows that were merged into it.
    """

    open_time: datetime
    close_time: datetime
    merged_ids: set[int] = field(default_factory=set)


class WindowerLogic(ABC, Generic[S]):
    """The windows of one key."""

    @abstractmethod
    def open_for(self, timestamp: datetime) -> Iterable[int]:
        """Opens the windows of a value that is not late. Returns their ids."""

    @abstractmethod
    def late_for(self, timestamp: datetime) -> Iterable[int]:
        """The ids of the windows that a late value would belong to. Does not change the state."""

    @abstractmethod
    def merged(self) -> Iterable[tuple[int, int]]:
        """The windows merged since the last call, as pairs of ``(original, target)``."""

    @abstractmethod
    def close_for(self, watermark: datetime) -> Iterable[tuple[int, WindowMetadata]]:
        """Removes and returns the windows that close at ``watermark``."""

    @abstractmethod
    def notify_at(self) -> datetime | None:
        """The watermark at which the next window closes."""

    @abstractmethod
    def is_empty(self) -> bool:
        """True if the state of the key can be deleted."""

    @abstractmethod
    def snapshot(self) -> S:
        """The state to store."""


class Windower(ABC, Generic[S]):
    """The settings of a windower, which assigns times to windows."""

    @abstractmethod
    def build(self, resume_state: S | None) -> WindowerLogic[S]:
        """Builds the windows of a new key (``None``) or from a stored snapshot."""

    def windows_for_time(self, timestamp: datetime) -> list[tuple[str, datetime, datetime]]:
        """The windows that contain a time, as (id, start, exclusive end)."""
        logic = self.build(None)
        ids = list(logic.open_for(timestamp))
        closed = dict(logic.close_for(datetime.max.replace(tzinfo=timestamp.tzinfo)))
        return [(str(one), closed[one].open_time, closed[one].close_time) for one in ids if one in closed]


class WindowLogic(ABC, Generic[V, W, S]):
    """The contents of one window."""

    @abstractmethod
    def on_value(self, value: V) -> Iterable[W]:
        """Adds a value. Returns the results to emit."""

    @abstractmethod
    def on_merge(self, original: Any) -> Iterable[W]:
        """Adds the contents of a window that is merged into this one. Returns the results to emit."""

    @abstractmethod
    def on_close(self) -> Iterable[W]:
        """Returns the results to emit when the window closes."""

    @abstractmethod
    def snapshot(self) -> S:
        """The state to store."""
