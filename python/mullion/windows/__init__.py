"""Which windows a row falls into, and when an open pane fires.

Specs are values: frozen, comparable, refused when wrong.

Lengths are whole microseconds. A window is half-open, ``[start, end)``. It is aligned to the epoch in UTC, or to the
calendar of a time zone.

::

    _time    Tumbling, Sliding, Session, Around         _rows    Count, Global
    _custom  Custom                                     _early   Early
    _spec    what specs have in common
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from mullion.windows._custom import Custom, RangesOf
from mullion.windows._early import Early
from mullion.windows._rows import Count, Global, SplitOf
from mullion.windows._time import Around, Session, Sliding, Tumbling

__all__ = [
    "Around",
    "AtEnd",
    "Count",
    "Custom",
    "Early",
    "Empty",
    "Global",
    "Late",
    "LateBy",
    "NewAggregates",
    "OnChange",
    "Order",
    "RangesOf",
    "Session",
    "Sliding",
    "SplitOf",
    "Store",
    "Tumbling",
    "Watermark",
    "Window",
]

Late: TypeAlias = Literal["drop", "emit", "reopen", "reopen each"]
"""What becomes of a row whose pane has closed."""

LateBy: TypeAlias = Literal["panes", "watermark"]
"""What makes a row late."""

NewAggregates: TypeAlias = Literal["refuse", "from now"]
"""What becomes of aggregates that open panes of a checkpoint do not know."""

OnChange: TypeAlias = Literal["refuse", "drain", "drop"]
"""What becomes of the open panes of a window that a checkpoint has, and the query has not."""

Empty: TypeAlias = Literal["skip", "emit"]
"""What becomes of windows without rows."""

AtEnd: TypeAlias = Literal["keep", "close"]
"""What becomes of panes that are open when the input ends."""

Store: TypeAlias = Literal["rocksdb", "hdfs", "memory"]
"""Where state is kept."""

Watermark: TypeAlias = Literal["stream", "per key", "per key with wall time"]
"""Whose event clock closes panes."""

Order: TypeAlias = Literal["arrival", "time"]
"""How the rows of a pane are ordered."""

Window: TypeAlias = Tumbling | Sliding | Session | Around | Custom | Count | Global
