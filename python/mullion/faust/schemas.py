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
        for name, given in (("key_serializer", key_serializer), ("value_serializer", value_serializer)):
            require_serializer(given, name, f"the topic {topic!r}")
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
            there, given = getattr(self, name), getattr(other, name)
            if there is not None and given is not None and there != given:
                yield name, there, given

    def joined(self, other: Schema) -> Schema:
        """Returns this schema with the properties that the other one sets."""
        told = {name: getattr(other, name) for name in (*_NAMES, "columns") if getattr(other, name) is not None}
        return replace(self, **told)


_NAMES: Final = ("key_type", "value_type", "key_serializer", "value_serializer", "allow_empty")


def schema_of(given: Any) -> Schema:
    """Returns the schema of a ``Schema`` or of columns. Raises :class:`InvalidArgumentError`."""
    if given is None:
        return Schema()
    if isinstance(given, Schema):
        return given
    if inspect.isclass(given) and issubclass(given, Schema):
        return given()
    if isinstance(given, (str, StructType)) or hasattr(given, "field"):
        return Schema(columns=given)
    raise InvalidArgumentError(
        f"schema={given!r} ({type(given).__name__}) is not a schema. Give a faust.Schema, or the columns, as in "
        "schema='region string, amount double'."
    )


def require_serializer(given: Any, name: str, of: str) -> None:
    """Raises :class:`InvalidArgumentError` for an unsupported serializer."""
    if given is None or given in SERIALIZERS:
        return
    raise InvalidArgumentError(
        f"{name}={given!r} of {of} is not supported: write 'json', or 'raw' for text and bytes as they are, and decode "
        "them in the agent."
    )
