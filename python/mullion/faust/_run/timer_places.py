"""Which timers work on tables: those are called in each shard, the others once for the program.

It is asked when the program starts, of what a timer's names lead to. One that gets at a table in another way is found
out when it does: a timer that is called once and touches a table is an error, and no answer from one shard of several.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from mullion.faust._sharding import leads_to_table
from mullion.faust.agents import Timer


def placed(timers: Iterable[Timer]) -> list[Timer]:
    """The timers, each with where it is called."""
    return [replace(one, once=one.on_leader or not leads_to_table(one.function)) for one in timers]
