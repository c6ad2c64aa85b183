"""Faust's programs, with its names: windows, records, tables, agents, timers.

>>> import mullion.faust as faust
>>> faust.HoppingWindow(size=10, step=5).ranges(7.0)
[WindowRange(start=0.0, end=10.0), WindowRange(start=5.0, end=15.0)]
"""

from mullion.errors import AgentError, InvalidArgumentError, MullionError, UnsupportedError, WrongShardError
from mullion.faust._context import (
    Event,
    ForgottenChangeWarning,
    Message,
    OutsideStreamError,
    current_event,
    current_window,
)
from mullion.faust._seconds import Seconds
from mullion.faust.agents import Agent, Topic
from mullion.faust.app import App
from mullion.faust.models import FieldDescriptor, Record, ValidationError
from mullion.faust.streams import Stream
from mullion.faust.tables.table import Table
from mullion.faust.tables.totals import windowed_average, windowed_count, windowed_sum
from mullion.faust.tables.window_set import WindowSet
from mullion.faust.tables.windowed import WindowedTable
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
    "Agent",
    "AgentError",
    "App",
    "Event",
    "FieldDescriptor",
    "ForgottenChangeWarning",
    "HoppingWindow",
    "HoppingWindowT",
    "InvalidArgumentError",
    "Message",
    "MullionError",
    "OutsideStreamError",
    "Record",
    "Seconds",
    "SlidingWindow",
    "SlidingWindowT",
    "Stream",
    "Table",
    "Topic",
    "TumblingWindow",
    "TumblingWindowT",
    "UnsupportedError",
    "ValidationError",
    "Window",
    "WindowRange",
    "WindowSet",
    "WindowT",
    "WindowedTable",
    "WrongShardError",
    "current_event",
    "current_window",
    "windowed_average",
    "windowed_count",
    "windowed_sum",
]
