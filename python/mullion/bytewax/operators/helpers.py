"""Helper functions for operators, as in ``bytewax.operators.helpers``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")

__all__ = ["map_dict_value"]


def map_dict_value(key: K, mapper: Callable[[V], V]) -> Callable[[dict[K, V]], dict[K, V]]:
    """Returns a mapper of dicts that replaces the value of one key in place."""

    def mapped(item: dict[K, V]) -> dict[K, V]:
        item[key] = mapper(item[key])
        return item

    return mapped
