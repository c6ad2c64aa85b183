"""What a program asks the run loop to run: one streaming query each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from mullion.topics import Publisher


@final
@dataclass(frozen=True)
class Job:
    """A query that reads topics and publishes to topics, with a checkpoint under its name.

    ``build`` makes the stream of what is to be published: rows :data:`mullion.topics.OUTPUTS`. It is called at each
    start of the query, and asks the App for its topics (``App.stream``). ``reads`` and ``publishes`` are topics.
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
