"""Translates a user's function: its syntax tree, with the values of its names, becomes expressions.

::

    lambda acc, x: acc + x["n"] * SCALE        Function(("acc", "x"), acc + x["n"] * Const(3))

Nothing is guessed: a construct that is not understood in every detail raises :class:`Unknown`, with line and reason,
and the caller uses the function unchanged. An adapter with more constructs (tables, streams) translates them in a
subclass of :class:`Reader`.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterator
from dataclasses import fields
from datetime import timedelta
from types import ModuleType
from typing import Any, ClassVar, Final

from mullion._pyfunction.functions import (
    LambdaSource,
    Source,
    bound_in,
    lambda_source_of,
    names_of,
    parameters_of,
    plain,
    source_of,
    taken,
)
from mullion._pyfunction.syntax import (
    CALLS,
    Argument,
    Call,
    Const,
    Dict,
    Expression,
    Field,
    Function,
    Get,
    If,
    Item,
    Let,
    List,
    Local,
    Operation,
    Replaced,
    Statement,
    Text,
    Tuple,
    Where,
)


class Unknown(Exception):  # noqa: N818
    """A construct that only Python can run: the reason, and its line."""

    def __init__(self, why: str, node: ast.AST | int) -> None:
        super().__init__(why)
        self.why = why
        self.line = node if isinstance(node, int) else getattr(node, "lineno", 1)


SIGN_OF: Final[dict[type[ast.AST], str]] = {
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
_SCALARS: Final = (int, float, str, bytes, type(None), timedelta)


class Reader:
    """Translates the body of one function. Variables are replaced by the expressions that they were set to.

    The parameter ``bindings`` of methods maps each name to its current meaning: an expression, or an adapter's object.
    """

    sort: ClassVar[str] = "a function that only computes"
    """The name of a supported body in messages."""

    def __init__(self, function: Any, source: Source | LambdaSource) -> None:
        plain_function = plain(function)
        assert plain_function is not None
        self.definition = source.definition
        self.is_bound = plain_function is not function
        self._around = names_of(plain_function)
        self._taken = {id(node) for node in taken(source)}
        self._ways = 0
        body = source.definition.body
        self._set = set[str]().union(*(bound_in(one) for one in (body if isinstance(body, list) else [body])))

    # -- statements

    def block(self, nodes: list[ast.stmt], bindings: dict[str, Any]) -> tuple[Statement, ...]:
        """The statements of a loop's body, in which ``continue`` ends it."""
        statements: list[Statement] = []
        for i, node in enumerate(nodes):
            if isinstance(node, ast.Continue):
                return tuple(statements)
            if isinstance(node, ast.If) and any(isinstance(one, ast.Continue) for one in ast.walk(node)):
                # A branch leaves the event: later statements belong to each branch that does not.
                self._another_way(node)
                test = self.expression(node.test, bindings)
                rest = nodes[i + 1 :]
                then = self.block([*node.body, *rest], dict(bindings))
                otherwise = self.block([*node.orelse, *rest], dict(bindings))
                statements.append(If(test, then, otherwise))
                return tuple(statements)
            statements += self._statement(node, bindings)
        return tuple(statements)

    def _another_way(self, node: ast.AST) -> None:
        self._ways += 1
        if self._ways > _MOST_WAYS:
            raise Unknown(f"it has more than {_MOST_WAYS} paths", node)

    def _statement(self, node: ast.stmt, bindings: dict[str, Any]) -> list[Statement]:
        if says_nothing(node):
            return []
        if isinstance(node, ast.AugAssign) and type(node.op) in SIGN_OF:
            return self.change(node.target, SIGN_OF[type(node.op)], node.value, node, bindings)
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            return self.assign(node.targets[0], node.value, node, bindings)
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            return self.assign(node.target, node.value, node, bindings)
        if isinstance(node, ast.If):
            test = self.expression(node.test, bindings)
            then, otherwise = dict(bindings), dict(bindings)
            ways = [self.block(node.body, then), self.block(node.orelse, otherwise)]
            # A variable that is set in one branch only may have the value of an earlier event in the other.
            for name in [one for one in then if one in otherwise]:
                if then[name] != otherwise[name]:
                    # A variable that was set before keeps its value in the other branch.
                    for i, way in enumerate((then, otherwise)):
                        if way[name] != Local(name):
                            ways[i] += (Let(name, way[name]),)
                    then[name] = Local(name)
                bindings[name] = then[name]
            return [If(test, *ways)]
        if isinstance(node, ast.Expr):
            return self.effect(node, bindings)
        raise self.no_statement(node)

    def assign(self, target: ast.expr, value: ast.expr, node: ast.stmt, bindings: dict[str, Any]) -> list[Statement]:
        """``target = value``."""
        if isinstance(target, ast.Name):
            let = Let(target.id, self.expression(value, bindings))
            bindings[target.id] = Local(target.id)
            return [let]
        return self.change(target, "", value, node, bindings)

    def change(
        self, target: ast.expr, sign: str, value: ast.expr, node: ast.stmt, bindings: dict[str, Any]
    ) -> list[Statement]:
        """``target <sign>= value``, where the target is not a variable; the sign is empty for an assignment."""
        raise self.no_statement(node)

    def effect(self, node: ast.Expr, bindings: dict[str, Any]) -> list[Statement]:
        """An expression statement: a call, a ``yield``."""
        raise self.no_statement(node)

    def no_statement(self, node: ast.stmt) -> Unknown:
        """The error for a statement that is not supported."""
        return Unknown(f"a statement that is not one of {self.sort}: {ast.unparse(node).splitlines()[0]}", node)

    # -- expressions

    def expression(self, node: ast.expr, bindings: dict[str, Any]) -> Expression:
        """An expression."""
        match node:
            case ast.Constant(value=value):
                return self.constant(value, node)
            case ast.Name():
                return self.variable(node, bindings)
            case ast.Attribute():
                return self.attribute(node, bindings)
            case ast.Subscript():
                return self.subscript(node, bindings)
            case ast.BinOp(left=left, op=sign, right=right) if type(sign) in SIGN_OF:
                operands = (self.expression(left, bindings), self.expression(right, bindings))
                return Operation(SIGN_OF[type(sign)], operands)
            case ast.UnaryOp(op=unary, operand=of) if type(unary) in SIGN_OF:
                return Operation(SIGN_OF[type(unary)], (self.expression(of, bindings),))
            case ast.BoolOp(op=joint, values=values):
                return Operation(SIGN_OF[type(joint)], tuple(self.expression(one, bindings) for one in values))
            case ast.Compare():
                return self._comparison(node, bindings)
            case ast.IfExp(test=test, body=then, orelse=otherwise):
                return Operation("if", tuple(self.expression(one, bindings) for one in (test, then, otherwise)))
            case ast.Call():
                return self.call(node, bindings)
            case ast.Dict(keys=keys, values=values) if all(keys):
                return Dict(
                    tuple(self.expression(one, bindings) for one in keys if one is not None),
                    tuple(self.expression(one, bindings) for one in values),
                )
            case ast.Tuple(elts=items) | ast.List(elts=items) if self.makes_sequences and not _has_star(items):
                kind = Tuple if isinstance(node, ast.Tuple) else List
                return kind(tuple(self.expression(one, bindings) for one in items))
            case ast.JoinedStr():
                return self._text(node, bindings)
        raise self.no_expression(node)

    makes_sequences: ClassVar[bool] = True
    """True if the body may create tuples and lists."""

    def no_expression(self, node: ast.expr) -> Unknown:
        """The error for an expression that is not supported."""
        return Unknown(f"an expression that is not one of {self.sort}: {ast.unparse(node)}", node)

    def _comparison(self, node: ast.Compare, bindings: dict[str, Any]) -> Expression:
        operands = [self.expression(one, bindings) for one in (node.left, *node.comparators)]
        tests = tuple(
            Operation(SIGN_OF[type(sign)], (left, right))
            for sign, left, right in zip(node.ops, operands, operands[1:], strict=False)
        )
        # The middle of 'a < b < c' has no side effects, so it may be computed twice.
        return tests[0] if len(tests) == 1 else Operation("and", tests)

    def _text(self, node: ast.JoinedStr, bindings: dict[str, Any]) -> Text:
        parts, formats = [], []
        for one in node.values:
            spec = one.format_spec if isinstance(one, ast.FormattedValue) else None
            plain = spec.values if isinstance(spec, ast.JoinedStr) else []
            if getattr(one, "conversion", -1) != -1 or not all(isinstance(part, ast.Constant) for part in plain):
                raise self.no_expression(node)
            formats.append("".join(str(part.value) for part in plain if isinstance(part, ast.Constant)))
            parts.append(self.expression(one.value if isinstance(one, ast.FormattedValue) else one, bindings))
        return Text(tuple(parts), tuple(formats))

    def constant(self, value: Any, node: ast.AST) -> Const:
        """A constant at the start of the program; one that could change is unknown."""
        if not isinstance(value, _SCALARS):
            raise Unknown(f"the constant {value!r}", node)
        return Const(value)

    def variable(self, node: ast.Name, bindings: dict[str, Any]) -> Expression:
        """The meaning of a name."""
        if node.id in bindings:
            return bindings[node.id]  # type: ignore[no-any-return]
        if node.id in self._set:
            raise Unknown(f"the variable {node.id!r} may be unset, or set by an earlier event", node)
        return self.constant(self.lookup(node), node)

    def attribute(self, node: ast.Attribute, bindings: dict[str, Any]) -> Expression:
        """``of.name``."""
        return Field(self.expression(node.value, bindings), node.attr)

    def subscript(self, node: ast.Subscript, bindings: dict[str, Any]) -> Expression:
        """``of[key]``."""
        if isinstance(node.slice, ast.Slice):
            raise self.no_expression(node)
        return Item(self.expression(node.value, bindings), self.expression(node.slice, bindings))

    def call(self, node: ast.Call, bindings: dict[str, Any]) -> Expression:
        """A call: of one of ``CALLS``, of ``dict.get``, of ``timedelta`` with constants."""
        function, plainly = node.func, not node.keywords and not _has_star(node.args)
        if plainly and isinstance(function, ast.Name) and function.id in CALLS:
            if not self.shadowed(function.id, bindings):
                return Call(function.id, tuple(self.expression(one, bindings) for one in node.args))
        elif plainly and isinstance(function, ast.Attribute) and function.attr == "get" and self.makes_sequences:
            arguments = [self.expression(one, bindings) for one in node.args]
            if len(arguments) in (1, 2):
                return Get(self.expression(function.value, bindings), arguments[0], (*arguments, Const(None))[1])
        return self._known_call(node, bindings)

    def _known_call(self, node: ast.Call, bindings: dict[str, Any]) -> Const:
        """``timedelta(minutes=30)``: a constant at the start of the program."""
        if isinstance(node.func, ast.Name) and node.func.id not in bindings and self.lookup(node.func) is timedelta:
            arguments = [self.expression(one, bindings) for one in node.args]
            named = {one.arg or "": self.expression(one.value, bindings) for one in node.keywords}
            values = [one.value for one in arguments if isinstance(one, Const)]
            options = {name: one.value for name, one in named.items() if name and isinstance(one, Const)}
            if len(values) == len(arguments) and len(options) == len(node.keywords):
                return Const(timedelta(*values, **options))
        raise Unknown(f"a call of {ast.unparse(node.func)}", node)

    # -- names

    def lookup(self, node: ast.Name) -> Any:
        """The value of a free name."""
        if id(node) in self._taken and node.id in self._around:
            return self._around[node.id]
        raise Unknown(f"the name {node.id!r} is not known when the program starts", node)

    def shadowed(self, name: str, bindings: dict[str, Any]) -> bool:
        """True if a built-in name has another meaning."""
        return name in bindings or name in self._set or self._around.get(name) is not getattr(builtins, name)


class _FunctionReader(Reader):
    """Translates a function that computes its result from its parameters."""

    def __init__(self, function: Any, source: Source | LambdaSource, calls: Calls) -> None:
        super().__init__(function, source)
        self._calls = calls
        self._changed: set[str] = set()
        # A position sets one value; branches may set it again.
        self._values: dict[str, Expression] = {}

    def function(self) -> Function:
        parameters, definition = self.definition.args, self.definition
        names = parameters_of(definition)
        if parameters.vararg or parameters.kwarg or parameters.kwonlyargs or parameters.defaults or self.is_bound:
            raise Unknown("it has other parameters than positional ones without defaults", definition)
        if isinstance(definition, ast.AsyncFunctionDef):
            raise Unknown("it is an async def", definition)
        bindings: dict[str, Any] = {name: Argument(name) for name in names}
        if isinstance(definition, ast.Lambda):
            result = self.expression(definition.body, bindings)
        else:
            result = self._returned(definition.body, bindings)
        return Function(tuple(names), result, frozenset(self._changed))

    def call(self, node: ast.Call, bindings: dict[str, Any]) -> Expression:
        """A call, also of an adapter's functions."""
        parsing = self._calls(node, lambda one: self._stands_for(one, bindings))
        if parsing is None:
            return super().call(node, bindings)
        name, arguments = parsing
        return Call(name, tuple(self.expression(one, bindings) for one in arguments))

    def _stands_for(self, node: ast.expr, bindings: dict[str, Any]) -> Any:
        """The value of a name, or of an attribute of a module or a class; ``None`` if it is unknown."""
        match node:
            case ast.Name(id=name) if name not in bindings and name not in self._set:
                return self._around.get(name) if id(node) in self._taken else None
            case ast.Attribute(value=of, attr=name):
                holder = self._stands_for(of, bindings)
                return getattr(holder, name, None) if isinstance(holder, (ModuleType, type)) else None
        return None

    def _returned(self, nodes: list[ast.stmt], bindings: dict[str, Any]) -> Expression:
        """The result of statements; assignments are computed even if nothing uses them."""
        for i, node in enumerate(nodes):
            rest = nodes[i + 1 :]
            match node:
                case ast.Return(value=value):
                    return Const(None) if value is None else self.expression(value, bindings)
                case ast.If(test=test, body=body, orelse=orelse):
                    self._another_way(node)
                    ways = [self._returned([*way, *rest], dict(bindings)) for way in (body, orelse)]
                    return Operation("if", (self.expression(test, bindings), *ways))
                case (
                    ast.Assign(targets=[target], value=value) | ast.AnnAssign(target=target, value=ast.expr() as value)
                ):
                    return self._where(target, self.expression(value, bindings), rest, bindings, node)
                case ast.AugAssign(target=target, op=sign, value=value) if type(sign) in SIGN_OF:
                    operands = (self.expression(target, bindings), self.expression(value, bindings))
                    return self._where(target, Operation(f"{SIGN_OF[type(sign)]}=", operands), rest, bindings, node)
                case _ if says_nothing(node):
                    continue
            raise self.no_statement(node)
        return Const(None)

    def _where(
        self, target: ast.expr, value: Expression, rest: list[ast.stmt], bindings: dict[str, Any], node: ast.stmt
    ) -> Expression:
        match target:
            case ast.Name(id=name):
                if isinstance(value, (Const, Argument)):
                    return self._returned(rest, {**bindings, name: value})
                return self._where_set(name, value, rest, bindings, node)
            case ast.Subscript(value=ast.Name(id=name), slice=key) if name in bindings:
                whose = self._whose(bindings[name])
                others = [value, *(expression for other, expression in bindings.items() if other != name)]
                if whose is None or any(self._holds(expression, whose) for expression in others):
                    raise Unknown(f"something other than a parameter is changed: {ast.unparse(target)}", node)
                self._changed.add(whose)
                replaced = Replaced(bindings[name], self.expression(key, bindings), value)
                return self._where_set(name, replaced, rest, bindings, node)
        raise self.no_statement(node)

    def _where_set(
        self, name: str, value: Expression, rest: list[ast.stmt], bindings: dict[str, Any], node: ast.stmt
    ) -> Expression:
        fresh = f"{name}@{node.lineno}.{node.col_offset}"
        self._values[fresh] = value
        return Where(fresh, value, self._returned(rest, {**bindings, name: Local(fresh)}))

    def _whose(self, of: Expression) -> str | None:
        """The parameter whose dict or list an expression is, after changes."""
        while isinstance(of, (Replaced, Local)):
            of = self._values[of.name] if isinstance(of, Local) else of.of
        return of.name if isinstance(of, Argument) else None

    def _holds(self, of: Expression, parameter: str) -> bool:
        """True if a parameter's value may be an expression's value, or within it."""
        match of:
            case Argument(name=name):
                return name == parameter
            case Local(name=name):
                return self._holds(self._values[name], parameter)
            case Const() | Text() | Call(name="len" | "int" | "float" | "str" | "bool"):
                return False
            case Operation(sign=sign) if sign not in ("if", "and", "or"):
                # Arithmetic of lists contains their elements, not the lists.
                return sign in ("+", "+=", "*", "*=") and any(self._holds_within(one, parameter) for one in of.operands)
            case Item(of=container) | Field(of=container):
                return self._holds_within(container, parameter)
        return any(self._holds(part, parameter) for part in parts_of(of))

    def _holds_within(self, of: Expression, parameter: str) -> bool:
        """True if it may be within an expression's value: no object contains itself."""
        return self._whose(of) != parameter and self._holds(of, parameter)


Calls = Callable[[ast.Call, Callable[[ast.expr], Any]], tuple[str, list[ast.expr]] | None]
"""Translates a call of an adapter's function to its name and arguments; ``None`` for other calls."""


def read(function: Any, calls: Calls = lambda node, stands_for: None) -> Function:
    """The translation of a lambda or a function with ``def``; raises :class:`Unknown` for any other.

    ``calls``: functions that may be called in addition to those of ``CALLS``.
    """
    source = source_of(function) or lambda_source_of(function)
    if source is None:
        raise Unknown(
            "its source code is not available", getattr(getattr(function, "__code__", None), "co_firstlineno", 1)
        )
    return _FunctionReader(function, source, calls).function()


def parts_of(of: Expression) -> Iterator[Expression]:
    """The subexpressions of an expression."""
    for field in fields(of):  # type: ignore[arg-type]
        part = getattr(of, field.name)
        for one in part if isinstance(part, tuple) else (part,):
            if isinstance(one, Expression):
                yield one


def says_nothing(node: ast.stmt) -> bool:
    """A docstring, ``...`` or ``pass``."""
    return isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


def _has_star(nodes: list[ast.expr]) -> bool:
    return any(isinstance(one, ast.Starred) for one in nodes)
