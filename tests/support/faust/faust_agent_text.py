"""Agents as text, made and read in one process."""

from __future__ import annotations

import itertools
import linecache
import textwrap
from datetime import timedelta
from typing import Any

from mullion import faust
from mullion.faust import Record, current_window
from mullion.faust._program.program import Program
from mullion.faust.agents import Agent

NUMBER = itertools.count()


class Order(Record):
    k: str
    n: int = 0


def agent_of(text: str, **names: Any) -> tuple[Agent, Program]:
    """The one agent of a program as text. ``views`` and ``hops`` are tables, ``topic`` is a topic."""
    program = Program("app")
    scope = {
        "app": program,
        "views": program.Table("views", default=int).tumbling(10, key_index=True),
        "hops": program.Table("hops", default=float).hopping(20, 10, expires=30, key_index=True),
        "totals": program.Table("totals", default=int),
        "topic": program.topic("in"),
        "Order": Order,
        "timedelta": timedelta,
        "current_window": current_window,
        "faust": faust,
        **names,
    }
    file = f"<program {next(NUMBER)}>"
    text = textwrap.dedent(text)
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec"), scope)
    return next(iter(program.agents.values())), program


def body(*lines: str, stream: str = "events") -> str:
    return "\n".join(
        [
            "@app.agent(topic)",
            "async def fold(events):",
            f"    async for e in {stream}:",
            *(f"        {one}" for one in lines),
        ]
    )
