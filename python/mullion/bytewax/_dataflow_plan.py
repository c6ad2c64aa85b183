"""The plan of a dataflow: its steps in order, and the route of items between steps within a task.

Steps are in the order of their definition, so each step follows its upstream steps. A stateful step is a stage that
runs after a shuffle. Its output is pushed through stateless steps in the same task, up to the next stage, sink or
inspector.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from mullion.bytewax._step_errors import step_error
from mullion.bytewax.dataflow import Dataflow, Step
from mullion.errors import InvalidArgumentError, WrongCallError

STATEFUL: Final = ("stateful", "window")
ENDS: Final = ("output", "inspect")

BATCH_BITS: Final = 4
"""Places are multiples of this, which leaves room for the values, notifications and end of one source batch."""

NOTIFIED: Final = (1 << 62) + 1
ENDED: Final = (1 << 62) + 2
"""Places of output from timers, and from the end of inputs. Both sort after all output of batches."""

Push = Callable[[Sequence[Any], "Origin"], None]


class Origin(NamedTuple):
    """The origin of items, which restores their order after a shuffle.

    - ``place``: the place of their source batch, in read order.
    - ``key``: the key in the stateful step that emitted them; empty before the first one.
    - ``now_us``: the system time at which the batch was read, in microseconds.
    """

    place: int
    key: str
    now_us: int


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """A step without its source, sink or inspector, which stay in the driver."""

    step_id: str
    kind: str
    ups: tuple[str, ...]
    downs: tuple[str, ...]
    does: Any


@dataclass(frozen=True)
class Plan:
    """The steps of a dataflow; pickled for the workers."""

    steps: tuple[PlannedStep, ...]

    @staticmethod
    def of(flow: Dataflow) -> Plan:
        """The plan of a dataflow; raises :class:`InvalidArgumentError` for one that cannot run."""
        if not isinstance(flow, Dataflow):
            raise WrongCallError(f"{flow!r} ({type(flow).__name__}) is not a Dataflow.")
        if not any(step.kind == "input" for step in flow._steps):
            raise InvalidArgumentError(
                f"The dataflow {flow.flow_id!r} has no input. Add op.input('inp', flow, TestingSource([...]))."
            )
        if not any(step.kind in ENDS for step in flow._steps):
            raise InvalidArgumentError(
                f"The dataflow {flow.flow_id!r} has no output, so that nothing would come of it. Add "
                "op.output('out', stream, StdOutSink()) or op.inspect('see', stream)."
            )
        return Plan(tuple(_planned(step) for step in flow._steps))

    def stages(self) -> list[int]:
        return [number for number, step in enumerate(self.steps) if step.kind in STATEFUL]

    def sources_of(self) -> list[frozenset[int]]:
        """The numbers of the upstream inputs of each step."""
        sources_by_step: list[frozenset[int]] = []
        of_stream: dict[str, frozenset[int]] = {}
        for number, step in enumerate(self.steps):
            sources = frozenset({number}) if step.kind == "input" else frozenset[int]()
            sources = sources.union(*(of_stream[up] for up in step.ups))
            sources_by_step.append(sources)
            of_stream.update(dict.fromkeys(step.downs, sources))
        return sources_by_step


def _planned(step: Step) -> PlannedStep:
    does = None if step.kind in ("input", *ENDS) else step.does
    return PlannedStep(step.step_id, step.kind, step.ups, step.downs, does)


class Pipeline:
    """Runs the stateless steps in one task.

    It calls ``give(step, items, origin)`` with items that reach a stage, a sink or an inspector.
    """

    def __init__(self, plan: Plan, give: Callable[[int, Sequence[Any], Origin], None]) -> None:
        self._give = give
        self._into: dict[str, Push] = {}
        readers: dict[str, list[tuple[int, PlannedStep]]] = {}
        for number, step in enumerate(plan.steps):
            for up in step.ups:
                readers.setdefault(up, []).append((number, step))
        # In reverse order, so that the push functions of downstream streams exist.
        for step in reversed(plan.steps):
            for down in step.downs:
                self._into[down] = _all([self._reader(*reader) for reader in readers.get(down, ())])

    def push(self, stream: str, items: Sequence[Any], origin: Origin) -> None:
        self._into[stream](items, origin)

    def into(self, stream: str) -> Push:
        return self._into[stream]

    def _reader(self, number: int, step: PlannedStep) -> Push:
        if step.kind in STATEFUL or step.kind == "output":
            return lambda items, origin: self._give(number, items, origin)
        onward = [self._into[down] for down in step.downs]
        match step.kind:
            case "inspect":
                return _all([lambda items, origin: self._give(number, items, origin), *onward])
            case "flat_map_batch":
                return _mapped(step, onward[0])
            case "branch":
                return _branched(step, *onward)
            case _:
                return onward[0]


def _all(pushes: Sequence[Push]) -> Push:
    if len(pushes) == 1:
        return pushes[0]

    def push(items: Sequence[Any], origin: Origin) -> None:
        for one in pushes:
            one(items, origin)

    return push


def _mapped(step: PlannedStep, onward: Push) -> Push:
    mapper = step.does

    def push(items: Sequence[Any], origin: Origin) -> None:
        try:
            mapped = mapper(items)
            if type(mapped) is not list:
                mapped = _list(step, mapped)
        except Exception as error:
            raise step_error(step.step_id, mapper, error) from error
        if mapped:
            onward(mapped, origin)

    return push


def _list(step: PlannedStep, mapped: Any) -> list[Any]:
    if not isinstance(mapped, Iterable):
        raise WrongCallError(
            f"The step {step.step_id!r}: the mapper returned {mapped!r} ({type(mapped).__name__}), and must return "
            "items that can be iterated over."
        )
    return list(mapped)


def _branched(step: PlannedStep, trues: Push, falses: Push) -> Push:
    predicate = step.does

    def push(items: Sequence[Any], origin: Origin) -> None:
        of_branches: tuple[list[Any], list[Any]] = ([], [])
        for item in items:
            try:
                is_true = predicate(item)
            except Exception as error:
                raise step_error(step.step_id, predicate, error) from error
            if not isinstance(is_true, bool):
                raise WrongCallError(
                    f"The step {step.step_id!r}: the predicate returned {is_true!r} ({type(is_true).__name__}), and "
                    "must return a bool. Write bool(...) round it."
                )
            of_branches[not is_true].append(item)
        if of_branches[0]:
            trues(of_branches[0], origin)
        if of_branches[1]:
            falses(of_branches[1], origin)

    return push
