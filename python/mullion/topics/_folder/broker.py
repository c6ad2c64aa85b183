"""The embedded broker: topics in a folder of this machine, or a mounted one."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import pyarrow as pa
import pyspark.sql.types as T
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion._bridge import jvm
from mullion._bridge.request import quoted
from mullion._util.clock import Clock
from mullion.errors import InvalidArgumentError, UnsupportedError
from mullion.topics import _types
from mullion.topics._broker import NO_COLUMNS, SCALAR, UNFIT, Publisher, SchemaLike, column_mark
from mullion.topics._folder.json import filed
from mullion.topics._folder.rows import PLACE
from mullion.topics._folder.topic import (
    REVISION_AT,
    REVISION_DIGITS,
    SENT,
    About,
    DirTopic,
    TopicColumn,
    is_topic,
    read_rows,
    require_topic,
    stored_name,
    taken,
    write_rows,
)
from mullion.topics._json_rows import batches
from mullion.topics._records import (
    COLUMNS,
    KEY,
    TEXT,
    TIMESTAMP,
    VALUE,
    Data,
    HeadersOfRows,
    keys_of,
    timestamps_of,
    values_of,
)
from mullion.topics._schemas import remember, remembered_schema, spark_schema


def _require_no_headers(topic: str, headers: bool) -> None:
    if headers:
        raise UnsupportedError(
            f"Topic {topic!r} is in a folder, and rows there have no headers, which are Kafka's. Leave out headers=, "
            "or put them into columns."
        )


@final
@dataclass(frozen=True, slots=True, init=False, repr=False)
class DirBroker:
    """Topics in the folder ``path``, one folder each; see :func:`mullion.topics.broker`.

    >>> DirBroker("/tmp/topics").url
    'dir:/tmp/topics'
    """

    path: Path

    def __init__(self, path: str | os.PathLike[str]) -> None:
        object.__setattr__(self, "path", Path(path).expanduser().absolute())

    def __repr__(self) -> str:
        return f"DirBroker({str(self.path)!r})"

    @property
    def url(self) -> str:
        """The text that :func:`mullion.topics.broker` accepts."""
        return f"dir:{self.path}"

    def produce(
        self,
        topic: str,
        data: Data,
        timestamps: Iterable[float] | None = None,
        keys: Sequence[str | None] | None = None,
        *,
        clock: Clock | None = None,
        headers: HeadersOfRows | None = None,
    ) -> None:
        """See :func:`mullion.topics.produce`. Producers may run in parallel; the rows of a call are consecutive."""
        _require_no_headers(topic, headers is not None)
        folder = DirTopic(self.path, topic)
        values = values_of(topic, data)
        times, names = timestamps_of(timestamps, len(values), clock), keys_of(keys, len(values))
        # Raises before anything is written.
        about = folder.about()
        values = taken(values, about)
        about.joined(topic, _types.schema_of(values.schema))
        fields = pa.nulls(len(names), pa.string())
        with folder.staging() as file:
            folder.append([write_rows(file, values, names, times, fields, folder.about().schema)])

    def produce_json(
        self,
        topic: str,
        values: Sequence[Any],
        timestamps: Sequence[float],
        keys: Sequence[str | None],
        *,
        raw: bool = False,
        headers: HeadersOfRows | None = None,
    ) -> None:
        """See :meth:`mullion.topics.Broker.produce_json`."""
        _require_no_headers(topic, headers is not None)
        folder = DirTopic(self.path, topic)
        current = folder.about().schema
        rows = filed(list(batches(values)), current)
        times, names = timestamps_of(timestamps, len(values), None), keys_of(keys, len(values))
        with folder.staging() as file:
            folder.append([write_rows(file, rows.values, names, times, rows.columns, current, rows.sent)])

    def read(self, topic: str, *, headers: bool = False) -> pa.Table:
        """See :func:`mullion.topics.read`."""
        _require_no_headers(topic, headers)
        folder = DirTopic(self.path, topic)
        # The files first: the columns of each are in a note that is read later.
        files = folder.files()
        about = folder.about()
        none = {c.name: pa.array([], _types.arrow_of(c.type)) for c in about.columns}
        empty = pa.table({**none, KEY: pa.array([], pa.string()), TIMESTAMP: pa.array([], pa.float64())})
        table = pa.concat_tables([empty, *(read_rows(file, about) for file in files)])
        if TEXT not in table.column_names:
            return table
        at = table.schema.get_field_index(TEXT)
        return table.set_column(at, table.schema.field(at).with_metadata(_IS_JSON), table[TEXT])

    def stream(
        self,
        spark: SparkSession,
        topic: str,
        schema: SchemaLike | None = None,
        remembered: str | os.PathLike[str] | None = None,
        *,
        unfit: bool = False,
        records: bool = False,
        raw: bool = False,
        fresh: T.StructType | None = None,
        headers: bool = False,
    ) -> DataFrame:
        """See :meth:`mullion.topics.Broker.stream`. A micro-batch is one file: one call of ``produce``.

        A ``schema`` is announced to the topic, whose producers then conform to it: all rows fit. The column ``_json``
        contains the text of JSON values that the columns cannot represent, if the topic had such values when the query
        started; a later first one fails the query.
        """
        _require_no_headers(topic, headers)
        folder = DirTopic(self.path, topic)
        about = folder.about()
        if schema is not None:
            wanted = spark_schema(schema)
            _require_fit(topic, about.joined(topic, wanted, rows=False), wanted, "schema= says")
            about = folder.announce(wanted)
        elif unfit:
            wanted = _now(folder, about, remembered_schema(remembered), fresh)
            remember(remembered, wanted)
        else:
            wanted = remembered_schema(remembered) or about.schema
            if not len(wanted):
                raise _no_columns(folder)
            _require_fit(topic, about, wanted, "the query began with")
            remember(remembered, wanted)
        if unfit:
            return _as_sent(spark, folder, about, wanted, scalar=wanted.names == [VALUE] and not records)
        return _stream(spark, folder, about, wanted)

    def topics(self) -> list[str]:
        """See :meth:`mullion.topics.Broker.topics`."""
        folders = self.path.iterdir() if self.path.is_dir() else ()
        return sorted(folder.name for folder in folders if is_topic(folder))

    def require_topic(self, topic: object, parameter: str = "topic") -> None:
        """See :meth:`mullion.topics.Broker.require_topic`."""
        require_topic(topic, parameter)

    def session_options(self) -> dict[str, str]:
        """Only Spark is needed."""
        return {}

    def publisher(self, clock: Clock | None = None) -> Publisher:
        """The publisher of one query: exactly once, whenever it is killed and restarted."""
        from mullion.topics._folder.publisher import DirPublisher

        return DirPublisher(self.path, clock)


def _stream(spark: SparkSession, folder: DirTopic, about: About, wanted: T.StructType) -> DataFrame:
    rows = _files(spark, folder, about, wanted)
    later = F.raise_error(
        f"Topic '{folder.name}': a column became wider since this query started, such as from ints to floats. Start it "
        "again with a new checkpoint, or give the topic's columns with schema=."
    )
    is_known = F.when(_is_later(about), later.cast("boolean")).otherwise(True)
    rows = rows.where(jvm.per_text(spark, F.col(_FILE), is_known))
    if TEXT not in wanted.names:
        text = F.col(quoted(_TEXTS))
        why = F.concat(
            F.lit(f"Topic '{folder.name}': a JSON value came that has no place in the columns of this query: "),
            F.substring(text, 1, 200),
            F.lit(f". Start it again with a new checkpoint: such texts are in the column {TEXT!r} then."),
        )
        rows = rows.where(F.when(text.isNotNull(), F.raise_error(why).cast("boolean")).otherwise(True))
    return rows.select(*_columns(about, wanted), KEY, TIMESTAMP, COLUMNS)


def _as_sent(spark: SparkSession, folder: DirTopic, about: About, wanted: T.StructType, *, scalar: bool) -> DataFrame:
    """Rows that are exactly as sent: in columns, as text, or as their place in a file.

    The place is used for columns that the query has in another type, or not at all: its columns are fixed at its start.
    """
    rows = _files(spark, folder, about, wanted)
    # A new column of the topic may have any type.
    column_names = {column.name for column in about.columns}
    if scalar and VALUE not in column_names:
        more = F.lit(True)
    elif scalar:
        more = ~F.col(COLUMNS).isin(column_mark(VALUE), column_mark(VALUE) + SCALAR)
    else:
        remaining = F.col(COLUMNS)
        for name in column_names.intersection(wanted.names):
            remaining = F.replace(remaining, F.lit(column_mark(name)), F.lit(""))
        more = remaining != ""
    elsewhere = jvm.per_text(spark, F.col(_FILE), _is_later(about)) | jvm.per_text(spark, F.col(COLUMNS), more)
    for column in about.columns:
        if column.name in wanted.names:
            for kind in _pieces(column):
                if not _types.is_same(kind, wanted[column.name].dataType):
                    elsewhere |= F.col(quoted(stored_name(column.name, kind))).isNotNull()
    place = F.concat(F.lit(PLACE), F.col("_metadata.row_index"), F.lit(":"), F.col(_FILE))
    text = F.coalesce(F.col(quoted(_TEXTS)), F.col(SENT), F.when(elsewhere, place))
    return rows.select(*_columns(about, wanted), text.alias(UNFIT), KEY, TIMESTAMP, COLUMNS)


_FILE = "_metadata.file_name"
_TEXTS = stored_name(TEXT, T.StringType())
_IS_JSON = {"mullion": "json"}


def _files(spark: SparkSession, folder: DirTopic, about: About, wanted: T.StructType) -> DataFrame:
    """The requested columns of files, and all their other columns."""
    files = T.StructType()
    for column in about.columns:
        if column.name in wanted.names and column.name != TEXT:
            for kind in _pieces(column):
                files.add(stored_name(column.name, kind), _types.stored(kind))
    files.add(_TEXTS, T.StringType()).add(SENT, T.StringType())
    files.add(KEY, T.StringType()).add(TIMESTAMP, T.TimestampType()).add(COLUMNS, T.StringType())
    return (
        spark.readStream.schema(files)
        .option("maxFilesPerTrigger", 1)
        .option("pathGlobFilter", "*.parquet")
        # The name identifies a file, wherever the topic's folder has been moved to.
        .option("fileNameOnly", "true")
        .parquet(jvm.topic_path(spark, str(folder.folder)))
    )


def _pieces(column: TopicColumn) -> list[T.DataType]:
    return [kind for kind in column.pieces if not isinstance(kind, T.NullType)]


def _is_later(about: About) -> Column:
    """True if a file may have a column in an unknown type."""
    return F.substring(_FILE, REVISION_AT + 1, REVISION_DIGITS) > f"{about.revision:0{REVISION_DIGITS}}"


def _columns(about: About, wanted: T.StructType) -> list[Column]:
    known_columns = {column.name: column for column in about.columns}
    columns = []
    for field in wanted:
        pieces = [
            _types.fit_column(F.col(quoted(stored_name(field.name, kind))), kind, field.dataType)
            for kind in (_pieces(known_columns[field.name]) if field.name in known_columns else [])
        ]
        column = F.coalesce(*pieces) if pieces else F.lit(None).cast(field.dataType)
        columns.append(column.alias(field.name, metadata=_IS_JSON) if field.name == TEXT else column.alias(field.name))
    return columns


def _now(folder: DirTopic, about: About, began: T.StructType | None, fresh: T.StructType | None = None) -> T.StructType:
    """The current columns of a topic for a query that may change its columns."""
    wanted = T.StructType([field for field in about.schema if field.name != TEXT])
    removed = [field for field in began or () if field.name not in wanted.names and field.name != VALUE]
    if removed:
        _require_fit(folder.name, about, T.StructType(removed), "the query began with")
    if not len(wanted) and not folder.files():
        if fresh is None:
            raise _no_columns(folder)
        # Spark requires an existing folder.
        folder.folder.mkdir(parents=True, exist_ok=True)
        return fresh
    return wanted if len(wanted) else NO_COLUMNS


def _no_columns(folder: DirTopic) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"Topic {folder.name!r} of dir:{folder.folder.parent} has no rows yet, and so no columns. Say which it will "
        "have with schema='region string, amount double', or produce the first rows before the query starts."
    )


def _require_fit(topic: str, about: About, wanted: T.StructType, where: str) -> None:
    topic_types = {column.name: column.type for column in about.columns}
    for field in wanted:
        now = topic_types.get(field.name)
        if now is None or not _types.fits(now, field.dataType):
            there = "none of that name" if now is None else now.simpleString()
            raise InvalidArgumentError(
                f"Topic {topic!r}: for column {field.name!r} {where} {field.dataType.simpleString()}, and the topic "
                f"has {there}. Say what it has with schema=; a query "
                "that has run with other columns needs a new checkpoint."
            )
