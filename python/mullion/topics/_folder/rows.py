"""Rows of a ``dir:`` topic in their original types, for a query whose columns differ from a file's.

A query's columns are fixed at its start. A row with others is represented by its place, and a worker reads it there::

    began with   n bigint                  now   {"n": 1, "more": "x"}    {"n": 2.5}
    the row      _unfit = file and number        read there, each in its file's type
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, final

import pyarrow as pa
import pyarrow.parquet as pq

from mullion.topics import _types
from mullion.topics._broker import SCALAR, SEPARATOR, column_mark
from mullion.topics._folder.topic import DirTopic, stored_name
from mullion.topics._records import VALUE

PLACE: Final = "\0row:"
"""The prefix of a text in ``_unfit`` with the place of a row: its number, and the name of its file."""

_RUN: Final = 1000


@final
class DirRows:
    """The rows of a topic by place. Picklable."""

    def __init__(self, home: Path, topic: str) -> None:
        self._home = home
        self._topic = topic
        self._file = ""
        self._pieces: list[tuple[str, pa.ChunkedArray]] = []
        self._start = -1
        self._rows: list[dict[str, Any]] = []

    def __reduce__(self) -> tuple[type[DirRows], tuple[Path, str]]:
        return type(self), (self._home, self._topic)

    def value(self, place: str, came: str, *, scalar: bool) -> Any:
        """The value of a row at a place, with the columns in ``came``.

        ``scalar``: whether a row with the single column ``value`` is not a record.
        """
        number, _, file = place.removeprefix(PLACE).partition(":")
        row = self._row(file, int(number))
        if came.endswith(column_mark(VALUE) + SCALAR) or (scalar and came == column_mark(VALUE)):
            return row.get(VALUE)
        return {name: row.get(name) for name in _names_in(came)}

    def _row(self, file: str, number: int) -> dict[str, Any]:
        if file != self._file:
            self._pieces, self._file, self._start = self._read(file), file, -1
        start = number - number % _RUN
        if start != self._start:
            self._start, self._rows = start, [{} for _ in range(_RUN)]
            for name, piece in self._pieces:
                for row, stored in zip(self._rows, piece.slice(start, _RUN).to_pylist(), strict=False):
                    # A file has a row's column in one type, and may have those of others in another.
                    if stored is not None:
                        row[name] = stored
        return self._rows[number - start]

    def _read(self, file: str) -> list[tuple[str, pa.ChunkedArray]]:
        folder = DirTopic(self._home, self._topic)
        table = pq.read_table(folder.folder / file, partitioning=None)
        return [
            (column.name, _types.fit_array(table[stored], _types.arrow_of(kind)))
            for column in folder.about().columns
            for kind in column.stored
            if (stored := stored_name(column.name, kind)) in table.column_names
        ]


def _names_in(came: str) -> list[str]:
    return came[1:-1].split(SEPARATOR * 2) if came else []
