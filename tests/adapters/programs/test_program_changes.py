"""Changed programs over their earlier state: parts that continue, and parts that are rejected by name."""

# Programs are written as users write them.
# ruff: noqa: N801
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mullion import IncompatibleStateError, Upgrade, faust, topics, turbine
from mullion._program.app import App
from mullion._program.cli import main
from mullion._util.clock import ManualClock
from mullion.bytewax import operators as op
from mullion.bytewax.dataflow import Dataflow
from mullion.bytewax.operators import windowing as win
from mullion.bytewax.recovery import RecoveryConfig
from mullion.bytewax.testing import TestingSink, TestingSource, run_main
from mullion.errors import UnsupportedError
from mullion.turbine import aggregates as agg
from mullion.turbine import windowing as turbine_win

MINUTE = 60_000
# The verdicts of reports.
GOES_ON, REFUSED = "goes on", "refused"


def said_of(
    checkpoint: Path, app: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[int, list[str]]:
    """The output of ``mullion plan-change`` for a program, and its exit code."""
    module = types.ModuleType("changed_program")
    module.app = app  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "changed_program", module)
    code = main.main(["plan-change", str(checkpoint), "changed_program:app"])
    return code, capsys.readouterr().out.splitlines()


def totals(
    home: Path,
    spark: SparkSession,
    size_ms: int,
    value: Any,
    *,
    lateness_ms: int = 0,
    early: bool = False,
    key: tuple[str, ...] = ("k",),
    **changes: Any,
) -> turbine.App:
    app = turbine.App(
        "totals",
        broker=f"dir:{home / 'topics'}",
        checkpoint=home / "state",
        spark=spark,
        clock=ManualClock(),
        **changes,
    )

    @app.subscribe("orders", publish_to="totals")
    class alone:
        def __init__(self) -> None:
            self._win = turbine_win.PersistentTumbling(
                self,
                name="total",
                size_ms=size_ms,
                key=list(key),
                value=value,
                time_column="ts",
                allowed_lateness_ms=lateness_ms,
                on_close=self._closed,
                early_fire_interval_ms=5_000 if early else None,
                on_early_fire=self._closed if early else None,
            )

        def _closed(self, state, panes):
            return panes.combine_chunks().to_batches()[0]

        def process(self, batch, state):
            self._win.update(batch, state)

    return app


def feed(app: turbine.App, *minutes: float) -> None:
    rows = [{"k": "a", "o": "x", "n": 10, "ts": round(MINUTE * at)} for at in minutes]
    topics.produce(app.broker, "orders", rows)
    app.run(until="drained")


def test_windows_of_turbine_change_as_native_windows_do(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    count = agg.Multi(n=agg.Count())
    both = agg.Multi(total=agg.Sum("n"), n=agg.Count())
    feed(totals(tmp_path, spark, MINUTE, count), 0.1, 1.5)
    state = tmp_path / "state"

    # An aggregate that is new, in front of the other.
    code, lines = said_of(state, totals(tmp_path, spark, MINUTE, both), monkeypatch, capsys)
    assert code == 1
    assert lines[0].startswith(
        f"{REFUSED}  total: tumbling 1 minute: aggregates was [count(1) AS value_0] and is now ["
    )
    with pytest.raises(IncompatibleStateError, match="new_aggregates='from now'"):
        totals(tmp_path, spark, MINUTE, both).run(until="drained")
    later = totals(
        tmp_path, spark, MINUTE, both, lateness_ms=MINUTE // 2, early=True, upgrade=Upgrade(new_aggregates="from now")
    )
    code, lines = said_of(state, later, monkeypatch, capsys)
    assert code == 0
    assert [line.split(":")[0] for line in lines] == [f"{GOES_ON}  total"] * len(lines)
    assert any("allowed lateness was [0 seconds] and is now [30 seconds]" in line for line in lines)
    feed(totals(tmp_path, spark, MINUTE, both, upgrade=Upgrade(new_aggregates="from now")), 1.6)

    # Another size.
    more: dict[str, Any] = {"upgrade": Upgrade(new_aggregates="from now")}
    with pytest.raises(IncompatibleStateError, match=r"with upgrade=Upgrade\(window='drain'\) its panes stay open"):
        totals(tmp_path, spark, 2 * MINUTE, both, **more).run(until="drained")
    longer = totals(tmp_path, spark, 2 * MINUTE, both, upgrade=Upgrade("from now", "drain"))
    code, lines = said_of(state, longer, monkeypatch, capsys)
    assert code == 0
    assert lines[0].startswith(
        "drains   total: tumbling 1 minute: window was [tumbling 1 minute] and is now [tumbling 2 m"
    )
    feed(longer, 1.7, 2.5)
    feed(longer, 5.0)
    closed = topics.read(longer.broker, "totals").to_pylist()
    start, end = "window_start_ms", "window_end_ms"
    panes = sorted((row[start] / MINUTE, row[end] / MINUTE, row.get("total"), row["n"]) for row in closed)
    assert panes == [(0, 1, None, 1), (1, 2, 20, 3), (2, 4, 10, 1)]

    # The columns of a key.
    code, lines = said_of(state, totals(tmp_path, spark, MINUTE, both, key=("o",)), monkeypatch, capsys)
    assert code == 1
    assert f"{REFUSED}  total: The window 'total' had key=['k'] and is now key=['o']" in lines[0]


def test_a_subscription_that_reads_another_topic_is_rejected(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def app(topic: str) -> turbine.App:
        app = turbine.App("copies", broker=f"dir:{tmp_path / 'topics'}", checkpoint=tmp_path / "state", spark=spark)

        @app.subscribe(topic, publish_to="copied")
        class copies:
            def process(self, batch, state):
                return batch

        return app

    for topic in ("one", "two"):
        topics.produce(app(topic).broker, topic, [{"k": topic}])
    app("one").run(until="drained")
    code, lines = said_of(tmp_path / "state", app("two"), monkeypatch, capsys)
    assert code == 1
    assert lines[0].startswith(
        f"{REFUSED}  copies.process: The query 'copies.process' has read the topic 'one', and would"
    )
    with pytest.raises(IncompatibleStateError, match="would now read 'two'"):
        app("two").run(until="drained")
    topics.produce(app("one").broker, "one", [{"k": "more"}])
    app("one").run(until="drained")
    assert topics.read(app("one").broker, "copied")["k"].to_pylist() == ["one", "more"]


def test_windows_in_the_query_of_a_state_are_compared_and_stay_as_they_are(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def app(partition_key: str | None = None, **sizes: int) -> turbine.App:
        app = turbine.App("state", broker=f"dir:{tmp_path / 'topics'}", checkpoint=tmp_path / "state", spark=spark)

        @app.subscribe("orders", partition_key=partition_key)
        class rows:
            def __init__(self) -> None:
                self._wins = [
                    turbine_win.PersistentTumbling(
                        self,
                        name=name,
                        size_ms=size,
                        key=["k"],
                        value=agg.Count(),
                        time_column="ts",
                        on_close_each=self._closed,
                    )
                    for name, size in sizes.items()
                ]

            def process(self, batch, state):
                state["rows"] = state.get("rows", 0) + batch.num_rows
                for each in self._wins:
                    each.update(batch, state)

            def _closed(self, state, window, value):
                state["closed"] = value

        return app

    feed(app(minute=MINUTE, hour=60 * MINUTE), 0.1)
    code, lines = said_of(tmp_path / "state", app(minute=MINUTE, day=1440 * MINUTE), monkeypatch, capsys)
    assert code == 0
    assert lines == [
        f"{GOES_ON}  rows.state: functions: their state is found again",
        f"{GOES_ON}  rows.state: minute: the state means what it meant",
        f"{GOES_ON}  rows.state: day: the window is new: it holds the rows from now on",
        f"{GOES_ON}  rows.state: hour: the window is gone, and its panes are kept",
        f"{GOES_ON}  hour: it is no longer in the program, and its state is kept",
    ]
    code, lines = said_of(tmp_path / "state", app("k", minute=2 * MINUTE), monkeypatch, capsys)
    assert code == 1
    assert lines[0].startswith(f"{REFUSED}  rows.state: functions: shard was [] and is now [")
    assert lines[1].startswith(
        f"{REFUSED}  rows.state: minute: window was [tumbling 1 minute] and is now [tumbling 2 minutes]"
    )


Make = Callable[[faust.App], Any]


def program(home: Path, spark: SparkSession, make: Make, agent: str = "count") -> faust.App:
    app = faust.App("shop", broker=f"dir:{home / 'topics'}", checkpoint=home / "state", spark=spark)
    table = make(app)

    async def count(rows):
        async for row in rows:
            table[row["k"]] += 1

    async def computed(rows):
        async for row in rows:
            table[row["k"].upper()] += 1

    app.agent(app.topic("in"), name=agent)(count if agent == "count" else computed)
    return app


def test_tables_of_faust_with_moved_records_are_rejected_and_others_continue(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    def plain(app: faust.App, **about: Any) -> Any:
        return app.Table("t", default=int, **about)

    def table_of(name: str, window: faust.Window, **about: Any) -> Any:
        return lambda app: app.Table(name, default=int).using_window(window, **about)

    def both(window: faust.Window) -> Make:
        def make(app: faust.App) -> Any:
            ranges = table_of("ranges", window)(app)
            table = app.Table("t", default=int, key_type=str)

            @app.agent(app.topic("in"), name="ranged")
            async def ranged(rows):
                async for row in rows:
                    ranges[row["k"]] += 1

            return table

        return make

    rows = [{"k": "a", "other": "b"}, {"k": "b", "other": "b"}]
    broker = f"dir:{tmp_path / 'topics'}"
    topics.produce(broker, "in", rows, timestamps=[1.0, 2.0])
    first = program(tmp_path, spark, both(faust.TumblingWindow(10, 5)))
    assert {part.runs for part in first.explain().parts} == {"JVM", "Python"}
    first.run(until="drained")

    def refused(make: Make, says: str, **about: Any) -> None:
        app = program(tmp_path, spark, make, **about)
        with pytest.raises(IncompatibleStateError, match=says):
            app.run(until="drained")
        code, lines = said_of(tmp_path / "state", app, monkeypatch, capsys)
        assert code == 1
        assert lines[0].startswith(f"{REFUSED}  agents: The ")

    anew = "Undo the change, give it another name, under which it starts with nothing, or start with another"
    refused(
        table_of("t", faust.TumblingWindow(10)), f"its records are kept by key, and would now be .* and range. .*{anew}"
    )
    refused(lambda app: plain(app, key_type=int), "its keys are of the key_type str, and would now be of int")
    refused(
        table_of("ranges", faust.SlidingWindow(5, 5, 100)),
        "kept by key and range, and would now be kept by key and time",
    )
    refused(
        table_of("ranges", faust.TumblingWindow(10), key_index=True),
        "has not kept which keys there are, which key_index=",
    )
    # A renamed agent with all events in one shard is also distinguished from earlier ones.
    refused(plain, "'other' are in one shard, and all of 'shop' were in shards when it began", agent="other")

    changed = program(tmp_path, spark, both(faust.TumblingWindow(20, 1000)))
    code, lines = said_of(tmp_path / "state", changed, monkeypatch, capsys)
    assert code == 0
    window = "its window was tumbling_10 and is now tumbling_20. Ranges that are open stay"
    assert sorted(lines)[0].startswith(f"{GOES_ON}  table ranges: {window}")
    assert sorted(lines)[1] == f"{GOES_ON}  table t: its records mean what they meant"
    # The ranges of before would have gone at 15 s by the window of before.
    topics.produce(broker, "in", [*rows, {"k": "c", "other": "c"}], timestamps=[3.0, 4.0, 50.0])
    changed.run(until="drained")
    assert f"The table 'ranges' of shop keeps its records: {window}" in caplog.text.replace("'shop'", "shop")
    ends = [(row.key, row.window.end.second, row.value) for row in changed.table("ranges").read().collect()]
    assert sorted(ends) == [('"a"', 10, "1"), ('"a"', 20, "1"), ('"b"', 10, "1"), ('"b"', 20, "1"), ('"c"', 0, "1")]
    assert {row.key: row.value for row in changed.table("t").read().collect()} == {'"a"': "2", '"b"': "2", '"c"': "1"}
    alone = program(tmp_path, spark, plain)
    code, lines = said_of(tmp_path / "state", alone, monkeypatch, capsys)
    assert (code, sorted(lines)[0]) == (
        0,
        f"{GOES_ON}  table ranges: it is no longer in the program, and its records are kept",
    )


def test_a_timer_of_faust_that_was_taken_out_and_comes_back_is_called(spark: SparkSession, tmp_path: Path) -> None:
    clock = ManualClock(start_ms=0)
    broker = f"dir:{tmp_path / 'topics'}"

    def app(*timers: str) -> faust.App:
        app = faust.App("timers", broker=broker, checkpoint=tmp_path / "state", clock=clock, spark=spark)
        table, out = app.Table("t", default=int), app.topic("out", value_type=str)

        @app.agent(app.topic("in", value_type=str))
        async def count(values):
            async for value in values:
                table[value] += 1

        for name in timers:

            @app.timer(10.0, name=name)
            async def tick(name: str = name) -> None:
                await out.send(value=f"{name}, {len(table)}")

        return app

    def lived(program: faust.App) -> list[Any]:
        before = len(topics.read(broker, "out")) if (tmp_path / "topics/out").exists() else 0
        with program.start() as running:
            for _ in range(2):
                topics.produce(broker, "in", ["a"], timestamps=[1.0])
                running.settle()
                running.advance("11 seconds")
                running.settle()
        messages = topics.read(broker, "out").to_pylist() if (tmp_path / "topics/out").exists() else []
        return [row["value"] for row in messages[before:]]

    assert "second, 1" in lived(app("first", "second"))
    assert set(lived(app("first"))) == {"first, 1"}
    assert {"first, 1", "second, 1"} == set(lived(app("first", "second")))


def sums(length: timedelta, gap: timedelta) -> Dataflow:
    at = datetime(2024, 1, 1, tzinfo=UTC)
    flow = Dataflow("sums")
    numbers = op.input("numbers", flow, TestingSource([("a", 1)]))
    clock: Any = win.EventClock(lambda n: at, wait_for_system_duration=timedelta(days=1))
    spans = win.fold_window(
        "spans", numbers, clock, win.TumblingWindower(length), int, lambda total, n: total + n, int.__add__
    )
    visits = win.collect_window("visits", numbers, clock, win.SessionWindower(gap))
    op.output("out", spans.down, TestingSink([]))
    op.output("more", visits.down, TestingSink([]))
    return flow


def test_a_window_of_bytewax_that_would_take_open_windows_for_others_is_rejected(
    spark: SparkSession, tmp_path: Path
) -> None:
    state, minute = RecoveryConfig(tmp_path), timedelta(minutes=1)
    run_main(sums(minute, minute), recovery_config=state, spark=spark)
    run_main(sums(minute, 2 * minute), recovery_config=state, spark=spark)
    says = (
        r"the step 'sums.spans', and its windows was \[0:01:00 long, one every 0:01:00, from 1970.* now \[0:02:00 long"
    )
    with pytest.raises(IncompatibleStateError, match=says):
        run_main(sums(2 * minute, minute), recovery_config=state, spark=spark)


def test_an_app_that_cannot_compare_its_state_raises_an_error(tmp_path: Path) -> None:
    class Other(App):
        api = "kx"

        def _jobs(self) -> list[Any]:
            return []

        def _parts(self) -> list[Any]:
            return []

    with pytest.raises(UnsupportedError, match=r"mullion\.kx does not compare it"):
        Other("pipelines", broker=f"dir:{tmp_path}").plan_change()
