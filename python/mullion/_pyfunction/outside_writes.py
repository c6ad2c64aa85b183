"""Finds where a function changes objects outside of it, such as global variables.

::

    counts, seen, api = {}, set(), None

    def process(event):
        global api
        if api is None:
            api = connect()           accepted: each process creates its own
        counts[event.key] += 1        a write of counts
        note(seen, event.key)         a write of seen, in note()

The search follows calls of the user's own functions and methods. It reports only certain writes: an object of a library
may change through its methods, and a computed name may refer to anything.
"""

from __future__ import annotations

import array
import ast
import asyncio
import bisect
import heapq
import inspect
import queue
import random
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any, Final, final

from mullion._pyfunction.functions import (
    called,
    defaults_of,
    lambda_source_of,
    names_of,
    plain,
    source_of,
    taken,
)
from mullion._pyfunction.reach import is_library

_MISSING: Final = object()
_UNKNOWN: Final = object()
"""An element of an empty container."""

_QUEUES: Final = (queue.Queue, queue.SimpleQueue, asyncio.Queue)
_CONTAINERS: Final = (list, dict, set, deque, bytearray, array.array, *_QUEUES)
_METHODS: Final = frozenset(
    (
        *("add", "append", "appendleft", "clear", "difference_update", "discard", "extend", "extendleft", "insert"),
        *("intersection_update", "move_to_end", "pop", "popitem", "popleft", "remove", "reverse", "rotate"),
        *("setdefault", "sort", "subtract", "symmetric_difference_update", "update"),
    )
)
_QUEUE_METHODS: Final = frozenset(("get", "get_nowait", "put", "put_nowait"))
_FIRST_ARGUMENT: Final = (
    *(heapq.heapify, heapq.heappop, heapq.heappush, heapq.heappushpop, heapq.heapreplace),
    *(bisect.insort, bisect.insort_left, bisect.insort_right, random.shuffle, setattr, delattr),
)
"""Functions that change their first argument."""
_FACTORIES: Final = frozenset((dict, deque, float, int, list, set, str))
_EMPTY_CONTAINERS: Final = frozenset(("dict", "list", "set", "deque", "defaultdict", "Counter", "OrderedDict"))
_MOST_CALLS: Final = 200
_MOST_DEPTH: Final = 8


@final
@dataclass(frozen=True)
class OutsideWrite:
    """A write: the name of the variable outside of the function, and the place as ``file:line``."""

    name: str
    where: str


@final
@dataclass(frozen=True)
class _Outside:
    """An object outside of a function, under the name of the variable that leads to it."""

    name: str
    value: Any


def outside_writes(function: Any, is_managed: Callable[[Any], bool]) -> list[OutsideWrite]:
    """The writes of a function, in the order of its calls and lines.

    ``is_managed`` is true for objects that keep their changes, such as tables.
    """
    search = _Search(is_managed)
    search.run(function)
    return list(dict.fromkeys(search.writes))


def created_once(functions: Iterable[FunctionType]) -> frozenset[Any]:
    """The names, attributes and keys that functions set once, to a value that depends on no event."""
    search = _Search(lambda value: False)
    return frozenset(key for function in functions for key in _Body(search, function, {}, 0).created_once())


@final
class _Search:
    """The writes of a function and of the functions that it calls."""

    def __init__(self, is_managed: Callable[[Any], bool]) -> None:
        self.is_managed = is_managed
        self.writes: list[OutsideWrite] = []
        self._analysed: set[tuple[Any, ...]] = set()

    def run(self, function: Any, arguments: Mapping[str, _Outside] | None = None, depth: int = 0) -> None:
        """Analyses a function. ``arguments`` are its parameters that are objects outside of its callers."""
        unwrapped = plain(getattr(function, "func", function))
        if unwrapped is None or is_library(unwrapped) or depth > _MOST_DEPTH or len(self._analysed) > _MOST_CALLS:
            return
        bound = dict(arguments or {})
        if inspect.ismethod(function):
            first = unwrapped.__code__.co_varnames[0]
            bound.setdefault(first, _Outside(first, function.__self__))
        key = (unwrapped.__code__, *sorted((name, id(one.value)) for name, one in bound.items()))
        if key not in self._analysed:
            self._analysed.add(key)
            _Body(self, unwrapped, bound, depth).run()

    def may_change(self, value: Any) -> bool:
        """True for an object that a write changes, and that loses the change."""
        if value is _UNKNOWN:
            return True
        if value is _MISSING or self.is_managed(value):
            return False
        if isinstance(value, (*_CONTAINERS, SimpleNamespace)):
            return True
        if isinstance(value, (type, ModuleType, FunctionType)):
            return not is_library(value)
        return not is_library(type(value))

    def has_items(self, value: Any) -> bool:
        """True for an object that an assignment to an item changes."""
        return self.may_change(value) or type(value).__module__.partition(".")[0] in ("numpy", "pandas")


@final
class _Body:
    """The body of one function."""

    def __init__(self, search: _Search, function: FunctionType, arguments: Mapping[str, _Outside], depth: int) -> None:
        self._search = search
        self._depth = depth
        source = source_of(function) or lambda_source_of(function)
        self._parts: list[ast.AST] = []
        if source is None:
            return
        body = source.definition.body
        self._parts = list(body) if isinstance(body, list) else [body]
        self._file = source.file
        self._parents = {id(child): node for node in self._nodes() for child in ast.iter_child_nodes(node)}
        self._taken = {id(name) for name in taken(source)}
        self._around = names_of(function)
        defaults = {
            name: _Outside(name, value)
            for name, value in defaults_of(function).items()
            if isinstance(value, _CONTAINERS)
        }
        self._locals: dict[str, _Outside] = {**defaults, **arguments}

    def run(self) -> None:
        """Reports the writes of the body, and analyses the functions that it calls."""
        if not self._parts:
            return
        self._find_aliases()
        for node in self._nodes():
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                self._name(node)
            elif isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
                self._item(node)
            elif isinstance(node, ast.Call):
                self._call(node)

    def created_once(self) -> Iterator[Any]:
        """The names, attributes and keys that the body sets once. An empty container is for values that come later."""
        for node in self._nodes():
            if not isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) or isinstance(node.ctx, ast.Load):
                continue
            statement = self._parents.get(id(node))
            if not self._is_created_once(node) or _is_empty_container(getattr(statement, "value", None)):
                continue
            if isinstance(node, ast.Subscript):
                yield from [node.slice.value] if isinstance(node.slice, ast.Constant) else []
            else:
                yield node.id if isinstance(node, ast.Name) else node.attr

    def _nodes(self) -> Iterator[ast.AST]:
        for part in self._parts:
            yield from ast.walk(part)

    def _find_aliases(self) -> None:
        """Local variables that are set to objects outside."""
        for _ in range(3):
            for node in self._nodes():
                if isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
                    outside = self._outside(node.value)
                    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                    for target in targets:
                        self._set_alias(target, outside)
                elif isinstance(node, (ast.For, ast.comprehension)):
                    self._find_loop_aliases(node)

    def _set_alias(self, target: ast.AST, outside: _Outside | None) -> None:
        if outside is not None and isinstance(target, ast.Name) and id(target) not in self._taken:
            self._locals.setdefault(target.id, outside)

    def _find_loop_aliases(self, node: ast.For | ast.comprehension) -> None:
        """The variables of a loop over the elements of a container outside."""
        container, target = node.iter, node.target
        if isinstance(container, ast.Call) and isinstance(container.func, ast.Attribute) and not container.args:
            if container.func.attr == "items" and isinstance(target, ast.Tuple) and len(target.elts) == 2:
                target = target.elts[1]
            elif container.func.attr != "values":
                return
            container = container.func.value
        elif self._is_mapping(container):
            return
        outside = self._outside(container)
        if outside is not None:
            self._set_alias(target, _Outside(outside.name, self._element(outside.value, None)))

    def _is_mapping(self, node: ast.expr) -> bool:
        outside = self._outside(node)
        return outside is not None and isinstance(outside.value, dict)

    # -- objects

    def _outside(self, node: ast.AST | None) -> _Outside | None:
        """The object outside that an expression leads to."""
        if isinstance(node, ast.Name):
            if id(node) in self._taken:
                return _Outside(node.id, self._around.get(node.id, _MISSING))
            return self._locals.get(node.id)
        if isinstance(node, ast.Attribute):
            base = self._outside(node.value)
            return None if base is None else _Outside(base.name, _attribute(base.value, node.attr))
        if isinstance(node, ast.Subscript):
            base = self._outside(node.value)
            return None if base is None else _Outside(base.name, self._element(base.value, node.slice))
        if isinstance(node, ast.Call):
            return self._result(node)
        return None

    def _result(self, node: ast.Call) -> _Outside | None:
        """The object that ``container.get(key)`` or ``getattr(object, name)`` leads to."""
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("get", "setdefault") and node.args:
            base = self._outside(node.func.value)
            if base is not None and isinstance(base.value, dict):
                return _Outside(base.name, self._element(base.value, node.args[0]))
        if isinstance(node.func, ast.Name) and node.func.id == "getattr" and len(node.args) > 1:
            base, name = self._outside(node.args[0]), node.args[1]
            if base is not None and isinstance(name, ast.Constant):
                return _Outside(base.name, _attribute(base.value, str(name.value)))
        return None

    def _element(self, container: Any, key: ast.expr | None) -> Any:
        """An element of a container; for an unknown key any one, unless some of them keep their changes."""
        if container is _UNKNOWN:
            return _UNKNOWN
        if isinstance(container, defaultdict) and container.default_factory in _FACTORIES:
            assert container.default_factory is not None
            return container.default_factory()
        if not isinstance(container, (dict, list, tuple, deque)):
            return _MISSING
        if isinstance(key, ast.Constant):
            try:
                return container[key.value]  # type: ignore[index]
            except (LookupError, TypeError):
                pass
        elements = list(container.values() if isinstance(container, dict) else container)
        if any(self._search.is_managed(one) for one in elements):
            return _MISSING
        return elements[0] if elements else _UNKNOWN

    # -- writes

    def _name(self, node: ast.Name) -> None:
        if id(node) in self._taken:
            if not self._is_created_once(node):
                self._report(node.id, node)
            return
        # A local name of an object outside: += changes the object, and everything else only the name.
        outside = self._locals.get(node.id)
        is_augmented = isinstance(self._parents.get(id(node)), ast.AugAssign)
        if is_augmented and outside is not None and isinstance(outside.value, _CONTAINERS):
            self._report(outside.name, node)

    def _item(self, node: ast.Attribute | ast.Subscript) -> None:
        base = self._outside(node.value)
        if base is None:
            return
        changes = self._search.has_items if isinstance(node, ast.Subscript) else self._search.may_change
        # A container that is created once may have items that depend on events.
        is_item_of_created = isinstance(node, ast.Subscript) and base.value is None
        if (changes(base.value) or is_item_of_created) and not self._is_created_once(node):
            self._report(base.name, node)

    def _call(self, node: ast.Call) -> None:
        function = node.func
        base = self._outside(function.value) if isinstance(function, ast.Attribute) else None
        if isinstance(function, ast.Attribute) and base is not None and not isinstance(base.value, ModuleType):
            if self._is_changed_by(base.value, function.attr):
                self._report(base.name, node)
            else:
                self._method(node, base, function.attr)
            return
        outside = self._outside(function)
        if outside is None:
            return
        called = outside.value
        first = self._outside(node.args[0]) if node.args else None
        if first is not None and called is not _MISSING:
            is_iterator = called is next and hasattr(first.value, "__next__")
            is_changed = any(called is one for one in _FIRST_ARGUMENT) and self._search.may_change(first.value)
            if is_iterator or is_changed:
                self._report(first.name, node)
        function_of = called.__func__ if isinstance(called, MethodType) else called
        if isinstance(function_of, FunctionType):
            arguments = self._arguments(node, function_of, int(function_of is not called))
            self._search.run(called, arguments, self._depth + 1)

    def _is_changed_by(self, value: Any, method: str) -> bool:
        if value is _UNKNOWN:
            return method in _METHODS
        if not isinstance(value, _CONTAINERS) or self._search.is_managed(value):
            return False
        own = inspect.getattr_static(type(value), method, None)
        if isinstance(own, FunctionType) and not is_library(own):
            return False
        return method in (_QUEUE_METHODS if isinstance(value, _QUEUES) else _METHODS)

    def _method(self, node: ast.Call, base: _Outside, name: str) -> None:
        """Analyses a method of the user's."""
        value = base.value
        if value is _MISSING or value is _UNKNOWN or self._search.is_managed(value):
            return
        called = inspect.getattr_static(value, name, None)
        skipped = 0
        if isinstance(called, staticmethod):
            called = called.__func__
        elif isinstance(called, classmethod):
            called, skipped = called.__func__, 1
            base = _Outside(base.name, value if isinstance(value, type) else type(value))
        elif not isinstance(value, type):
            skipped = 1
        if isinstance(called, FunctionType):
            arguments = self._arguments(node, called, skipped)
            if skipped:
                arguments[called.__code__.co_varnames[0]] = base
            self._search.run(called, arguments, self._depth + 1)

    def _arguments(self, node: ast.Call, called: FunctionType, skipped: int) -> dict[str, _Outside]:
        """The parameters of a called function that are objects outside; ``skipped`` are bound already."""
        names = called.__code__.co_varnames[skipped : called.__code__.co_argcount]
        arguments: dict[str, _Outside] = {}
        pairs: list[tuple[str | None, ast.expr]] = [(one.arg, one.value) for one in node.keywords]
        if not any(isinstance(one, ast.Starred) for one in node.args):
            pairs += zip(names, node.args, strict=False)
        for name, argument in pairs:
            outside = self._outside(argument)
            if outside is not None and name is not None and outside.value is not _MISSING:
                arguments[name] = outside
        return arguments

    def _is_created_once(self, node: ast.Attribute | ast.Subscript | ast.Name) -> bool:
        """True for ``if x is None: x = create()``: a value that depends on no event, and that each process may have."""
        statement = self._parents.get(id(node))
        if not isinstance(statement, (ast.Assign, ast.AnnAssign)) or statement.value is None:
            return False
        parts = list(ast.walk(statement.value))
        used = [one for one in parts if isinstance(one, ast.Name)]
        if not any(isinstance(one, ast.Call) for one in parts) or any(id(one) not in self._taken for one in used):
            return False
        place: ast.AST | None = statement
        while place is not None:
            if isinstance(place, ast.If) and _tests_absence(place.test, node):
                return True
            place = self._parents.get(id(place))
        return False

    def _report(self, name: str, node: ast.AST) -> None:
        self._search.writes.append(OutsideWrite(name, f"{self._file}:{getattr(node, 'lineno', 0)}"))


def _is_empty_container(node: ast.expr | None) -> bool:
    if not isinstance(node, ast.Call) or called(node) not in _EMPTY_CONTAINERS:
        return False
    return not node.args or called(node) == "defaultdict"


def _attribute(value: Any, name: str) -> Any:
    """An attribute, without running code of its object."""
    if value is _MISSING or value is _UNKNOWN:
        return value
    if isinstance(value, ModuleType):
        return vars(value).get(name, _MISSING)
    attribute = inspect.getattr_static(value, name, _MISSING)
    return (
        _MISSING
        if hasattr(type(attribute), "__get__") and not isinstance(attribute, (type, FunctionType))
        else attribute
    )


def _tests_absence(test: ast.expr, target: ast.Attribute | ast.Subscript | ast.Name) -> bool:
    """True for a condition such as ``x is None``, ``not x`` or ``"x" not in cache`` on the target."""
    text = ast.unparse(target)
    for one in ast.walk(test):
        if isinstance(one, ast.UnaryOp) and isinstance(one.op, ast.Not) and ast.unparse(one.operand) == text:
            return True
        if not isinstance(one, ast.Compare) or len(one.ops) != 1:
            continue
        right = one.comparators[0]
        is_none = isinstance(right, ast.Constant) and right.value is None
        if isinstance(one.ops[0], (ast.Is, ast.Eq)) and is_none and ast.unparse(one.left) == text:
            return True
        is_key = isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant)
        if isinstance(one.ops[0], ast.NotIn) and isinstance(target, ast.Subscript) and is_key:
            pair = ast.unparse(one.left), ast.unparse(right)
            if pair == (ast.unparse(target.slice), ast.unparse(target.value)):
                return True
    return False


__all__ = ["OutsideWrite", "created_once", "outside_writes"]
