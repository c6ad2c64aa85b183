"""JSON values of any shape in the files of a ``dir:`` topic: in its columns, and beside them as text where need be.

::

    topic  n bigint, m struct<a>     n      m         _json               _sent
    {"n": 1, "m": {"a": 2}}          1      {a: 2}
    {"n": 1, "m": {}}                1                {"n": 1, "m": {}}
    {"n": "x"}                                        {"n": "x"}

    topic  n double                  n      _json     _sent
    {"n": 1.5}                       1.5
    {"n": 1}                         1.0              {"n": 1}

What the columns hold as it is has no text. ``_json``, a column of the topic like others, has the text of a value that
they cannot show; ``_sent``, which only readers of JSON know, of one that they show in other types: an int as a float, a
field that is not there as null.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyspark.sql.types as T

from mullion._codec.json import is_deep, text_of
from mullion.topics import _types
from mullion.topics._broker import SCALAR, column_mark, columns_text
from mullion.topics._json_rows import InexactError, exact_kind, has_records, has_texts, is_column, values_in
from mullion.topics._records import DEEPEST, TEXT, VALUE

_LOSSLESS: Final = 2**53


@dataclass(frozen=True)
class Filed:
    """Rows as a file is to have them: columns, the texts beside them, and which fields each row came with."""

    values: pa.Table
    sent: pa.Array | None
    columns: pa.Array


def filed(batches: Sequence[pa.RecordBatch], known: T.StructType) -> Filed:
    """Batches of :mod:`mullion.topics._json_rows`, in order, in the columns of a topic and those that it gets."""
    columns = _Columns(known)
    read = [batch if not has_texts(batch) else values_in(batch) for batch in batches]
    for part in read:
        columns.take(part)
    segments = [
        columns.whole(part) if isinstance(part, pa.RecordBatch) and columns.hold(part) else columns.each(part)
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
    """Rows that follow one another; without texts of one kind the list of these is empty."""

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
    """The columns of a topic, as rows on their way to it make them."""

    def __init__(self, known: T.StructType) -> None:
        self.kinds = {field.name: field.dataType for field in known if field.name != TEXT}
        self._spellings = {name.lower(): name for name in self.kinds}

    def take(self, part: pa.RecordBatch | list[Any]) -> None:
        """Makes room for values, in types that have it."""
        if isinstance(part, pa.RecordBatch):
            for field in part.schema:
                self._take(field.name, _types.of_arrow(field.type))
            return
        for value in part:
            for name, held in _fields(value).items():
                kind = _kind_of(name, held)
                if kind is not None:
                    self._take(name, kind)

    def _take(self, name: str, kind: T.DataType) -> None:
        have = self.kinds.get(name)
        if have is None and name.lower() in self._spellings:
            return
        try:
            made = kind if have is None else _types.union(name, have, kind)
        except _types.ConflictError:
            return
        if have is not None and made != have and not _is_of_json(have):
            return
        if made != have and not _types.alike(made):
            self.kinds[name] = made
            self._spellings[name.lower()] = name

    def hold(self, batch: pa.RecordBatch) -> bool:
        """Whether each value of a batch is in these columns as it is."""
        return all(
            field.name in self.kinds and _types.is_same(_types.of_arrow(field.type), self.kinds[field.name])
            for field in batch.schema
        )

    def whole(self, batch: pa.RecordBatch) -> _Segment:
        """The rows of a batch that these hold."""
        arrays = {
            name: _types.fit_array(pa.chunked_array([batch[name]]), _types.arrow_of(self.kinds[name]))
            for name in batch.schema.names
        }
        came = columns_text(batch.schema.names) if has_records(batch) else _OF_VALUES
        return _Segment(batch.num_rows, arrays, [came] * batch.num_rows, [], [])

    def each(self, part: pa.RecordBatch | list[Any]) -> _Segment:
        """Values one by one: what can be in columns, and the texts of those that are not there as they are."""
        values = values_in(part) if isinstance(part, pa.RecordBatch) else part
        rows: list[dict[str, Any]] = []
        odd: list[str | None] = []
        sent: list[str | None] = []
        for value in values:
            # That is how values look that are no records.
            as_it_is, shown = not isinstance(value, dict) or list(value) != [VALUE], {}
            fields = _fields(value)
            for name, held in fields.items():
                kind, have = _kind_of(name, held), self.kinds.get(name)
                if kind is not None and have is not None and _shows(held, kind, have):
                    shown[name] = held
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
        came = [_came(value, text is not None) for value, text in zip(values, odd, strict=True)]
        return _Segment(len(values), arrays, came, odd if any(odd) else [], sent if any(sent) else [])


_OF_VALUES: Final = column_mark(VALUE) + SCALAR


def _came(value: Any, has_text: bool) -> str:
    """What ``_columns`` says of a value: the text is there in place of what columns do not hold."""
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
    """Whether a column may become wider for values of JSON: decimals, times and bytes may not."""
    match kind:
        case T.ArrayType():
            return _is_of_json(kind.elementType)
        case T.StructType():
            return all(_is_of_json(field.dataType) for field in kind)
        case T.DecimalType():
            return False
    return isinstance(kind, (T.NumericType, T.StringType, T.BooleanType, T.NullType))


def _shows(value: Any, kind: T.DataType, have: T.DataType) -> bool:
    """Whether a column of the type ``have`` shows a value: as it is, as another number, or with nulls for more."""
    if isinstance(have, T.DecimalType) and type(value) is int:
        return bool(abs(value) < 10 ** (have.precision - have.scale))
    return _types.fits(kind, have) and _keeps(value, have)


def _keeps(value: Any, kind: T.DataType) -> bool:
    """Whether a value that fits a type loses no digits there."""
    match kind:
        case T.DoubleType() if type(value) is int:
            return -_LOSSLESS <= value <= _LOSSLESS
        case T.ArrayType() if value is not None:
            return all(_keeps(inner, kind.elementType) for inner in value)
        case T.StructType() if value is not None:
            return all(_keeps(value.get(field.name), field.dataType) for field in kind)
    return True
