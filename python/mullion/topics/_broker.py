"""The interfaces of brokers and publishers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import NullType, StructField, StructType

from mullion._util.clock import Clock
from mullion.topics._outputs import Make, Tell
from mullion.topics._records import Data, HeadersOfRows

SchemaLike: TypeAlias = StructType | pa.Schema | str
"""A schema as a Spark type, an Arrow schema, or DDL text such as ``"region string, amount double"``."""


class Publisher(Protocol):
    """Appends the output of one query's batches to topics, with ``DataStreamWriter.foreachBatch``.

    While it is open, no other process can publish for its query: a second process raises a :class:`MullionError`. If
    the two do not share the checkpoint's disk, Kafka rejects the first one from then on.
    """

    @property
    def published(self) -> Mapping[str, int]:
        """The number of rows that this publisher has appended to each topic."""

    def publish(self, outputs: DataFrame, batch_id: int) -> None:
        """Publishes a batch of rows ``OUTPUTS``: topic, key, and an Arrow RecordBatch in the format of :func:`encoded`.

        Rows ``OUTPUTS_WITH_HEADERS`` also have the Kafka headers of their RecordBatch.

        Each row's RecordBatch becomes rows of its topic; a null means no rows. Texts for :data:`PRINTED` are printed
        after the batch is published, in the order of partitions. ``outputs`` is always evaluated, even if the batch was
        published before, so that the state of its operators is saved: once, or twice if a broker cannot buffer it.
        """

    def publish_made(self, rows: DataFrame, batch_id: int, make: Make, tell: Tell | None = None) -> None:
        """Publishes the outputs of ``make`` for the rows of each task of a batch, in its worker.

        ``tell`` receives the notes of all tasks before anything is published; if it raises an error, nothing is
        published. ``rows`` and ``make`` are evaluated as in :meth:`publish`.
        """

    def flush(self) -> None:
        """Waits until readers see the published rows.

        In Kafka this may be some milliseconds after the batch. An open transaction of another producer hides later rows
        of its topic; ``flush`` waits five seconds for it, and then logs a warning.
        """

    def close(self) -> None:
        """Flushes and closes the publisher of a stopped query. Another process may then publish for the query."""


@runtime_checkable
class Broker(Protocol):
    """A store of topics. Frozen and comparable."""

    @property
    def url(self) -> str:
        """The argument of :func:`broker`."""

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
        headers: HeadersOfRows | None = None,
    ) -> None:
        """Appends JSON values of any shape; ``raw`` values are plain texts. Only Kafka topics have ``headers``."""

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

        - ``schema``: of the values. The default is the topic's schema at the first start of the query.
        - ``remembered``: a file next to the checkpoint that stores the default schema.
        - ``unfit``: if true, each row is exactly the sent value. A value that the columns cannot hold exactly is in
          :data:`UNFIT`, as its text or as a reference to its file. Integers in columns of floats are then marked, see
          :func:`whole_mark`.
        - ``records``: with ``unfit``, values are records even if ``value`` is their only field.
        - ``raw``: with ``unfit``, values are not JSON but plain text, in the column ``value``; in a ``dir:`` topic they
          are the produced values.
        - ``headers``: if true, rows have Kafka's headers in ``_headers``: an array of ``key`` string and ``value``
          binary, in their order, empty without headers. Not supported with ``unfit`` and by ``dir:`` topics.
        - ``fresh``: with ``unfit``, the columns of a topic without messages. Without it, such a topic raises an error.

        ``_columns`` lists the columns of each row; see :func:`has_columns`. The schema is fixed when a query starts,
        and later columns are ignored.

        Raises :class:`InvalidArgumentError` if there is no schema yet, or if the topic's schema does not fit the given
        or remembered one. If a column of the topic becomes wider (integers, then floats), the running query fails.
        """

    def topics(self) -> list[str]:
        """The names of all topics, except internal ones of Mullion and Kafka."""

    def require_topic(self, topic: object, parameter: str = "topic") -> None:
        """Raises :class:`InvalidArgumentError` for an invalid name of a topic.

        ``parameter`` is the name of the argument, for the message.
        """

    def session_options(self) -> dict[str, str]:
        """The session options that are required to read and write topics."""

    def publisher(self, clock: Clock | None = None) -> Publisher:
        """A publisher for one query; ``clock`` determines the rows' timestamps."""


def has_columns(*names: str) -> Column:
    """A condition on the rows of a topic's stream: the row was sent with all of these columns, null or not.

    In a ``dir:`` topic a row has the columns of its call of ``produce``, in Kafka those of its own record.
    """
    condition = F.lit(True)
    for name in names:
        condition = condition & F.col("_columns").contains(column_mark(name))
    return condition


NO_COLUMNS: Final = StructType([StructField("value", NullType())])
"""The columns of a topic without a schema: no row fits them."""

UNFIT = "_unfit"
"""The column with the text of a row that does not fit the schema, and null for other rows."""

NOT_TEXT = "\0bytes:"
"""The prefix of a key, or a text in :data:`UNFIT`, that contains hexadecimal digits of bytes that are not UTF-8."""

SEPARATOR = "\n"
"""The separator of names in ``_columns``. No column name contains it."""


def column_mark(name: str) -> str:
    """The text of a column in ``_columns``."""
    return f"{SEPARATOR}{name}{SEPARATOR}"


WHOLE = "\0"
"""The prefix of a second name in ``_columns``: the value is an integer in a column of floats."""


SCALAR = "\n\n"
"""The suffix of ``_columns`` for a value that is not a record: the mark of a column without a name."""


def whole_mark(name: str) -> str:
    """The additional text in ``_columns`` for an integer in a column of floats."""
    return column_mark(f"{WHOLE}{name}")


def columns_text(names: Iterable[str]) -> str:
    """The text of several columns in ``_columns``."""
    return "".join(column_mark(name) for name in names)
