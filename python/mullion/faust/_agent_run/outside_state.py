"""Rejects agents and timers that keep state in variables outside of tables.

Agents run in several Python workers, and a worker starts each micro-batch with the program's own values. A change of a
global variable would be lost, and no other agent or timer would see it. Most writes are found in the code, when the
program starts. A worker finds the others at the end of the first micro-batch with such a change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, final

from mullion._program.outside_state import keeps_changes
from mullion._pyfunction.functions import names_in, names_of, plain
from mullion._pyfunction.outside_writes import OutsideWrite, created_once, outside_writes
from mullion._pyfunction.variables import Variables
from mullion.errors import UnsupportedError
from mullion.faust._agent_run.agent_loop import steps_of
from mullion.faust._program import signals
from mullion.faust._program.functions import WithApp
from mullion.faust._program.program import Program
from mullion.faust.agents import Agent
from mullion.faust.channels import Channel
from mullion.faust.streams import Filter, GroupBy, Process


def require_no_outside_state(program: Program) -> None:
    """Raises :class:`UnsupportedError` if an agent or timer changes a variable, or reads one that a task changes."""
    readers: dict[str, Callable[..., Any]] = {}
    for part, function in _functions(program):
        readers[part] = function
        writes = outside_writes(function, keeps_changes)
        if writes:
            raise UnsupportedError(_why_lost(part, writes))
    for task in _driver_functions(program):
        for write in outside_writes(task, keeps_changes):
            reader = next((part for part, function in readers.items() if _reads(function, task, write.name)), None)
            if reader is not None:
                name = getattr(task, "__name__", repr(task))
                raise UnsupportedError(
                    f"The function {name!r} changes {write.name!r} ({write.where}), and the {reader} reads it. It runs "
                    "in the process that started the program, and its change does not reach the workers. Send it to an "
                    f"agent that stores it in a table, or set {write.name!r} before the program starts."
                )


@final
@dataclass(frozen=True)
class OutsideState:
    """The functions and classes of a program that run in workers, and the names that each process may set once."""

    functions: tuple[Any, ...]
    created_once: frozenset[Any]

    @classmethod
    def of(cls, program: Program) -> OutsideState:
        """Functions that a body creates while it runs are part of its code: the names in them are known."""
        functions: list[Any] = []
        for agent in program.agents.values():
            channel = agent.channel
            sinks = [sink for sink in agent.sinks if not isinstance(sink, (Agent, Channel))]
            functions += [agent.function, *sinks, channel.key_type, channel.value_type]
        functions += [_user_function(timer.function) for timer in program.timers]
        for table in program.tables.values():
            functions += [table.on_window_close, table.default]
        searched = Variables(functions, keeps_changes).functions
        return cls(tuple(functions), created_once(searched))

    def variables(self) -> Variables:
        """The variables of this process, as they are now."""
        return Variables(self.functions, keeps_changes, _attributes_of_users, self.created_once)


def require_unchanged(variables: Variables) -> None:
    """Raises :class:`UnsupportedError` if a variable has changed during a micro-batch."""
    changes = variables.changes()
    if changes:
        first, *others = changes
        more = f" (and {', '.join(repr(one.name) for one in others)})" if others else ""
        raise UnsupportedError(
            f"A micro-batch has changed the variable {first.name!r} of the module {first.module!r}{more}, which is not "
            f"a table: {first.difference}. {_why(first.name)} Nothing of the batch was stored."
        )


def _attributes_of_users(value: Any) -> Mapping[str, Any]:
    """The attributes that a program adds to its App."""
    if not isinstance(value, Program):
        return {}
    own = value.own_names
    return {name: one for name, one in vars(value).items() if name not in own and not name.startswith("_")}


def _functions(program: Program) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The functions that run in workers, each with the name of its part."""
    for agent in program.agents.values():
        part = f"agent {agent.name!r}"
        yield part, agent.function
        for sink in agent.sinks:
            if not isinstance(sink, (Agent, Channel)):
                yield f"sink of the {part}", sink
        for step in steps_of(agent):
            if isinstance(step, Filter):
                yield f"filter of the {part}", step.passes
            elif isinstance(step, Process):
                yield f"processor of the {part}", step.function
            elif isinstance(step, GroupBy) and callable(step.key):
                yield f"key of the {part}", step.key
    for timer in program.timers:
        yield f"timer {timer.name!r}", _user_function(timer.function)
    for table in program.tables.values():
        if table.on_window_close is not None:
            yield f"on_window_close of the table {table.name!r}", table.on_window_close
        if table.default is not None:
            yield f"default of the table {table.name!r}", table.default


def _driver_functions(program: Program) -> Iterator[Callable[..., Any]]:
    """The functions that run in the process that started the program, next to the query."""
    yield from map(_user_function, program.tasks)
    for name in signals.BEGINNING:
        yield from getattr(program, name).handlers


def _user_function(function: Callable[..., Any]) -> Callable[..., Any]:
    return function.function if isinstance(function, WithApp) else function


def _reads(reader: Callable[..., Any], writer: Callable[..., Any], name: str) -> bool:
    """True if two functions have the same variable of this name."""
    one, other = plain(reader), plain(writer)
    if one is None or other is None or name not in names_in(one.__code__) | set(one.__code__.co_freevars):
        return False
    missing = object()
    mine, other_value = names_of(one).get(name, missing), names_of(other).get(name, missing)
    return mine is other_value and one.__globals__ is other.__globals__


def _why_lost(part: str, writes: list[OutsideWrite]) -> str:
    first, *others = writes
    more = f" (and {', '.join(dict.fromkeys(f'{one.name!r} at {one.where}' for one in others))})" if others else ""
    return f"The {part} changes {first.name!r} at {first.where}{more}, which is not a table. {_why(first.name)}"


def _why(name: str) -> str:
    return (
        "Agents and timers run in several worker processes, and each micro-batch starts with the program's own values, "
        f"so the change would be lost. Use a table: {name} = app.Table({name!r}, default=int), and change {name}[key]. "
        "For a cache of results, use functools.lru_cache."
    )
