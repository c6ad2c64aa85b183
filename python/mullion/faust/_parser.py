"""Reads what an agent does from its syntax tree: which are folds over windowed tables, and which are anything else.

::

    async for event in events:             Fold(
        if event["n"] > 0:                     If(n > 0,
            views[event["k"]] += 1                 Update(views, k, "+", 1)))

Nothing is guessed: what is not known here in every detail is Python.
"""

from __future__ import annotations

import ast
import builtins
from datetime import timedelta
from types import ModuleType
from typing import Any, Final

from mullion._code.functions import Source, bound_in, constant_of, names_of, plain, source_of, taken
from mullion.faust._context import current_window
from mullion.faust._syntax import (
    CALLS,
    About,
    Call,
    Const,
    Edge,
    Emit,
    Expression,
    Field,
    If,
    Item,
    Kind,
    Let,
    Local,
    Operation,
    Print,
    Read,
    Reading,
    Record,
    Statement,
    Text,
    Update,
    Value,
)
from mullion.faust.agents import Agent
from mullion.faust.models import FieldDescriptor
from mullion.faust.streams import GroupBy
from mullion.faust.tables.table import Table
from mullion.faust.tables.windowed import WindowedTable
from mullion.faust.windows import HoppingWindow, TumblingWindow


class _Unknown(Exception):  # noqa: N818
    """Something that only Python can run."""

    def __init__(self, why: str, node: ast.AST) -> None:
        super().__init__(why)
        self.why = why
        self.line = getattr(node, "lineno", 1)


_BINARY: Final[dict[type[ast.AST], str]] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.BitAnd: "&",
    ast.BitXor: "^",
    ast.BitOr: "|",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.In: "in",
    ast.NotIn: "not in",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.Not: "not",
    ast.USub: "neg",
    ast.UAdd: "pos",
    ast.And: "and",
    ast.Or: "or",
}
_MOST_WAYS: Final = 200
_MADE: Final = object()
_EMPTY: Final[tuple[Any, ...]] = (int, float, str, bool, bytes, list, dict, set, tuple)
_SCALARS = (int, float, str, bytes, type(None), timedelta)


def read(agent: Agent) -> Reading:
    """What an agent's body is."""
    source = source_of(agent.function)
    if source is None:
        file = getattr(getattr(agent.function, "__code__", None), "co_filename", "?")
        return Reading("python", "its source is not to be found", file)
    file, definition = source.file, source.definition
    if not isinstance(definition, ast.AsyncFunctionDef):
        return Reading("python", "it is not an async def", f"{file}:{source.line}")
    reader = _Reader(agent.function, source)
    try:
        statements = reader.body()
        decided = reader.decided
    except _Unknown as unknown:
        return Reading("python", unknown.why, f"{file}:{unknown.line}", group=reader.group)
    kind: Kind = "fold" if decided is None else "running"
    line, why = decided or (reader.loop_line, "it only updates windowed tables")
    return Reading(kind, why, f"{file}:{line}", statements, tuple(dict.fromkeys(reader.tables)), reader.group)


class _Reader:
    """Reads one body. Variables stand for the expressions that they were set to."""

    def __init__(self, function: Any, source: Source) -> None:
        whole = plain(function)
        assert whole is not None
        self._around = names_of(whole)
        self._taken = {id(node) for node in taken(source)}
        self._is_bound = whole is not function
        definition = self._definition = source.definition
        self.tables: list[str] = []
        self.group: GroupBy | None = None
        self.decided: tuple[int, str] | None = None
        self.loop_line = definition.lineno
        self._ways = 0
        self._set = set[str]().union(*(bound_in(one) for one in definition.body))

    def body(self) -> tuple[Statement, ...]:
        parameters = self._definition.args
        names = [one.arg for one in (*parameters.posonlyargs, *parameters.args)]
        loops = [one for one in self._definition.body if not _is_text(one)]
        more = (*parameters.kwonlyargs, parameters.vararg, parameters.kwarg)
        if len(names) != 1 or self._is_bound or any(one is not None for one in more):
            raise _Unknown("it takes more than a stream", self._definition)
        if not loops or not isinstance(loops[0], ast.AsyncFor):
            first = loops[0] if loops else self._definition
            raise _Unknown("something is done before the events are gone through", first)
        if len(loops) > 1:
            raise _Unknown("something is done after the events have been gone through", loops[1])
        loop = loops[0]
        self.loop_line = loop.lineno
        if loop.orelse:
            raise _Unknown("an 'else' of a loop", loop.orelse[0])
        if not isinstance(loop.target, ast.Name):
            raise _Unknown("an event is taken apart as it comes", loop.target)
        known: dict[str, Any] = {loop.target.id: self._stream(loop.iter, names[0])}
        return self._block(loop.body, known)

    def _stream(self, node: ast.expr, name: str) -> Any:
        """What goes through: values, or events."""
        if isinstance(node, ast.Name) and node.id == name:
            return Value()
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr == "events" and not node.args and not node.keywords:
                self._stream(node.func.value, name)
                return "event"
            if node.func.attr == "group_by" and len(node.args) == 1:
                self._stream(node.func.value, name)
                self.group = GroupBy(self._group_key(node.args[0]))
                return Value()
        raise _Unknown(f"the stream is {ast.unparse(node)}", node)

    def _group_key(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found = getattr(self._lookup(node.value), node.attr, None)
            if isinstance(found, FieldDescriptor):
                return found
        raise _Unknown(f"the stream is grouped by {ast.unparse(node)}", node)

    # -- statements

    def _block(self, nodes: list[ast.stmt], known: dict[str, Any]) -> tuple[Statement, ...]:
        found: list[Statement] = []
        for i, node in enumerate(nodes):
            if isinstance(node, ast.Continue):
                return tuple(found)
            if isinstance(node, ast.If) and any(isinstance(one, ast.Continue) for one in ast.walk(node)):
                # Somewhere within it leaves the event: what follows is done in each case that does not.
                self._ways += 1
                if self._ways > _MOST_WAYS:
                    raise _Unknown(f"there are more than {_MOST_WAYS} ways through it", node)
                test = self._expression(node.test, known)
                rest = nodes[i + 1 :]
                then = self._block([*node.body, *rest], dict(known))
                otherwise = self._block([*node.orelse, *rest], dict(known))
                found.append(If(test, then, otherwise))
                return tuple(found)
            found += self._statement(node, known)
        return tuple(found)

    def _statement(self, node: ast.stmt, known: dict[str, Any]) -> list[Statement]:
        if isinstance(node, ast.Pass) or _is_text(node):
            return []
        if isinstance(node, ast.AugAssign) and type(node.op) in _BINARY:
            table, key = self._target(node.target, known)
            return [Update(table, key, _BINARY[type(node.op)], self._expression(node.value, known), node.lineno)]
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            return self._assign(node.targets[0], node.value, node, known)
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            return self._assign(node.target, node.value, node, known)
        if isinstance(node, ast.If):
            test = self._expression(node.test, known)
            then, otherwise = dict(known), dict(known)
            ways = [self._block(node.body, then), self._block(node.orelse, otherwise)]
            # What is set in one case only, and was nothing before, may be of an event before in the other.
            for name in [one for one in then if one in otherwise]:
                if then[name] != otherwise[name]:
                    # What was something before is that in the other.
                    for i, way in enumerate((then, otherwise)):
                        if way[name] != Local(name):
                            ways[i] += (Let(name, way[name]),)
                    then[name] = Local(name)
                known[name] = then[name]
            return [If(test, *ways)]
        if isinstance(node, ast.Expr):
            return self._effect(node, known)
        raise _Unknown(f"a statement that is not one of a fold: {_first_line(node)}", node)

    def _assign(self, target: ast.expr, value: ast.expr, node: ast.stmt, known: dict[str, Any]) -> list[Statement]:
        if isinstance(target, ast.Name):
            if known.get(target.id) == "event":
                raise _Unknown(f"the variable {target.id!r} is set anew", node)
            made = Let(target.id, self._expression(value, known))
            known[target.id] = Local(target.id)
            return [made]
        table, key = self._target(target, known)
        return [Update(table, key, "", self._expression(value, known), node.lineno)]

    def _effect(self, node: ast.Expr, known: dict[str, Any]) -> list[Statement]:
        value = node.value
        if isinstance(value, ast.Yield):
            self._running(node, "it yields")
            return [Emit(Const(None) if value.value is None else self._expression(value.value, known), node.lineno)]
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "print":
            if self._shadowed("print", known) or value.keywords:
                raise _Unknown("a print with options", node)
            self._running(node, "it prints")
            return [Print(tuple(self._expression(one, known) for one in value.args), node.lineno)]
        raise _Unknown(f"a statement that is not one of a fold: {_first_line(node)}", node)

    def _target(self, node: ast.expr, known: dict[str, Any]) -> tuple[str, Expression]:
        """The table and key of ``table[key]``."""
        if not isinstance(node, ast.Subscript):
            raise _Unknown(f"something other than a table is set: {ast.unparse(node)}", node)
        table = self._table_of(node.value, known)
        if table is None:
            raise _Unknown(f"something other than a table is changed: {ast.unparse(node)}", node)
        return self._served(table, node), self._expression(node.slice, known)

    # -- tables

    def _table_of(self, node: ast.expr, known: dict[str, Any]) -> Table | WindowedTable | None:
        if not isinstance(node, ast.Name) or node.id in known:
            return None
        try:
            found = self._lookup(node)
        except _Unknown:
            return None
        return found if isinstance(found, (Table, WindowedTable)) else None

    def _served(self, table: Table | WindowedTable, node: ast.AST) -> str:
        """A table's name; one that the JVM does not keep is unknown."""
        if isinstance(table, Table):
            raise _Unknown(f"the table {table.name!r} has no window", node)
        if type(table.window) not in (TumblingWindow, HoppingWindow):
            kind = type(table.window).__name__
            raise _Unknown(f"the table {table.name!r} has a window of another kind, {kind}", node)
        if table._relative.to == "field":
            raise _Unknown(f"the table {table.name!r} is relative to a field", node)
        made = default_of(table.table)
        if made is _MADE:
            raise _Unknown(f"the default of the table {table.name!r} is what a function makes of it each time", node)
        if type(made) not in (int, float):
            raise _Unknown(f"the table {table.name!r} holds no numbers, but {type(made).__name__}", node)
        self.tables.append(table.name)
        return table.name

    def _running(self, node: ast.AST, why: str) -> None:
        if self.decided is None:
            self.decided = (getattr(node, "lineno", 1), why)

    # -- expressions

    def _expression(self, node: ast.expr, known: dict[str, Any]) -> Expression:
        if isinstance(node, ast.Constant):
            return self._constant(node.value, node)
        if isinstance(node, ast.Name):
            return self._variable(node, known)
        if isinstance(node, ast.Attribute):
            return self._attribute(node, known)
        if isinstance(node, ast.Subscript):
            return self._subscript(node, known)
        if isinstance(node, ast.BinOp):
            return self._operation(_BINARY.get(type(node.op), ""), node, known)
        if isinstance(node, ast.UnaryOp) and type(node.op) in _BINARY:
            return Operation(_BINARY[type(node.op)], (self._expression(node.operand, known),))
        if isinstance(node, ast.BoolOp):
            return Operation(_BINARY[type(node.op)], tuple(self._expression(one, known) for one in node.values))
        if isinstance(node, ast.Compare):
            operands = [self._expression(one, known) for one in (node.left, *node.comparators)]
            tests = tuple(
                Operation(_BINARY[type(sign)], (left, right))
                for sign, left, right in zip(node.ops, operands, operands[1:], strict=False)
            )
            # What is in the middle of 'a < b < c' is the same however often it is computed.
            return tests[0] if len(tests) == 1 else Operation("and", tests)
        if isinstance(node, ast.IfExp):
            parts = (node.test, node.body, node.orelse)
            return Operation("if", tuple(self._expression(one, known) for one in parts))
        if isinstance(node, ast.Call):
            return self._call(node, known)
        if isinstance(node, ast.Dict) and all(node.keys):
            keys = tuple(self._expression(one, known) for one in node.keys if one is not None)
            return Record(keys, tuple(self._expression(one, known) for one in node.values))
        if isinstance(node, ast.JoinedStr):
            return self._text(node, known)
        raise _Unknown(f"an expression that is not one of a fold: {ast.unparse(node)}", node)

    def _text(self, node: ast.JoinedStr, known: dict[str, Any]) -> Text:
        parts, formats = [], []
        for one in node.values:
            spec = one.format_spec if isinstance(one, ast.FormattedValue) else None
            plain = spec.values if isinstance(spec, ast.JoinedStr) else []
            if getattr(one, "conversion", -1) != -1 or not all(isinstance(part, ast.Constant) for part in plain):
                raise _Unknown(f"an expression that is not one of a fold: {ast.unparse(node)}", node)
            formats.append("".join(str(part.value) for part in plain if isinstance(part, ast.Constant)))
            parts.append(self._expression(one.value if isinstance(one, ast.FormattedValue) else one, known))
        return Text(tuple(parts), tuple(formats))

    def _operation(self, sign: str, node: ast.BinOp, known: dict[str, Any]) -> Expression:
        if not sign:
            raise _Unknown(f"an expression that is not one of a fold: {ast.unparse(node)}", node)
        return Operation(sign, (self._expression(node.left, known), self._expression(node.right, known)))

    def _constant(self, value: Any, node: ast.AST) -> Const:
        if not isinstance(value, _SCALARS):
            raise _Unknown(f"the constant {value!r}", node)
        return Const(value)

    def _variable(self, node: ast.Name, known: dict[str, Any]) -> Expression:
        if node.id in known:
            found = known[node.id]
            if found == "event":
                raise _Unknown("the event itself is used", node)
            return found  # type: ignore[no-any-return]
        if node.id in self._set:
            raise _Unknown(f"the variable {node.id!r} may not be set yet, or by an event before", node)
        return self._constant(self._lookup(node), node)

    def _attribute(self, node: ast.Attribute, known: dict[str, Any]) -> Expression:
        if isinstance(node.value, ast.Name) and known.get(node.value.id) == "event":
            if node.attr == "value":
                return Value()
            if node.attr in ("key", "timestamp"):
                return About(node.attr)
            raise _Unknown(f"the event's {node.attr!r} is used", node)
        if node.attr in ("start", "end") and self._is_current_window(node.value, known):
            return self._edge(node, node.attr)
        return Field(self._expression(node.value, known), node.attr)

    def _subscript(self, node: ast.Subscript, known: dict[str, Any]) -> Expression:
        if self._table_of(node.value, known) is not None:
            raise _Unknown(f"what a table has for a key is kept: {ast.unparse(node)}", node)
        if self._is_current_window(node.value, known):
            which = node.slice.value if isinstance(node.slice, ast.Constant) else None
            if type(which) is int and which in (0, 1):
                return self._edge(node, ("start", "end")[which])
        if isinstance(node.slice, ast.Slice):
            raise _Unknown(f"an expression that is not one of a fold: {ast.unparse(node)}", node)
        return Item(self._expression(node.value, known), self._expression(node.slice, known))

    def _is_current_window(self, node: ast.expr, known: dict[str, Any]) -> bool:
        """Whether it is ``current_window()``, by that name or as an attribute of a module."""
        if not isinstance(node, ast.Call) or node.args or node.keywords:
            return False
        named = node.func.value if isinstance(node.func, ast.Attribute) else node.func
        if not isinstance(named, ast.Name) or named.id in known or named.id in self._set:
            return False
        found = self._lookup(named)
        if isinstance(node.func, ast.Attribute):
            found = getattr(found, node.func.attr, None) if isinstance(found, ModuleType) else None
        return found is current_window

    def _edge(self, node: ast.AST, which: str) -> Edge:
        self._running(node, "it asks for the current window")
        return Edge(which)

    def _call(self, node: ast.Call, known: dict[str, Any]) -> Expression:
        function = node.func
        if node.keywords or any(isinstance(one, ast.Starred) for one in node.args):
            return self._known_call(node, known)
        if isinstance(function, ast.Name) and function.id in CALLS and not self._shadowed(function.id, known):
            return Call(function.id, tuple(self._expression(one, known) for one in node.args))
        if isinstance(function, ast.Attribute) and function.attr in ("value", "current", "now", "delta"):
            of = function.value
            table = self._table_of(of.value, known) if isinstance(of, ast.Subscript) else None
            if table is not None and isinstance(of, ast.Subscript):
                return self._read(node, table, of, function.attr, known)
        return self._known_call(node, known)

    def _read(
        self, node: ast.Call, table: Table | WindowedTable, of: ast.Subscript, how: str, known: dict[str, Any]
    ) -> Read:
        name = self._served(table, node)
        if len(node.args) != (1 if how == "delta" else 0):
            raise _Unknown(f"a table is read for another event: {ast.unparse(node)}", node)
        self._running(node, f"it reads the table {name!r}")
        if isinstance(table, WindowedTable) and table._relative.to != "stream" and how == "value":
            if table._relative.to != "now":
                raise _Unknown(f"the table {name!r} is read at one time", node)
            how = "now"
        ago = self._expression(node.args[0], known) if node.args else None
        return Read(name, self._expression(of.slice, known), how, ago)

    def _known_call(self, node: ast.Call, known: dict[str, Any]) -> Const:
        """``timedelta(minutes=30)``: known when the program starts."""
        if isinstance(node.func, ast.Name) and node.func.id not in known and self._lookup(node.func) is timedelta:
            given = [self._expression(one, known) for one in node.args]
            named = {one.arg or "": self._expression(one.value, known) for one in node.keywords}
            values = [one.value for one in given if isinstance(one, Const)]
            options = {name: one.value for name, one in named.items() if name and isinstance(one, Const)}
            if len(values) == len(given) and len(options) == len(node.keywords):
                return Const(timedelta(*values, **options))
        raise _Unknown(f"a call of {ast.unparse(node.func)}", node)

    # -- names

    def _lookup(self, node: ast.Name) -> Any:
        if id(node) in self._taken and node.id in self._around:
            return self._around[node.id]
        raise _Unknown(f"the name {node.id!r} is not known when the program starts", node)

    def _shadowed(self, name: str, known: dict[str, Any]) -> bool:
        return name in known or name in self._set or self._around.get(name) is not getattr(builtins, name)


def default_of(table: Table) -> Any:
    """What a table always has for a key that is not there; ``_MADE`` where that may be another thing each time."""
    default: Any = table.default
    if default is None:
        return None
    if default in _EMPTY:
        return default()
    found = constant_of(default)
    return _MADE if found is None else found[0]


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _first_line(node: ast.AST) -> str:
    return ast.unparse(node).splitlines()[0]
