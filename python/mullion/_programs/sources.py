"""Where a job's rows come from: a topic, a DataFrame of the caller's, rows of an iterable.

::

    TopicSource("orders")                      rows that others publish, which wake the job up
    FrameSource(lambda spark: spark.readStream.table("orders"))
    RowsSource("orders", lambda: read("orders.csv"))     each row once, and on from there after a restart

A source of another kind is a class with ``reads`` and ``stream``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, final

from mullion._programs.host import Host
from mullion._programs.names import folder_name
from mullion.errors import InvalidArgumentError
from mullion.topics import DirBroker
from mullion.topics._broker import SchemaLike

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Source(Protocol):
    """What a job reads."""

    @property
    def reads(self) -> tuple[str, ...]:
        """The topics of the App that it reads: a job of these is run again while others publish to them."""

    def stream(self, app: Host, job: str, spark: SparkSession) -> DataFrame:
        """The rows, as a stream; called at each start of the job ``job``, whose folder may keep what is noted."""


@final
@dataclass(frozen=True)
class TopicSource:
    """A topic of the App's broker; see :meth:`mullion._programs.host.Host.stream`."""

    topic: str
    schema: SchemaLike | None = None
    unfit: bool = False
    records: bool = False

    @property
    def reads(self) -> tuple[str, ...]:
        """The topic."""
        return (self.topic,)

    def stream(self, app: Host, job: str, spark: SparkSession) -> DataFrame:
        """The topic as a stream."""
        return app.stream(job, self.topic, self.schema, spark, unfit=self.unfit, records=self.records)


@final
@dataclass(frozen=True)
class FrameSource:
    """A streaming DataFrame, made anew at each start of the job in the session that it is given."""

    made: Callable[[SparkSession], DataFrame]

    @property
    def reads(self) -> tuple[str, ...]:
        """None."""
        return ()

    def stream(self, app: Host, job: str, spark: SparkSession) -> DataFrame:
        """The DataFrame; raises :class:`InvalidArgumentError` for one that is no stream."""
        frame = self.made(spark)
        if not frame.isStreaming:
            raise InvalidArgumentError(
                f"The job {job!r} is given a DataFrame that is a batch. Read it with spark.readStream."
            )
        return frame


@final
@dataclass(frozen=True)
class RowsSource:
    """Rows of an iterable: dicts, or values that are no records, which come in the one column ``value``.

    - ``rows``: gives them from the first on, the same and in the same order at each start: what was taken is skipped.
    - ``batch``: how many rows are a micro-batch.

    They are put into a folder beside the checkpoint before the query starts, so that a batch that is done again has
    the rows that it had.
    """

    name: str
    rows: Callable[[], Iterable[Any]]
    batch: int = 10_000

    @property
    def reads(self) -> tuple[str, ...]:
        """None."""
        return ()

    def stream(self, app: Host, job: str, spark: SparkSession) -> DataFrame:
        """The rows as a stream; raises :class:`InvalidArgumentError` where there never was one."""
        folder = app.folder_of(job)
        broker = DirBroker(folder / "rows")
        taken = broker.read(self.name).num_rows
        left = itertools.islice(self.rows(), taken, None)
        while batch := list(itertools.islice(left, self.batch)):
            broker.produce(self.name, batch, clock=app.clock)
        if not taken and not broker.read(self.name).num_rows:
            raise InvalidArgumentError(f"The source {self.name!r} of the job {job!r} has no rows to learn columns of.")
        return broker.stream(spark, self.name, None, folder / f"{folder_name(self.name)}.schema.json")
