"""The encoding of JSON values of any shape from a worker to a publisher.

Consecutive values of the same shape become a RecordBatch whose columns hold each of them exactly. Other values become
texts, in a batch with the single column :data:`TEXT`::

    {"n": 1}, {"n": null}      n bigint
    {"n": 1}, {"n": 2.5}       _json: '{"n": 1}', '{"n": 2.5}'
    5, 6                       value bigint, of plain values

Such batches are marked, so that a publisher with columns can preserve the values exactly.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from types import NoneType
from typing import Any, Final

import pyarrow as pa
import pyspark.sql.types as T

from mullion._util.codec.json import is_deep, is_text, text_of
from mullion.topics import _types
from mullion.topics._records import DEEPEST, RESERVED, TEXT, VALUE

_MARK: Final = b"mullion.json"
_RECORDS, _VALUES, _TEXTS = b"records", b"values", b"texts"
_NESTED: Final = (list, dict)


class InexactError(Exception):
    """Values that no column can hold exactly."""


def texts(values: Sequence[Any], *, raw: bool = False) -> pa.RecordBatch:
    """Values as their texts; ``raw`` values are texts already, for a broker of plain text."""
    column = pa.array(values if raw else [text_of(value) for value in values], pa.string())
    return pa.RecordBatch.from_arrays([column], schema=_schema([pa.field(TEXT, pa.string())], _TEXTS))


def batches(values: Sequence[Any]) -> Iterator[pa.RecordBatch]:
    """Values in order, in columns if these hold each of them exactly."""
    for names, alike in itertools.groupby(values, lambda value: list(value) if type(value) is dict else None):
        rows = list(alike)
        try:
            yield _in_columns(names, rows)
        except InexactError:
            yield texts(rows)


def is_json(batch: pa.RecordBatch | pa.Table) -> bool:
    """True for a batch of this encoding."""
    return _MARK in (batch.schema.metadata or {})


def has_texts(batch: pa.RecordBatch) -> bool:
    """True for a batch of this encoding with texts instead of columns."""
    return bool(batch.schema.metadata[_MARK] == _TEXTS)


def has_records(batch: pa.RecordBatch) -> bool:
    """True for a batch of this encoding with the columns of records."""
    return bool(batch.schema.metadata[_MARK] == _RECORDS)


def values_in(batch: pa.RecordBatch) -> list[Any]:
    """The values of a batch of this encoding."""
    if has_texts(batch):
        return [json.loads(text) for text in batch[TEXT].to_pylist()]
    return list(batch.to_pylist()) if has_records(batch) else list(batch[VALUE].to_pylist())


def texts_in(batch: pa.RecordBatch) -> list[str]:
    """The values of a batch of this encoding, as texts."""
    return list(batch[TEXT].to_pylist()) if has_texts(batch) else [text_of(value) for value in values_in(batch)]


def is_column(name: str) -> bool:
    """True if the name of a field is a valid name of a column."""
    # Topics use a leading zero character as a mark.
    return bool(name) and "\n" not in name and name[0] != "\0" and name not in RESERVED and is_text(name)


def exact_kind(values: Sequence[Any]) -> T.DataType:
    """The type of a column that holds each value exactly. Raises :class:`InexactError` if there is none."""
    kinds = set(map(type, values))
    kinds.discard(NoneType)
    if not kinds:
        return T.NullType()
    kind, *others = kinds
    if others:
        raise InexactError
    if kind is list:
        return T.ArrayType(exact_kind([inner for value in values if value is not None for inner in value]))
    if kind is dict:
        return _exact_struct([value for value in values if value is not None])
    if kind is int and any(value is not None and not -(2**63) <= value < 2**63 for value in values):
        raise InexactError
    if kind is str and not all(value is None or value.isascii() or is_text(value) for value in values):
        raise InexactError
    return _SCALARS[kind]


_SCALARS: Final[dict[type, T.DataType]] = {
    str: T.StringType(),
    int: T.LongType(),
    float: T.DoubleType(),
    bool: T.BooleanType(),
}


def _exact_struct(records: Sequence[dict[str, Any]]) -> T.DataType:
    names = list(records[0])
    if not names or any(record.keys() != records[0].keys() for record in records) or not all(map(is_column, names)):
        raise InexactError
    return T.StructType([T.StructField(n, exact_kind([record[n] for record in records])) for n in names])


def _in_columns(names: list[str] | None, rows: list[Any]) -> pa.RecordBatch:
    if names is None:
        return _batch([VALUE], [rows], _VALUES)
    if names == [VALUE]:
        # Plain values have this form.
        raise InexactError
    if not names:
        # Rows without fields.
        nothing = pa.RecordBatch.from_arrays([pa.nulls(len(rows))], ["none"]).select([])
        return nothing.replace_schema_metadata({_MARK: _RECORDS})
    if not all(map(is_column, names)):
        raise InexactError
    return _batch(names, [[row[name] for row in rows] for name in names], _RECORDS)


def _batch(names: list[str], columns: list[list[Any]], mark: bytes) -> pa.RecordBatch:
    if any(type(value) in _NESTED and is_deep(value, DEEPEST) for column in columns for value in column):
        raise InexactError
    kinds = [exact_kind(column) for column in columns]
    if _types.alike(T.StructType([T.StructField(name, kind) for name, kind in zip(names, kinds, strict=True)])):
        raise InexactError
    arrays = [pa.array(column, _types.arrow_of(kind)) for column, kind in zip(columns, kinds, strict=True)]
    fields = [pa.field(name, array.type) for name, array in zip(names, arrays, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_schema(fields, mark))


def _schema(fields: list[pa.Field], mark: bytes) -> pa.Schema:
    return pa.schema(fields, metadata={_MARK: mark})
