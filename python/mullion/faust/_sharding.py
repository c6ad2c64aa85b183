"""By what an agent's events must be in shards, so that all of a table's key are in one.

``table[withdrawal.country]`` needs the events of a country in one shard. An agent that says nothing is sharded by the
key of its tables, where all have one; where they do not, or the stream is grouped by another, totals would come in
pieces, and the program is refused when it starts.
"""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from collections.abc import Callable, Iterable, Mapping
from types import FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple, final

from mullion.errors import InvalidArgumentError
from mullion.faust._program import Program
from mullion.faust.agents import Agent, Channel
from mullion.faust.models import FieldDescriptor
from mullion.faust.streams import GroupBy
from mullion.faust.tables import Table
from mullion.faust.windowed_tables import WindowedTable


@final
class Keyed(NamedTuple):
    """A table's key, as the code has it with its variables put in, and the line."""

    table: str
    key: str
    where: str


def keys_of(agent: Agent) -> list[Keyed]:
    """The keys by which an agent's body uses tables, as far as its code shows; the event is ``_``."""
    function = agent.function
    try:
        source, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(source)))
    except (OSError, TypeError, SyntaxError):
        return []
    ast.increment_lineno(tree, first - 1)
    named = _known_in(function)
    once: dict[str, ast.expr] = {}
    times: dict[str, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            times[node.id] = times.get(node.id, 0) + 1
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            once[node.targets[0].id] = node.value
        if isinstance(node, ast.AsyncFor) and isinstance(node.target, ast.Name):
            once[node.target.id] = ast.Name("_", ast.Load())
    variables = {name: value for name, value in once.items() if times.get(name) == 1}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            table = named.get(node.value.id)
            if isinstance(table, (Table, WindowedTable)):
                key = ast.unparse(_Put(variables).visit(ast.parse(ast.unparse(node.slice), mode="eval")))
                found.append(Keyed(table.name, key, f"{function.__code__.co_filename}:{node.lineno}"))
    return sorted(set(found), key=lambda one: (one.where, one))


def hidden(agent: Agent) -> str | None:
    """Where a body may use a table by a key that its code does not show; ``None`` where all keys are shown.

    That is a table that is not used as ``table[key]`` or gone through, and anything that leads to a table: a function
    that uses one, a list of them.
    """
    function = agent.function
    try:
        source, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(source)))
    except (OSError, TypeError, SyntaxError):
        return "its source, which is not to be found"
    ast.increment_lineno(tree, first - 1)
    named = _known_in(function)
    shown = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Subscript)}
    shown |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr in _WHOLE}
    # Not decorators and defaults, which are done with when the program runs.
    for node in (one for part in getattr(tree.body[0], "body", [tree]) for one in ast.walk(part)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in named:
            value = named[node.id]
            direct = isinstance(value, (Table, WindowedTable))
            if _leads_to_table(value, 4) and not (direct and id(node) in shown):
                return f"{node.id!r} at {function.__code__.co_filename}:{node.lineno}"
    return None


def reached(agent: Agent) -> set[str] | None:
    """The names of the tables that an agent may use, itself or through what it names; ``None``: unknown."""
    found: set[str] = set()
    for function in (agent.function, *(sink for sink in agent.sinks if not isinstance(sink, (Agent, Channel)))):
        try:
            known = _known_in(function)
        except TypeError:
            return None
        for value in known.values():
            found |= _tables_in(value, 4)
    return found


def _known_in(function: Callable[..., Any]) -> dict[str, Any]:
    """What the names in a function stand for: of its module, of functions around it, and defaults of its own."""
    scope = inspect.getclosurevars(function)
    given = {
        name: one.default
        for name, one in inspect.signature(function).parameters.items()
        if one.default is not inspect.Parameter.empty
    }
    return {**scope.globals, **scope.nonlocals, **given}


_WHOLE = frozenset({"items", "keys", "values", "expire_windows", "name", "window"})


def _leads_to_table(value: Any, depth: int) -> bool:
    return bool(_tables_in(value, depth))


def _tables_in(value: Any, depth: int) -> set[str]:
    """The names of the tables that a value is or leads to, by so many steps."""
    if isinstance(value, (Table, WindowedTable)):
        return {value.name}
    if depth == 0 or isinstance(value, (type, ModuleType, Agent, Channel, Program)):
        return set()
    within: Iterable[Any] = ()
    if isinstance(value, FunctionType):
        within = _known_in(value).values()
    elif isinstance(value, MethodType):
        within = [value.__self__, value.__func__]
    elif isinstance(value, functools.partial):
        within = [value.func, *value.args, *value.keywords.values()]
    elif isinstance(value, Mapping):
        within = list(value.values())
    elif isinstance(value, (list, tuple, set, frozenset)):
        within = value
    elif hasattr(value, "__dict__"):
        within = list(vars(value).values())
    return set().union(*(_tables_in(one, depth - 1) for one in within))


class _Put(ast.NodeTransformer):
    """Puts what variables were set to in their place."""

    def __init__(self, variables: dict[str, ast.expr]) -> None:
        self._variables = variables

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """A variable, or the name as it is."""
        value = self._variables.get(node.id)
        if value is None:
            return node
        left = {name: one for name, one in self._variables.items() if name != node.id}
        put: ast.expr = _Put(left).visit(ast.parse(ast.unparse(value), mode="eval").body)
        return put


def check(agent: Agent, group: GroupBy | None) -> None:
    """Refuses an agent whose tables have other keys than its stream, or keys that differ.

    Raises :class:`InvalidArgumentError` with each table, its key and the line, and the agents to write in its place.
    """
    keys = keys_of(agent)
    shown = ", ".join(f"{one.table}[{_named(one.key)}] ({one.where})" for one in keys)
    if group is not None:
        field = group.key.field if isinstance(group.key, FieldDescriptor) else group.key
        if not isinstance(field, str):
            return
        wrong = [one for one in keys if one.key not in (f"_.{field}", f"_[{field!r}]")]
        if wrong:
            raise InvalidArgumentError(
                f"The agent {agent.name!r} goes through a stream grouped by {group}, and uses tables by another key: "
                f"{shown}. What is of one key would be in several shards. Write an agent for each key, that groups the "
                "stream by it."
            )
        return
    if len({one.key for one in keys}) > 1:
        raise InvalidArgumentError(
            f"The agent {agent.name!r} uses tables by different keys: {shown}. Its events can only be in shards by "
            "one of them, and the totals of the others would come in pieces. Write an agent for each key, that goes "
            "through stream.group_by(...) of it."
        )


def _named(key: str) -> str:
    return key.replace("_.", "event.").replace("_[", "event[") if key != "_" else "event"
