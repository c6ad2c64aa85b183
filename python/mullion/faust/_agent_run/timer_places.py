"""The placement of timers: a timer that uses tables is called in each shard, any other once for the program.

The placement is decided at the start from the names in a timer's code. A timer may reach a table in another way. If it
is called once and then uses a table, that raises an error, instead of a result from only one of several shards.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from mullion.faust._sharding import leads_to_table
from mullion.faust.agents import Timer


def placed(timers: Iterable[Timer]) -> list[Timer]:
    """Returns the timers, each with its place."""
    return [replace(one, once=one.on_leader or not leads_to_table(one.function)) for one in timers]
