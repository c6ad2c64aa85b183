"""What Python values are in JSON: records, dates, decimals and their like in, plain values out."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

from mullion.errors import InvalidArgumentError


def plain(value: Any, path: str = "value") -> Any:
    """A value as JSON can hold it; one that it cannot hold is an :class:`InvalidArgumentError` that says where it is.

    Dates are ISO 8601, decimals and UUIDs text, lengths of time seconds, bytes base64, sets lists in order of their
    text, enumerations their values, and records what their fields are.
    """
    kind = type(value)
    if value is None or kind is str or kind is int or kind is bool:
        return value
    if kind is float:
        if math.isfinite(value):
            return value
        raise InvalidArgumentError(f"{path}={value!r} has no place in JSON. Leave it out, or make it None.")
    if hasattr(kind, "to_representation"):
        return value.to_representation()
    if isinstance(value, Mapping):
        return {_name(key, path): plain(held, f"{path}[{key!r}]") for key, held in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(held, f"{path}[{i}]") for i, held in enumerate(value)]
    if isinstance(value, AbstractSet):
        return sorted((plain(held, path) for held in value), key=lambda held: (type(held).__name__, str(held)))
    if isinstance(value, Enum):
        return plain(value.value, path)
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, (Decimal, UUID)):
        return str(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, (str, int, float)):
        # A class of somebody's own that is one of these: what it is beyond that is not kept.
        return plain(next(base(value) for base in (str, int, float) if isinstance(value, base)), path)
    raise InvalidArgumentError(
        f"{path}={value!r} ({kind.__name__}) cannot be written as JSON. Make it a record, or of numbers, text, dates, "
        "lists and dicts."
    )


def dumps(value: Any) -> bytes:
    """A value as JSON in UTF-8, as short as it can be."""
    return json.dumps(plain(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def _name(key: Any, path: str) -> str:
    """A dict's key: JSON has only text."""
    if isinstance(key, str):
        return str(key)
    if isinstance(key, (bool, int, float, Decimal, UUID, date, Enum)):
        named = plain(key, path)
        return named if isinstance(named, str) else json.dumps(named)
    raise InvalidArgumentError(
        f"{path} has the key {key!r} ({type(key).__name__}), and JSON's keys are text. Use text for it."
    )
