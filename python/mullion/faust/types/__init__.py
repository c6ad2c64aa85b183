"""The names for annotations: ``StreamT[Withdrawal]`` and similar names are the classes themselves.

Names without a counterpart are placeholders, which annotations may use.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

from mullion.faust._context import Event, Message
from mullion.faust.agents import Agent
from mullion.faust.app import App
from mullion.faust.channels import TP, Channel, FutureMessage, RecordMetadata, Topic
from mullion.faust.models import FieldDescriptor, Record
from mullion.faust.schemas import Schema
from mullion.faust.streams import Stream
from mullion.faust.tables.table import Table
from mullion.faust.windows import HoppingWindowT, SlidingWindowT, TumblingWindowT, WindowRange, WindowT

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


class ProcessingGuarantee(StrEnum):
    """The values of the setting ``processing_guarantee``. Tables are stored exactly once with either."""

    AT_LEAST_ONCE = "at_least_once"
    EXACTLY_ONCE = "exactly_once"


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        # Names of Faust's module that are elsewhere here. Type checkers see the real names only.
        from mullion.faust._public_names.modules import named

        return named("types", name)


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
    "FutureMessage",
    "HeadersArg",
    "HoppingWindowT",
    "K",
    "Message",
    "ModelArg",
    "ModelT",
    "ProcessingGuarantee",
    "RecordMetadata",
    "SchemaT",
    "SlidingWindowT",
    "StreamT",
    "TableT",
    "TopicT",
    "TumblingWindowT",
    "V",
    "WindowRange",
    "WindowT",
]
