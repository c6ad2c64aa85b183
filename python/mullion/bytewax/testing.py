"""Sources, sinks and entry points for tests, as in ``bytewax.testing``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, ClassVar, TypeVar

from pyspark.sql import SparkSession

from mullion._util.clock import Clock
from mullion.bytewax._query.runner import run
from mullion.bytewax.dataflow import Dataflow
from mullion.bytewax.inputs import AbortExecution, FixedPartitionedSource, StatefulSourcePartition
from mullion.bytewax.outputs import DynamicSink, StatelessSinkPartition
from mullion.bytewax.recovery import RecoveryConfig, folder_of
from mullion.errors import InvalidArgumentError

__all__ = [
    "TestingSink",
    "TestingSource",
    "TimeTestingGetter",
    "cluster_main",
    "ffwd_iter",
    "poll_next_batch",
    "run_main",
]

X = TypeVar("X")


@dataclass
class TimeTestingGetter:
    """A clock that a test advances, for ``now_getter``. Workers have a copy from the start of the run."""

    now: datetime

    def advance(self, td: timedelta) -> None:
        """Advances the time by ``td``."""
        self.now += td

    def get(self) -> datetime:
        """The current time."""
        return self.now


def ffwd_iter(it: Iterator[Any], n: int) -> None:
    """Skips ``n`` items."""
    next(islice(it, n, n), None)


class _Items(StatefulSourcePartition[X, int]):
    def __init__(self, items: Iterable[Any], batch_size: int, resume_state: int | None) -> None:
        self._place = resume_state or 0
        self._batch_size = batch_size
        self._listed: Any = items if type(items) in (list, tuple) else None
        self._it = iter(items)
        ffwd_iter(self._it, self._place)
        self._raise: type[Exception] | None = None
        self._awake: datetime | None = None

    def next_batch(self) -> list[X]:
        if self._raise is not None:
            raise self._raise
        self._awake = None
        if self._listed is not None:
            together = list(self._listed[self._place : self._place + self._batch_size])
            if together and not any(issubclass(kind, _marks()) for kind in set(map(type, together))):
                self._place += len(together)
                return together
            self._it.__setstate__(self._place)  # type: ignore[attr-defined]
        items: list[X] = []
        for item in self._it:
            self._place += 1
            if isinstance(item, TestingSource.EOF):
                self._raise = StopIteration
                return items
            if isinstance(item, TestingSource.ABORT):
                if not item._triggered:
                    item._triggered = True
                    self._raise = AbortExecution
                    return items
                continue
            if isinstance(item, TestingSource.PAUSE):
                self._awake = datetime.now(UTC) + item.for_duration
                return items
            items.append(item)
            if len(items) >= self._batch_size:
                return items
        if not items:
            raise StopIteration
        return items

    def next_awake(self) -> datetime | None:
        return self._awake

    def snapshot(self) -> int:
        return self._place


class TestingSource(FixedPartitionedSource[X, int]):
    """The items of ``ib``, in batches of ``batch_size``.

    The items may contain markers: :class:`EOF` ends a run, and the next run resumes after it. :class:`ABORT` ends the
    first run that reaches it, as if the run was killed. :class:`PAUSE` delays the next items.
    """

    __test__: ClassVar[bool] = False

    @dataclass
    class EOF:
        """Ends the run. The next run resumes after it."""

    @dataclass
    class ABORT:
        """Ends the first run that reaches it, as if the run was killed."""

        _triggered: bool = False

    @dataclass
    class PAUSE:
        """Delays the next items by ``for_duration``."""

        for_duration: timedelta

    def __init__(
        self, ib: Iterable[X | TestingSource.EOF | TestingSource.ABORT | TestingSource.PAUSE], batch_size: int = 1
    ) -> None:
        if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
            raise InvalidArgumentError(f"batch_size={batch_size!r} is not a whole number from 1 on.")
        self._ib = ib
        self._batch_size = batch_size

    def list_parts(self) -> list[str]:
        """Returns the name of the only part."""
        return ["iterable"]

    def build_part(self, step_id: str, for_part: str, resume_state: int | None) -> _Items[X]:
        """Opens the part."""
        return _Items(self._ib, self._batch_size, resume_state)


def _marks() -> tuple[type, ...]:
    return TestingSource.EOF, TestingSource.ABORT, TestingSource.PAUSE


class _Appending(StatelessSinkPartition[X]):
    def __init__(self, items: list[X]) -> None:
        self._items = items

    def write_batch(self, items: list[X]) -> None:
        self._items += items


class TestingSink(DynamicSink[X]):
    """Appends all items to the list ``ls``."""

    __test__: ClassVar[bool] = False

    def __init__(self, ls: list[X]) -> None:
        if not isinstance(ls, list):
            raise InvalidArgumentError(f"ls={ls!r} ({type(ls).__name__}) is not a list to append to.")
        self._ls = ls

    def build(self, step_id: str, worker_index: int, worker_count: int) -> _Appending[X]:
        """Opens the part."""
        return _Appending(self._ls)


def poll_next_batch(part: Any, timeout: timedelta = timedelta(seconds=5)) -> list[Any]:
    """Polls a part of a source for its next non-empty batch. Raises ``TimeoutError`` after ``timeout``."""
    start = datetime.now(UTC)
    while True:
        if datetime.now(UTC) - start > timeout:
            raise TimeoutError
        items = list(part.next_batch())
        if items:
            return items


def run_main(
    flow: Dataflow,
    *,
    epoch_interval: timedelta | None = None,
    recovery_config: RecoveryConfig | None = None,
    clock: Clock | None = None,
    spark: SparkSession | None = None,
) -> None:
    """Runs a dataflow until its sources end. Then all windows close.

    - ``epoch_interval``: accepted but unused; Spark commits one micro-batch at a time.
    - ``recovery_config``: the location of state; by default no state is kept.
    - ``clock``: the system clock; in tests a ``mullion.testing.ManualClock``.
    - ``spark``: the session; by default the active session, or a new one.

    Raises the error of the query, of a source or of a sink.
    """
    run(flow, folder_of(recovery_config), clock, spark)


def cluster_main(
    flow: Dataflow,
    addresses: list[str] | None,
    proc_id: int,
    *,
    epoch_interval: timedelta | None = None,
    recovery_config: RecoveryConfig | None = None,
    worker_count_per_proc: int = 1,
) -> None:
    """Runs :func:`run_main`, because Spark has its own workers. Raises an error if ``addresses`` is not empty."""
    if addresses:
        raise InvalidArgumentError(
            f"addresses={addresses!r}: processes of a dataflow do not talk to each other here; Spark has its own "
            "workers. Leave them out, and give the session a master with more cores."
        )
    run_main(flow, epoch_interval=epoch_interval, recovery_config=recovery_config)
