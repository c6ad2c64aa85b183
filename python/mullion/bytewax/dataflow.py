"""Dataflows and streams, as in ``bytewax.dataflow``.

Operators add steps to a :class:`Dataflow`. An operator that consists of others, such as a window, prefixes the ids of
its steps with its own::

    flow.window             win.fold_window("window", ...)
    flow.window.unwrap      a step of the operator
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar, overload

from mullion._program.report import caller, where_of
from mullion.errors import InvalidArgumentError, WrongCallError

__all__ = ["Dataflow", "DataflowId", "KeyedStream", "Operator", "Stream", "f_repr", "operator"]

X = TypeVar("X")
V = TypeVar("V")
F = TypeVar("F", bound=Callable[..., Any])

_HERE = str(Path(__file__).parent)


def f_repr(f: Callable[..., Any]) -> str:
    """A function as shown in messages: its name, and its source line if known."""
    where = where_of(f)
    return f"{getattr(f, '__name__', repr(f))}{f' at {where}' if where else ''}"


@dataclass(frozen=True)
class Operator:
    """A call of an operator in the program, with the operators that it consists of.

    - ``step_name``: the argument ``step_id`` of the call.
    - ``step_id``: the full id, prefixed with the names of the dataflow and of the enclosing operators.
    - ``kind``: the operator's name.
    - ``where``: the source line of the call, as ``file:line``.
    """

    step_name: str
    step_id: str
    kind: str
    where: str
    substeps: list[Operator] = field(default_factory=list, compare=False)


@dataclass(frozen=True, eq=False)
class Step:
    """A step that runs. Every operator consists of such steps.

    - ``kind``: ``input``, ``flat_map_batch``, ``branch``, ``merge``, ``redistribute``, ``inspect``, ``output``,
      ``stateful`` or ``window``.
    - ``ups``, ``downs``: the ids of the input and output streams.
    - ``does``: the source, function, sink or spec.
    """

    step_id: str
    kind: str
    ups: tuple[str, ...]
    downs: tuple[str, ...]
    does: Any
    operator: Operator


@dataclass(frozen=True)
class DataflowId:
    """The id of a dataflow."""

    flow_id: str


@dataclass(frozen=True)
class Dataflow:
    """A dataflow. It is created empty. ``flow_id`` must not contain a period."""

    flow_id: str
    substeps: list[Operator] = field(default_factory=list, compare=False)
    _steps: list[Step] = field(default_factory=list, repr=False, compare=False)
    _open: list[Operator] = field(default_factory=list, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.flow_id, str) or not self.flow_id:
            raise InvalidArgumentError(
                f"flow_id={self.flow_id!r} is not the name of a dataflow. Write Dataflow('orders')."
            )
        if "." in self.flow_id:
            raise InvalidArgumentError(
                f"flow_id={self.flow_id!r} has a period, which separates the ids of steps. "
                f"Write Dataflow({self.flow_id.replace('.', '_')!r})."
            )

    @contextmanager
    def _within(self, step_id: str, kind: str, where: str) -> Iterator[Operator]:
        outer = self._open[-1] if self._open else None
        siblings = outer.substeps if outer else self.substeps
        full = f"{outer.step_id if outer else self.flow_id}.{step_id}"
        if any(one.step_id == full for one in siblings):
            raise InvalidArgumentError(
                f"The step {full!r} already exists in this dataflow, and its state is found by its id. "
                "Give this one another step_id."
            )
        one = Operator(step_id, full, kind, outer.where if outer else where)
        self._open.append(one)
        try:
            yield one
        finally:
            self._open.pop()
        siblings.append(one)

    def _add(self, kind: str, ups: Iterable[Stream[Any]], downs: Iterable[str], does: Any) -> tuple[Stream[Any], ...]:
        """Adds a step to the innermost open operator. Returns its output streams."""
        one = self._open[-1]
        streams: tuple[Stream[Any], ...] = tuple(Stream(f"{one.step_id}.{name}", self) for name in downs)
        ids = tuple(stream.stream_id for stream in streams)
        self._steps.append(Step(one.step_id, kind, tuple(up.stream_id for up in ups), ids, does, one))
        return streams


@dataclass(frozen=True)
class Stream(Generic[X]):
    """The output items of a step."""

    stream_id: str
    _flow: Dataflow = field(repr=False, compare=False)

    def flow(self) -> Dataflow:
        """The dataflow of the stream."""
        return self._flow

    def then(self, op_fn: Callable[..., Any], step_id: str, *args: Any, **kwargs: Any) -> Any:
        """Returns ``op_fn(step_id, stream, ...)``, to chain steps."""
        return op_fn(step_id, self, *args, **kwargs)


KeyedStream: TypeAlias = Stream[tuple[str, V]]
"""A stream of ``(key, value)`` pairs. Keys are strings."""


class AsStream:
    """An object that operators accept in place of a stream."""

    def flow(self) -> Dataflow:
        """The dataflow of the stream."""
        raise NotImplementedError

    def as_stream(self) -> Stream[Any]:
        """The stream. Steps that produce it are added to the innermost open operator."""
        raise NotImplementedError


@overload
def operator(builder: F) -> F: ...
@overload
def operator(*, _core: bool = ...) -> Callable[[F], F]: ...
def operator(builder: Any = None, *, _core: bool = False) -> Any:
    """Turns a function that adds steps to a dataflow into an operator.

    The function has a parameter ``step_id``, and at least one parameter for a stream or the dataflow. The ids of the
    steps that it adds are prefixed with its own::

        @operator
        def sizes(step_id: str, up: Stream[str]) -> Stream[int]:
            return op.map("len", up, len)

    Raises :class:`WrongCallError` if the function has no ``step_id``, and on a call with invalid arguments.
    """
    if builder is None:
        return lambda function: operator(function)
    signature = inspect.signature(builder)
    if "step_id" not in signature.parameters:
        raise WrongCallError(
            f"{builder.__name__}{signature} has no parameter step_id, the name of the step. Write "
            f"def {builder.__name__}(step_id: str, up: Stream, ...)."
        )
    streams = [
        name
        for name, parameter in signature.parameters.items()
        if "Stream" in str(parameter.annotation) and "Callable" not in str(parameter.annotation)
    ]

    @functools.wraps(builder)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise WrongCallError(f"{builder.__name__}{signature} was called wrongly: {error}.") from None
        bound.apply_defaults()
        step_id = bound.arguments["step_id"]
        if not isinstance(step_id, str) or not step_id or "." in step_id:
            raise InvalidArgumentError(
                f"step_id={step_id!r} is not the id of a step: a text without periods, as in "
                f"{builder.__name__}('step', ...)."
            )
        for name in streams:
            _require_streams(builder.__name__, name, bound.arguments[name])
        flow = _flow_of(builder.__name__, bound.arguments)
        with flow._within(step_id, builder.__name__, caller(_HERE)) as one:
            for name, value in bound.arguments.items():
                if isinstance(value, AsStream):
                    bound.arguments[name] = value.as_stream()
                elif isinstance(value, tuple) and any(isinstance(each, AsStream) for each in value):
                    streams_of = (each.as_stream() if isinstance(each, AsStream) else each for each in value)
                    bound.arguments[name] = tuple(streams_of)
            bound.arguments["step_id"] = one.step_id
            return builder(*bound.args, **bound.kwargs)

    return call


def _require_streams(operator_name: str, name: str, argument: Any) -> None:
    for one in argument if isinstance(argument, tuple) else (argument,):
        if not isinstance(one, (Stream, AsStream)):
            parts = [field.name for field in dataclasses.fields(one)] if dataclasses.is_dataclass(one) else []
            fix = f"Give one of its streams: .{', .'.join(parts)}." if parts else "Give what an operator returned."
            raise WrongCallError(f"{operator_name}: {name}={one!r} ({type(one).__name__}) is not a Stream. {fix}")


def _flow_of(operator_name: str, arguments: dict[str, Any]) -> Dataflow:
    flows: list[Dataflow] = []
    for value in arguments.values():
        for one in value if isinstance(value, tuple) else (value,):
            if isinstance(one, Dataflow):
                flows.append(one)
            elif isinstance(one, (Stream, AsStream)):
                flows.append(one.flow())
    if not flows:
        raise WrongCallError(f"{operator_name} was given no stream and no Dataflow, so that it belongs to none.")
    if any(flow is not flows[0] for flow in flows):
        names = sorted({flow.flow_id for flow in flows})
        raise InvalidArgumentError(
            f"{operator_name} was given streams of several dataflows: {', '.join(names)}. Put all steps into one."
        )
    return flows[0]
