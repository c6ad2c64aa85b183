"""The source of a function: its syntax tree, the values of its names, and the scope of each binding.

::

    def outer():
        limit = 3                                    a cell of inner
        def inner(event, scale=2):                   a parameter, a parameter with a default
            k = event["k"]                           a local
            return [n * LIMIT for n in event[k]]     n: of an inner scope; LIMIT: of the module

Always reads the called function, never the one in ``__wrapped__``: the lines of a decorator decide whether the wrapped
function runs at all.
"""

from __future__ import annotations
import __future__

import ast
import builtins
import dis
import functools
import inspect
import linecache
import operator
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any, Final, TypeAlias, final

Definition: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef

_SCOPES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_OF_CONSTANTS: Final = frozenset(
    ("RESUME", "NOP", "LOAD_CONST", "LOAD_SMALL_INT", "BINARY_OP", "UNARY_NEGATIVE", "RETURN_VALUE", "RETURN_CONST")
)


@final
@dataclass(frozen=True)
class Source:
    """The definition of a function with ``def``; lines are those of its ``file``."""

    definition: Definition
    file: str
    line: int

    def at(self, node: ast.AST) -> str:
        """A node's ``file:line``."""
        return f"{self.file}:{getattr(node, 'lineno', self.line)}"


@final
@dataclass(frozen=True)
class LambdaSource:
    """The definition of a lambda; lines are those of its ``file``."""

    definition: ast.Lambda
    file: str
    line: int


def plain(function: Any) -> FunctionType | None:
    """The function behind a function or bound method; ``None`` for any other callable."""
    plain_function = getattr(function, "__func__", function) if inspect.ismethod(function) else function
    return plain_function if isinstance(plain_function, FunctionType) else None


def source_of(function: Any) -> Source | None:
    """The source of a function; ``None`` for a lambda, for other objects, and if the source is not found."""
    plain_function = plain(function)
    if plain_function is None:
        return None
    code = plain_function.__code__
    try:
        lines, line = inspect.getsourcelines(code)
        # Within a block, so that no line must be dedented: that would change multi-line strings.
        nested = lines[0][:1].isspace()
        tree = ast.parse(("if 1:\n" if nested else "") + "".join(lines))
    except (OSError, TypeError, SyntaxError, IndexError):
        return None
    first = tree.body[0]
    definition = first.body[0] if nested and isinstance(first, ast.If) else first
    if not isinstance(definition, (ast.FunctionDef, ast.AsyncFunctionDef)) or definition.name != code.co_name:
        return None
    if parameters_of(definition) != list(code.co_varnames[: len(parameters_of(definition))]):
        return None
    ast.increment_lineno(definition, line - 1 - nested)
    return Source(definition, code.co_filename, line)


def lambda_source_of(function: Any) -> LambdaSource | None:
    """The source of a lambda; ``None`` for any other function, and if it is ambiguous.

    A file may have changed since its import, so it must compile to this very code; of several on a line it is the one
    at the code's position, or one that returns the same constant with the same parameters.
    """
    plain_function = plain(function)
    if plain_function is None or plain_function.__code__.co_name != "<lambda>":
        return None
    code = plain_function.__code__
    text = "".join(linecache.getlines(code.co_filename, plain_function.__globals__))
    tree, codes = _compiled(text, code.co_flags & _FUTURE)
    if tree is None or code not in codes:
        return None
    lambdas = [node for node in ast.walk(tree) if isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno]
    if len(lambdas) > 1:
        place = _span_of(code)
        if place is not None:
            lambdas = [node for node in lambdas if _span(node.body) == place]
        else:
            # All that return the same constant are equivalent.
            lambdas = [node for node in lambdas if _gives_constant_of(node, plain_function)][:1]
    if len(lambdas) != 1 or parameters_of(lambdas[0]) != list(code.co_varnames[: len(parameters_of(lambdas[0]))]):
        return None
    return LambdaSource(lambdas[0], code.co_filename, code.co_firstlineno)


_FUTURE: Final = functools.reduce(
    operator.or_, (getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
)


@functools.lru_cache(maxsize=32)
def _compiled(text: str, future: int) -> tuple[ast.Module | None, frozenset[CodeType]]:
    """A file's tree, and the code of all lambdas in it."""
    try:
        tree, module_code = ast.parse(text), compile(text, "<source>", "exec", future, dont_inherit=True)
    except (SyntaxError, ValueError):
        return None, frozenset()
    codes, waiting = [], [module_code]
    while waiting:
        code = waiting.pop()
        waiting += [const for const in code.co_consts if isinstance(const, CodeType)]
        codes += [code] if code.co_name == "<lambda>" else []
    return tree, frozenset(codes)


def _span(node: ast.expr) -> tuple[int | None, ...]:
    return node.lineno, node.end_lineno, node.col_offset, node.end_col_offset


def _span_of(code: CodeType) -> tuple[int | None, ...] | None:
    """The position of a lambda's returned value: all of its body."""
    places = {place for place in code.co_positions() if place[0] is not None and place[2] != place[3]}
    if any(None in place for place in places) or not places:
        return None
    start, end = (
        min((line, column) for line, _, column, _ in places),
        max((line, column) for _, line, _, column in places),
    )
    return start[0], end[0], start[1], end[1]


def _gives_constant_of(node: ast.Lambda, function: FunctionType) -> bool:
    """True if a function returning a constant certainly matches the source: Python 3.12 records no position."""
    code = function.__code__
    steps = list(dis.get_instructions(code))
    if [step.opname for step in steps] != ["RESUME", "RETURN_CONST"]:
        return False
    # Parameters of one kind, without defaults, and with the same names.
    names = [one.arg for one in node.args.args]
    if names != parameters_of(node) or names != list(code.co_varnames) or len(names) != code.co_argcount:
        return False
    if node.args.defaults or function.__defaults__:
        return False
    try:
        value = ast.literal_eval(node.body)
    except (ValueError, TypeError):
        return False
    # Distinguishes 0 from False, and 0.0 from -0.0.
    return repr(value) == repr(steps[-1].argval)


def parameters_of(definition: Definition | ast.Lambda) -> list[str]:
    """The names of all parameters, in the order of the code object."""
    arguments = definition.args
    more = [one for one in (arguments.vararg, arguments.kwarg) if one is not None]
    return [one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *more)]


def names_of(function: FunctionType) -> dict[str, Any]:
    """The values of a function's free names: from enclosing functions, its module, Python.

    Includes free names of functions within it. Unset names are omitted.
    """
    values: dict[str, Any] = {}
    for name in names_in(function.__code__):
        if name in function.__globals__:
            values[name] = function.__globals__[name]
        elif hasattr(builtins, name):
            values[name] = getattr(builtins, name)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            values[name] = cell.cell_contents
        except ValueError:
            values.pop(name, None)
    return values


def names_in(code: CodeType) -> set[str]:
    """The names that code, and code within it, looks up: globals and attributes."""
    names = set(code.co_names)
    for const in code.co_consts:
        if isinstance(const, CodeType):
            names |= names_in(const)
    return names


def defaults_of(function: FunctionType) -> dict[str, Any]:
    """Parameters with a default, and their values."""
    code, defaults = function.__code__, function.__defaults__ or ()
    positional = code.co_varnames[: code.co_argcount]
    return {
        **dict(zip(positional[len(positional) - len(defaults) :], defaults, strict=True)),
        **(function.__kwdefaults__ or {}),
    }


def constant_of(function: Any) -> tuple[Any] | None:
    """The constant that a function such as ``lambda: 0`` returns; ``None`` for another."""
    if not isinstance(function, FunctionType) or function.__code__.co_freevars or function.__code__.co_flags & _RUNS:
        return None
    if any(step.opname not in _OF_CONSTANTS for step in dis.get_instructions(function)):
        return None
    return None if function.__code__.co_argcount else (function(),)


_RUNS: Final = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def bound_in(node: ast.AST) -> set[str]:
    """The names that are bound anywhere within a node, in its own scope or one within it: set, deleted, imported."""
    return {name for one in ast.walk(node) for name in _bound_by(one)}


def _bound_by(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        yield node.id
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.alias):
        yield (node.asname or node.name).partition(".")[0]
    elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name is not None:
        yield node.name
    elif isinstance(node, ast.MatchMapping) and node.rest is not None:
        yield node.rest
    elif isinstance(node, (ast.Global, ast.Nonlocal)):
        yield from node.names


def taken(source: Source | LambdaSource) -> Iterator[ast.Name]:
    """The free names in a function's body, functions within it included, at their positions."""
    body = source.definition.body
    yield from _taken(body if isinstance(body, list) else [body], _own(source.definition))


def _own(node: ast.AST) -> set[str]:
    """The names that are bound in a scope itself, and not in those within it."""
    names: set[str] = set()
    parameters: set[str] = set()

    def visit(one: ast.AST, top: bool = False) -> None:
        if isinstance(one, (ast.Global, ast.Nonlocal)):
            parameters.update(one.names)
            return
        if not top:
            if not isinstance(one, ast.arg):
                names.update(_bound_by(one))
            if isinstance(one, (*_SCOPES, *_COMPREHENSIONS, ast.ClassDef)):
                # An assignment expression binds outside of a comprehension.
                for deep in ast.walk(one) if isinstance(one, _COMPREHENSIONS) else ():
                    if isinstance(deep, ast.NamedExpr):
                        names.add(deep.target.id)
                return
        for child in ast.iter_child_nodes(one):
            visit(child)

    if isinstance(node, (*_SCOPES, ast.ClassDef)):
        if isinstance(node, _SCOPES):
            names.update(parameters_of(node))
        for part in node.body if isinstance(node.body, list) else [node.body]:
            visit(part)
    else:
        visit(node, top=True)
    return names - parameters


def _taken(nodes: list[Any], bound: set[str]) -> Iterator[ast.Name]:
    for node in nodes:
        if isinstance(node, ast.Name):
            if node.id not in bound:
                yield node
        elif isinstance(node, (*_SCOPES, ast.ClassDef)):
            outside = [*getattr(node, "decorator_list", ())]
            if isinstance(node, _SCOPES):
                outside += [*node.args.defaults, *(one for one in node.args.kw_defaults if one is not None)]
            else:
                outside += [*node.bases, *(one.value for one in node.keywords)]
            yield from _taken(outside, bound)
            within = node.body if isinstance(node.body, list) else [node.body]
            yield from _taken(within, bound | _own(node))
        elif isinstance(node, _COMPREHENSIONS):
            yield from _taken(list(ast.iter_child_nodes(node)), bound | _own(node))
        else:
            yield from _taken(list(ast.iter_child_nodes(node)), bound)


def called(call: ast.Call) -> str:
    """The last part of a call's name."""
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


__all__ = [
    "Definition",
    "LambdaSource",
    "Source",
    "bound_in",
    "called",
    "constant_of",
    "defaults_of",
    "lambda_source_of",
    "names_in",
    "names_of",
    "parameters_of",
    "plain",
    "source_of",
    "taken",
]
