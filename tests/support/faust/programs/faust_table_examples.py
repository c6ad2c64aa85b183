"""A record and a window that tests of Faust's tables share."""

from __future__ import annotations

import zoneinfo
from collections.abc import Sequence
from datetime import UTC, datetime

import mullion.faust as faust
from mullion.faust import (
    Record,
)


class Account(Record):
    name: str
    created: datetime | None = None
    tags: list[str] = []  # noqa: RUF012


class BusinessHoursWindow(faust.Window):
    def __init__(self, *, start_hour: int = 9, end_hour: int = 17, expires: float | None = None) -> None:
        super().__init__(expires=expires)
        self.start_hour = start_hour
        self.end_hour = end_hour

    def ranges(self, timestamp: float) -> Sequence[tuple[float, float]]:
        at = datetime.fromtimestamp(timestamp, zoneinfo.ZoneInfo("US/Eastern"))
        if self.start_hour <= at.hour < self.end_hour:
            opens = at.replace(hour=self.start_hour, minute=0, second=0, microsecond=0)
            return [(opens.timestamp(), at.replace(hour=self.end_hour, minute=0, second=0, microsecond=0).timestamp())]
        return []


NOON = datetime(2024, 1, 10, 17, tzinfo=UTC).timestamp()
