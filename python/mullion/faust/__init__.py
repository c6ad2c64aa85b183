"""The API of Faust under its own names: windows, records, tables, agents and timers.

>>> import mullion.faust as faust
>>> faust.HoppingWindow(size=10, step=5).ranges(7.0)
[WindowRange(start=0.0, end=10.0), WindowRange(start=5.0, end=15.0)]
"""

import importlib as _importlib
import uuid as _uuid
from typing import Any

from mullion.errors import AgentError, InvalidArgumentError, MullionError, UnsupportedError, WrongShardError
from mullion.faust._context import (
    Event,
    ForgottenChangeWarning,
    Message,
    OutsideStreamError,
    current_event,
    current_window,
)
from mullion.faust._public_names.modules import MODULES as _MODULES
from mullion.faust._public_names.modules import install as _install
from mullion.faust._public_names.unsupported import NAMES as _NAMES
from mullion.faust._public_names.unsupported import placeholder as _placeholder
from mullion.faust._settings import Settings
from mullion.faust._values.times import Seconds
from mullion.faust.agents import Agent
from mullion.faust.app import App
from mullion.faust.channels import TP, Channel, Topic
from mullion.faust.models import FieldDescriptor, Record, ValidationError
from mullion.faust.schemas import Schema
from mullion.faust.streams import Stream
from mullion.faust.tables.sets import SetTable
from mullion.faust.tables.table import Table, WindowedTable
from mullion.faust.tables.totals import windowed_average, windowed_count, windowed_sum
from mullion.faust.tables.window_set import WindowSet
from mullion.faust.types import ChannelT, EventT, StreamT, TableT, TopicT
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


def uuid() -> str:
    """Returns a new UUID as text."""
    return str(_uuid.uuid4())


def __getattr__(name: str) -> Any:
    # Placeholders for names of Faust without a counterpart, and modules that are imported on first use.
    if name in _NAMES:
        return _placeholder(name)
    if name in _MODULES:
        return _importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_install()

GlobalTable = Table
SetGlobalTable = SetTable

__all__ = [
    "TP",
    "Agent",
    "AgentError",
    "App",
    "Channel",
    "ChannelT",
    "Event",
    "EventT",
    "FieldDescriptor",
    "ForgottenChangeWarning",
    "GlobalTable",
    "HoppingWindow",
    "HoppingWindowT",
    "InvalidArgumentError",
    "Message",
    "MullionError",
    "OutsideStreamError",
    "Record",
    "Schema",
    "Seconds",
    "SetGlobalTable",
    "SetTable",
    "Settings",
    "SlidingWindow",
    "SlidingWindowT",
    "Stream",
    "StreamT",
    "Table",
    "TableT",
    "Topic",
    "TopicT",
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
    "uuid",
    "windowed_average",
    "windowed_count",
    "windowed_sum",
]
