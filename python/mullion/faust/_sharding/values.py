"""The values of a topic as an agent receives them: records, dicts or plain values, and their fields."""

from __future__ import annotations

import inspect
import types
import typing
from typing import Final

from pyspark.sql.types import StructType

from mullion.faust._values.shards import is_exact, shard_of
from mullion.faust.channels import Channel
from mullion.faust.models import FieldDescriptor, Record

_KINDS: Final = (str, int, bool)
_OWN: Final = ("__init__", "__post_init__", "__getattribute__", "__setattr__", "_set", "_read", "from_data")


class Values:
    """The kind of a topic's values, and the parts of them that are unchanged from the topic."""

    def __init__(self, channel: Channel) -> None:
        kind = channel.value_type
        self.kind = kind
        self.key_is_plain = channel.key_type in (None, str) and not channel.has_json_keys
        # The parts of a raw message are unknown.
        is_json = not channel.is_raw
        self.is_dict = is_json and (kind is None or kind is dict or typing.get_origin(kind) is dict)
        self.is_record = is_json and isinstance(kind, type) and issubclass(kind, Record)
        self.is_plain = is_json and kind in _KINDS

    def has(self, name: str, columns: StructType | None) -> bool:
        """True if a part of the value, after reading, has the same shard as the topic's column."""
        if not self.is_record:
            return self.is_dict or (self.is_plain and name == "value")
        model: type[Record] = self.kind
        declared = model._fields.get(name)
        if declared is None or not isinstance(inspect.getattr_static(model, name), FieldDescriptor):
            return False
        if not all(is_of_record(model, one) for one in _OWN):
            return False
        kinds = [declared.type]
        if typing.get_origin(declared.type) in (typing.Union, types.UnionType):
            kinds = [arm for arm in typing.get_args(declared.type) if arm is not type(None)]
        reading = model._options.reading
        if len(kinds) != 1 or kinds[0] not in _KINDS or reading.coercions:
            return False
        if reading.coerce and columns is not None and name in columns.names:
            return is_exact(columns[name].dataType, kinds[0])
        return True

    def default(self, name: str) -> str:
        """The shard of a value that lacks a part."""
        return shard_of(self.kind._fields[name].default) if self.is_record and name else ""


def is_of_record(model: type[Record], name: str) -> bool:
    """True if a model does not override a method of ``Record``."""
    return inspect.getattr_static(model, name) is inspect.getattr_static(Record, name)
