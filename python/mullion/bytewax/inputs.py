"""Interfaces of custom sources, as in ``bytewax.inputs``.

The driver reads sources, and writes their items to the log of inputs before Spark reads them.
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
    """The error that ``next_batch`` raises in tests to end a run as if it was killed."""


class Source(ABC, Generic[X]):
    """The base of sources. Write a subclass of :class:`FixedPartitionedSource` or :class:`DynamicSource`."""


class StatefulSourcePartition(ABC, Generic[X, S]):
    """A part of a source that can resume from a snapshot."""

    @abstractmethod
    def next_batch(self) -> Iterable[X]:
        """Returns the next items, possibly none yet. Raises ``StopIteration`` at the end."""

    def next_awake(self) -> datetime | None:
        """The time of the next call of :meth:`next_batch`, in UTC; ``None`` for immediately."""
        return None

    @abstractmethod
    def snapshot(self) -> S:
        """The position after the items that :meth:`next_batch` has returned."""

    def close(self) -> None:
        """Called when the run ends."""


class FixedPartitionedSource(Source[X], Generic[X, S]):
    """A source of named parts that can resume from snapshots."""

    @abstractmethod
    def list_parts(self) -> list[str]:
        """The names of the parts."""

    @abstractmethod
    def build_part(self, step_id: str, for_part: str, resume_state: S | None) -> StatefulSourcePartition[X, S]:
        """Opens a part at its beginning (``None``) or at the snapshot ``resume_state``."""


class StatelessSourcePartition(ABC, Generic[X]):
    """A part of a source that cannot resume."""

    @abstractmethod
    def next_batch(self) -> Iterable[X]:
        """Returns the next items, possibly none yet. Raises ``StopIteration`` at the end."""

    def next_awake(self) -> datetime | None:
        """The time of the next call of :meth:`next_batch`, in UTC; ``None`` for immediately."""
        return None

    def close(self) -> None:
        """Called when the run ends."""


class DynamicSource(Source[X]):
    """A source that cannot resume. A run builds one part of it."""

    @abstractmethod
    def build(self, step_id: str, worker_index: int, worker_count: int) -> StatelessSourcePartition[X]:
        """Opens the part."""


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
    """Calls :meth:`next_item` once per ``interval``, at times aligned to ``align_to``.

    The type parameters are the types of the items and of the snapshot (default: ``None``).
    """

    if not TYPE_CHECKING:

        def __class_getitem__(cls, parameters):
            is_short = cls is SimplePollingSource and not isinstance(parameters, tuple)
            return super().__class_getitem__((parameters, None) if is_short else parameters)

    class Retry(Exception):  # noqa: N818
        """The error that :meth:`next_item` raises to be called again after ``timeout``."""

        def __init__(self, timeout: timedelta) -> None:
            super().__init__(timeout)
            self.timeout = timeout

    def __init__(self, interval: timedelta, align_to: datetime | None = None) -> None:
        self._interval = interval
        self._align_to = align_to

    def list_parts(self) -> list[str]:
        """Returns the name of the only part."""
        return ["singleton"]

    def build_part(self, step_id: str, for_part: str, resume_state: S | None) -> StatefulSourcePartition[X, S]:
        """Opens the part."""
        now = datetime.now(UTC)
        if resume_state is not None:
            self.resume(resume_state)
        since = timedelta(0) if self._align_to is None else (now - self._align_to) % self._interval
        return _Polling(self, self._interval, now + self._interval - since if since else now)

    @abstractmethod
    def next_item(self) -> X | None:
        """Returns the next item, or ``None`` if there is none."""

    def snapshot(self) -> S:
        """The position, as an argument of :meth:`resume`."""
        return None  # type: ignore[return-value]

    def resume(self, resume_state: S) -> None:
        """Resumes from a snapshot."""


def batch(ib: Iterable[X], batch_size: int) -> Iterator[list[X]]:
    """Splits the items of ``ib`` into lists of ``batch_size``."""
    it = iter(ib)
    while items := list(islice(it, batch_size)):
        yield items


def batch_getter(getter: Callable[[], X], batch_size: int, yield_on: X | None = None) -> Iterator[list[X]]:
    """Collects results of ``getter`` into lists of up to ``batch_size``. A result ``yield_on`` ends a list."""
    while True:
        items: list[X] = []
        while len(items) < batch_size:
            try:
                item = getter()
            except StopIteration:
                yield items
                return
            if item == yield_on:
                break
            items.append(item)
        yield items


def batch_getter_ex(
    getter: Callable[[], X], batch_size: int, yield_ex: type[Exception] = queue.Empty
) -> Iterator[list[X]]:
    """Collects results of ``getter`` into lists of up to ``batch_size``. The exception ``yield_ex`` ends a list."""
    while True:
        items: list[X] = []
        while len(items) < batch_size:
            try:
                items.append(getter())
            except yield_ex:
                break
            except StopIteration:
                yield items
                return
        yield items


def batch_async(
    aib: AsyncIterable[X], timeout: timedelta, batch_size: int, loop: asyncio.AbstractEventLoop | None = None
) -> Iterator[list[X]]:
    """Collects items of an asynchronous iterable into lists of up to ``batch_size``, for up to ``timeout`` each."""
    it = aib.__aiter__()
    running = loop if loop is not None else asyncio.new_event_loop()
    waiting: asyncio.Future[X] | None = None

    async def gather() -> tuple[list[X], bool]:
        nonlocal waiting
        items: list[X] = []
        until = running.time() + timeout.total_seconds()
        while len(items) < batch_size:
            if waiting is None:
                waiting = asyncio.ensure_future(it.__anext__())
            # After a timeout, the pending item becomes part of the next list.
            await asyncio.wait([waiting], timeout=max(0.0, until - running.time()))
            if not waiting.done():
                break
            done, waiting = waiting, None
            try:
                items.append(done.result())
            except StopAsyncIteration:
                return items, True
        return items, False

    while True:
        items, ended = running.run_until_complete(gather())
        if items or not ended:
            yield items
        if ended:
            return
