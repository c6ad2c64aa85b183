"""Encodes values as bytes, one column after another, each with a type tag."""

from __future__ import annotations

import copyreg
import inspect
import itertools
import re
from array import array
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network
from operator import attrgetter, is_, itemgetter, sub
from pathlib import Path, PurePosixPath, PureWindowsPath
from types import BuiltinFunctionType, FunctionType, SimpleNamespace
from typing import Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo

import pyarrow as pa

from mullion.bytewax._values.class_names import importable, name_of, register
from mullion.errors import InvalidArgumentError

MICROSECOND: Final = timedelta(microseconds=1)
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
EPOCH_WITHOUT_ZONE: Final = datetime(1970, 1, 1)
_FEW: Final = 16
"""The maximum number of numbers in the header. Longer columns use a buffer."""
BUILT_BY_CALL: Final = (
    *(OrderedDict, Counter, defaultdict, deque, Fraction, SimpleNamespace, slice, array),
    *(PurePosixPath, PureWindowsPath, type(Path())),
    *(IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network),
)
"""The classes that the reader calls. It calls no other, because bytes may name any."""

_LONG: Final = 1 << 63
_zone_of = attrgetter("tzinfo")
Node = Any


@dataclass(frozen=True)
class Runs(Sequence[Any]):
    """A run-length encoded column. Its values are all strings or all integers, each repeated ``counts`` times."""

    values: Sequence[Any]
    counts: Sequence[int]

    def __len__(self) -> int:
        return sum(self.counts)

    def __getitem__(self, index: Any) -> Any:
        return list(itertools.chain.from_iterable(map(itertools.repeat, self.values, self.counts)))[index]


class Writer:
    def __init__(self) -> None:
        self.buffers: list[bytes] = []

    def column(self, values: Sequence[Any]) -> Node:
        if type(values) is Runs:
            return self._runs(values)
        kinds = set(map(type, values))
        if len(kinds) == 1:
            kind = kinds.pop()
            write = _WRITE.get(kind)
            return write(self, values) if write is not None else self._others(kind, values)
        if not kinds:
            return None
        return self._union(kinds, values)

    def _runs(self, of: Runs) -> Node:
        first = of.values[0]
        if all(value == first for value in of.values):
            if type(first) is int and -_LONG <= first < _LONG:
                return ["=", first]
            if type(first) is str:
                return ["k", [first], ["=", 0]]
        return self.column(list(itertools.chain.from_iterable(map(itertools.repeat, of.values, of.counts))))

    def _union(self, kinds: set[type], values: Sequence[Any]) -> Node:
        """Values of several types: the type number of each value, then a column for each type."""
        order = {kind: number for number, kind in enumerate(sorted(kinds, key=name_of))}
        parts: list[list[Any]] = [[] for _ in order]
        for value in values:
            parts[order[type(value)]].append(value)
        return ["u", self.ints([order[type(value)] for value in values]), *self._counted(parts)]

    def _counted(self, parts: Iterable[Sequence[Any]]) -> list[Node]:
        return [[len(part), self.column(part)] for part in parts]

    def buffer(self, data: bytes) -> int:
        self.buffers.append(data)
        return len(self.buffers) - 1

    def ints(self, values: Sequence[int]) -> Node:
        if len(values) <= _FEW:
            return ["i", list(values)]
        if values[0] == values[-1] and len(set(values)) == 1:
            return ["=", values[0]]
        try:
            return ["q", self.buffer(array("q", values).tobytes())]
        except OverflowError:
            return ["i", list(values)]

    def floats(self, values: Sequence[float]) -> Node:
        return ["f", list(values)] if len(values) <= _FEW else ["d", self.buffer(array("d", values).tobytes())]

    def bools(self, values: Sequence[bool]) -> Node:
        return ["b", [int(value) for value in values]]

    def nones(self, values: Sequence[None]) -> Node:
        return ["0"]

    def texts(self, values: Sequence[str]) -> Node:
        if len(values) > _FEW:
            apart = dict.fromkeys(values)
            if len(apart) <= len(values) // 4:
                number = {text: index for index, text in enumerate(apart)}
                return ["k", list(apart), self.ints([number[text] for text in values])]
        return ["s", list(values)]

    def bytes_(self, values: Sequence[bytes]) -> Node:
        return ["y", self.ints(list(map(len, values))), self.buffer(b"".join(values))]

    def bytearrays(self, values: Sequence[bytearray]) -> Node:
        return ["x", self.bytes_([bytes(value) for value in values])]

    def tuples(self, values: Sequence[tuple[Any, ...]]) -> Node:
        lengths = set(map(len, values))
        if len(lengths) == 1:
            # `zip(*values)` is slow, because it passes each value as an argument.
            return ["t", [self.column(list(map(itemgetter(part), values))) for part in range(lengths.pop())]]
        return ["T", *self._flat(values)]

    def lists(self, values: Sequence[Sequence[Any]]) -> Node:
        return ["l", *self._flat(values)]

    def sets(self, values: Sequence[Iterable[Any]]) -> Node:
        return ["S", *self._flat([list(value) for value in values])]

    def frozensets(self, values: Sequence[Iterable[Any]]) -> Node:
        return ["F", *self._flat([list(value) for value in values])]

    def _flat(self, values: Sequence[Sequence[Any]]) -> list[Node]:
        flat = list(itertools.chain.from_iterable(values))
        return [self.ints(list(map(len, values))), len(flat), self.column(flat)]

    def dicts(self, values: Sequence[dict[Any, Any]]) -> Node:
        first = tuple(values[0])
        if all(type(key) is str for key in first) and (len(values) == 1 or set(map(tuple, values)) == {first}):
            return ["m", list(first), [self.column([value[key] for value in values]) for key in first]]
        items = [list(value.items()) for value in values]
        flat = list(itertools.chain.from_iterable(items))
        keys, parts = [key for key, _ in flat], [one for _, one in flat]
        return ["M", self.ints(list(map(len, items))), len(flat), self.column(keys), self.column(parts)]

    def datetimes(self, values: Sequence[datetime]) -> Node:
        if all(map(is_, map(_zone_of, values), itertools.repeat(UTC))):
            since = list(map(sub, values, itertools.repeat(EPOCH)))
            if len(since) > _FEW:
                micros = pa.array(since, pa.duration("us")).buffers()[1]
                return ["z", ["q", self.buffer(micros.slice(0, 8 * len(since)).to_pybytes())]]
            return ["z", self.ints([one // MICROSECOND for one in since])]
        folds = [value.fold for value in values]
        local = [(value.replace(tzinfo=None) - EPOCH_WITHOUT_ZONE) // MICROSECOND for value in values]
        return ["Z", self.ints(local), self.ints(folds), self.column([value.tzinfo for value in values])]

    def timedeltas(self, values: Sequence[timedelta]) -> Node:
        return ["w", self.ints([value // MICROSECOND for value in values])]

    def decimals(self, values: Sequence[Decimal]) -> Node:
        return ["D", self.texts(list(map(str, values)))]

    def uuids(self, values: Sequence[UUID]) -> Node:
        return ["U", self.texts(list(map(str, values)))]

    def dates(self, values: Sequence[date]) -> Node:
        return ["j", self.texts([value.isoformat() for value in values])]

    def times(self, values: Sequence[time]) -> Node:
        texts = [value.replace(tzinfo=None).isoformat() for value in values]
        return ["h", self.texts(texts), self.column([value.tzinfo for value in values]), [v.fold for v in values]]

    def complexes(self, values: Sequence[complex]) -> Node:
        return ["c", self.floats([value.real for value in values]), self.floats([value.imag for value in values])]

    def ranges(self, values: Sequence[range]) -> Node:
        return ["r", [[value.start, value.stop, value.step] for value in values]]

    def zones(self, values: Sequence[timezone]) -> Node:
        return ["o", [[value.utcoffset(None) // MICROSECOND, _zone_name(value)] for value in values]]

    def classes(self, values: Sequence[type]) -> Node:
        return ["g", list(map(register, values))]

    def _others(self, kind: type, values: Sequence[Any]) -> Node:
        if issubclass(kind, type):
            return self.classes(values)
        if issubclass(kind, Enum):
            return ["e", register(kind), self.column([value.value for value in values])]
        if issubclass(kind, ZoneInfo):
            return ["n", [_zone_key(value) for value in values]]
        if kind.__module__ == "numpy":
            return self._numpy(values)
        if issubclass(kind, (pa.RecordBatch, pa.Table)):
            return ["a", kind.__name__, self.bytes_([_ipc(value) for value in values])]
        if kind in BUILT_BY_CALL:
            parts = [value.__reduce_ex__(2) for value in values]
            arguments = [part[1] for part in parts]
            return ["p", name_of(kind), self.column(arguments), *self._contents(parts)]
        if issubclass(kind, re.Pattern):
            return ["R", self.column([(value.pattern, value.flags) for value in values])]
        if kind in (FunctionType, BuiltinFunctionType):
            return ["E", list(map(_function_name, values))]
        if kind.__module__.startswith("pandas."):
            return self._pandas(kind, values)
        return self._objects(kind, values)

    def _pandas(self, kind: type, values: Sequence[Any]) -> Node:
        from mullion.bytewax._values import pandas_values

        if not pandas_values.is_supported(kind):
            return self._objects(kind, values)
        try:
            return ["V", kind.__name__, self.column(list(map(pandas_values.parts_of, values)))]
        except pandas_values.UnsupportedDtypeError as dtype:
            raise InvalidArgumentError(
                f"A {kind.__name__} of pandas with the dtype {dtype} cannot be sent between steps or kept in state. "
                "Convert it to a dtype of numpy or pandas with astype(...)."
            ) from None

    def _numpy(self, values: Sequence[Any]) -> Node:
        parts = []
        for value in values:
            if value.dtype.hasobject:
                raise InvalidArgumentError(
                    f"{value!r} is a numpy value of Python objects, which cannot be sent between steps. Send a list."
                )
            shape = value.shape if hasattr(value, "reshape") and type(value).__name__ == "ndarray" else None
            parts.append((str(value.dtype.str), shape, value.tobytes()))
        return ["N", self.column(parts)]

    def _objects(self, kind: type, values: Sequence[Any]) -> Node:
        """Encodes plain objects by their ``__dict__``, and other objects by the result of ``__reduce_ex__``."""
        if _is_plain(kind):
            attributes = [value.__dict__ for value in values]
            return [
                "O",
                register(kind),
                self.dicts(attributes),
                *([1] if has_own_attributes(kind, attributes[0]) else []),
            ]
        parts = []
        for value in values:
            try:
                part = value.__reduce_ex__(2)
            except TypeError as error:
                raise _cannot_cross(value) from error
            if issubclass(kind, (BaseException, date, time)) and isinstance(part, tuple) and part[0] is kind:
                # A subclass may require other arguments than its built-in base.
                part = (copyreg.__newobj__, (kind, *part[1]), *part[2:])  # type: ignore[attr-defined]
            if not isinstance(part, tuple) or part[0] is not copyreg.__newobj__ or len(part) > 5:  # type: ignore[attr-defined]
                raise _cannot_cross(value)
            parts.append(part)
        arguments = [part[1][1:] for part in parts]
        return ["P", register(kind), self.column(arguments), *self._contents(parts)]

    def _contents(self, parts: Sequence[tuple[Any, ...]]) -> list[Node]:
        padded = [(*part, None, None, None)[2:5] for part in parts]
        states = [state for state, _, _ in padded]
        items = [None if listed is None else list(listed) for _, listed, _ in padded]
        pairs = [None if listed is None else list(listed) for _, _, listed in padded]
        return [self.column(states), self.column(items), self.column(pairs)]


_WRITE: dict[type, Callable[[Writer, Any], Node]] = {
    int: Writer.ints,
    float: Writer.floats,
    bool: Writer.bools,
    type(None): Writer.nones,
    str: Writer.texts,
    bytes: Writer.bytes_,
    bytearray: Writer.bytearrays,
    tuple: Writer.tuples,
    list: Writer.lists,
    set: Writer.sets,
    frozenset: Writer.frozensets,
    dict: Writer.dicts,
    datetime: Writer.datetimes,
    timedelta: Writer.timedeltas,
    date: Writer.dates,
    time: Writer.times,
    Decimal: Writer.decimals,
    UUID: Writer.uuids,
    complex: Writer.complexes,
    range: Writer.ranges,
    timezone: Writer.zones,
}


def _is_plain(kind: type) -> bool:
    """True if ``__dict__`` is the complete state of an object of the class."""
    as_objects_do = ("__reduce_ex__", "__reduce__", "__getstate__", "__new__")
    return (
        all(getattr(kind, name) is getattr(object, name) for name in as_objects_do)
        and not any(hasattr(kind, name) for name in ("__setstate__", "__getnewargs__", "__getnewargs_ex__"))
        and kind.__dictoffset__ != 0
        and kind.__basicsize__ == _BASE_SIZE
    )


def has_own_attributes(kind: type, names: Iterable[str]) -> bool:
    """True if ``value.name`` returns the entry of the value's ``__dict__``, for each name."""
    if any("__getattribute__" in vars(one) for one in kind.__mro__[:-1]):
        return False
    return not any(
        hasattr(type(attribute), "__set__") or hasattr(type(attribute), "__delete__")
        for name in names
        for attribute in (inspect.getattr_static(kind, name, None),)
    )


class _Plain:
    pass


_BASE_SIZE = _Plain.__basicsize__


def _cannot_cross(value: Any) -> InvalidArgumentError:
    kind = type(value)
    return InvalidArgumentError(
        f"{value!r} ({kind.__module__}.{kind.__qualname__}) cannot be sent between steps or kept in state. Make it of "
        "numbers, text, bytes, dates, lists, tuples, sets, dicts, dataclasses, values of pandas or other plain objects."
    )


def _function_name(function: Any) -> str:
    if not importable(function):
        raise InvalidArgumentError(
            f"{function!r} cannot be sent between steps or kept in state, because workers find a function by its name. "
            "Define it in a module that they can import, outside of functions, or send data and call it in a step."
        )
    return f"{function.__module__}:{function.__qualname__}"


def _zone_name(zone: timezone) -> str | None:
    arguments: tuple[Any, ...] = zone.__getinitargs__()  # type: ignore[attr-defined]
    return arguments[1] if len(arguments) > 1 else None


def _zone_key(zone: ZoneInfo) -> str:
    if zone.key is None:
        raise InvalidArgumentError(f"{zone!r} is a zone without a name. Use ZoneInfo('Europe/Paris').")
    return zone.key


def _ipc(value: pa.RecordBatch | pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, value.schema) as stream:
        stream.write(value)
    data: bytes = sink.getvalue().to_pybytes()
    return data
