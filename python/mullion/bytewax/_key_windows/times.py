"""Converts between datetimes and whole microseconds since the epoch."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Final

from mullion.errors import InvalidArgumentError

ZERO_TD: Final = timedelta(0)
"""The zero duration."""

UTC_MIN: Final = datetime.min.replace(tzinfo=UTC)
"""The earliest ``datetime``."""

UTC_MAX: Final = datetime.max.replace(tzinfo=UTC)
"""The latest ``datetime``, which is the watermark at the end of the input."""

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_WITHOUT_ZONE: Final = datetime(1970, 1, 1)
MICROSECOND: Final = timedelta(microseconds=1)

MIN_US: Final = (UTC_MIN - EPOCH) // MICROSECOND
MAX_US: Final = (UTC_MAX - EPOCH) // MICROSECOND

LONGEST_US: Final = 2**60
"""The longest duration in use. It exceeds the span of all datetimes, and any sum of a few times fits 64 bits."""


def micros(time: datetime) -> int:
    """A time in microseconds since the epoch. A time without a zone is UTC.

    Raises :class:`InvalidArgumentError` for a value of another type.
    """
    try:
        return (time - EPOCH) // MICROSECOND
    except TypeError:
        if isinstance(time, datetime):
            return (time - _EPOCH_WITHOUT_ZONE) // MICROSECOND
        raise InvalidArgumentError(
            f"{time!r} ({type(time).__name__}) is not a datetime, which ts_getter must return. Make one with "
            "datetime.fromisoformat(...) or datetime.fromtimestamp(seconds, timezone.utc)."
        ) from None


def moment(us: int, zone: tzinfo = UTC) -> datetime:
    """The time at ``us`` microseconds since the epoch, limited to :data:`UTC_MIN` and :data:`UTC_MAX`."""
    if us <= MIN_US:
        return UTC_MIN
    if us >= MAX_US:
        return UTC_MAX
    time = EPOCH + timedelta(microseconds=us)
    return time if zone is UTC else time.astimezone(zone)


def duration(name: str, length: Any) -> int:
    """A ``timedelta`` in microseconds, at most :data:`LONGEST_US`.

    Raises :class:`InvalidArgumentError` for a value of another type.
    """
    if not isinstance(length, timedelta):
        raise InvalidArgumentError(
            f"{name}={length!r} ({type(length).__name__}) is not a timedelta. Write {name}=timedelta(minutes=5)."
        )
    return max(-LONGEST_US, min(length // MICROSECOND, LONGEST_US))
