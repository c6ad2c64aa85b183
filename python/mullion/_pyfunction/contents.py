"""The contents of objects as shallow copies, to be compared later: items of containers, attributes of other objects.

::

    [1, 2]                    {0: 1, 1: 2}
    {"a": 1}                  {"a": 1}
    {1, 2}                    {1: True, 2: True}
    a list of a million       {"length": 1000000, "first": 1, "last": 9}
    numpy.zeros(3)            {"shape": (3,), "bytes": a checksum}
"""

from __future__ import annotations

import array
import asyncio
import enum
import functools
import inspect
import io
import itertools
import queue
import sys
import zlib
from collections import ChainMap, OrderedDict, UserDict, UserList, deque
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePath
from types import CodeType, GeneratorType, MemberDescriptorType
from typing import Any, Final, TypeAlias
from uuid import UUID

Content: TypeAlias = Mapping[Any, Any]

ATOMS: Final = frozenset(
    (
        *(str, bytes, int, float, complex, bool, type(None), type(...), range, slice, Decimal, Fraction, UUID),
        *(date, datetime, time, timedelta, timezone, CodeType),
    )
)
"""Types of immutable values without parts."""
_ATOM_BASES: Final = (str, bytes, int, float, complex, Decimal, date, time, timedelta, enum.Enum, PurePath)
_SIZED: Final = (dict, list, tuple, deque, array.array, set, frozenset, bytearray, UserDict, UserList)
_OTHERS: Final = (
    *(ChainMap, queue.Queue, asyncio.Queue, queue.SimpleQueue, memoryview, io.StringIO, io.BytesIO),
    *(GeneratorType, itertools.count),
)
_MOST_BYTES: Final = 1 << 20


def is_atom(value: Any) -> bool:
    """True for an immutable value without parts."""
    return type(value) in ATOMS or isinstance(value, _ATOM_BASES) or _is_of("numpy", "generic", value)


def has_items(value: Any) -> bool:
    """True for a container, an iterator, an array or a frame."""
    return isinstance(value, (*_SIZED, *_OTHERS)) or _is_iterator(value) or _is_array(value) or _is_frame(value)


def length_of(value: Any) -> int | None:
    """The length of a container, array or frame; ``None`` for other objects."""
    if isinstance(value, _SIZED):
        return len(value)
    return int(value.size) if _is_array(value) or _is_frame(value) else None


def items_of(value: Any, most: int) -> Content:
    """The items of an object with items. More than ``most`` are represented by their number, the first and the last."""
    if isinstance(value, queue.Queue):
        value = value.queue
    elif isinstance(value, asyncio.Queue):
        value = value._queue  # type: ignore[attr-defined]
    elif isinstance(value, (UserDict, UserList)):
        value = value.data
    if isinstance(value, OrderedDict) and len(value) <= most:
        return dict(enumerate(itertools.chain(value, value.values())))
    if isinstance(value, dict):
        return dict(value) if len(value) <= most else _ends(value, next(iter(value)), next(reversed(value)))
    if isinstance(value, (list, tuple, deque, array.array)):
        return dict(enumerate(value)) if len(value) <= most else _ends(value, value[0], value[-1])
    if isinstance(value, (set, frozenset)):
        return dict.fromkeys(value, True) if len(value) <= most else {"length": len(value)}
    return _items_of_others(value, most)


def _ends(value: Any, first: Any, last: Any) -> Content:
    return {"length": len(value), "first": first, "last": last}


def _items_of_others(value: Any, most: int) -> Content:
    if isinstance(value, ChainMap):
        return dict(enumerate(value.maps))
    if isinstance(value, (bytearray, memoryview)):
        return {"bytes": _checksum(value)}
    if isinstance(value, (io.StringIO, io.BytesIO)):
        return {} if value.closed else {"position": value.tell(), "text": value.getvalue()}
    if isinstance(value, GeneratorType):
        frame = value.gi_frame
        return {} if frame is None else {"instruction": frame.f_lasti, **frame.f_locals}
    if isinstance(value, queue.SimpleQueue):
        return {"length": value.qsize()}
    if isinstance(value, itertools.count):
        return {"next": repr(value)}
    if _is_iterator(value):
        return {"left": value.__length_hint__()}
    if _is_array(value):
        if value.dtype.hasobject:
            return items_of(value.ravel().tolist(), most)
        ends = (value.flat[:most], value.flat[value.size - most :]) if value.size > most else (value,)
        return {"shape": value.shape, **{f"bytes {n}": _checksum(one.tobytes()) for n, one in enumerate(ends)}}
    items: dict[Any, Any] = {"shape": value.shape, "names": str(list(value.axes[-1][:100]))}
    if value.size <= most:
        items.update(enumerate(value.to_numpy(dtype=object).ravel().tolist()))
    return items


def _is_iterator(value: Any) -> bool:
    kind = type(value)
    return kind.__module__ == "builtins" and hasattr(kind, "__next__") and hasattr(kind, "__length_hint__")


def _is_array(value: Any) -> bool:
    return _is_of("numpy", "ndarray", value)


def _is_frame(value: Any) -> bool:
    return _is_of("pandas", "DataFrame", value) or _is_of("pandas", "Series", value)


def _is_of(module: str, kind: str, value: Any) -> bool:
    """True for an instance of a class, without importing the module of the class."""
    expected = getattr(sys.modules.get(module), kind, None)
    return expected is not None and isinstance(value, expected)


def _checksum(data: Any) -> tuple[int, int]:
    view = memoryview(data).cast("B")
    return len(view), zlib.crc32(view[:_MOST_BYTES])


def attributes_of(value: Any, slots: Mapping[str, MemberDescriptorType], computed: frozenset[str]) -> dict[str, Any]:
    """The attributes of an object: those in ``slots``, and its others without the ``computed`` ones."""
    namespace: dict[str, Any] = getattr(value, "__dict__", {})
    attributes = {name: one for name, one in namespace.items() if name not in computed} if computed else dict(namespace)
    for name, member in slots.items():
        try:
            attributes[name] = member.__get__(value, type(value))
        except AttributeError:
            continue
    return attributes


def slots_of(kind: type) -> dict[str, MemberDescriptorType]:
    """The slots of a class and its bases, by the name of the attribute."""
    return {
        name: member
        for one in reversed(kind.__mro__)
        for name, member in vars(one).items()
        if inspect.ismemberdescriptor(member)
    }


def computed_attributes(kind: type) -> frozenset[str]:
    """The attributes that a class computes once for each object."""
    return frozenset(
        name
        for one in kind.__mro__
        for name, value in vars(one).items()
        if isinstance(value, functools.cached_property)
    )


__all__ = [
    "ATOMS",
    "Content",
    "attributes_of",
    "computed_attributes",
    "has_items",
    "is_atom",
    "items_of",
    "length_of",
    "slots_of",
]
