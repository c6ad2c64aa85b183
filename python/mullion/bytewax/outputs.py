"""Interfaces of custom sinks, as in ``bytewax.outputs``. The driver writes to sinks."""

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
    """The base of sinks. Write a subclass of :class:`FixedPartitionedSink` or :class:`DynamicSink`."""


class StatefulSinkPartition(ABC, Generic[X, S]):
    """A part of a sink that can resume from a snapshot."""

    @abstractmethod
    def write_batch(self, values: list[X]) -> None:
        """Writes values."""

    @abstractmethod
    def snapshot(self) -> S:
        """The position after the values written so far."""

    def close(self) -> None:
        """Called when the run ends."""


class FixedPartitionedSink(Sink[tuple[str, X]], Generic[X, S]):
    """A sink of named parts. Items are ``(key, value)`` pairs, and the key determines the part."""

    @abstractmethod
    def list_parts(self) -> list[str]:
        """The names of the parts."""

    def part_fn(self, item_key: str) -> int:
        """A number for a key. Its remainder modulo the number of parts is the index into the sorted part names."""
        return adler32(item_key.encode())

    @abstractmethod
    def build_part(self, step_id: str, for_part: str, resume_state: S | None) -> StatefulSinkPartition[X, S]:
        """Opens a part at its beginning (``None``) or at the snapshot ``resume_state``."""


class StatelessSinkPartition(ABC, Generic[X]):
    """A part of a sink that cannot resume."""

    @abstractmethod
    def write_batch(self, items: list[X]) -> None:
        """Writes items."""

    def close(self) -> None:
        """Called when the run ends."""


class DynamicSink(Sink[X]):
    """A sink that cannot resume. A run builds one part of it."""

    @abstractmethod
    def build(self, step_id: str, worker_index: int, worker_count: int) -> StatelessSinkPartition[Any]:
        """Opens the part."""
