"""``faust.App``: programs over topics in a folder, run by Spark in Python workers, with their tables in its state."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

import mullion.faust as faust
from mullion import IncompatibleStateError, InvalidArgumentError, UnsupportedError, topics
from mullion._program.cli import main as _cli
from mullion._util.clock import ManualClock
from mullion.faust._program.program import Program
from tests.support.faust.local_run import LocalRun
from tests.support.faust.programs import faust_programs as programs
from tests.support.faust.spark_app import app_in, put, table_of
from tests.support.seeds import SEED

pytestmark = pytest.mark.usefixtures("spark")
# Workers do not have the folder of the tests on their path.
for module in (sys.modules[__name__], programs):
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def test_a_topic_that_cannot_be_is_rejected_where_the_program_names_it(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="topic='sales/north' is not a topic's name"):
        app_in(tmp_path).topic("sales/north")
    with pytest.raises(InvalidArgumentError, match="topic='shop-a b' is not a topic's name"):
        app_in(tmp_path).agent(name="a b")(lambda stream: None)
    with pytest.raises(InvalidArgumentError, match="topic='__mullion_batches' is where publishers note"):
        faust.App("shop", broker="kafka://nowhere:1").channel("__mullion_batches")


def test_a_table_that_is_removed_is_reported_and_its_state_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def app_with(*names: str) -> faust.App:
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

    app_with("plain", "ranges")
    app = app_with("ranges")
    assert "The table 'plain' is no longer in shop. Its state is kept in" in caplog.text
    assert [part.name for part in app.removed_parts()] == ["plain"]
    assert "kept, for it was removed" in app.windows()
    with pytest.raises(UnsupportedError, match="records of the table 'plain' cannot be deleted"):
        app.drop("plain")
    with pytest.raises(InvalidArgumentError, match="'ranges' is in use"):
        app.drop("ranges")
    # In another order; by their names they are what they were.
    app = app_with("ranges", "plain")
    assert table_of(app, "ranges") == {("a", 0.0): 3}
    assert table_of(app, "plain") == {"a": 2}
    app.agent(app.topic("more", value_type=str), name="more")(app.agents["plain"].function)
    with pytest.raises(
        IncompatibleStateError, match=r"'shop' read the topics in, more, and its query began with in\. It cannot"
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


def test_a_failed_agent_stops_the_program_and_committed_state_stays(tmp_path: Path) -> None:
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
    assert table_of(app, "totals") == {"a": 6}


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
                values = lists[event["k"]]
                values.append(views[event["k"]].value())
                lists[event["k"]] = values

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
    assert table_of(app, "lists") == lists
    windowed = program.tables["views"].using_window(program.tables["views"].window)  # type: ignore[arg-type]
    (ranges,) = run.read(lambda: {(k, one.start): n for k in lists for one, n in windowed.windows_for_key(k)})
    assert table_of(app, "views") == ranges


def test_what_cannot_be_run_is_rejected_when_it_starts(tmp_path: Path) -> None:
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
    counts = app.Table("seen", default=int)

    @app.agent(app.topic("second", value_type=int), name="second")
    async def second(stream: Any) -> None:
        async for event in stream.events():
            counts[event.value] += 1

    @app.agent(app.topic("first", value_type=str), sink=[second], name="first")
    async def first(stream: Any) -> Any:
        async for value in stream:
            yield len(value)

    @app.task
    async def begin() -> None:
        await first.cast("from the task", key="k")

    put(app, "first", ("abc", 1.0), ("de", 2.0), ("fgh", 3.0))
    app.run(until="drained")
    assert table_of(app, "seen") == {3: 2, 2: 1, 13: 1}


def test_an_agent_that_names_its_app_can_be_sent_to_workers(tmp_path: Path, spark: SparkSession) -> None:
    app = app_in(tmp_path, clock=ManualClock(), spark=spark)

    @app.agent(app.topic("in"))
    async def forward(stream: Any) -> None:
        async for value in stream:
            await app.topic("out").send(value=value)

    again = cloudpickle.loads(cloudpickle.dumps(forward))  # type: ignore[no-untyped-call]
    assert again.name == "forward"
    assert again.function.__closure__[0].cell_contents.topics.keys() == {"in"}


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
    output = capsys.readouterr().out
    assert "agent count  JVM   its events are in shards by value; it only updates windowed tables" in output
    assert "table  views  " in output
    assert _cli.main(["turbine", "run", "shop_of_the_command:app"]) == _cli.REFUSED
