"""Conversion of objects to bytes and back with pickle, for user classes that opt in with ``pickle=True``.

Unpickling runs code that the bytes contain, so nothing else may call this module.
"""

from __future__ import annotations

import pickle
from typing import Any

from pyspark import cloudpickle


def encode(value: Any) -> bytes:
    """Pickles an object. Classes of the main program are pickled by value, because workers cannot import them."""
    written: bytes = cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    return written


def decode(written: bytes) -> Any:
    """Restores an object that :func:`encode` pickled."""
    return pickle.loads(written)  # noqa: S301
