"""Decodes the bytes of the writer into values."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pyarrow as pa

from mullion.bytewax._values.class_names import class_of, function_of
from mullion.bytewax._values.writer import BUILT_BY_CALL, EPOCH, EPOCH_WITHOUT_ZONE, Node

try:
    import numpy as _numpy
except ImportError:
    _numpy = None  # type: ignore[assignment]


def records(names: Sequence[Any], rows: Iterable[Sequence[Any]]) -> list[dict[Any, Any]]:
    """Builds one dict per row. Raises :class:`ValueError` if a row and ``names`` differ in length.

    A dict display takes a third of the time of ``dict(zip(...))``.
    """
    match names:
        case [a]:
            return [{a: one} for (one,) in rows]
        case [a, b]:
            return [{a: one, b: two} for one, two in rows]
        case [a, b, c]:
            return [{a: one, b: two, c: three} for one, two, three in rows]
        case [a, b, c, d]:
            return [{a: one, b: two, c: three, d: four} for one, two, three, four in rows]
        case [a, b, c, d, e]:
            return [{a: one, b: two, c: three, d: four, e: five} for one, two, three, four, five in rows]
    return [dict(zip(names, row, strict=True)) for row in rows]


class Reader:
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
        data, at, values = self._buffers[node[2]], 0, []
        for length in self.column(node[1], count):
            values.append(data[at : at + length])
            at += length
        return values

    def _texts(self, node: Node, count: int) -> list[str]:
        return [text.decode("utf-8") for text in self._bytes(node, count)]

    def _bytearrays(self, node: Node, count: int) -> list[bytearray]:
        return [bytearray(value) for value in self.column(node[1], count)]

    def _union(self, node: Node, count: int) -> list[Any]:
        parts = [iter(self.column(part, length)) for length, part in node[2:]]
        try:
            return [next(parts[number]) for number in self.column(node[1], count)]
        except StopIteration:
            raise ValueError("a part of a column has fewer values than the column takes from it") from None

    def _tuples(self, node: Node, count: int) -> list[tuple[Any, ...]]:
        if not node[1]:
            return [()] * count
        return list(zip(*(self.column(part, count) for part in node[1]), strict=True))

    def _parts(self, node: Node, count: int) -> list[list[Any]]:
        flat, at, parts = self.column(node[3], node[2]), 0, []
        for length in self.column(node[1], count):
            parts.append(flat[at : at + length])
            at += length
        return parts

    def _records(self, node: Node, count: int) -> list[dict[str, Any]]:
        keys = node[1]
        if not keys:
            return [{} for _ in range(count)]
        return records(keys, zip(*(self.column(part, count) for part in node[2]), strict=True))

    def _dicts(self, node: Node, count: int) -> list[dict[Any, Any]]:
        keys, values = self.column(node[3], node[2]), self.column(node[4], node[2])
        at, dicts = 0, []
        for length in self.column(node[1], count):
            end = at + length
            dicts.append(dict(zip(keys[at:end], values[at:end], strict=True)))
            at = end
        return dicts

    def _in_utc(self, node: Node, count: int) -> list[datetime]:
        return list(map(EPOCH.__add__, self._timedeltas(node, count)))

    def _in_zones(self, node: Node, count: int) -> list[datetime]:
        local, folds, zones = (self.column(part, count) for part in node[1:])
        return [
            (EPOCH_WITHOUT_ZONE + timedelta(0, 0, us)).replace(tzinfo=zone, fold=fold)
            for us, fold, zone in zip(local, folds, zones, strict=True)
        ]

    def _timedeltas(self, node: Node, count: int) -> list[timedelta]:
        of = node[1]
        if _numpy is not None and of[0] == "q":
            # numpy, if installed, is six times as fast.
            lengths: list[timedelta] = _numpy.frombuffer(self._buffers[of[1]], "m8[us]").tolist()
            return lengths
        return [timedelta(0, 0, us) for us in self.column(of, count)]

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
        return [class_of(name) for name in node[1]]

    def _enums(self, node: Node, count: int) -> list[Any]:
        kind = class_of(node[1])
        if not issubclass(kind, Enum):
            raise ValueError(f"{node[1]} is not an enumeration")
        return [kind(value) for value in self.column(node[2], count)]

    def _zones(self, node: Node, count: int) -> list[ZoneInfo]:
        return [ZoneInfo(key) for key in node[1]]

    def _numpy(self, node: Node, count: int) -> list[Any]:
        import numpy as np

        arrays = []
        for kind, shape, data in self.column(node[1], count):
            flat = np.frombuffer(data, dtype=kind)
            arrays.append(flat[0] if shape is None else flat.reshape(shape).copy())
        return arrays

    def _arrow(self, node: Node, count: int) -> list[Any]:
        tables = [pa.ipc.open_stream(data).read_all() for data in self.column(node[2], count)]
        return tables if node[1] == "Table" else [_one_batch(table) for table in tables]

    def _plain(self, node: Node, count: int) -> list[Any]:
        kind = class_of(node[1])
        values = []
        for attributes in self.column(node[2], count):
            value = object.__new__(kind)
            if kind.__dictoffset__:
                value.__dict__.update(attributes)
            else:  # A class with slots. Its copy has a `__dict__` in processes that received it by value.
                _set_slots(value, attributes)
            values.append(value)
        return values

    def _instances(self, node: Node, count: int) -> list[Any]:
        kind = class_of(node[1])
        if kind not in BUILT_BY_CALL:
            raise ValueError(f"{node[1]} is not called to build a value")
        return self._filled([kind(*arguments) for arguments in self.column(node[2], count)], node, count)

    def _pandas(self, node: Node, count: int) -> list[Any]:
        from mullion.bytewax._values.pandas_values import value_of

        return [value_of(node[1], parts) for parts in self.column(node[2], count)]

    def _patterns(self, node: Node, count: int) -> list[re.Pattern[Any]]:
        return [re.compile(pattern, flags) for pattern, flags in self.column(node[1], count)]

    def _functions(self, node: Node, count: int) -> list[Any]:
        return list(map(function_of, node[1]))

    def _objects(self, node: Node, count: int) -> list[Any]:
        kind = class_of(node[1])
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
    attributes, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    if attributes:
        value.__dict__.update(attributes)
    _set_slots(value, slots or {})


def _set_slots(value: Any, slots: Mapping[str, Any]) -> None:
    for name, one in slots.items():
        object.__setattr__(value, name, one)


def _offset(us: int, name: str | None) -> tzinfo:
    offset = timedelta(microseconds=us)
    return timezone(offset) if name is None else timezone(offset, name)


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


def _of_parts(kind: Callable[[list[Any]], Any]) -> Callable[[Reader, Node, int], list[Any]]:
    return lambda reader, node, count: [kind(part) for part in reader._parts(node, count)]


def _of_text(kind: Callable[[str], Any]) -> Callable[[Reader, Node, int], list[Any]]:
    return lambda reader, node, count: [kind(text) for text in reader.column(node[1], count)]


_READ: dict[str, Callable[[Reader, Node, int], list[Any]]] = {
    "=": Reader._constant,
    "0": Reader._nones,
    "D": _of_text(Decimal),
    "E": Reader._functions,
    "F": _of_parts(frozenset),
    "M": Reader._dicts,
    "N": Reader._numpy,
    "O": Reader._plain,
    "P": Reader._objects,
    "R": Reader._patterns,
    "S": _of_parts(set),
    "T": _of_parts(tuple),
    "U": _of_text(UUID),
    "Z": Reader._in_zones,
    "a": Reader._arrow,
    "b": Reader._bools,
    "c": Reader._complexes,
    "d": Reader._doubles,
    "e": Reader._enums,
    "f": Reader._literal,
    "g": Reader._classes,
    "h": Reader._times,
    "i": Reader._literal,
    "j": _of_text(date.fromisoformat),
    "k": Reader._repeated,
    "l": Reader._parts,
    "m": Reader._records,
    "n": Reader._zones,
    "o": Reader._offsets,
    "p": Reader._instances,
    "V": Reader._pandas,
    "q": Reader._longs,
    "r": Reader._ranges,
    "s": Reader._literal,
    "t": Reader._tuples,
    "u": Reader._union,
    "v": Reader._texts,
    "w": Reader._timedeltas,
    "x": Reader._bytearrays,
    "y": Reader._bytes,
    "z": Reader._in_utc,
}
