"""The firings in the Arrow batches of a task.

Rows come in one of two layouts::

    lists     key..., window, pane, rows: list<struct>      a row for each firing
    pieces    head: struct<key..., window, pane, count>     a row for each row of a pane; the first one of each firing
              row: struct                                   has the head, and a firing without rows is a head alone

A large pane crosses several batches of pieces, and one batch has many small panes. Both are read without a copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal, TypeAlias, final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from mullion._bridge.request import quoted
from mullion._native.pane_functions.pane import Pane, panes_in

Takes: TypeAlias = Literal["frame", "table", "batch", "batches", "frames"]
"""The form in which a function gets rows."""

COUNT: Final = "_mullion_count"
ROWS: Final = "_mullion_rows"
_HEAD, _BEGINS, _AT, _ROW = "head", "begins", "at", "row"


def in_pieces(panes: DataFrame, rows: str) -> DataFrame:
    """Panes with lists in the column ``rows``, as pieces.

    The lists of large panes come in parts: structs with the part, and with the number of all rows in the first one.
    """
    facts = [sf.col(quoted(name)) for name in panes.columns if name != rows]
    column = sf.col(quoted(rows))
    if isinstance(panes.schema[rows].dataType, StructType):
        total, part = column["total"], column["rows"]
        # A late row has no rows.
        begins = column.isNull() | total.isNotNull()
    else:
        total, part, begins = sf.size(column), column, sf.lit(True)
    head = sf.struct(*facts, sf.coalesce(total, sf.lit(0)).alias(COUNT))
    flat = panes.select(head.alias(_HEAD), begins.alias(_BEGINS), sf.posexplode_outer(part).alias(_AT, _ROW))
    is_first = sf.col(_BEGINS) & (sf.coalesce(_AT, sf.lit(0)) == 0)
    return flat.select(sf.when(is_first, sf.col(_HEAD)).alias(_HEAD), _ROW)


@final
class Heads:
    """The keys and panes of the firings that begin in one batch.

    - ``bounds``: their windows as ints, microseconds if ``is_clocked``, else numbers of rows.
    """

    def __init__(self, heads: pa.StructArray, keys: tuple[str, ...]) -> None:
        self.columns = heads
        self.panes: list[Pane] = panes_in(heads.field("window"), heads.field("pane"))
        window = heads.field("window")
        self.is_clocked = pa.types.is_timestamp(window.type.field("start").type)
        starts, ends = (window.field(bound).cast(pa.int64()).to_pylist() for bound in ("start", "end"))
        self.bounds: list[tuple[int, int]] = list(zip(starts, ends, strict=True))
        fields = [heads.field(name).to_pylist() for name in keys]
        self.keys: list[tuple[Any, ...]] = list(zip(*fields, strict=True)) if keys else [()] * len(heads)

    def window(self, index: int) -> tuple[int, ...]:
        """The part of a window that does not change. The window of a global pane ends with its newest row."""
        start, end = self.bounds[index]
        return (start, end) if self.is_clocked else (start,)

    def join(self, counts: list[int]) -> None:
        """Moves the rows of early firings to the last of consecutive ones of one window, for which no panes merged."""
        for last in range(1, len(counts)):
            first = last - 1
            one, other = self.panes[first], self.panes[last]
            if (
                self.window(first) == self.window(last)
                and one.firing == other.firing == "early"
                and not one.merged
                and self.keys[first] == self.keys[last]
            ):
                counts[first], counts[last] = 0, counts[first] + counts[last]


@final
class Firing:
    """One firing and its rows. Rows that are not read before the next firing are skipped."""

    __slots__ = ("_source", "_unread", "count", "heads", "index", "key", "pane")

    def __init__(self, source: Firings, heads: Heads, index: int, count: int) -> None:
        self.heads = heads
        self.index = index
        self.key = heads.keys[index]
        self.pane = heads.panes[index]
        self.count = count
        self._source = source
        self._unread = count

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Its rows, as batches of a bounded number of rows."""
        while self._unread:
            part = self._source.take(self._unread)
            self._unread -= part.num_rows
            yield part

    def table(self) -> pa.Table:
        """Its rows in one table."""
        batches = list(self.batches())
        return pa.Table.from_batches(batches, self._source.schema)

    def frame(self) -> Any:
        """Its rows as a pandas DataFrame of its own."""
        if 0 < self._unread == self.count:
            part = self._source.take_frame(self.count)
            if part is not None:
                self._unread = 0
                return part
        return self.table().to_pandas()

    def rows(self, takes: Takes) -> Any:
        """Its rows in the form that a function takes."""
        match takes:
            case "frame":
                return self.frame()
            case "table":
                return self.table()
            case "batch":
                table = self.table().combine_chunks()
                return next(iter(table.to_batches()), None) or pa.RecordBatch.from_pylist([], table.schema)
            case "batches":
                return self.batches()
            case "frames":
                return (batch.to_pandas() for batch in self.batches())

    def skip(self) -> None:
        """Skips the rows that are left."""
        for _ in self.batches():
            pass


@final
class Firings:
    """The firings of a task, in order.

    - ``keys``: the names of the key columns.
    - ``rows``: the column of the lists; batches without it are pieces.
    - ``joins``: true if consecutive early firings of a pane are read as one.
    """

    def __init__(
        self, batches: Iterable[pa.RecordBatch], keys: tuple[str, ...], rows: str | None = None, *, joins: bool = False
    ) -> None:
        self._batches = iter(batches)
        self._keys = keys
        self._lists = rows
        self._joins = joins
        self._heads: pa.StructArray | None = None
        self._counts: list[int] = []
        self._rows: pa.RecordBatch | None = None
        self._at = 0
        self._frame: Any = None

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows."""
        assert self._rows is not None
        return self._rows.schema

    def __iter__(self) -> Iterator[Firing]:
        while self._heads is not None or self._load():
            assert self._heads is not None
            counts, heads, self._heads = self._counts, Heads(self._heads, self._keys), None
            if self._joins:
                heads.join(counts)
            for index, count in enumerate(counts):
                firing = Firing(self, heads, index, count)
                yield firing
                firing.skip()

    def take(self, most: int) -> pa.RecordBatch:
        """The next rows of the current firing, at least one."""
        assert self._rows is not None
        if self._at == self._rows.num_rows:
            if not self._load():
                raise EOFError("A pane ended before its last row.")
            return self.take(most)
        part = self._rows.slice(self._at, most)
        self._at += part.num_rows
        return part

    def take_frame(self, count: int) -> Any:
        """The next rows as a DataFrame, from one conversion of the batch; ``None`` if that is not possible.

        pandas has no null in integers and booleans. A column with one has another type, which must not depend on the
        other panes of the batch.
        """
        assert self._rows is not None
        if self._rows.num_rows - self._at < count:
            return None
        if self._frame is None:
            self._frame = False if any(map(_changes_type, self._rows.columns)) else self._rows.to_pandas()
        if self._frame is False:
            return None
        start, self._at = self._at, self._at + count
        return self._frame.iloc[start : self._at].reset_index(drop=True)

    def _load(self) -> bool:
        batch = next(self._batches, None)
        if batch is None:
            return False
        rows: pa.StructArray
        if self._lists not in batch.schema.names:
            head, rows = batch.column(0), batch.column(1)
            self._heads = head.drop_null() if head.null_count else head
            rows = rows.drop_null() if rows.null_count else rows
            self._counts = self._heads.field(COUNT).to_pylist()
        else:
            lists = batch.column(self._lists)
            names = [name for name in batch.schema.names if name != self._lists]
            self._heads = pa.StructArray.from_arrays([batch.column(name) for name in names], names=names)
            rows = lists.flatten()
            self._counts = lists.value_lengths().fill_null(0).to_pylist()
        self._rows = pa.RecordBatch.from_struct_array(rows)
        self._at = 0
        self._frame = None
        return True


def _changes_type(column: pa.Array) -> bool:
    kind = column.type
    return bool(column.null_count) and (pa.types.is_integer(kind) or pa.types.is_boolean(kind))
