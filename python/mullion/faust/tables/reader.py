"""Tables as DataFrames, read from a program's checkpoint by any process."""

from __future__ import annotations

import dataclasses
import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from mullion._util.codec import values as codec
from mullion._util.codec.json import plain
from mullion.errors import InvalidArgumentError
from mullion.faust.tables.records import _LENGTH, _TIMES, _hash
from mullion.faust.tables.table import Table

_PLAIN = "key string, value string"
_WINDOWED = "key string, window struct<start: timestamp, end: timestamp>, value string"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class TableReader:
    """A table of a program, as of its last committed batch."""

    def __init__(self, table: Table, checkpoint: Path, spark: Callable[[], SparkSession]) -> None:
        self._table = table
        self._checkpoint = checkpoint
        self._spark = spark

    def read(self) -> DataFrame:
        """Returns the table: ``key`` and ``value`` as JSON text, and for a window ``window`` (``start``, ``end``).

        Floats that JSON lacks are ``NaN``, ``Infinity`` and ``-Infinity``. A key of a dict that is not text, such as a
        tuple, is its JSON text.

        For a sliding window, both ends are the time of the changes, and the value is the list of changes. Raises
        :class:`InvalidArgumentError` if the program has not run yet.
        """
        from mullion._keyed.api import read_state

        windowed = self._table.window is not None
        records = read_state(self._checkpoint, spark=self._spark())
        return records.mapInArrow(_Decode(self._table.name, windowed), _WINDOWED if windowed else _PLAIN)


class _Decode:
    """Filters and decodes the records of one table. It runs in Python workers."""

    def __init__(self, table: str, windowed: bool) -> None:
        self._table = table
        self._windowed = windowed

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields the table's rows among the records of a shard."""
        for batch in batches:
            rows = zip(batch["key"].to_pylist(), batch["value"].to_pylist(), strict=True)
            decoded = [row for record, value in rows for row in self._row(record, value)]
            kinds = [("key", pa.string()), ("value", pa.string())]
            if self._windowed:
                ends = pa.struct([("start", pa.timestamp("us", "UTC")), ("end", pa.timestamp("us", "UTC"))])
                kinds.insert(1, ("window", ends))
            yield pa.RecordBatch.from_pylist(decoded, schema=pa.schema(kinds))

    def _row(self, record: bytes, value: bytes) -> Iterator[dict[str, object]]:
        if not self._windowed:
            if record[:8] == _hash(self._table, b"v"):
                yield {"key": _text(record[8:]), "value": _text(value)}
            return
        if len(record) < 12:
            return
        (length,) = _LENGTH.unpack_from(record, 8)
        key = record[12 : 12 + length]
        if len(record) == 12 + length + _TIMES.size and record[:8] == _hash(self._table, b"r", key):
            start, end = (_EPOCH + timedelta(microseconds=us) for us in _TIMES.unpack(record[-_TIMES.size :]))
            yield {"key": _text(key), "window": {"start": start, "end": end}, "value": _text(value)}


def _text(written: bytes) -> str:
    return json.dumps(_readable(codec.decode(written)), ensure_ascii=False)


def _readable(value: Any) -> Any:
    """Converts a value to the types of JSON. A part without JSON form must not hide the rest of the table."""
    try:
        return plain(value)
    except InvalidArgumentError:
        pass
    if hasattr(value, "to_fields"):
        return {name: _readable(content) for name, content in value.to_fields().items()}
    if dataclasses.is_dataclass(value):
        return {field.name: _readable(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {_readable_key(key): _readable(content) for key, content in value.items()}
    if isinstance(value, (list, tuple, deque)):
        return [_readable(content) for content in value]
    if isinstance(value, (set, frozenset)):
        return sorted(map(_readable, value), key=str)
    if isinstance(value, Enum):
        return _readable(value.value)
    if isinstance(value, (np.generic, np.ndarray)):
        return _readable(value.tolist())
    return value if isinstance(value, float) else str(value)


def _readable_key(key: Any) -> str:
    readable = _readable(key)
    return readable if isinstance(readable, str) else json.dumps(readable, ensure_ascii=False)
