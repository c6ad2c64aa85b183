"""The columns of a topic as most of its messages have them: an odd one among them changes nothing.

Each field of each message has a type of its own, or none. Types are counted by field, and the commonest is the field's,
as wide as it must be for the others that it has a union with::

    {"n": 1}  {"n": 2.5}  {"n": "x"}  {"n": 4}  {"N": 1}      n double; "x" and N do not fit
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyspark.sql.types as T

from mullion._codec.json import is_deep
from mullion.topics import _types
from mullion.topics._broker import UNFIT
from mullion.topics._records import DEEPEST, RESERVED


def schema_of_most(records: Iterable[Mapping[str, Any]]) -> T.StructType:
    """The columns of records; none where there is not one field that can be a column."""
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
        # Spark takes names that differ in case alone for one.
        ((name, _),) = spellings.most_common(1)
        made: T.DataType = T.NullType()
        for kind, _ in sorted(kinds[name].values(), key=lambda one: -one[1]):
            made = _joined(made, kind)
        fields.append(T.StructField(name, made))
    return T.StructType(fields)


def _is_name(name: str) -> bool:
    # A zero character at the beginning is a mark of the topics' own.
    return bool(name) and "\n" not in name and name[0] != "\0" and name not in (*RESERVED, UNFIT)


def _kind_of(value: Any) -> T.DataType | None:
    """The type of a value as a column would have it; ``None`` where it has none."""
    if is_deep(value, DEEPEST) or (isinstance(value, float) and not math.isfinite(value)):
        return None
    try:
        return _plain(_types.of_arrow(pa.array([value]).type))
    except (pa.ArrowException, OverflowError, TypeError, ValueError, _types.UnstorableError):
        return None


def _plain(kind: T.DataType) -> T.DataType:
    """A type without fields that have no name, or one that Spark takes for another's."""
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
