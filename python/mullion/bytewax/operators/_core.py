"""Core operators, which add the steps of ``dataflow.Step``, and shared checks. All other operators consist of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

from mullion.bytewax._steps import ByItem
from mullion.bytewax.dataflow import Dataflow, KeyedStream, Stream, operator
from mullion.bytewax.inputs import Source
from mullion.bytewax.outputs import Sink
from mullion.errors import WrongCallError

X = TypeVar("X")
Y = TypeVar("Y")
V = TypeVar("V")
W = TypeVar("W")
S = TypeVar("S")

NOTHING: tuple[()] = ()


def require_callable(step_id: str, name: str, function: Any) -> None:
    if not callable(function):
        raise WrongCallError(
            f"The step {step_id!r}: {name}={function!r} ({type(function).__name__}) is not a function. "
            f"Write {name}=lambda item: ..."
        )


@dataclass(frozen=True)
class BranchOut(Generic[X, Y]):
    """The streams of :func:`branch`."""

    trues: Stream[X]
    falses: Stream[Y]


@operator(_core=True)
def branch(step_id: str, up: Stream[X], predicate: Callable[[X], bool]) -> BranchOut[X, X]:
    """Splits a stream in two by the result of ``predicate``, which must be a ``bool``."""
    require_callable(step_id, "predicate", predicate)
    trues, falses = up.flow()._add("branch", [up], ["trues", "falses"], predicate)
    return BranchOut(trues, falses)


@operator(_core=True)
def flat_map_batch(step_id: str, up: Stream[X], mapper: Callable[[list[X]], Iterable[Y]]) -> Stream[Y]:
    """Calls ``mapper`` with batches of items, and emits the items that it returns."""
    require_callable(step_id, "mapper", mapper)
    (down,) = up.flow()._add("flat_map_batch", [up], ["down"], mapper)
    return down


@operator(_core=True)
def input(step_id: str, flow: Dataflow, source: Source[X]) -> Stream[X]:  # noqa: A001
    """Reads a source."""
    if not isinstance(source, Source):
        raise WrongCallError(
            f"The step {step_id!r}: source={source!r} ({type(source).__name__}) is not a Source. Use "
            "TestingSource([...]), a source of mullion.bytewax.connectors, or a subclass of FixedPartitionedSource or "
            "DynamicSource."
        )
    (down,) = flow._add("input", [], ["down"], source)
    return down


def _print_debug(step_id: str, item: Any, epoch: int, worker: int) -> None:
    print(f"{step_id} W{worker} @{epoch}: {item!r}", flush=True)  # noqa: T201


@operator(_core=True)
def inspect_debug(
    step_id: str, up: Stream[X], inspector: Callable[[str, X, int, int], Any] = _print_debug
) -> Stream[X]:
    """Calls ``inspector(step_id, item, batch, worker)`` in the driver for each item, and emits the items unchanged."""
    require_callable(step_id, "inspector", inspector)
    (down,) = up.flow()._add("inspect", [up], ["down"], partial(inspector, step_id))
    return down


@operator(_core=True)
def merge(step_id: str, *ups: Stream[Any]) -> Stream[Any]:
    """Merges streams. The items of each stream keep their order."""
    if not ups:
        raise WrongCallError(f"The step {step_id!r} merges no streams. Write merge('all', one, other).")
    (down,) = ups[0].flow()._add("merge", ups, ["down"], None)
    return down


@operator(_core=True)
def output(step_id: str, up: Stream[X], sink: Sink[X]) -> None:
    """Writes a stream to a sink."""
    if not isinstance(sink, Sink):
        raise WrongCallError(
            f"The step {step_id!r}: sink={sink!r} ({type(sink).__name__}) is not a Sink. Use TestingSink([]), "
            "StdOutSink(), a sink of mullion.bytewax.connectors, or a subclass of FixedPartitionedSink or DynamicSink."
        )
    up.flow()._add("output", [up], [], sink)


@operator(_core=True)
def redistribute(step_id: str, up: Stream[X]) -> Stream[X]:
    """Emits items unchanged, because Spark distributes them."""
    (down,) = up.flow()._add("redistribute", [up], ["down"], None)
    return down


class _LogicOfKey(ABC, Generic[W, S]):
    """The methods of the logic of a key, except those that process values."""

    RETAIN: ClassVar[bool] = False
    DISCARD: ClassVar[bool] = True

    _snapshot_is_complete: ClassVar[bool] = False

    def on_notify(self) -> tuple[Iterable[W], bool]:
        """Called once the time of :meth:`notify_at` is reached."""
        return NOTHING, self.RETAIN

    def on_eof(self) -> tuple[Iterable[W], bool]:
        """Called at the end of the input."""
        return NOTHING, self.RETAIN

    def notify_at(self) -> datetime | None:
        """The system time of the next call of :meth:`on_notify`, in UTC; ``None`` for no call."""
        return None

    @abstractmethod
    def snapshot(self) -> S:
        """The state that the builder receives when a later run continues."""


class StatefulBatchLogic(_LogicOfKey[W, S], Generic[V, W, S]):
    """The logic of a key in :func:`stateful_batch`. Its methods return the items to emit, and True to discard it."""

    @abstractmethod
    def on_batch(self, values: list[V]) -> tuple[Iterable[W], bool]:
        """Called with each batch of values."""


class StatefulLogic(_LogicOfKey[W, S], Generic[V, W, S]):
    """The logic of a key in :func:`stateful`: like :class:`StatefulBatchLogic`, but value by value."""

    @abstractmethod
    def on_item(self, value: V) -> tuple[Iterable[W], bool]:
        """Called with each value."""


@operator(_core=True)
def stateful_batch(
    step_id: str, up: KeyedStream[V], builder: Callable[[Any], StatefulBatchLogic[V, W, S]]
) -> KeyedStream[W]:
    """Runs a separate logic for each key. ``builder`` receives the stored snapshot, or ``None`` for a new key."""
    require_callable(step_id, "builder", builder)
    (down,) = up.flow()._add("stateful", [up], ["down"], builder)
    return down


@operator
def stateful(step_id: str, up: KeyedStream[V], builder: Callable[[Any], StatefulLogic[V, W, S]]) -> KeyedStream[W]:
    """Runs a separate logic for each key, value by value."""
    require_callable(step_id, "builder", builder)
    return stateful_batch("stateful_batch", up, ByItem(builder))
