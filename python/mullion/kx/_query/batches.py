"""Batches with their metadata, which operators exchange, and their forms in Spark.

A stream is in one of three forms, which a worker or the driver reads as batches::

    rows     columns of records           one batch for each task and micro-batch
    panes    window, pane, rows           one batch for each firing; late records are a batch
    tables   at, meta, data               one batch a row, as Arrow IPC streams

Windows emit panes, and operators without Python functions keep that form; functions emit tables.
"""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import pyarrow as pa

from mullion._native.pane_functions.reading import Firings
from mullion._util.codec.arrow import encoded, table_in
from mullion._util.codec.windows import interval_text, time_of

Form: TypeAlias = Literal["rows", "panes", "tables"]

Data: TypeAlias = pa.Table | list[pa.Table]
"""A batch; in windows with mixed schemas a list of batches."""

AT: Final = "_mullion_at"
"""The position of a row in its micro-batch, for streams whose order must survive a shuffle."""

TABLES: Final = "at bigint, meta string, data array<binary>, many boolean"
"""Batches as rows, as DDL: their positions in the micro-batch, their metadata as JSON, and their tables."""


_TABLES: Final = pa.schema(
    [("at", pa.int64()), ("meta", pa.string()), ("data", pa.list_(pa.binary())), ("many", pa.bool_())]
)
_LATE: Final = "late"

CLOSING: Final = "closing"
"""The firing of a window that has emitted all its records before, if empty windows are skipped."""


@dataclass(frozen=True)
class Batch:
    data: Data
    meta: Meta

    @property
    def tables(self) -> list[pa.Table]:
        """Its tables, one for each schema."""
        return self.data if isinstance(self.data, list) else [self.data]

    @property
    def rows(self) -> int:
        """The number of records."""
        return sum(table.num_rows for table in self.tables)

    @property
    def text(self) -> str:
        """The batch in errors."""
        if self.meta.window is None:
            return f"a batch of {self.rows} {'late ' if self.meta.late else ''}records"
        return f"the window {interval_text(*self.meta.bounds)}"


@dataclass(frozen=True)
class Meta:
    """The metadata of a batch. ``window`` is in microseconds if ``clocked``, else in numbers of records.

    ``right``: True for batches from the right stream of a ``merge``. ``closing``: True for a batch without records that
    marks the end of a window; all records of the window came before it.
    """

    batch: int
    window: tuple[int, int] | None = None
    clocked: bool = False
    partial: bool = False
    late: bool = False
    right: bool = False
    closing: bool = False

    @property
    def bounds(self) -> tuple[Any, Any]:
        """The start and the end of the window, as functions get them."""
        assert self.window is not None
        start, end = self.window
        return (time_of(start), time_of(end)) if self.clocked else (start, end)

    def shown(self) -> dict[str, Any]:
        """The metadata for functions."""
        metadata: dict[str, Any] = {"batch": self.batch}
        if self.window is not None:
            metadata |= {"window": self.bounds, "partial": self.partial}
        if self.late:
            metadata["late"] = True
        return metadata

    def text(self) -> str:
        """The metadata as text, for transport through Spark."""
        return json.dumps([self.batch, self.window, self.clocked, self.partial, self.late, self.right, self.closing])

    @classmethod
    def read(cls, text: str) -> Meta:
        """Parses the result of :meth:`text`."""
        batch, window, *flags = json.loads(text)
        return cls(batch, None if window is None else (window[0], window[1]), *flags)


def batches_in(form: Form, rows: Iterable[pa.RecordBatch], number: int, *, mixed: bool = False) -> Iterator[Batch]:
    """The batches in a micro-batch's data from Spark; ``number`` is the micro-batch's number.

    ``mixed``: True if the records have mixed schemas; a window's one column has each record with its schema.
    """
    if form == "tables":
        yield from _in_tables(rows)
    elif form == "panes":
        yield from _in_panes(rows, number, mixed)
    else:
        yield from _in_rows(rows, number)


def _in_rows(rows: Iterable[pa.RecordBatch], number: int) -> Iterator[Batch]:
    parts = [batch for batch in rows if batch.num_rows]
    if not parts:
        return
    table = pa.Table.from_batches(parts)
    if AT in table.column_names:
        table = table.sort_by(AT).drop_columns([AT])
    yield Batch(table.combine_chunks(), Meta(number))


def _in_panes(panes: Iterable[pa.RecordBatch], number: int, mixed: bool) -> Iterator[Batch]:
    late: list[pa.Table] = []
    for each in Firings(panes, (), "rows"):
        table, firing, heads = each.table(), each.pane.firing, each.heads
        if firing == _LATE:
            late.append(table)
            continue
        window, partial = heads.bounds[each.index], firing not in ("close", CLOSING)
        meta = Meta(number, window, heads.is_clocked, partial, closing=firing == CLOSING)
        yield Batch(list(unmixed(table)) if mixed else table, meta)
    if late:
        yield Batch(pa.concat_tables(late).combine_chunks(), Meta(number, late=True))


def _in_tables(batches: Iterable[pa.RecordBatch]) -> Iterator[Batch]:
    rows = [row for batch in batches for row in batch.to_pylist()]
    for row in sorted(rows, key=lambda row: row["at"]):
        tables = [table_in(piece) for piece in row["data"]]
        yield Batch(tables if row["many"] else tables[0], Meta.read(row["meta"]))


def as_tables(batches: Iterable[Batch], partition: int) -> Iterator[pa.RecordBatch]:
    """Batches as rows :data:`TABLES`."""
    for index, batch in enumerate(batches):
        row = {
            "at": (partition << 33) + index,
            "meta": batch.meta.text(),
            "data": [encoded(table) for table in batch.tables],
            "many": isinstance(batch.data, list),
        }
        yield pa.RecordBatch.from_pylist([row], _TABLES)


MIXED: Final = "batch bigint, record binary"
"""Records of mixed schemas, as DDL: the number of the batch, and the record as an Arrow IPC stream with its schema."""

_MIXED: Final = pa.schema([("batch", pa.int64()), ("record", pa.binary())])


def mixed_records(batches: Iterable[Batch], partition: int) -> Iterator[pa.RecordBatch]:
    """Records of batches as rows :data:`MIXED`."""
    for index, batch in enumerate(batches):
        for part, table in enumerate(batch.tables):
            # The numbers only need to differ between adjacent batches.
            place = (batch.meta.batch, 12), (partition, 20), (index, 10), (part, 0)
            number = functools.reduce(lambda so_far, each: so_far + each[0] << each[1], place, 0) % 2**63
            records = [encoded(table.slice(row, 1)) for row in range(table.num_rows)]
            if records:
                yield pa.RecordBatch.from_arrays([pa.array([number] * len(records)), pa.array(records)], schema=_MIXED)


def unmixed(records: pa.Table | pa.RecordBatch) -> Iterator[pa.Table]:
    """The batches in rows :data:`MIXED`, in their order."""
    numbers, encodings = records.column("batch").to_pylist(), records.column("record").to_pylist()
    for _, group in itertools.groupby(zip(numbers, encodings, strict=True), key=lambda each: each[0]):
        yield pa.concat_tables(table_in(record) for _, record in group).combine_chunks()
