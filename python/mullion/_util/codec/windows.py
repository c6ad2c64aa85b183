"""The windows in Arrow columns as Python objects, and in words for errors."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def bounds_of(times: pa.Array) -> list[Any]:
    """The starts or ends of windows: datetimes in UTC, or numbers of rows."""
    if not pa.types.is_timestamp(times.type):
        return list(times.to_pylist())
    return [None if us is None else time_of(us) for us in times.cast(pa.int64()).to_pylist()]


def interval_text(start: datetime | int, end: datetime | int) -> str:
    """The bounds of a window, as in ``[2013-01-01T10:00:00Z, 2013-01-01T11:00:00Z)``."""
    return f"[{_written(start)}, {_written(end)})"


def window_text(windows: pa.StructArray, index: int) -> str:
    """The same for a window of the column ``window``."""
    start, end = (bounds_of(windows.field(name).slice(index, 1))[0] for name in ("start", "end"))
    return interval_text(start, end)


def time_of(us: int) -> datetime:
    """Microseconds since the epoch in UTC; outside of Python's range the first or the last time of that range."""
    try:
        return _EPOCH + timedelta(microseconds=us)
    except OverflowError:
        return (datetime.max if us > 0 else datetime.min).replace(tzinfo=UTC)


def _written(bound: datetime | int) -> str:
    return bound.isoformat().replace("+00:00", "Z") if isinstance(bound, datetime) else str(bound)
