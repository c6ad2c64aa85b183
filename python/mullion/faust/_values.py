"""Keys and values of tables as bytes: JSON, with marks for what JSON has no word for.

What is read is what was written: a tuple stays a tuple, a set a set, a dict's keys what they were, and a record one of
its class. ``{"!": kind, "v": ...}`` marks such a value. Never pickle: it would run what it reads.
"""

from __future__ import annotations

import base64
import importlib
import json
import math
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

from mullion.errors import InvalidArgumentError
from mullion.faust.models import Record

_MARK = "!"
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
    "record": lambda held: _record(*held),
    "enum": lambda held: _class(held[0])(_unmarked(held[1])),
}


def encode(value: Any, what: str) -> bytes:
    """A value as bytes; one that cannot be kept is an :class:`InvalidArgumentError` that says ``what`` it is of."""
    return _written(_marked(value, what))


def encode_key(key: Any, table: str) -> bytes:
    """A key as bytes; ``None``, and what cannot be kept, is an :class:`InvalidArgumentError`."""
    if key is None:
        raise InvalidArgumentError(
            f"The table {table!r} was given the key None. An event without a key belongs to no key: leave it out, or "
            f"name a key for it, as in {table}[event.key or 'unknown']."
        )
    if type(key) is str:
        return json.dumps(key, ensure_ascii=False).encode("utf-8", "surrogatepass")
    if isinstance(key, (list, dict, set)):
        raise InvalidArgumentError(
            f"The table {table!r} was given the key {key!r} ({type(key).__name__}), which can change. Use a tuple."
        )
    # 1.0 and 1 are one key of a dict.
    return _written(_marked(int(key) if type(key) is float and key.is_integer() else key, f"the key of {table!r}"))


def decode(written: bytes) -> Any:
    """The value of bytes that :func:`encode` or :func:`encode_key` made."""
    return _unmarked(json.loads(written.decode("utf-8", "surrogatepass")))


def changeable(value: Any) -> bool:
    """Whether a value can be changed by reference."""
    return not isinstance(value, _FIXED)


def _written(marked: Any) -> bytes:
    return json.dumps(marked, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def _marked(value: Any, what: str) -> Any:
    kind = type(value)
    if value is None or kind is str or kind is int or kind is bool:
        return value
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
    if isinstance(value, Record):
        held = {name: _marked(field, f"{what}, in {name}") for name, field in value.asdict().items()}
        return _mark("record", [_name(kind), held])
    if isinstance(value, Enum):
        return _mark("enum", [_name(kind), _marked(value.value, what)])
    raise InvalidArgumentError(
        f"{what}: {value!r} ({kind.__module__}.{kind.__qualname__}) cannot be kept in a table. Make it a record, or of "
        "numbers, text, dates, lists, dicts and sets."
    )


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


_known: dict[str, type] = {}


def _name(kind: type) -> str:
    name = f"{kind.__module__}:{kind.__qualname__}"
    _known[name] = kind
    return name


def _record(name: str, held: dict[str, Any]) -> Record:
    kind = _class(name)
    assert issubclass(kind, Record)
    made: Record = kind.__new__(kind)
    made._set({field: _unmarked(one) for field, one in held.items() if field in kind._fields})
    return made


def _class(name: str) -> Any:
    if name not in _known:
        module, _, path = name.partition(":")
        try:
            found: Any = importlib.import_module(module)
            for part in path.split("."):
                found = getattr(found, part)
        except (ImportError, AttributeError) as missing:
            raise InvalidArgumentError(
                f"A table holds a value of the class {name!r}, which is not to be found: {missing}. Define it in a "
                "module, outside of functions, under the name that it had."
            ) from missing
        _known[name] = found
    return _known[name]
