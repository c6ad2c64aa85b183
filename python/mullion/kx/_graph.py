"""A complete pipeline, checked: every operator has a name, and every end has a writer and a reader."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Any, Final, final

from mullion.errors import InvalidArgumentError
from mullion.kx._operators import Merge, Node, Operator, Pipeline, Reader, Reduce, Union, Writer, all_nodes, line_of
from mullion.kx._window_spec import ANY_COUNT, Window


@final
class Graph:
    """The nodes of pipelines that run together, by their names."""

    def __init__(self, pipelines: Sequence[Pipeline | Operator]) -> None:
        self._places: Final[dict[tuple[int, Node | None], Node]] = {}
        joined = [Pipeline(map(self.place, _pipeline(each).ends)) for each in pipelines]
        if not joined:
            raise InvalidArgumentError(
                "There is no pipeline to run. Write sp.run(source | ... | sp.write.to_console())."
            )
        self.nodes: Final = list(dict.fromkeys(map(self.place, all_nodes(joined))))
        ends = dict.fromkeys(end for pipeline in joined for end in pipeline.ends)
        self._names = _name_nodes(self.nodes)
        for end in ends:
            _require_whole(end, writer=True)
        for node in self.nodes:
            operator = node.operator
            if isinstance(operator, (Merge, Union)):
                for end in operator.other.ends:
                    _require_whole(end, writer=False)
                if len(operator.other.ends) != 1:
                    raise InvalidArgumentError(
                        f"{operator.id} takes in one other stream, and {operator.other!r} has "
                        f"{len(operator.other.ends)} ends. Give one of them."
                    )
            if isinstance(operator, Reduce) and not any(isinstance(each, Window) for each in self.line(node)):
                raise InvalidArgumentError(
                    f"{operator.id} ({operator.where}) folds the batches of a window, and no window is before it. "
                    "Put one there, as in sp.window.tumbling(timedelta(seconds=10), 'time') | sp.reduce(...), or write "
                    "sp.accumulate(...) for a fold over the whole stream."
                )
        self.writers: Final = tuple(ends)
        self.cuts: Final = self._nodes_to_cut()
        """Windows whose records come from a separate query: a query has one event clock, and needs final batches."""

    def place(self, node: Node) -> Node:
        """The one node that represents all nodes with the same operator after the same operators."""
        before = None if node.before is None else self.place(node.before)
        return self._places.setdefault((id(node.operator), before), Node(node.operator, before))

    def name(self, node: Node) -> str:
        """The name of a node's operator."""
        return self._names[self.place(node)]

    def line(self, node: Node) -> list[Operator]:
        """The operators from the reader to this node."""
        return [each.operator for each in line_of(node)]

    def readers(self) -> list[Node]:
        return [node for node in self.nodes if isinstance(node.operator, Reader)]

    def inputs(self, node: Node) -> list[Node]:
        """The inputs of the query that ends with a node: readers, and windows that are cut."""
        inputs: dict[Node, None] = {}
        unvisited = _before(node)
        while unvisited:
            each = self.place(unvisited.pop())
            if isinstance(each.operator, Reader) or each in self.cuts:
                inputs[each] = None
            else:
                unvisited += _before(each)
        return list(inputs)

    def _nodes_to_cut(self) -> tuple[Node, ...]:
        cuts: dict[Node, None] = {}
        # Nodes are in topological order.
        for node in self.nodes:
            window = node.operator
            if isinstance(window, Window) and any(_is_cut(window, each) for each in self._windows_before(node, cuts)):
                cuts[node] = None
        return tuple(cuts)

    def _windows_before(self, node: Node, cuts: Container[Node]) -> Iterator[Window]:
        """The windows that would be in one query with a node, on any side."""
        unvisited = _before(node)
        while unvisited:
            each = self.place(unvisited.pop())
            if isinstance(each.operator, Window):
                yield each.operator
            if each not in cuts:
                unvisited += _before(each)

    def is_mixed(self, reader: Node) -> bool:
        """Returns True if a window of mixed schemas is the first window after a reader."""
        return any(
            isinstance(node.operator, Window)
            and node.operator.mixed_schemas
            and self.place(reader) in map(self.place, _nodes_since_window(node.before))
            for node in self.nodes
        )


def _nodes_since_window(node: Node | None) -> set[Node]:
    """The nodes from this one back to the nearest windows and readers."""
    nodes: set[Node] = set()
    while node is not None and not isinstance(node.operator, Window):
        nodes.add(node)
        if isinstance(node.operator, (Merge, Union)):
            nodes |= _nodes_since_window(node.operator.other.ends[0])
        node = node.before
    return nodes


def _pipeline(pipeline: Any) -> Pipeline:
    if isinstance(pipeline, (Pipeline, Operator)):
        return pipeline.as_pipeline
    raise InvalidArgumentError(
        f"{pipeline!r} ({type(pipeline).__name__}) is not a pipeline. Write sp.run(source | ... | "
        "sp.write.to_console()), and several as sp.run(first, second)."
    )


def _name_nodes(nodes: Iterable[Node]) -> dict[Node, str]:
    kinds: Counter[str] = Counter()
    names: dict[Node, str] = {}
    taken: dict[str, Operator] = {}
    for node in nodes:
        operator = node.operator
        kinds[operator.kind] += 1
        name = operator.name or f"{operator.kind}_{kinds[operator.kind]}"
        other = taken.get(name)
        if other is not None:
            raise InvalidArgumentError(
                f"Two operators have the name {name!r}: {other.kind} at {other.where or '?'} and {operator.kind} at "
                f"{operator.where or '?'}. State is kept under the name: give each its own with name=."
            )
        taken[name] = operator
        names[node] = name
    return names


def _require_whole(end: Node, *, writer: bool) -> None:
    first, last = line_of(end)[0].operator, end.operator
    shown = repr(Pipeline((end,)))
    if not isinstance(first, Reader):
        raise InvalidArgumentError(
            f"The pipeline {shown} reads nothing: it begins with {first.id} ({first.where}). Begin it with a reader, "
            "as in sp.read.from_file('trades.csv') | ..."
        )
    if writer and not isinstance(last, Writer):
        raise InvalidArgumentError(
            f"The pipeline {shown} writes nowhere: it ends with {last.id} ({last.where}). End it with a writer, as in "
            "... | sp.write.to_console()."
        )
    if not writer and isinstance(last, Writer):
        raise InvalidArgumentError(
            f"The pipeline {shown} ends with a writer, and another one is to take it in. Leave {last.id} out there."
        )


def _before(node: Node) -> list[Node]:
    operator = node.operator
    others = operator.other.ends if isinstance(operator, (Merge, Union)) else ()
    return [*others, *([] if node.before is None else [node.before])]


def _is_cut(window: Window, before: Window) -> bool:
    """Returns True if a window cannot be in one query with an earlier one."""
    if window.on_event_time and before.on_event_time:
        return True
    return before.passthrough or before.count_trigger != ANY_COUNT
