"""The embedded broker: topics in a folder of this machine, or one that is mounted here."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import pyarrow as pa
import pyspark.sql.types as T
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion import _jvm
from mullion._app.clock import Clock
from mullion.errors import InvalidArgumentError
from mullion.topics import _types
from mullion.topics._brokers import Publisher, SchemaLike
from mullion.topics._dir_topic import (
    REVISION_AT,
    REVISION_DIGITS,
    About,
    DirTopic,
    read_rows,
    require_topic,
    stored_name,
    taken,
)
from mullion.topics._records import COLUMNS, KEY, TIMESTAMP, Data, keys_of, timestamps_of, values_of
from mullion.topics._schemas import remember, remembered_schema, spark_schema


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
        """The text that :func:`mullion.topics.broker` takes."""
        return f"dir:{self.path}"

    def produce(
        self,
        topic: str,
        data: Data,
        timestamps: Iterable[float] | None = None,
        keys: Sequence[str | None] | None = None,
        *,
        clock: Clock | None = None,
    ) -> None:
        """See :func:`mullion.topics.produce`. Producers may be many at once: each call is whole and in one place."""
        folder = DirTopic(self.path, topic)
        values = values_of(topic, data)
        times, names = timestamps_of(timestamps, len(values), clock), keys_of(keys, len(values))
        # Refused before anything is written.
        about = folder.about()
        values = taken(values, about)
        about.joined(topic, _types.schema_of(values.schema))
        staged = folder.stage(values, names, times)
        try:
            folder.append([staged])
        finally:
            staged.file.unlink(missing_ok=True)

    def read(self, topic: str) -> pa.Table:
        """See :func:`mullion.topics.read`."""
        folder = DirTopic(self.path, topic)
        # The files first: what is in one is in a note that is read later.
        files = folder.files()
        about = folder.about()
        none = {c.name: pa.array([], _types.arrow_of(c.type)) for c in about.columns}
        empty = pa.table({**none, KEY: pa.array([], pa.string()), TIMESTAMP: pa.array([], pa.float64())})
        return pa.concat_tables([empty, *(read_rows(file, about) for file in files)])

    def stream(
        self,
        spark: SparkSession,
        topic: str,
        schema: SchemaLike | None = None,
        remembered: str | os.PathLike[str] | None = None,
        *,
        unfit: bool = False,
    ) -> DataFrame:
        """See :meth:`mullion.topics.Broker.stream`. A micro-batch is one file: one call of ``produce``.

        A ``schema`` that is given is announced to the topic, whose producers then keep to it: all rows fit.
        """
        folder = DirTopic(self.path, topic)
        about = folder.about()
        if schema is not None:
            wanted = spark_schema(schema)
            _require_fit(topic, about.joined(topic, wanted, rows=False), wanted, "schema= says")
            about = folder.announce(wanted)
        else:
            wanted = remembered_schema(remembered) or about.schema
            if not len(wanted):
                raise InvalidArgumentError(
                    f"Topic {topic!r} of {self.url} has no rows yet, and so no columns. Say which it will have with "
                    "schema='region string, amount double', or produce the first rows before the query starts."
                )
            _require_fit(topic, about, wanted, "the query began with")
            remember(remembered, wanted)
        return _stream(spark, folder, about, wanted)

    def require_topic(self, topic: object, parameter: str = "topic") -> None:
        """See :meth:`mullion.topics.Broker.require_topic`."""
        require_topic(topic, parameter)

    def session_options(self) -> dict[str, str]:
        """Nothing beside Spark."""
        return {}

    def publisher(self, clock: Clock | None = None) -> Publisher:
        """What one query publishes with: exactly once, whatever is killed and started again."""
        from mullion.topics._dir_publisher import DirPublisher

        return DirPublisher(self.path, clock)


def _stream(spark: SparkSession, folder: DirTopic, about: About, wanted: T.StructType) -> DataFrame:
    known = {column.name: column for column in about.columns}
    files = T.StructType()
    for field in wanted:
        for kind in known[field.name].pieces:
            if not isinstance(kind, T.NullType):
                files.add(stored_name(field.name, kind), _types.stored(kind))
    files.add(KEY, T.StringType()).add(TIMESTAMP, T.TimestampType()).add(COLUMNS, T.StringType())
    rows = (
        spark.readStream.schema(files)
        .option("maxFilesPerTrigger", 1)
        .option("pathGlobFilter", "*.parquet")
        # A file's name says which it is, wherever the topic's folder has been moved to.
        .option("fileNameOnly", "true")
        .parquet(_jvm.topic_path(spark, str(folder.folder)))
    )
    file = F.col("_metadata.file_name")
    revision = F.substring(file, REVISION_AT + 1, REVISION_DIGITS)
    later = F.raise_error(
        f"Topic '{folder.name}': a column became wider since this query started, such as from ints to floats. Start it "
        "again with a new checkpoint, or give the topic's columns with schema=."
    )
    known_to_this = F.when(revision > f"{about.revision:0{REVISION_DIGITS}}", later.cast("boolean")).otherwise(True)
    rows = rows.where(_jvm.per_text(spark, file, known_to_this))
    columns = []
    for field in wanted:
        pieces = [
            _types.fit_column(F.col(_jvm.quoted(stored_name(field.name, kind))), kind, field.dataType)
            for kind in known[field.name].pieces
            if not isinstance(kind, T.NullType)
        ]
        column = F.coalesce(*pieces) if pieces else F.lit(None).cast(field.dataType)
        columns.append(column.alias(field.name))
    return rows.select(*columns, KEY, TIMESTAMP, COLUMNS)


def _require_fit(topic: str, about: About, wanted: T.StructType, where: str) -> None:
    known = {column.name: column.type for column in about.columns}
    for field in wanted:
        now = known.get(field.name)
        if now is None or not _types.fits(now, field.dataType):
            there = "none of that name" if now is None else now.simpleString()
            raise InvalidArgumentError(
                f"Topic {topic!r}: for column {field.name!r} {where} {field.dataType.simpleString()}, and the topic "
                f"has {there}. Say what it has with schema=; a query "
                "that has run with other columns needs a new checkpoint."
            )
