"""The analysis of code that may change an event, so that its fields differ from those in the topic."""

from __future__ import annotations

import ast
import copy
import json
import logging
from collections.abc import Callable, Iterable
from typing import Any, Final

from mullion._pyfunction.functions import (
    called,
    names_of,
    parameters_of,
    plain,
    source_of,
    taken,
)
from mullion.faust._sharding.reach import TABLES
from mullion.faust._sharding.values import Values, is_of_record
from mullion.faust.agents import Agent
from mullion.faust.channels import Channel
from mullion.faust.models import Record
from mullion.faust.streams import Filter, Process, Step

MISSING: Final = object()
_OF_DICT: Final = frozenset({"get", "keys", "values", "items", "copy"})
_OF_RECORD: Final = frozenset({"asdict", "to_representation", "dumps", "derive", "is_valid"})
_OF_EVENT: Final = frozenset({"value", "key", "timestamp", "headers"})
_AT: Final = frozenset({"value", "current", "now", "delta"})
_HARMLESS: Final[tuple[Any, ...]] = (
    *(bool, dict, float, frozenset, id, int, isinstance, len, list, max, min, print, repr, set, sorted, str, sum),
    *(tuple, type, json.dumps, copy.copy, copy.deepcopy),
)


def leave_alone(steps: Iterable[Step], values: Values) -> bool:
    """True if the filter functions of a stream provably do not change its values."""
    if any(isinstance(step, Process) for step in steps):
        return False
    filters = [step.passes for step in steps if isinstance(step, Filter)]
    return values.is_plain or all(_leaves_alone(one, 0, values) for one in filters)


def _leaves_alone(function: Any, position: int, values: Values, depth: int = 3) -> bool:
    """True if a function does not change the argument at a position; ``depth`` limits the nested calls analysed."""
    if any(function is one for one in _HARMLESS):
        return True
    source, unwrapped = source_of(function), plain(function)
    if source is None or unwrapped is not function or depth == 0:
        return False
    names = parameters_of(source.definition)
    if position >= len(source.definition.args.posonlyargs) + len(source.definition.args.args):
        return False
    around, free = names_of(unwrapped), {id(node) for node in taken(source)}

    def resolve(node: ast.AST) -> Any:
        return around.get(node.id, MISSING) if isinstance(node, ast.Name) and id(node) in free else MISSING

    return not Spoils(source.definition, ({names[position]}, set()), values, resolve, (), depth - 1).anywhere()


class Spoils:
    """Finds places that may change an event's value or pass it to unknown code: all except known reads."""

    def __init__(
        self,
        definition: ast.AST,
        names: tuple[set[str], set[str]],
        values: Values,
        resolve: Callable[[ast.AST], Any],
        sinks: Iterable[Any],
        depth: int = 3,
    ) -> None:
        self._depth = depth
        self._definition = definition
        self._values = values
        self._resolve = resolve
        self._sinks = list(sinks)
        named, self._events = names
        self._value_names = named | self._events
        self._parents = {id(child): node for node in ast.walk(definition) for child in ast.iter_child_nodes(node)}
        before = -1
        while before != len(self._value_names):
            before = len(self._value_names)
            for node in ast.walk(definition):
                if isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) and self._is_held(node.value):
                    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                    self._value_names |= {one.id for one in targets if isinstance(one, ast.Name)}

    def anywhere(self) -> bool:
        return self.within(self._definition)

    def within(self, node: ast.AST) -> bool:
        """True if a node contains such a place."""
        if self._values.is_plain:
            return False
        return any(
            self._is_held(one) and not self._reads(one)
            if not isinstance(one, ast.AugAssign)
            else isinstance(one.target, ast.Name) and one.target.id in self._value_names
            for one in ast.walk(node)
        )

    def _is_held(self, node: ast.AST | None) -> bool:
        if isinstance(node, ast.Name):
            return node.id in self._value_names and isinstance(node.ctx, ast.Load)
        of = node.value if isinstance(node, ast.Attribute) and node.attr == "value" else None
        return isinstance(of, ast.Name) and of.id in self._events

    def _reads(self, node: ast.AST) -> bool:
        """True if the code around a value only reads it."""
        parent = self._parents.get(id(node))
        if isinstance(parent, ast.Attribute):
            return isinstance(parent.ctx, ast.Load) and self._reads_attribute(parent)
        if isinstance(parent, ast.Subscript):
            return isinstance(parent.ctx, ast.Load) or node is not parent.value
        if isinstance(parent, (ast.Compare, ast.UnaryOp, ast.FormattedValue, ast.Expr, ast.BinOp, ast.AugAssign)):
            return True
        if isinstance(parent, (ast.If, ast.While, ast.IfExp, ast.Assert)):
            return node is parent.test
        if isinstance(parent, (ast.For, ast.comprehension)):
            return node is parent.iter
        if isinstance(parent, (ast.Assign, ast.AnnAssign, ast.NamedExpr)):
            targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
            return node is parent.value and all(isinstance(one, ast.Name) for one in targets)
        if isinstance(parent, ast.Dict):
            copied = any(key is None and value is node for key, value in zip(parent.keys, parent.values, strict=True))
            return copied or self._is_sent(parent)
        return self._is_sent(node) or self._is_given(node)

    def _reads_attribute(self, parent: ast.Attribute) -> bool:
        above = self._parents.get(id(parent))
        is_called = isinstance(above, ast.Call) and above.func is parent
        if isinstance(parent.value, ast.Name) and parent.value.id in self._events:
            return parent.attr in _OF_EVENT and not is_called
        if self._values.is_record:
            model: type[Record] = self._values.kind
            if is_called:
                return parent.attr in _OF_RECORD and is_of_record(model, parent.attr)
            return parent.attr in model._fields
        return self._values.is_dict and is_called and parent.attr in _OF_DICT

    def _is_sent(self, node: ast.AST) -> bool:
        """True if the value is written as JSON, so that each receiver reads a copy."""
        parent = self._parents.get(id(node))
        if isinstance(parent, ast.Yield):
            return all(isinstance(sink, (Channel, Agent)) for sink in self._sinks)
        call = self._parents.get(id(parent)) if isinstance(parent, ast.keyword) else parent
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and called(call) in ("send", "cast"):
            return isinstance(self._resolve(call.func.value), (Channel, Agent))
        return False

    def _is_given(self, node: ast.AST) -> bool:
        """True if the value is passed to a function that does not change it."""
        call = self._parents.get(id(node))
        if (
            not isinstance(call, ast.Call)
            or node not in call.args
            or any(isinstance(o, ast.Starred) for o in call.args)
        ):
            return False
        function = call.func
        if isinstance(function, ast.Attribute) and function.attr in _AT and isinstance(function.value, ast.Subscript):
            return isinstance(self._resolve(function.value.value), TABLES)
        if isinstance(function, ast.Attribute) and isinstance(self._resolve(function.value), logging.Logger):
            return True
        called = self._resolve(function)
        return called is not MISSING and _leaves_alone(called, call.args.index(node), self._values, self._depth)
