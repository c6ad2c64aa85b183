"""Publishes to a ``dir:`` broker exactly once, whenever it is killed.

A batch's tasks write files outside of topics. A single note lists the files of the batch; writing it publishes them
atomically. Then they are renamed into their topics::

    tasks:  make and stage files   killed here: the batch runs again, and stages again
    driver: note {batch, files}    from here on the batch is published
            rename each            killed here: the next start renames the rest
            note {applied}

A file's name in its topic contains query, batch and partition, so renamed files are recognised. A repeated batch is
evaluated again, for the state of its operators, and its staged files are discarded if its plan equals the one in the
note. Another batch with the same number raises an error, because its rows would be in no topic.

One process publishes for a query, and holds its lease. A batch's columns are written to the notes of all its topics
before its own note, under the locks of these topics: no other producer can then make a part of it invalid.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from mullion._util.clock import Clock, system
from mullion._util.files import reading, replace_text
from mullion.errors import UnsupportedError
from mullion.topics import _json_rows, _leases, _types
from mullion.topics._batch_plans import MOST_PLANS, plan_of, require_same
from mullion.topics._broker import columns_text
from mullion.topics._folder.json import filed
from mullion.topics._folder.topic import About, DirTopic, Staged, taken, write_rows
from mullion.topics._outputs import (
    PRINTED,
    Make,
    Note,
    Tell,
    functions_of,
    outputs_in,
    partition_of_task,
    query_id_of,
    require_outputs,
    show,
)
from mullion.topics._records import TIMESTAMP_TYPE, normal

_STAGED = "partition int, topic string, file string, columns string, rows bigint, callback string, note binary"
"""A task's messages to the driver, as DDL: a file, or a note."""

_STAGED_SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("topic", pa.string()),
        ("file", pa.string()),
        ("columns", pa.string()),
        ("rows", pa.int64()),
        ("callback", pa.string()),
        ("note", pa.binary()),
    ]
)


@dataclass(frozen=True)
class _File:
    topic: str
    staged: Staged
    origin: str
    rows: int


@dataclass(frozen=True)
class _Noted:
    """The note of a query about its last batch."""

    batch: int
    applied: bool
    files: tuple[_File, ...]
    plans: Mapping[int, str]
    """The plans of the last batches that published rows, as digests."""

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
        plans = {str(batch): plan for batch, plan in self.plans.items()}
        return json.dumps({"batch": self.batch, "applied": self.applied, "files": files, "plans": plans})

    @staticmethod
    def of_json(text: str) -> _Noted:
        content: dict[str, Any] = json.loads(text)
        files = tuple(
            _File(f["topic"], Staged(Path(f["file"]), StructType.fromJson(f["columns"])), f["origin"], f["rows"])
            for f in content["files"]
        )
        # Notes of earlier versions have no plans.
        plans = {int(batch): plan for batch, plan in content.get("plans", {}).items()}
        return _Noted(content["batch"], content["applied"], files, plans)


@final
class DirPublisher:
    """Publishes the batches of one query; see :class:`mullion.topics.Publisher`."""

    def __init__(self, home: Path, clock: Clock | None) -> None:
        self._home = home
        self._clock = clock or system()
        self._published: Counter[str] = Counter()
        self._lease: Path | None = None

    @property
    def published(self) -> Mapping[str, int]:
        """The number of rows published to each topic."""
        return self._published

    def publish(self, outputs: DataFrame, batch_id: int) -> None:
        """Publishes a batch once. A query that was reset to an earlier batch repeats nothing."""
        require_outputs(outputs)
        self.publish_made(outputs, batch_id, outputs_in)

    def publish_made(self, rows: DataFrame, batch_id: int, make: Make, tell: Tell | None = None) -> None:
        """Publishes the output of ``make``; the tasks stage its files."""
        query = query_id_of(rows)
        self._hold(query)
        note, staging = self._home / "_published" / f"{query}.json", self._home / "_staging" / query
        with reading(note):
            noted = _Noted.of_json(note.read_text("utf-8")) if note.exists() else None
        if noted is not None and not noted.applied:
            with self._locked(noted.files):
                self._apply(noted, note)
        shutil.rmtree(staging, ignore_errors=True)
        files, notes, printed = self._stage(rows, batch_id, make, query, staging)
        if tell is not None:
            tell(notes)
        plan = plan_of(rows.sparkSession, query, batch_id) if files else ""
        if noted is None or noted.batch < batch_id:
            plans = noted.plans if noted else {}
            last = {number: plans[number] for number in sorted(plans)[1 - MOST_PLANS :]}
            batch = _Noted(batch_id, applied=False, files=files, plans={**last, batch_id: plan})
            if files:
                with self._locked(files):
                    announced = self._announce(files)
                    replace_text(note, batch.json())
                    self._apply(batch, note, announced)
            show(printed)
        elif files:
            way_out = (
                f" To publish from this one on nevertheless, delete {note}: later rows are then in the topics twice."
            )
            require_same(noted.plans, noted.batch, batch_id, plan, query, way_out)
        shutil.rmtree(staging, ignore_errors=True)

    def flush(self) -> None:
        """Does nothing: rows of a batch are readable before its end."""

    def close(self) -> None:
        """Releases the query for another process."""
        if self._lease is not None:
            _leases.release(self._lease, self)
            self._lease = None

    def _hold(self, query: str) -> None:
        lease = self._home / "_published" / f"{query}.lock"
        _leases.take(lease, self, query)
        self._lease = lease

    @contextlib.contextmanager
    def _locked(self, files: Iterable[_File]) -> Iterator[None]:
        with contextlib.ExitStack() as locks:
            # A fixed order, against deadlocks.
            for topic in sorted({file.topic for file in files}):
                locks.enter_context(DirTopic(self._home, topic).locked())
            yield

    def _stage(
        self, rows: DataFrame, batch: int, make: Make, query: str, staging: Path
    ) -> tuple[tuple[_File, ...], list[Note], list[tuple[int, str]]]:
        """Stages the batch's files, and collects its notes and printed lines."""
        stage = _Stage(make, str(self._home), str(staging), self._clock.time_us())
        reports = rows.mapInArrow(stage, _STAGED).collect()
        files = tuple(
            _File(
                row.topic,
                Staged(Path(row.file), StructType.fromJson(json.loads(row.columns))),
                f"{query[:8]}.{batch}.{row.partition}",
                row.rows,
            )
            for row in sorted((row for row in reports if row.topic), key=attrgetter("topic", "partition"))
        )
        notes = [Note(row.callback, bytes(row.note)) for row in reports if row.note is not None]
        return files, notes, [(row.partition, row.file) for row in reports if row.topic == PRINTED]

    def _announce(self, files: Iterable[_File]) -> dict[str, About]:
        """Rejects columns with other types than in their topics, before anything is published; announces the others.

        Returns the topics' new notes.
        """
        notes: dict[str, tuple[About, About]] = {}
        for topic, ones in batch_by_topic(files).items():
            about = joined = DirTopic(self._home, topic).about()
            for file in ones:
                joined = joined.joined(topic, file.staged.columns)
            notes[topic] = about, joined
        return {topic: DirTopic(self._home, topic).announce_locked(*note) for topic, note in notes.items()}

    def _apply(self, noted: _Noted, note: Path, announced: Mapping[str, About] | None = None) -> None:
        """Moves the files of a batch into their topics: for a resumed batch, the missing ones."""
        for topic, files in batch_by_topic(noted.files).items():
            folder = DirTopic(self._home, topic)
            missing, about = files, None
            if announced is None:
                folder.name_left_behind()
                there = {file.stem.split("-", 2)[2] for file in folder.files()}
                missing = [file for file in files if file.origin not in there]
            else:
                about = announced[topic]
            if missing:
                folder.append_locked([file.staged for file in missing], [file.origin for file in missing], about)
            self._published[topic] += sum(file.rows for file in missing)
        replace_text(note, _Noted(noted.batch, applied=True, files=(), plans=noted.plans).json())


def batch_by_topic(files: Iterable[_File]) -> dict[str, list[_File]]:
    """The files of each topic, in order."""
    topics: dict[str, list[_File]] = {}
    for file in files:
        topics.setdefault(file.topic, []).append(file)
    return topics


class _Stage:
    """The work of a task: one file for each topic. It runs in a Python worker."""

    def __init__(self, make: Make, home: str, staging: str, now_us: int) -> None:
        self.__name__ = functions_of(make)
        self._make = make
        self._home = home
        self._staging = staging
        self._now_us = now_us

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        topics: dict[str, list[_Rows]] = {}
        json_topics: dict[str, list[_Rows]] = {}
        notes: dict[Note, None] = {}
        partition = partition_of_task()
        printed: list[dict[str, Any]] = []
        for topic, key, batch, note, headers, timestamp in self._make(batches):
            if headers:
                raise UnsupportedError(
                    f"A row for topic {topic!r} has headers, and a topic in a folder has none. Publish to Kafka, or "
                    "put them into columns of the row."
                )
            if note is not None:
                notes[note] = None
            if topic == PRINTED:
                texts = batch["value"].to_pylist()
                printed += [{"partition": partition, "topic": PRINTED, "file": text} for text in texts]
                continue
            if _json_rows.is_json(batch):
                json_topics.setdefault(topic, []).append(_Rows(batch, key, timestamp))
                continue
            table = normal(topic, pa.Table.from_batches([batch]))
            if table.num_rows:
                topics.setdefault(topic, []).append(_Rows(table, key, timestamp))
        reports: list[dict[str, Any]] = [{"callback": note.callback, "note": note.content} for note in notes]
        reports += printed
        Path(self._staging).mkdir(parents=True, exist_ok=True)
        written: list[tuple[str, list[Any], Callable[[Path, str, list[Any]], Staged]]]
        written = [(topic, rows, self._write) for topic, rows in topics.items()]
        written += [(topic, rows, self._write_json) for topic, rows in json_topics.items()]
        for topic, rows, write in written:
            # A retried task writes another file: the driver gets the name of the valid one.
            file = Path(self._staging) / uuid.uuid4().hex
            staged = write(file, topic, rows)
            reports.append(
                {
                    "partition": partition,
                    "topic": topic,
                    "file": str(file),
                    "columns": json.dumps(staged.columns.jsonValue()),
                    "rows": sum(one.values.num_rows for one in rows),
                }
            )
        if reports:
            yield pa.RecordBatch.from_pylist(reports, schema=_STAGED_SCHEMA)

    def _write(self, file: Path, topic: str, rows: list[_Rows]) -> Staged:
        topic_note = DirTopic(Path(self._home), topic).about()
        joined = topic_note
        tables = []
        for one in rows:
            table = taken(one.values, joined)
            joined = joined.joined(topic, _types.schema_of(table.schema))
            tables.append(table)
        wanted = {column.name: column.type for column in joined.columns}
        names = dict.fromkeys(name for table in tables for name in table.column_names)
        values = pa.table(
            {
                name: pa.chunked_array(
                    [chunk for table in tables for chunk in _piece(table, name, _types.arrow_of(wanted[name])).chunks],
                    _types.arrow_of(wanted[name]),
                )
                for name in names
            }
        )
        fields = pa.concat_arrays([pa.repeat(columns_text(table.column_names), table.num_rows) for table in tables])
        return write_rows(file, values, _keys(rows), self._times(rows), fields, topic_note.schema)

    def _write_json(self, file: Path, topic: str, batches: list[_Rows]) -> Staged:
        topic_schema = DirTopic(Path(self._home), topic).about().schema
        rows = filed([one.values for one in batches], topic_schema)
        keys, times = _keys(batches), self._times(batches)
        return write_rows(file, rows.values, keys, times, rows.columns, topic_schema, rows.sent)

    def _times(self, rows: Iterable[_Rows]) -> pa.Array:
        times = [self._now_us if one.timestamp_us is None else one.timestamp_us for one in rows]
        return _repeated(pa.array(times, pa.int64()).cast(TIMESTAMP_TYPE), rows)


class _Rows(NamedTuple):
    """Rows of a topic, in columns, with one key and time. ``None`` is the time of publication."""

    values: pa.Table | pa.RecordBatch
    key: str | None
    timestamp_us: int | None


def _keys(rows: Iterable[_Rows]) -> pa.Array:
    return _repeated(pa.array([one.key for one in rows], pa.string()), rows)


def _repeated(scalars: pa.Array, rows: Iterable[_Rows]) -> pa.Array:
    """One value for each row."""
    return pa.concat_arrays([pa.repeat(one, part.values.num_rows) for one, part in zip(scalars, rows, strict=True)])


def _piece(table: pa.Table, name: str, kind: pa.DataType) -> pa.ChunkedArray:
    if name in table.column_names:
        return _types.fit_array(table[name], kind)
    return pa.chunked_array([pa.nulls(table.num_rows, kind)], kind)
