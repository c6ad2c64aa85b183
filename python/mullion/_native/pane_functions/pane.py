"""The facts about a firing that functions get."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

import pyarrow as pa

from mullion._util.codec.windows import bounds_of, interval_text


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
        return interval_text(self.start, self.end)


def panes_in(window: pa.StructArray, pane: pa.StructArray) -> list[Pane]:
    """The firings in the columns ``window`` and ``pane``."""
    starts, ends = (bounds_of(window.field(name)) for name in ("start", "end"))
    firings, numbers = pane.field("firing").to_pylist(), pane.field("seq").to_pylist()
    if pane.type.get_field_index("id") < 0:
        return list(map(Pane, starts, ends, firings, numbers))
    merged = map(tuple, (each or () for each in pane.field("merged").to_pylist()))
    return list(map(Pane, starts, ends, firings, numbers, pane.field("id").to_pylist(), merged))


def key_text(names: Sequence[str], key: Sequence[Any]) -> str:
    """A key in words for errors, such as `` of host='a'``."""
    return f" of {', '.join(f'{name}={value!r}' for name, value in zip(names, key, strict=True))}" if names else ""
