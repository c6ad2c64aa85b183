"""Operators as frozen values, and the ``|`` that joins them.

A pipeline is a graph of nodes, each an operator and the node before it::

    read | window | map          one end: map
    read | [map, filter]         two ends, which share the nodes before them
    a | union(b)                 the operator holds the other pipeline
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, TypeAlias, final

from mullion.errors import InvalidArgumentError
from mullion.kx._arguments import here


@dataclass(frozen=True)
class Operator:
    """A part of a pipeline: a reader, a window, a function over batches, or a writer.

    ``|`` joins operators to pipelines, to operators, and to lists of these: ``sp.read.from_expr(rows) |
    sp.window.count(10) | sp.write.to_console()``.

    A batch is a ``pyarrow.Table``. Its metadata, for functions with ``"metadata"`` in ``params=``, is a dict:

    - ``batch``: the number of the micro-batch, an int.
    - ``window``: of a window's batch, its ``(start, end)``: datetimes in UTC, or numbers of records.
    - ``partial``: of a window's batch, True if more batches of that window follow (``count_trigger``).
    - ``late``: True for late records (``passthrough``).
    """

    kind: ClassVar[str] = "operator"

    name: str | None = field(default=None, kw_only=True)
    where: str = field(default_factory=here, kw_only=True, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.name is not None and (not isinstance(self.name, str) or not self.name):
            raise InvalidArgumentError(f"name={self.name!r} is not the name of an operator. Use a text.")

    @property
    def id(self) -> str:
        """The name of the operator, or its kind; a pipeline numbers operators of one kind: ``tumbling_1``."""
        return self.name or self.kind

    @property
    def as_pipeline(self) -> Pipeline:
        """A pipeline of this operator alone."""
        return Pipeline((Node(self, None),))

    def __or__(self, other: Joined) -> Pipeline:
        return self.as_pipeline | other

    def __ror__(self, others: Sequence[Operator | Pipeline]) -> Pipeline:
        raise _several_before(others, self)


@dataclass(frozen=True)
class Reader(Operator):
    """An operator that begins a pipeline."""

    finite: ClassVar[bool] = False
    """True if the reader's input ends."""


@dataclass(frozen=True)
class Writer(Operator):
    """An operator that ends a pipeline."""


@dataclass(frozen=True)
class Function(Operator):
    """An operator with a Python function over batches."""

    function: Callable[..., Any]
    params: tuple[str, ...] = ("data",)
    pandas: bool = False
    schema: Any = None

    stateful: ClassVar[bool] = False

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """All functions of the operator."""
        return (self.function,)


@final
@dataclass(frozen=True)
class Map(Function):
    """Applies its function to each batch."""

    kind: ClassVar[str] = "map"


@final
@dataclass(frozen=True)
class Filter(Function):
    """Keeps batches, or rows of batches, for which its function is true."""

    kind: ClassVar[str] = "filter"


@dataclass(frozen=True)
class _Fold(Function):
    """Folds batches into an accumulator, which ``output`` turns into a batch."""

    stateful: ClassVar[bool] = True

    initial: Any = None
    output: Callable[..., Any] | None = None

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        return (self.function,) if self.output is None else (self.function, self.output)


@final
@dataclass(frozen=True)
class Accumulate(_Fold):
    """Folds batches into an accumulator and emits it after each of them."""

    kind: ClassVar[str] = "accumulate"


@final
@dataclass(frozen=True)
class Reduce(_Fold):
    """Folds the partial batches of a window into an accumulator and emits it when the window is complete."""

    kind: ClassVar[str] = "reduce"


@final
@dataclass(frozen=True)
class Merge(Function):
    """Applies its function to the buffers of this stream and of another."""

    kind: ClassVar[str] = "merge"
    stateful: ClassVar[bool] = True

    other: Pipeline = field(kw_only=True)
    flush: str = "left"
    trigger: str = "both"


@final
@dataclass(frozen=True)
class Union(Operator):
    """Emits the batches of this stream and of another."""

    kind: ClassVar[str] = "union"

    other: Pipeline = field(kw_only=True)


@final
@dataclass(frozen=True)
class Split(Operator):
    """Emits its input to each operator that follows it."""

    kind: ClassVar[str] = "split"


@final
@dataclass(frozen=True, eq=False)
class Node:
    """An operator and the node before it."""

    operator: Operator
    before: Node | None


@final
class Pipeline:
    """Joined operators. A pipeline may lack its reader, its writers, or both, until it runs."""

    def __init__(self, ends: Iterable[Node]) -> None:
        self.ends: Final = tuple(ends)

    def __or__(self, other: Joined) -> Pipeline:
        if isinstance(other, (list, tuple)):
            return Pipeline(end for each in other for end in (self | each).ends)
        after = other.as_pipeline if isinstance(other, Operator) else other
        if not isinstance(after, Pipeline):
            raise InvalidArgumentError(
                f"{self!r} | {other!r}: a {type(other).__name__} is not an operator. Join what sp.read, sp.window, "
                "sp.map and the others, or sp.write make."
            )
        if len(self.ends) != 1:
            raise InvalidArgumentError(
                f"{self!r} has {len(self.ends)} ends, and {after!r} can be joined to one. Join it to each part: "
                "source | [sp.map(f) | sp.write.to_console(), sp.map(g) | sp.write.to_console()]."
            )
        (end,) = self.ends
        if isinstance(end.operator, Writer):
            raise InvalidArgumentError(
                f"{end.operator.id} ends its pipeline, so {after!r} cannot follow it. Attach both to the operator "
                "before them: source | [sp.write.to_console(), sp.map(f) | sp.write.to_variable('out')]."
            )
        moved: dict[Node, Node] = {}
        return Pipeline(_copy_node(each, end, moved) for each in after.ends)

    def __ror__(self, others: Sequence[Operator | Pipeline]) -> Pipeline:
        raise _several_before(others, self)

    @property
    def as_pipeline(self) -> Pipeline:
        return self

    def __repr__(self) -> str:
        shown = [" | ".join(node.operator.id for node in line_of(end)) for end in self.ends]
        return shown[0] if len(shown) == 1 else f"[{', '.join(shown)}]"


Joined: TypeAlias = "Operator | Pipeline | Sequence[Operator | Pipeline]"


def line_of(end: Node) -> list[Node]:
    """The nodes from the reader to this one."""
    line = []
    node: Node | None = end
    while node is not None:
        line.append(node)
        node = node.before
    return line[::-1]


def all_nodes(pipelines: Iterable[Pipeline]) -> Iterator[Node]:
    """Every node once, in topological order, including the other pipelines of ``merge`` and ``union``."""
    visited: set[Node] = set()
    for pipeline in pipelines:
        for end in pipeline.ends:
            for node in line_of(end):
                if node in visited:
                    continue
                if isinstance(node.operator, (Merge, Union)):
                    for other in all_nodes([node.operator.other]):
                        if other not in visited:
                            visited.add(other)
                            yield other
                visited.add(node)
                yield node


def _copy_node(node: Node, end: Node, moved: dict[Node, Node]) -> Node:
    """A copy of a pipeline's node, joined to ``end``; nodes that were shared remain shared."""
    if node in moved:
        return moved[node]
    if node.before is None:
        if isinstance(node.operator, Reader):
            raise InvalidArgumentError(
                f"{node.operator.id} begins a pipeline, and is joined to {end.operator.id}. To take in a second "
                "stream write source | sp.union(other), or sp.merge(other, function)."
            )
        before = end
    else:
        before = _copy_node(node.before, end, moved)
    moved[node] = Node(node.operator, before)
    return moved[node]


def _several_before(others: object, after: object) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"{others!r} | {after!r}: several pipelines are joined to one. Write first | sp.union(second) | ..., or "
        "sp.merge(second, function)."
    )
