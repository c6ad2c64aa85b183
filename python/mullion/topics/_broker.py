"""What a broker is, and which one a URL names."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import NullType, StructField, StructType

from mullion._clock import Clock
from mullion.topics._outputs import Make, Tell
from mullion.topics._records import Data, HeadersOfRows

SchemaLike: TypeAlias = StructType | pa.Schema | str
"""A schema as Spark's type, as Arrow's, or as DDL text such as ``"region string, amount double"``."""


class Publisher(Protocol):
    """Puts what a query's batches return into topics, with ``DataStreamWriter.foreachBatch``. Not shared by queries.

    While it is open, no other process can publish for its query. A second process is refused with a
    :class:`MullionError`. If the two do not share the checkpoint's disk, Kafka refuses the first one from then on.
    """

    @property
    def published(self) -> Mapping[str, int]:
        """How many rows each topic got from this publisher, since it was made."""

    def publish(self, outputs: DataFrame, batch_id: int) -> None:
        """Publishes a batch of rows ``OUTPUTS``: topic, key, and an Arrow RecordBatch as :func:`encoded` makes it.

        Rows ``OUTPUTS_WITH_HEADERS`` have the headers too that Kafka is to have with each of these rows.

        Each row's RecordBatch becomes rows of its topic; a null in its place is none. Texts for :data:`PRINTED` are
        printed once the batch is published, in the order of partitions. ``outputs`` is evaluated
        whatever was published before, so that the state of operators in it is saved: once, or twice where a broker has
        no room for it as it comes.
        """

    def publish_made(self, rows: DataFrame, batch_id: int, make: Make, tell: Tell | None = None) -> None:
        """Publishes what ``make`` makes of the rows of each task of a batch, in the worker that has them.

        ``tell`` is given the notes of all tasks before anything is published, which its exception prevents; without it
        nobody reads them. ``rows`` and ``make`` are evaluated as in :meth:`publish`.
        """

    def flush(self) -> None:
        """Waits until readers see what was published.

        Kafka may take some milliseconds longer for it than for the batch. A transaction that another producer has left
        open in a topic hides what comes after it; ``flush`` waits five seconds for it, and then says so in the log.
        """

    def close(self) -> None:
        """Flushes and closes it, once its query has stopped. Another process may then publish for the query."""


@runtime_checkable
class Broker(Protocol):
    """Where topics are. Frozen and comparable."""

    @property
    def url(self) -> str:
        """The text that :func:`broker` takes."""

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
        """See :func:`mullion.topics.produce`."""

    def produce_json(
        self,
        topic: str,
        values: Sequence[Any],
        timestamps: Sequence[float],
        keys: Sequence[str | None],
        *,
        raw: bool = False,
    ) -> None:
        """Appends values as JSON has them, whatever their shape; ``raw`` ones are texts as they are."""

    def read(self, topic: str, *, headers: bool = False) -> pa.Table:
        """See :func:`mullion.topics.read`."""

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
        fresh: StructType | None = None,
        headers: bool = False,
    ) -> DataFrame:
        """A topic as a stream: the columns of its values, ``_key`` string, ``_timestamp`` timestamp, ``_columns``.

        - ``schema``: of the values. Left out, it is the topic's when the query first starts.
        - ``remembered``: a file beside the checkpoint, which a schema that was left out is written to, and kept in.
        - ``unfit``: whether each row is to be what was sent: one that the columns do not hold as it is comes as its
          text, or as the place where it is to be read, in :data:`UNFIT`. Ints in columns of floats are marked then, see
          :func:`whole_mark`.
        - ``records``: with ``unfit``, whether values are records even where ``value`` is their only field.
        - ``raw``: with ``unfit``, whether values are not JSON, but text as it is, in the column ``value``; in a
          ``dir:`` topic they are what was produced.
        - ``headers``: whether rows have those of Kafka, in ``_headers``: an array of ``key`` string and ``value``
          binary, in their order, empty where there are none. Refused with ``unfit``, and by ``dir:`` topics.
        - ``fresh``: with ``unfit``, the columns of a topic that nobody has written to. Left out, that is an error.

        ``_columns`` says which columns there were; see :func:`has_columns`. The schema is fixed when a query starts:
        columns that come later are not seen.

        Raises :class:`InvalidArgumentError` where there is no schema yet, and where the topic's does not fit the one
        given or remembered. A topic whose column becomes wider (ints, then floats) while the query runs fails it.
        """

    def topics(self) -> list[str]:
        """The names of all topics, except those that Mullion and Kafka keep for themselves."""

    def require_topic(self, topic: object, parameter: str = "topic") -> None:
        """Raises :class:`InvalidArgumentError` for a name that no topic can have.

        ``parameter`` is the argument that gave the name, for the message.
        """

    def session_options(self) -> dict[str, str]:
        """What a Spark session needs to read and write its topics, as options of its builder."""

    def publisher(self, clock: Clock | None = None) -> Publisher:
        """What one query publishes with; ``clock`` gives the rows' timestamps."""


def has_columns(*names: str) -> Column:
    """A condition on the rows of a topic's stream: whether a row came with all of these columns, null or not.

    In a ``dir:`` topic a row has the columns of its call of ``produce``, in Kafka those of its own record.
    """
    had = F.lit(True)
    for name in names:
        had = had & F.col("_columns").contains(column_mark(name))
    return had


NO_COLUMNS: Final = StructType([StructField("value", NullType())])
"""The columns of a topic of which nothing is known: each row is one that does not fit them."""

UNFIT = "_unfit"
"""Holds the text of a row that does not fit the schema, whose columns may be null for it; else null."""

NOT_TEXT = "\0bytes:"
"""Begins a key, or a text in :data:`UNFIT`, that stands for bytes that are not UTF-8: their hexadecimal digits."""

SEPARATOR = "\n"
"""Around each name in ``_columns``. No column's name has it."""


def column_mark(name: str) -> str:
    """What ``_columns`` holds for a column."""
    return f"{SEPARATOR}{name}{SEPARATOR}"


WHOLE = "\0"
"""Before a name in ``_columns``, once more: the value is an int, in a column of floats."""


SCALAR = "\n\n"
"""Ends ``_columns`` of a value that is known to be no record: the mark of a column without a name."""


def whole_mark(name: str) -> str:
    """What ``_columns`` holds for an int in a column of floats, beside the column's own mark."""
    return column_mark(f"{WHOLE}{name}")


def columns_text(names: Iterable[str]) -> str:
    """What ``_columns`` holds for several."""
    return "".join(column_mark(name) for name in names)
