"""Parses agents' bodies: finds folds over windowed tables, and leaves all others to Python.

::

    async for event in events:             Fold(
        if event["n"] > 0:                     If(n > 0,
            views[event["k"]] += 1                 Update(views, k, "+", 1)))

The parser never guesses: a body with any unsupported detail runs in Python.
"""

from __future__ import annotations

import ast
from types import ModuleType
from typing import Any, ClassVar, Final

from mullion._pyfunction.functions import Source, constant_of, source_of
from mullion._pyfunction.reader import Reader, Unknown, says_nothing
from mullion._pyfunction.syntax import Const, Expression, Statement
from mullion.faust._agent_code.syntax import About, Edge, Emit, Kind, Print, Read, Reading, Update, Value
from mullion.faust._context import current_window
from mullion.faust.agents import Agent
from mullion.faust.models import FieldDescriptor
from mullion.faust.streams import GroupBy
from mullion.faust.tables.table import Table, WindowedTable
from mullion.faust.windows import HoppingWindow, TumblingWindow

_MADE: Final = object()
_EMPTY: Final[tuple[Any, ...]] = (int, float, str, bool, bytes, list, dict, set, tuple)


def read(agent: Agent) -> Reading:
    source = source_of(agent.function)
    if source is None:
        file = getattr(getattr(agent.function, "__code__", None), "co_filename", "?")
        return Reading("python", "its source code is not available", file)
    file, definition = source.file, source.definition
    if not isinstance(definition, ast.AsyncFunctionDef):
        return Reading("python", "it is not an async def", f"{file}:{source.line}")
    reader = _BodyReader(agent.function, source)
    try:
        statements = reader.body()
        decided = reader.decided
    except Unknown as unknown:
        return Reading("python", unknown.why, f"{file}:{unknown.line}", group=reader.group)
    kind: Kind = "fold" if decided is None else "running"
    line, why = decided or (reader.loop_line, "it only updates windowed tables")
    return Reading(kind, why, f"{file}:{line}", statements, tuple(dict.fromkeys(reader.tables)), reader.group)


class _BodyReader(Reader):
    """Parses the body of one agent: one loop over the events, with tables."""

    sort: ClassVar[str] = "a fold"
    makes_sequences: ClassVar[bool] = False

    def __init__(self, function: Any, source: Source) -> None:
        super().__init__(function, source)
        self._definition = source.definition
        self.tables: list[str] = []
        self.group: GroupBy | None = None
        self.decided: tuple[int, str] | None = None
        self.loop_line = source.definition.lineno

    def body(self) -> tuple[Statement, ...]:
        parameters = self._definition.args
        names = [one.arg for one in (*parameters.posonlyargs, *parameters.args)]
        loops = [one for one in self._definition.body if not says_nothing(one)]
        more = (*parameters.kwonlyargs, parameters.vararg, parameters.kwarg)
        if len(names) != 1 or self.is_bound or any(one is not None for one in more):
            raise Unknown("it has other parameters than a stream", self._definition)
        if not loops or not isinstance(loops[0], ast.AsyncFor):
            first = loops[0] if loops else self._definition
            raise Unknown("a statement comes before the loop over the events", first)
        if len(loops) > 1:
            raise Unknown("a statement comes after the loop over the events", loops[1])
        loop = loops[0]
        self.loop_line = loop.lineno
        if loop.orelse:
            raise Unknown("an 'else' of a loop", loop.orelse[0])
        if not isinstance(loop.target, ast.Name):
            raise Unknown("the loop unpacks an event", loop.target)
        bindings: dict[str, Any] = {loop.target.id: self._stream(loop.iter, names[0])}
        return self.block(loop.body, bindings)

    def _stream(self, node: ast.expr, name: str) -> Any:
        """Returns the loop variable: a value, or an event."""
        if isinstance(node, ast.Name) and node.id == name:
            return Value()
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr == "events" and not node.args and not node.keywords:
                self._stream(node.func.value, name)
                return "event"
            if node.func.attr == "group_by" and len(node.args) == 1 and not _sends(node):
                self._stream(node.func.value, name)
                self.group = GroupBy(self._group_key(node.args[0]))
                return Value()
        raise Unknown(f"the stream is {ast.unparse(node)}", node)

    def _group_key(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            field = getattr(self.lookup(node.value), node.attr, None)
            if isinstance(field, FieldDescriptor) and field.parent is None:
                return field
        raise Unknown(f"the stream is grouped by {ast.unparse(node)}", node)

    # -- statements

    def assign(self, target: ast.expr, value: ast.expr, node: ast.stmt, bindings: dict[str, Any]) -> list[Statement]:
        if isinstance(target, ast.Name) and bindings.get(target.id) == "event":
            raise Unknown(f"the variable {target.id!r} is assigned again", node)
        return super().assign(target, value, node, bindings)

    def change(
        self, target: ast.expr, sign: str, value: ast.expr, node: ast.stmt, bindings: dict[str, Any]
    ) -> list[Statement]:
        """Parses ``table[key] <sign>= value``."""
        table, key = self._target(target, bindings)
        return [Update(table, key, sign, self.expression(value, bindings), node.lineno)]

    def effect(self, node: ast.Expr, bindings: dict[str, Any]) -> list[Statement]:
        """Parses a ``yield`` or a ``print``."""
        value = node.value
        if isinstance(value, ast.Yield):
            self._running(node, "it yields")
            return [Emit(Const(None) if value.value is None else self.expression(value.value, bindings), node.lineno)]
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "print":
            if self.shadowed("print", bindings) or value.keywords:
                raise Unknown("a print with options", node)
            self._running(node, "it prints")
            return [Print(tuple(self.expression(one, bindings) for one in value.args), node.lineno)]
        raise self.no_statement(node)

    def _target(self, node: ast.expr, bindings: dict[str, Any]) -> tuple[str, Expression]:
        if not isinstance(node, ast.Subscript):
            raise Unknown(f"something other than a table is set: {ast.unparse(node)}", node)
        table = self._table_of(node.value, bindings)
        if table is None:
            raise Unknown(f"something other than a table is changed: {ast.unparse(node)}", node)
        return self._windowed_name(table, node), self.expression(node.slice, bindings)

    # -- tables

    def _table_of(self, node: ast.expr, bindings: dict[str, Any]) -> Table | WindowedTable | None:
        if not isinstance(node, ast.Name) or node.id in bindings:
            return None
        try:
            value = self.lookup(node)
        except Unknown:
            return None
        return value if isinstance(value, (Table, WindowedTable)) else None

    def _windowed_name(self, table: Table | WindowedTable, node: ast.AST) -> str:
        """Returns a table's name; raises :class:`Unknown` for a table that the JVM does not support."""
        if isinstance(table, Table):
            raise Unknown(f"the table {table.name!r} has no window", node)
        if type(table.window) not in (TumblingWindow, HoppingWindow):
            kind = type(table.window).__name__
            raise Unknown(f"the table {table.name!r} has a window of another kind, {kind}", node)
        if table._relative.to == "field":
            raise Unknown(f"the table {table.name!r} is relative to a field", node)
        default = default_of(table.table)
        if default is _MADE:
            raise Unknown(f"the default of the table {table.name!r} is the result of a function", node)
        if type(default) not in (int, float):
            raise Unknown(f"the table {table.name!r} holds no numbers, but {type(default).__name__}", node)
        self.tables.append(table.name)
        return table.name

    def _running(self, node: ast.AST, why: str) -> None:
        if self.decided is None:
            self.decided = (getattr(node, "lineno", 1), why)

    # -- expressions

    def variable(self, node: ast.Name, bindings: dict[str, Any]) -> Expression:
        """Returns the expression of a name; the event itself is not supported."""
        if bindings.get(node.id) == "event":
            raise Unknown("the event itself is used", node)
        return super().variable(node, bindings)

    def attribute(self, node: ast.Attribute, bindings: dict[str, Any]) -> Expression:
        """Parses a property of the event, an edge of the current window, or a field."""
        if isinstance(node.value, ast.Name) and bindings.get(node.value.id) == "event":
            if node.attr == "value":
                return Value()
            if node.attr in ("key", "timestamp"):
                return About(node.attr)
            raise Unknown(f"the event's {node.attr!r} is used", node)
        if node.attr in ("start", "end") and self._is_current_window(node.value, bindings):
            return self._edge(node, node.attr)
        return super().attribute(node, bindings)

    def subscript(self, node: ast.Subscript, bindings: dict[str, Any]) -> Expression:
        """Parses an edge of the current window, or an item."""
        if self._table_of(node.value, bindings) is not None:
            raise Unknown(f"the value of a table is read: {ast.unparse(node)}", node)
        if self._is_current_window(node.value, bindings):
            which = node.slice.value if isinstance(node.slice, ast.Constant) else None
            if type(which) is int and which in (0, 1):
                return self._edge(node, ("start", "end")[which])
        return super().subscript(node, bindings)

    def _is_current_window(self, node: ast.expr, bindings: dict[str, Any]) -> bool:
        """True for ``current_window()``, called by that name or as an attribute of a module."""
        if not isinstance(node, ast.Call) or node.args or node.keywords:
            return False
        named = node.func.value if isinstance(node.func, ast.Attribute) else node.func
        if not isinstance(named, ast.Name) or named.id in bindings or named.id in self._set:
            return False
        function = self.lookup(named)
        if isinstance(node.func, ast.Attribute):
            function = getattr(function, node.func.attr, None) if isinstance(function, ModuleType) else None
        return function is current_window

    def _edge(self, node: ast.AST, which: str) -> Edge:
        self._running(node, "it asks for the current window")
        return Edge(which)

    def call(self, node: ast.Call, bindings: dict[str, Any]) -> Expression:
        """Parses a read of a table, or a call of a supported function."""
        function, named = node.func, node.keywords or any(isinstance(one, ast.Starred) for one in node.args)
        if not named and isinstance(function, ast.Attribute) and function.attr in ("value", "current", "now", "delta"):
            of = function.value
            table = self._table_of(of.value, bindings) if isinstance(of, ast.Subscript) else None
            if table is not None and isinstance(of, ast.Subscript):
                return self._read(node, table, of, function.attr, bindings)
        return super().call(node, bindings)

    def _read(
        self, node: ast.Call, table: Table | WindowedTable, of: ast.Subscript, how: str, bindings: dict[str, Any]
    ) -> Read:
        name = self._windowed_name(table, node)
        if len(node.args) != (1 if how == "delta" else 0):
            raise Unknown(f"a table is read for another event: {ast.unparse(node)}", node)
        self._running(node, f"it reads the table {name!r}")
        if isinstance(table, WindowedTable) and table._relative.to != "stream" and how == "value":
            if table._relative.to != "now":
                raise Unknown(f"the table {name!r} is relative to a field, and is read without an event", node)
            how = "now"
        ago = self.expression(node.args[0], bindings) if node.args else None
        return Read(name, self.expression(of.slice, bindings), how, ago)


def default_of(table: Table) -> Any:
    """Returns a table's constant default; ``_MADE`` if each call may return another value."""
    default: Any = table.default
    if default is None:
        return None
    if default in _EMPTY:
        return default()
    constant = constant_of(default)
    return _MADE if constant is None else constant[0]


def _sends(group: ast.Call) -> bool:
    """True if a ``group_by`` may send its events to a topic."""
    topics = [one.value for one in group.keywords if one.arg in ("topic", None)]
    return not all(isinstance(one, ast.Constant) and one.value is None for one in topics)
