"""The columns that one window needs of the batches that ``process`` passes to it, in the window's types."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, final

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import NullType, StructType

from mullion._util.codec.arrow import schema_of_text, text_of_schema
from mullion.errors import WindowInputError
from mullion.topics import _types

ROW: Final = pa.schema([("__mullion_row", pa.bool_())])
"""The schema for a window that needs no column: Spark has no rows without columns."""

LEARNT: Final = '{"learnt": '
"""The prefix of the types that a worker sends to the driver in an error."""


@final
@dataclass(frozen=True)
class WindowRows:
    """The columns that a window needs, in types that Spark has.

    - ``guessed``: the columns whose types are guesses.
    - ``learns``: True if the query may restart with other types: the window had no rows when it started.
    """

    window: str
    schema: pa.Schema
    time_column: str | None = None
    guessed: frozenset[str] = frozenset()
    learns: bool = False

    @property
    def spark_schema(self) -> StructType:
        """The Spark schema of the columns."""
        return spark_schema(self.schema)

    def with_guesses(self, types: Mapping[str, pa.DataType]) -> WindowRows:
        """The same columns; guesses are replaced by the types that other windows have."""
        fields = [(f.name, types.get(f.name, f.type) if f.name in self.guessed else f.type) for f in self.schema]
        return replace(self, schema=pa.schema(fields))

    def with_types(self, types: Mapping[str, pa.DataType]) -> WindowRows:
        """The same columns with other types, which are guesses for this window."""
        other = {f.name for f in self.schema if types.get(f.name, f.type) != f.type}
        schema = pa.schema([(f.name, types.get(f.name, f.type)) for f in self.schema])
        return replace(self, schema=schema, guessed=self.guessed | other)

    def of(self, batch: pa.RecordBatch, subscription: str) -> pa.RecordBatch | None:
        """The columns of a batch in the window's types; ``None`` for a batch that lacks a column.

        Raises :class:`WindowInputError` for a column whose values do not all fit the window's type.
        """
        if self.schema.equals(ROW):
            return pa.RecordBatch.from_arrays([pa.nulls(batch.num_rows, pa.bool_())], schema=ROW)
        lacking = [field for field in self.schema if field.name not in batch.schema.names]
        if lacking:
            self._require_known(lacking[0], batch, subscription)
            return None
        columns = []
        for field in self.schema:
            try:
                columns.append(self._fit(batch.column(field.name), field))
            except _UnfitError as unfit:
                says = f"process of {subscription} gave the window {self.window!r} a batch whose column {field.name!r} "
                types = self._types_in(batch) if unfit.may_be_learnt and self.learns else {}
                raise WindowInputError(
                    says + unfit.says + (f"\n{learnt(self.window, types)}" if types else "")
                ) from None
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _require_known(self, field: pa.Field, batch: pa.RecordBatch, subscription: str) -> None:
        if batch.num_rows and field.name in self.guessed and pa.types.is_null(field.type):
            raise WindowInputError(
                f"process of {subscription} gave the window {self.window!r} a batch without the column {field.name!r} "
                "that it needs, and the topic has none. Name the column that it has, or give it in process."
            )

    def _fit(self, column: pa.Array, field: pa.Field) -> pa.Array:
        if column.type == field.type:
            return column
        if column.null_count == len(column):
            return pa.nulls(len(column), field.type)
        try:
            have, want = _types.of_arrow(column.type), _types.of_arrow(field.type)
        except _types.UnstorableError as error:
            raise _UnfitError(
                f"has the Arrow type {column.type}, and a window takes no {error}. Cast it in process, for instance "
                "with .cast(pa.int64()).",
                may_be_learnt=False,
            ) from None
        if field.name == self.time_column and not _types.fits(have, want):
            raise _UnfitError(
                f"is {column.type}, and time_column= has to be int64: milliseconds since the epoch. Cast or parse it "
                "in process.",
                may_be_learnt=False,
            )
        if not _types.fits(have, want) or (field.name in self.guessed and have != want):
            taken = "nothing is known of it" if isinstance(want, NullType) else f"the window has {field.type} for it"
            raise _UnfitError(
                f"is {column.type}, and {taken} since the query began. Give the window one type, whatever the rows "
                "and when there are none: cast it in process.",
                may_be_learnt=have != want,
            )
        try:
            if pa.types.is_integer(column.type):
                # Beyond 2^53 not every integer is a float.
                return column.cast(field.type)
            return _types.fit_array(pa.chunked_array([column]), field.type).combine_chunks()
        except pa.ArrowInvalid as error:
            raise _UnfitError(
                f"is {column.type}, and the window has {field.type} for it: {error}. Cast it in process.",
                may_be_learnt=False,
            ) from None

    def _types_in(self, batch: pa.RecordBatch) -> dict[str, pa.DataType]:
        types = {}
        for name in self.schema.names:
            column = batch.column(name)
            if column.null_count < len(column) and name != self.time_column:
                types[name] = plain(column.type)
        return {name: kind for name, kind in types.items() if kind is not None}


class _UnfitError(Exception):
    def __init__(self, says: str, *, may_be_learnt: bool) -> None:
        super().__init__(says)
        self.says = says
        self.may_be_learnt = may_be_learnt


def plain(kind: pa.DataType) -> pa.DataType | None:
    """The type that Spark has for an Arrow type, as in topics; ``None`` if it has none."""
    try:
        return _types.arrow_of(_types.of_arrow(kind))
    except _types.UnstorableError:
        return None


def spark_schema(schema: pa.Schema) -> StructType:
    """The Spark schema of rows with plain types."""
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


def fit_into(have: pa.DataType, want: pa.DataType) -> bool:
    """Returns True if all values of a type are values of another one."""
    return have == want or _types.fits(_types.of_arrow(have), _types.of_arrow(want))


def has_null(kind: pa.DataType) -> bool:
    """Returns True if a type, or a type within it, is unknown."""
    return pa.types.is_null(kind) or any(has_null(kind.field(i).type) for i in range(kind.num_fields))


def learnt(window: str, types: Mapping[str, pa.DataType]) -> str:
    """The text with which a worker reports the types of a window's first rows to the driver."""
    return json.dumps({"learnt": text_of(types), "window": window})


def text_of(types: Mapping[str, pa.DataType]) -> str:
    """Types by name as text."""
    return text_of_schema(pa.schema(list(types.items())))


def types_of(text: str) -> dict[str, pa.DataType]:
    """The types that :func:`text_of` wrote."""
    return {field.name: field.type for field in schema_of_text(text)}
