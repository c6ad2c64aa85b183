"""Keys of tables as bytes: keys that are equal in a dict have equal bytes."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from mullion._util.codec import values
from mullion.errors import InvalidArgumentError


def encode_key(key: Any, table: str) -> bytes:
    """Encodes a key. Raises :class:`InvalidArgumentError` for ``None`` and for unsupported types."""
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
    if isinstance(key, np.generic):
        key = key.item()
    # 1, 1.0 and NumPy's equal numbers are one key of a dict.
    return values.encode(int(key) if type(key) is float and key.is_integer() else key, f"the key of {table!r}")
