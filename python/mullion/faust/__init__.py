"""Faust's windows, records and tables, with its names.

>>> import mullion.faust as faust
>>> faust.HoppingWindow(size=10, step=5).ranges(7.0)
[WindowRange(start=0.0, end=10.0), WindowRange(start=5.0, end=15.0)]
"""

from mullion.errors import InvalidArgumentError, UnsupportedError
from mullion.faust._context import (
    Event,
    ForgottenChangeWarning,
    Message,
    OutsideStreamError,
    current_event,
    current_window,
)
from mullion.faust._seconds import Seconds
from mullion.faust.models import FieldDescriptor, Record, ValidationError
from mullion.faust.tables import (
    Table,
    WindowedTable,
    WindowSet,
    windowed_average,
    windowed_count,
    windowed_sum,
)
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
    "Event",
    "FieldDescriptor",
    "ForgottenChangeWarning",
    "HoppingWindow",
    "HoppingWindowT",
    "InvalidArgumentError",
    "Message",
    "OutsideStreamError",
    "Record",
    "Seconds",
    "SlidingWindow",
    "SlidingWindowT",
    "Table",
    "TumblingWindow",
    "TumblingWindowT",
    "UnsupportedError",
    "ValidationError",
    "Window",
    "WindowRange",
    "WindowSet",
    "WindowT",
    "WindowedTable",
    "current_event",
    "current_window",
    "windowed_average",
    "windowed_count",
    "windowed_sum",
]
