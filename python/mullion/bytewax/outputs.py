"""What a sink is, as of ``bytewax.outputs``, for those who write their own. Sinks are written by the program itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar
from zlib import adler32

__all__ = [
    "DynamicSink",
    "FixedPartitionedSink",
    "Sink",
    "StatefulSinkPartition",
    "StatelessSinkPartition",
]

X = TypeVar("X")
S = TypeVar("S")


class Sink(ABC, Generic[X]):
    """A sink. Write a subclass of :class:`FixedPartitionedSink` or :class:`DynamicSink`."""


class StatefulSinkPartition(ABC, Generic[X, S]):
    """A part of a sink that can go on from where it was."""

    @abstractmethod
    def write_batch(self, values: list[X]) -> None:
        """Writes values."""

    @abstractmethod
    def snapshot(self) -> S:
        """Where it is, after what was written."""

    def close(self) -> None:
        """Called at the end."""


class FixedPartitionedSink(Sink[tuple[str, X]], Generic[X, S]):
    """A sink of parts that have names; items are ``(key, value)``, and the key says the part."""

    @abstractmethod
    def list_parts(self) -> list[str]:
        """The names of its parts."""

    def part_fn(self, item_key: str) -> int:
        """Which part a key is of; a number that is divided by the number of parts."""
        return adler32(item_key.encode())

    @abstractmethod
    def build_part(self, step_id: str, for_part: str, resume_state: S | None) -> StatefulSinkPartition[X, S]:
        """A part, from its beginning or from where it was."""


class StatelessSinkPartition(ABC, Generic[X]):
    """A part of a sink that cannot go back."""

    @abstractmethod
    def write_batch(self, items: list[X]) -> None:
        """Writes items."""

    def close(self) -> None:
        """Called at the end."""


class DynamicSink(Sink[X]):
    """A sink that cannot go back; one part is made of it."""

    @abstractmethod
    def build(self, step_id: str, worker_index: int, worker_count: int) -> StatelessSinkPartition[Any]:
        """The part."""
