"""Checks that all batches that a callback returns have one schema, so that its topic can be read.

A column of nulls alone has no type and fits any type: it gets the type that the column has in other batches.
"""

from __future__ import annotations

import pyarrow as pa


def difference(before: pa.Schema, now: pa.Schema) -> str | None:
    """A description of the first column of ``now`` that does not fit ``before``; ``None`` if all columns fit."""
    for field in before:
        if field.name not in now.names:
            return f"the column {field.name!r} ({field.type}) is missing"
    for field in now:
        if field.name not in before.names:
            return f"the column {field.name!r} ({field.type}) is new"
        kind = before.field(field.name).type
        if not _fits(kind, field.type):
            return f"the column {field.name!r} is {field.type}, and was {kind}"
    return None


def merged(before: pa.Schema, now: pa.Schema) -> pa.Schema:
    """``before``, with the types of ``now`` for columns that were all null. The two schemas must fit."""
    return pa.schema([pa.field(field.name, _merge_types(field.type, now.field(field.name).type)) for field in before])


def _fits(a: pa.DataType, b: pa.DataType) -> bool:
    if a == b or pa.types.is_null(a) or pa.types.is_null(b):
        return True
    if _is_list(a) and _is_list(b):
        return _fits(a.value_type, b.value_type)
    if pa.types.is_struct(a) and pa.types.is_struct(b):
        names = [field.name for field in a]
        return names == [field.name for field in b] and all(_fits(a.field(n).type, b.field(n).type) for n in names)
    return False


def _merge_types(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    if pa.types.is_null(a):
        return b
    if _is_list(a) and _is_list(b):
        return pa.list_(_merge_types(a.value_type, b.value_type))
    if pa.types.is_struct(a) and pa.types.is_struct(b):
        return pa.struct([pa.field(f.name, _merge_types(f.type, b.field(f.name).type)) for f in a])
    return a


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))
