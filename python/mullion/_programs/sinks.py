"""Where a job's batches go to: topics of the App, or a function.

A sink of another kind is a class with ``publishes`` and ``publisher``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, final

from mullion._programs.host import Host
from mullion.errors import UnsupportedError
from mullion.topics import Publisher

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from mullion.topics._outputs import Make, Tell


class Sink(Protocol):
    """What takes the batches of a job."""

    @property
    def publishes(self) -> tuple[str, ...]:
        """The topics of the App that it puts rows into: jobs that read these are run again."""

    def publisher(self, app: Host) -> Publisher:
        """What one query gives its batches to."""


@final
@dataclass(frozen=True)
class TopicSink:
    """Topics of the App's broker, which take rows :data:`mullion.topics.OUTPUTS`."""

    publishes: tuple[str, ...] = ()

    def publisher(self, app: Host) -> Publisher:
        """The broker's."""
        return app.broker.publisher(app.clock)


@final
@dataclass(frozen=True)
class CallbackSink:
    """A function that is given each batch and its number, on the driver.

    A batch that is done again, after a failure, is given again under the number that it had: who must not do it twice
    notes that.
    """

    function: Callable[[DataFrame, int], None]

    @property
    def publishes(self) -> tuple[str, ...]:
        """None."""
        return ()

    def publisher(self, app: Host) -> Publisher:
        """Calls the function."""
        return _Calls(self.function)


class _Calls:
    """A publisher that puts nothing into topics."""

    def __init__(self, function: Callable[[DataFrame, int], None]) -> None:
        self._function = function

    @property
    def published(self) -> Mapping[str, int]:
        """Nothing."""
        return {}

    def publish(self, outputs: DataFrame, batch_id: int) -> None:
        """Gives a batch to the function."""
        self._function(outputs, batch_id)

    def publish_made(self, rows: DataFrame, batch_id: int, make: Make, tell: Tell | None = None) -> None:
        """Is for topics."""
        raise UnsupportedError("A function is given batches, and nothing is published there. Give the job a TopicSink.")

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """Nothing is open."""
