"""What a program asks the run loop to run: one streaming query each, from sources to a sink."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, final

from mullion._programs.host import Host
from mullion._programs.sinks import Sink, TopicSink
from mullion._programs.sources import Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from mullion.topics import Publisher


@final
@dataclass(frozen=True)
class Job:
    """A query with a checkpoint under its name.

    ``build`` makes the stream of what the sink takes: of topics, rows :data:`mullion.topics.OUTPUTS`. It is called at
    each start of the query, and asks the App for its topics (``App.stream``). ``reads`` and ``publishes`` are the
    topics by which jobs of one program wake each other up; one that has other sources and sinks leaves them empty.
    """

    name: str
    reads: tuple[str, ...]
    publishes: tuple[str, ...]
    build: Callable[[SparkSession], DataFrame]

    publish: Callable[[Publisher, DataFrame, int], None] | None = None
    """How a batch of what ``build`` made is published, where that is not :data:`mullion.topics.OUTPUTS` already."""

    mend: Callable[[BaseException], bool] | None = None
    """Whether a query that failed may be built anew and go on from its checkpoint, for its job has learned why."""

    in_memory: bool = False
    """Whether its state is in memory: it is written down where the query ends, and made again where it is lost."""

    sink: Sink = field(default_factory=TopicSink)
    """What takes its batches."""


def job_of(
    app: Host, name: str, source: Source, sink: Sink, rows: Callable[[DataFrame], DataFrame] = lambda rows: rows
) -> Job:
    """The job that gives what ``rows`` makes of a source's rows to a sink."""
    return Job(name, source.reads, sink.publishes, lambda spark: rows(source.stream(app, name, spark)), sink=sink)
