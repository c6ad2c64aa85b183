"""Lines of files that the program does not read itself: the log of inputs says which, and tasks read them.

::

    trades.csv    key,at,price / ann,2024-01-01T00:00:00Z,2.5 / ...
    the log       step 0, trades.csv from byte 13 until 1048560: 20,000 lines, in batches of 1,000 from number 0

Only where the JVM and Python surely read the same items: text in UTF-8, one item a line.
"""

from __future__ import annotations

import codecs
import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mullion.bytewax._run.reader import records
from mullion.bytewax.connectors.files import CSVSource, DirSource, FileSource, PlainFile, _Lines, _Records
from mullion.bytewax.dataflow import Dataflow
from mullion.errors import FunctionError

LinesIn = Callable[[str, int, str, int, int], tuple[int, int]]
"""How many lines of a file there surely are: given its path, from where, the delimiter, the size of a batch and how
many at most; where they end, and how many."""

_LINES_OF_A_RANGE: Final = 50_000


@dataclass(frozen=True)
class FileRange:
    """Lines of a file.

    - ``step``: the input.
    - ``path``, ``start``, ``end``: from which byte to which.
    - ``lines``: how many there are.
    - ``delimiter``, ``names``: of CSV; empty where items are lines.
    - ``batch_size``, ``first``, ``stride``: they are batches, numbered from ``first`` in steps of ``stride``.
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
        """How many batches there are."""
        return -(-self.lines // self.batch_size)

    def read(self) -> Iterator[tuple[int, list[Any]]]:
        """The batches, each with its number, as the source itself would give them."""
        lines = self._lines()
        for batch in range(self.batches):
            items: list[Any] = lines[batch * self.batch_size : (batch + 1) * self.batch_size]
            yield self.first + batch * self.stride, self._records(items) if self.delimiter else items

    def _records(self, lines: list[str]) -> list[dict[Any, Any]]:
        # Without a quote a field is what stands between two delimiters.
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
        """What ``csv.DictReader`` makes of a row with fewer fields, or with more."""
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
    """A part of a source that is read in ranges, from a place on."""

    def __init__(self, step: int, file: PlainFile, names: list[str], lines_in: LinesIn) -> None:
        self._step = step
        self._file = file
        self._names = names
        self._lines_in = lines_in

    @property
    def most(self) -> int:
        """How many batches a range has at most."""
        return max(1, _LINES_OF_A_RANGE // self._file.batch_size)

    def next(self, at: int, batches: int, first: int, stride: int) -> FileRange | None:
        """Up to so many batches from a place on; ``None`` if there are none that are sure."""
        file = self._file
        path = str(file.path.absolute())
        end, lines = self._lines_in(path, at, file.delimiter, file.batch_size, batches * file.batch_size)
        if not lines:
            return None
        return FileRange(self._step, path, at, end, lines, file.delimiter, self._names, file.batch_size, first, stride)


def is_file(source: Any) -> bool:
    """Whether a source is files that are read in ranges, where they are text in UTF-8."""
    if isinstance(source, CSVSource):
        return type(source) is CSVSource and source.plain_file("") is not None
    return type(source) in (FileSource, DirSource)


def files_of(flow: Dataflow) -> frozenset[int]:
    """The inputs of a dataflow that are such files, as steps."""
    steps = enumerate(flow._steps)
    return frozenset(number for number, step in steps if step.kind == "input" and is_file(step.does))


def ranged(step: int, source: Any, part: str, opened: Any, lines_in: LinesIn) -> RangedFile | None:
    """A part of a source as a file that is read in ranges; ``None`` where the program has to read it itself."""
    if not is_file(source) or type(opened) not in (_Lines, _Records):
        return None
    file = source.plain_file(part)
    if file is None or codecs.lookup(opened._file.encoding).name != "utf-8":
        return None
    names = opened.names if isinstance(opened, _Records) else []
    if file.delimiter and (not names or len(set(names)) < len(names)):
        return None
    return RangedFile(step, file, names, lines_in)
