"""The objects reachable from a function: through names of its module, cells, defaults, objects, other functions.

::

    def count(event):                  count - helpers - add ------- cell - TABLE
        helpers.add(event)                             (a module)    (a function)

A negative result is only certain if everything was searched: :class:`Reached` contains that.
"""

from __future__ import annotations

import dis
import gc
import logging
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final, final

from mullion._pyfunction.functions import names_in, names_of

_MOST: Final = 20_000
_ATOMS: Final = (str, bytes, int, float, complex, type(None), type(...), range, CodeType, logging.Logger, BaseException)
# Functions that access objects by computed names.
_OPAQUE: Final = frozenset(("globals", "locals", "eval", "exec", "__import__", "vars", "import_module", "get_objects"))
_BY_NAME: Final = frozenset(("getattr", "attrgetter", "__dict__", "modules"))
_RUNNING: Final = (types.FrameType, types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)
_LIBRARIES: Final = frozenset(("mullion", "pyspark", "pyarrow", "numpy", "pandas", "py4j", *sys.stdlib_module_names))
_IMPORT: Final = dis.opmap["IMPORT_NAME"]
_INSTALLED: Final = ("site-packages", "dist-packages")


@final
@dataclass(frozen=True)
class Reached:
    """The matching objects, and whether there can be no others."""

    values: tuple[Any, ...]
    certain: bool

    def __bool__(self) -> bool:
        """True if there is a match, or may be one."""
        return bool(self.values) or not self.certain


def reached(values: Iterable[Any], wanted: Callable[[Any], bool], ends: Callable[[Any], bool]) -> Reached:
    """Searches everything that is reachable from some values.

    - ``wanted``: the predicate of a match; the search does not continue within it.
    - ``ends``: the predicate of objects that lead to no match.
    """
    search = _Search(wanted, ends)
    search.run(values)
    return Reached(tuple(search.values), search.certain)


class _Search:
    def __init__(self, wanted: Callable[[Any], bool], ends: Callable[[Any], bool]) -> None:
        self._wanted = wanted
        self._ends = ends
        self.values: list[Any] = []
        self.certain = True

    def run(self, values: Iterable[Any]) -> None:
        """Runs the search. Of modules it only follows names in code."""
        queue = list(values)
        visited: dict[int, Any] = {}
        modules: dict[int, ModuleType] = {}
        names: set[str] = set()
        is_any_name = False
        looked: set[tuple[int, str]] = set()
        while queue or modules:
            while queue:
                value = queue.pop()
                if isinstance(value, _ATOMS) or id(value) in visited:
                    continue
                visited[id(value)] = value
                if len(visited) > _MOST:
                    self.certain = False
                    return
                if self._wanted(value):
                    self.values.append(value)
                elif isinstance(value, ModuleType):
                    modules[id(value)] = value
                elif isinstance(value, FunctionType):
                    if is_library(value):
                        queue += _kept_by(value)
                        continue
                    used = names_in(value.__code__)
                    names |= used
                    is_any_name |= bool(used & _BY_NAME)
                    self.certain &= not used & _OPAQUE
                    queue += [*_kept_by(value), *names_of(value).values(), *imported_modules(value.__code__)]
                    self.certain &= not _has_unloaded_import(value.__code__)
                elif not self._ends(value):
                    queue += self._within(value)
            # A new name may be in a module that was searched before.
            for module in list(modules.values()):
                namespace = vars(module)
                if is_library(module):
                    del modules[id(module)]
                    continue
                new_names = [
                    name
                    for name in (namespace if is_any_name else names & namespace.keys())
                    if (id(module), name) not in looked
                ]
                looked |= {(id(module), name) for name in new_names}
                queue += [namespace[name] for name in new_names]
            if not queue:
                return

    def _within(self, value: Any) -> Iterable[Any]:
        if isinstance(value, type):
            return () if is_library(value) else [*value.__mro__, *vars(value).values()]
        if isinstance(value, MethodType):
            return (value.__self__, value.__func__)
        if isinstance(value, BuiltinFunctionType):
            return (value.__self__,)
        if isinstance(value, _RUNNING):
            self.certain = False
            return ()
        return gc.get_referents(value)


def imported_modules(code: CodeType) -> Iterator[ModuleType]:
    """The loaded modules that code imports."""
    for name in _imports(code):
        module = sys.modules.get(name)
        if module is not None:
            yield module


def _has_unloaded_import(code: CodeType) -> bool:
    """True if code imports a module of the program that is not loaded yet, so that its content is unknown."""
    return any(name not in sys.modules and name.partition(".")[0] not in _LIBRARIES for name in _imports(code))


def _imports(code: CodeType) -> Iterator[str]:
    if _IMPORT in code.co_code[::2]:
        for step in dis.get_instructions(code):
            if step.opname == "IMPORT_NAME":
                yield str(step.argval)
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _imports(inner)


def _kept_by(function: FunctionType) -> list[Any]:
    """The objects that a function holds, without its module."""
    references: list[Any] = [function.__defaults__, function.__kwdefaults__, function.__dict__]
    for cell in function.__closure__ or ():
        try:
            references.append(cell.cell_contents)
        except ValueError:
            continue
    return references


def is_library(thing: Any) -> bool:
    """True if it belongs to a library, which only leads to user objects among its arguments."""
    if isinstance(thing, FunctionType):
        # A wrapper claims to belong to the wrapped function's module.
        module = thing.__globals__.get("__name__")
    else:
        module = thing.__name__ if isinstance(thing, ModuleType) else getattr(thing, "__module__", None)
    name = str(module).partition(".")[0]
    if name == "__main__":
        # In a worker, the main module is Spark's, and functions of the program's main module are sent by value.
        return False
    if name in _LIBRARIES:
        return True
    # A package without an __init__, and a module created by a program, have no file.
    file = getattr(thing if isinstance(thing, ModuleType) else sys.modules.get(str(module)), "__file__", None)
    return file is not None and any(part in _INSTALLED for part in Path(file).parts)


__all__ = ["Reached", "imported_modules", "is_library", "reached"]
