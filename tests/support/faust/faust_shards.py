"""A shard of Faust tables in memory, on a clock that tests advance."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mullion._keyed.memory import MemoryStore
from mullion.faust._agent_run.shard import Shard
from mullion.faust._context import Event
from mullion.faust.tables.table import Table


class Clock:
    """A clock that only tests advance."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.us = round(seconds * 1_000_000)

    def time_us(self) -> int:
        return self.us


class Shards:
    """One shard. ``at`` begins an event at a time, ``timer`` a call without an event."""

    def __init__(self, *tables: Table, now: float = 0.0) -> None:
        self.store = MemoryStore()
        self.clock = Clock(now)
        self.tables = tables
        self.shard = Shard(self.store, self.clock, tables)

    @contextmanager
    def at(self, timestamp: float, value: Any = None, key: Any = None) -> Iterator[Event]:
        event = Event.of(value, timestamp, key)
        with self.shard.event(event):
            yield event

    @contextmanager
    def timer(self) -> Iterator[None]:
        with self.shard.outside():
            yield

    def restarted(self) -> None:
        """Restarts the shard with the state of its store."""
        self.shard = Shard(self.store, self.clock, self.tables)
