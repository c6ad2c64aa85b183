"""Byte ranges of files: the log of inputs records them instead of items, and tasks read the lines.

::

    trades.csv    key,at,price / ann,2024-01-01T00:00:00Z,2.5 / ...
    the log       step 0, trades.csv from byte 13 until 1048560: 20,000 lines, in batches of 1,000 from number 0

Ranges cover only lines that the JVM and Python read identically: UTF-8 text with one item per line.
"""

from __future__ import annotations

import codecs
import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mullion.bytewax._values.reader import records
from mullion.bytewax.connectors.files import CSVSource, DirSource, FileSource, PlainFile, _Lines, _Records
from mullion.bytewax.dataflow import Dataflow
from mullion.errors import FunctionError

LinesIn = Callable[[str, int, str, int, int], tuple[int, int]]
"""A function that finds lines of a file that the JVM and Python read identically. Its arguments are the path, the
start byte, the delimiter, the batch size and the maximum number of lines. It returns the end byte and the number of
lines."""

_LINES_OF_A_RANGE: Final = 50_000


@dataclass(frozen=True)
class FileRange:
    """A byte range of a file that contains complete lines.

    - ``step``: the input.
    - ``path``, ``start``, ``end``: the file and the bytes in ``[start, end)``.
    - ``lines``: the number of lines.
    - ``delimiter``, ``names``: of CSV; empty if items are lines.
    - ``batch_size``, ``first``, ``stride``: the lines form batches, numbered from ``first`` in steps of ``stride``.
    """

    step: int
    path: str
    start: int
    end: int
    lines: int
    delimiter: str
    names: list[str]
    batch_size: int
    first: int
    stride: int

    @property
    def batches(self) -> int:
        return -(-self.lines // self.batch_size)

    def read(self) -> Iterator[tuple[int, list[Any]]]:
        """Reads the batches that the source would return, each with its number."""
        lines = self._lines()
        for batch in range(self.batches):
            items: list[Any] = lines[batch * self.batch_size : (batch + 1) * self.batch_size]
            yield self.first + batch * self.stride, self._records(items) if self.delimiter else items

    def _records(self, lines: list[str]) -> list[dict[Any, Any]]:
        # Lines without quotes need no CSV parser.
        has_quotes = any('"' in line for line in lines)
        rows = list(csv.reader(lines, delimiter=self.delimiter) if has_quotes else map(self._fields, lines))
        if len(rows) != len(lines):
            raise self._changed()
        try:
            return records(self.names, rows)
        except ValueError:
            return list(map(self._record, rows))

    def _lines(self) -> list[str]:
        try:
            with Path(self.path).open("rb") as file:
                file.seek(self.start)
                data = file.read(self.end - self.start)
            text = data.decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise self._changed() from error
        text = text.replace("\r\n", "\n")
        lines = text.removesuffix("\n").split("\n")
        if len(data) != self.end - self.start or len(lines) != self.lines or "\r" in text:
            raise self._changed()
        return lines

    def _fields(self, line: str) -> list[str]:
        return line.split(self.delimiter)

    def _record(self, row: list[str]) -> dict[Any, Any]:
        """The dict that ``csv.DictReader`` returns for a row with missing or extra fields."""
        names = self.names
        record: dict[Any, Any] = dict(zip(names, row, strict=False))
        if len(row) < len(names):
            record.update(dict.fromkeys(names[len(row) :]))
        elif len(row) > len(names):
            record[None] = row[len(names) :]
        return record

    def _changed(self) -> FunctionError:
        return FunctionError(
            f"The file {self.path!r} is not as it was when a part of it was taken, bytes {self.start} to {self.end}, "
            f"{self.lines} lines. Leave a file as it is that a dataflow reads, or only append to it."
        )


class RangedFile:
    """A part of a source that tasks read in byte ranges."""

    def __init__(self, step: int, file: PlainFile, names: list[str], lines_in: LinesIn) -> None:
        self._step = step
        self._file = file
        self._names = names
        self._lines_in = lines_in

    @property
    def most(self) -> int:
        """The maximum number of batches in a range."""
        return max(1, _LINES_OF_A_RANGE // self._file.batch_size)

    def next(self, at: int, batches: int, first: int, stride: int) -> FileRange | None:
        """The range of up to ``batches`` batches from byte ``at``; ``None`` if this program has to read there."""
        file = self._file
        path = str(file.path.absolute())
        end, lines = self._lines_in(path, at, file.delimiter, file.batch_size, batches * file.batch_size)
        if not lines:
            return None
        return FileRange(self._step, path, at, end, lines, file.delimiter, self._names, file.batch_size, first, stride)


def is_file(source: Any) -> bool:
    """True if tasks can read the files of a source in ranges, provided that they are UTF-8 text."""
    if isinstance(source, CSVSource):
        return type(source) is CSVSource and source.plain_file("") is not None
    return type(source) in (FileSource, DirSource)


def files_of(flow: Dataflow) -> frozenset[int]:
    """The inputs of a dataflow that tasks can read in ranges, as steps."""
    steps = enumerate(flow._steps)
    return frozenset(number for number, step in steps if step.kind == "input" and is_file(step.does))


def ranged(step: int, source: Any, part: str, opened: Any, lines_in: LinesIn) -> RangedFile | None:
    """The ranged file of a part of a source; ``None`` if the program has to read it."""
    if not is_file(source) or type(opened) not in (_Lines, _Records):
        return None
    file = source.plain_file(part)
    if file is None or codecs.lookup(opened._file.encoding).name != "utf-8":
        return None
    names = opened.names if isinstance(opened, _Records) else []
    if file.delimiter and (not names or len(set(names)) < len(names)):
        return None
    return RangedFile(step, file, names, lines_in)
