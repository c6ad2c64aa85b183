"""Values as JSON and back: how topics of Kafka hold them."""

from __future__ import annotations

import base64
import datetime
import decimal
import json
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from mullion.topics._records import VALUE


def written(values: pa.Table) -> list[bytes]:
    """Each row as JSON: an object, or where ``value`` is the only column, its value.

    Times are ISO 8601 text, in UTC where they are instants; bytes are base64; decimals are numbers. A column that is
    null is in the object, as null.
    """
    plain = values.column_names == [VALUE]
    rows: Iterable[Any] = values[VALUE].to_pylist() if plain else values.to_pylist()
    return [json.dumps(_plain(row), ensure_ascii=False).encode() for row in rows]


def read(value: bytes | None) -> Any:
    """What a value holds; raises :class:`ValueError` where that is no JSON."""
    return None if value is None else json.loads(value)


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {name: _plain(inner) for name, inner in value.items()}
        case list():
            return [_plain(inner) for inner in value]
        # What Arrow makes of a map is a list of pairs.
        case tuple():
            return [_plain(inner) for inner in value]
        case datetime.datetime() if value.tzinfo is not None:
            return value.astimezone(datetime.UTC).isoformat().replace("+00:00", "Z")
        case datetime.date():
            return value.isoformat()
        case decimal.Decimal():
            return int(value) if value == value.to_integral_value() else float(value)
        case bytes():
            return base64.b64encode(value).decode()
    return value
