"""JSON values of any shape in the files of a ``dir:`` topic: in its columns, and additionally as text where needed.

::

    topic  n bigint, m struct<a>     n      m         _json               _sent
    {"n": 1, "m": {"a": 2}}          1      {a: 2}
    {"n": 1, "m": {}}                1                {"n": 1, "m": {}}
    {"n": "x"}                                        {"n": "x"}

    topic  n double                  n      _json     _sent
    {"n": 1.5}                       1.5
    {"n": 1}                         1.0              {"n": 1}

A value that the columns hold exactly has no text. ``_json``, an ordinary column of the topic, contains the text of a
value that they cannot represent. ``_sent``, which only readers of JSON use, contains the text of a value that they
represent in other types: an int as a float, a missing field as null.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyspark.sql.types as T

from mullion._util.codec.json import is_deep, text_of
from mullion.topics import _types
from mullion.topics._broker import SCALAR, column_mark, columns_text
from mullion.topics._json_rows import InexactError, exact_kind, has_records, has_texts, is_column, values_in
from mullion.topics._records import DEEPEST, TEXT, VALUE

_LOSSLESS: Final = 2**53


@dataclass(frozen=True)
class Filed:
    """The rows of a file: columns, the texts, and the fields of each row."""

    values: pa.Table
    sent: pa.Array | None
    columns: pa.Array


def filed(batches: Sequence[pa.RecordBatch], schema: T.StructType) -> Filed:
    """Batches of :mod:`mullion.topics._json_rows`, in order, in the columns of a topic and new ones."""
    columns = _Columns(schema)
    read = [batch if not has_texts(batch) else values_in(batch) for batch in batches]
    for part in read:
        columns.take(part)
    segments = [
        columns.segment_of(part) if isinstance(part, pa.RecordBatch) and columns.hold(part) else columns.each(part)
        for part in read
    ]
    names = dict.fromkeys(name for segment in segments for name in segment.arrays)
    values = {name: _joined(segments, name, _types.arrow_of(columns.kinds[name])) for name in names}
    count = sum(segment.count for segment in segments)
    table = pa.table(values) if values else pa.table({"none": pa.nulls(count)}).select([])
    if any(segment.odd for segment in segments):
        odd = [text for segment in segments for text in segment.odd or [None] * segment.count]
        table = table.append_column(TEXT, pa.array(odd, pa.string()))
    sent = None
    if any(segment.sent for segment in segments):
        sent = pa.array([text for one in segments for text in one.sent or [None] * one.count], pa.string())
    return Filed(table, sent, pa.array([text for one in segments for text in one.columns], pa.string()))


@dataclass(frozen=True)
class _Segment:
    """Consecutive rows; if no row has a text of one kind, that list is empty."""

    count: int
    arrays: dict[str, pa.ChunkedArray]
    columns: list[str]
    odd: list[str | None]
    sent: list[str | None]


def _joined(segments: Sequence[_Segment], name: str, kind: pa.DataType) -> pa.ChunkedArray:
    chunks: list[pa.Array] = []
    for segment in segments:
        there = segment.arrays.get(name)
        chunks += [pa.nulls(segment.count, kind)] if there is None else there.chunks
    return pa.chunked_array(chunks, kind)


class _Columns:
    """The columns of a topic, extended by new rows."""

    def __init__(self, schema: T.StructType) -> None:
        self.kinds = {field.name: field.dataType for field in schema if field.name != TEXT}
        self._spellings = {name.lower(): name for name in self.kinds}

    def take(self, part: pa.RecordBatch | list[Any]) -> None:
        """Extends the columns for values."""
        if isinstance(part, pa.RecordBatch):
            for field in part.schema:
                self._take(field.name, _types.of_arrow(field.type))
            return
        for value in part:
            for name, field_value in _fields(value).items():
                kind = _kind_of(name, field_value)
                if kind is not None:
                    self._take(name, kind)

    def _take(self, name: str, kind: T.DataType) -> None:
        have = self.kinds.get(name)
        if have is None and name.lower() in self._spellings:
            return
        try:
            widened = kind if have is None else _types.union(name, have, kind)
        except _types.ConflictError:
            return
        if have is not None and widened != have and not _is_of_json(have):
            return
        if widened != have and not _types.alike(widened):
            self.kinds[name] = widened
            self._spellings[name.lower()] = name

    def hold(self, batch: pa.RecordBatch) -> bool:
        """True if these columns hold each value of a batch exactly."""
        return all(
            field.name in self.kinds and _types.is_same(_types.of_arrow(field.type), self.kinds[field.name])
            for field in batch.schema
        )

    def segment_of(self, batch: pa.RecordBatch) -> _Segment:
        """The rows of a batch that these columns hold."""
        arrays = {
            name: _types.fit_array(pa.chunked_array([batch[name]]), _types.arrow_of(self.kinds[name]))
            for name in batch.schema.names
        }
        fields = columns_text(batch.schema.names) if has_records(batch) else _OF_VALUES
        return _Segment(batch.num_rows, arrays, [fields] * batch.num_rows, [], [])

    def each(self, part: pa.RecordBatch | list[Any]) -> _Segment:
        """Values one by one: their columns, and the texts of values that the columns do not hold exactly."""
        values = values_in(part) if isinstance(part, pa.RecordBatch) else part
        rows: list[dict[str, Any]] = []
        odd: list[str | None] = []
        sent: list[str | None] = []
        for value in values:
            # Values that are no records have this form.
            as_it_is, shown = not isinstance(value, dict) or list(value) != [VALUE], {}
            fields = _fields(value)
            for name, field_value in fields.items():
                kind, have = _kind_of(name, field_value), self.kinds.get(name)
                if kind is not None and have is not None and _shows(field_value, kind, have):
                    shown[name] = field_value
                    as_it_is = as_it_is and _types.is_same(kind, have)
            all_shown = len(shown) == len(fields)
            text = None if all_shown and as_it_is else text_of(value)
            rows.append(shown)
            odd.append(None if all_shown else text)
            sent.append(text if all_shown else None)
        names = dict.fromkeys(name for row in rows for name in row)
        arrays = {
            name: pa.chunked_array(
                [
                    pa.array(
                        _types.values_for([row.get(name) for row in rows], self.kinds[name]),
                        _types.arrow_of(self.kinds[name]),
                    )
                ]
            )
            for name in names
        }
        field_lists = [_came(value, text is not None) for value, text in zip(values, odd, strict=True)]
        return _Segment(len(values), arrays, field_lists, odd if any(odd) else [], sent if any(sent) else [])


_OF_VALUES: Final = column_mark(VALUE) + SCALAR


def _came(value: Any, has_text: bool) -> str:
    """The entry of a value in ``_columns``: text replaces columns that do not hold it."""
    text = column_mark(TEXT) if has_text else ""
    return text + (columns_text(filter(is_column, value)) if isinstance(value, dict) else _OF_VALUES)


def _fields(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {VALUE: value}


def _kind_of(name: str, value: Any) -> T.DataType | None:
    if not is_column(name) or is_deep(value, DEEPEST):
        return None
    try:
        kind = exact_kind([value])
    except InexactError:
        return None
    return None if _types.alike(kind) else kind


def _is_of_json(kind: T.DataType) -> bool:
    """True if a column may become wider for JSON values: decimals, times and bytes may not."""
    match kind:
        case T.ArrayType():
            return _is_of_json(kind.elementType)
        case T.StructType():
            return all(_is_of_json(field.dataType) for field in kind)
        case T.DecimalType():
            return False
    return isinstance(kind, (T.NumericType, T.StringType, T.BooleanType, T.NullType))


def _shows(value: Any, kind: T.DataType, have: T.DataType) -> bool:
    """True if a column of type ``have`` represents a value: exactly, as another number, or with additional nulls."""
    if isinstance(have, T.DecimalType) and type(value) is int:
        return bool(abs(value) < 10 ** (have.precision - have.scale))
    return _types.fits(kind, have) and _keeps(value, have)


def _keeps(value: Any, kind: T.DataType) -> bool:
    """True if a value loses no digits in its type."""
    match kind:
        case T.DoubleType() if type(value) is int:
            return -_LOSSLESS <= value <= _LOSSLESS
        case T.ArrayType() if value is not None:
            return all(_keeps(inner, kind.elementType) for inner in value)
        case T.StructType() if value is not None:
            return all(_keeps(value.get(field.name), field.dataType) for field in kind)
    return True
