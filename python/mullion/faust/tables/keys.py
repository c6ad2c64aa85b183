"""Keys of tables as bytes: equal keys of a dict are equal bytes."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from mullion._codec import values
from mullion.errors import InvalidArgumentError


def encode_key(key: Any, table: str) -> bytes:
    """A key as bytes; ``None``, and what cannot be kept, is an :class:`InvalidArgumentError`."""
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
    # 1.0 and 1 are one key of a dict, and so are NumPy's.
    return values.encode(int(key) if type(key) is float and key.is_integer() else key, f"the key of {table!r}")
