"""Infers the columns of a topic from the majority of its messages: a single deviating one has no effect.

Each field of each message has a type, or none. Types are counted by field; the most frequent one is used, widened for
other types that it has a union with::

    {"n": 1}  {"n": 2.5}  {"n": "x"}  {"n": 4}  {"N": 1}      n double; "x" and N do not fit
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyspark.sql.types as T

from mullion._util.codec.json import is_deep
from mullion.topics import _types
from mullion.topics._broker import UNFIT
from mullion.topics._records import DEEPEST, RESERVED


def schema_of_most(records: Iterable[Mapping[str, Any]]) -> T.StructType:
    """The columns of records; none if no field can be a column."""
    kinds: dict[str, dict[str, tuple[T.DataType, int]]] = {}
    names: dict[str, Counter[str]] = {}
    for record in records:
        for name, value in record.items():
            kind = _kind_of(value) if _is_name(name) else None
            if kind is not None:
                names.setdefault(name.lower(), Counter())[name] += 1
                counts = kinds.setdefault(name, {})
                text = kind.json()
                counts[text] = (kind, counts.get(text, (kind, 0))[1] + 1)
    fields = []
    for spellings in names.values():
        # Spark ignores case in names.
        ((name, _),) = spellings.most_common(1)
        joined: T.DataType = T.NullType()
        for kind, _ in sorted(kinds[name].values(), key=lambda one: -one[1]):
            joined = _joined(joined, kind)
        fields.append(T.StructField(name, joined))
    return T.StructType(fields)


def _is_name(name: str) -> bool:
    # An initial zero character is reserved for marks.
    return bool(name) and "\n" not in name and name[0] != "\0" and name not in (*RESERVED, UNFIT)


def _kind_of(value: Any) -> T.DataType | None:
    """The type of a value as a column; ``None`` if there is none."""
    if is_deep(value, DEEPEST) or (isinstance(value, float) and not math.isfinite(value)):
        return None
    try:
        return _plain(_types.of_arrow(pa.array([value]).type))
    except (pa.ArrowException, OverflowError, TypeError, ValueError, _types.UnstorableError):
        return None


def _plain(kind: T.DataType) -> T.DataType:
    """A type without fields that have empty names, or names that Spark cannot distinguish."""
    match kind:
        case T.StructType():
            fields: dict[str, T.StructField] = {}
            for field in kind:
                if _is_name(field.name):
                    fields.setdefault(field.name.lower(), T.StructField(field.name, _plain(field.dataType)))
            return T.StructType(list(fields.values())) if fields else T.NullType()
        case T.ArrayType():
            return T.ArrayType(_plain(kind.elementType))
    return kind


def _joined(left: T.DataType, right: T.DataType) -> T.DataType:
    try:
        return _types.union("", left, right)
    except _types.ConflictError:
        return left
