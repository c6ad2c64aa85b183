"""Describes the variables outside of a function that it changes, where each Python worker has its own copy of them.

::

    counts = {}

    def add(batch):                       worker 1: {"a": 3}       worker 2: {}       the program: {}
        counts[batch.key] += 1
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from mullion._pyfunction.outside_writes import outside_writes


def keeps_changes(value: Any) -> bool:
    """True for the project's own objects, such as tables."""
    return type(value).__module__.partition(".")[0] == "mullion"


def lost_changes(functions: Iterable[Callable[..., Any]]) -> str:
    """The variables that functions change outside of themselves, with their places; empty if there are none.

    The result is part of a sentence: ``'counts' (count.py:7), 'seen' (count.py:9)``.
    """
    writes = [write for function in functions for write in outside_writes(function, keeps_changes)]
    return ", ".join(dict.fromkeys(f"{write.name!r} ({write.where})" for write in writes))
