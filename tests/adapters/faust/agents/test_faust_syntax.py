"""The analysis of agents by their syntax trees: bodies that are folds, that also read, and that run in Python."""

from __future__ import annotations

import contextlib
import inspect
import io
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mullion._pyfunction.syntax import Const, If, Item, Let, Local
from mullion.faust import Event
from mullion.faust._agent_code.interpreter import Interpreter
from mullion.faust._agent_code.parser import read
from mullion.faust._agent_code.syntax import Read, Reading, Update, Value
from mullion.faust._program.program import Program
from mullion.faust.streams import GroupBy
from tests.support.faust.faust_agent_text import NUMBER, Order, agent_of, body
from tests.support.faust.faust_shards import Clock
from tests.support.faust.local_run import LocalRun
from tests.support.faust.programs import faust_programs as programs

# -- the programs of the documents


@pytest.mark.parametrize(
    ("make", "kinds"),
    [
        (programs.tumbling_counts, {"count_events": ("fold", "it only updates windowed tables")}),
        (
            programs.hopping_averages,
            {"compute_sliding_average": ("python", "the value of a table is read")},
        ),
        (programs.sessions, {"track_sessions": ("python", "the value of a table is read")}),
        (programs.business_hours, {"count_metrics": ("python", "a window of another kind, BusinessHoursWindow")}),
        (programs.expiring, {"count_events": ("fold", "it only updates")}),
        (programs.multi_window, {"multi_window_analysis": ("fold", "it only updates")}),
        (programs.by_country, {"process_withdrawal": ("fold", "it only updates")}),
        (programs.wrongly_sharded, {"process_withdrawal": ("python", "'user_to_total' has no window")}),
        (
            programs.rightly_sharded,
            {
                "find_large_user_withdrawals": ("python", "'user_to_total' has no window"),
                "find_large_country_withdrawals": ("fold", "it only updates"),
            },
        ),
        (programs.written_back, {"collect": ("python", "the value of a table is read")}),
        (programs.not_written_back, {"collect": ("python", "the value of a table is read")}),
        (programs.page_views, {"aggregate_page_views": ("running", "it reads the table 'views'")}),
        (programs.relative_times, {"process": ("python", "a statement that is not one of a fold: for one in")}),
        (programs.iterated, {"show": ("python", "a call of list")}),
    ],
)
def test_the_programs_of_the_documents_are_read(make: Callable[[Any], None], kinds: dict[str, tuple[str, str]]) -> None:
    program = Program("app")
    make(program)
    readings = {name: read(agent) for name, agent in program.agents.items()}
    assert {name: one.kind for name, one in readings.items()} == {name: kind for name, (kind, _) in kinds.items()}
    for name, (_, why) in kinds.items():
        assert why in readings[name].why
        file, line = readings[name].where.rsplit(":", 1)
        assert file.endswith("faust_programs.py")
        assert int(line) > inspect.getsourcelines(make)[1]


def test_the_line_that_decides_is_the_first_that_is_no_fold() -> None:
    program = Program("app")
    programs.page_views(program)
    lines, start = inspect.getsourcelines(programs.page_views)
    line = start + next(i for i, text in enumerate(lines) if ".now() >= 10000" in text)
    assert read(program.agents["aggregate_page_views"]).where.endswith(f"faust_programs.py:{line}")


def test_the_analysis_returns_a_small_tree() -> None:
    agent, _ = agent_of(
        body('k = e["k"]', 'if e["n"] > 1:', "    views[k] += 2", "    hops[k] = 0", "continue", "never()")
    )
    reading = read(agent)
    assert reading == Reading(
        "fold",
        "it only updates windowed tables",
        reading.where,
        (
            Let("k", Item(Value(), Const("k"))),
            If(
                reading.statements[1].test,  # type: ignore[attr-defined]
                (
                    Update("views", Local("k"), "+", Const(2), 6),
                    Update("hops", Local("k"), "", Const(0), 7),
                ),
                (),
            ),
        ),
        ("views", "hops"),
    )


def test_an_event_that_is_left_deep_within_is_left_altogether() -> None:
    agent, _ = agent_of(body("if e > 1:", "    if e > 2:", "        continue", "    views[e] += 1", "hops[e] += 1"))
    (outer,) = read(agent).statements
    assert isinstance(outer, If)
    (inner,) = outer.then
    assert isinstance(inner, If)
    assert inner.then == ()
    assert [one.table for one in inner.otherwise if isinstance(one, Update)] == ["views", "hops"]
    assert [one.table for one in outer.otherwise if isinstance(one, Update)] == ["hops"]
    way = ["if e > 1:", "    if e > 2:", "        continue"]
    assert "more than 200 paths" in read(agent_of(body(*way * 9))[0]).why


def test_a_group_and_the_events_themselves_are_read() -> None:
    agent, _ = agent_of(body("views[e.k] += 1", stream="events.group_by(Order.k)"))
    assert read(agent).group == GroupBy(Order.k)
    agent, _ = agent_of(body('views[e.key] += e.value["n"] + e.timestamp', stream='events.group_by("k").events()'))
    assert (read(agent).kind, read(agent).group) == ("fold", GroupBy("k"))
    agent, _ = agent_of(body("print(views[e].delta(timedelta(0, 30)))"))
    statement: Any = read(agent).statements[0]
    assert statement.values == (Read("views", Value(), "delta", Const(timedelta(seconds=30))),)


@pytest.mark.parametrize(
    ("text", "why", "line"),
    [
        (body("totals[e] += 1"), "the table 'totals' has no window", 4),
        (
            body("n = views[e]", "n += 1", "views[e] = n"),
            "the value of a table is read: views",
            4,
        ),
        (body("for k in e:", "    views[k] += 1"), "a statement that is not one of a fold: for k in e:", 4),
        (body("views[e] += 1", "seen.append(e)"), "a statement that is not one of a fold: seen.append(e)", 5),
        (body("e['n'] = 1"), "something other than a table is changed: e['n']", 4),
        (body("e.n = 1"), "something other than a table is set: e.n", 4),
        (
            body("if e > 1:", "    n = 1", "views[e] += n"),
            "the variable 'n' may be unset, or set by an earlier event",
            6,
        ),
        (body("views[e] += unknown"), "the name 'unknown' is not known when the program starts", 4),
        (body("views[e] += LIMITS"), "the constant [1]", 4),
        (body("views[e] += hash(e)"), "a call of hash", 4),
        (body("views[e] += len(e, *e)"), "a call of len", 4),
        (body("print(current_window())"), "a call of current_window", 4),
        (body("print(current_window()[2])"), "a call of current_window", 4),
        (body("views[e[1:]] += 1"), "an expression that is not one of a fold: e[1:]", 4),
        (body("yield {**e}"), "an expression that is not one of a fold: {**e}", 4),
        (body("yield f'{e!r}'"), "an expression that is not one of a fold: f'{e!r}'", 4),
        (body("yield f'{e:{e}}'"), "an expression that is not one of a fold: f'{e:{e}}'", 4),
        (body("views[e] @= 1"), "a statement that is not one of a fold: views[e] @= 1", 4),
        (body("print(views[e].current(e))"), "a table is read for another event", 4),
        (body("print(e, end='')"), "a print with options", 4),
        (body("await other()"), "a statement that is not one of a fold: await other", 4),
        (body("views[e] += 1", stream="events.filter(bool)"), "the stream is events.filter(bool)", 3),
        (body("views[e] += 1", stream="events.group_by(len)"), "the stream is grouped by len", 3),
        (body("views[e] += 1", stream="events.take(10)"), "the stream is events.take(10)", 3),
        (body("print(e)", stream="events.events()"), "the event itself is used", 4),
        (body("print(e.headers)", stream="events.events()"), "the event's 'headers' is used", 4),
        (body("strings[e] += 'x'"), "the table 'strings' holds no numbers, but str", 4),
        (body("bare[e] += 1"), "the table 'bare' holds no numbers, but NoneType", 4),
        (body("timed[e] += 1"), "the default of the table 'timed' is the result of a function", 4),
        (body("counted[e] += 1"), "the default of the table 'counted' is the result of a function", 4),
        (body("by_field[e] += 1"), "the table 'views' is relative to a field", 4),
        (body("views[e] += 1") + "\n    print()", "a statement comes after the loop over the events", 5),
        (body("views[e] += 1").replace("    async for", "    n = 0\n    async for"), "a statement comes before", 3),
        (body("views[e] += 1") + "\n    else:\n        print()", "an 'else' of a loop", 6),
        (body("views[e] += 1").replace("async for e", "async for a, e"), "the loop unpacks an event", 3),
        (body("views[e] += 1").replace("(events)", "(events, more)"), "it has other parameters than a stream", 2),
    ],
)
def test_unsupported_bodies_stay_in_python_with_the_reason_and_the_line(text: str, why: str, line: int) -> None:
    program = Program("other")
    names = {
        "LIMITS": [1],
        "strings": program.Table("strings", default=str).tumbling(10),
        "bare": program.Table("bare").tumbling(10),
        "timed": program.Table("timed", default=time.time).tumbling(10),
        "counted": program.Table("counted", default=lambda: next(NUMBER)).tumbling(10),
        "by_field": program.Table("views", default=int).tumbling(10).relative_to_field(Order.k),
    }
    reading = read(agent_of(text, **names)[0])
    assert reading.kind == "python"
    assert reading.statements == ()
    assert why in reading.why
    assert reading.where.endswith(f":{line}")


def test_a_body_without_source_is_pythons() -> None:
    scope: dict[str, Any] = {"app": Program("app")}
    exec("@app.agent\nasync def lost(events):\n    async for e in events:\n        pass\n", scope)
    assert read(scope["lost"]).why == "its source code is not available"


# -- the analysis agrees with the execution


KEYS = st.sampled_from(['e["k"]', "k", 'e["k"] + "x"', '"all"'])
NUMBERS = st.recursive(
    st.sampled_from(['e["n"]', "1", "2", 'len(e["k"])', "m", "LIMIT", 'abs(e["n"])', 'max(e["n"], 0)', "-m"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda p: f"({p[0]} {p[1]} {p[2]})"),
        st.tuples(inner, inner).map(lambda p: f"({p[0]} if {p[1]} > 0 else {p[0]})"),
    ),
    max_leaves=3,
)
READS = st.tuples(
    st.sampled_from(["views", "hops"]),
    KEYS,
    st.sampled_from(["value()", "current()", "now()", "delta(10)", "delta(PAUSE)"]),
).map(lambda p: f"{p[0]}[{p[1]}].{p[2]}")
TESTS = st.one_of(
    st.tuples(NUMBERS, st.sampled_from(["<", "<=", "==", "!=", ">", ">="]), NUMBERS).map(" ".join),
    st.tuples(NUMBERS, NUMBERS, NUMBERS).map(lambda p: f"{p[0]} < {p[1]} <= {p[2]} != 4"),
    st.sampled_from(['e["k"] in ("a", "b")', 'not e["n"]', 'e["n"] > 0 and k != "a"', 'e["n"] < 0 or k == "b"']).map(
        lambda text: text.replace('in ("a", "b")', '!= "c"')
    ),
)


def updates(values: st.SearchStrategy[str]) -> st.SearchStrategy[list[str]]:
    return st.tuples(st.sampled_from(["views", "hops"]), KEYS, st.sampled_from(["+=", "-=", "="]), values).map(
        lambda p: [f"{p[0]}[{p[1]}] {p[2]} {p[3]}"]
    )


def blocks(simple: st.SearchStrategy[list[str]], tests: st.SearchStrategy[str]) -> st.SearchStrategy[list[str]]:
    def indented(lines: list[str]) -> list[str]:
        return [f"    {line}" for line in lines]

    def nested(inner: st.SearchStrategy[list[str]]) -> st.SearchStrategy[list[str]]:
        several = st.lists(inner, min_size=1, max_size=3).map(lambda parts: [line for part in parts for line in part])
        return st.one_of(
            several,
            st.tuples(tests, several).map(lambda p: [f"if {p[0]}:", *indented(p[1])]),
            st.tuples(tests, several, several).map(
                lambda p: [f"if {p[0]}:", *indented(p[1]), "else:", *indented(p[2])]
            ),
            st.tuples(tests, inner).map(lambda p: [f"if {p[0]}:", "    continue", *p[1]]),
            st.tuples(tests, several, inner).map(lambda p: [f"if {p[0]}:", *indented(p[1]), "    continue", *p[2]]),
        )

    return st.recursive(simple, nested, max_leaves=5)


FOLDS = blocks(updates(NUMBERS), TESTS)
RUNNING = blocks(
    st.one_of(
        updates(NUMBERS | READS),
        READS.map(lambda text: [f"print({text}, k)"]),
        NUMBERS.map(lambda text: [f"yield {text}"]),
        READS.map(lambda text: ['yield {"k": k, k: ' + text + "}"]),
        READS.map(lambda text: ["yield f'{k}: {" + text + ":>5} {e}'"]),
        READS.map(lambda text: [f"r = {text}", "yield current_window().start", "yield r"]),
        updates(NUMBERS).map(lambda lines: [*lines, "print(faust.current_window().end, current_window()[0])"]),
        READS.map(lambda text: [f"r = {text}", "views[k] += 1", "yield r"]),
    ),
    TESTS | READS.map(lambda text: f"{text} > 2"),
)
EVENTS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(-5, 5), st.integers(-40, 80)), max_size=25)


def agree(lines: list[str], events: list[tuple[str, int, int]], kinds: set[str]) -> None:
    text = body('k = e["k"]', 'm = e["n"] * 2', *lines)
    agent, program = agent_of(text, LIMIT=3, PAUSE=timedelta(seconds=20))
    emitted: list[Any] = []
    agent.add_sink(emitted.append)
    reading = read(agent)
    assert reading.kind in kinds, (reading.why, reading.where)
    clock = Clock(12.0)
    run, out = LocalRun(program, clock), io.StringIO()
    with contextlib.redirect_stdout(out):
        run.produce("in", [(None, {"k": k, "n": n}, float(at)) for k, n, at in events])
    model = Interpreter(program.tables, clock)
    for k, n, at in events:
        model.run(reading.statements, Event.of({"k": k, "n": n}, float(at)))
    assert emitted == model.emitted
    assert out.getvalue().splitlines() == [" ".join(map(str, values)) for values in model.printed]
    for name in ("views", "hops"):
        table = program.tables[name].using_window(program.tables[name].window)  # type: ignore[arg-type]
        keys = {key for _, key, _ in model.ranges} | set("abc")
        latest = model.latest.get(name)
        for key in keys:
            (windows,) = run.read(lambda table=table, key=key: table.windows_for_key(key))  # type: ignore[misc]
            there = sorted((one, value) for (of, k, one), value in model.ranges.items() if (of, k) == (name, key))
            assert windows == [
                (one, value) for one, value in there if latest is None or not table.window.stale(one[1], latest)
            ]


@settings(max_examples=150, deadline=None)
@given(FOLDS, EVENTS)
def test_random_folds_agree_with_the_code_itself(lines: list[str], events: list[tuple[str, int, int]]) -> None:
    agree(lines, events, {"fold"})


@settings(max_examples=150, deadline=None)
@given(RUNNING, EVENTS)
def test_random_bodies_that_read_agree_with_the_code_itself(
    lines: list[str], events: list[tuple[str, int, int]]
) -> None:
    agree(lines, events, {"fold", "running"})


# -- shards


# -- variables


@pytest.mark.parametrize(
    ("lines", "values", "expected"),
    [
        # The event's own name, set in one branch.
        (["if e > 3:", "    e = 3", "views['a'] += e"], [1, 5, 2, 9], 9),
        (["if e < 3:", "    pass", "else:", "    e = 3", "views['a'] += e"], [1, 5, 2, 9], 9),
        (["m = 0", "if e > 3:", "    m = e", "views['a'] += m"], [1, 5, 2, 9], 14),
        (["m = e", "if e > 3:", "    if e > 5:", "        m = 1", "    m += 1" * 0, "views['a'] += m"], [1, 5, 9], 7),
        (["if e > 3:", "    m = 1", "    e = m", "else:", "    m = e", "views['a'] += e + m"], [1, 5, 2], 8),
    ],
)
def test_a_variable_that_one_branch_sets_is_in_the_other_what_it_was(
    lines: list[str], values: list[int], expected: int
) -> None:
    agent, program = agent_of(body(*[line for line in lines if line.strip()]))
    reading = read(agent)
    assert reading.kind == "fold", reading.why
    model = Interpreter(program.tables, Clock(0))
    run = LocalRun(program, Clock(0))
    run.produce("in", [(None, one, 1.0) for one in values])
    for one in values:
        model.run(reading.statements, Event.of(one, 1.0))
    table = program.tables["views"].using_window(program.tables["views"].window)  # type: ignore[arg-type]
    assert run.read(lambda: table.windows_for_key("a")) == [[((0.0, 10.0), expected)]]
    assert model.ranges == {("views", "a", (0.0, 10.0)): expected}


def test_what_a_variable_was_for_another_event_is_pythons() -> None:
    agent, _ = agent_of(body("if e > 3:", "    m = e", "views['a'] += m"))
    assert "the variable 'm' may be unset, or set by an earlier event" in read(agent).why
