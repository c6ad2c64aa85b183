"""Which timers work on tables: those are called in each shard, the others once for the program.

It is asked when the program starts, of what a timer's names lead to. One that gets at a table in another way is found
out when it does: a timer that is called once and touches a table is an error, and no answer from one shard of several.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from mullion.faust import _sharding
from mullion.faust.agents import Timer

_STEPS = 6
"""How far from a name of the timer's a table may be."""


def placed(timers: Iterable[Timer]) -> list[Timer]:
    """The timers, each with where it is called."""
    return [replace(one, once=one.on_leader or not _works_on_tables(one.function)) for one in timers]


def _works_on_tables(function: Callable[[], Any]) -> bool:
    """Whether the names in a function lead to a table; of one whose names are not to be found, that is assumed."""
    try:
        return bool(_sharding._tables_in(function, _STEPS))
    except TypeError:
        return True
