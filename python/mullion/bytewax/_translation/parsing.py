"""Recognizes parsing functions that the JVM implements: ``json.loads`` of an item, and times from text and numbers.

::

    lambda line: json.loads(line)["n"]                     json, then the item ["n"]
    datetime.fromisoformat(row["at"])                      isoformat
    datetime.fromisoformat(row["at"]).replace(tzinfo=UTC)  isoformat utc
    datetime.fromtimestamp(row["at"], UTC)                 timestamp
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any, Final

from mullion._pyfunction.reader import parts_of
from mullion._pyfunction.syntax import Argument, Call, Expression, Function, Local, Where

JSON: Final = "json"


def known_call(node: ast.Call, stands_for: Callable[[ast.expr], Any]) -> tuple[str, list[ast.expr]] | None:
    """The name of a parsing function and its arguments; ``None`` for any other call."""
    named = {one.arg: one.value for one in node.keywords}
    called = stands_for(node.func)
    if called == json.loads and len(node.args) == 1 and not named:
        return JSON, node.args
    if called == datetime.fromisoformat and len(node.args) == 1 and not named:
        return "isoformat", node.args
    if called == datetime.fromtimestamp and len(node.args) + len(named) == 2:
        zone = node.args[1] if len(node.args) == 2 else named.get("tz")
        if zone is not None and node.args and stands_for(zone) is UTC:
            return "timestamp", node.args[:1]
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Call() as inner, attr=("replace" | "astimezone") as method)):
            parsing = known_call(inner, stands_for)
            zone = named.get("tzinfo") if method == "replace" else (node.args[0] if node.args else named.get("tz"))
            if parsing is None or parsing[0] != "isoformat" or zone is None or stands_for(zone) is not UTC:
                return None
            if len(node.args) + len(named) == 1:
                return ("isoformat utc" if method == "replace" else "isoformat"), parsing[1]
    return None


def is_json(function: Any) -> bool:
    return function is json.loads


def behind_json(function: Function) -> Function | None:
    """The function of the parsed item, if it uses its parameter only as the argument of ``json.loads``."""
    if len(function.parameters) != 1:
        return None
    item = Argument(function.parameters[0])
    result = _replaced(function.result, Call(JSON, (item,)), _HELD)
    if result == function.result or _has(result, item):
        return None
    return replace(function, result=_replaced(_without_names(result), _HELD, item))


_HELD: Final = Local("json@")
"""A placeholder for the parsed item."""


def _has(of: Expression, wanted: Expression) -> bool:
    return of == wanted or any(_has(part, wanted) for part in parts_of(of))


def _without_names(of: Expression) -> Expression:
    """Removes variables that are bound to the parsed item, as in ``row = json.loads(line)``."""
    while isinstance(of, Where) and of.value == _HELD:
        of = _replaced(of.of, Local(of.name), _HELD)
    return of


def _replaced(of: Expression, old: Expression, new: Expression) -> Expression:
    if of == old:
        return new
    parts: dict[str, Any] = {}
    for field in fields(of):  # type: ignore[arg-type]
        part = getattr(of, field.name)
        if isinstance(part, Expression):
            parts[field.name] = _replaced(part, old, new)
        elif isinstance(part, tuple):
            parts[field.name] = tuple(_replaced(one, old, new) if isinstance(one, Expression) else one for one in part)
    return replace(of, **parts) if parts else of  # type: ignore[type-var]
