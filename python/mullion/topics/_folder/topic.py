"""A topic as a folder: Parquet files in order of arrival, and a note of its columns.

::

    orders/
      _topic.json                        columns, their types, the number of widened columns
      _files                             the manifest: the files' names, one per line, in order
      _lock
      000000000000-000000-9f3c2a.parquet     number, revision, origin
      000000000001-000000-5d20c1.parquet
      .staged-...                        incomplete; readers ignore such names

A file is added by a rename, and then to the manifest, both under the lock: its number and its modification time are
greater than those of all earlier files. A listing is not atomic: during a write it may contain a file but not its
predecessor. Readers therefore use the manifest, of which they see a prefix: :meth:`DirTopic.files` returns its files,
and Spark's file source, which orders by time, sees no file after its last (``TopicFileSystem`` in the JVM). Files that
a killed producer renamed but did not list are listed by the next one.

A widened column cannot be read from old files in its new type. Each is therefore stored under its name *and* type,
``amount:bigint`` and ``amount:double``, and a reader combines the pieces. A column with pieces that a running query did
not know at its start would be null there. The note therefore counts such changes, and a file's name contains the count:
a query stops at a file of a later revision.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyspark.sql.types as T

from mullion._util.files import reading, replace_text
from mullion.errors import InvalidArgumentError, MullionError
from mullion.topics import _types
from mullion.topics._broker import columns_text
from mullion.topics._records import COLUMNS, KEY, TIMESTAMP, TIMESTAMP_TYPE, why_alike

_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]{0,248}")
_FORMAT = 1
_MOST_ROWS_IN_A_GROUP = 1 << 26

_TAIL = 1024
"""The limit of a manifest's line, in bytes."""

SENT = "_sent"
"""The column with the original text of rows whose columns have other types than the sent values."""

REVISION_AT, REVISION_DIGITS = 13, 6
"""The position and length of the revision in a file's name."""


@dataclass(frozen=True)
class TopicColumn:
    """A column: its type, and its types in files."""

    name: str
    type: T.DataType
    stored: tuple[T.DataType, ...]

    @property
    def pieces(self) -> tuple[T.DataType, ...]:
        """The types that a reader needs: those of existing rows, and that of future rows."""
        return self.stored if self.type in self.stored else (*self.stored, self.type)

    def joined(self, topic: str, other: T.DataType) -> TopicColumn:
        """Adds the type of a call; raises :class:`InvalidArgumentError` for incompatible types."""
        try:
            kind = _types.union(self.name, self.type, other)
        except _types.ConflictError as conflict:
            raise InvalidArgumentError(
                f"Topic {topic!r}: column {conflict.path!r} is {conflict.right.simpleString()} here, and "
                f"{conflict.left.simpleString()} in the topic. A column keeps its type: send it as "
                f"{conflict.left.simpleString()}, under another name, or to another topic."
            ) from None
        inexact = _types.inexact(self.name, self.type, other)
        if inexact is not None:
            raise _inexact(topic, inexact)
        alike = _types.alike(kind, f"{self.name}.")
        if alike is not None:
            raise InvalidArgumentError(f"Topic {topic!r}: {why_alike(alike)}")
        stored = self.stored
        if not isinstance(other, T.NullType) and other not in stored:
            stored = (*stored, other)
        return TopicColumn(self.name, kind, stored)


@dataclass(frozen=True)
class About:
    """The contents of a topic's note."""

    columns: tuple[TopicColumn, ...] = ()
    revision: int = 0
    next: int = 0
    last_ms: int = 0

    @property
    def schema(self) -> T.StructType:
        """The columns of the values."""
        return T.StructType([T.StructField(column.name, column.type) for column in self.columns])

    def joined(self, topic: str, schema: T.StructType, *, rows: bool = True) -> About:
        """Adds the columns of a call, or with ``rows=False``, columns that are only announced."""
        by_name = {column.name: column for column in self.columns}
        alike = {name.lower(): name for name in by_name}
        revision = self.revision
        for field in schema:
            old = by_name.get(field.name)
            other = alike.setdefault(field.name.lower(), field.name)
            if other != field.name:
                raise InvalidArgumentError(f"Topic {topic!r}: {why_alike((other, field.name))}")
            new = (old or TopicColumn(field.name, T.NullType(), ())).joined(topic, field.dataType)
            if not rows:
                new = replace(new, stored=old.stored if old else ())
            if old is not None and (new.type != old.type or set(new.stored) - set(old.pieces)):
                revision += 1
            by_name[field.name] = new
        return replace(self, columns=tuple(by_name.values()), revision=revision)

    def json(self) -> str:
        """The note's text."""
        columns = [
            {"name": c.name, "type": c.type.jsonValue(), "stored": [kind.jsonValue() for kind in c.stored]}
            for c in self.columns
        ]
        rest = {"revision": self.revision, "next": self.next, "last_ms": self.last_ms}
        return json.dumps({"format": _FORMAT, "columns": columns, **rest}, indent=1)

    @staticmethod
    def of_json(text: str, where: Path) -> About:
        """Parses the result of :meth:`json`."""
        content: dict[str, Any] = json.loads(text)
        if content["format"] != _FORMAT:
            raise MullionError(f"{where} is of format {content['format']}: a later Mullion wrote it. Use that one.")
        columns = tuple(
            TopicColumn(c["name"], _type_of(c["type"]), tuple(map(_type_of, c["stored"]))) for c in content["columns"]
        )
        return About(columns, content["revision"], content["next"], content["last_ms"])


@dataclass(frozen=True)
class Staged:
    """A complete file outside of its topic. Its columns have the topic's types."""

    file: Path
    columns: T.StructType


def require_topic(name: object, parameter: str = "topic") -> None:
    """Raises :class:`InvalidArgumentError` for an invalid topic name; ``parameter`` is its source."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidArgumentError(
            f"{parameter}={name!r} is not a topic's name. Use letters, digits, '.', '_' and '-', a letter or digit "
            "first, 249 at most."
        )


def is_topic(folder: Path) -> bool:
    """True if a folder is a topic with rows or announced columns."""
    return bool(_NAME.fullmatch(folder.name)) and DirTopic(folder.parent, folder.name).exists


class DirTopic:
    """One topic of a ``dir:`` broker."""

    def __init__(self, home: Path, name: str) -> None:
        require_topic(name)
        self.name = name
        self.folder = home / name

    @property
    def exists(self) -> bool:
        """True if it has rows or announced columns."""
        return self._note.exists()

    def about(self) -> About:
        """The current note."""
        try:
            with reading(self._note):
                return About.of_json(self._note.read_text("utf-8"), self._note)
        except FileNotFoundError:
            return About()

    def files(self) -> list[Path]:
        """The files in order."""
        try:
            lines = self._manifest.read_text("ascii").split("\n")
        except FileNotFoundError:
            # Of an earlier version, without later writes.
            return sorted(self.folder.glob("[0-9]*.parquet"))
        # An incomplete last line is being written.
        return [self.folder / name for name in lines[:-1]]

    def announce(self, schema: T.StructType) -> About:
        """Adds columns before there are rows with them; later calls of ``produce`` store them in these types."""
        with self.locked():
            about = self.about()
            return self.announce_locked(about, about.joined(self.name, schema, rows=False))

    def announce_locked(self, about: About, joined: About) -> About:
        """The same while the lock is held: replaces ``about`` by ``joined``."""
        if joined != about:
            self._write_note(joined)
        return joined

    def append(self, staged: Sequence[Staged], origins: Sequence[str] | None = None) -> None:
        """Adds files to the topic, in order; ``origins`` are the suffixes of their names, random by default."""
        with self.locked():
            self.append_locked(staged, origins)

    def append_locked(
        self, staged: Sequence[Staged], origins: Sequence[str] | None = None, about: About | None = None
    ) -> None:
        """The same while the lock is held, optionally with the topic's note."""
        about = about or self.about()
        for one in staged:
            about = about.joined(self.name, one.columns)
        self.name_left_behind(about)
        first = about.next
        # Milliseconds, the precision of Spark's file times.
        base = max(time.time_ns() // 1_000_000, about.last_ms + 1)
        self._write_note(replace(about, next=first + len(staged), last_ms=base + len(staged) - 1))
        names = []
        for index, one in enumerate(staged):
            at = (base + index) * 1_000_000
            os.utime(one.file, ns=(at, at))
            bears = f"{first + index:012}-{about.revision:0{REVISION_DIGITS}}"
            origin = origins[index] if origins else uuid.uuid4().hex[:8]
            names.append(f"{bears}-{origin}.parquet")
            one.file.rename(self.folder / names[-1])
        self._name(names)

    def forget(self, before: int) -> None:
        """Deletes the files with numbers less than ``before``, and their names, but never the last name.

        The last name marks the end of the files. No reader may still need them.
        """
        with self.locked():
            names = [file.name for file in self.files()]
            removed = [name for name in names[:-1] if _number_of(name) < before]
            for name in removed:
                (self.folder / name).unlink(missing_ok=True)
            if removed and self._manifest.exists():
                replace_text(self._manifest, "".join(f"{name}\n" for name in names[len(removed) :]))

    def name_left_behind(self, about: About | None = None) -> None:
        """Adds unlisted files of killed producers to the manifest, under the lock; creates it if needed."""
        named = self._last_named()
        if named is None:
            names = [file.name for file in self.files()]
            replace_text(self._manifest, "".join(f"{name}\n" for name in names))
        elif named + 1 < (about or self.about()).next:
            files = sorted(self.folder.glob("[0-9]*.parquet"))
            self._name([file.name for file in files if _number_of(file.name) > named])

    def _last_named(self) -> int | None:
        """The number of the manifest's last file, -1 if it is empty; ``None`` without a manifest."""
        try:
            with self._manifest.open("rb") as manifest:
                end = manifest.seek(0, os.SEEK_END)
                manifest.seek(max(0, end - _TAIL))
                lines = manifest.read().decode("ascii").split("\n")
        except FileNotFoundError:
            return None
        return _number_of(lines[-2]) if len(lines) > 1 else -1

    def _name(self, names: Sequence[str]) -> None:
        with self._manifest.open("r+b") as manifest:
            end = manifest.seek(0, os.SEEK_END)
            manifest.seek(max(0, end - _TAIL))
            # A truncated line is overwritten.
            cut = len(manifest.read().rpartition(b"\n")[2])
            manifest.seek(end - cut)
            manifest.truncate()
            manifest.write("".join(f"{name}\n" for name in names).encode("ascii"))

    @contextlib.contextmanager
    def staging(self) -> Iterator[Path]:
        """A path for a file to append, which is removed at the end."""
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / f".staged-{uuid.uuid4().hex}"
        try:
            yield file
        finally:
            file.unlink(missing_ok=True)

    def _write_note(self, about: About) -> None:
        replace_text(self._note, about.json())

    @property
    def _note(self) -> Path:
        return self.folder / "_topic.json"

    @property
    def _manifest(self) -> Path:
        return self.folder / "_files"

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Excludes all other writers of the topic."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "_lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _inexact(topic: str, conflict: _types.ConflictError) -> InvalidArgumentError:
    """The error for floats and decimals in one place, which would make everything a float."""
    there, here = conflict.left.simpleString(), conflict.right.simpleString()
    if isinstance(conflict.left, T.DecimalType):
        why = f"{there} in the topic, whose digits a float does not keep. Send decimals: decimal.Decimal(str(value))."
    else:
        why = f"{there} in the topic, which does not keep a decimal's digits. Send float(value), or another column."
    return InvalidArgumentError(f"Topic {topic!r}: column {conflict.path!r} is {here} here, and {why}")


def taken(values: pa.Table, about: About) -> pa.Table:
    """Values in the topic's types: integers that fit become decimals where it has decimals."""
    for column in about.columns:
        if column.name not in values.column_names:
            continue
        column_values = values[column.name]
        kind = _types.of_arrow(column_values.type)
        wanted = _types.whole_as_decimals(kind, column.type)
        if wanted != kind:
            # Larger ones widen the column.
            with contextlib.suppress(pa.ArrowInvalid):
                fitted = _types.fit_array(column_values, _types.arrow_of(wanted))
                values = values.set_column(values.column_names.index(column.name), column.name, fitted)
    return values


def write_rows(
    file: Path,
    values: pa.Table,
    keys: pa.Array,
    timestamps: pa.Array,
    columns: pa.Array,
    column_types: T.StructType,
    sent: pa.Array | None = None,
) -> Staged:
    """Writes rows in the format of topics' files.

    ``columns`` contains the column names of each row, null for all of them. Columns that ``column_types`` has in a
    wider type are written in that type. ``sent`` are the texts of rows that columns represent in other types, see
    :mod:`mullion.topics._folder.json`.
    """
    kinds = {field.name: field.dataType for field in column_types}
    stored: dict[str, Any] = {}
    fields = []
    for name, array in zip(values.column_names, values.columns, strict=True):
        kind = _types.of_arrow(array.type)
        wanted = kinds.get(name, kind)
        if not isinstance(kind, T.NullType) and _types.fits(kind, wanted):
            kind = wanted
        fields.append(T.StructField(name, kind))
        if not isinstance(kind, T.NullType):
            stored[stored_name(name, kind)] = _types.fit_array(array, _types.arrow_of(_types.stored(kind)))
    stored[KEY] = keys
    stored[TIMESTAMP] = timestamps.cast(TIMESTAMP_TYPE)
    stored[COLUMNS] = columns.fill_null(columns_text(values.column_names))
    if sent is not None:
        stored[SENT] = sent
    # A row group is read by one task, so its rows stay in order.
    pq.write_table(pa.table(stored), file, row_group_size=_MOST_ROWS_IN_A_GROUP)
    return Staged(file, T.StructType(fields))


def read_rows(file: Path, about: About) -> pa.Table:
    """The rows of a file, in the topic's columns."""
    table = pq.read_table(file, partitioning=None)
    there = set(table.column_names)
    read: dict[str, Any] = {}
    for column in about.columns:
        want = _types.arrow_of(column.type)
        read[column.name] = pa.chunked_array([pa.nulls(table.num_rows, want)], want)
        for kind in column.stored:
            # A file has each row of a column in one type, or in several if several batches wrote it.
            if stored_name(column.name, kind) in there:
                piece = _types.fit_array(table[stored_name(column.name, kind)], want)
                read[column.name] = pc.coalesce(read[column.name], piece)
    read[KEY] = table[KEY]
    read[TIMESTAMP] = pc.divide(table[TIMESTAMP].cast(pa.int64()).cast(pa.float64(), safe=False), 1e6)
    return pa.table(read)


def stored_name(name: str, kind: T.DataType) -> str:
    """The name of a column of a type in files."""
    return f"{name}:{kind.simpleString()}"


def _number_of(name: str) -> int:
    return int(name.partition("-")[0])


def _type_of(type_json: Any) -> T.DataType:
    field = {"name": "of", "type": type_json, "nullable": True, "metadata": {}}
    return T.StructType.fromJson({"type": "struct", "fields": [field]})["of"].dataType
