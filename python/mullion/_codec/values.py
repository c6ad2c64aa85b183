"""Python's values as bytes and back: JSON, with marks for what JSON has no word for.

What is read is what was written: a tuple stays a tuple, a set a set, a dict's keys what they were, and a record one of
its class. ``{"!": kind, "v": ...}`` marks such a value::

    (1, "a")          {"!": "tuple", "v": [1, "a"]}
    {1: "a"}          {"!": "dict", "v": [[1, "a"]]}
    View(page="a")    {"!": "record", "v": ["shop:View", {"page": "a"}]}      a class that has to_fields and of_fields
    Point(1, 2)       {"!": "dataclass", "v": ["shop:Point", {"x": 1, "y": 2}]}

Never pickle: it would run what it reads. Of a class only its fields are kept, and its constructor is not called.
"""

from __future__ import annotations

import base64
import dataclasses
import importlib
import json
import math
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
_MICROSECOND = timedelta(microseconds=1)
_FIXED = (str, int, float, type(None), tuple, frozenset, bytes, date, time, timedelta, Decimal, UUID, Enum)
_OF_TEXT: dict[type, str] = {Decimal: "decimal", UUID: "uuid", datetime: "datetime", date: "date", time: "time"}
_READ: dict[str, Callable[[Any], Any]] = {
    "float": float,
    "tuple": lambda held: tuple(map(_unmarked, held)),
    "set": lambda held: set(map(_unmarked, held)),
    "frozenset": lambda held: frozenset(map(_unmarked, held)),
    "dict": lambda held: {_unmarked(key): _unmarked(value) for key, value in held},
    "bytes": base64.b64decode,
    "decimal": Decimal,
    "uuid": UUID,
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "timedelta": lambda us: timedelta(microseconds=us),
    "int": lambda digits: int(digits, 16),
    "record": lambda held: _record(*held),
    "dataclass": lambda held: _dataclass(*held),
    "enum": lambda held: _enum(*held),
}


def encode(value: Any, what: str) -> bytes:
    """A value as bytes; one that cannot be kept is an :class:`InvalidArgumentError` that says ``what`` it is of."""
    return _written(_marked(value, what))


# What comes of bytes that are no value, and of a class that does not take what it was made of.
_UNREADABLE: Final = (ValueError, LookupError, TypeError, AttributeError, RecursionError, ArithmeticError)


def decoding(decode: Callable[_Given, _Found]) -> Callable[_Given, _Found]:
    """A function that reads what was kept, and raises :class:`DamagedStateError` for bytes that are no value."""

    @wraps(decode)
    def checked(*args: _Given.args, **kwargs: _Given.kwargs) -> _Found:
        try:
            return decode(*args, **kwargs)
        except MullionError:
            raise
        except _UNREADABLE as theirs:
            raise unreadable(theirs) from theirs

    return checked


@decoding
def decode(written: bytes) -> Any:
    """The value of bytes that :func:`encode` made. Raises :class:`DamagedStateError` for other bytes."""
    return _unmarked(json.loads(written.decode("utf-8", "surrogatepass")))


def unreadable(theirs: Exception) -> DamagedStateError:
    """Says that a value cannot be read, and why."""
    return DamagedStateError(
        f"A value that was kept cannot be read: {type(theirs).__name__}: {str(theirs)[:200]}. Either what was kept is "
        "damaged: restore the checkpoint from a copy, or begin anew with a new one. Or its class has changed: let it "
        "take what it took then."
    )


def changeable(value: Any) -> bool:
    """Whether a value can be changed by reference."""
    return not isinstance(value, _FIXED)


def _written(marked: Any) -> bytes:
    return json.dumps(marked, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def _marked(value: Any, what: str) -> Any:
    kind = type(value)
    if value is None or kind is str or kind is bool:
        return value
    if kind is int:
        # Python neither writes nor reads more digits as decimals.
        return value if value.bit_length() <= _MOST_BITS else _mark("int", hex(value))
    if kind is float:
        return value if math.isfinite(value) else _mark("float", repr(value))
    if kind is list:
        return [_marked(held, what) for held in value]
    if kind is dict:
        if all(type(key) is str for key in value) and _MARK not in value:
            return {key: _marked(held, what) for key, held in value.items()}
        return _mark("dict", [[_marked(key, what), _marked(held, what)] for key, held in value.items()])
    if kind is tuple:
        return _mark("tuple", [_marked(held, what) for held in value])
    if kind in (set, frozenset):
        return _mark(kind.__name__, _in_order([_marked(held, what) for held in value]))
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
    if dataclasses.is_dataclass(value):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return _mark("dataclass", [_name(kind), _marked_fields(fields, what)])
    raise InvalidArgumentError(
        f"{what}: {value!r} ({kind.__module__}.{kind.__qualname__}) cannot be kept in a table or in state. "
        "Make it a record or a dataclass, or of numbers, text, dates, lists, dicts and sets."
    )


def _marked_fields(fields: Mapping[str, Any], what: str) -> dict[str, Any]:
    return {name: _marked(held, f"{what}, in {name}") for name, held in fields.items()}


def _mark(kind: str, held: Any) -> dict[str, Any]:
    return {_MARK: kind, "v": held}


def _in_order(held: Iterable[Any]) -> list[Any]:
    """Equal sets are equal bytes."""
    return sorted(held, key=lambda one: json.dumps(one, sort_keys=True))


def _unmarked(held: Any) -> Any:
    if isinstance(held, list):
        return [_unmarked(one) for one in held]
    if isinstance(held, dict):
        kind = held.get(_MARK)
        return {key: _unmarked(one) for key, one in held.items()} if kind is None else _READ[kind](held["v"])
    return held


_known: dict[str, Any] = {}


def _name(kind: type) -> str:
    name = f"{kind.__module__}:{kind.__qualname__}"
    _known[name] = kind
    return name


def _record(name: str, held: dict[str, Any]) -> Any:
    kind = _class(name, lambda kind: hasattr(kind, "of_fields"), "a record")
    return kind.of_fields({field: _unmarked(one) for field, one in held.items()})


def _dataclass(name: str, held: dict[str, Any]) -> Any:
    kind = _class(name, dataclasses.is_dataclass, "a dataclass")
    made: Any = object.__new__(kind)
    for field in dataclasses.fields(kind):
        if field.name in held:
            # As a dataclass that is frozen does it.
            object.__setattr__(made, field.name, _unmarked(held[field.name]))
        elif field.default is not dataclasses.MISSING:
            object.__setattr__(made, field.name, field.default)
        elif field.default_factory is not dataclasses.MISSING:
            object.__setattr__(made, field.name, field.default_factory())
    return made


def _enum(name: str, held: Any) -> Any:
    return _class(name, lambda kind: issubclass(kind, Enum), "an enumeration")(_unmarked(held))


def _class(name: str, is_wanted: Callable[[type], bool], what: str) -> Any:
    """The class of a name; one of another kind is refused, for what is read must not call what it names."""
    found = _named(name)
    if not isinstance(found, type) or not is_wanted(found):
        raise InvalidArgumentError(f"A value of {name!r} is kept as {what}, and is none. The state is damaged.")
    return found


def _named(name: str) -> Any:
    if name not in _known:
        module, _, path = name.partition(":")
        try:
            found: Any = importlib.import_module(module)
            for part in path.split("."):
                found = getattr(found, part)
        except (ImportError, AttributeError) as missing:
            raise InvalidArgumentError(
                f"A value was kept that is of the class {name!r}, which is not to be found: {missing}. Define it in a "
                "module, outside of functions, under the name that it had."
            ) from missing
        _known[name] = found
    return _known[name]
