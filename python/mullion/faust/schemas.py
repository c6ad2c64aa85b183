"""The implementation of ``faust.Schema``: the types and serializers of a topic's keys and values."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from pyspark.sql.types import StructType

from mullion.errors import InvalidArgumentError, UnsupportedError

SERIALIZERS: Final = ("json", "raw")
_OWN: Final = ("loads_key", "loads_value", "dumps_key", "dumps_value")


@dataclass(frozen=True)
class Schema:
    """The types and serializers (``"json"`` or ``"raw"``) of a topic's keys and values.

    ``columns`` are the topic's columns in Spark, if declared.

    Raises :class:`InvalidArgumentError` for another serializer, and :class:`UnsupportedError` for a subclass with
    serialization methods of its own.
    """

    key_type: Any = None
    value_type: Any = None
    key_serializer: str | None = None
    value_serializer: str | None = None
    allow_empty: bool | None = None
    columns: Any = None

    def __post_init__(self) -> None:
        for name in ("key_serializer", "value_serializer"):
            require_serializer(getattr(self, name), name, "a Schema")
        for name in _OWN:
            if hasattr(type(self), name):
                raise UnsupportedError(
                    f"{type(self).__name__} has a {name} of its own, which is not supported. Read the topic with "
                    "value_serializer='raw', and decode the bytes in the agent."
                )

    def over(self, topic: str, key_type: Any, value_type: Any, key_serializer: Any, value_serializer: Any) -> Schema:
        """Returns this schema, overridden by the arguments of a topic."""
        for name, serializer in (("key_serializer", key_serializer), ("value_serializer", value_serializer)):
            require_serializer(serializer, name, f"the topic {topic!r}")
        return replace(
            Schema(**{name: getattr(self, name) for name in (*_NAMES, "columns")}),
            key_type=key_type or self.key_type,
            value_type=value_type or self.value_type,
            key_serializer=key_serializer or self.key_serializer,
            value_serializer=value_serializer or self.value_serializer,
        )

    def differences(self, other: Schema) -> Iterator[tuple[str, Any, Any]]:
        """Yields the contradictions of two schemas: the property and both values."""
        for name in (*_NAMES, "columns"):
            there, other_value = getattr(self, name), getattr(other, name)
            if there is not None and other_value is not None and there != other_value:
                yield name, there, other_value

    def joined(self, other: Schema) -> Schema:
        """Returns this schema with the properties that the other one sets."""
        settings = {name: getattr(other, name) for name in (*_NAMES, "columns") if getattr(other, name) is not None}
        return replace(self, **settings)


_NAMES: Final = ("key_type", "value_type", "key_serializer", "value_serializer", "allow_empty")


def schema_of(schema: Any) -> Schema:
    """Returns the schema of a ``Schema`` or of columns. Raises :class:`InvalidArgumentError`."""
    if schema is None:
        return Schema()
    if isinstance(schema, Schema):
        return schema
    if inspect.isclass(schema) and issubclass(schema, Schema):
        return schema()
    if isinstance(schema, (str, StructType)) or hasattr(schema, "field"):
        return Schema(columns=schema)
    raise InvalidArgumentError(
        f"schema={schema!r} ({type(schema).__name__}) is not a schema. Give a faust.Schema, or the columns, as in "
        "schema='region string, amount double'."
    )


def require_serializer(serializer: Any, name: str, of: str) -> None:
    """Raises :class:`InvalidArgumentError` for an unsupported serializer."""
    if serializer is None or serializer in SERIALIZERS:
        return
    raise InvalidArgumentError(
        f"{name}={serializer!r} of {of} is not supported: write 'json', or 'raw' for text and bytes as they are, "
        "and decode them in the agent."
    )
