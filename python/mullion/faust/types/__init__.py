"""The names that annotations use: ``StreamT[Withdrawal]`` and its like are the classes themselves.

Nothing in here does anything: what lives here is for annotations of programs, and may be added to as Faust has it.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from mullion.faust._context import Event, Message
from mullion.faust.agents import Agent
from mullion.faust.app import App
from mullion.faust.channels import TP, Channel, RecordMetadata, Topic
from mullion.faust.models import FieldDescriptor, Record
from mullion.faust.schemas import Schema
from mullion.faust.streams import Stream
from mullion.faust.tables.table import Table
from mullion.faust.windows import WindowRange, WindowT

AgentT = Agent
AppT = App
ChannelT = Channel
CollectionT = Table
EventT = Event
FieldDescriptorT = FieldDescriptor
ModelT = Record
SchemaT = Schema
StreamT = Stream
TableT = Table
TopicT = Topic
K: TypeAlias = Any
V: TypeAlias = Any
CodecArg: TypeAlias = Any
ModelArg: TypeAlias = Any
HeadersArg: TypeAlias = Any

__all__ = [
    "TP",
    "AgentT",
    "AppT",
    "ChannelT",
    "CodecArg",
    "CollectionT",
    "EventT",
    "FieldDescriptorT",
    "HeadersArg",
    "K",
    "Message",
    "ModelArg",
    "ModelT",
    "RecordMetadata",
    "SchemaT",
    "StreamT",
    "TableT",
    "TopicT",
    "V",
    "WindowRange",
    "WindowT",
]
