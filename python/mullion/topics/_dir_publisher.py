"""Publishing to a ``dir:`` broker exactly once, whatever is killed when.

A batch's tasks write files that no topic has yet. One note says which files the batch publishes; to write it is what
publishes them, all or none. Then they are renamed into their topics::

    tasks:  stage files            killed here: the batch is done again, and stages again
    driver: note {batch, files}    from here on the batch is published
            rename each            killed here: the next start renames those that are left
            note {applied}

A file's name in its topic holds query, batch and partition, so that one which has been renamed is known. A batch that
Spark does again is evaluated again, for the state of its operators, and what it stages is thrown away.
"""

from __future__ import annotations

import json
import shutil
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from mullion._app.clock import Clock, system
from mullion.topics import _types
from mullion.topics._brokers import columns_text
from mullion.topics._dir_topic import DirTopic, Staged, replace_text, write_rows
from mullion.topics._outputs import PRINTED, decoded, partition_of_task, query_id_of, require_outputs, show
from mullion.topics._records import TIMESTAMP_TYPE, normal

_STAGED = "partition int, topic string, file string, columns string, rows bigint"


@dataclass(frozen=True)
class _File:
    topic: str
    staged: Staged
    origin: str
    rows: int


@dataclass(frozen=True)
class _Noted:
    """What the note of a query says of its last batch."""

    batch: int
    applied: bool
    files: tuple[_File, ...]

    def json(self) -> str:
        files = [
            {
                "topic": f.topic,
                "file": str(f.staged.file),
                "columns": f.staged.columns.jsonValue(),
                "origin": f.origin,
                "rows": f.rows,
            }
            for f in self.files
        ]
        return json.dumps({"batch": self.batch, "applied": self.applied, "files": files})

    @staticmethod
    def of_json(text: str) -> _Noted:
        said: dict[str, Any] = json.loads(text)
        files = tuple(
            _File(f["topic"], Staged(Path(f["file"]), StructType.fromJson(f["columns"])), f["origin"], f["rows"])
            for f in said["files"]
        )
        return _Noted(said["batch"], said["applied"], files)


@final
class DirPublisher:
    """Publishes the batches of one query; see :class:`mullion.topics.Publisher`."""

    def __init__(self, home: Path, clock: Clock | None) -> None:
        self._home = home
        self._clock = clock or system()
        self._published: Counter[str] = Counter()

    @property
    def published(self) -> Mapping[str, int]:
        """How many rows each topic got."""
        return self._published

    def publish(self, outputs: DataFrame, batch_id: int) -> None:
        """Publishes a batch, once. A query that goes on from an earlier batch of its checkpoint repeats nothing."""
        require_outputs(outputs)
        query = query_id_of(outputs)
        note, staging = self._home / "_published" / f"{query}.json", self._home / "_staging" / query
        noted = _Noted.of_json(note.read_text("utf-8")) if note.exists() else None
        if noted is not None and not noted.applied:
            self._apply(noted, note, again=True)
        shutil.rmtree(staging, ignore_errors=True)
        files, printed = self._stage(outputs, batch_id, query, staging)
        batch = _Noted(batch_id, applied=False, files=files)
        if noted is None or noted.batch < batch_id:
            if files:
                self._require_fit(batch)
                replace_text(note, batch.json())
                self._apply(batch, note, again=False)
            show(printed)
        shutil.rmtree(staging, ignore_errors=True)

    def _stage(
        self, outputs: DataFrame, batch: int, query: str, staging: Path
    ) -> tuple[tuple[_File, ...], list[tuple[int, str]]]:
        """What the batch publishes, and what it prints."""
        stage = _Stage(str(self._home), str(staging), self._clock.time_us())
        found = outputs.mapInArrow(stage, _STAGED).collect()
        rows = sorted((row for row in found if row.topic != PRINTED), key=lambda row: (row.topic, row.partition))
        files = tuple(
            _File(
                row.topic,
                Staged(Path(row.file), StructType.fromJson(json.loads(row.columns))),
                f"{query[:8]}.{batch}.{row.partition}",
                row.rows,
            )
            for row in rows
        )
        return files, [(row.partition, row.file) for row in found if row.topic == PRINTED]

    def _require_fit(self, batch: _Noted) -> None:
        """Refuses columns that their topics have in another type, while nothing is published."""
        for topic, files in batch_by_topic(batch.files).items():
            about = DirTopic(self._home, topic).about()
            for file in files:
                about = about.joined(topic, file.staged.columns)

    def _apply(self, noted: _Noted, note: Path, *, again: bool) -> None:
        for topic, files in batch_by_topic(noted.files).items():
            folder = DirTopic(self._home, topic)
            there = {file.stem.split("-", 2)[2] for file in folder.files()} if again else set()
            left = [file for file in files if file.origin not in there]
            if left:
                folder.append([file.staged for file in left], [file.origin for file in left])
            self._published[topic] += sum(file.rows for file in left)
        replace_text(note, _Noted(noted.batch, applied=True, files=()).json())


def batch_by_topic(files: Iterable[_File]) -> dict[str, list[_File]]:
    """The files of each topic, in order."""
    topics: dict[str, list[_File]] = {}
    for file in files:
        topics.setdefault(file.topic, []).append(file)
    return topics


class _Stage:
    """What a task does: one file for each topic. It runs in a Python worker."""

    def __init__(self, home: str, staging: str, now_us: int) -> None:
        self._home = home
        self._staging = staging
        self._now_us = now_us

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        topics: dict[str, list[tuple[pa.Table, str | None]]] = {}
        for rows in batches:
            for topic, key, batch in zip(*(rows[name].to_pylist() for name in ("topic", "key", "batch")), strict=True):
                if topic == PRINTED:
                    yield _staged(PRINTED, key)
                elif batch is not None:
                    table = normal(topic, pa.Table.from_batches([decoded(batch)]))
                    if table.num_rows:
                        topics.setdefault(topic, []).append((table, key))
        Path(self._staging).mkdir(parents=True, exist_ok=True)
        for topic, tables in topics.items():
            # A task that is tried again has another file: the driver learns of the one that counts.
            file = Path(self._staging) / uuid.uuid4().hex
            staged = self._write(file, topic, tables)
            rows_written = sum(table.num_rows for table, _ in tables)
            columns = json.dumps(staged.columns.jsonValue())
            yield _staged(topic, str(file), columns, rows_written)

    def _write(self, file: Path, topic: str, tables: list[tuple[pa.Table, str | None]]) -> Staged:
        known = DirTopic(Path(self._home), topic).about()
        joined = known
        for table, _ in tables:
            joined = joined.joined(topic, _types.schema_of(table.schema))
        wanted = {column.name: column.type for column in joined.columns}
        names = dict.fromkeys(name for table, _ in tables for name in table.column_names)
        values = pa.table(
            {
                name: pa.chunked_array(
                    [
                        chunk
                        for table, _ in tables
                        for chunk in _piece(table, name, _types.arrow_of(wanted[name])).chunks
                    ],
                    _types.arrow_of(wanted[name]),
                )
                for name in names
            }
        )
        keys = pa.concat_arrays([pa.repeat(pa.scalar(key, pa.string()), table.num_rows) for table, key in tables])
        came = pa.concat_arrays([pa.repeat(columns_text(table.column_names), table.num_rows) for table, _ in tables])
        times = pa.repeat(pa.scalar(self._now_us, pa.int64()), values.num_rows).cast(TIMESTAMP_TYPE)
        return write_rows(file, values, keys, times, came, known.schema)


def _staged(topic: str, file: str, columns: str = "", rows: int = 0) -> pa.RecordBatch:
    partition = pa.array([partition_of_task()], pa.int32())
    return pa.RecordBatch.from_pydict(
        {"partition": partition, "topic": [topic], "file": [file], "columns": [columns], "rows": [rows]}
    )


def _piece(table: pa.Table, name: str, kind: pa.DataType) -> pa.ChunkedArray:
    if name in table.column_names:
        return _types.fit_array(table[name], kind)
    return pa.chunked_array([pa.nulls(table.num_rows, kind)], kind)
