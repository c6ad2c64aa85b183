"""The shards of an agent's events by its syntax tree: the keys of its tables, and tables in other functions."""

from __future__ import annotations

import functools
import json
import logging
import types
from collections.abc import Callable
from typing import Any

import pytest

from mullion import InvalidArgumentError
from mullion.faust import TumblingWindow, windowed_count
from mullion.faust._agent_code.parser import read
from mullion.faust._program.program import Program
from mullion.faust._sharding import check, hidden, keys_of, reached
from mullion.faust.streams import GroupBy
from tests.support.faust.faust_agent_text import Order, agent_of, body
from tests.support.faust.programs import faust_programs as programs


def test_the_keys_of_tables_are_found_through_variables() -> None:
    agent, _ = agent_of(body('k = e["k"]', "name = k + '!'", "views[name] += 1", "n = hops[k]", "totals['all'] += 1"))
    assert [(one.table, one.key, one.field, one.where.rsplit(":", 1)[1]) for one in keys_of(agent)] == [
        ("views", "name", None, "6"),
        ("hops", "_['k']", "k", "7"),
        ("totals", "'all'", None, "8"),
    ]


def test_tables_of_different_keys_are_rejected_with_their_lines_and_the_fix() -> None:
    program = Program("app")
    programs.wrongly_sharded(program)
    agent = program.agents["process_withdrawal"]
    with pytest.raises(
        InvalidArgumentError,
        match=r"'process_withdrawal' uses tables by different keys: user_to_total\[event\.user\] \(.*py:\d+\), "
        r"country_to_total\[event\.country\] \(.*\).*Write an agent for each key, that goes through stream\.group_by",
    ):
        check(agent, None)


def test_a_table_of_another_key_than_the_stream_is_rejected() -> None:
    agent, _ = agent_of(body("views[e.n] += 1"))
    agent.channel.typed(None, Order)
    with pytest.raises(
        InvalidArgumentError, match=r"grouped by Order\.k, and uses tables by another key: views\[event\.n\]"
    ):
        check(agent, GroupBy(Order.k))
    with pytest.raises(InvalidArgumentError, match=r"grouped by 'k', and uses tables by another key"):
        check(agent, GroupBy("k"))
    check(agent, GroupBy("n"))
    check(agent, GroupBy(lambda value: value.n))


@pytest.mark.parametrize(
    "make",
    [
        programs.tumbling_counts,
        programs.hopping_averages,
        programs.sessions,
        programs.multi_window,
        programs.by_country,
        programs.rightly_sharded,
        programs.written_back,
        programs.page_views,
        programs.iterated,
    ],
)
def test_the_other_programs_of_the_documents_are_sharded_right(make: Callable[[Any], None]) -> None:
    program = Program("app")
    make(program)
    for agent in program.agents.values():
        check(agent, read(agent).group)


def test_a_table_that_is_a_default_of_the_function_is_seen() -> None:
    text = body("other[e.k] += 1", stream="events").replace("(events)", "(events, other=views, add=bump, views=views)")
    agent, _ = agent_of(text, bump=lambda key: None)
    agent.channel.typed(None, Order)
    assert [(one.table, one.key) for one in keys_of(agent)] == [("views", "_.k")]
    assert hidden(agent) is None
    program = Program("other")
    table = program.Table("hidden", default=int)
    agent, _ = agent_of(text.replace("other[e.k] += 1", "add(e)"), bump=lambda key: table[key])
    assert "'add' at" in str(hidden(agent))


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("bump(e)", "bump"),
        ("count(e)", "count"),
        ("part(e)", "part"),
        ("tables[0][e] += 1", "tables"),
        ("holder.add(e)", "holder"),
        ("views.get(e)", None),
        ("app.tables['views'][e] += 1", None),
        ("for name in app.tables:\n            app.tables[name][e] += 1", "app"),
        ("add(e)", "add"),
        ("def inner(t):\n            t[e] += 1\n        inner(views)", "views"),
        ("import faust_programs", "import faust_programs"),
        ("vars()['views'][e] += 1", "vars"),
        ("unknown(e)", "unknown"),
        ("space.views[e] += 1", "space"),
        ("Holder.shared[e] += 1", None),
        ("module.views[e] += 1", None),
        ("module.other[e] += 1", "module"),
        ("bump_all(module, e)", "module"),
        ("log.info('%s', e)", None),
        ("views.relative_to_now()[e].value()", "views"),
        ("other = views", "views"),
        ("[t for t in (views, hops)]", "views"),
        ("views[e] += 1", None),
        ("views[e] += len(views.items())", None),
        ("print(views.window, helper(e), json.dumps(e), topic)", None),
    ],
)
def test_tables_that_are_used_out_of_sight_are_found(line: str, name: str | None) -> None:
    program = Program("other")
    counts = program.Table("counts", default=int)
    table = program.Table("views", default=int).tumbling(10, key_index=True)

    def bump(key: Any) -> None:
        table[key] += 1

    class Holder:
        shared = table

        def __init__(self) -> None:
            self.table = table

        def add(self, key: Any) -> None:
            self.table[key] += 1

    @functools.wraps(print)
    def add(key: Any) -> None:
        table[key] += 1

    module = types.ModuleType("users")
    module.views = table  # type: ignore[attr-defined]
    names = {
        "bump": bump,
        "add": add,
        "Holder": Holder,
        "module": module,
        "bump_all": lambda of, key: of.views[key],
        "space": types.SimpleNamespace(views=[table]),
        "log": logging.getLogger("app"),
        "count": windowed_count(counts, TumblingWindow(10)),
        "part": functools.partial(bump, "k"),
        "tables": [table],
        "holder": Holder(),
        "helper": lambda value: value,
        "json": json,
    }
    place = hidden(agent_of(body(line), **names)[0])
    if name is None:
        assert place is None
    else:
        assert place is not None
        assert place.startswith(f"{name!r} at ")
        assert place[-2:] in (":4", ":6")


def test_a_table_is_found_in_a_module_that_is_of_no_file() -> None:
    table = Program("other").Table("users", default=int)
    module = types.ModuleType("users")
    module.bump = lambda key: table.pop(key)  # type: ignore[attr-defined]
    assert reached(agent_of(body("module.bump(e)"), module=module)[0]) == {"users"}
