"""``windowed(...).apply(function, schema)``: one call of a Python function for each firing."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from mullion._bridge.ddl import type_of
from mullion._keyed.calls import FAILURES, failed_call
from mullion._keyed.results import Results
from mullion._native.pane_functions.pane import key_text
from mullion._native.pane_functions.reading import COUNT, Firing, Firings, Heads, Takes, in_pieces
from mullion._util.spark_versions import IN_UTC
from mullion.errors import FunctionError, InvalidArgumentError

LATE_ROW: Final = "late_row"
_MOST_ROWS: Final = 10_000
_MOST_BYTES: Final = 16 << 20
_ITERATOR: Final = re.compile(r"(?:[\w.]*\.)?(?:Iterator|Iterable)\[(.+)\]$")


def applied(
    panes: DataFrame, rows: str, function: Callable[..., Any], schema: StructType | str, max_rows: int
) -> DataFrame:
    """The results of ``function`` for each firing of ``panes``, which has the rows as lists in the column ``rows``."""
    if not callable(function):
        raise InvalidArgumentError(
            f"function={function!r} ({type(function).__name__}) is not a function. Write one of three parameters, as "
            "in def score(key, pane, rows: pandas.DataFrame)."
        )
    takes = takes_of(function)
    returned = schema_of(schema)
    fields = panes.schema.fields
    at = next(i for i, field in enumerate(fields) if field.name == rows)
    before, after = fields[:at], fields[at + 1 :]
    require_other_names(returned, [*before, *after], "schema")
    keys = tuple(field.name for field in before[:-2])
    stage = ApplyStage(function, takes, name_of(function), keys, arrow_of(returned), bool(after), max_rows)
    # The column window keeps its metadata, and so the watermark for operators after this one.
    return in_pieces(panes, rows).mapInArrow(stage, StructType([*before, *returned.fields, *after]))


@final
@dataclass(frozen=True)
class ApplyStage:
    """Calls a function for the firings of a task.

    - ``name``: the function in errors.
    - ``late``: true if late rows are among the firings; they pass without a call.
    - ``max_rows``: the most rows of a pane. The operator checks it too, except for windows that aggregate lists.
    """

    function: Callable[..., Any]
    takes: Takes
    name: str
    keys: tuple[str, ...]
    returned: pa.Schema
    late: bool
    max_rows: int

    @property
    def __name__(self) -> str:
        """The name of the function in plans."""
        return self.name

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        results = Results(self.returned)
        output = Output(self.returned, self.late)
        for firing in Firings(batches, self.keys):
            if firing.pane.firing in ("late", "ahead"):
                yield from output.add(firing.heads, firing.index, None)
                continue
            if firing.count > self.max_rows:
                raise FunctionError(
                    f"The function failed for {self._about(firing)}: it has {firing.count} rows, and "
                    f"max_rows={self.max_rows}. Raise the limit, or use shorter windows or more keys."
                )
            for rows in self._call(firing, results):
                yield from output.add(firing.heads, firing.index, rows)
        yield from output.flush()

    def _call(self, firing: Firing, results: Results) -> Iterator[pa.RecordBatch]:
        try:
            yield from results.batches(self.function(firing.key, firing.pane, firing.rows(self.takes)))
        except FAILURES as error:
            raise failed_call(error, self.function, self.name, self._about(firing)) from error

    def _about(self, firing: Firing) -> str:
        return f"the pane {firing.pane}{key_text(self.keys, firing.key)}, in its firing {firing.pane.firing!r}"


@final
class Output:
    """Joins the results of many firings into batches: key, window, pane, the function's columns, late row."""

    def __init__(self, returned: pa.Schema, late: bool) -> None:
        self._returned = returned
        self._late = late
        self._heads: Heads | None = None
        self._indices: list[int] = []
        self._counts: list[int] = []
        self._parts: list[pa.RecordBatch] = []
        self._rows = 0
        self._bytes = 0

    def add(self, heads: Heads, index: int, rows: pa.RecordBatch | None) -> Iterator[pa.RecordBatch]:
        """Adds rows of a firing; ``None`` for a late row, which has none of the function's columns."""
        if heads is not self._heads:
            yield from self.flush()
            self._heads = heads
        if rows is None:
            rows = pa.RecordBatch.from_arrays([pa.nulls(1, f.type) for f in self._returned], schema=self._returned)
        for start in range(0, rows.num_rows, _MOST_ROWS):
            part = rows.slice(start, _MOST_ROWS)
            self._indices.append(index)
            self._counts.append(part.num_rows)
            self._parts.append(part)
            self._rows += part.num_rows
            self._bytes += part.nbytes
            if self._rows >= _MOST_ROWS or self._bytes >= _MOST_BYTES:
                yield from self.flush()

    def flush(self) -> Iterator[pa.RecordBatch]:
        """The rows so far as one batch."""
        if not self._parts:
            return
        assert self._heads is not None
        columns = pa.Table.from_batches(self._parts, self._returned).combine_chunks().to_batches()[0].columns
        places = [index for index, count in zip(self._indices, self._counts, strict=True) for _ in range(count)]
        heads = self._heads.columns.take(pa.array(places, pa.int64()))
        names = [field.name for field in heads.type if field.name != COUNT]
        facts = [heads.field(name) for name in names]
        # The late row is the last column.
        after = len(names) - 1 if self._late else len(names)
        yield pa.RecordBatch.from_arrays(
            [*facts[:after], *columns, *facts[after:]], [*names[:after], *self._returned.names, *names[after:]]
        )
        self._indices, self._counts, self._parts, self._rows, self._bytes = [], [], [], 0, 0


def takes_of(
    function: Callable[..., Any], parameter: int = 2, example: str = "score(key, pane, rows: pandas.DataFrame)"
) -> Takes:
    """The form in which a function wants its rows, by the annotation of one of its parameters.

    Raises :class:`InvalidArgumentError` for another number of parameters and for other annotations.
    """
    parameters = list(inspect.signature(function).parameters.values())
    positional = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    is_open = any(each.kind is each.VAR_POSITIONAL for each in parameters)
    required = [each for each in positional if each.default is each.empty]
    if len(required) > parameter + 1 or (len(positional) <= parameter and not is_open):
        raise InvalidArgumentError(
            f"{name_of(function)}{inspect.signature(function)} is called with {parameter + 1} arguments. Write it as "
            f"def {example}."
        )
    annotation = positional[parameter].annotation if len(positional) > parameter else inspect.Parameter.empty
    if annotation is inspect.Parameter.empty:
        annotation = "pyarrow.Table"
    text = annotation if isinstance(annotation, str) else _text(annotation)
    each = _ITERATOR.match(text)
    kind = (each[1] if each else text).rpartition(".")[2]
    forms = _ITERATED if each else _PLAIN
    if kind not in forms:
        raise InvalidArgumentError(
            f"{name_of(function)} has rows: {text}, which is not a form that rows have. Annotate the parameter as "
            "pandas.DataFrame, pyarrow.Table, pyarrow.RecordBatch, Iterator[pyarrow.RecordBatch] or "
            "Iterator[pandas.DataFrame]."
        )
    return forms[kind]


_PLAIN: Final[dict[str, Takes]] = {"DataFrame": "frame", "Table": "table", "RecordBatch": "batch"}
_ITERATED: Final[dict[str, Takes]] = {"DataFrame": "frames", "RecordBatch": "batches"}


def _text(annotation: Any) -> str:
    return f"{annotation.__module__}.{annotation.__qualname__}" if isinstance(annotation, type) else str(annotation)


def name_of(function: Callable[..., Any]) -> str:
    """A function's name in errors."""
    return str(getattr(function, "__name__", type(function).__name__))


def schema_of(schema: StructType | str, name: str = "schema") -> StructType:
    """The schema of a function's rows. Raises :class:`InvalidArgumentError` if there are no columns."""
    columns = (
        type_of(schema, name, "score double, label string") if isinstance(schema, str) and schema.strip() else schema
    )
    if not isinstance(columns, StructType) or not columns.fields:
        raise InvalidArgumentError(
            f"{name}={schema!r} has no columns. Write the columns that the function returns as DDL, such as "
            f"{name}='score double, label string', or as a StructType."
        )
    names = [field.name.lower() for field in columns.fields]
    for field in columns.fields:
        if names.count(field.name.lower()) > 1:
            raise InvalidArgumentError(f"{name}={schema!r} has the column {field.name!r} twice. Rename one of them.")
    # The function decides about nulls.
    return StructType([StructField(field.name, field.dataType, True, field.metadata) for field in columns.fields])


def arrow_of(schema: StructType) -> pa.Schema:
    """The schema in Arrow, with times in UTC."""
    return to_arrow_schema(schema, **IN_UTC)


def require_other_names(returned: StructType, others: list[StructField], name: str) -> None:
    """Raises :class:`InvalidArgumentError` for a column of a function that the result has already."""
    names = {field.name.lower(): field.name for field in others}
    for field in returned.fields:
        if field.name.lower() in names:
            raise InvalidArgumentError(
                f"{name}= has the column {field.name!r}, which the result has already: keys, window and pane are added "
                f"to each row. Leave it out of {name}= and of the function's rows, or rename it."
            )
