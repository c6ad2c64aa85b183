"""The shard key of an agent's events: proofs about bodies, and that no key is ever in two shards."""

from __future__ import annotations

import math
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

import mullion.faust as faust
from mullion import topics
from mullion._keyed.journal import Journal
from mullion._keyed.memory import MemoryStore
from mullion._util.clock import ManualClock
from mullion.errors import WrongShardError
from mullion.faust import Record
from mullion.faust._agent_run.agent_loop import grouped_by, run_batch, steps_of
from mullion.faust._agent_run.shard import Shard
from mullion.faust._context import Event, Message
from mullion.faust._program.program import Program
from mullion.faust._sharding import sharding_of
from mullion.faust._values.shards import shard_column, shard_of
from mullion.faust.tables.keys import encode_key
from tests.support.faust.faust_agent_text import agent_of, body
from tests.support.faust.faust_shards import Clock

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]


class Plain(Record):
    k: str
    n: int = 0
    country: str = "AT"
    share: float = 0.5

    @property
    def upper(self) -> str:
        return self.k.upper()


class Coerced(Record, coerce=True):
    k: int
    name: str = "none"


class Lower(Record):
    k: str

    def __post_init__(self) -> None:
        self.k = self.k.lower()


def decided(text: str, kind: Any = None, columns: T.StructType | None = None, **names: Any) -> str | None:
    """The field by which events of a body's agent are in shards."""
    agent, _ = agent_of(text, **names)
    agent.channel.typed(agent.channel.key_type, kind)
    steps = steps_of(agent)
    return sharding_of(agent, steps, grouped_by(steps), columns).field


def change(event: Any) -> None:
    event["k"] = "changed"


def look(event: Any) -> Any:
    return event["k"] + str(len(event))


@pytest.mark.parametrize(
    ("lines", "kind", "field"),
    [
        (['views[e["k"]] += 1'], dict, "k"),
        (['views[e["k"]] += 1'], None, "k"),
        (["views[e.k] += 1"], Plain, "k"),
        (["views[e] += 1"], str, "value"),
        (["pass"], dict, ""),
        # Variables
        (['k = e["k"]', "print(e)", "views[k] += 1"], dict, "k"),
        (['k = e["k"]', "if k:", "    k = k.lower()", "views[k] += 1"], dict, None),
        (['if e["n"]:', '    k = e["k"]', "views[k] += 1"], dict, None),
        (['if e["n"]:', '    k = e["k"]', "else:", "    continue", "views[k] += 1"], dict, "k"),
        (['for k in e["list"]:', "    pass", 'k = e["k"]', "views[k] += 1"], dict, "k"),
        (['k = e["k"]', 'for k in e["list"]:', "    views[k] += 1"], dict, None),
        (['k = e["k"]', "while True:", "    views[k] += 1", "    k += 'x'", "    break"], dict, None),
        (['k = e["k"]', "(k := 'x')", "views[k] += 1"], dict, None),
        (["if e > 3:", "    e = 3", "views[e] += 1"], int, None),
        # Events that are changed
        (['e["k"] = e["k"].upper()', 'views[e["k"]] += 1'], dict, None),
        (['k = e["k"]', 'e["k"] = "x"', "views[k] += 1"], dict, "k"),
        (['e.update(k="x")', 'views[e["k"]] += 1'], dict, None),
        (["d = e", 'd["k"] = "x"', 'views[e["k"]] += 1'], dict, None),
        (["d = e", 'views[d["k"]] += 1'], dict, "k"),
        (["change(e)", 'views[e["k"]] += 1'], dict, None),
        (["look(e)", 'views[e["k"]] += 1'], dict, "k"),
        (["for f in (change,):", "    f(e)", 'views[e["k"]] += 1'], dict, None),
        (['del e["k"]', 'e["k"] = 1', 'views[e["k"]] += 1'], dict, None),
        (['e |= {"k": 1}', 'views[e["k"]] += 1'], dict, None),
        (["e.country = 'x'", "views[e.country] += 1"], Plain, None),
        (["setattr(e, 'k', 'x')", "views[e.k] += 1"], Plain, None),
        (["def f():", "    e['k'] = 1", "f()", 'views[e["k"]] += 1'], dict, None),
        (["def f(e):", "    return e", 'views[e["k"]] += 1'], dict, None),
        (["try:", '    e["k"] = 1', "finally:", '    views[e["k"]] += 1'], dict, None),
        (["await topic.send(value=e)", 'views[e["k"]] += 1'], dict, "k"),
        (["yield {**e}", 'views[e["k"]] += 1'], dict, "k"),
        # Keys that are computed
        (['views[e["k"].upper()] += 1'], dict, None),
        (["views[e.upper] += 1"], Plain, None),
        (["views[e.share] += 1"], Plain, None),
        (["views['all'] += 1"], dict, None),
        (["views[e['k'], e['n']] += 1"], dict, None),
        (["views[e['k']] += 1", "totals['all'] += 1"], dict, None),
        # Records
        (["views[e.country] += 1"], Plain, "country"),
        (["views[e.k] += 1"], Lower, None),
        (["views[e.name] += 1"], Coerced, "name"),
        # Ways to use a table
        (["totals.setdefault(e['k'], 0)", "totals[e['k']] += 1"], dict, "k"),
        (["if e['k'] in totals:", "    totals.pop(e['k'])"], dict, "k"),
        (["app.tables['totals'][e['k']] += 1"], dict, "k"),
        (["def bump(t, k):", "    t[k] += 1", "bump(totals, e['k'])"], dict, None),
        (["def bump():", "    totals[e['k']] += 1", "bump()"], dict, None),
        (["async for w in words(e):", "    totals[w] += 1"], str, None),
        (["for w in e.split():", "    totals[w] += 1"], str, None),
        (["totals.update({e['k']: 1})"], dict, None),
        (["other = totals", "other[e['k']] += 1"], dict, None),
    ],
)
def test_events_are_in_shards_by_a_field_where_every_key_is_proven_to_be_it(
    lines: list[str], kind: Any, field: str | None
) -> None:
    async def words(text: str) -> Any:
        for word in text.split():
            yield word

    assert decided(body(*lines), kind, change=change, look=look, words=words) == field


@pytest.mark.parametrize(
    ("line", "use"),
    [
        ("print(totals.items())", "totals"),
        ("for _ in totals.keys(): pass", "totals"),
        ("for _ in totals: pass", "totals"),
        ("[k for k in totals]", "totals"),
        ("print(len(totals), max(totals))", "totals"),
        ("sum(app.tables['totals'].values())", "totals"),
        ("totals.clear()", "totals"),
        ("list(views.values())", "views"),
        ("print(views[e['k']].value(), views.window)", None),
    ],
)
def test_an_agent_that_uses_all_keys_of_a_table_has_all_events_in_one_shard(line: str, use: str | None) -> None:
    for stream in ("events", "events.group_by('k')"):
        agent, _ = agent_of(body("totals[e['k']] += 1", line, stream=stream))
        agent.channel.typed(None, dict)
        steps = steps_of(agent)
        sharding = sharding_of(agent, steps, grouped_by(steps), None)
        if use is None:
            assert sharding.field == "k"
        else:
            assert sharding.field is None
            assert f"one shard, because it uses all keys of the table {use!r} (" in sharding.words


@pytest.mark.parametrize(
    ("stream", "lines", "kind", "field"),
    [
        ("events.events()", ["totals[e.key] += 1"], dict, ""),
        ("events.events()", ["totals[e.key] += 1"], Plain, ""),
        ("events.events()", ["totals[e.value['k']] += 1"], dict, "k"),
        ("events.events()", ["w = e.value", "totals[w.k] += 1"], Plain, "k"),
        ("events.events()", ["w = e.value", "w.k = 'x'", "totals[w.k] += 1"], Plain, None),
        ("events.events()", ["e.message.value['k'] = 'x'", "totals[e.value['k']] += 1"], dict, None),
        ("events.group_by('k').events()", ["totals[e.key] += 1"], dict, "k"),
        ("events.group_by('k')", ["totals[e['k']] += 1"], dict, "k"),
        ("events.group_by('k')", ["totals[e['k'].upper()] += 1"], dict, "k"),
        ("events.group_by(lambda e: e['k'].upper())", ["totals[e['k'].upper()] += 1"], dict, None),
        ("events.group_by(Lower.k)", ["totals[e.k] += 1"], Lower, None),
        ("events.group_by(Plain.country)", ["totals[e.country] += 1"], Plain, "country"),
        ("events.filter(change)", ["totals[e['k']] += 1"], dict, None),
        ("events.filter(look)", ["totals[e['k']] += 1"], dict, "k"),
        ("events.take(10)", ["for one in e:", "    totals[one['k']] += 1"], dict, None),
    ],
)
def test_events_keys_and_groups_are_derived_from_the_operations_on_a_stream(
    stream: str, lines: list[str], kind: Any, field: str | None
) -> None:
    names: Any = {"change": change, "look": look, "Plain": Plain, "Lower": Lower}
    assert decided(body(*lines, stream=stream), kind, **names) == field


@pytest.mark.parametrize(
    ("target", "stream", "lines", "field"),
    [
        ("k, v", "events.items()", ["totals[k] += 1"], ""),
        ("k, v", "events.items()", ["totals[v['k']] += 1"], "k"),
        ("i, v", "events.enumerate()", ["totals[v['k']] += i"], "k"),
        ("i, v", "events.enumerate()", ["totals[i] += 1"], None),
        ("k, k", "events.items()", ["totals[k] += 1"], None),
    ],
)
def test_keys_numbers_and_values_are_known_apart(target: str, stream: str, lines: list[str], field: str | None) -> None:
    assert decided(body(*lines, stream=stream).replace("for e in", f"for {target} in"), dict) == field


def test_a_record_that_coerces_is_in_shards_by_a_field_where_its_column_is_of_that_type() -> None:
    def columns(k: T.DataType) -> T.StructType:
        return T.StructType([T.StructField("k", k), T.StructField("name", k)])

    numbers, names = body("totals[e.k] += 1"), body("totals[e.name] += 1")
    assert decided(numbers, Coerced, columns(T.LongType())) == "k"
    assert decided(numbers, Coerced, columns(T.StringType())) is None
    assert decided(names, Coerced, columns(T.StringType())) == "name"
    assert decided(names, Coerced, columns(T.DoubleType())) is None


def test_a_decorator_with_wraps_is_analysed_instead_of_the_body() -> None:
    text = """
    def twice(inner):
        @functools.wraps(inner)
        async def outer(events):
            await inner(events)
        return outer

    @app.agent(topic)
    @twice
    async def fold(events):
        async for e in events:
            views[e["k"]] += 1
    """
    import functools

    assert decided(text, dict, functools=functools) is None


# -- the rule itself


def test_keys_that_are_equal_in_a_dict_are_in_one_shard_in_spark_too(spark: SparkSession) -> None:
    values: list[tuple[T.DataType, list[Any]]] = [
        (T.StringType(), ["a", "", "1", "01", "é", "~", None]),
        (T.LongType(), [0, 1, -1, 2**53 + 1, 2**63 - 1, -(2**63), None]),
        (T.IntegerType(), [0, 7, -7]),
        (T.BooleanType(), [True, False, None]),
        (T.DoubleType(), [0.0, -0.0, 1.0, 0.5, 1e300, -(2.0**63), 2.0**63, math.nan, math.inf, 1e15, None]),
        (T.FloatType(), [1.0, 0.25, -3.0]),
        (T.DecimalType(38, 1), [Decimal(1), Decimal("0.5"), Decimal(2) ** 100, Decimal(-7), None]),
        (T.DateType(), [None]),
        (T.ArrayType(T.LongType()), [[1], []]),
    ]
    for kind, keys in values:
        rows = spark.createDataFrame([(one,) for one in keys], T.StructType([T.StructField("v", kind)]))
        shards = rows.select("v", shard_column(F.col("v"), kind).alias("shard")).collect()
        assert [row.shard or "" for row in shards] == [shard_of(row.v) for row in shards]
    for one, other in [(1, 1.0), (0.0, -0.0), (2**60, float(2**60)), (Decimal(7), 7)]:
        assert one == other
        assert shard_of(one) == shard_of(other)
        assert encode_key(1, "t") == encode_key(1.0, "t")


# -- a key of another shard


def shard_for(program: Program) -> tuple[Shard, Journal]:
    journal = Journal(MemoryStore())
    return Shard(journal, Clock(), program.tables.values()), journal


@pytest.mark.parametrize("on_error", ["stop", "dead_letter"])
@pytest.mark.parametrize(
    "line",
    [
        "totals[e] += 1",
        "totals[e] = 1",
        "totals.setdefault(e, 1)",
        "totals.pop(e, None)",
        "print(totals.get(e))",
        "views[e] += 1",
        "views[e, 5.0] = 1",
        "views.set_window(e, (0.0, 10.0), 1)",
        "count(e)",
        "try:\n            totals[e] += 1\n        except Exception:\n            pass",
    ],
)
def test_a_key_of_another_shard_stops_the_program_whatever_the_agent_makes_of_the_error(
    line: str, on_error: str
) -> None:
    text = body(line).replace("(topic)", f"(topic, on_error={on_error!r})")
    program = Program("other")
    count = faust.windowed_count(program.Table("counts", default=int), faust.TumblingWindow(10))
    agent, program = agent_of(text, count=count)
    shard, journal = shard_for(program)
    right = Event("k", "a", Message("in", 0, 0, 1.0, "k", "a", shard="a"))
    wrong = Event("k", "b", Message("in", 0, 1, 2.0, "k", "b", shard="a"))
    with shard.of_agent("fold"):
        run_batch(agent, shard, journal, [right])
    with (
        pytest.raises(WrongShardError, match=r"'fold' used \w+\['b'\] at .*:\d+ for the event 'b'.*'a'.*group_by"),
        shard.of_agent("fold"),
    ):
        run_batch(agent, shard, journal, [wrong, right])


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("compiled", [True, False])
def test_nothing_of_a_batch_is_kept_whose_key_is_of_another_shard_on_both_paths(tmp_path: Path, compiled: bool) -> None:
    app = faust.App("app", broker=f"dir:{tmp_path}", compiled=compiled, clock=ManualClock(0))
    views = app.Table("views", default=int).tumbling(10)

    @app.agent(app.topic("in", value_type=dict), on_error="dead_letter")
    async def count(events: Any) -> None:
        # A shard key from the program, which is wrong for some events.
        async for event in events.group_by("k"):
            views[max(event["k"], "a")] += 1

    assert app.explain().parts[0].runs == ("JVM" if compiled else "Python")
    topics.produce(app.broker, "in", [{"k": "a"}, {"k": "b"}], timestamps=[1.0, 2.0])
    app.run(until="drained")
    topics.produce(app.broker, "in", [{"k": "b"}, {"k": "A"}], timestamps=[1.0, 2.0])
    with pytest.raises(faust.WrongShardError, match=r"'count' used views\['a'\].*which is in the shard 'A'"):
        app.run(until="drained")
    assert {row.key: row.value for row in app.table("views").read().collect()} == {'"a"': "1", '"b"': "1"}
