"""The streaming queries of a program for the run loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from mullion._program.host import Host

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from mullion.topics import Publisher


@final
@dataclass(frozen=True)
class Job:
    """A query with a checkpoint under its name.

    ``build`` returns the stream of rows :data:`mullion.topics.OUTPUTS` to publish. It is called at each start of the
    query, and gets its topics from the App (``App.stream``). A job runs again when another job of the program
    ``publishes`` to a topic that it ``reads``.
    """

    name: str
    reads: tuple[str, ...]
    publishes: tuple[str, ...]
    build: Callable[[SparkSession], DataFrame]

    publish: Callable[[Publisher, DataFrame, int], None] | None = None
    """Publishes a batch of the DataFrame from ``build``, if its rows are not :data:`mullion.topics.OUTPUTS`."""

    mend: Callable[[BaseException], bool] | None = None
    """Returns True if the job has adapted to a failure, so that its query can be built again from its checkpoint."""

    publisher: Callable[[Host], Publisher] | None = None
    """Makes the publisher of one query; by default the publisher of the App's broker."""
