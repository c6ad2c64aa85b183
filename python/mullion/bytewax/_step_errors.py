"""Errors of a program's functions, with the step, the key, the function and its line."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import itertools
from collections.abc import Iterator
from functools import partial
from types import CodeType, FunctionType
from typing import Any

from mullion._util.user_code import failed_line, is_user_code, raised_at
from mullion.errors import FunctionError, MullionError


def step_error(step_id: str, does: Any, error: Exception, key: str | None = None) -> MullionError:
    """The error of a step, to raise from the error of its function. An error that names a step stays as it is.

    - ``does``: the functions of the step, by which the failed one is named.
    - ``key``: the key of the values, if the step has keys.
    """
    if isinstance(error, MullionError) and str(error).startswith("The step "):
        return error
    what = f"The step {step_id!r} failed" + ("" if key is None else f" for the key {key!r}")
    if isinstance(error, MullionError):
        return type(error)(f"{what}: {error}")
    return FunctionError(f"{what}: {_failed_function(does, error)} raised {raised_at(error)}")


class KeyErrors:
    """Names the step and the key in errors of the program's functions: ``with errors.of(key): ...``."""

    __slots__ = ("_does", "_key", "_step_id")

    def __init__(self, step_id: str, does: Any) -> None:
        self._step_id = step_id
        self._does = does
        self._key = ""

    def of(self, key: str) -> KeyErrors:
        self._key = key
        return self

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if isinstance(error, Exception):
            raise step_error(self._step_id, self._does, error, self._key) from error


def _failed_function(does: Any, error: Exception) -> str:
    """The function of the step that the error came through: the name of its parameter, and its own."""
    names = {function.__code__: (name, function.__name__) for name, function in _functions(does, "function", set())}
    for code in _codes(error):
        if code in names:
            role, name = names[code]
            return f"{role} ({name})" if name != role else role
    line = failed_line(error)
    return "its function" if line is None else line.name


def _codes(error: Exception) -> Iterator[CodeType]:
    """The code of the frames that the error came through, the outermost first."""
    frame = error.__traceback__
    while frame is not None:
        yield frame.tb_frame.f_code
        frame = frame.tb_next


def _functions(thing: Any, name: str, visited: set[int]) -> Iterator[tuple[str, FunctionType]]:
    """The user's functions in the function or the spec of a step, by the names of their parameters."""
    if id(thing) in visited:
        return
    visited.add(id(thing))
    if isinstance(thing, FunctionType):
        if is_user_code(thing.__code__.co_filename):
            yield name, thing
            return
        contents = map(_content, thing.__closure__ or ())
        parts = list(zip(thing.__code__.co_freevars, contents, strict=True))
    elif isinstance(thing, partial):
        parts = [(name, thing.func), *zip(_parameters(thing.func, name), thing.args, strict=False)]
        # max_window and min_window pass their parameter as the key of max and min.
        parts += [("by" if keyword == "key" else keyword, one) for keyword, one in thing.keywords.items()]
    elif dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        parts = [(field.name, getattr(thing, field.name, None)) for field in dataclasses.fields(thing)]
    else:
        return
    for name_of_part, part in parts:
        yield from _functions(part, name_of_part, visited)


def _parameters(function: Any, otherwise: str) -> Iterator[str]:
    """The names of the parameters of a function; ``otherwise`` for the rest, and if they are unknown."""
    with contextlib.suppress(TypeError, ValueError):
        yield from inspect.signature(function).parameters
    yield from itertools.repeat(otherwise)


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # A variable that is not assigned yet.
        return None
