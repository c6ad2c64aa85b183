"""The facts about a firing that functions get."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

import pyarrow as pa

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Pane(NamedTuple):
    """One firing of a pane, as a function of ``.apply`` or a :class:`mullion.PaneProcessor` gets it.

    - ``start``, ``end``: the window. Datetimes in UTC; for windows of row numbers, ints. A time outside of Python's
      range of datetimes is the first or the last of that range.
    - ``firing``: ``"early"``, ``"on_time"``, ``"update"`` or ``"close"``.
    - ``seq``: the number of the firing, from 0.
    - ``id``, ``merged``: with ``ids=True`` the pane's id, and the ids of the panes that became part of it since it
      opened or last fired; otherwise ``None`` and ``()``.
    """

    start: datetime | int
    end: datetime | int
    firing: str
    seq: int
    id: str | None = None
    merged: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"[{_written(self.start)}, {_written(self.end)})"


def panes_in(window: pa.StructArray, pane: pa.StructArray) -> list[Pane]:
    """The firings in the columns ``window`` and ``pane``."""
    starts, ends = (_times(window.field(name)) for name in ("start", "end"))
    firings, numbers = pane.field("firing").to_pylist(), pane.field("seq").to_pylist()
    if pane.type.get_field_index("id") < 0:
        return list(map(Pane, starts, ends, firings, numbers))
    merged = map(tuple, (each or () for each in pane.field("merged").to_pylist()))
    return list(map(Pane, starts, ends, firings, numbers, pane.field("id").to_pylist(), merged))


def key_text(names: Sequence[str], key: Sequence[Any]) -> str:
    """A key in words for errors, such as `` of host='a'``."""
    return f" of {', '.join(f'{name}={value!r}' for name, value in zip(names, key, strict=True))}" if names else ""


def _times(times: pa.Array) -> list[Any]:
    if not pa.types.is_timestamp(times.type):
        return list(times.to_pylist())
    return [None if us is None else _time(us) for us in times.cast(pa.int64()).to_pylist()]


def _time(us: int) -> datetime:
    try:
        return _EPOCH + timedelta(microseconds=us)
    except OverflowError:
        return (datetime.max if us > 0 else datetime.min).replace(tzinfo=UTC)


def _written(bound: datetime | int) -> str:
    return bound.isoformat().replace("+00:00", "Z") if isinstance(bound, datetime) else str(bound)
