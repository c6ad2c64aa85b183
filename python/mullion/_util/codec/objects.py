"""Conversion of the state of Python functions to bytes and back: Arrow tables, and the values of ``values``.

Never pickled: a checkpoint outlives the versions of the classes in it, and unpickling runs code.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from mullion._util.codec import arrow, values
from mullion.errors import InvalidArgumentError

_TABLE, _PLAIN = b"T", b"V"


def encode(value: Any, what: str) -> bytes:
    """A value as bytes. Raises an :class:`InvalidArgumentError` for one that would not be read back as it is."""
    if isinstance(value, (pa.Table, pa.RecordBatch)):
        return _TABLE + arrow.encoded(value)
    try:
        return _PLAIN + values.encode(value, what)
    except InvalidArgumentError:
        shown = repr(value)
        raise InvalidArgumentError(
            f"{what} is or holds a value that cannot be kept between batches: {shown[:200]} ({type(value).__name__}). "
            "Keep an Arrow table, or numbers, texts, dates, lists, tuples, dicts, sets, dataclasses and NumPy arrays; "
            "of NumPy's and Arrow's scalars the results of .item() and .as_py()."
        ) from None


def decode(written: bytes) -> Any:
    """The value of bytes of :func:`encode`; a RecordBatch as a Table."""
    return arrow.table_in(written[1:]) if written[:1] == _TABLE else values.decode(written[1:])
