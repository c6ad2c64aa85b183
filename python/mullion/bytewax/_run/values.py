"""Python values as bytes, many at once: column by column, with marks for what a column holds.

What is read is what was written: a tuple stays a tuple, a set a set, a datetime keeps its zone, and an object is one of
its class. Values of one type stand together, so that numbers are written as numbers::

    [("a", 1.5), ("b", 2.5)]     ->    tuple of 2: [str "a", "b"], [float 1.5, 2.5]

Never pickle: it would run what it reads. Classes are named; one that cannot be imported by its name, of a script or of
a function, is looked up among those that this program is known to have (:func:`learn`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from mullion.bytewax._run.names import importable, learn, named, own_classes
from mullion.bytewax._run.reader import Reader
from mullion.bytewax._run.writer import Writer
from mullion.errors import InvalidArgumentError

__all__ = ["decode", "decode_one", "encode", "encode_one", "importable", "learn", "named", "own_classes"]


def encode(values: Sequence[Any]) -> bytes:
    """Values as bytes; raises :class:`InvalidArgumentError` for one that cannot be."""
    writer = Writer()
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
    return Reader(buffers).column(root, count)


def encode_one(value: Any) -> bytes:
    """A value as bytes."""
    return encode([value])


def decode_one(written: bytes) -> Any:
    """The value of bytes that :func:`encode_one` made."""
    return decode(written)[0]
