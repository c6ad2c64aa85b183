"""The line-by-line analysis of an agent's body: the fields of the event by which its tables are used."""

from __future__ import annotations

import ast
import builtins
import inspect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from types import BuiltinFunctionType, ModuleType
from typing import Any, Final, NamedTuple, final

from mullion._pyfunction.functions import (
    Source,
    bound_in,
    defaults_of,
    names_of,
    parameters_of,
    plain,
    taken,
)
from mullion.faust._context import current_event
from mullion.faust._program.program import Program
from mullion.faust._sharding.blockers import MISSING, Spoils
from mullion.faust._sharding.reach import TABLES, tables_in
from mullion.faust._sharding.values import Values
from mullion.faust.agents import Agent
from mullion.faust.channels import Channel
from mullion.faust.models import FieldDescriptor
from mullion.faust.streams import GroupBy
from mullion.faust.tables.table import Table, WindowedTable

_WHOLE: Final = frozenset({"items", "keys", "values", "expire_windows", "name", "window"})
"""Attributes of tables that involve no single key."""
_ALL_KEYS: Final = frozenset({"items", "keys", "values", "copy", "clear", "as_ansitable"})
"""Methods of tables that use all their keys."""
_BY_KEY: Final = frozenset({"get", "pop", "setdefault", "windows_for_key", "get_window", "set_window"})
"""Methods of tables whose first argument is the key."""
_OF_APP: Final = frozenset({"topic", "channel", "name", "logger", "log", "clock", "conf", "rebalancing", "is_leader"})
_FINDS: Final = frozenset(("globals", "locals", "vars", "eval", "exec", "__import__"))


@final
class Keyed(NamedTuple):
    """A table's key as source text, its line, and the field of the event that it provably is.

    ``field`` is ``""`` for the message's key; ``None`` without a proof.
    """

    table: str
    key: str
    where: str
    field: str | None


@dataclass
class _Origin:
    """The origin of an expression: the ``stream``, an ``event``, its ``value``, its ``key``, or a ``field`` of it.

    ``name`` is the name of the field, or the method by which the stream is read.
    """

    kind: str
    name: str = ""

    def __hash__(self) -> int:
        return hash((self.kind, self.name))


@dataclass
class _Known:
    """The known origins of variables at a line; ``spoiled`` if the event may have changed before it."""

    names: dict[str, _Origin] = field(default_factory=dict)
    spoiled: bool = False

    def copy(self) -> _Known:
        return _Known(dict(self.names), self.spoiled)

    def forget(self, names: Iterable[str]) -> None:
        for name in names:
            self.names.pop(name, None)

    def merge(self, ways: list[_Known]) -> None:
        """Keeps the facts that hold after each of several branches."""
        first, *others = ways or [_Known()]
        self.names = {
            name: one for name, one in first.names.items() if all(other.names.get(name) == one for other in others)
        }
        self.spoiled = any(one.spoiled for one in ways)


@dataclass(frozen=True)
class _Use:
    """A table, and the key by which it is used."""

    table: Table | WindowedTable
    key: ast.expr
    line: int


class Body:
    """The uses of tables in an agent's body."""

    def __init__(self, agent: Agent, source: Source, group: GroupBy | None) -> None:
        self._agent = agent
        self._source = source
        self._group = group
        self._values = Values(agent.channel)
        function = plain(agent.function)
        assert function is not None
        self._around = names_of(function)
        defaults = defaults_of(function)
        parameters = parameters_of(source.definition)
        if inspect.ismethod(agent.function):
            defaults = {**defaults, parameters[0]: agent.function.__self__}
            parameters = parameters[1:]
        self._stream = parameters[0] if parameters else ""
        set_ = set().union(*(bound_in(one) for one in source.definition.body))
        self._defaults = {name: one for name, one in defaults.items() if name not in set_ and name != self._stream}
        self._taken = {id(node) for node in taken(source)}
        self._parents = {
            id(child): node for node in ast.walk(source.definition) for child in ast.iter_child_nodes(node)
        }
        inner = [one for one in ast.walk(source.definition) if isinstance(one, (ast.Global, ast.Nonlocal))]
        self._elsewhere = {name for one in inner for name in one.names}
        self._hidden: tuple[int, str] | None = None
        self._uses = list(self._table_uses())
        self._at = {id(use.key): use for use in self._uses}
        self._spoils = Spoils(source.definition, self._events_named(), self._values, self._resolve, agent.sinks)
        # A nested function may be called anywhere.
        functions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
        inside = [one for part in source.definition.body for one in ast.walk(part) if isinstance(one, functions)]
        self._changed_within = any(self._spoils.within(one) for one in inside)
        self._keys: dict[int, _Origin | None] = {}

    # -- tables

    def hidden(self) -> str | None:
        """The first place that may use a table by a key that the code does not show."""
        if self._hidden is not None:
            line, name = self._hidden
            return f"{name!r} at {self._source.file}:{line}"
        functions = [sink for sink in self._agent.sinks if not isinstance(sink, (Agent, Channel))]
        if functions and tables_in(functions) != set():
            return "a sink"
        if self._values.is_record and tables_in([self._values.kind]) != set():
            return f"its record {self._values.kind.__name__}"
        return None

    def iterates(self) -> tuple[str, str] | None:
        """The first table that the body uses with all its keys, as in ``table.items()``, and the place."""
        places = []
        for name in self._names():
            node, value = self._leads_to(name)
            if isinstance(value, TABLES) and self._uses_all_keys(node):
                places.append((name.lineno, value.name))
        return next(((table, f"{self._source.file}:{line}") for line, table in sorted(places)), None)

    def keys(self) -> list[Keyed]:
        """The keys of all visible uses of tables."""
        if not self._uses:
            return []
        self._block(self._source.definition.body, _Known({self._stream: _Origin("stream")}))
        lines = []
        for use in self._uses:
            origin = self._keys.get(id(use.key))
            text = ast.unparse(use.key) if origin is None else self._origin_text(origin)
            where = f"{self._source.file}:{use.line}"
            lines.append((use.line, Keyed(use.table.name, text, where, self._field(origin))))
        return [one for _, one in sorted(set(lines), key=lambda pair: (pair[0], pair[1].table, pair[1].key))]

    def _field(self, origin: _Origin | None) -> str | None:
        if origin is None:
            return None
        if origin.kind == "key":
            if self._group is not None:
                return field_of(self._group)
            return "" if self._values.key_is_plain else None
        if origin.kind == "value":
            # A dict cannot be a key; a value of an untyped topic may be one.
            return "value" if self._values.is_plain or (self._values.kind is None and self._values.is_dict) else None
        return origin.name if origin.kind == "field" else None

    def _origin_text(self, origin: _Origin) -> str:
        if origin.kind == "field":
            return f"_.{origin.name}" if self._values.is_record else f"_[{origin.name!r}]"
        return {"value": "_", "key": "_.key"}.get(origin.kind, "_")

    def _table_uses(self) -> Iterator[_Use]:
        for part in self._source.definition.body:
            for node in ast.walk(part):
                if isinstance(node, (ast.Import, ast.ImportFrom)):
                    self._hide(node, ast.unparse(node))
                elif isinstance(node, ast.Name) and (id(node) in self._taken or node.id in self._defaults):
                    yield from self._use_of(node)

    def _names(self) -> Iterator[ast.Name]:
        """The names in the body that are defined outside of it."""
        for part in self._source.definition.body:
            for node in ast.walk(part):
                if isinstance(node, ast.Name) and (id(node) in self._taken or node.id in self._defaults):
                    yield node

    def _leads_to(self, name: ast.Name) -> tuple[ast.AST, Any]:
        """The table that a name leads to, with its node; otherwise the last value that it leads to."""
        node: ast.AST = name
        value = self._resolve(name)
        while not isinstance(value, TABLES):
            above = self._parents.get(id(node))
            further = self._resolve(above) if isinstance(above, (ast.Attribute, ast.Subscript)) else MISSING
            if further is MISSING or getattr(above, "value", None) is not node:
                break
            assert above is not None
            node, value = above, further
        return node, value

    def _uses_all_keys(self, node: ast.AST) -> bool:
        """True if the code around a table uses all its keys."""
        parent = self._parents.get(id(node))
        if isinstance(parent, ast.Attribute):
            return parent.attr in _ALL_KEYS
        if isinstance(parent, (ast.For, ast.comprehension)):
            return parent.iter is node
        function = parent.func if isinstance(parent, ast.Call) and node in parent.args else None
        return isinstance(function, ast.Name) and hasattr(builtins, function.id)

    def _use_of(self, name: ast.Name) -> Iterator[_Use]:
        """The use of the table that a name leads to, if any."""
        node, value = self._leads_to(name)
        parent = self._parents.get(id(node))
        if isinstance(value, TABLES):
            key = self._key_of(node, parent)
            if key is not None and not isinstance(key, ast.Slice):
                yield _Use(value, key, key.lineno)
            elif not (isinstance(parent, ast.Attribute) and parent.attr in _WHOLE):
                self._hide(name, name.id)
        elif self._may_lead(name, value, parent):
            self._hide(name, name.id)

    def _key_of(self, node: ast.AST, parent: ast.AST | None) -> ast.expr | None:
        if isinstance(parent, ast.Subscript) and parent.value is node:
            return parent.slice
        above = self._parents.get(id(parent))
        is_method = isinstance(parent, ast.Attribute) and parent.attr in _BY_KEY
        if is_method and isinstance(above, ast.Call) and above.func is parent and above.args:
            return None if isinstance(above.args[0], ast.Starred) else above.args[0]
        if isinstance(parent, ast.Compare) and len(parent.ops) == 1 and isinstance(parent.ops[0], (ast.In, ast.NotIn)):
            return parent.left if parent.comparators[0] is node else None
        return None

    def _may_lead(self, name: ast.Name, value: Any, parent: ast.AST | None) -> bool:
        """True if the value of a name may lead to a table."""
        if value is MISSING or value is current_event:
            return True
        if isinstance(value, Program):
            return not (isinstance(parent, ast.Attribute) and parent.attr in _OF_APP)
        if isinstance(value, ModuleType):
            # The module lacks the attribute, or is passed to other code.
            return True
        if isinstance(value, BuiltinFunctionType) and value.__self__ is builtins:
            return value.__name__ in _FINDS
        return tables_in([value]) != set()

    def _hide(self, node: ast.AST, name: str) -> None:
        line = getattr(node, "lineno", self._source.line)
        if self._hidden is None or line < self._hidden[0]:
            self._hidden = (line, name)

    def _resolve(self, node: ast.AST) -> Any:
        """The value of a name, or of its attributes, before the program starts."""
        if isinstance(node, ast.Name):
            if id(node) in self._taken:
                return self._around.get(node.id, MISSING)
            return self._defaults.get(node.id, MISSING)
        if isinstance(node, ast.Attribute):
            base = self._resolve(node.value)
            if isinstance(base, ModuleType):
                return vars(base).get(node.attr, MISSING)
            if isinstance(base, Program):
                return base.tables if node.attr == "tables" else MISSING
            if base is MISSING or isinstance(base, (*TABLES, Agent, Channel)):
                return MISSING
            attribute = inspect.getattr_static(base, node.attr, MISSING)
            return attribute if isinstance(attribute, (*TABLES, type, Program)) else MISSING
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            base = self._resolve(node.value) if isinstance(node.value, ast.Attribute) else MISSING
            if isinstance(base, dict) and node.value.attr == "tables":  # type: ignore[attr-defined]
                return base.get(node.slice.value, MISSING)
        return MISSING

    def _events_named(self) -> tuple[set[str], set[str]]:
        """Variables that may hold an event's value, and variables that may hold an event."""
        streams = {self._stream}
        before = -1
        while before != len(streams):
            before = len(streams)
            for node in ast.walk(self._source.definition):
                if isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) and self._mentions(node.value, streams):
                    streams |= bound_in(node)
        values: set[str] = set()
        events: set[str] = set()
        for node in ast.walk(self._source.definition):
            if isinstance(node, (ast.AsyncFor, ast.comprehension)) and self._mentions(node.iter, streams):
                ways = {one.attr for one in ast.walk(node.iter) if isinstance(one, ast.Attribute)}
                if "events" in ways or (isinstance(node.iter, ast.Name) and node.iter.id != self._stream):
                    events |= bound_in(node.target)
                if "events" not in ways:
                    values |= bound_in(node.target)
        return values, events

    def _mentions(self, node: ast.AST | None, names: set[str]) -> bool:
        return node is not None and any(isinstance(one, ast.Name) and one.id in names for one in ast.walk(node))

    # -- line by line

    def _block(self, nodes: list[ast.stmt], state: _Known) -> bool:
        """Analyses statements. Returns True if execution can reach the line after them."""
        return all(self._statement(node, state) for node in nodes)

    def _statement(self, node: ast.stmt, state: _Known) -> bool:
        if isinstance(node, ast.If):
            self._see([node.test], state)
            ways = [(state.copy(), node.body), (state.copy(), node.orelse)]
            goes_on = [way for way, body in ways if self._block(body, way)]
            state.merge(goes_on)
            return bool(goes_on)
        if isinstance(node, (ast.For, ast.AsyncFor)):
            self._loop(node, state)
            return True
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            state.spoiled |= self._spoils.within(node)
            self._see([node], _Known())
            state.forget(bound_in(node))
            return True
        if isinstance(node, (ast.While, ast.Try, ast.With, ast.AsyncWith, ast.Match, ast.TryStar)):
            state.forget(bound_in(node))
            state.spoiled |= self._spoils.within(node)
            self._apart(node, state)
            return True
        changed = {one.target.id for one in ast.walk(node) if isinstance(one, ast.NamedExpr)}
        state.forget(changed)
        self._see([node], state)
        self._set(node, state, changed)
        return not isinstance(node, (ast.Continue, ast.Break, ast.Return, ast.Raise))

    def _set(self, node: ast.stmt, state: _Known, changed: set[str]) -> None:
        """Records the variables that a simple statement sets."""
        value = node.value if isinstance(node, (ast.Assign, ast.AnnAssign)) else None
        origin = None if value is None else self._origin(value, state)
        state.forget(bound_in(node))
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        target = targets[0] if len(targets) == 1 else None
        if origin is not None and isinstance(target, ast.Name) and target.id not in self._elsewhere | changed:
            state.names[target.id] = origin

    def _loop(self, node: ast.For | ast.AsyncFor, state: _Known) -> None:
        self._see([node.iter], state)
        through = self._origin(node.iter, state) if isinstance(node, ast.AsyncFor) else None
        state.forget(bound_in(node))
        within = state.copy()
        if through is not None and through.kind == "stream":
            # Each event is a new object: facts about the previous event, and changes of it, no longer hold.
            state.names = {name: one for name, one in state.names.items() if one.kind == "stream"}
            within = _Known(dict(state.names), self._changed_within)
            self._bind(node.target, through.name, within)
        else:
            within.spoiled |= self._spoils.within(node)
        self._block(node.body, within)
        state.spoiled |= within.spoiled
        self._block(node.orelse, state.copy())

    def _bind(self, target: ast.expr, way: str, state: _Known) -> None:
        """Records the variables of a loop over a stream."""
        ways: dict[str, list[_Origin | None]] = {
            "": [_Origin("value")],
            "events": [_Origin("event")],
            "items": [_Origin("key"), _Origin("value")],
            "enumerate": [None, _Origin("value")],
        }
        origins = ways.get(way, [])
        targets = target.elts if isinstance(target, ast.Tuple) else [target]
        if len(targets) == len(origins) and isinstance(target, ast.Tuple) == (len(origins) == 2):
            names = [one.id if isinstance(one, ast.Name) else "" for one in targets]
            for name, origin in zip(names, origins, strict=True):
                if name and origin is not None and names.count(name) == 1 and name not in self._elsewhere:
                    state.names[name] = origin

    def _apart(self, node: ast.AST, state: _Known) -> None:
        """Analyses each part of a statement separately, with the facts that hold before the statement."""
        for _, child in ast.iter_fields(node):
            parts = child if isinstance(child, list) else [child]
            statements = [one for one in parts if isinstance(one, ast.stmt)]
            self._block(statements, state.copy())
            others = [one for one in parts if isinstance(one, ast.AST) and not isinstance(one, ast.stmt)]
            for one in others:
                if isinstance(one, (ast.ExceptHandler, ast.match_case)):
                    self._apart(one, state)
                else:
                    self._see([one], state.copy())

    def _see(self, nodes: Iterable[ast.AST], state: _Known) -> None:
        """Records the origins of the keys within expressions."""
        for node in nodes:
            state.spoiled |= self._spoils.within(node)
        queue = [(node, state) for node in nodes]
        while queue:
            node, here = queue.pop()
            if id(node) in self._at:
                self._keys[id(node)] = self._origin(node, here)  # type: ignore[arg-type]
            within = here
            if isinstance(node, (ast.Lambda, ast.GeneratorExp, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                # The code runs later, when variables may have other values.
                within = _Known()
            elif isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp)):
                within = here.copy()
                within.forget(bound_in(node))
            queue += [(child, within) for child in ast.iter_child_nodes(node)]

    def _origin(self, node: ast.expr, state: _Known) -> _Origin | None:
        if isinstance(node, ast.Name):
            origin = state.names.get(node.id)
            return origin if id(node) not in self._taken else None
        if isinstance(node, ast.Attribute):
            base = self._origin(node.value, state)
            if base is not None and base.kind == "event" and node.attr in ("value", "key"):
                return _Origin(node.attr)
            if base is not None and base.kind == "value" and self._values.is_record and not state.spoiled:
                return _Origin("field", node.attr) if node.attr in self._values.kind._fields else None
        if isinstance(node, ast.Subscript):
            return self._item(node.value, node.slice, state)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            base = self._origin(node.func.value, state)
            if base is not None and base.kind == "stream" and not base.name:
                if node.func.attr in ("filter", "group_by", "through", "echo", "noack"):
                    return base
                if node.func.attr in ("events", "items", "enumerate"):
                    return _Origin("stream", node.func.attr)
            if node.func.attr == "get" and len(node.args) == 1 and not node.keywords:
                return self._item(node.func.value, node.args[0], state)
        return None

    def _item(self, of: ast.expr, key: ast.expr, state: _Known) -> _Origin | None:
        base = self._origin(of, state)
        if base is None or base.kind != "value" or not self._values.is_dict or state.spoiled:
            return None
        is_name = isinstance(key, ast.Constant) and type(key.value) is str
        return _Origin("field", key.value) if is_name else None  # type: ignore[attr-defined]


def field_of(group: GroupBy) -> str | None:
    """The field by which a stream is grouped; ``None`` if a function computes the key."""
    key: Any = group.key
    if isinstance(key, FieldDescriptor):
        key = key.field if key.parent is None else None
    return key if isinstance(key, str) else None
