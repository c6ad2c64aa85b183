"""What ``process`` and the callbacks do, read from their code: so that what only updates windows never runs in Python.

    def process(self, batch, state):        ->  JVM: the rows of the topic go to the window, and Python is not asked
        self._win.update(batch, state)
        return None

Anything else in ``process``, be it a filter, a print or a second batch, runs it in Python over Arrow batches, and the
line that decided so is told. Whether a function reads its ``state`` is read from its compiled code, which lambdas have
too.
"""

from __future__ import annotations

import ast
import dis
import inspect
import linecache
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from types import CodeType, FunctionType, MethodType
from typing import Any, Final, final

from mullion._code.functions import called as called_by
from mullion._code.functions import plain, source_of
from mullion.errors import InvalidArgumentError, UnsupportedError
from mullion.turbine import windowing
from mullion.turbine.windowing import TurbineWindow, called


@final
@dataclass(frozen=True, slots=True)
class Place:
    """A line of the user's code, and what about it."""

    file: str
    line: int
    says: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.says}"


@final
@dataclass(frozen=True, slots=True)
class Process:
    """What ``process`` does.

    - ``updates``: the names of the windows that get the topic's rows as they are; of one that runs in Python, none.
    - ``python``: the line that has it run in Python; ``None`` when it does not.
    - ``state``: the line that reads ``state``; ``None`` when none does.
    - ``returns``: whether it may return something to publish.
    """

    updates: tuple[str, ...]
    python: Place | None
    state: Place | None
    returns: bool


def read(instance: object, function: Callable[..., Any], windows: Collection[TurbineWindow] | None = None) -> Process:
    """What ``process`` of a subscription does; ``function`` is its bound method, ``windows`` are its own.

    Raises :class:`UnsupportedError` for one that makes windows and cannot make them again, and for one that updates a
    window of another subscription.
    """
    whole = plain(function)
    if whole is None:
        somewhere = Place(called(function), 0, "it is no plain method, and is not looked into")
        return Process((), somewhere, somewhere, True)
    parameters = _parameters(function)
    recovers = recovery_of(instance)
    # Windows that are made from data are kept with the state.
    state = reads(function, 1) if recovers is None else Place(*_where(recovers), "on_recover makes windows again")
    tree = _tree(whole)
    for call in ast.walk(tree) if tree is not None and recovers is None else ():
        if isinstance(call, ast.Call) and called_by(call) in windowing.__all__[:-1]:
            raise UnsupportedError(
                f"process of {type(instance).__name__} makes a window, {called_by(call)}(...) "
                f"({whole.__code__.co_filename}:{call.lineno}), and nothing would make it again after a "
                "restart. Write def on_recover(self, name, spec), which returns spec.window(self, on_close_each=...), "
                "or make the window in __init__."
            )
    if windows is not None:
        _require_own(instance, whole, tree, windows)
    if recovers is not None:
        return Process((), Place(*_where(whole), "it may make windows"), state, _returns(tree))
    if tree is None:
        return Process((), Place(*_where(whole), "its source cannot be read"), state, True)
    myself = next(iter(_parameters(whole)), "")
    updates: list[str] = []
    for statement in tree.body:
        window = _updated(statement, myself, parameters, instance)
        if window is not None and window not in updates:
            updates.append(window)
        elif window is not None:
            decided = f"the window {window!r} is updated a second time"
            return _in_python(whole, statement, decided, state, tree)
        elif isinstance(statement, ast.Return) and _is_none(statement.value):
            break
        elif not _says_nothing(statement):
            text = linecache.getline(whole.__code__.co_filename, statement.lineno).split("  #")[0].strip()
            return _in_python(whole, statement, text or ast.unparse(statement), state, tree)
    return Process(tuple(updates), None, None, False)


def reads(function: Callable[..., Any], position: int) -> Place | None:
    """The line in which a function reads its parameter at ``position``; ``None`` if it surely never does.

    Handing ``state`` on to ``update`` of a window reads nothing. A method of ``self`` or of ``super()`` that it is
    handed on to is looked into as well. What cannot be looked into reads it.
    """
    return _reads(function, position, getattr(function, "__self__", None), frozenset())


def _reads(function: Callable[..., Any], given: int | str, instance: object, within: frozenset[Any]) -> Place | None:
    """The same of what is given at a position, or by a name."""
    whole = plain(function)
    if whole is None or (within and hasattr(whole, "__wrapped__")):
        return Place(called(function), 0, "it is no plain function, and is not looked into")
    if (whole, given) in within:
        # It calls itself: what else it does is being looked at.
        return None
    positional = _parameters(function)[: whole.__code__.co_argcount - inspect.ismethod(function)]
    named = (
        positional[given : given + 1]
        if isinstance(given, int)
        else [one for one in _parameters(function) if one == given]
    )
    if not named:
        return Place(*_where(whole), "it takes *args, and is not looked into")
    (name,) = named
    tree = _tree(whole)
    if tree is None:
        return _reads_in_code(whole.__code__, name)
    return _reads_in_source(whole, tree, name, instance, within | {(whole, given)})


def _reads_in_source(
    whole: Any, tree: ast.FunctionDef, name: str, instance: object, within: frozenset[Any]
) -> Place | None:
    handed: set[int] = set()
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call):
            continue
        if _is_update(call):
            handed |= {id(each) for each in _state_given(call)}
            continue
        method = _method_called(call, whole, instance)
        if method is None or any(isinstance(each, ast.Starred) for each in call.args):
            continue
        given: list[tuple[int | str, ast.expr]] = [*enumerate(call.args)]
        given += [(each.arg, each.value) for each in call.keywords if each.arg is not None]
        for at, value in given:
            if isinstance(value, ast.Name) and value.id == name:
                place = _reads(MethodType(method, instance), at, instance, within)
                if place is not None:
                    return place
                handed.add(id(value))
    for each in ast.walk(tree):
        if isinstance(each, ast.Name) and each.id == name and id(each) not in handed:
            return Place(whole.__code__.co_filename, each.lineno, f"reads {name}")
    return None


def _method_called(call: ast.Call, whole: Any, instance: object) -> Any:
    """The function behind ``self.method(...)`` or ``super().method(...)``; ``None`` where it is not surely known."""
    parameters = _parameters(whole)
    if instance is None or not isinstance(call.func, ast.Attribute) or not parameters:
        return None
    kinds: Sequence[type] = type(instance).__mro__
    match call.func.value:
        case ast.Name(id=owner) if owner == parameters[0] and call.func.attr not in getattr(instance, "__dict__", {}):
            pass
        case ast.Call(func=ast.Name(id="super"), args=[], keywords=[]) if "__class__" in whole.__code__.co_freevars:
            cell = whole.__closure__[whole.__code__.co_freevars.index("__class__")]
            if cell.cell_contents not in kinds:
                return None
            kinds = kinds[kinds.index(cell.cell_contents) + 1 :]
        case _:
            return None
    found = next((vars(kind)[call.func.attr] for kind in kinds if call.func.attr in vars(kind)), None)
    return found if isinstance(found, FunctionType) and not hasattr(found, "__wrapped__") else None


_CHANGING: Final = frozenset(
    {
        *("add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popleft", "popitem"),
        *("remove", "setdefault", "sort", "update"),
    }
)
"""Methods that change a list, a dict, a set or a deque."""


def changes(function: Callable[..., Any], *, makes_windows: bool = False) -> list[Place]:
    """The lines in which a method sets an attribute of ``self``, or changes what is in one.

    ``self`` of ``process`` and of the callbacks is a copy, which lives for a batch. With ``makes_windows`` what is put
    into an attribute is a window, which ``on_recover`` puts there again.
    """
    whole = plain(function)
    tree = None if whole is None or getattr(function, "__self__", None) is None else _tree(whole)
    if whole is None or tree is None:
        return []
    myself = next(iter(_parameters(whole)), "")
    found = []
    for node in ast.walk(tree):
        name = next(_changed(node, myself, function.__self__, makes_windows=makes_windows), None)  # type: ignore[attr-defined]
        if name is not None:
            assert isinstance(node, (ast.stmt, ast.expr))
            found.append(Place(whole.__code__.co_filename, node.lineno, f"self.{name}"))
    return sorted(found, key=lambda place: place.line)


def _changed(node: ast.AST, myself: str, instance: object, *, makes_windows: bool) -> Iterator[str]:
    targets: list[ast.expr] = []
    match node:
        case ast.Assign(targets=several):
            targets = several
        case ast.AugAssign(target=one) | ast.AnnAssign(target=one, value=ast.expr()):
            targets = [one]
        case ast.Call(func=ast.Attribute(value=ast.Attribute(value=ast.Name(id=owner), attr=name), attr=method)):
            held = _attribute(instance, name)
            plain = isinstance(held, (list, dict, set, deque))
            if owner == myself and method in _CHANGING and plain and not makes_windows:
                yield name
    for target in targets:
        for each in ast.walk(target):
            match each:
                case ast.Attribute(value=ast.Name(id=owner), attr=name) if owner == myself:
                    if not makes_windows or isinstance(node, ast.AugAssign):
                        yield name


def _reads_in_code(code: CodeType, name: str) -> Place | None:
    if name in code.co_cellvars:
        return Place(code.co_filename, code.co_firstlineno, f"reads {name}")
    for instruction in dis.get_instructions(code):
        names = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
        if instruction.opname.startswith("LOAD_FAST") and name in names:
            positions = instruction.positions
            line = positions.lineno if positions is not None and positions.lineno is not None else code.co_firstlineno
            return Place(code.co_filename, line, f"reads {name}")
    return None


def _tree(whole: Any) -> ast.FunctionDef | None:
    """The syntax tree of a function that is written with ``def`` and whose source is there."""
    source = source_of(whole)
    tree = None if source is None else source.definition
    return tree if isinstance(tree, ast.FunctionDef) else None


def _parameters(function: Callable[..., Any]) -> list[str]:
    """The parameters that a function itself has by name, not those of one that it says it wraps."""
    whole = plain(function)
    assert whole is not None
    code = whole.__code__
    names = list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    return names[1:] if inspect.ismethod(function) else names


def _is_update(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "update"


def _state_given(call: ast.Call) -> list[ast.expr]:
    return [*call.args[1:2], *(each.value for each in call.keywords if each.arg == "state")]


def require_process(instance: object) -> Callable[..., Any]:
    """The bound ``process`` of a subscription; an error that says what it has to be."""
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


def _in_python(whole: Any, statement: ast.stmt, text: str, state: Place | None, tree: ast.FunctionDef) -> Process:
    return Process((), Place(whole.__code__.co_filename, statement.lineno, text), state, _returns(tree))


def _returns(tree: ast.FunctionDef | None) -> bool:
    return tree is None or any(
        isinstance(each, (ast.Yield, ast.YieldFrom)) or (isinstance(each, ast.Return) and not _is_none(each.value))
        for each in ast.walk(tree)
    )


def recovery_of(instance: object) -> Any:
    """The function behind ``on_recover`` of a subscription; ``None`` if it has none.

    Raises :class:`InvalidArgumentError` for one that cannot be called as it will be.
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


def _updated(statement: ast.stmt, myself: str, parameters: list[str], instance: object) -> str | None:
    """The window that a statement ``self.<window>.update(batch, state)`` is about."""
    match statement:
        case ast.Expr(
            ast.Call(func=ast.Attribute(value=ast.Attribute(value=ast.Name(id=owner), attr=attribute))) as call
        ) if owner == myself and _is_update(call):
            given = [*call.args, *(each.value for each in call.keywords)]
            if [each.id for each in given if isinstance(each, ast.Name)] == parameters[:2] and len(given) == 2:
                # A property may give another window each time that it is asked.
                window = _attribute(instance, attribute)
                if isinstance(window, TurbineWindow) and [each.arg for each in call.keywords] in ([], ["state"]):
                    return window.name
    return None


def _attribute(instance: object, name: str) -> Any:
    """What an attribute surely is, each time that it is asked for; ``None`` where code decides."""
    if type(instance).__getattribute__ is not object.__getattribute__:
        return None
    return inspect.getattr_static(instance, name, None)


def _require_own(
    instance: object, whole: Any, tree: ast.FunctionDef | None, windows: Collection[TurbineWindow]
) -> None:
    """Refuses what gives rows to a window of another subscription, which nothing would take them from."""
    myself = next(iter(_parameters(whole)), "")
    for call in ast.walk(tree) if tree is not None else ():
        match call:
            case ast.Call(func=ast.Attribute(value=ast.Attribute(value=ast.Name(id=owner), attr=attribute))):
                window = _attribute(instance, attribute) if owner == myself else None
                if _is_update(call) and isinstance(window, TurbineWindow) and not any(window is own for own in windows):
                    raise UnsupportedError(
                        f"{not_own(type(instance).__name__, window.name)} ({whole.__code__.co_filename}:{call.lineno})"
                    )


def not_own(subscription: str, window: str) -> str:
    """What is said of a ``process`` that updates a window of another subscription."""
    return (
        f"process of {subscription} updates the window {window!r}, which another subscription made: its rows would "
        "reach no query. Make the window in __init__ of the subscription that updates it; or publish the rows to a "
        "topic, and subscribe to that where the window is."
    )


def _is_none(value: ast.expr | None) -> bool:
    return value is None or (isinstance(value, ast.Constant) and value.value is None)


def _says_nothing(statement: ast.stmt) -> bool:
    """A docstring, ``...`` or ``pass``."""
    return isinstance(statement, ast.Pass) or (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    )


def _where(whole: Any) -> tuple[str, int]:
    return whole.__code__.co_filename, whole.__code__.co_firstlineno


def place_of(function: Callable[..., Any]) -> str:
    """Where a function is written: ``file:line``; for what is no plain function, its name."""
    whole = plain(function)
    return called(function) if whole is None else ":".join(map(str, _where(whole)))
