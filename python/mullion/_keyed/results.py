"""The rows that a function returns, checked against its schema."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, final

import pyarrow as pa

_MOST_ROWS: Final = 10_000


class WrongResultError(Exception):
    """A result that is not of the schema. The message ends a sentence that begins with the function's name."""


@final
class Results:
    """Converts the results of a function into Arrow batches of ``schema``.

    A result is a DataFrame of pandas, a Table or RecordBatch of Arrow, a row as a dict, or an iterable of these, such
    as a generator. ``None`` has no rows. Columns are found by name. Values are converted only if none is lost; naive
    times are in UTC.

    - ``owner``: the part of the program whose schema it is, in messages.
    - ``converts``: returns False for types that Arrow converts although values of the first are none of the second.
    """

    def __init__(
        self,
        schema: pa.Schema,
        owner: str = "the schema",
        converts: Callable[[pa.DataType, pa.DataType], bool] | None = None,
    ) -> None:
        self.schema = schema
        self._owner = owner
        self._converts = converts
        self._names: list[str] = schema.names
        self._set = set(self._names)

    def batches(self, result: Any) -> Iterator[pa.RecordBatch]:
        """The rows of a result. Raises :class:`WrongResultError`."""
        if result is None:
            return
        if isinstance(result, dict):
            yield self._of_rows([result])
        elif (batches := self._of_columns(result)) is not None:
            yield from batches
        else:
            yield from self._of_items(_items(result))

    def _of_columns(self, result: Any) -> list[pa.RecordBatch] | None:
        if isinstance(result, pa.RecordBatch):
            return [self.fitted(result)]
        if isinstance(result, pa.Table):
            return [self.fitted(batch) for batch in result.to_batches()]
        if is_frame(result):
            return [self._of_frame(result)]
        return None

    def _of_items(self, items: Iterable[Any]) -> Iterator[pa.RecordBatch]:
        rows: list[dict[str, Any]] = []
        for item in items:
            if isinstance(item, dict):
                rows.append(item)
                if len(rows) == _MOST_ROWS:
                    yield self._of_rows(rows)
                    rows = []
                continue
            if rows:
                yield self._of_rows(rows)
                rows = []
            batches = self._of_columns(item)
            if batches is None:
                raise WrongResultError(f"yielded {_shown(item)}, which is not a row. {_FORMS}")
            yield from batches
        if rows:
            yield self._of_rows(rows)

    def _of_rows(self, rows: list[dict[str, Any]]) -> pa.RecordBatch:
        for row in rows:
            if row.keys() != self._set:
                raise self._other_columns(list(row))
        arrays = [self._array(field, [row[field.name] for row in rows]) for field in self.schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _of_frame(self, frame: Any) -> pa.RecordBatch:
        names = list(frame.columns)
        if names != self._names and (len(names) != len(self._set) or set(names) != self._set):
            raise self._other_columns(names)
        arrays = [self._array(field, frame[field.name]) for field in self.schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def fitted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch in the columns of the schema. Raises :class:`WrongResultError`."""
        if batch.schema.equals(self.schema):
            return batch
        names = batch.schema.names
        if len(names) != len(self._set) or set(names) != self._set:
            raise self._other_columns(names)
        arrays = []
        for field in self.schema:
            column = batch.column(field.name)
            try:
                arrays.append(column if column.type == field.type else self._cast(column, field.type))
            except (pa.ArrowException, ValueError, TypeError) as error:
                raise WrongResultError(
                    f"returned the column {field.name!r} as {column.type}, and {self._owner} has it as {field.type}: "
                    f"{_first_line(error)}. Cast it in the function, or change schema=."
                ) from error
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _cast(self, column: pa.Array, kind: pa.DataType) -> pa.Array:
        if self._converts is not None and not self._converts(column.type, kind):
            raise TypeError("its values are not of that type")
        return column.cast(kind)

    def _array(self, field: pa.Field, values: Any) -> pa.Array:
        try:
            array = pa.array(values, field.type, from_pandas=True)
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            raise WrongResultError(
                f"returned values of the column {field.name!r} that are not {field.type}, as {self._owner} has it: "
                f"{_first_line(error)}. Convert them in the function, or change schema=."
            ) from error
        # Extension types of pandas may come in chunks.
        return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array

    def _other_columns(self, names: list[Any]) -> WrongResultError:
        return WrongResultError(
            f"returned the columns {_listed(names)}, and {self._owner} has {_listed(self._names)}. Return exactly "
            "these columns, or change schema=."
        )


_FORMS: Final = (
    "Return a pandas DataFrame, a pyarrow Table or RecordBatch, dicts, an iterator of these, or None for no rows."
)


def flattened(results: Iterable[Any]) -> Iterator[Any]:
    """The rows of several results as one, each of which is in any form of a result."""
    for result in results:
        if result is None:
            continue
        if isinstance(result, (dict, pa.RecordBatch, pa.Table)) or is_frame(result):
            yield result
        else:
            yield from _items(result)


def _items(result: Any) -> Iterable[Any]:
    if isinstance(result, Iterable) and not isinstance(result, (str, bytes)):
        return result
    raise WrongResultError(f"returned {_shown(result)}, which is not rows. {_FORMS}")


def is_frame(result: Any) -> bool:
    """True for a DataFrame of pandas."""
    kind = type(result)
    return any(each.__name__ == "DataFrame" and each.__module__.partition(".")[0] == "pandas" for each in kind.__mro__)


def _shown(value: Any) -> str:
    return f"{repr(value)[:200]} ({type(value).__name__})"


def _listed(names: list[Any]) -> str:
    return ", ".join(map(repr, names)) or "none"


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
