"""``faust.App``: programs over topics in a folder, run by Spark in Python workers, with their tables in its state."""

from __future__ import annotations

import json
import random
import sys
from collections import Counter, deque
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

import mullion.faust as faust
from mullion import IncompatibleStateError, InvalidArgumentError, MullionError, UnsupportedError, topics
from mullion._program.cli import main as _cli
from mullion._util.clock import ManualClock
from mullion.faust._agent_run.outside_state import OutsideState
from mullion.faust._agent_run.worker import Worker, outputs
from mullion.faust._context import Sent
from mullion.faust._program.program import Program
from mullion.faust.agents import DeadLetter
from mullion.topics._json_rows import values_in
from tests.support.faust import faust_programs as programs
from tests.support.faust.local_run import LocalRun
from tests.support.seeds import SEED

pytestmark = pytest.mark.usefixtures("spark")
# Workers do not have the folder of the tests on their path.
for module in (sys.modules[__name__], programs):
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]

DAY = 86_400.0


def app_in(folder: Path, **given: Any) -> faust.App:
    return faust.App("shop", broker=f"dir:{folder}/topics", processing_guarantee="exactly_once", **given)


def kept(app: faust.App, table: str) -> Any:
    """What a table holds: by key, or by key and the start of the range."""
    rows = app.table(table).read().collect()
    if app.tables[table].window is None:
        return {json.loads(row.key): json.loads(row.value) for row in rows}
    return {(json.loads(row.key), row.window.start.timestamp()): json.loads(row.value) for row in rows}


def put(app: faust.App, topic: str, *events: tuple[Any, float]) -> None:
    topics.produce(app.broker, topic, [value for value, _ in events], timestamps=[at for _, at in events])


def test_a_topic_that_cannot_be_is_refused_where_the_program_names_it(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="topic='sales/north' is not a topic's name"):
        app_in(tmp_path).topic("sales/north")
    with pytest.raises(InvalidArgumentError, match="topic='shop-a b' is not a topic's name"):
        app_in(tmp_path).agent(name="a b")(lambda stream: None)
    with pytest.raises(InvalidArgumentError, match="topic='__mullion_batches' is where publishers note"):
        faust.App("shop", broker="kafka://nowhere:1").channel("__mullion_batches")


def test_a_table_that_is_removed_is_reported_and_its_state_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def made(*names: str) -> faust.App:
        app = app_in(tmp_path)
        for name in names:
            table = app.Table(name, default=int) if name == "plain" else app.Table(name, default=int).tumbling(10)

            @app.agent(app.topic("in", value_type=str), name=name)
            async def count(stream: Any, table: Any = table) -> None:
                async for value in stream:
                    table[value] += 1

        put(app, "in", ("a", 1.0))
        app.run(until="drained")
        return app

    made("plain", "ranges")
    app = made("ranges")
    assert "The table 'plain' is no longer in shop. Its state is kept in" in caplog.text
    assert [part.name for part in app.kept()] == ["plain"]
    assert "kept, for it was removed" in app.windows()
    with pytest.raises(UnsupportedError, match="records of the table 'plain' cannot be deleted"):
        app.drop("plain")
    with pytest.raises(InvalidArgumentError, match="'ranges' is in use"):
        app.drop("ranges")
    # In another order; by their names they are what they were.
    app = made("ranges", "plain")
    assert kept(app, "ranges") == {("a", 0.0): 3}
    assert kept(app, "plain") == {"a": 2}
    app.agent(app.topic("more", value_type=str), name="more")(app.agents["plain"].function)
    with pytest.raises(
        IncompatibleStateError, match=r"'shop' read the topics in, more, and when .* they were in\. Its"
    ):
        app.run(until="drained")
    app = app_in(tmp_path)
    table = app.Table("ranges", default=int).tumbling(10)

    @app.agent(app.topic("in", value_type=str), name="ranges")
    async def count(stream: Any) -> None:
        async for value in stream:
            table[len(value)] += 1

    with pytest.raises(IncompatibleStateError, match=r"'ranges' are in one shard, and were in shards by value when"):
        app.run(until="drained")


def test_messages_dead_letters_timers_and_closed_windows_of_a_program(tmp_path: Path) -> None:
    clock = ManualClock(start_ms=0)
    app = app_in(tmp_path, clock=clock)
    closed, out = app.topic("closed"), app.topic("out", value_type=dict)

    def on_close(key: Any, value: Any) -> None:
        closed.send(key=key[0], value={"n": value, "start": key[1][0]})

    views = app.Table("views", default=int, on_window_close=on_close).tumbling(10, expires=10, key_index=True)
    ticks = app.topic("ticks")

    @app.agent(app.topic("in", value_type=programs.Withdrawal), sink=[out], on_error="dead_letter")
    async def count(stream: Any) -> Any:
        async for event in stream.group_by(programs.Withdrawal.user):
            views[event.user] += 1
            yield {"user": event.user, "share": 1 / event.amount}

    @app.timer(60)
    async def tell() -> None:
        for user, n in views.items():
            await ticks.send(key=user, value={"n": n})

    with pytest.raises(InvalidArgumentError, match=r"'shop' has no table 'view'. Its tables are: views"):
        app.table("view")
    good = {"user": "u", "country": "AT", "amount": 2.0}
    put(app, "in", (good, 1.0), ({**good, "amount": 0.0}, 2.0), (good, 3.0), ({**good, "user": None}, 4.0))
    with app.start() as running:
        running.settle()
        assert topics.read(app.broker, "out")["share"].to_pylist() == [0.5, 0.5]
        letters = topics.read(app.broker, "shop-dead-letters").to_pylist()
        assert sorted(letter["reason"].split(":")[0] for letter in letters) == [
            "InvalidArgumentError",
            "ZeroDivisionError",
        ]
        assert {letter["agent"] for letter in letters} == {"count"}
        assert kept(app, "views") == {("u", 0.0): 2}
        running.advance("60 seconds")
        running.settle()
        assert topics.read(app.broker, "ticks")["n"].to_pylist() == [2]
        put(app, "in", (good, 25.0))
        running.settle()
        assert topics.read(app.broker, "closed").to_pylist()[0]["n"] == 2
    assert kept(app, "views") == {("u", 20.0): 1}
    assert "agent count  Python" in str(app.explain())


def test_an_agent_that_fails_stops_the_program_and_what_was_committed_stays(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    totals = app.Table("totals", default=int)

    @app.agent(app.topic("in", value_type=dict))
    async def fold(stream: Any) -> None:
        async for event in stream:
            totals[event["k"]] += 6 // event["n"]

    put(app, "in", ({"k": "a", "n": 1}, 1.0))
    put(app, "in", ({"k": "a", "n": 2}, 2.0), ({"k": "a", "n": 0}, 3.0))
    with pytest.raises(
        faust.MullionError, match=r"The agent 'fold' failed on the event \{'k': 'a', 'n': 0\}.*test_faust_app"
    ):
        app.run(until="drained")
    assert kept(app, "totals") == {"a": 6}


def test_random_events_give_the_same_answers_as_in_this_process(tmp_path: Path) -> None:
    seed = SEED
    print(f"seed {seed}")
    chance = random.Random(seed)

    def make(app: Program) -> None:
        views = app.Table("views", default=int).hopping(30, 10, expires=0, key_index=True)
        lists = app.Table("lists", default=list)

        @app.agent(app.topic("in", value_type=dict))
        async def fold(stream: Any) -> Any:
            async for event in stream:
                views[event["k"]] += event["n"]
                held = lists[event["k"]]
                held.append(views[event["k"]].value())
                lists[event["k"]] = held

    app, program = app_in(tmp_path), Program("shop")
    make(app)
    make(program)
    run = LocalRun(program, ManualClock())
    for _ in range(4):
        events = [
            ({"k": chance.choice("abcdefgh"), "n": chance.randrange(-5, 50)}, float(chance.randrange(0, 200)))
            for _ in range(50)
        ]
        put(app, "in", *events)
        run.produce("in", [(None, value, at) for value, at in events])
    app.run(until="drained")
    (lists,) = run.read(lambda: dict(program.tables["lists"].items()))
    assert kept(app, "lists") == lists
    windowed = program.tables["views"].using_window(program.tables["views"].window)  # type: ignore[arg-type]
    (ranges,) = run.read(lambda: {(k, one.start): n for k in lists for one, n in windowed.windows_for_key(k)})
    assert kept(app, "views") == ranges


def test_what_cannot_be_run_is_refused_when_it_starts(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    with pytest.raises(InvalidArgumentError, match="has nothing to run"):
        app.run(until="drained")
    with pytest.raises(InvalidArgumentError, match="processing_guarantee='twice' is neither"):
        faust.App("twice", processing_guarantee="twice")
    other = faust.App("other", broker=app.broker)
    programs.tumbling_counts(other)
    put(other, "events", ({"kind": "a"}, 1.0))
    with pytest.raises(
        InvalidArgumentError, match="'count_events' are in shards by category, which its topic 'events'"
    ):
        other.run(until="drained")
    programs.wrongly_sharded(app)
    put(app, "withdrawals", ({"user": "u", "country": "AT", "amount": 5.0}, 1.0))
    with pytest.raises(InvalidArgumentError, match=r"'process_withdrawal' uses tables by different keys: .*group_by"):
        app.run(until="drained")


def test_agents_feed_one_another_and_a_task_begins_it(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    seen = app.Table("seen", default=int)

    @app.agent(app.topic("second", value_type=int), name="second")
    async def second(stream: Any) -> None:
        async for event in stream.events():
            seen[event.value] += 1

    @app.agent(app.topic("first", value_type=str), sink=[second], name="first")
    async def first(stream: Any) -> Any:
        async for value in stream:
            yield len(value)

    @app.task
    async def begin() -> None:
        await first.cast("from the task", key="k")

    put(app, "first", ("abc", 1.0), ("de", 2.0), ("fgh", 3.0))
    app.run(until="drained")
    assert kept(app, "seen") == {3: 2, 2: 1, 13: 1}


def test_an_agent_that_names_its_app_can_be_sent_to_workers(tmp_path: Path, spark: SparkSession) -> None:
    app = app_in(tmp_path, clock=ManualClock(), spark=spark)

    @app.agent(app.topic("in"))
    async def forward(stream: Any) -> None:
        async for value in stream:
            await app.topic("out").send(value=value)

    again = cloudpickle.loads(cloudpickle.dumps(forward))  # type: ignore[no-untyped-call]
    assert again.name == "forward"
    assert again.function.__closure__[0].cell_contents.topics.keys() == {"in"}


@pytest.mark.always
@pytest.mark.parametrize("compiled", [True, False])
def test_group_by_and_send_reach_their_topics_and_iteration_sees_all_keys(
    tmp_path: Path, spark: SparkSession, compiled: bool
) -> None:
    app = app_in(tmp_path, spark=spark, clock=ManualClock(90_000), compiled=compiled)
    grouped, out = app.topic("grouped"), app.topic("out")
    counts = app.Table("counts", default=int).tumbling(10, expires=1000)
    totals = app.Table("totals", default=int)

    @app.agent(app.topic("in"))
    async def group(stream: Any) -> None:
        async for value in stream.group_by("k", topic=grouped):
            counts[value["k"]] += 1

    @app.agent(grouped, sink=[app.topic("sums")])
    async def total(stream: Any) -> Any:
        async for event in stream.group_by("k").events():
            totals[event.key] += event.value["n"]
            await out.send(value=event.key, timestamp=5.25)
            await out.send(value=event.key)
            yield sum(totals.values())

    put(app, "in", *(({"k": f"k{n % 7}", "n": n}, float(n)) for n in range(21)))
    app.run(until="drained")
    sent = topics.read(app.broker, "grouped")
    assert sorted(zip(sent["_key"].to_pylist(), sent["n"].to_pylist(), strict=True)) == sorted(
        (f"k{n % 7}", n) for n in range(21)
    )
    assert max(topics.read(app.broker, "sums")["value"].to_pylist()) == sum(range(21))
    assert sorted(topics.read(app.broker, "out")["_timestamp"].to_pylist()) == [5.25] * 21 + [90.0] * 21
    assert sum(kept(app, "counts").values()) == 21
    assert {part.name: part.runs for part in app.explain().parts} == {"agent group": "Python", "agent total": "Python"}


@pytest.mark.always
@pytest.mark.parametrize("compiled", [True, False])
def test_null_goes_to_the_dead_letters_of_a_typed_topic(tmp_path: Path, spark: SparkSession, compiled: bool) -> None:
    class Order(faust.Record):
        k: str

    app = app_in(tmp_path, spark=spark, compiled=compiled)
    texts, orders = (app.Table(name, default=int).tumbling(10, expires=1000) for name in ("texts", "orders"))
    anything = app.Table("anything", default=int)

    @app.agent(app.topic("texts", value_type=str))
    async def of_texts(stream: Any) -> None:
        async for text in stream:
            texts[text] += 1

    @app.agent(app.topic("orders", value_type=Order))
    async def of_orders(stream: Any) -> None:
        async for order in stream:
            orders[order.k] += 1

    @app.agent(app.topic("anything"))
    async def of_anything(stream: Any) -> None:
        async for value in stream:
            anything[str(value)] += 1

    app.broker.produce_json("texts", ["a", None, "b"], [0.0] * 3, [None] * 3)
    app.broker.produce_json("orders", [{"k": "a"}, None, {"k": "b"}], [0.0] * 3, [None] * 3)
    app.broker.produce_json("anything", ["a", None], [0.0] * 2, [None] * 2)
    app.run(until="drained")
    assert kept(app, "texts") == kept(app, "orders") == {("a", 0.0): 1, ("b", 0.0): 1}
    assert kept(app, "anything") == {"a": 1, "None": 1}
    letters = topics.read(app.broker, app.dead_letters).to_pylist()
    assert {(one["agent"], one["value"]) for one in letters} == {("of_texts", "null"), ("of_orders", "null")}


def test_a_worker_logs_dead_letters(caplog: pytest.LogCaptureFixture) -> None:
    letters = [DeadLetter("in", "agent", f"reason {n}", None, n, 0.0) for n in range(3)]
    Worker([], [], [], "shop-dead-letters", OutsideState((), frozenset()))._log_dead_letters(letters)
    assert caplog.messages == [
        "3 messages of the topic 'in' were rejected for the agent 'agent' and are in the topic 'shop-dead-letters'. "
        "The first one: reason 0"
    ]


@pytest.mark.always
def test_tables_with_values_that_json_lacks_are_read(tmp_path: Path, spark: SparkSession) -> None:
    app = app_in(tmp_path, spark=spark)
    table = app.Table("values")
    counts = app.Table("counts", default=Counter)

    @app.agent(app.topic("in", value_type=str))
    async def keep(stream: Any) -> None:
        async for name in stream:
            counter = counts["all"]
            counter[name] += 1
            counts["all"] = counter
            table[name] = {
                "inf": float("inf"),
                "nan": [float("nan")],
                "tuple": {(1, "a"): np.float64(0.5)},
                "deque": deque([1, 2]),
                "window": faust.TumblingWindow(10).current(5.0),
            }[name]

    put(app, "in", *((name, 0.0) for name in ("inf", "nan", "tuple", "deque", "window", "inf")))
    app.run(until="drained")
    assert {json.loads(row.key): row.value for row in app.table("values").read().collect()} == {
        "inf": "Infinity",
        "nan": "[NaN]",
        "tuple": '{"[1, \\"a\\"]": 0.5}',
        "deque": "[1, 2]",
        "window": "[0.0, 10.0]",
    }
    assert kept(app, "counts") == {"all": {"inf": 2, "nan": 1, "tuple": 1, "deque": 1, "window": 1}}


def test_headers_of_messages_need_kafka(tmp_path: Path, spark: SparkSession) -> None:
    app = app_in(tmp_path, spark=spark)
    out = app.topic("out")

    @app.agent(app.topic("in"))
    async def send(stream: Any) -> None:
        async for value in stream:
            await out.send(value=value, headers={"trace": b"t-1"})

    put(app, "in", (1, 0.0))
    with pytest.raises(MullionError, match="A row for topic 'out' has headers, and a topic in a folder has none"):
        app.run(until="drained")
    with pytest.raises(InvalidArgumentError, match=r"headers\[0\] has \('trace', 't-1'\), which is not a name"):
        out.written(None, 1, headers={"trace": "t-1"})  # type: ignore[arg-type]


def test_messages_keep_their_order_and_their_fields() -> None:
    records = [{"a": 1}, {"a": 2}, {"a": 3, "b": "x"}, 5, {"a": 4}]
    sent = [Sent("t", key, value) for key, value in zip(["k", "k", "k", 7, "k"], records, strict=True)]
    letter = DeadLetter("in", "agent", "why", "k", {"n": 1}, 2.0)
    (batch,) = outputs(sent, [letter], "dead")
    rows = [(r["topic"], r["key"], values_in(topics.decoded(r["batch"]))) for r in batch.to_pylist()]
    assert rows == [
        ("t", "k", [{"a": 1}, {"a": 2}]),
        ("t", "k", [{"a": 3, "b": "x"}]),
        ("t", "7", [5]),
        ("t", "k", [{"a": 4}]),
        ("dead", "k", [{"topic": "in", "agent": "agent", "reason": "why", "value": '{"n": 1}', "timestamp": 2.0}]),
    ]
    assert list(outputs([], [], "dead")) == []
    odd = [{"a": 1}, {"a": "x"}, {"a": [1, "x"]}]
    for as_text in (False, True):
        (mixed,) = outputs([Sent("t", None, value) for value in odd], [], "dead", as_text=as_text)
        assert [value for one in mixed["batch"].to_pylist() for value in values_in(topics.decoded(one))] == odd


def test_the_command_of_faust_runs_an_app(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "shop_of_the_command.py").write_text(
        "import mullion.faust as faust\n"
        "from mullion.faust.cli import argument, option\n"
        f"app = faust.App('shop', broker='dir:{tmp_path}/topics')\n"
        "views = app.Table('views', default=int).tumbling(10)\n"
        "@app.agent(app.topic('in', value_type=str))\n"
        "async def count(stream):\n"
        "    async for value in stream:\n"
        "        views[value] += 1\n"
        "@app.command(option('--n', type=int, default=1), argument('page'))\n"
        "async def fill(self, n: int, page: str):\n"
        "    for _ in range(n):\n"
        "        await count.send(value=page)\n"
        "    self.say(f'sent {n}')\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    ran: list[Any] = []
    monkeypatch.setattr(faust.App, "run", lambda self, until=None: ran.append((self.name, until)))
    assert _cli.main(["faust", "worker", "-A", "shop_of_the_command:app", "-l", "info"]) == 0
    assert _cli.main(["faust", "worker", "-A", "shop_of_the_command:app", "--until", "drained"]) == 0
    for arguments in ([], ["worker", "-l", "info", "--without-web"]):
        monkeypatch.setattr(sys, "argv", ["shop_of_the_command.py", *arguments])
        sys.modules["shop_of_the_command"].app.main()
    assert _cli.main(["faust", "-A", "shop_of_the_command", "worker", "-l", "info"]) == 0
    assert ran == [("shop", None), ("shop", "drained"), *[("shop", None)] * 3]
    assert _cli.main(["faust", "-A", "shop_of_the_command", "fill", "--n", "2", "page"]) == 0
    assert topics.read(f"dir:{tmp_path}/topics", "in").to_pylist()[-1]["value"] == "page"
    assert _cli.main(["faust", "-A", "shop_of_the_command", "sell"]) == _cli.REFUSED
    assert _cli.main(["faust", "explain", "-A", "shop_of_the_command:app"]) == 0
    assert _cli.main(["faust", "tables", "-A", "shop_of_the_command:app"]) == 0
    told = capsys.readouterr().out
    assert "agent count  JVM   its events are in shards by value; it only updates windowed tables" in told
    assert "table  views  " in told
    assert _cli.main(["turbine", "run", "shop_of_the_command:app"]) == _cli.REFUSED


def metric(app: faust.App, name: str) -> list[int]:
    """A metric of the agents' operator, of each batch that had one."""
    reports = [report["stateOperators"] for report in app.queries["agents"].progress]
    return [operators[0]["customMetrics"][name] for operators in reports if operators]


@pytest.mark.parametrize("compiled", [True, False])
def test_late_events_are_counted_and_a_table_that_lags_costs_the_others_nothing(tmp_path: Path, compiled: bool) -> None:
    """Timers of a table are in an order of their own: those of a clock that lags are not read again and again."""
    app = app_in(tmp_path, clock=ManualClock(), compiled=compiled)
    slow, fast = (app.Table(name, default=int).tumbling(10, expires=10) for name in ("slow", "fast"))

    @app.agent(app.topic("slow-in", value_type=str))
    async def count_slow(stream: Any) -> None:
        async for value in stream:
            slow[value] += 1

    @app.agent(app.topic("fast-in", value_type=str))
    async def count_fast(stream: Any) -> None:
        async for value in stream:
            fast[value] += 1

    put(app, "slow-in", *((f"key {n}", 1.0) for n in range(500)))
    put(app, "fast-in", ("a", 1.0), ("a", 1000.0), ("a", 1.0), ("a", 979.0), ("a", 985.0))
    with app.start() as running:
        running.settle()
        assert app.explain().parts[0].runs == ("JVM" if compiled else "Python")
        assert sum(metric(app, "rowsLate")) == 3
        before = sum(metric(app, "stateRowsRead"))
        for n in range(5):
            put(app, "fast-in", ("a", 2000.0 + 100 * n))
            running.settle()
        assert sum(metric(app, "stateRowsRead")) - before < 100
        assert len(kept(app, "slow")) == 500
        assert kept(app, "fast") == {("a", 2400.0): 1}
        put(app, "slow-in", *((f"key {n}", 100.0) for n in range(500)))
        running.settle()
    assert kept(app, "slow") == {(f"key {n}", 100.0): 1 for n in range(500)}
    assert sum(metric(app, "rowsLate")) == 3


def test_a_timer_without_tables_is_called_once_before_there_are_events_and_as_often_after(tmp_path: Path) -> None:
    clock = ManualClock(start_ms=0)
    app = app_in(tmp_path, clock=clock)
    counts, ticks, totals = app.Table("counts", default=int), app.topic("ticks"), app.topic("totals")

    @app.timer(10, on_leader=True)
    async def tick() -> None:
        await ticks.send(value="tick")

    @app.timer(10)
    async def tell() -> None:
        await totals.send(value=sum(n for _, n in counts.items()))

    @app.agent(app.topic("in", value_type=str))
    async def count(stream: Any) -> None:
        async for value in stream:
            counts[value] += 1

    with app.start() as running:
        running.settle()
        running.advance("10 seconds")
        running.settle()
        assert topics.read(app.broker, "ticks")["value"].to_pylist() == ["tick"]
        put(app, "in", *((f"key {n}", 11.0) for n in range(20)))
        running.settle()
        running.advance("10 seconds")
        running.settle()
        assert topics.read(app.broker, "ticks")["value"].to_pylist() == ["tick"] * 2
        # From each shard its own.
        assert sum(topics.read(app.broker, "totals")["value"].to_pylist()) == 20
        assert len(topics.read(app.broker, "totals")) == 3


def test_an_app_of_timers_alone_is_called_by_the_clock_and_after_a_restart_too(tmp_path: Path) -> None:
    clock = ManualClock(start_ms=0)
    app = app_in(tmp_path, clock=clock)
    ticks = app.topic("ticks")

    @app.timer(10)
    async def tick() -> None:
        await ticks.send(value={"tick": 1})

    @app.timer(25)
    async def tock() -> None:
        await ticks.send(value={"tick": 2})

    for times in (1, 2):
        with app.start() as running:
            running.settle()
            for _ in range(3):
                running.advance("10 seconds")
                running.settle()
        found = topics.read(app.broker, "ticks")["tick"].to_pylist()
        assert sorted(found) == [1] * 3 * times + [2] * times
    app.run(until="drained")

    @app.agent(app.topic("in", value_type=str))
    async def read(stream: Any) -> None:
        async for _ in stream:
            pass

    with pytest.raises(IncompatibleStateError, match="read the topics in, and its query began with none"):
        app.start()


def test_fields_may_have_any_name_that_is_not_the_topics_own_and_events_none(tmp_path: Path) -> None:
    for compiled in (True, False):
        app = app_in(tmp_path / str(compiled), compiled=compiled)
        docs = app.Table("docs", default=int).tumbling(10)
        out = app.topic("out")

        @app.agent(app.topic("in", value_type=dict), sink=[out])
        async def count(stream: Any, docs: Any = docs) -> Any:
            async for event in stream:
                docs[event["_id"]] += event["_source"]
                yield {}

        put(app, "in", ({"_id": "a", "_source": 2}, 1.0), ({"_id": "a", "_source": 3}, 2.0))
        app.run(until="drained")
        assert kept(app, "docs") == {("a", 0.0): 5}
        assert len(topics.read(app.broker, "out")) == 2
