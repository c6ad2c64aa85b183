"""JSON values, of any shape, on their way from a worker to a publisher.

Values that follow one another and are alike are a RecordBatch whose columns hold each of them as it is. All others are
their texts, in a batch with the one column :data:`TEXT`::

    {"n": 1}, {"n": null}      n bigint
    {"n": 1}, {"n": 2.5}       _json: '{"n": 1}', '{"n": 2.5}'
    5, 6                       value bigint, of values that are no records

Such batches are marked, for a publisher that has columns of its own sees to it that nothing of a value is lost there.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from types import NoneType
from typing import Any, Final

import pyarrow as pa
import pyspark.sql.types as T

from mullion._codec.json import is_deep, is_text, text_of
from mullion.topics import _types
from mullion.topics._records import DEEPEST, RESERVED, TEXT, VALUE

_MARK: Final = b"mullion.json"
_RECORDS, _VALUES, _TEXTS = b"records", b"values", b"texts"
_NESTED: Final = (list, dict)


class InexactError(Exception):
    """Values of which no column holds each as it is."""


def texts(values: Sequence[Any], *, raw: bool = False) -> pa.RecordBatch:
    """Values as their texts; ``raw`` ones are texts already, for a broker that takes text."""
    made = pa.array(values if raw else [text_of(value) for value in values], pa.string())
    return pa.RecordBatch.from_arrays([made], schema=_schema([pa.field(TEXT, pa.string())], _TEXTS))


def batches(values: Sequence[Any]) -> Iterator[pa.RecordBatch]:
    """Values in order, in columns where these hold each as it is."""
    for names, alike in itertools.groupby(values, lambda value: list(value) if type(value) is dict else None):
        rows = list(alike)
        try:
            yield _in_columns(names, rows)
        except InexactError:
            yield texts(rows)


def is_json(batch: pa.RecordBatch | pa.Table) -> bool:
    """Whether a batch was made here."""
    return _MARK in (batch.schema.metadata or {})


def has_texts(batch: pa.RecordBatch) -> bool:
    """Whether a batch that was made here has texts, and no columns."""
    return bool(batch.schema.metadata[_MARK] == _TEXTS)


def has_records(batch: pa.RecordBatch) -> bool:
    """Whether a batch that was made here has the columns of records."""
    return bool(batch.schema.metadata[_MARK] == _RECORDS)


def values_in(batch: pa.RecordBatch) -> list[Any]:
    """The values of a batch that was made here."""
    if has_texts(batch):
        return [json.loads(text) for text in batch[TEXT].to_pylist()]
    return list(batch.to_pylist()) if has_records(batch) else list(batch[VALUE].to_pylist())


def texts_in(batch: pa.RecordBatch) -> list[str]:
    """The same as texts."""
    return list(batch[TEXT].to_pylist()) if has_texts(batch) else [text_of(value) for value in values_in(batch)]


def is_column(name: str) -> bool:
    """Whether a field may have a column of its name."""
    # A zero character at the beginning is a mark of the topics' own.
    return bool(name) and "\n" not in name and name[0] != "\0" and name not in RESERVED and is_text(name)


def exact_kind(values: Sequence[Any]) -> T.DataType:
    """The type of a column that holds each value as it is; raises :class:`InexactError` where there is none."""
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
        # That is how values look that are no records.
        raise InexactError
    if not names:
        # Rows, and nothing in them.
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
