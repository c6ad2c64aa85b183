"""Finds the variables outside of functions that change while the functions run.

::

    variables = Variables([process])       counts: {}                stats.n: 0
    process(events)                        counts["a"] += 1          stats.bump()
    variables.changes()                    counts had 0 items and has 1; stats.n was 0 and is 1

All data that the functions can reach is copied shallowly at the start and compared at the end: global variables,
variables of enclosing functions, attributes of classes and of shared objects, and the contents of containers.
:mod:`.outside_writes` finds writes in the code, before anything runs; this finds those that it misses.

Not every change is lost state, so these are accepted: an object that each process creates for itself, such as a
connection in place of ``None``, and everything within objects of libraries. Large containers are compared by their
length and their ends only: state is small at the start, and large data is read-only.
"""

from __future__ import annotations

import abc
import enum
import functools
import inspect
import operator
import reprlib
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import BuiltinFunctionType, CellType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeAlias, final

from mullion._pyfunction.contents import (
    ATOMS,
    Content,
    attributes_of,
    computed_attributes,
    has_items,
    is_atom,
    items_of,
    length_of,
    slots_of,
)
from mullion._pyfunction.functions import defaults_of, names_in
from mullion._pyfunction.reach import imported_modules, is_library

_Found: TypeAlias = tuple[str, str, Any]
"""A value, after the names of the variable that leads to it and of its module."""

_MISSING: Final = object()
_CALLABLES: Final = (FunctionType, MethodType, BuiltinFunctionType, functools.partial)
_DESCRIPTORS: Final = (property, staticmethod, classmethod, functools.cached_property)
_ANY_NAME: Final = frozenset(("globals", "locals", "eval", "exec", "vars", "getattr", "setattr", "delattr", "__dict__"))
"""Functions that access variables by computed names."""
_BASES: Final = (object, abc.ABC, Generic, Protocol, SimpleNamespace)
"""Bases that change no attribute."""
_MOST_ITEMS: Final = 10_000
"""The length from which a container is compared by its ends."""
_MOST_COPIED: Final = 20_000
"""The number of copied items and attributes after which further containers are compared by their length only."""
_MOST_DEPTH: Final = 20

_texts = reprlib.Repr()
_texts.maxstring = _texts.maxother = 40


@final
@dataclass(frozen=True)
class VariableChange:
    """A variable that has changed, the name of its module, and the difference in words."""

    name: str
    module: str
    difference: str


class _Binding(NamedTuple):
    """A name of a namespace or an enclosing function, with its value at the start."""

    name: str
    module: str
    read: Callable[[], Any]
    value: Any


class _Copy(NamedTuple):
    """The content of an object at the start. ``most`` is the number of items that were copied at most."""

    name: str
    module: str
    value: Any
    most: int
    length: int | None
    items: Content
    attributes: Content


class _Kind(NamedTuple):
    """A class. ``is_mixed`` is True if a base belongs to a library, which has attributes of its own.

    ``skipped`` are the attributes that are computed, and those that a library declares as private.
    """

    is_library: bool
    is_mixed: bool
    slots: Mapping[str, Any]
    skipped: frozenset[str]


@final
class Variables:
    """The variables that functions and classes can reach, as they are when this object is created.

    - ``is_managed``: True for objects that keep their changes. ``attributes_of`` returns the attributes of such an
      object that do not.
    - ``created_once``: the names, attributes and keys that each process may set once, in place of ``None`` or nothing.
    """

    def __init__(
        self,
        functions: Iterable[Any],
        is_managed: Callable[[Any], bool] = lambda value: False,
        attributes_of: Callable[[Any], Mapping[str, Any]] = lambda value: {},
        created_once: Container[Any] = frozenset(),
    ) -> None:
        self._is_managed = is_managed
        self._attributes_of = attributes_of
        self._created_once = created_once
        self._bindings: dict[tuple[int, str], _Binding] = {}
        self._copies: dict[int, _Copy] = {}
        self._namespaces: dict[int, tuple[dict[str, Any], frozenset[str]]] = {}
        self._kinds: dict[type, _Kind] = {}
        self._names: set[str] = set()
        self._is_any_name = False
        self._copied = 0
        # Identities are unique while the objects live.
        self._searched: dict[int, Any] = {}
        # Nearer variables come first: deep data is less likely to be state.
        self._search(deque(("", "", function) for function in functions))

    @property
    def functions(self) -> list[FunctionType]:
        """The user's functions that were reached."""
        return [one for one in self._searched.values() if isinstance(one, FunctionType) and not is_library(one)]

    # -- differences

    def changes(self) -> list[VariableChange]:
        """The variables that have changed, each once."""
        changes: dict[tuple[str, str], VariableChange] = {}
        for name, module, difference in self._differences():
            changes.setdefault((module, name), VariableChange(name, module, difference))
        return list(changes.values())

    def _differences(self) -> Iterator[tuple[str, str, str]]:
        for binding in self._bindings.values():
            now = binding.read()
            if now is not binding.value and not self._is_same(binding.value, now, binding.name):
                yield binding.name, binding.module, _difference("", binding.value, now)
        for namespace, names in self._namespaces.values():
            for name in namespace.keys() - names:
                if not _is_special(name) and not self._is_same(_MISSING, namespace[name], name):
                    yield name, _module_of(namespace), _difference("", _MISSING, namespace[name])
        for copy in list(self._copies.values()):
            difference = self._difference_of(copy)
            if difference is not None:
                yield copy.name, copy.module, difference

    def _difference_of(self, copy: _Copy) -> str | None:
        length = length_of(copy.value)
        if length != copy.length and not self._is_filled_once(copy):
            return f"had {_items(copy.length)} and has {length}"
        items, attributes = self._content(copy.value, copy.most)
        if self._is_mixed(copy.value):
            attributes = {name: value for name, value in attributes.items() if name in self._names}
        for before, now, is_item in ((copy.items, items, True), (copy.attributes, attributes, False)):
            if before.keys() == now.keys() and all(map(operator.is_, map(before.get, now), now.values())):
                continue
            for key in {**before, **now}:
                if not is_item and key not in self._names and self._is_mixed(copy.value):
                    continue
                one, other = before.get(key, _MISSING), now.get(key, _MISSING)
                is_kept = key in now if key in before else _is_in(key, self._created_once)
                if one is not other and not (self._is_same(one, other, key) and (is_kept or not is_item)):
                    return _difference(f"[{_text(key)}]" if is_item else f".{key}", one, other)
        return None

    def _is_filled_once(self, copy: _Copy) -> bool:
        """True if a dict only has new keys that each process may set once."""
        if not isinstance(copy.value, dict):
            return False
        new = copy.value.keys() - copy.items.keys()
        return len(copy.value) == len(copy.items) + len(new) and all(_is_in(key, self._created_once) for key in new)

    def _is_same(self, before: Any, now: Any, key: Any, depth: int = 0) -> bool:
        """True if a value equals the value before, or if this process created it for itself."""
        if before is now:
            return True
        if before is None or before is _MISSING:
            return now is None or now is _MISSING or self._is_created(now, key)
        if not self._is_data(before):
            return now is None or now is _MISSING or not self._is_data(now)
        if type(before) is not type(now) or depth > _MOST_DEPTH:
            return False
        if is_atom(before):
            return bool(before == now or before != before)
        copy = self._copies.get(id(before))
        before = self._content(before, _MOST_ITEMS) if copy is None else (copy.items, copy.attributes)
        return all(
            one.keys() == other.keys() and all(self._is_same(one[name], other[name], name, depth + 1) for name in one)
            for one, other in zip(before, self._content(now, _MOST_ITEMS), strict=True)
        )

    def _is_created(self, value: Any, key: Any) -> bool:
        """True for an object in place of nothing that each process may create."""
        if not self._is_data(value) or _is_in(key, self._created_once):
            return True
        return not is_atom(value) and not any(self._content(value, _MOST_ITEMS))

    def _is_data(self, value: Any) -> bool:
        """True for a value whose changes are seen here."""
        if is_atom(value):
            return True
        if isinstance(value, (ModuleType, type, *_CALLABLES, *_DESCRIPTORS)) or self._is_managed(value):
            return False
        return has_items(value) or not self._kind(type(value)).is_library

    # -- contents

    def _kind(self, kind: type) -> _Kind:
        description = self._kinds.get(kind)
        if description is None:
            bases = [one for one in kind.__mro__ if one not in _BASES and one.__module__ != "builtins"]
            libraries = [one for one in bases if is_library(one)]
            is_foreign = is_library(kind)
            private = frozenset(
                name
                for base in libraries
                for name in (*vars(base), *inspect.get_annotations(base))
                if name.startswith("_")
            )
            description = self._kinds[kind] = _Kind(
                is_foreign and kind is not SimpleNamespace,
                bool(libraries) and not is_foreign,
                {} if is_foreign else slots_of(kind),
                frozenset() if is_foreign else computed_attributes(kind) | private,
            )
        return description

    def _is_mixed(self, value: Any) -> bool:
        return not self._is_any_name and self._kind(value if isinstance(value, type) else type(value)).is_mixed

    def _content(self, value: Any, most: int) -> tuple[Content, Content]:
        """The items and the attributes of an object."""
        if isinstance(value, type):
            return {}, self._class_attributes(value)
        if isinstance(value, FunctionType):
            return {}, dict(value.__dict__)
        if self._is_managed(value):
            return {}, self._attributes_of(value)
        kind = self._kind(type(value))
        items = items_of(value, most) if has_items(value) else {}
        return items, {} if kind.is_library else attributes_of(value, kind.slots, kind.skipped)

    def _class_attributes(self, kind: type) -> Content:
        """The attributes of a class that are data."""
        return {
            name: value
            for name, value in vars(kind).items()
            if not _is_special(name)
            and name not in self._kind(kind).skipped
            and (self._is_data(value) or value is None)
            and not inspect.ismemberdescriptor(value)
        }

    # -- search

    def _search(self, queue: deque[_Found]) -> None:
        """Records all variables that values lead to. Of modules, only names in code are followed."""
        modules: dict[int, ModuleType] = {}
        while queue:
            while queue:
                name, module, value = queue.popleft()
                if is_atom(value) or id(value) in self._searched:
                    continue
                self._searched[id(value)] = value
                if isinstance(value, ModuleType):
                    if not is_library(value):
                        modules[id(value)] = value
                elif isinstance(value, FunctionType):
                    queue += _wrapped_by(value) if is_library(value) else self._of_function(value)
                elif isinstance(value, type):
                    queue += self._of_class(value)
                else:
                    queue += [
                        (name, module, one) for one in self._of_object(name or type(value).__name__, module, value)
                    ]
            # A new name may be in a module that was searched before.
            for loaded_module in modules.values():
                namespace = vars(loaded_module)
                queue += self._bind(namespace, namespace if self._is_any_name else self._names & namespace.keys())
                if self._is_any_name:
                    self._namespaces.setdefault(id(namespace), (namespace, frozenset(namespace)))

    def _of_function(self, function: FunctionType) -> Iterator[_Found]:
        namespace, used = function.__globals__, names_in(function.__code__)
        module = _module_of(namespace)
        self._names |= used
        if used & _ANY_NAME:
            self._is_any_name = True
            self._namespaces.setdefault(id(namespace), (namespace, frozenset(namespace)))
            used = used | namespace.keys()
        yield from self._bind(namespace, used)
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            value = _read_cell(cell)
            read = functools.partial(_read_cell, cell)
            self._bindings.setdefault((id(cell), name), _Binding(name, module, read, value))
            yield name, module, value
        for name, value in defaults_of(function).items():
            yield name, module, value
        self._record(function.__name__, module, function)
        for value in function.__dict__.values():
            yield function.__name__, module, value
        for imported in imported_modules(function.__code__):
            yield "", "", imported

    def _bind(self, namespace: dict[str, Any], names: Iterable[str]) -> Iterator[_Found]:
        """Records global variables. One that is not set yet may be set later."""
        module = _module_of(namespace)
        for name in list(names):
            if (id(namespace), name) in self._bindings or _is_special(name):
                continue
            value = namespace.get(name, _MISSING)
            read = functools.partial(namespace.get, name, _MISSING)
            self._bindings[id(namespace), name] = _Binding(name, module, read, value)
            if value is not _MISSING:
                yield name, module, value

    def _of_class(self, kind: type) -> Iterator[_Found]:
        if is_library(kind):
            return
        name, module = kind.__name__, kind.__module__
        if not issubclass(kind, enum.Enum):
            self._record(name, module, kind)
        for value in (*vars(kind).values(), *kind.__mro__[1:]):
            yield name, module, value

    def _of_object(self, name: str, module: str, value: Any) -> Iterable[Any]:
        """Records the content of an object. Returns the values that it leads to."""
        if isinstance(value, MethodType):
            return value.__self__, value.__func__
        if isinstance(value, BuiltinFunctionType):
            # A method of a container, such as that of ``add = seen.add``.
            return () if isinstance(value.__self__, ModuleType) else (value.__self__,)
        if isinstance(value, functools.partial):
            return value.func, *value.args, *value.keywords.values()
        if isinstance(value, (staticmethod, classmethod)):
            return (value.__func__,)
        if isinstance(value, functools.cached_property):
            return (value.func,)
        if isinstance(value, property):
            return value.fget, value.fset, value.fdel
        if not self._is_data(value) and not self._is_managed(value):
            # For instance, a function with a cache of results.
            return (inspect.getattr_static(value, "__wrapped__", None),) if callable(value) else ()
        if self._copied > _MOST_COPIED and length_of(value) is None:
            return ()
        copy = self._record(name, module, value)
        return *_parts(copy.items), *_parts(copy.attributes), type(value)

    def _record(self, name: str, module: str, value: Any) -> _Copy:
        most = _MOST_ITEMS if self._copied < _MOST_COPIED else 0
        items, attributes = self._content(value, most)
        length = length_of(value)
        copy = _Copy(name, module, value, most, length, items, attributes)
        self._copied += 1 + max(len(items), min(length or 0, most)) + len(attributes)
        if not isinstance(value, (tuple, frozenset)):
            self._copies[id(value)] = copy
        return copy


def _wrapped_by(function: FunctionType) -> Iterator[_Found]:
    """The functions and classes that a library's function holds, such as the one that a decorator wraps."""
    references = [*(function.__defaults__ or ()), *map(_read_cell, function.__closure__ or ())]
    for one in (*references, function.__dict__.get("__wrapped__")):
        if isinstance(one, (*_CALLABLES, type)):
            yield "", "", one


def _read_cell(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _MISSING


def _parts(content: Content) -> Iterable[Any]:
    """The values of a content, and its keys if they are objects: both may be shared."""
    values, keys = content.values(), content.keys()
    parts = [] if set(map(type, values)) <= ATOMS else [*values]
    return parts if set(map(type, keys)) <= ATOMS else [*parts, *keys]


def _is_in(key: Any, container: Container[Any]) -> bool:
    return isinstance(key, (str, int)) and key in container


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _module_of(namespace: Mapping[str, Any]) -> str:
    return str(namespace.get("__name__", "__main__"))


def _items(length: int | None) -> str:
    return f"{length} item{'' if length == 1 else 's'}"


def _difference(path: str, before: Any, now: Any) -> str:
    first = f"{path} " if path else ""
    if before is _MISSING:
        return f"{first}did not exist and is {_text(now)}"
    if now is _MISSING:
        return f"{first}was {_text(before)} and does not exist any more"
    return f"{first}was {_text(before)} and is {_text(now)}"


def _text(value: Any) -> str:
    """A value as a short text, without running code of its class."""
    return _texts.repr(value) if type(value) in ATOMS else f"an object of type {type(value).__name__}"


__all__ = ["VariableChange", "Variables"]
