"""The use of parameters by a function, and of ``self`` by a method: the lines that read a parameter or change self.

::

    def process(self, batch, state):
        self._win.update(batch, state)         passes state on, to a function that never reads it
        self.helper(batch, state)              is analysed
        print(state["n"])                      reads it: this line
        self.seen.append(batch)                changes self.seen

"It never reads it" is only returned if that is certain: a function that cannot be analysed reads all its parameters.
"""

from __future__ import annotations

import ast
import dis
import inspect
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import CodeType, FunctionType, MethodType
from typing import Any, Final, TypeAlias, final

from mullion._pyfunction.functions import plain, source_of

NOT_PLAIN: Final = "it is not a plain function, and is not looked into"

Handed: TypeAlias = Callable[[ast.Call], Sequence[ast.expr] | None]
"""The arguments that a call certainly does not read; ``None`` for a call that must be analysed."""


@final
@dataclass(frozen=True, slots=True)
class Place:
    """A line of the user's code, and its finding."""

    file: str
    line: int
    says: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.says}"


def reads(function: Callable[..., Any], position: int, handed: Handed) -> Place | None:
    """The line in which a function reads its parameter at ``position``; ``None`` if it certainly never does.

    The calls in ``handed`` read nothing. A method of ``self`` or of ``super()`` that receives it is analysed as well. A
    function that cannot be analysed reads it.
    """
    return _reads(function, position, getattr(function, "__self__", None), frozenset(), handed)


def _reads(
    function: Callable[..., Any], parameter: int | str, instance: object, within: frozenset[Any], handed: Handed
) -> Place | None:
    """The same for a parameter at a position, or by name."""
    plain_function = plain(function)
    if plain_function is None or (within and hasattr(plain_function, "__wrapped__")):
        return Place(name_of(function), 0, NOT_PLAIN)
    if (plain_function, parameter) in within:
        # A recursive call: the function is already being analysed.
        return None
    positional = own_parameters_of(function)[: plain_function.__code__.co_argcount - inspect.ismethod(function)]
    named = (
        positional[parameter : parameter + 1]
        if isinstance(parameter, int)
        else [one for one in own_parameters_of(function) if one == parameter]
    )
    if not named:
        return Place(*where_is(plain_function), "it takes *args, and is not looked into")
    (name,) = named
    tree = tree_of(plain_function)
    if tree is None:
        return _reads_in_code(plain_function.__code__, name)
    return _reads_in_source(plain_function, tree, name, instance, within | {(plain_function, parameter)}, handed)


def _reads_in_source(
    plain_function: Any, tree: ast.FunctionDef, name: str, instance: object, within: frozenset[Any], handed: Handed
) -> Place | None:
    unread: set[int] = set()
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call):
            continue
        surely = handed(call)
        if surely is not None:
            unread |= {id(each) for each in surely}
            continue
        method = _method_called(call, plain_function, instance)
        if method is None or any(isinstance(each, ast.Starred) for each in call.args):
            continue
        arguments: list[tuple[int | str, ast.expr]] = [*enumerate(call.args)]
        arguments += [(each.arg, each.value) for each in call.keywords if each.arg is not None]
        for at, value in arguments:
            if isinstance(value, ast.Name) and value.id == name:
                place = _reads(MethodType(method, instance), at, instance, within, handed)
                if place is not None:
                    return place
                unread.add(id(value))
    for each in ast.walk(tree):
        if isinstance(each, ast.Name) and each.id == name and id(each) not in unread:
            return Place(plain_function.__code__.co_filename, each.lineno, f"reads {name}")
    return None


def _method_called(call: ast.Call, plain_function: Any, instance: object) -> Any:
    """The function behind ``self.method(...)`` or ``super().method(...)``; ``None`` if it is uncertain."""
    parameters = own_parameters_of(plain_function)
    if instance is None or not isinstance(call.func, ast.Attribute) or not parameters:
        return None
    kinds: Sequence[type] = type(instance).__mro__
    match call.func.value:
        case ast.Name(id=owner) if owner == parameters[0] and call.func.attr not in getattr(instance, "__dict__", {}):
            pass
        case ast.Call(func=ast.Name(id="super"), args=[], keywords=[]) if (
            "__class__" in plain_function.__code__.co_freevars
        ):
            cell = plain_function.__closure__[plain_function.__code__.co_freevars.index("__class__")]
            if cell.cell_contents not in kinds:
                return None
            kinds = kinds[kinds.index(cell.cell_contents) + 1 :]
        case _:
            return None
    method = next((vars(kind)[call.func.attr] for kind in kinds if call.func.attr in vars(kind)), None)
    return method if isinstance(method, FunctionType) and not hasattr(method, "__wrapped__") else None


_CHANGING: Final = frozenset(
    {
        *("add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popleft", "popitem"),
        *("remove", "setdefault", "sort", "update"),
    }
)
"""Methods that change a list, a dict, a set or a deque."""


def changes(function: Callable[..., Any], *, makes_windows: bool = False) -> list[Place]:
    """The lines in which a method sets an attribute of ``self``, or changes its content.

    ``self`` of ``process`` and of the callbacks is a copy, which lives for a batch. With ``makes_windows`` the new
    value of an attribute is a window, which ``on_recover`` creates again.
    """
    plain_function = plain(function)
    tree = None if plain_function is None or getattr(function, "__self__", None) is None else tree_of(plain_function)
    if plain_function is None or tree is None:
        return []
    myself = next(iter(own_parameters_of(plain_function)), "")
    changed = []
    for node in ast.walk(tree):
        name = next(_changed(node, myself, function.__self__, makes_windows=makes_windows), None)  # type: ignore[attr-defined]
        if name is not None:
            assert isinstance(node, (ast.stmt, ast.expr))
            changed.append(Place(plain_function.__code__.co_filename, node.lineno, f"self.{name}"))
    return sorted(changed, key=lambda place: place.line)


def _changed(node: ast.AST, myself: str, instance: object, *, makes_windows: bool) -> Iterator[str]:
    targets: list[ast.expr] = []
    match node:
        case ast.Assign(targets=several):
            targets = several
        case ast.AugAssign(target=one) | ast.AnnAssign(target=one, value=ast.expr()):
            targets = [one]
        case ast.Call(func=ast.Attribute(value=ast.Attribute(value=ast.Name(id=owner), attr=name), attr=method)):
            attribute = attribute_of(instance, name)
            plain = isinstance(attribute, (list, dict, set, deque))
            if owner == myself and method in _CHANGING and plain and not makes_windows:
                yield name
    for target in targets:
        for each in ast.walk(target):
            match each:
                case ast.Attribute(value=ast.Name(id=owner), attr=name) if owner == myself:
                    if not makes_windows or isinstance(node, ast.AugAssign):
                        yield name


def attribute_of(instance: object, name: str) -> Any:
    """The constant value of an attribute; ``None`` if code computes it."""
    if type(instance).__getattribute__ is not object.__getattribute__:
        return None
    return inspect.getattr_static(instance, name, None)


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


def tree_of(plain_function: Any) -> ast.FunctionDef | None:
    """The syntax tree of a function that is written with ``def`` and has its source."""
    source = source_of(plain_function)
    tree = None if source is None else source.definition
    return tree if isinstance(tree, ast.FunctionDef) else None


def own_parameters_of(function: Callable[..., Any]) -> list[str]:
    """The named parameters of a function itself, not those of the one in ``__wrapped__``."""
    plain_function = plain(function)
    assert plain_function is not None
    code = plain_function.__code__
    names = list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    return names[1:] if inspect.ismethod(function) else names


def where_is(plain_function: Any) -> tuple[str, int]:
    return plain_function.__code__.co_filename, plain_function.__code__.co_firstlineno


def place_of(function: Callable[..., Any]) -> str:
    """The ``file:line`` of a function; for other callables, the name."""
    plain_function = plain(function)
    return name_of(function) if plain_function is None else ":".join(map(str, where_is(plain_function)))


def name_of(function: Callable[..., Any]) -> str:
    """The name of a function in messages."""
    named = str(getattr(function, "__qualname__", type(function).__qualname__))
    return named.rsplit("<locals>.", 1)[-1]
