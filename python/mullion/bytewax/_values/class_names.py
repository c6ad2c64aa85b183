"""Maps classes and functions to names in encoded values, and back. A registry has classes that cannot be imported."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import BuiltinFunctionType, FunctionType
from typing import Any

from pyspark import cloudpickle

from mullion.errors import InvalidArgumentError

_classes: dict[str, type] = {}
_names: dict[type, str] = {}
_written: ContextVar[dict[str, type] | None] = ContextVar("_written", default=None)


@contextmanager
def classes_written() -> Iterator[dict[str, type]]:
    """Collects, by name, the classes of the values that are encoded in this context."""
    classes: dict[str, type] = {}
    token = _written.set(classes)
    try:
        yield classes
    finally:
        _written.reset(token)


def learn(classes: Mapping[str, type]) -> None:
    """Registers classes that cannot be imported under the given names.

    A class unpickled from another process may have lost its qualified name, so it keeps the name of that process.
    """
    for name, kind in classes.items():
        _classes[name] = kind
        _names[kind] = name


def named(classes: Iterable[type]) -> dict[str, type]:
    return {name_of(kind): kind for kind in classes}


def register(kind: type) -> str:
    name = name_of(kind)
    _classes[name] = kind
    written = _written.get()
    if written is not None:
        written[name] = kind
    return name


def _by_value() -> set[str]:
    modules: set[str] = cloudpickle.list_registry_pickle_by_value()  # type: ignore[no-untyped-call]
    return modules


def importable(kind: Any) -> bool:
    """True if a class or function can be found by importing its module, and its module is not sent by value."""
    module: Any = sys.modules.get(kind.__module__)
    if module is None or kind.__module__ == "__main__":
        return False
    parts = kind.__module__.split(".")
    if not _by_value().isdisjoint(".".join(parts[:count]) for count in range(1, len(parts) + 1)):
        return False
    for part in kind.__qualname__.split("."):
        module = getattr(module, part, None)
    return module is kind


def name_of(kind: type) -> str:
    return _names.get(kind) or f"{kind.__module__}:{kind.__qualname__}"


def class_of(name: str) -> Any:
    if name not in _classes:
        _classes[name] = _imported(name, type)
    return _classes[name]


def function_of(name: str) -> Any:
    return _imported(name, (FunctionType, BuiltinFunctionType))


def _imported(name: str, kinds: type | tuple[type, ...]) -> Any:
    module, _, path = name.partition(":")
    try:
        value: Any = sys.modules.get(module) or importlib.import_module(module)
        for part in path.split("."):
            value = getattr(value, part)
        if not isinstance(value, kinds):
            raise AttributeError(f"it is {value!r}")
    except (ImportError, AttributeError) as missing:
        raise InvalidArgumentError(
            f"A value refers to the class or function {name!r}, which does not exist where it is read: {missing}. "
            "Define it in a module that the workers can import, outside of functions, under the name that it had."
        ) from missing
    return value
