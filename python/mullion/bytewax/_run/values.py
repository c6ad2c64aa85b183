"""Python values as bytes, many at once: column by column, with marks for what a column holds.

What is read is what was written: a tuple stays a tuple, a set a set, a datetime keeps its zone, and an object is one of
its class. Values of one type stand together, so that numbers are written as numbers::

    [("a", 1.5), ("b", 2.5)]     ->    tuple of 2: [str "a", "b"], [float 1.5, 2.5]

Never pickle: it would run what it reads. Classes are named; one that cannot be imported by its name, of a script or of
a function, is looked up among those that this program is known to have (:func:`learn`).
"""

from __future__ import annotations

import importlib
import itertools
import json
import sys
from array import array
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from types import SimpleNamespace
from typing import Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo

import pyarrow as pa
from pyspark import cloudpickle

from mullion.errors import InvalidArgumentError

_MICROSECOND: Final = timedelta(microseconds=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_WITHOUT_ZONE: Final = datetime(1970, 1, 1)
_FEW: Final = 16
"""So many numbers stand in the header, more of them in a buffer of their own."""

_MADE_BY_THEIR_CLASS: Final = (OrderedDict, Counter, defaultdict, deque, Fraction, SimpleNamespace)

Node = Any


def encode(values: Sequence[Any]) -> bytes:
    """Values as bytes; raises :class:`InvalidArgumentError` for one that cannot be."""
    writer = _Writer()
    try:
        root = writer.column(values)
    except RecursionError:
        raise InvalidArgumentError(
            "A value refers to itself, or is nested too deeply to be sent between steps. Send the parts that the next "
            "step needs."
        ) from None
    head = json.dumps([len(values), root, list(map(len, writer.buffers))], separators=(",", ":")).encode()
    return b"".join((len(head).to_bytes(4, "big"), head, *writer.buffers))


def decode(written: bytes) -> list[Any]:
    """The values of bytes that :func:`encode` made."""
    end = 4 + int.from_bytes(written[:4], "big")
    count, root, lengths = json.loads(written[4:end])
    buffers = []
    for length in lengths:
        buffers.append(written[end : end + length])
        end += length
    return _Reader(buffers).column(root, count)


def encode_one(value: Any) -> bytes:
    """A value as bytes."""
    return encode([value])


def decode_one(written: bytes) -> Any:
    """The value of bytes that :func:`encode_one` made."""
    return decode(written)[0]


_known: dict[str, type] = {}
_names: dict[type, str] = {}


def own_classes() -> dict[str, type]:
    """The classes that values were seen to have, or that were learned, and that nobody can import, by their names."""
    return {name: kind for name, kind in _known.items() if not importable(kind)}


def learn(classes: Mapping[str, type]) -> None:
    """Classes by whose names values are read, for they cannot be imported.

    A class that came from another process may have forgotten what it was defined in: here it is called as it was there.
    """
    for name, kind in classes.items():
        _known[name] = kind
        _names[kind] = name


def named(classes: Iterable[type]) -> dict[str, type]:
    """Classes by their names."""
    return {_name(kind): kind for kind in classes}


def _seen(kind: type) -> str:
    name = _name(kind)
    _known[name] = kind
    return name


def _by_value() -> set[str]:
    found: set[str] = cloudpickle.list_registry_pickle_by_value()  # type: ignore[no-untyped-call]
    return found


def importable(kind: type) -> bool:
    """Whether a class is found under its name by who imports its module."""
    module: Any = sys.modules.get(kind.__module__)
    if module is None or kind.__module__ == "__main__" or kind.__module__ in _by_value():
        return False
    for part in kind.__qualname__.split("."):
        module = getattr(module, part, None)
    return module is kind


def _name(kind: type) -> str:
    return _names.get(kind) or f"{kind.__module__}:{kind.__qualname__}"


def _class(name: str) -> Any:
    if name not in _known:
        module, _, path = name.partition(":")
        try:
            found: Any = sys.modules.get(module) or importlib.import_module(module)
            for part in path.split("."):
                found = getattr(found, part)
        except (ImportError, AttributeError) as missing:
            raise InvalidArgumentError(
                f"A value is of the class {name!r}, which is not to be found where it is read: {missing}. Define it in "
                "a module that the workers can import, outside of functions, under the name that it had."
            ) from missing
        _known[name] = found
    return _known[name]


class _Writer:
    def __init__(self) -> None:
        self.buffers: list[bytes] = []

    def column(self, values: Sequence[Any]) -> Node:
        kinds = set(map(type, values))
        if len(kinds) == 1:
            kind = kinds.pop()
            write = _WRITE.get(kind)
            return write(self, values) if write is not None else self._others(kind, values)
        if not kinds:
            return None
        return self._union(kinds, values)

    def _union(self, kinds: set[type], values: Sequence[Any]) -> Node:
        """Values of several types: which one each is of, then a column for each type."""
        order = {kind: number for number, kind in enumerate(sorted(kinds, key=_name))}
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
            return ["t", [self.column(part) for part in zip(*values, strict=True)]]
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
        keys, held = [key for key, _ in flat], [one for _, one in flat]
        return ["M", self.ints(list(map(len, items))), len(flat), self.column(keys), self.column(held)]

    def datetimes(self, values: Sequence[datetime]) -> Node:
        if {id(value.tzinfo) for value in values} == {id(UTC)}:
            return ["z", self.ints([(value - _EPOCH) // _MICROSECOND for value in values])]
        folds = [value.fold for value in values]
        local = [(value.replace(tzinfo=None) - _EPOCH_WITHOUT_ZONE) // _MICROSECOND for value in values]
        return ["Z", self.ints(local), self.ints(folds), self.column([value.tzinfo for value in values])]

    def timedeltas(self, values: Sequence[timedelta]) -> Node:
        return ["w", self.ints([value // _MICROSECOND for value in values])]

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
        return ["o", [[value.utcoffset(None) // _MICROSECOND, _zone_name(value)] for value in values]]

    def classes(self, values: Sequence[type]) -> Node:
        return ["g", list(map(_seen, values))]

    def _others(self, kind: type, values: Sequence[Any]) -> Node:
        if issubclass(kind, type):
            return self.classes(values)
        if issubclass(kind, Enum):
            return ["e", _seen(kind), self.column([value.value for value in values])]
        if issubclass(kind, ZoneInfo):
            return ["n", [_zone_key(value) for value in values]]
        if kind.__module__ == "numpy":
            return self._numpy(values)
        if issubclass(kind, (pa.RecordBatch, pa.Table)):
            return ["a", kind.__name__, self.bytes_([_ipc(value) for value in values])]
        if kind in _MADE_BY_THEIR_CLASS:
            parts = [value.__reduce_ex__(2) for value in values]
            arguments = [part[1] for part in parts]
            return ["p", _name(kind), self.column(arguments), *self._contents(parts)]
        return self._objects(kind, values)

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
        """Objects as their class and what they hold, for those that do not say otherwise."""
        import copyreg

        if _is_plain(kind):
            return ["O", _seen(kind), self.dicts([value.__dict__ for value in values])]
        parts = []
        for value in values:
            try:
                part = value.__reduce_ex__(2)
            except TypeError as error:
                raise _cannot_cross(value) from error
            if not isinstance(part, tuple) or part[0] is not copyreg.__newobj__ or len(part) > 5:  # type: ignore[attr-defined]
                raise _cannot_cross(value)
            parts.append(part)
        arguments = [part[1][1:] for part in parts]
        return ["P", _seen(kind), self.column(arguments), *self._contents(parts)]

    def _contents(self, parts: Sequence[tuple[Any, ...]]) -> list[Node]:
        padded = [(*part, None, None, None)[2:5] for part in parts]
        states = [state for state, _, _ in padded]
        items = [None if listed is None else list(listed) for _, listed, _ in padded]
        pairs = [None if listed is None else list(listed) for _, _, listed in padded]
        return [self.column(states), self.column(items), self.column(pairs)]


_WRITE: dict[type, Callable[[_Writer, Any], Node]] = {
    int: _Writer.ints,
    float: _Writer.floats,
    bool: _Writer.bools,
    type(None): _Writer.nones,
    str: _Writer.texts,
    bytes: _Writer.bytes_,
    bytearray: _Writer.bytearrays,
    tuple: _Writer.tuples,
    list: _Writer.lists,
    set: _Writer.sets,
    frozenset: _Writer.frozensets,
    dict: _Writer.dicts,
    datetime: _Writer.datetimes,
    timedelta: _Writer.timedeltas,
    date: _Writer.dates,
    time: _Writer.times,
    Decimal: _Writer.decimals,
    UUID: _Writer.uuids,
    complex: _Writer.complexes,
    range: _Writer.ranges,
    timezone: _Writer.zones,
}


def _is_plain(kind: type) -> bool:
    """Whether an object of the class is what its ``__dict__`` says, and no more."""
    as_objects_do = ("__reduce_ex__", "__reduce__", "__getstate__", "__new__")
    return (
        all(getattr(kind, name) is getattr(object, name) for name in as_objects_do)
        and not any(hasattr(kind, name) for name in ("__setstate__", "__getnewargs__", "__getnewargs_ex__"))
        and kind.__dictoffset__ != 0
        and kind.__basicsize__ == _BASE_SIZE
    )


class _Plain:
    pass


_BASE_SIZE = _Plain.__basicsize__


def _cannot_cross(value: Any) -> InvalidArgumentError:
    kind = type(value)
    return InvalidArgumentError(
        f"{value!r} ({kind.__module__}.{kind.__qualname__}) cannot be sent between steps or kept in state. Make it of "
        "numbers, text, bytes, dates, lists, tuples, sets, dicts, dataclasses or other plain objects; a DataFrame of "
        "pandas becomes an Arrow table with pyarrow.Table.from_pandas(frame)."
    )


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
    found: bytes = sink.getvalue().to_pybytes()
    return found


class _Reader:
    def __init__(self, buffers: list[bytes]) -> None:
        self._buffers = buffers

    def column(self, node: Node, count: int) -> list[Any]:
        if node is None:
            return []
        return _READ[node[0]](self, node, count)

    def _literal(self, node: Node, count: int) -> list[Any]:
        return list(node[1])

    def _constant(self, node: Node, count: int) -> list[int]:
        return [node[1]] * count

    def _longs(self, node: Node, count: int) -> list[int]:
        return self._numbers("q", node)

    def _doubles(self, node: Node, count: int) -> list[float]:
        return self._numbers("d", node)

    def _numbers(self, code: str, node: Node) -> list[Any]:
        numbers: array[Any] = array(code)
        numbers.frombytes(self._buffers[node[1]])
        return numbers.tolist()

    def _bools(self, node: Node, count: int) -> list[bool]:
        return [bool(value) for value in node[1]]

    def _nones(self, node: Node, count: int) -> list[None]:
        return [None] * count

    def _repeated(self, node: Node, count: int) -> list[str]:
        texts = node[1]
        return [texts[number] for number in self.column(node[2], count)]

    def _bytes(self, node: Node, count: int) -> list[bytes]:
        data, at, found = self._buffers[node[2]], 0, []
        for length in self.column(node[1], count):
            found.append(data[at : at + length])
            at += length
        return found

    def _bytearrays(self, node: Node, count: int) -> list[bytearray]:
        return [bytearray(value) for value in self.column(node[1], count)]

    def _union(self, node: Node, count: int) -> list[Any]:
        parts = [iter(self.column(part, length)) for length, part in node[2:]]
        return [next(parts[number]) for number in self.column(node[1], count)]

    def _tuples(self, node: Node, count: int) -> list[tuple[Any, ...]]:
        if not node[1]:
            return [()] * count
        return list(zip(*(self.column(part, count) for part in node[1]), strict=True))

    def _parts(self, node: Node, count: int) -> list[list[Any]]:
        flat, at, found = self.column(node[3], node[2]), 0, []
        for length in self.column(node[1], count):
            found.append(flat[at : at + length])
            at += length
        return found

    def _records(self, node: Node, count: int) -> list[dict[str, Any]]:
        keys = node[1]
        if not keys:
            return [{} for _ in range(count)]
        columns = [self.column(part, count) for part in node[2]]
        return [dict(zip(keys, row, strict=True)) for row in zip(*columns, strict=True)]

    def _dicts(self, node: Node, count: int) -> list[dict[Any, Any]]:
        keys, values = self.column(node[3], node[2]), self.column(node[4], node[2])
        at, found = 0, []
        for length in self.column(node[1], count):
            end = at + length
            found.append(dict(zip(keys[at:end], values[at:end], strict=True)))
            at = end
        return found

    def _in_utc(self, node: Node, count: int) -> list[datetime]:
        return [_EPOCH + timedelta(0, 0, us) for us in self.column(node[1], count)]

    def _in_zones(self, node: Node, count: int) -> list[datetime]:
        local, folds, zones = (self.column(part, count) for part in node[1:])
        return [
            (_EPOCH_WITHOUT_ZONE + timedelta(0, 0, us)).replace(tzinfo=zone, fold=fold)
            for us, fold, zone in zip(local, folds, zones, strict=True)
        ]

    def _timedeltas(self, node: Node, count: int) -> list[timedelta]:
        return [timedelta(0, 0, us) for us in self.column(node[1], count)]

    def _times(self, node: Node, count: int) -> list[time]:
        texts, zones = self.column(node[1], count), self.column(node[2], count)
        return [
            time.fromisoformat(text).replace(tzinfo=zone, fold=fold)
            for text, zone, fold in zip(texts, zones, node[3], strict=True)
        ]

    def _complexes(self, node: Node, count: int) -> list[complex]:
        return list(map(complex, self.column(node[1], count), self.column(node[2], count)))

    def _ranges(self, node: Node, count: int) -> list[range]:
        return [range(*parts) for parts in node[1]]

    def _offsets(self, node: Node, count: int) -> list[tzinfo]:
        return [_offset(us, name) for us, name in node[1]]

    def _classes(self, node: Node, count: int) -> list[Any]:
        return [_class(name) for name in node[1]]

    def _enums(self, node: Node, count: int) -> list[Any]:
        kind = _class(node[1])
        return [kind(value) for value in self.column(node[2], count)]

    def _zones(self, node: Node, count: int) -> list[ZoneInfo]:
        return [ZoneInfo(key) for key in node[1]]

    def _numpy(self, node: Node, count: int) -> list[Any]:
        import numpy as np

        found = []
        for kind, shape, data in self.column(node[1], count):
            values = np.frombuffer(data, dtype=kind)
            found.append(values[0] if shape is None else values.reshape(shape).copy())
        return found

    def _arrow(self, node: Node, count: int) -> list[Any]:
        tables = [pa.ipc.open_stream(data).read_all() for data in self.column(node[2], count)]
        return tables if node[1] == "Table" else [_one_batch(table) for table in tables]

    def _plain(self, node: Node, count: int) -> list[Any]:
        kind = _class(node[1])
        found = []
        for held in self.column(node[2], count):
            value = object.__new__(kind)
            value.__dict__.update(held)
            found.append(value)
        return found

    def _made(self, node: Node, count: int) -> list[Any]:
        kind = _class(node[1])
        return self._filled([kind(*arguments) for arguments in self.column(node[2], count)], node, count)

    def _objects(self, node: Node, count: int) -> list[Any]:
        kind = _class(node[1])
        return self._filled([kind.__new__(kind, *one) for one in self.column(node[2], count)], node, count)

    def _filled(self, values: list[Any], node: Node, count: int) -> list[Any]:
        states, items, pairs = (self.column(part, count) for part in node[3:6])
        for value, state, listed, paired in zip(values, states, items, pairs, strict=True):
            if state is not None:
                _set_state(value, state)
            if listed is not None:
                value.extend(listed)
            if paired is not None:
                for key, one in paired:
                    value[key] = one
        return values


def _set_state(value: Any, state: Any) -> None:
    if hasattr(value, "__setstate__"):
        value.__setstate__(state)
        return
    held, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    if held:
        value.__dict__.update(held)
    for name, one in (slots or {}).items():
        object.__setattr__(value, name, one)


def _offset(us: int, name: str | None) -> tzinfo:
    offset = timedelta(microseconds=us)
    return timezone(offset) if name is None else timezone(offset, name)


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


def _of_parts(kind: Callable[[list[Any]], Any]) -> Callable[[_Reader, Node, int], list[Any]]:
    return lambda reader, node, count: [kind(part) for part in reader._parts(node, count)]


def _of_text(kind: Callable[[str], Any]) -> Callable[[_Reader, Node, int], list[Any]]:
    return lambda reader, node, count: [kind(text) for text in reader.column(node[1], count)]


_READ: dict[str, Callable[[_Reader, Node, int], list[Any]]] = {
    "=": _Reader._constant,
    "0": _Reader._nones,
    "D": _of_text(Decimal),
    "F": _of_parts(frozenset),
    "M": _Reader._dicts,
    "N": _Reader._numpy,
    "O": _Reader._plain,
    "P": _Reader._objects,
    "S": _of_parts(set),
    "T": _of_parts(tuple),
    "U": _of_text(UUID),
    "Z": _Reader._in_zones,
    "a": _Reader._arrow,
    "b": _Reader._bools,
    "c": _Reader._complexes,
    "d": _Reader._doubles,
    "e": _Reader._enums,
    "f": _Reader._literal,
    "g": _Reader._classes,
    "h": _Reader._times,
    "i": _Reader._literal,
    "j": _of_text(date.fromisoformat),
    "k": _Reader._repeated,
    "l": _Reader._parts,
    "m": _Reader._records,
    "n": _Reader._zones,
    "o": _Reader._offsets,
    "p": _Reader._made,
    "q": _Reader._longs,
    "r": _Reader._ranges,
    "s": _Reader._literal,
    "t": _Reader._tuples,
    "u": _Reader._union,
    "w": _Reader._timedeltas,
    "x": _Reader._bytearrays,
    "y": _Reader._bytes,
    "z": _Reader._in_utc,
}
