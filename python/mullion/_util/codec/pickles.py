"""Conversion of objects to bytes and back with pickle, for user classes that opt in with ``pickle=True``.

Reading runs code of whoever wrote the bytes, so nothing else may call this module.
"""

from __future__ import annotations

import pickle
from typing import Any

from pyspark import cloudpickle


def encode(value: Any) -> bytes:
    """An object as bytes. Classes of the main program go by value: workers cannot import them."""
    written: bytes = cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    return written


def decode(written: bytes) -> Any:
    """The object of bytes of :func:`encode`."""
    return pickle.loads(written)  # noqa: S301
