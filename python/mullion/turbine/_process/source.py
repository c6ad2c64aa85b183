"""Analyses the code of ``process`` and callbacks, so that a ``process`` that only updates windows skips Python.

    def process(self, batch, state):        ->  JVM: the rows of the topic go to the window, without Python
        self._win.update(batch, state)
        return None

Any other code in ``process``, such as a filter, a print or a second batch, makes it run in Python over Arrow batches;
``explain()`` names the line. Reads of ``state`` are found in the compiled code, which lambdas have too.
"""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, final

from mullion._pyfunction import methods
from mullion._pyfunction.functions import called as called_by
from mullion._pyfunction.functions import plain
from mullion._pyfunction.methods import Place, attribute_of, own_parameters_of, tree_of, where_is
from mullion._pyfunction.reader import says_nothing
from mullion.errors import InvalidArgumentError, UnsupportedError
from mullion.turbine import windowing
from mullion.turbine._spec import called
from mullion.turbine.windowing import TurbineWindow


@final
@dataclass(frozen=True, slots=True)
class Process:
    """The analysis of a ``process``.

    - ``updates``: the names of the windows that get the topic's rows unchanged; empty if it runs in Python.
    - ``python``: the line because of which it runs in Python; ``None`` if it does not.
    - ``state``: the line that reads ``state``; ``None`` if none does.
    - ``returns``: True if it may return batches to publish.
    """

    updates: tuple[str, ...]
    python: Place | None
    state: Place | None
    returns: bool


def read(instance: object, function: Callable[..., Any], windows: Collection[TurbineWindow] | None = None) -> Process:
    """Analyses the ``process`` of a subscription: ``function`` is its bound method, ``windows`` are its own.

    Raises :class:`UnsupportedError` if it makes windows and the subscription has no ``on_recover``, or if it updates a
    window of another subscription.
    """
    plain_function = plain(function)
    if plain_function is None:
        somewhere = Place(called(function), 0, "it is not a plain method, and is not looked into")
        return Process((), somewhere, somewhere, True)
    parameters = own_parameters_of(function)
    recovers = recovery_of(instance)
    # The state also contains the windows that are made from data.
    state = reads(function, 1) if recovers is None else Place(*where_is(recovers), "on_recover makes windows again")
    tree = tree_of(plain_function)
    for call in ast.walk(tree) if tree is not None and recovers is None else ():
        if isinstance(call, ast.Call) and called_by(call) in windowing.__all__[:-1]:
            raise UnsupportedError(
                f"process of {type(instance).__name__} makes a window, {called_by(call)}(...) "
                f"({plain_function.__code__.co_filename}:{call.lineno}), and nothing would make it again after a "
                "restart. Write def on_recover(self, name, spec), which returns spec.window(self, on_close_each=...), "
                "or make the window in __init__."
            )
    if windows is not None:
        _require_own(instance, plain_function, tree, windows)
    if recovers is not None:
        return Process((), Place(*where_is(plain_function), "it may make windows"), state, _returns(tree))
    if tree is None:
        return Process((), Place(*where_is(plain_function), "its source cannot be read"), state, True)
    myself = next(iter(own_parameters_of(plain_function)), "")
    updates: list[str] = []
    for statement in tree.body:
        window = _window_updated_by(statement, myself, parameters, instance)
        if window is not None and window not in updates:
            updates.append(window)
        elif window is not None:
            decided = f"the window {window!r} is updated a second time"
            return _in_python(plain_function, statement, decided, state, tree)
        elif isinstance(statement, ast.Return) and _is_none(statement.value):
            break
        elif not says_nothing(statement):
            text = linecache.getline(plain_function.__code__.co_filename, statement.lineno).split("  #")[0].strip()
            return _in_python(plain_function, statement, text or ast.unparse(statement), state, tree)
    return Process(tuple(updates), None, None, False)


def reads(function: Callable[..., Any], position: int) -> Place | None:
    """The line in which a function reads the state, its parameter at ``position``; ``None`` if it surely never does.

    Passing the state to ``update`` of a window does not read it.
    """
    if plain(function) is None:
        return Place(called(function), 0, methods.NOT_PLAIN)
    return methods.reads(function, position, lambda call: _state_given(call) if _is_update(call) else None)


def place_of(function: Callable[..., Any]) -> str:
    """The place of a function's code: ``file:line``; the name of a callable that is not a plain function."""
    return called(function) if plain(function) is None else methods.place_of(function)


def _is_update(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "update"


def _state_given(call: ast.Call) -> list[ast.expr]:
    return [*call.args[1:2], *(each.value for each in call.keywords if each.arg == "state")]


def require_process(instance: object) -> Callable[..., Any]:
    """The bound ``process`` of a subscription; raises an error that describes its signature if there is none."""
    function: Callable[..., Any] | None = getattr(instance, "process", None)
    kind = type(instance).__name__
    if function is None or not callable(function):
        raise InvalidArgumentError(
            f"The subscription {kind} has no process. Write def process(self, batch: RecordBatch, state: TurbineState) "
            "-> RecordBatch | None, which is called with each batch of the topic."
        )
    try:
        inspect.signature(function).bind(None, None)
    except TypeError:
        raise InvalidArgumentError(
            f"process of the subscription {kind} takes {inspect.signature(function)} and is called with (batch, "
            "state). Write def process(self, batch, state)."
        ) from None
    return function


def _in_python(
    plain_function: Any, statement: ast.stmt, text: str, state: Place | None, tree: ast.FunctionDef
) -> Process:
    return Process((), Place(plain_function.__code__.co_filename, statement.lineno, text), state, _returns(tree))


def _returns(tree: ast.FunctionDef | None) -> bool:
    return tree is None or any(
        isinstance(each, (ast.Yield, ast.YieldFrom)) or (isinstance(each, ast.Return) and not _is_none(each.value))
        for each in ast.walk(tree)
    )


def recovery_of(instance: object) -> Any:
    """The function behind ``on_recover`` of a subscription; ``None`` if it has none.

    Raises :class:`InvalidArgumentError` if it cannot be called with ``(name, spec)``.
    """
    function = getattr(instance, "on_recover", None)
    if function is None:
        return None
    try:
        inspect.signature(function).bind(None, None)
    except TypeError as error:
        raise InvalidArgumentError(
            f"on_recover of the subscription {type(instance).__name__} is called with (name, spec): {error}. Write def "
            "on_recover(self, name, spec), which returns the window made again, as in spec.window(self, "
            "on_close_each=self._emit)."
        ) from None
    return getattr(function, "__func__", function)


def _window_updated_by(statement: ast.stmt, myself: str, parameters: list[str], instance: object) -> str | None:
    """The window that a statement ``self.<window>.update(batch, state)`` updates."""
    match statement:
        case ast.Expr(
            ast.Call(func=ast.Attribute(value=ast.Attribute(value=ast.Name(id=owner), attr=attribute))) as call
        ) if owner == myself and _is_update(call):
            arguments = [*call.args, *(each.value for each in call.keywords)]
            if [each.id for each in arguments if isinstance(each, ast.Name)] == parameters[:2] and len(arguments) == 2:
                # A property may return another window on each access.
                window = attribute_of(instance, attribute)
                if isinstance(window, TurbineWindow) and [each.arg for each in call.keywords] in ([], ["state"]):
                    return window.name
    return None


def _require_own(
    instance: object, plain_function: Any, tree: ast.FunctionDef | None, windows: Collection[TurbineWindow]
) -> None:
    """Raises an error for updates of another subscription's window: no query would read its rows."""
    myself = next(iter(own_parameters_of(plain_function)), "")
    for call in ast.walk(tree) if tree is not None else ():
        match call:
            case ast.Call(func=ast.Attribute(value=ast.Attribute(value=ast.Name(id=owner), attr=attribute))):
                window = attribute_of(instance, attribute) if owner == myself else None
                if _is_update(call) and isinstance(window, TurbineWindow) and not any(window is own for own in windows):
                    place = f"{plain_function.__code__.co_filename}:{call.lineno}"
                    raise UnsupportedError(f"{not_own(type(instance).__name__, window.name)} ({place})")


def not_own(subscription: str, window: str) -> str:
    """The message for a ``process`` that updates a window of another subscription."""
    return (
        f"process of {subscription} updates the window {window!r}, which another subscription made: its rows would "
        "reach no query. Make the window in __init__ of the subscription that updates it; or publish the rows to a "
        "topic, and subscribe to that where the window is."
    )


def _is_none(value: ast.expr | None) -> bool:
    return value is None or (isinstance(value, ast.Constant) and value.value is None)
