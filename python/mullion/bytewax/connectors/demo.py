"""A source of random numbers, as in ``bytewax.connectors.demo``."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from mullion.bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition

__all__ = ["RandomMetricSource"]

_State = tuple[datetime, int]


class _Metric(StatefulSourcePartition[tuple[str, float], _State]):
    def __init__(
        self, name: str, interval: timedelta, count: int, next_random: Callable[[], float], state: _State
    ) -> None:
        self._name = name
        self._interval = interval
        self._count = count
        self._next_random = next_random
        self._awake, self._emitted = state

    def next_batch(self) -> list[tuple[str, float]]:
        if self._emitted >= self._count:
            raise StopIteration
        self._awake += self._interval
        self._emitted += 1
        return [(self._name, self._next_random())]

    def next_awake(self) -> datetime | None:
        return self._awake

    def snapshot(self) -> _State:
        return self._awake, self._emitted


def _digit() -> float:
    return random.randrange(0, 10)  # noqa: S311


class RandomMetricSource(FixedPartitionedSource[tuple[str, float], _State]):
    """A source of ``count`` pairs of ``metric_name`` and a number, one per ``interval``."""

    def __init__(
        self,
        metric_name: str,
        interval: timedelta = timedelta(seconds=0.7),
        count: int = sys.maxsize,
        next_random: Callable[[], float] = _digit,
    ) -> None:
        self._name = metric_name
        self._interval = interval
        self._count = count
        self._next_random = next_random

    def list_parts(self) -> list[str]:
        """Returns the name of the metric as the only part."""
        return [self._name]

    def build_part(self, step_id: str, for_part: str, resume_state: _State | None) -> _Metric:
        """Opens the part."""
        state = resume_state or (datetime.now(UTC), 0)
        return _Metric(for_part, self._interval, self._count, self._next_random, state)
