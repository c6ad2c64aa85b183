"""Files as sources and sinks, as in ``bytewax.connectors.files``.

A source resumes from its position in the file. A sink truncates the file to the end of the last complete batch.
Therefore each line is read once and written once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from csv import DictReader
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from zlib import adler32

from mullion.bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition, batch
from mullion.bytewax.outputs import FixedPartitionedSink, StatefulSinkPartition
from mullion.errors import InvalidArgumentError

_DELIMITERS = frozenset(",;|:\t")

__all__ = ["CSVSource", "DirSink", "DirSource", "FileSink", "FileSource"]


def _device(path: Path) -> str:
    return hex(path.stat().st_dev)


def _lines(file: IO[str]) -> Iterator[str]:
    # Iteration over the file would disable `tell()`.
    while line := file.readline():
        yield line


def _require_size(batch_size: Any) -> int:
    if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
        raise InvalidArgumentError(f"batch_size={batch_size!r} is not a whole number from 1 on.")
    return batch_size


def _require_path(name: str, path: Any) -> Path:
    if not isinstance(path, (str, os.PathLike)):
        raise InvalidArgumentError(f"{name}={path!r} ({type(path).__name__}) is not a path. Write Path('lines.txt').")
    return Path(path)


@dataclass(frozen=True)
class PlainFile:
    """A part of a source that is a file of lines. ``delimiter`` is for CSV, and empty if items are lines."""

    path: Path
    batch_size: int
    delimiter: str


class _Lines(StatefulSourcePartition[str, int]):
    def __init__(self, path: Path, batch_size: int, resume_state: int | None) -> None:
        self._file = path.open("rt")
        if resume_state is not None:
            self._file.seek(resume_state)
        self._batches = batch((line.rstrip("\n") for line in _lines(self._file)), batch_size)

    def next_batch(self) -> list[str]:
        return next(self._batches)

    def snapshot(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        self._file.close()


class FileSource(FixedPartitionedSource[str, int]):
    """The lines of a file, in batches of ``batch_size``."""

    def __init__(self, path: Path | str, batch_size: int = 1000, get_fs_id: Callable[[Path], str] = _device) -> None:
        self._path = _require_path("path", path)
        self._batch_size = _require_size(batch_size)
        self._get_fs_id = get_fs_id

    def list_parts(self) -> list[str]:
        """Returns one part for the file, or none if the file does not exist."""
        return [f"{self._get_fs_id(self._path.parent)}::{self._path}"] if self._path.exists() else []

    def build_part(self, step_id: str, for_part: str, resume_state: int | None) -> _Lines:
        """Opens the file."""
        return _Lines(self._path, self._batch_size, resume_state)

    def plain_file(self, for_part: str) -> PlainFile | None:
        """The file of a part."""
        return PlainFile(self._path, self._batch_size, "")


class DirSource(FixedPartitionedSource[str, int]):
    """The lines of the files of a folder whose names match ``glob_pat``."""

    def __init__(
        self,
        dir_path: Path,
        glob_pat: str = "*",
        batch_size: int = 1000,
        get_fs_id: Callable[[Path], str] = _device,
    ) -> None:
        self._folder = _require_path("dir_path", dir_path)
        if not self._folder.is_dir():
            raise InvalidArgumentError(f"dir_path={str(dir_path)!r} is not a folder. Make it, or name another.")
        self._pattern = glob_pat
        self._batch_size = _require_size(batch_size)
        self._fs_id = get_fs_id(self._folder)

    def list_parts(self) -> list[str]:
        """Returns one part for each file."""
        files = sorted(path for path in self._folder.glob(self._pattern) if path.is_file())
        return [f"{self._fs_id}::{path.relative_to(self._folder)}" for path in files]

    def build_part(self, step_id: str, for_part: str, resume_state: int | None) -> _Lines:
        """Opens a file."""
        return _Lines(self._file_of(for_part), self._batch_size, resume_state)

    def _file_of(self, for_part: str) -> Path:
        return self._folder / for_part.split("::", 1)[1]

    def plain_file(self, for_part: str) -> PlainFile | None:
        """The file of a part."""
        return PlainFile(self._file_of(for_part), self._batch_size, "")


class _Records(StatefulSourcePartition[dict[str, str], int]):
    def __init__(self, path: Path, batch_size: int, resume_state: int | None, options: dict[str, Any]) -> None:
        self._file = path.open("rt", newline="")
        reader = DictReader(_lines(self._file), **options)
        # Read the header first: positions to resume from are after it.
        self.names = list(reader.fieldnames or ())
        if resume_state is not None:
            self._file.seek(resume_state)
        self._batches = batch(reader, batch_size)

    def next_batch(self) -> list[dict[str, str]]:
        return next(self._batches)

    def snapshot(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        self._file.close()


class CSVSource(FixedPartitionedSource[dict[str, str], int]):
    """The rows of a CSV file with a header, as dicts of strings. ``fmtparams`` are passed to ``csv.DictReader``."""

    def __init__(
        self,
        path: Path | str,
        batch_size: int = 1000,
        get_fs_id: Callable[[Path], str] = _device,
        **fmtparams: Any,
    ) -> None:
        self._file = FileSource(path, batch_size, get_fs_id)
        self._options = fmtparams

    def list_parts(self) -> list[str]:
        """Returns one part for the file, or none if the file does not exist."""
        return self._file.list_parts()

    def build_part(self, step_id: str, for_part: str, resume_state: int | None) -> _Records:
        """Opens the file."""
        return _Records(self._file._path, self._file._batch_size, resume_state, self._options)

    def plain_file(self, for_part: str) -> PlainFile | None:
        """The file of a part; ``None`` if only ``csv.DictReader`` supports its options."""
        delimiter = self._options.get("delimiter", ",")
        if set(self._options) - {"delimiter"} or not (isinstance(delimiter, str) and delimiter in _DELIMITERS):
            return None
        return PlainFile(self._file._path, self._file._batch_size, delimiter)


class _Writing(StatefulSinkPartition[str, int]):
    def __init__(self, path: Path, resume_state: int | None, end: str) -> None:
        self._file = path.open("at")
        # Remove the output of an interrupted batch, which is written again.
        self._file.seek(resume_state or 0)
        self._file.truncate()
        self._end = end

    def write_batch(self, values: list[str]) -> None:
        for value in values:
            if not isinstance(value, str):
                raise InvalidArgumentError(
                    f"{value!r} ({type(value).__name__}) is not a line of text. Map values to text before the output, "
                    "with op.map_value('text', stream, str)."
                )
            self._file.write(value)
            self._file.write(self._end)
        self._file.flush()
        os.fsync(self._file.fileno())

    def snapshot(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        self._file.close()


class FileSink(FixedPartitionedSink[str, int]):
    """Writes the values of ``(key, value)`` pairs as lines of a file."""

    def __init__(self, path: Path, end: str = "\n") -> None:
        self._path = _require_path("path", path)
        self._end = end

    def list_parts(self) -> list[str]:
        """Returns the path as the only part."""
        return [str(self._path)]

    def part_fn(self, item_key: str) -> int:
        """Assigns all keys to the file."""
        return 0

    def build_part(self, step_id: str, for_part: str, resume_state: int | None) -> _Writing:
        """Opens the file."""
        return _Writing(self._path, resume_state, self._end)


def _part_name(number: int, count: int) -> str:
    return f"part_{number}"


def _by_hash(key: str) -> int:
    return adler32(key.encode())


class DirSink(FixedPartitionedSink[str, int]):
    """Writes the values of ``(key, value)`` pairs as lines of ``file_count`` files in a folder."""

    def __init__(
        self,
        dir_path: Path,
        file_count: int,
        file_namer: Callable[[int, int], str] = _part_name,
        assign_file: Callable[[str], int] = _by_hash,
        end: str = "\n",
    ) -> None:
        self._folder = _require_path("dir_path", dir_path)
        if isinstance(file_count, bool) or not isinstance(file_count, int) or file_count < 1:
            raise InvalidArgumentError(f"file_count={file_count!r} is not a whole number from 1 on.")
        self._file_count = file_count
        self._file_namer = file_namer
        self._assign_file = assign_file
        self._end = end

    def list_parts(self) -> list[str]:
        """The names of the files."""
        return [self._file_namer(number, self._file_count) for number in range(self._file_count)]

    def part_fn(self, item_key: str) -> int:
        """Assigns a key to a file with ``assign_file``."""
        return self._assign_file(item_key)

    def build_part(self, step_id: str, for_part: str, resume_state: int | None) -> _Writing:
        """Opens a file."""
        return _Writing(self._folder / for_part, resume_state, self._end)
