"""The windows of a row, and the early firings of a pane.

Specs are values: frozen, comparable and validated.

Lengths are whole microseconds. A window is half-open, ``[start, end)``. It is aligned to the epoch in UTC, or to the
calendar of a time zone.

::

    _time    Tumbling, Sliding, Cumulate, Session, Around
    _rows    Count, Global
    _custom  Custom                                     _early    Early
    _clocks  Watermark, PerKey                          _upgrade  Upgrade
    _empty   EmitFor
    _spec    helpers of all specs
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from mullion.windows._clocks import LateBy, PerKey, Watermark
from mullion.windows._custom import Custom, RangesOf
from mullion.windows._early import Early
from mullion.windows._empty import EmitFor
from mullion.windows._rows import Count, Global, SplitOf
from mullion.windows._time import Around, Cumulate, Session, Sliding, Tumbling
from mullion.windows._upgrade import NewAggregates, OtherWindow, Upgrade

__all__ = [
    "Around",
    "AtEnd",
    "Count",
    "Cumulate",
    "Custom",
    "Early",
    "EmitFor",
    "Empty",
    "Global",
    "Late",
    "LateBy",
    "NewAggregates",
    "Order",
    "OtherWindow",
    "PerKey",
    "RangesOf",
    "Session",
    "Sliding",
    "SplitOf",
    "Tumbling",
    "Upgrade",
    "Watermark",
    "Window",
]

Late: TypeAlias = Literal["drop", "emit", "reopen", "reopen each"]
"""The treatment of a row whose pane has closed."""

Empty: TypeAlias = Literal["skip", "emit", "forward"]
"""The treatment of windows without rows; an :class:`EmitFor` is another one."""

AtEnd: TypeAlias = Literal["keep", "close"]
"""The treatment of panes that are open at the end of the input."""

Order: TypeAlias = Literal["arrival", "time"]
"""The order of the rows of a pane."""

Window: TypeAlias = Tumbling | Sliding | Cumulate | Session | Around | Custom | Count | Global
