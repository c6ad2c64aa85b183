"""What the tests of bytewax share."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

START = datetime(2024, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)
