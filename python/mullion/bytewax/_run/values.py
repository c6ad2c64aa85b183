"""Python values as bytes, many at once: column by column, with marks for what a column holds.

What is read is what was written: a tuple stays a tuple, a set a set, a datetime keeps its zone, and an object is one of
its class. Values of one type stand together, so that numbers are written as numbers::

    [("a", 1.5), ("b", 2.5)]     ->    tuple of 2: [str "a", "b"], [float 1.5, 2.5]

Never pickle: it would run what it reads. Classes are named; one that cannot be imported by its name, of a script or of
a function, is looked up among those that this program is known to have (:func:`learn`).
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from mullion._codec.values import decoding, unreadable
from mullion.bytewax._run.names import classes_written, importable, learn, named
from mullion.bytewax._run.reader import Reader
from mullion.bytewax._run.writer import Node, Runs, Writer
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
    """Python's collector of cycles waits: it would look at all values again and again while more are made."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@contextmanager
def collecting_seldom() -> Iterator[None]:
    """Python's collector of cycles runs more seldom, for a task that makes very many values, and keeps most."""
    was = gc.get_threshold()
    gc.set_threshold(100_000, 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*was)


def encode(values: Sequence[Any]) -> bytes:
    """Values as bytes; raises :class:`InvalidArgumentError` for one that cannot be."""
    return _encoded(len(values), lambda writer: writer.column(values))


def encode_columns(columns: Sequence[Sequence[Any]]) -> bytes:
    """The same as :func:`encode` of tuples, by their parts: as many columns of one length."""
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
    """The values of bytes that :func:`encode_columns` made, by their parts."""
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
    """The values of bytes that :func:`encode` made. Raises :class:`DamagedStateError` for other bytes."""
    count, root, reader = _read(written)
    with without_collector():
        return reader.column(root, count)


def encode_one(value: Any) -> bytes:
    """A value as bytes."""
    return encode([value])


def decode_one(written: bytes) -> Any:
    """The value of bytes that :func:`encode_one` made. Raises :class:`DamagedStateError` for other bytes."""
    found = decode(written)
    if len(found) != 1:
        raise unreadable(ValueError(f"{len(found)} values, and not one"))
    return found[0]
