"""Encodes many Python values as bytes, column by column, with a type tag for each column.

Decoding restores the types: a tuple stays a tuple and a set a set, a datetime keeps its zone, and an object its class.
Values of one type are stored together, so that numbers are written as binary arrays::

    [("a", 1.5), ("b", 2.5)]     ->    tuple of 2: [str "a", "b"], [float 1.5, 2.5]

The format never uses pickle, because unpickling runs code from the data. Classes are stored by name. Classes of a
script or a function, which cannot be imported, are looked up in the registry of :func:`learn`.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from mullion._util.codec.values import decoding, unreadable
from mullion.bytewax._values.class_names import classes_written, importable, learn, named
from mullion.bytewax._values.reader import Reader
from mullion.bytewax._values.writer import Node, Runs, Writer
from mullion.errors import InvalidArgumentError

__all__ = [
    "Runs",
    "classes_written",
    "collecting_seldom",
    "decode",
    "decode_columns",
    "decode_one",
    "encode",
    "encode_columns",
    "encode_one",
    "importable",
    "learn",
    "named",
]


@contextmanager
def without_collector() -> Iterator[None]:
    """Disables Python's cyclic garbage collector, which would traverse all values repeatedly while more are created."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def collecting_seldom() -> Iterator[None]:
    """Runs Python's cyclic garbage collector less often, for a task that creates many values and keeps most of them."""
    threshold = gc.get_threshold()
    gc.set_threshold(100_000, 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*threshold)


def encode(values: Sequence[Any]) -> bytes:
    """Encodes values. Raises :class:`InvalidArgumentError` for an unsupported value."""
    return _encoded(len(values), lambda writer: writer.column(values))


def encode_columns(columns: Sequence[Sequence[Any]]) -> bytes:
    """Encodes columns of one length, like :func:`encode` of the tuples of their rows."""
    return _encoded(len(columns[0]), lambda writer: ["t", list(map(writer.column, columns))])


def _encoded(count: int, write: Callable[[Writer], Node]) -> bytes:
    writer = Writer()
    try:
        with without_collector():
            root = write(writer)
    except RecursionError:
        raise InvalidArgumentError(
            "A value refers to itself, or is nested too deeply to be sent between steps. Send the parts that the next "
            "step needs."
        ) from None
    head = json.dumps([count, root, list(map(len, writer.buffers))], separators=(",", ":")).encode()
    return b"".join((len(head).to_bytes(4, "big"), head, *writer.buffers))


@decoding
def decode_columns(written: bytes, parts: int) -> list[list[Any]]:
    """Decodes the columns of bytes from :func:`encode_columns`. Raises :class:`DamagedStateError` for other bytes."""
    count, root, reader = _read(written)
    with without_collector():
        if root is not None and root[0] == "t":
            return [reader.column(part, count) for part in root[1]]
        return list(map(list, zip(*reader.column(root, count), strict=True))) or [[] for _ in range(parts)]


def _read(written: bytes) -> tuple[int, Node, Reader]:
    end = 4 + int.from_bytes(written[:4], "big")
    count, root, lengths = json.loads(written[4:end])
    buffers = []
    for length in lengths:
        buffers.append(written[end : end + length])
        end += length
    return count, root, Reader(buffers)


@decoding
def decode(written: bytes) -> list[Any]:
    """Decodes the values of bytes from :func:`encode`. Raises :class:`DamagedStateError` for other bytes."""
    count, root, reader = _read(written)
    with without_collector():
        return reader.column(root, count)


def encode_one(value: Any) -> bytes:
    """Encodes one value. Raises :class:`InvalidArgumentError` for an unsupported value."""
    return encode([value])


def decode_one(written: bytes) -> Any:
    """Decodes the value of bytes from :func:`encode_one`. Raises :class:`DamagedStateError` for other bytes."""
    values = decode(written)
    if len(values) != 1:
        raise unreadable(ValueError(f"{len(values)} values, and not one"))
    return values[0]
