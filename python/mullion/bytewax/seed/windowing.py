"""A variant of ``operators.windowing`` with two differences.

- :func:`count_window` counts the values of a keyed stream by ``key(value)``.
- :data:`WindowMetadata` is ``(window id, start, end)``. The stream ``meta`` contains such tuples.

The result of each operator is usable as a stream of ``(key, value)``, and has the streams ``late`` and ``meta``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeAlias, TypeVar

from mullion.bytewax import operators as op
from mullion.bytewax.dataflow import KeyedStream, operator
from mullion.bytewax.operators import windowing as _windowing
from mullion.bytewax.operators.windowing import (
    LATE_SESSION_ID,
    UTC_MAX,
    UTC_MIN,
    ZERO_TD,
    Clock,
    ClockLogic,
    EventClock,
    JoinEmitMode,
    JoinInsertMode,
    SessionWindower,
    SlidingWindower,
    SystemClock,
    TumblingWindower,
    WindowConfig,
    Windower,
    WindowerLogic,
    WindowLogic,
    WindowOut,
)

__all__ = [
    "LATE_SESSION_ID",
    "UTC_MAX",
    "UTC_MIN",
    "ZERO_TD",
    "Clock",
    "ClockLogic",
    "EventClock",
    "JoinEmitMode",
    "JoinInsertMode",
    "SessionWindower",
    "SlidingWindower",
    "SystemClock",
    "TumblingWindower",
    "WindowConfig",
    "WindowLogic",
    "WindowMetadata",
    "WindowOut",
    "Windower",
    "WindowerLogic",
    "collect_window",
    "count_window",
    "fold_window",
    "join_window",
    "max_window",
    "min_window",
    "reduce_window",
    "window",
]

V = TypeVar("V")
X = TypeVar("X")

WindowMetadata: TypeAlias = tuple[str, datetime, datetime]
"""The id of a window, its start, and its end."""


def _as_tuple(pair: tuple[int, Any]) -> WindowMetadata:
    window, metadata = pair
    return str(window), metadata.open_time, metadata.close_time


@operator
def _as_tuples(step_id: str, up: KeyedStream[Any]) -> KeyedStream[WindowMetadata]:
    return op.map_value("metadata", up, _as_tuple)


def _telling(call: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(call)
    def telling(step_id: str, *args: Any, **kwargs: Any) -> Any:
        out = call(step_id, *args, **kwargs)
        return WindowOut(out.down, out.late, _as_tuples(f"{step_id}_metadata", out.meta))  # type: ignore[arg-type]

    return telling


window = _telling(_windowing.window)
collect_window = _telling(_windowing.collect_window)
fold_window = _telling(_windowing.fold_window)
reduce_window = _telling(_windowing.reduce_window)
max_window = _telling(_windowing.max_window)
min_window = _telling(_windowing.min_window)
join_window = _telling(_windowing.join_window)


@_telling
def count_window(step_id: str, up: KeyedStream[V], *args: Any, **kwargs: Any) -> Any:
    """Counts the values of a keyed stream in each window by ``key(value)``; ``key`` is the last argument."""
    return _windowing.count_window(step_id, op.key_rm(f"{step_id}_values", up), *args, **kwargs)
