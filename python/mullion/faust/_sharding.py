"""By what an agent's events must be in shards, so that all of a table's key are in one.

``table[withdrawal.country]`` needs the events of a country in one shard. An agent that says nothing is sharded by the
key of its tables, where it is proven that each is one field of the event as the topic has it. Where that is not proven,
all events are in one shard; where it is proven that they are several, totals would come in pieces, and the program is
refused when it starts.

What is a proof, line by line of the body::

    async for e in stream:         e is the event
        k = e["k"]                 k is its field 'k'
        views[k] += 1              a key: the field 'k'
        e["k"] = "other"           from here on no field is known; k still is
        views[k.upper()] += 1      a key that is no field
"""

from __future__ import annotations

import ast
import builtins
import copy
import inspect
import json
import logging
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import BuiltinFunctionType, ModuleType
from typing import Any, Final, NamedTuple, final

from pyspark.sql.types import StructType

from mullion._code.functions import (
    Source,
    bound_in,
    called,
    defaults_of,
    names_of,
    parameters_of,
    plain,
    source_of,
    taken,
)
from mullion._code.reach import Reached
from mullion._code.reach import reached as all_reached
from mullion.errors import InvalidArgumentError
from mullion.faust._context import current_event
from mullion.faust._program import Program
from mullion.faust._shards import is_exact, shard_of
from mullion.faust.agents import Agent, Channel
from mullion.faust.models import FieldDescriptor, Record
from mullion.faust.streams import Filter, GroupBy, Step
from mullion.faust.tables.table import Table
from mullion.faust.tables.windowed import WindowedTable

_TABLES: Final = (Table, WindowedTable)
_MISSING: Final = object()
_WHOLE: Final = frozenset({"items", "keys", "values", "expire_windows", "name", "window"})
"""What a table has that is of no key."""
_BY_KEY: Final = frozenset({"get", "pop", "setdefault", "windows_for_key", "get_window", "set_window"})
"""Methods of tables whose first argument is the key."""
_OF_APP: Final = frozenset({"topic", "channel", "name", "logger", "log", "clock"})
_OF_DICT: Final = frozenset({"get", "keys", "values", "items", "copy"})
_OF_RECORD: Final = frozenset({"asdict", "to_representation", "dumps", "derive", "is_valid"})
_OF_EVENT: Final = frozenset({"value", "key", "timestamp", "headers"})
_AT: Final = frozenset({"value", "current", "now", "delta"})
_HARMLESS: Final[tuple[Any, ...]] = (
    *(bool, dict, float, frozenset, id, int, isinstance, len, list, max, min, print, repr, set, sorted, str, sum),
    *(tuple, type, json.dumps, copy.copy, copy.deepcopy),
)
_FINDS: Final = frozenset(("globals", "locals", "vars", "eval", "exec", "__import__"))
_KINDS: Final = (str, int, bool)
_OWN: Final = ("__init__", "__post_init__", "__getattribute__", "__setattr__", "_set", "_read", "from_data")


@final
class Keyed(NamedTuple):
    """A table's key as the code has it, the line, and the field of the event that it is proven to be.

    ``field`` is ``""`` for the message's key; ``None`` where nothing is proven.
    """

    table: str
    key: str
    where: str
    field: str | None


@final
@dataclass(frozen=True)
class Sharding:
    """By what an agent's events are in shards: a field, ``""`` for their keys, ``None`` for one shard.

    ``default`` is the shard of an event that lacks the field.
    """

    field: str | None
    words: str
    default: str = ""

    def key_of(self, key: Any, value: Any) -> Any:
        """What an event is in shards by."""
        if not self.field:
            return key
        if isinstance(value, Mapping):
            return value.get(self.field)
        return getattr(value, self.field) if isinstance(value, Record) else value


def sharding_of(agent: Agent, steps: tuple[Step, ...], group: GroupBy | None, columns: StructType | None) -> Sharding:
    """By what an agent's events are in shards.

    - ``steps``, ``group``: what it does to its stream.
    - ``columns``: of its topic's values, ``None`` where nobody knows them yet.

    Raises :class:`InvalidArgumentError` where its tables are known to have different keys.
    """
    values = _Values(agent.channel)
    if group is not None:
        grouped = _field_of(group)
        if grouped is None or not (values.has(grouped, columns) and _leave_alone(steps, values)):
            return Sharding(None, f"one shard, grouped by {group}")
        check(agent, group)
        return Sharding(grouped, f"shards by {grouped}", values.default(grouped))
    out_of_sight = hidden(agent)
    if out_of_sight is not None:
        return Sharding(None, f"one shard, for it may use tables through {out_of_sight}")
    keys = keys_of(agent)
    if not keys:
        return Sharding("", "shards by their keys")
    for one in keys:
        if one.field is None or not (one.field == "" or values.has(one.field, columns)):
            return Sharding(None, f"one shard, for its tables are of {_named(one.key)}")
    check(agent, None)
    name = next(iter({one.field for one in keys}))
    assert name is not None
    if not _leave_alone(steps, values) and name:
        return Sharding(None, "one shard, for its stream is filtered by what may change events")
    return Sharding(name, f"shards by {name}" if name else "shards by their keys", values.default(name))


def keys_of(agent: Agent, group: GroupBy | None = None) -> list[Keyed]:
    """The keys by which an agent's body uses tables, in order of lines."""
    source = source_of(agent.function)
    return [] if source is None else _Body(agent, source, group).keys()


def hidden(agent: Agent) -> str | None:
    """Where a body may use a table by a key that its code does not show; ``None`` where all keys are shown.

    That is a table that is not used as ``table[key]`` or gone through, and anything that leads to a table: a function
    that uses one, a list of them, a sink.
    """
    source = source_of(agent.function)
    if source is None:
        return "its source, which is not to be found"
    return _Body(agent, source, None).hidden()


def reached(agent: Agent) -> set[str] | None:
    """The names of the tables that an agent may use, itself or through what it names; ``None``: unknown."""
    sinks = [sink for sink in agent.sinks if not isinstance(sink, (Agent, Channel))]
    return _tables_in([agent.function, agent.channel.value_type, *sinks])


def leads_to_table(function: Callable[..., Any]) -> bool:
    """Whether a function is known to lead to a table; one may still be found in a way that is not looked into."""
    return any(isinstance(one, _TABLES) for one in _found_in([function]).found)


def _tables_in(values: Iterable[Any]) -> set[str] | None:
    """The names of the tables that values lead to; ``None`` where that is not known for sure."""
    found = _found_in(values)
    if not found.certain or any(isinstance(one, Program) for one in found.found):
        return None
    return {one.name for one in found.found}


def _found_in(values: Iterable[Any]) -> Reached:
    return all_reached(values, lambda one: isinstance(one, (*_TABLES, Program)), _leads_nowhere)


def _leads_nowhere(value: Any) -> bool:
    return isinstance(value, (Agent, Channel, FieldDescriptor))


# -- what values of a topic are


class _Values:
    """What values of a topic are: which of their parts are as the topic has them."""

    def __init__(self, channel: Channel) -> None:
        kind = channel.value_type
        self.kind = kind
        self.key_is_plain = channel.key_type in (None, str)
        self.is_dict = kind is None or kind is dict or typing.get_origin(kind) is dict
        self.is_record = isinstance(kind, type) and issubclass(kind, Record)
        self.is_plain = kind in _KINDS

    def has(self, name: str, columns: StructType | None) -> bool:
        """Whether a part of the value, once it is read, is in the shard of the topic's column."""
        if not self.is_record:
            return self.is_dict or (self.is_plain and name == "value")
        model: type[Record] = self.kind
        declared = model._fields.get(name)
        if declared is None or not isinstance(inspect.getattr_static(model, name), FieldDescriptor):
            return False
        if not all(_is_of_record(model, one) for one in _OWN):
            return False
        kinds = [declared.type]
        if typing.get_origin(declared.type) in (typing.Union, types.UnionType):
            kinds = [arm for arm in typing.get_args(declared.type) if arm is not type(None)]
        reading = model._options.reading
        if len(kinds) != 1 or kinds[0] not in _KINDS or reading.coercions:
            return False
        if reading.coerce and columns is not None and name in columns.names:
            return is_exact(columns[name].dataType, kinds[0])
        return True

    def default(self, name: str) -> str:
        """The shard of a value that lacks a part."""
        return shard_of(self.kind._fields[name].default) if self.is_record and name else ""


def _is_of_record(model: type[Record], name: str) -> bool:
    """Whether a model has a method as all records have it."""
    return inspect.getattr_static(model, name) is inspect.getattr_static(Record, name)


def _leave_alone(steps: Iterable[Step], values: _Values) -> bool:
    """Whether functions that a stream is filtered by leave its values as they are."""
    filters = [step.passes for step in steps if isinstance(step, Filter)]
    return values.is_plain or all(_leaves_alone(one, 0, values) for one in filters)


def _leaves_alone(function: Any, position: int, values: _Values, depth: int = 3) -> bool:
    """Whether a function does not change what it is given at a position; so many functions deep."""
    if any(function is one for one in _HARMLESS):
        return True
    source, whole = source_of(function), plain(function)
    if source is None or whole is not function or depth == 0:
        return False
    names = parameters_of(source.definition)
    if position >= len(source.definition.args.posonlyargs) + len(source.definition.args.args):
        return False
    around, free = names_of(whole), {id(node) for node in taken(source)}

    def resolve(node: ast.AST) -> Any:
        return around.get(node.id, _MISSING) if isinstance(node, ast.Name) and id(node) in free else _MISSING

    return not _Spoils(source.definition, ({names[position]}, set()), values, resolve, (), depth - 1).anywhere()


# -- where an event may be changed


class _Spoils:
    """Finds where an event's value may be changed, or goes where it may be: everything but what is known to read it."""

    def __init__(
        self,
        definition: ast.AST,
        held: tuple[set[str], set[str]],
        values: _Values,
        resolve: Callable[[ast.AST], Any],
        sinks: Iterable[Any],
        depth: int = 3,
    ) -> None:
        self._depth = depth
        self._definition = definition
        self._values = values
        self._resolve = resolve
        self._sinks = list(sinks)
        named, self._events = held
        self._held = named | self._events
        self._parents = {id(child): node for node in ast.walk(definition) for child in ast.iter_child_nodes(node)}
        before = -1
        while before != len(self._held):
            before = len(self._held)
            for node in ast.walk(definition):
                if isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) and self._is_held(node.value):
                    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                    self._held |= {one.id for one in targets if isinstance(one, ast.Name)}

    def anywhere(self) -> bool:
        """Whether there is such a place at all."""
        return self.within(self._definition)

    def within(self, node: ast.AST) -> bool:
        """Whether there is one within a node."""
        if self._values.is_plain:
            return False
        return any(
            self._is_held(one) and not self._reads(one)
            if not isinstance(one, ast.AugAssign)
            else isinstance(one.target, ast.Name) and one.target.id in self._held
            for one in ast.walk(node)
        )

    def _is_held(self, node: ast.AST | None) -> bool:
        if isinstance(node, ast.Name):
            return node.id in self._held and isinstance(node.ctx, ast.Load)
        of = node.value if isinstance(node, ast.Attribute) and node.attr == "value" else None
        return isinstance(of, ast.Name) and of.id in self._events

    def _reads(self, node: ast.AST) -> bool:
        """Whether what is around a value only reads it."""
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
                return parent.attr in _OF_RECORD and _is_of_record(model, parent.attr)
            return parent.attr in model._fields
        return self._values.is_dict and is_called and parent.attr in _OF_DICT

    def _is_sent(self, node: ast.AST) -> bool:
        """Whether it is written as JSON, and is read anew by whoever gets it."""
        parent = self._parents.get(id(node))
        if isinstance(parent, ast.Yield):
            return all(isinstance(sink, (Channel, Agent)) for sink in self._sinks)
        call = self._parents.get(id(parent)) if isinstance(parent, ast.keyword) else parent
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and called(call) in ("send", "cast"):
            return isinstance(self._resolve(call.func.value), (Channel, Agent))
        return False

    def _is_given(self, node: ast.AST) -> bool:
        """Whether it is given to a function that leaves it alone."""
        call = self._parents.get(id(node))
        if (
            not isinstance(call, ast.Call)
            or node not in call.args
            or any(isinstance(o, ast.Starred) for o in call.args)
        ):
            return False
        function = call.func
        if isinstance(function, ast.Attribute) and function.attr in _AT and isinstance(function.value, ast.Subscript):
            return isinstance(self._resolve(function.value.value), _TABLES)
        if isinstance(function, ast.Attribute) and isinstance(self._resolve(function.value), logging.Logger):
            return True
        found = self._resolve(function)
        return found is not _MISSING and _leaves_alone(found, call.args.index(node), self._values, self._depth)


# -- what a body does with tables


@dataclass
class _Origin:
    """What an expression is: the ``stream``, an ``event``, its ``value``, its ``key``, a ``field`` of it.

    ``name`` is the field; of a stream how it is gone through.
    """

    kind: str
    name: str = ""

    def __hash__(self) -> int:
        return hash((self.kind, self.name))


@dataclass
class _Known:
    """What is known of variables at a line, and whether the event may have been changed before it."""

    names: dict[str, _Origin] = field(default_factory=dict)
    spoiled: bool = False

    def copy(self) -> _Known:
        return _Known(dict(self.names), self.spoiled)

    def forget(self, names: Iterable[str]) -> None:
        for name in names:
            self.names.pop(name, None)

    def merge(self, ways: list[_Known]) -> None:
        """What is known after one of several ways."""
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


class _Body:
    """What an agent's body does with tables."""

    def __init__(self, agent: Agent, source: Source, group: GroupBy | None) -> None:
        self._agent = agent
        self._source = source
        self._group = group
        self._values = _Values(agent.channel)
        function = plain(agent.function)
        assert function is not None
        self._around = names_of(function)
        given = defaults_of(function)
        parameters = parameters_of(source.definition)
        if inspect.ismethod(agent.function):
            given = {**given, parameters[0]: agent.function.__self__}
            parameters = parameters[1:]
        self._stream = parameters[0] if parameters else ""
        set_ = set().union(*(bound_in(one) for one in source.definition.body))
        self._given = {name: one for name, one in given.items() if name not in set_ and name != self._stream}
        self._taken = {id(node) for node in taken(source)}
        self._parents = {
            id(child): node for node in ast.walk(source.definition) for child in ast.iter_child_nodes(node)
        }
        inner = [one for one in ast.walk(source.definition) if isinstance(one, (ast.Global, ast.Nonlocal))]
        self._elsewhere = {name for one in inner for name in one.names}
        self._hidden: tuple[int, str] | None = None
        self._uses = list(self._found_uses())
        self._at = {id(use.key): use for use in self._uses}
        self._spoils = _Spoils(source.definition, self._events_named(), self._values, self._resolve, agent.sinks)
        # A function within the body may be called anywhere.
        functions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
        inside = [one for part in source.definition.body for one in ast.walk(part) if isinstance(one, functions)]
        self._changed_within = any(self._spoils.within(one) for one in inside)
        self._keys: dict[int, _Origin | None] = {}

    # -- tables

    def hidden(self) -> str | None:
        """Where a table may be used by a key that is not shown."""
        if self._hidden is not None:
            line, name = self._hidden
            return f"{name!r} at {self._source.file}:{line}"
        functions = [sink for sink in self._agent.sinks if not isinstance(sink, (Agent, Channel))]
        if functions and _tables_in(functions) != set():
            return "a sink"
        if self._values.is_record and _tables_in([self._values.kind]) != set():
            return f"its record {self._values.kind.__name__}"
        return None

    def keys(self) -> list[Keyed]:
        """The keys of all uses of tables that are shown."""
        if not self._uses:
            return []
        self._block(self._source.definition.body, _Known({self._stream: _Origin("stream")}))
        found = []
        for use in self._uses:
            origin = self._keys.get(id(use.key))
            text = ast.unparse(use.key) if origin is None else self._shown(origin)
            where = f"{self._source.file}:{use.line}"
            found.append((use.line, Keyed(use.table.name, text, where, self._field(origin))))
        return [one for _, one in sorted(set(found), key=lambda pair: (pair[0], pair[1].table, pair[1].key))]

    def _field(self, origin: _Origin | None) -> str | None:
        if origin is None:
            return None
        if origin.kind == "key":
            if self._group is not None:
                return _field_of(self._group)
            return "" if self._values.key_is_plain else None
        if origin.kind == "value":
            # A dict is no key; what a topic that says no type has is one, where it can be.
            return "value" if self._values.is_plain or self._values.kind is None else None
        return origin.name if origin.kind == "field" else None

    def _shown(self, origin: _Origin) -> str:
        if origin.kind == "field":
            return f"_.{origin.name}" if self._values.is_record else f"_[{origin.name!r}]"
        return {"value": "_", "key": "_.key"}.get(origin.kind, "_")

    def _found_uses(self) -> Iterator[_Use]:
        for part in self._source.definition.body:
            for node in ast.walk(part):
                if isinstance(node, (ast.Import, ast.ImportFrom)):
                    self._hide(node, ast.unparse(node))
                elif isinstance(node, ast.Name) and (id(node) in self._taken or node.id in self._given):
                    yield from self._used(node)

    def _used(self, name: ast.Name) -> Iterator[_Use]:
        """The use of a table that a name leads to, if it does."""
        node: ast.AST = name
        found = self._resolve(name)
        while not isinstance(found, _TABLES):
            above = self._parents.get(id(node))
            further = self._resolve(above) if isinstance(above, (ast.Attribute, ast.Subscript)) else _MISSING
            if further is _MISSING or getattr(above, "value", None) is not node:
                break
            assert above is not None
            node, found = above, further
        parent = self._parents.get(id(node))
        if isinstance(found, _TABLES):
            key = self._key_of(node, parent)
            if key is not None and not isinstance(key, ast.Slice):
                yield _Use(found, key, key.lineno)
            elif not (isinstance(parent, ast.Attribute) and parent.attr in _WHOLE):
                self._hide(name, name.id)
        elif self._may_lead(name, found, parent):
            self._hide(name, name.id)

    def _key_of(self, node: ast.AST, parent: ast.AST | None) -> ast.expr | None:
        """The key by which a table at a node is used."""
        if isinstance(parent, ast.Subscript) and parent.value is node:
            return parent.slice
        above = self._parents.get(id(parent))
        is_method = isinstance(parent, ast.Attribute) and parent.attr in _BY_KEY
        if is_method and isinstance(above, ast.Call) and above.func is parent and above.args:
            return None if isinstance(above.args[0], ast.Starred) else above.args[0]
        if isinstance(parent, ast.Compare) and len(parent.ops) == 1 and isinstance(parent.ops[0], (ast.In, ast.NotIn)):
            return parent.left if parent.comparators[0] is node else None
        return None

    def _may_lead(self, name: ast.Name, found: Any, parent: ast.AST | None) -> bool:
        """Whether something that a name stands for may lead to a table."""
        if found is _MISSING or found is current_event:
            return True
        if isinstance(found, Program):
            return not (isinstance(parent, ast.Attribute) and parent.attr in _OF_APP)
        if isinstance(found, ModuleType):
            # An attribute of it that is not there, or all of it is given away.
            return True
        if isinstance(found, BuiltinFunctionType) and found.__self__ is builtins:
            return found.__name__ in _FINDS
        return _tables_in([found]) != set()

    def _hide(self, node: ast.AST, name: str) -> None:
        line = getattr(node, "lineno", self._source.line)
        if self._hidden is None or line < self._hidden[0]:
            self._hidden = (line, name)

    def _resolve(self, node: ast.AST) -> Any:
        """What a name, or attributes of one, stand for before the program starts."""
        if isinstance(node, ast.Name):
            if id(node) in self._taken:
                return self._around.get(node.id, _MISSING)
            return self._given.get(node.id, _MISSING)
        if isinstance(node, ast.Attribute):
            base = self._resolve(node.value)
            if isinstance(base, ModuleType):
                return vars(base).get(node.attr, _MISSING)
            if isinstance(base, Program):
                return base.tables if node.attr == "tables" else _MISSING
            if base is _MISSING or isinstance(base, (*_TABLES, Agent, Channel)):
                return _MISSING
            found = inspect.getattr_static(base, node.attr, _MISSING)
            return found if isinstance(found, (*_TABLES, type, Program)) else _MISSING
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            base = self._resolve(node.value) if isinstance(node.value, ast.Attribute) else _MISSING
            if isinstance(base, dict) and node.value.attr == "tables":  # type: ignore[attr-defined]
                return base.get(node.slice.value, _MISSING)
        return _MISSING

    def _events_named(self) -> tuple[set[str], set[str]]:
        """Names that may stand for an event's value, and for an event: what goes through the stream."""
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

    def _block(self, nodes: list[ast.stmt], known: _Known) -> bool:
        """Goes through statements; whether the line after them can be reached."""
        return all(self._statement(node, known) for node in nodes)

    def _statement(self, node: ast.stmt, known: _Known) -> bool:
        if isinstance(node, ast.If):
            self._see([node.test], known)
            ways = [(known.copy(), node.body), (known.copy(), node.orelse)]
            goes_on = [way for way, body in ways if self._block(body, way)]
            known.merge(goes_on)
            return bool(goes_on)
        if isinstance(node, (ast.For, ast.AsyncFor)):
            self._loop(node, known)
            return True
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            known.spoiled |= self._spoils.within(node)
            self._see([node], _Known())
            known.forget(bound_in(node))
            return True
        if isinstance(node, (ast.While, ast.Try, ast.With, ast.AsyncWith, ast.Match, ast.TryStar)):
            known.forget(bound_in(node))
            known.spoiled |= self._spoils.within(node)
            self._apart(node, known)
            return True
        changed = {one.target.id for one in ast.walk(node) if isinstance(one, ast.NamedExpr)}
        known.forget(changed)
        self._see([node], known)
        self._set(node, known, changed)
        return not isinstance(node, (ast.Continue, ast.Break, ast.Return, ast.Raise))

    def _set(self, node: ast.stmt, known: _Known, changed: set[str]) -> None:
        """What a simple statement sets."""
        value = node.value if isinstance(node, (ast.Assign, ast.AnnAssign)) else None
        origin = None if value is None else self._origin(value, known)
        known.forget(bound_in(node))
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        target = targets[0] if len(targets) == 1 else None
        if origin is not None and isinstance(target, ast.Name) and target.id not in self._elsewhere | changed:
            known.names[target.id] = origin

    def _loop(self, node: ast.For | ast.AsyncFor, known: _Known) -> None:
        self._see([node.iter], known)
        through = self._origin(node.iter, known) if isinstance(node, ast.AsyncFor) else None
        known.forget(bound_in(node))
        within = known.copy()
        if through is not None and through.kind == "stream":
            # Each event is one of its own: what is known of the one before is over, and what a body did to it.
            known.names = {name: one for name, one in known.names.items() if one.kind == "stream"}
            within = _Known(dict(known.names), self._changed_within)
            self._bind(node.target, through.name, within)
        else:
            within.spoiled |= self._spoils.within(node)
        self._block(node.body, within)
        known.spoiled |= within.spoiled
        self._block(node.orelse, known.copy())

    def _bind(self, target: ast.expr, way: str, known: _Known) -> None:
        """The variables of a loop over a stream."""
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
                    known.names[name] = origin

    def _apart(self, node: ast.AST, known: _Known) -> None:
        """Each part of a statement by itself, with what is known before it."""
        for _, held in ast.iter_fields(node):
            parts = held if isinstance(held, list) else [held]
            statements = [one for one in parts if isinstance(one, ast.stmt)]
            self._block(statements, known.copy())
            others = [one for one in parts if isinstance(one, ast.AST) and not isinstance(one, ast.stmt)]
            for one in others:
                if isinstance(one, (ast.ExceptHandler, ast.match_case)):
                    self._apart(one, known)
                else:
                    self._see([one], known.copy())

    def _see(self, nodes: Iterable[ast.AST], known: _Known) -> None:
        """Notes what the keys within some expressions are."""
        for node in nodes:
            known.spoiled |= self._spoils.within(node)
        left = [(node, known) for node in nodes]
        while left:
            node, here = left.pop()
            if id(node) in self._at:
                self._keys[id(node)] = self._origin(node, here)  # type: ignore[arg-type]
            within = here
            if isinstance(node, (ast.Lambda, ast.GeneratorExp, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                # It runs later, when variables are something else.
                within = _Known()
            elif isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp)):
                within = here.copy()
                within.forget(bound_in(node))
            left += [(child, within) for child in ast.iter_child_nodes(node)]

    def _origin(self, node: ast.expr, known: _Known) -> _Origin | None:
        if isinstance(node, ast.Name):
            found = known.names.get(node.id)
            return found if id(node) not in self._taken else None
        if isinstance(node, ast.Attribute):
            base = self._origin(node.value, known)
            if base is not None and base.kind == "event" and node.attr in ("value", "key"):
                return _Origin(node.attr)
            if base is not None and base.kind == "value" and self._values.is_record and not known.spoiled:
                return _Origin("field", node.attr) if node.attr in self._values.kind._fields else None
        if isinstance(node, ast.Subscript):
            return self._item(node.value, node.slice, known)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            base = self._origin(node.func.value, known)
            if base is not None and base.kind == "stream" and not base.name:
                if node.func.attr in ("filter", "group_by"):
                    return base
                if node.func.attr in ("events", "items", "enumerate"):
                    return _Origin("stream", node.func.attr)
            if node.func.attr == "get" and len(node.args) == 1 and not node.keywords:
                return self._item(node.func.value, node.args[0], known)
        return None

    def _item(self, of: ast.expr, key: ast.expr, known: _Known) -> _Origin | None:
        base = self._origin(of, known)
        if base is None or base.kind != "value" or not self._values.is_dict or known.spoiled:
            return None
        is_name = isinstance(key, ast.Constant) and type(key.value) is str
        return _Origin("field", key.value) if is_name else None  # type: ignore[attr-defined]


def check(agent: Agent, group: GroupBy | None) -> None:
    """Refuses an agent whose tables are known to have other keys than its stream, or keys that differ.

    Raises :class:`InvalidArgumentError` with each table, its key and the line, and the agents to write in its place.
    """
    keys = [one for one in keys_of(agent, group) if one.field is not None]
    shown = ", ".join(f"{one.table}[{_named(one.key)}] ({one.where})" for one in keys)
    if group is not None:
        name = _field_of(group)
        if name is not None and any(one.field != name for one in keys):
            raise InvalidArgumentError(
                f"The agent {agent.name!r} goes through a stream grouped by {group}, and uses tables by another key: "
                f"{shown}. What is of one key would be in several shards. Write an agent for each key, that groups the "
                "stream by it."
            )
        return
    if len({one.field for one in keys}) > 1:
        raise InvalidArgumentError(
            f"The agent {agent.name!r} uses tables by different keys: {shown}. Its events can only be in shards by "
            "one of them, and the totals of the others would come in pieces. Write an agent for each key, that goes "
            "through stream.group_by(...) of it."
        )


def _field_of(group: GroupBy) -> str | None:
    """The field that a stream is grouped by; ``None`` where a function says it."""
    key = group.key.field if isinstance(group.key, FieldDescriptor) else group.key
    return key if isinstance(key, str) else None


def _named(key: str) -> str:
    return key.replace("_.", "event.").replace("_[", "event[") if key != "_" else "event"


__all__ = ["Keyed", "Sharding", "check", "hidden", "keys_of", "reached", "sharding_of"]
