"""Rejects agents and timers that keep state in variables outside of tables.

Agents run in several Python workers, and a worker starts each micro-batch with the program's own values. A change of a
global variable would be lost, and no other agent or timer would see it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from mullion._program.outside_state import keeps_changes
from mullion._pyfunction.functions import names_in, names_of, plain
from mullion._pyfunction.outside_writes import OutsideWrite, outside_writes
from mullion.errors import UnsupportedError
from mullion.faust._agent_run.agent_loop import steps_of
from mullion.faust._program import signals
from mullion.faust._program.program import Program, WithApp
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
        yield f"timer {timer.name!r}", _own(timer.function)
    for table in program.tables.values():
        if table.on_window_close is not None:
            yield f"on_window_close of the table {table.name!r}", table.on_window_close


def _driver_functions(program: Program) -> Iterator[Callable[..., Any]]:
    """The functions that run in the process that started the program, next to the query."""
    yield from map(_own, program.tasks)
    for name in signals.BEGINNING:
        yield from getattr(program, name).handlers


def _own(function: Callable[..., Any]) -> Callable[..., Any]:
    return function.function if isinstance(function, WithApp) else function


def _reads(reader: Callable[..., Any], writer: Callable[..., Any], name: str) -> bool:
    """True if two functions have the same variable of this name."""
    one, other = plain(reader), plain(writer)
    if one is None or other is None or name not in names_in(one.__code__) | set(one.__code__.co_freevars):
        return False
    missing = object()
    mine, theirs = names_of(one).get(name, missing), names_of(other).get(name, missing)
    return mine is theirs and one.__globals__ is other.__globals__


def _why_lost(part: str, writes: list[OutsideWrite]) -> str:
    first, *others = writes
    more = f" (and {', '.join(dict.fromkeys(f'{one.name!r} at {one.where}' for one in others))})" if others else ""
    return (
        f"The {part} changes {first.name!r} at {first.where}{more}, which is not a table. Agents and timers run in "
        "several worker processes, and each micro-batch starts with the program's own values, so the change would be "
        f"lost. Use a table: {first.name} = app.Table({first.name!r}, default=int), and change {first.name}[key]. For "
        "a cache of results, use functools.lru_cache."
    )
