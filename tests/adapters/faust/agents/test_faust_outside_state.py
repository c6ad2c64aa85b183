"""Writes of functions to variables outside of them, and how Faust programs with such writes are rejected."""

from __future__ import annotations

import heapq
import itertools
import linecache
import logging
import textwrap
import types
from collections import defaultdict, deque
from functools import lru_cache
from typing import Any

import pytest

import mullion.faust as faust
from mullion._pyfunction.outside_writes import outside_writes
from mullion.faust._agent_run.outside_state import require_no_outside_state
from mullion.faust._agent_run.query import AgentsQuery

NUMBER = itertools.count()


class Stats:
    shared = 0

    def __init__(self, table: Any) -> None:
        self.n = 0
        self.table = table

    def bump(self) -> None:
        self.n += 1

    def look(self) -> int:
        return self.n

    def add(self, key: Any) -> None:
        self.table[key] += 1

    @classmethod
    def count(cls) -> None:
        cls.shared += 1

    @staticmethod
    def note(container: Any, key: Any) -> None:
        container.add(key)


def put(container: Any, key: Any) -> None:
    container[key] = 1


def put_deeper(container: Any, key: Any) -> None:
    put(container, key=key)


@lru_cache
def cached(key: Any) -> Any:
    return key


def names() -> dict[str, Any]:
    """The names of a program."""
    app = faust.App("outside", broker="dir:/nowhere")
    table = app.Table("totals", default=int)
    return {
        "app": app,
        "table": table,
        "views": app.Table("views", default=int).tumbling(10),
        "counts": {},
        "seen": set(),
        "total": 0,
        "groups": defaultdict(list),
        "queue": deque(),
        "ids": itertools.count(),
        "heap": [],
        "nested": {"u": {}},
        "lists": [[], [1]],
        "holder": types.SimpleNamespace(table=table, n=0),
        "tables": {"a": table},
        "stats": Stats(table),
        "module": types.ModuleType("user_module"),
        **{one.__name__: one for one in (Stats, put, put_deeper, cached)},
        "heapq": heapq,
        "log": logging.getLogger("outside"),
    }


def function_of(text: str, scope: dict[str, Any], name: str = "process") -> Any:
    file = f"<outside {next(NUMBER)}>"
    text = textwrap.dedent(text)
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec"), scope)
    return scope[name]


def is_table(value: Any) -> bool:
    return type(value).__module__.startswith("mullion.")


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("counts[e] = 1", "counts"),
        ("counts[e] = counts.get(e, 0) + 1", "counts"),
        ("counts.setdefault(e, []).append(1)", "counts"),
        ("del counts[e]", "counts"),
        ("seen.add(e)", "seen"),
        ("groups[e].append(1)", "groups"),
        ("nested['u'][e] = 1", "nested"),
        ("nested.get(e)['n'] = 1", "nested"),
        ("queue.append(e)", "queue"),
        ("next(ids)", "ids"),
        ("heapq.heappush(heap, e)", "heap"),
        ("holder.n += 1", "holder"),
        ("setattr(holder, 'n', 1)", "holder"),
        ("module.n = 1", "module"),
        ("put.calls = 1", "put"),
        ("stats.bump()", "stats"),
        ("stats.count()", "stats"),
        ("Stats.count()", "Stats"),
        ("Stats.note(seen, e)", "seen"),
        ("Stats.shared += 1", "Stats"),
        ("put(counts, e)", "counts"),
        ("put_deeper(container=counts, key=e)", "counts"),
        ("alias = counts; alias[e] = 1", "counts"),
        ("alias = heap; alias += [e]", "heap"),
        ("given.append(e)", "given"),
        ("for one in lists: one.append(e)", "lists"),
        ("for key, one in nested.items(): one[e] = 1", "nested"),
        ("[one.update(k=e) for one in nested.values()]", "nested"),
        ("for one in lists: print(one)", None),
        ("for one in tables.values(): one[e] += 1", None),
        ("for one in nested: one.strip()", None),
        # Changes that are kept, or of objects of its own
        ("table[e] += 1; views[e] += 1", None),
        ("holder.table[e] += 1; getattr(holder, 'table')[e] += 1", None),
        ("tables[e][e] += 1; tables['a'][e] += 1", None),
        ("stats.add(e); put(table, e); put({}, e)", None),
        ("copied = dict(counts); copied[e] = 1", None),
        ("copied = nested['u'].copy(); copied['n'] = 1", None),
        ("n = len(counts); n += 1", None),
        ("own = {}; own[e] = 1; own.setdefault(e, []).append(e)", None),
        ("print(stats.look(), cached(e), counts.get(e), e in seen)", None),
        ("log.info('x')", None),
        ("e.value = 1; e['k'] = 2; e.items.append(3)", None),
    ],
)
def test_writes_outside_of_a_function_are_found(line: str, name: str | None) -> None:
    body = "".join(f"        {one}\n" for one in line.split("; "))
    function = function_of(f"def process(events, given=[]):\n    for e in events:\n{body}", names())
    writes = outside_writes(function, is_table)
    assert [write.name for write in writes] == ([] if name is None else [name])
    assert all(write.where.startswith("<outside ") or __file__ in write.where for write in writes)


def test_global_and_nonlocal_variables_are_found_unless_each_process_creates_its_own() -> None:
    text = """
        def outer():
            number = 0
            async def process(events):
                nonlocal number
                own = 0
                def add():
                    nonlocal own
                    own += 1
                async for e in events:
                    add()
                    number += 1
            return process
        process = outer()
    """
    (write,) = outside_writes(function_of(text, names()), is_table)
    assert (write.name, write.where.rpartition(":")[2]) == ("number", "12")
    text = """
        def process(event):
            global total, api, last
            if api is None:
                api = put_deeper({}, "k")
            if "k" not in counts:
                counts["k"] = dict()
            total += 1
            if not last:
                last = str(event)
    """
    scope = {**names(), "api": None, "last": None}
    writes = outside_writes(function_of(text, scope), is_table)
    assert [(write.name, write.where.rpartition(":")[2]) for write in writes] == [("total", "8"), ("last", "10")]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "@app.agent(topic)\nasync def process(s):\n    async for e in s: counts[e] = 1",
            "The agent 'process' changes 'counts' at <outside .*>:3, which is not a table. .* would be lost. Use a "
            r"table: counts = app.Table\('counts', default=int\), and change counts\[key\]. For a cache",
        ),
        (
            "@app.timer(1)\nasync def process():\n    global total\n    total += 1",
            "The timer 'process' changes 'total' at .*>:4",
        ),
        (
            "def process(v): seen.add(v)\n@app.agent(topic, sink=[process])\nasync def a(s):\n"
            "    async for e in s: yield e",
            "The sink of the agent 'a' changes 'seen'",
        ),
        (
            "def process(v): return seen.add(v)\n@app.agent(topic)\nasync def a(s):\n"
            "    async for e in s.filter(process): pass",
            "The filter of the agent 'a' changes 'seen'",
        ),
        (
            "@app.agent(topic)\nasync def a(s): pass\n"
            "process = app.Table('closed', on_window_close=lambda k, v: counts.update({k: v}))",
            "The on_window_close of the table 'closed' changes 'counts'",
        ),
        (
            "@app.task\nasync def process():\n    counts['rate'] = 2\n@app.agent(topic)\nasync def a(s):\n"
            "    async for e in s: print(counts['rate'])",
            r"The function 'process' changes 'counts' \(.*>:3\), and the agent 'a' reads it. .* set 'counts' before",
        ),
    ],
)
def test_a_program_with_state_outside_of_tables_is_rejected_when_it_starts(text: str, why: str) -> None:
    scope = names()
    scope["topic"] = scope["app"].topic("in")
    function_of(text, scope)
    with pytest.raises(faust.UnsupportedError, match=why):
        AgentsQuery(scope["app"]).jobs()


def test_tasks_may_change_variables_that_no_worker_reads() -> None:
    scope = names()
    scope["topic"] = scope["app"].topic("in")
    text = "@app.task\nasync def process():\n    counts['rate'] = 2\n@app.agent(topic)\nasync def a(s):\n    pass"
    function_of(text, scope)
    require_no_outside_state(scope["app"])
