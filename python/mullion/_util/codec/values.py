"""Conversion of Python values to bytes and back: JSON, with marks for the types that JSON lacks.

Values are read exactly as written: tuples, sets, the keys of dicts, and records with their classes.
``{"!": kind, "v": ...}`` marks such a value::

    (1, "a")          {"!": "tuple", "v": [1, "a"]}
    {1: "a"}          {"!": "dict", "v": [[1, "a"]]}
    View(page="a")    {"!": "record", "v": ["shop:View", {"page": "a"}]}      a class that has to_fields and of_fields
    Point(1, 2)       {"!": "dataclass", "v": ["shop:Point", {"x": 1, "y": 2}]}
    np.array([1.5])   {"!": "ndarray", "v": ["<f8", [1], "AAAAAAAA+D8="]}    the type, the shape, and the bytes
    Counter("aa")     {"!": "counter", "v": [["a", 2]]}

Pickle is never used, because it would execute its input. Only the fields of a class are stored, and its constructor is
not called.
"""

from __future__ import annotations

import base64
import dataclasses
import importlib
import json
import math
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar
from uuid import UUID

from mullion.errors import DamagedStateError, InvalidArgumentError, MullionError

_Given = ParamSpec("_Given")
_Found = TypeVar("_Found")

_MARK: Final = "!"
_MOST_BITS: Final = 10_000
_NUMPY_KINDS: Final = "biufcmMSU"
"""The kinds of NumPy types whose bytes are their values: no objects and no records."""
_MICROSECOND = timedelta(microseconds=1)
_FIXED = (str, int, float, type(None), tuple, frozenset, bytes, date, time, timedelta, Decimal, UUID, Enum)
_OF_TEXT: dict[type, str] = {Decimal: "decimal", UUID: "uuid", datetime: "datetime", date: "date", time: "time"}
_READ: dict[str, Callable[[Any], Any]] = {
    "float": float,
    "tuple": lambda content: tuple(map(_unmarked, content)),
    "set": lambda content: set(map(_unmarked, content)),
    "frozenset": lambda content: frozenset(map(_unmarked, content)),
    "dict": lambda content: _pairs(content),
    "bytes": base64.b64decode,
    "decimal": Decimal,
    "uuid": UUID,
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "timedelta": lambda us: timedelta(microseconds=us),
    "int": lambda digits: int(digits, 16),
    "record": lambda content: _record(*content),
    "dataclass": lambda content: _dataclass(*content),
    "enum": lambda content: _enum(*content),
    "ndarray": lambda content: _array(*content),
    "numpy": lambda content: _array(*content)[()],
    "counter": lambda content: Counter(_pairs(content)),
    "ordereddict": lambda content: OrderedDict(_pairs(content)),
    "defaultdict": lambda content: defaultdict(_FACTORIES[content[0]], _pairs(content[1])),
    "deque": lambda content: deque(map(_unmarked, content[0]), content[1]),
    "namedtuple": lambda content: _namedtuple(*content),
}
_FACTORIES: Final[dict[str | None, Callable[[], Any] | None]] = {
    None: None,
    **{kind.__name__: kind for kind in (int, float, str, bool, list, dict, set, tuple, Counter, deque)},
}
"""The default factories of a defaultdict that can be stored."""


def encode(value: Any, what: str) -> bytes:
    """A value as bytes. Raises an :class:`InvalidArgumentError` that names ``what`` for an unsupported value."""
    return _written(_marked(value, what))


# The errors of damaged bytes, and of a class that no longer accepts its fields.
_UNREADABLE: Final = (ValueError, LookupError, TypeError, AttributeError, RecursionError, ArithmeticError)


def decoding(decode: Callable[_Given, _Found]) -> Callable[_Given, _Found]:
    """Makes a function that reads stored bytes raise :class:`DamagedStateError` for damaged ones."""

    @wraps(decode)
    def checked(*args: _Given.args, **kwargs: _Given.kwargs) -> _Found:
        try:
            return decode(*args, **kwargs)
        except MullionError:
            raise
        except _UNREADABLE as error:
            raise unreadable(error) from error

    return checked


@decoding
def decode(written: bytes) -> Any:
    """The value of bytes of :func:`encode`. Raises :class:`DamagedStateError` for other bytes."""
    return _unmarked(json.loads(written.decode("utf-8", "surrogatepass")))


def unreadable(error: Exception) -> DamagedStateError:
    """The error for a value that cannot be read, with the reason."""
    return DamagedStateError(
        f"A stored value cannot be read: {type(error).__name__}: {str(error)[:200]}. If it is damaged, restore the "
        "checkpoint from a copy, or start with a new one. If its class has changed, let it accept the old values."
    )


def changeable(value: Any) -> bool:
    """True for a mutable value."""
    return not isinstance(value, _FIXED)


def _written(marked: Any) -> bytes:
    return json.dumps(marked, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def _marked(value: Any, what: str) -> Any:
    kind = type(value)
    if value is None or kind is str or kind is bool:
        return value
    if kind is int:
        # Python limits the digits of decimal integers.
        return value if value.bit_length() <= _MOST_BITS else _mark("int", hex(value))
    if kind is float:
        return value if math.isfinite(value) else _mark("float", repr(value))
    if kind is list:
        return [_marked(content, what) for content in value]
    if kind is dict:
        if all(type(key) is str for key in value) and _MARK not in value:
            return {key: _marked(content, what) for key, content in value.items()}
        return _mark("dict", _marked_pairs(value, what))
    if kind is tuple:
        return _mark("tuple", [_marked(content, what) for content in value])
    if kind in (set, frozenset):
        return _mark(kind.__name__, _in_order([_marked(content, what) for content in value]))
    if kind in _OF_TEXT:
        return _mark(_OF_TEXT[kind], value.isoformat() if isinstance(value, (date, time)) else str(value))
    if kind is timedelta:
        return _mark("timedelta", value // _MICROSECOND)
    if kind is bytes:
        return _mark("bytes", base64.b64encode(value).decode())
    if hasattr(kind, "to_fields"):
        return _mark("record", [_name(kind), _marked_fields(value.to_fields(), what)])
    if isinstance(value, Enum):
        return _mark("enum", [_name(kind), _marked(value.value, what)])
    if kind in _COLLECTIONS:
        return _COLLECTIONS[kind](value, what)
    if isinstance(value, tuple) and hasattr(kind, "_fields"):
        return _mark("namedtuple", [_name(kind), [_marked(content, what) for content in value]])
    if dataclasses.is_dataclass(value):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return _mark("dataclass", [_name(kind), _marked_fields(fields, what)])
    if kind.__module__ == "numpy" and hasattr(value, "dtype") and value.dtype.kind in _NUMPY_KINDS:
        data = base64.b64encode(value.tobytes()).decode()
        return _mark("ndarray" if hasattr(value, "__len__") else "numpy", [value.dtype.str, list(value.shape), data])
    raise InvalidArgumentError(
        f"{what}: {value!r} ({kind.__module__}.{kind.__qualname__}) cannot be kept in a table or in state. "
        "Make it a record or a dataclass, or of numbers, text, dates, lists, dicts and sets."
    )


def _marked_pairs(value: Mapping[Any, Any], what: str) -> list[Any]:
    return [[_marked(key, what), _marked(content, what)] for key, content in value.items()]


def _marked_defaultdict(value: defaultdict[Any, Any], what: str) -> dict[str, Any]:
    name = next((name for name, factory in _FACTORIES.items() if factory is value.default_factory), "")
    if name == "":
        raise InvalidArgumentError(
            f"{what}: a defaultdict with the factory {value.default_factory!r} cannot be stored in a table, because "
            f"code is not stored. Use one of {', '.join(name for name in _FACTORIES if name)}, or store dict(value)."
        )
    return _mark("defaultdict", [name, _marked_pairs(value, what)])


_COLLECTIONS: Final[dict[type, Callable[[Any, str], Any]]] = {
    Counter: lambda value, what: _mark("counter", _marked_pairs(value, what)),
    OrderedDict: lambda value, what: _mark("ordereddict", _marked_pairs(value, what)),
    defaultdict: _marked_defaultdict,
    deque: lambda value, what: _mark("deque", [[_marked(content, what) for content in value], value.maxlen]),
}


def _marked_fields(fields: Mapping[str, Any], what: str) -> dict[str, Any]:
    return {name: _marked(content, f"{what}, in {name}") for name, content in fields.items()}


def _mark(kind: str, content: Any) -> dict[str, Any]:
    return {_MARK: kind, "v": content}


def _in_order(content: Iterable[Any]) -> list[Any]:
    """A fixed order, so that equal sets are equal bytes."""
    return sorted(content, key=lambda one: json.dumps(one, sort_keys=True))


def _unmarked(content: Any) -> Any:
    if isinstance(content, list):
        return [_unmarked(one) for one in content]
    if isinstance(content, dict):
        kind = content.get(_MARK)
        return {key: _unmarked(one) for key, one in content.items()} if kind is None else _READ[kind](content["v"])
    return content


def _pairs(content: list[Any]) -> dict[Any, Any]:
    return {_unmarked(key): _unmarked(value) for key, value in content}


_classes: dict[str, Any] = {}


def _name(kind: type) -> str:
    name = f"{kind.__module__}:{kind.__qualname__}"
    _classes[name] = kind
    return name


def _record(name: str, content: dict[str, Any]) -> Any:
    kind = _class(name, lambda kind: hasattr(kind, "of_fields"), "a record")
    return kind.of_fields({field: _unmarked(one) for field, one in content.items()})


def _dataclass(name: str, content: dict[str, Any]) -> Any:
    kind = _class(name, dataclasses.is_dataclass, "a dataclass")
    instance: Any = object.__new__(kind)
    for field in dataclasses.fields(kind):
        if field.name in content:
            # As in the constructor of a frozen dataclass.
            object.__setattr__(instance, field.name, _unmarked(content[field.name]))
        elif field.default is not dataclasses.MISSING:
            object.__setattr__(instance, field.name, field.default)
        elif field.default_factory is not dataclasses.MISSING:
            object.__setattr__(instance, field.name, field.default_factory())
    return instance


def _array(kind: str, shape: list[int], data: str) -> Any:
    import numpy as np

    # A copy, because arrays over bytes are read-only.
    return np.frombuffer(base64.b64decode(data), np.dtype(kind)).reshape(shape).copy()


def _namedtuple(name: str, content: list[Any]) -> Any:
    kind = _class(name, lambda kind: issubclass(kind, tuple) and hasattr(kind, "_fields"), "a named tuple")
    return tuple.__new__(kind, map(_unmarked, content))


def _enum(name: str, content: Any) -> Any:
    return _class(name, lambda kind: issubclass(kind, Enum), "an enumeration")(_unmarked(content))


def _class(name: str, is_wanted: Callable[[type], bool], what: str) -> Any:
    """The class of a name. Raises an error for another kind of object, because reading must not call arbitrary code."""
    target = _named(name)
    if not isinstance(target, type) or not is_wanted(target):
        raise InvalidArgumentError(f"A value of {name!r} is kept as {what}, and is none. The state is damaged.")
    return target


def _named(name: str) -> Any:
    if name not in _classes:
        module, _, path = name.partition(":")
        try:
            target: Any = importlib.import_module(module)
            for part in path.split("."):
                target = getattr(target, part)
        except (ImportError, AttributeError) as missing:
            raise InvalidArgumentError(
                f"A value was kept that is of the class {name!r}, which does not exist: {missing}. Define it in a "
                "module, outside of functions, under the name that it had."
            ) from missing
        _classes[name] = target
    return _classes[name]
