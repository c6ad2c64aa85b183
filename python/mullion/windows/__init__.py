"""The windows of a row, and the early firings of a pane.

Specs are values: frozen, comparable and validated.

Lengths are whole microseconds. A window is half-open, ``[start, end)``. It is aligned to the epoch in UTC, or to the
calendar of a time zone.

::

    _time    Tumbling, Sliding, Session, Around         _rows    Count, Global
    _custom  Custom                                     _early   Early
    _spec    helpers of all specs
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
    "Tumbling",
    "Watermark",
    "Window",
]

Late: TypeAlias = Literal["drop", "emit", "reopen", "reopen each"]
"""The treatment of a row whose pane has closed."""

LateBy: TypeAlias = Literal["panes", "watermark"]
"""The clock by which a row is late."""

NewAggregates: TypeAlias = Literal["refuse", "from now"]
"""The treatment of aggregates that open panes of a checkpoint do not have."""

OnChange: TypeAlias = Literal["refuse", "drain", "drop"]
"""The treatment of open panes whose window the query no longer has."""

Empty: TypeAlias = Literal["skip", "emit"]
"""The treatment of windows without rows."""

AtEnd: TypeAlias = Literal["keep", "close"]
"""The treatment of panes that are open at the end of the input."""

Watermark: TypeAlias = Literal["stream", "per key", "per key with wall time"]
"""The event clock that closes panes: of the stream or of each key."""

Order: TypeAlias = Literal["arrival", "time"]
"""The order of the rows of a pane."""

Window: TypeAlias = Tumbling | Sliding | Session | Around | Custom | Count | Global
