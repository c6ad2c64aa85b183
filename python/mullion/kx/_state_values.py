"""What ``accumulate``, ``reduce`` and ``merge`` keep between batches, as bytes: Arrow tables, and plain values.

Never pickled: a checkpoint outlives the versions of what it was written by.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from mullion._codec import arrow, values
from mullion.errors import InvalidArgumentError

_TABLE, _PLAIN = b"T", b"V"


def encoded_value(value: Any, what: str) -> bytes:
    """A value as bytes; raises :class:`InvalidArgumentError` for what would not be read back as it is."""
    if isinstance(value, (pa.Table, pa.RecordBatch)):
        return _TABLE + arrow.encoded(value)
    try:
        return _PLAIN + values.encode(value, what)
    except InvalidArgumentError:
        shown = repr(value)
        raise InvalidArgumentError(
            f"{what} is or holds what cannot be kept between batches: {shown[:200]} ({type(value).__name__}). Keep an "
            "Arrow table, or numbers, texts, dates, lists, tuples, dicts, sets and dataclasses of these; of NumPy's "
            "and Arrow's scalars what .item() and .as_py() give."
        ) from None


def decoded_value(written: bytes) -> Any:
    """What :func:`encoded_value` was given; a RecordBatch as a Table."""
    return arrow.table_in(written[1:]) if written[:1] == _TABLE else values.decode(written[1:])
