"""Savepoints of programs: a program that resumes from one in other partitions gives the same results."""

# Programs are written as users write them.
# ruff: noqa: N801
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import fcntl
import socket
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from mullion import faust, savepoint, topics, turbine
from mullion._keyed.api import read_state
from mullion._program.cli import main
from mullion._util.clock import ManualClock
from mullion.bytewax import operators as op
from mullion.bytewax.dataflow import Dataflow
from mullion.bytewax.operators import windowing as win
from mullion.bytewax.recovery import RecoveryConfig
from mullion.bytewax.testing import TestingSink, TestingSource, run_main
from mullion.errors import UnsupportedError
from mullion.kx import sp
from mullion.turbine import aggregates as agg
from mullion.turbine import windowing as turbine_win

THROUGH = (7, 3)
"""A program's state begins in the 2 partitions of the suite."""


def moved(folder: Path, to: Path, partitions: int, capsys: pytest.CaptureFixture[str]) -> None:
    code = main.main(["savepoint", str(folder), str(to), "--partitions", str(partitions)])
    output = capsys.readouterr()
    assert code == 0, output.err
    assert "continues after batch" in output.out
    for state in to.glob("**/query/state/*/"):
        assert {int(one.name) for one in state.glob("[0-9]*")} == set(range(partitions))


def lived(run: Callable[[Path, int], None], home: Path, capsys: pytest.CaptureFixture[str]) -> tuple[Path, Path]:
    """Runs a program in three parts, once undisturbed and once in other partitions each time; where each ended."""
    alone, at = home / "alone", home / "2"
    for part, partitions in enumerate((None, *THROUGH)):
        if partitions is not None:
            moved(at, home / str(partitions), partitions, capsys)
            at = home / str(partitions)
        run(at, part)
        run(alone, part)
    return alone, at


KEYS = ["ann", "bob", 'q"uote\\', "line\nbreak\t", "müller", "", "-7", "12", "~", "true"]


def visits(broker: str, checkpoint: Path, spark: SparkSession) -> faust.App:
    app = faust.App("visits", broker=broker, checkpoint=checkpoint, spark=spark)
    # Of an agent in the JVM, and of two in Python.
    minutes = app.Table("minutes", default=int).tumbling(60, expires=3600, key_index=True)
    numbers = app.Table("seen", default=list)
    last = app.Table("last", default=int).hopping(20, 10, expires=50, key_index=True)

    @app.agent(app.topic("visits"))
    async def count(rows):
        async for row in rows:
            minutes[row["who"]] += row["n"]

    @app.agent(app.topic("visits"))
    async def see(rows):
        async for row in rows:
            numbers[row["who"]] = [*numbers[row["who"]], row["n"]]

    @app.agent(app.topic("sizes"))
    async def measure(rows):
        async for row in rows:
            last[row["size"]] += 1

    return app


def test_tables_of_faust_are_found_by_their_keys_in_other_partitions(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broker = f"dir:{tmp_path / 'topics'}"
    sizes = [1, -2, 3.0, 0.5, 2.0**70, 10**6]
    produced = set()

    def run(checkpoint: Path, part: int) -> None:
        if part not in produced:
            produced.add(part)
            rows = [{"who": key, "n": n + part} for n, key in enumerate(2 * KEYS)]
            topics.produce(broker, "visits", rows, timestamps=[100.0 * part + 5 * n for n in range(len(rows))])
            measured = [{"size": float(size)} for size in sizes]
            topics.produce(broker, "sizes", measured, timestamps=[100.0 * part] * len(measured))
        visits(broker, checkpoint, spark).run(until="drained")

    alone, at = lived(run, tmp_path, capsys)
    app, other = visits(broker, alone, spark), visits(broker, at, spark)
    assert {part.runs for part in app.explain().parts} == {"JVM", "Python"}

    def records(app: Path) -> dict[bytes, bytes]:
        rows = read_state(app / "agents/query", spark=spark).collect()
        assert {row.shard for row in rows} == set(range(2 if app == alone else THROUGH[-1]))
        # Without the clocks of tables, which each partition has.
        return {bytes(row.key): bytes(row.value) for row in rows if len(row.key) > 8}

    # Timers in other partitions have deleted the ranges of `last`.
    assert records(at) == records(alone)
    for table in ("minutes", "seen", "last"):
        is_, expected = (sorted(map(repr, one.table(table).read().collect())) for one in (other, app))
        assert expected
        assert is_ == expected


def counts(items: list[Any], out: list[Any]) -> Dataflow:
    flow = Dataflow("counts")
    numbers = op.input("numbers", flow, TestingSource(items))
    totals = op.stateful_map("sum", numbers, lambda total, n: ((total or 0) + n, (total or 0) + n))
    spans = win.fold_window(
        "spans",
        totals,
        win.SystemClock(),
        win.SessionWindower(gap=timedelta(days=1)),
        list,
        lambda numbers, n: [*numbers, n],
        lambda one, other: one + other,
    )
    op.output("totals_out", totals, TestingSink(out))
    op.output("spans_out", spans.down, TestingSink(out))
    return flow


def test_keys_of_bytewax_are_found_in_other_partitions(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    part_of_items = [(key, n) for n, key in enumerate(KEYS)]
    items = [*part_of_items, TestingSource.EOF(), *part_of_items, TestingSource.EOF(), *part_of_items]
    outs: dict[str, list[Any]] = {}

    def run(state: Path, part: int) -> None:
        state.mkdir(exist_ok=True)
        out = outs.setdefault("alone" if state.name == "alone" else "moved", [])
        run_main(counts(items, out), recovery_config=RecoveryConfig(state), spark=spark)

    lived(run, tmp_path, capsys)
    assert sorted(map(repr, outs["moved"])) == sorted(map(repr, outs["alone"]))
    assert ("ann", 0) in outs["alone"]
    assert ("12", 3 * KEYS.index("12")) in outs["moved"]


def orders(broker: str, checkpoint: Path, spark: SparkSession, **options: Any) -> turbine.App:
    app = turbine.App("orders", broker=broker, checkpoint=checkpoint, spark=spark)

    @app.subscribe("orders", publish_to="out", **options)
    class alerts:
        def __init__(self) -> None:
            self._sum = turbine_win.PersistentTumbling(
                self,
                name="sum",
                size_ms=10_000,
                key=["k"],
                value=agg.Sum("n"),
                time_column="ts",
                on_close_each=self._closed,
            )

        def process(self, batch: pa.RecordBatch, state: turbine.TurbineState) -> None:
            state["rows"] = state.get("rows", 0) + batch.num_rows
            self._sum.update(batch, state)

        def _closed(self, state, window, value):
            state.setdefault(window.group["k"], []).append(str(value))

    @app.subscribe("orders", publish_to="counts")
    class plain:
        def __init__(self) -> None:
            self._count = turbine_win.PersistentTumbling(
                self,
                name="count",
                size_ms=10_000,
                key=["k"],
                value=agg.Count(),
                time_column="ts",
                on_close=self._closed,
            )

        def _closed(self, state, panes):
            return panes.combine_chunks().to_batches()[0]

        def process(self, batch, state):
            self._count.update(batch, state)

    @app.subscribe("orders", publish_to="copies")
    class copies:
        def process(self, batch, state):
            return batch

    return app


def what_is_in(app: turbine.App) -> list[str]:
    """The records of the functions and the open panes of all windows."""
    records = read_state(app.checkpoint_of("alerts.state"), spark=app.spark).select("key", "value").collect()
    panes = [row for name in ("sum", "count") for row in app.window(name).read().collect()]
    return sorted(map(repr, [*records, *panes]))


def produce_orders(broker: str, part: int) -> None:
    rows = [{"k": f"k{n}", "n": n + part, "ts": 1_000 * (8 * part + n)} for n in range(9)]
    topics.produce(broker, "orders", rows)


def test_one_shard_of_turbine_goes_to_other_partitions_with_the_windows_of_its_task(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    produced = set()
    broker = f"dir:{tmp_path / 'topics'}"

    def run(checkpoint: Path, part: int) -> None:
        if part not in produced:
            produced.add(part)
            produce_orders(broker, part)
        orders(broker, checkpoint, spark).run(until="drained")

    alone, at = lived(run, tmp_path, capsys)
    assert what_is_in(orders(broker, at, spark)) == what_is_in(orders(broker, alone, spark))
    # Each of the two programs has published all, and nothing twice.
    copied = topics.read(broker, "copies").to_pylist()
    assert len(copied) == 2 * 3 * 9
    closed = topics.read(broker, "counts").drop_columns(["_key", "_timestamp"]).to_pylist()
    assert closed
    assert all(closed.count(row) == 2 for row in closed)


def test_shards_of_turbine_stay_in_as_many_partitions(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broker = f"dir:{tmp_path / 'topics'}"
    produce_orders(broker, 0)
    app = orders(broker, tmp_path / "one", spark, partition_key="k")
    app.run(until="drained")
    query = app.checkpoint_of("alerts.state")
    with pytest.raises(
        UnsupportedError, match=r"one state for all keys of a task.*Leave partitions out, which keeps its 2"
    ):
        savepoint(query, tmp_path / "other", partitions=3, spark=spark)
    assert not (tmp_path / "other").exists()
    assert main.main(["savepoint", str(tmp_path / "one"), str(tmp_path / "other"), "--format", "2"]) == 0
    capsys.readouterr()
    before = what_is_in(app)
    assert what_is_in(orders(broker, tmp_path / "other", spark, partition_key="k")) == before
    produce_orders(broker, 1)
    spark.conf.set("spark.sql.streaming.stateStore.checkpointFormatVersion", "2")
    try:
        orders(broker, tmp_path / "other", spark, partition_key="k").run(until="drained")
    finally:
        spark.conf.unset("spark.sql.streaming.stateStore.checkpointFormatVersion")
    app.run(until="drained")
    assert what_is_in(orders(broker, tmp_path / "other", spark, partition_key="k")) == what_is_in(app) != before


def test_a_query_with_a_window_and_a_function_after_it_goes_to_other_partitions_with_both(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broker = f"dir:{tmp_path / 'topics'}"

    def so_far(data: pa.Table, total: int) -> int:
        return total + int(pc.sum(data["v"]).as_py())

    def pipeline(folder: Path) -> sp.App:
        tens = sp.window.tumbling(timedelta(seconds=10), "time", skip_empty_windows=True)
        running = sp.accumulate(so_far, 0, lambda total: {"total": total})
        read = sp.read.from_callback("rows", name="rows", schema="time timestamp, v bigint")
        line = read | tens | running | sp.write.to_topic(folder.name, name="totals")
        return sp.App("both", line, broker=broker, checkpoint=folder, spark=spark)

    def run(folder: Path, part: int) -> None:
        app = pipeline(folder)
        # Of the two windows that this part has rows for, one is open at its end, and the next part adds to it.
        times = [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=10 * part + n) for n in (6, 11)]
        app.publish("rows", pa.table({"time": pa.array(times, pa.timestamp("us", "UTC")), "v": [part + 1, 10]}))
        with app.start() as running:
            running.settle()

    _, at = lived(run, tmp_path, capsys)
    (operators,) = [{int(one.name) for one in state.glob("[0-9]*")} for state in at.glob("*/query/state")]
    assert len(operators) == 2, "a window, and the function that takes what it closes"
    totals = {
        place: [row["total"] for row in topics.read(broker, place).to_pylist()] for place in ("alone", "2", "7", "3")
    }
    # 1; then 2 and 10 of the window that was open; then 3 and 10.
    assert totals["alone"] == [1, 13, 26]
    assert [totals[at] for at in ("2", "7", "3")] == [[total] for total in totals["alone"]]


def test_timers_of_faust_are_called_in_other_partitions_as_often_as_in_a_program_that_never_stopped(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broker = f"dir:{tmp_path / 'topics'}"
    clocks = {False: ManualClock(start_ms=0), True: ManualClock(start_ms=0)}
    produced = set()

    def timers(checkpoint: Path) -> faust.App:
        alone = checkpoint.name == "alone"
        app = faust.App("timers", broker=broker, checkpoint=checkpoint, clock=clocks[alone], spark=spark)
        table, out = app.Table("t", default=int), app.topic("alone" if alone else "moved", value_type=str)

        @app.agent(app.topic("in", value_type=str))
        async def count(values):
            async for value in values:
                table[value] += 1

        @app.timer(10.0)
        async def tick() -> None:
            for key, value in sorted(table.items()):
                await out.send(value=f"{key} {value}")

        return app

    def run(checkpoint: Path, part: int) -> None:
        if part not in produced:
            produced.add(part)
            topics.produce(broker, "in", ["a", "b"], timestamps=[1.0, 1.0])
        with timers(checkpoint).start() as running:
            running.settle()
            # It is due in the middle of a part, and 5 seconds after the start of each but the first.
            for _ in range(3):
                running.advance("5 seconds")
                running.settle()

    lived(run, tmp_path, capsys)
    messages = {
        place: sorted(row["value"] for row in topics.read(broker, place).to_pylist()) for place in ("alone", "moved")
    }
    assert messages["alone"] == ["a 1", "a 2", "a 2", "a 3", "b 1", "b 2", "b 2", "b 3"]
    assert messages["moved"] == messages["alone"]


def test_leftovers_of_a_killed_savepoint_of_a_program_are_removed_by_the_next(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broker = f"dir:{tmp_path / 'topics'}"
    produce_orders(broker, 0)
    orders(broker, tmp_path / "one", spark).run(until="drained")
    killed, elsewhere, written, other = (
        tmp_path / name
        for name in (
            ".to.savepoint-killed",
            ".to.savepoint-elsewhere",
            ".to.savepoint-written",
            ".to-2.savepoint-killed",
        )
    )
    for folder in (killed, elsewhere, written, other):
        (folder / "sum/query").mkdir(parents=True)
        host = "another" if folder == elsewhere else socket.gethostname()
        (folder / ".writing").write_text(f"process 1 on {host}", "utf-8")
    with (written / ".writing").open() as lease:
        fcntl.flock(lease, fcntl.LOCK_EX)
        assert main.main(["savepoint", str(tmp_path / "one"), str(tmp_path / "to"), "--partitions", "3"]) == 0
    capsys.readouterr()
    assert [folder.exists() for folder in (killed, elsewhere, written, other)] == [False, True, True, True]
    assert {file.name for file in (tmp_path / "to").glob(".*")} == set()


def test_a_running_or_interrupted_program_has_no_savepoint(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broker = f"dir:{tmp_path / 'topics'}"
    topics.produce(broker, "sizes", [{"size": 1.0}], timestamps=[0.0])
    topics.produce(broker, "visits", [{"who": "a", "n": 1}], timestamps=[0.0])
    app = visits(broker, tmp_path / "one", spark)
    command = ["savepoint", str(tmp_path / "one"), str(tmp_path / "other")]
    with app.start() as running:
        running.settle()
        assert main.main(command) == 1
        assert "runs in this process. Stop it first" in capsys.readouterr().err
    app.run(until="drained")
    assert main.main([*command, "--panes", "json:loads"]) == 1
    assert "--panes with" in capsys.readouterr().err
    newest = max((tmp_path / "one/agents/query/commits").glob("[0-9]*"), key=lambda file: int(file.name))
    newest.unlink()
    assert main.main(command) == 1
    assert "has begun batch" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()
    assert not list(tmp_path.glob(".other*"))
