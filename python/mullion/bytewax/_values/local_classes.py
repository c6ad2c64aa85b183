"""Finds the classes of a program that workers cannot import: classes defined in the script or inside functions.

Encoded values refer to a class by name, so both sides must resolve the name to the same class. Cloudpickle sends
functions together with the classes that they refer to. This module collects the classes that the functions of a
dataflow can reach.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Final

from pyspark import cloudpickle

from mullion.bytewax._values.values import importable, named
from mullion.bytewax.dataflow import Dataflow

_IMMUTABLE_TYPE: Final = 1 << 8
_HEAP_TYPE: Final = 1 << 9
"""Type flags of CPython's ``object.h``. A class defined in Python is a mutable heap type."""


def classes_of(flow: Dataflow) -> dict[str, type]:
    """Classes of the script and classes reachable from the dataflow's functions that cannot be imported, by name."""
    classes: dict[type, None] = {}
    visited: set[int] = set()
    script = sys.modules.get("__main__")
    things: list[Any] = [value for value in vars(script).values() if isinstance(value, type)] if script else []
    things += [step.does for step in flow._steps if step.kind not in ("input", "output")]
    while things:
        thing = things.pop()
        if id(thing) in visited:
            continue
        visited.add(id(thing))
        if isinstance(thing, type):
            if _is_own(thing):
                classes[thing] = None
            continue
        things += _reached(thing)
    return named(classes)


def _is_own(kind: type) -> bool:
    """True if the program defines the class, it cannot be imported, and it can be pickled.

    Types defined in C are excluded: some, such as ``builtins.dict_keys``, are not attributes of their module, so they
    look non-importable, but cannot be rebuilt from their attributes.
    """
    is_of_python = kind.__flags__ & _HEAP_TYPE and not kind.__flags__ & _IMMUTABLE_TYPE
    if not is_of_python or importable(kind):
        return False
    try:
        cloudpickle.dumps(kind)  # type: ignore[no-untyped-call]
    except Exception:  # Attributes of any class may raise any error.
        return False
    return True


def _reached(thing: Any) -> Iterable[Any]:
    if isinstance(thing, types.FunctionType):
        return _of_function(thing)
    if isinstance(thing, types.MethodType):
        return [thing.__func__, type(thing.__self__)]
    if isinstance(thing, partial):
        return [thing.func, *thing.args, *thing.keywords.values()]
    if type(thing).__module__.startswith("mullion.bytewax") and hasattr(thing, "__dataclass_fields__"):
        return [getattr(thing, name) for name in thing.__dataclass_fields__]
    return [type(thing)]


def _of_function(function: types.FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:
            continue
    codes = [function.__code__]
    while codes:
        code = codes.pop()
        codes += [one for one in code.co_consts if isinstance(one, types.CodeType)]
        for name in code.co_names:
            if name in function.__globals__:
                yield function.__globals__[name]
