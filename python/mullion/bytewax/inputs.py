"""What a source is, as of ``bytewax.inputs``, for those who write their own.

Sources are read by the program itself, and what they give is written to the log of inputs before Spark reads it.
"""

from __future__ import annotations

import asyncio
import queue
from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, TypeVar

__all__ = [
    "AbortExecution",
    "DynamicSource",
    "FixedPartitionedSource",
    "SimplePollingSource",
    "Source",
    "StatefulSourcePartition",
    "StatelessSourcePartition",
    "batch",
    "batch_async",
    "batch_getter",
    "batch_getter_ex",
]

X = TypeVar("X")
S = TypeVar("S")
Sn = TypeVar("Sn")


class AbortExecution(RuntimeError):  # noqa: N818
    """Raised by ``next_batch`` to end a run as if it had been killed, for tests."""


class Source(ABC, Generic[X]):
    """A source. Write a subclass of :class:`FixedPartitionedSource` or :class:`DynamicSource`."""


class StatefulSourcePartition(ABC, Generic[X, S]):
    """A part of a source that can go on from where it was."""

    @abstractmethod
    def next_batch(self) -> Iterable[X]:
        """The next items; none if there are none yet; raises ``StopIteration`` at the end."""

    def next_awake(self) -> datetime | None:
        """When :meth:`next_batch` is to be called next, in UTC; ``None`` for at once."""
        return None

    @abstractmethod
    def snapshot(self) -> S:
        """Where it is, after what :meth:`next_batch` gave."""

    def close(self) -> None:
        """Called at the end."""


class FixedPartitionedSource(Source[X], Generic[X, S]):
    """A source of parts that have names and can go on from where they were."""

    @abstractmethod
    def list_parts(self) -> list[str]:
        """The names of its parts."""

    @abstractmethod
    def build_part(self, step_id: str, for_part: str, resume_state: S | None) -> StatefulSourcePartition[X, S]:
        """A part, from its beginning or from where it was."""


class StatelessSourcePartition(ABC, Generic[X]):
    """A part of a source that cannot go back."""

    @abstractmethod
    def next_batch(self) -> Iterable[X]:
        """The next items; none if there are none yet; raises ``StopIteration`` at the end."""

    def next_awake(self) -> datetime | None:
        """When :meth:`next_batch` is to be called next, in UTC; ``None`` for at once."""
        return None

    def close(self) -> None:
        """Called at the end."""


class DynamicSource(Source[X]):
    """A source that cannot go back; one part is made of it."""

    @abstractmethod
    def build(self, step_id: str, worker_index: int, worker_count: int) -> StatelessSourcePartition[X]:
        """The part."""


class _Polling(StatefulSourcePartition[X, Any]):
    def __init__(self, source: SimplePollingSource[X, Any], interval: timedelta, first: datetime) -> None:
        self._source = source
        self._interval = interval
        self._next = first

    def next_batch(self) -> list[X]:
        try:
            item = self._source.next_item()
        except SimplePollingSource.Retry as retry:
            self._next += retry.timeout
            return []
        self._next += self._interval
        return [] if item is None else [item]

    def next_awake(self) -> datetime | None:
        return self._next

    def snapshot(self) -> Any:
        return self._source.snapshot()


class SimplePollingSource(FixedPartitionedSource[X, S]):
    """Calls :meth:`next_item` once in an interval; ``align_to`` says when in it.

    Its parameters are those of the items and of the snapshot, which is ``None`` if left out.
    """

    if not TYPE_CHECKING:

        def __class_getitem__(cls, parameters):
            is_short = cls is SimplePollingSource and not isinstance(parameters, tuple)
            return super().__class_getitem__((parameters, None) if is_short else parameters)

    class Retry(Exception):  # noqa: N818
        """Raised by :meth:`next_item` to be called again after ``timeout``."""

        def __init__(self, timeout: timedelta) -> None:
            super().__init__(timeout)
            self.timeout = timeout

    def __init__(self, interval: timedelta, align_to: datetime | None = None) -> None:
        self._interval = interval
        self._align_to = align_to

    def list_parts(self) -> list[str]:
        """One part."""
        return ["singleton"]

    def build_part(self, step_id: str, for_part: str, resume_state: S | None) -> StatefulSourcePartition[X, S]:
        """The part."""
        now = datetime.now(UTC)
        if resume_state is not None:
            self.resume(resume_state)
        since = timedelta(0) if self._align_to is None else (now - self._align_to) % self._interval
        return _Polling(self, self._interval, now + self._interval - since if since else now)

    @abstractmethod
    def next_item(self) -> X | None:
        """The next item; ``None`` for none."""

    def snapshot(self) -> S:
        """Where it is; :meth:`resume` is given it."""
        return None  # type: ignore[return-value]

    def resume(self, resume_state: S) -> None:
        """Goes on from where it was."""


def batch(ib: Iterable[X], batch_size: int) -> Iterator[list[X]]:
    """The items of ``ib`` in lists of ``batch_size``."""
    it = iter(ib)
    while found := list(islice(it, batch_size)):
        yield found


def batch_getter(getter: Callable[[], X], batch_size: int, yield_on: X | None = None) -> Iterator[list[X]]:
    """What ``getter`` gives, in lists that end where it gives ``yield_on``."""
    while True:
        found: list[X] = []
        while len(found) < batch_size:
            try:
                item = getter()
            except StopIteration:
                yield found
                return
            if item == yield_on:
                break
            found.append(item)
        yield found


def batch_getter_ex(
    getter: Callable[[], X], batch_size: int, yield_ex: type[Exception] = queue.Empty
) -> Iterator[list[X]]:
    """What ``getter`` gives, in lists that end where it raises ``yield_ex``."""
    while True:
        found: list[X] = []
        while len(found) < batch_size:
            try:
                found.append(getter())
            except yield_ex:
                break
            except StopIteration:
                yield found
                return
        yield found


def batch_async(
    aib: AsyncIterable[X], timeout: timedelta, batch_size: int, loop: asyncio.AbstractEventLoop | None = None
) -> Iterator[list[X]]:
    """What an asynchronous iterable gives, in lists of what comes within ``timeout``."""
    it = aib.__aiter__()
    running = loop if loop is not None else asyncio.new_event_loop()
    waiting: asyncio.Future[X] | None = None

    async def gather() -> tuple[list[X], bool]:
        nonlocal waiting
        found: list[X] = []
        until = running.time() + timeout.total_seconds()
        while len(found) < batch_size:
            if waiting is None:
                waiting = asyncio.ensure_future(it.__anext__())
            # What is still on its way is taken into the next list.
            await asyncio.wait([waiting], timeout=max(0.0, until - running.time()))
            if not waiting.done():
                break
            done, waiting = waiting, None
            try:
                found.append(done.result())
            except StopAsyncIteration:
                return found, True
        return found, False

    while True:
        found, ended = running.run_until_complete(gather())
        if found or not ended:
            yield found
        if ended:
            return
