"""The tables that an agent, its sinks and its models can reach."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from mullion._pyfunction.reach import Reached
from mullion._pyfunction.reach import reached as all_reached
from mullion.faust._program.program import Program
from mullion.faust.agents import Agent
from mullion.faust.channels import Channel
from mullion.faust.models import FieldDescriptor
from mullion.faust.tables.table import Table, WindowedTable

TABLES: Final = (Table, WindowedTable)


def reached(agent: Agent) -> set[str] | None:
    """The names of the tables that an agent may use, directly or indirectly; ``None`` if unknown."""
    sinks = [sink for sink in agent.sinks if not isinstance(sink, (Agent, Channel))]
    return tables_in([agent.function, agent.channel.value_type, *sinks])


def tables_of(agent: Agent) -> list[Table]:
    """The tables that an agent or its sinks are known to lead to."""
    sinks = [sink for sink in agent.sinks if not isinstance(sink, (Agent, Channel))]
    values = _tables_reached_from([agent.function, *sinks]).values
    return [one.table if isinstance(one, WindowedTable) else one for one in values if isinstance(one, TABLES)]


def leads_to_table(function: Callable[..., Any]) -> bool:
    """True if a function is known to lead to a table. False is not a proof: some ways are not analysed."""
    return any(isinstance(one, TABLES) for one in _tables_reached_from([function]).values)


def tables_in(values: Iterable[Any]) -> set[str] | None:
    """The names of the tables that values lead to; ``None`` if that is uncertain."""
    search = _tables_reached_from(values)
    if not search.certain or any(isinstance(one, Program) for one in search.values):
        return None
    return {one.name for one in search.values}


def _tables_reached_from(values: Iterable[Any]) -> Reached:
    return all_reached(values, lambda one: isinstance(one, (*TABLES, Program)), _leads_nowhere)


def _leads_nowhere(value: Any) -> bool:
    return isinstance(value, (Agent, Channel, FieldDescriptor))
