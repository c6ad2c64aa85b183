"""Describes the variables outside of a function that it changes, where each Python worker has its own copy of them.

::

    counts = {}

    def add(batch):                       worker 1: {"a": 3}       worker 2: {}       the program: {}
        counts[batch.key] += 1
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from mullion._pyfunction.outside_writes import outside_writes


def keeps_changes(value: Any) -> bool:
    """True for the project's own objects, such as tables."""
    return type(value).__module__.partition(".")[0] == "mullion"


def lost_changes(part: str, functions: Iterable[Callable[..., Any]], fix: str) -> Iterator[str]:
    """A warning about the variables that the functions of a part of the program change outside of themselves."""
    writes = [write for function in functions for write in outside_writes(function, keeps_changes)]
    if writes:
        names = ", ".join(dict.fromkeys(f"{write.name!r} ({write.where})" for write in writes))
        yield (
            f"{part} changes {names}. Each worker process has its own copy of such a variable, and may start anew in "
            f"any batch, so the change is lost. {fix}"
        )
