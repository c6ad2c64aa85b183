"""Copies of items at the moment they are emitted.

A sink or a stateful step receives its items at the end of the micro-batch. Until then the program may change an object
that it has already emitted::

    def update(state, item):
        state["count"] += 1
        return state, state        emits the same dict each time

In Bytewax, the next step receives the object at once. A copy gives the same result.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from itertools import chain, islice
from typing import Any, Final
from uuid import UUID

_IMMUTABLE: Final = frozenset(
    {int, float, complex, bool, type(None), str, bytes, date, datetime, time, timedelta, timezone, Decimal, UUID, range}
)


def copied(values: Sequence[Any]) -> list[Any]:
    """Copies values, so that later changes to mutable objects do not affect the result."""
    try:
        return _copied(values)
    except RecursionError:  # A value that contains itself cannot be sent: its step's error names it.
        return list(values)


def _copied(values: Sequence[Any]) -> list[Any]:
    """Copies values of one type together: most items are tuples and dicts of immutable values."""
    kinds = set(map(type, values))
    if kinds <= _IMMUTABLE:
        return list(values)
    if len(kinds) > 1:
        return [value if type(value) in _IMMUTABLE else _copied((value,))[0] for value in values]
    (kind,) = kinds
    if kind is tuple or kind is list:
        flat = list(chain.from_iterable(values))
        if _IMMUTABLE.issuperset(map(type, flat)):
            return list(values) if kind is tuple else list(map(list.copy, values))
        parts = iter(_copied(flat))
        return [kind(islice(parts, len(value))) for value in values]
    if kind is dict and _IMMUTABLE.issuperset(map(type, chain.from_iterable(values))):
        flat = list(chain.from_iterable(map(dict.values, values)))
        if _IMMUTABLE.issuperset(map(type, flat)):
            return list(map(dict.copy, values))
        parts = iter(_copied(flat))
        return [dict(zip(value, islice(parts, len(value)), strict=True)) for value in values]
    return [_copied_alone(value) for value in values]


def _copied_alone(value: Any) -> Any:
    try:
        return copy.deepcopy(value)
    except Exception:  # A value that cannot be copied cannot be sent either: its step's error names it.
        return value
