"""Conversion of rows to the JSON of Kafka topics. :func:`mullion._util.codec.json.read` reads it."""

from __future__ import annotations

import base64
import datetime
import decimal
import json
from collections.abc import Callable
from typing import Any, TypeAlias

import pyarrow as pa

from mullion.errors import InvalidArgumentError
from mullion.topics._records import VALUE

_Convert: TypeAlias = Callable[[Any], Any]


def written(values: pa.Table) -> list[bytes]:
    """Each row as JSON: an object, or the value of the single column ``value`` if that is not a record.

    Times are ISO 8601 text, in UTC for instants; bytes are base64; decimals are numbers with all of their
    digits; maps are objects. A column that is null is in the object, as null.

    Raises :class:`InvalidArgumentError` for maps whose keys are not text, and for times outside of the years 1 to 9999,
    which that text cannot represent.
    """
    convert = _converter(pa.struct(list(values.schema)), "")
    try:
        rows = values.to_pylist()
        if convert is not None:
            rows = [convert(row) for row in rows]
    except (OverflowError, ValueError) as error:
        raise _out_of_range(values) from error
    if values.column_names == [VALUE] and not _is_object(values.schema.field(VALUE).type):
        rows = [row[VALUE] for row in rows]
    text = _text if _has_decimals(pa.struct(list(values.schema))) else _dumps
    return [text(row).encode() for row in rows]


def _out_of_range(values: pa.Table) -> InvalidArgumentError:
    """The error that names the column with a time outside of Python's range."""

    def fits(column: str) -> bool:
        convert = _converter(values.schema.field(column).type, column)
        try:
            for value in values[column].to_pylist():
                if convert is not None:
                    convert(value)
        except (OverflowError, ValueError):
            return False
        return True

    name = next((column for column in values.column_names if not fits(column)), "")
    return InvalidArgumentError(
        f"Column {name!r} has a time outside of the years 1 to 9999, and values in JSON have times as ISO 8601 text, "
        "which ends there. Leave such rows out, or send the time as a number: cast it to long."
    )


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _text(value: Any) -> str:
    """The same with decimals, which the library would write as floats."""
    match value:
        case dict():
            return f"{{{', '.join(f'{_dumps(name)}: {_text(inner)}' for name, inner in value.items())}}}"
        case list():
            return f"[{', '.join(map(_text, value))}]"
        case decimal.Decimal():
            return format(value, "f")
    return _dumps(value)


def _converter(kind: pa.DataType, path: str) -> _Convert | None:
    """A converter from values of a type to JSON values; ``None`` if they are JSON values already."""
    types = pa.types
    if types.is_struct(kind):
        fields = {field.name: _converter(field.type, f"{path}.{field.name}".lstrip(".")) for field in kind}
        return _of_struct(fields) if any(fields.values()) else None
    if types.is_list(kind):
        inner = _converter(kind.value_type, f"{path}[]")
        return None if inner is None else lambda value: None if value is None else list(map(inner, value))
    if types.is_map(kind):
        if not types.is_string(kind.key_type):
            raise InvalidArgumentError(
                f"Column {path!r} has maps with keys of the type {kind.key_type}, and an object in JSON has text alone "
                "for names. Make the keys text, or send the map as a list of records."
            )
        item = _converter(kind.item_type, f"{path}.value") or (lambda value: value)
        return lambda value: None if value is None else {key: item(of) for key, of in value}
    if types.is_timestamp(kind) and kind.tz is not None:
        return lambda value: (
            None if value is None else value.astimezone(datetime.UTC).isoformat().replace("+00:00", "Z")
        )
    if types.is_timestamp(kind) or types.is_date(kind):
        return lambda value: None if value is None else value.isoformat()
    if types.is_binary(kind):
        return lambda value: None if value is None else base64.b64encode(value).decode()
    return None


def _of_struct(fields: dict[str, _Convert | None]) -> _Convert:
    converters = {name: convert for name, convert in fields.items() if convert is not None}

    def convert(value: Any) -> Any:
        return None if value is None else {**value, **{name: of(value[name]) for name, of in converters.items()}}

    return convert


def _has_decimals(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_has_decimals(kind.field(i).type) for i in range(kind.num_fields))
    return bool(pa.types.is_decimal(kind))


def _is_object(kind: pa.DataType) -> bool:
    return bool(pa.types.is_struct(kind) or pa.types.is_map(kind))
