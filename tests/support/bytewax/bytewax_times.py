"""Times and windowers of the tests of Bytewax."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

START = datetime(2024, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def seconds(count: float) -> timedelta:
    """So many seconds; for infinity, the longest duration that Python has."""
    return timedelta.max if count == math.inf else timedelta(seconds=count)


def windower_of(spec: Sequence[Any], win: Any, start: datetime) -> Any:
    """The windower that is written as its name and its lengths in seconds, by either package's ``windowing``."""
    name, *sizes = spec
    if name == "tumbling":
        return win.TumblingWindower(seconds(sizes[0]), start + seconds(sizes[1]))
    if name == "sliding":
        return win.SlidingWindower(seconds(sizes[0]), seconds(sizes[1]), start + seconds(sizes[2]))
    return win.SessionWindower(seconds(sizes[0]))
