"""Faust's windows and records, with its names.

>>> import mullion.faust as faust
>>> faust.HoppingWindow(size=10, step=5).ranges(7.0)
[WindowRange(start=0.0, end=10.0), WindowRange(start=5.0, end=15.0)]
"""

from mullion.faust._seconds import Seconds
from mullion.faust.models import FieldDescriptor, Record, ValidationError
from mullion.faust.windows import (
    HoppingWindow,
    HoppingWindowT,
    SlidingWindow,
    SlidingWindowT,
    TumblingWindow,
    TumblingWindowT,
    Window,
    WindowRange,
    WindowT,
)

__all__ = [
    "FieldDescriptor",
    "HoppingWindow",
    "HoppingWindowT",
    "Record",
    "Seconds",
    "SlidingWindow",
    "SlidingWindowT",
    "TumblingWindow",
    "TumblingWindowT",
    "ValidationError",
    "Window",
    "WindowRange",
    "WindowT",
]
