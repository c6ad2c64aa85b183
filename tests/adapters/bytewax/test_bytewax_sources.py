"""Sources and sinks of dataflows: files, custom classes, system time, and a request to stop."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import mullion.bytewax.operators as op
import mullion.bytewax.operators.windowing as win
from mullion.bytewax._query import runner
from mullion.bytewax.connectors.demo import RandomMetricSource
from mullion.bytewax.connectors.files import CSVSource, DirSink, DirSource, FileSink, FileSource
from mullion.bytewax.connectors.stdio import StdOutSink
from mullion.bytewax.dataflow import Dataflow
from mullion.bytewax.inputs import DynamicSource, SimplePollingSource, StatelessSourcePartition
from mullion.bytewax.outputs import FixedPartitionedSink, StatefulSinkPartition
from mullion.bytewax.recovery import RecoveryConfig, init_db_dir
from mullion.bytewax.testing import TestingSink, TestingSource, run_main
from mullion.errors import FunctionError
from mullion.testing import ManualClock
from tests.support.bytewax.bytewax_times import START, at, seconds


def test_lines_are_read_once_and_written_once(spark: SparkSession, tmp_path: Path) -> None:
    """Several runs: the source file grows, and the sink file has lines of an interrupted batch."""
    source, sink, state = tmp_path / "in.txt", tmp_path / "out.txt", tmp_path / "state"
    init_db_dir(state, 1)

    def flow() -> Dataflow:
        dataflow = Dataflow("lines")
        lines = op.input("in", dataflow, FileSource(source, batch_size=2))
        op.output("out", op.key_on("key", op.map("upper", lines, str.upper), len_text), FileSink(sink))
        return dataflow

    source.write_text("a\nb\nc\n", "utf-8")
    run_main(flow(), recovery_config=RecoveryConfig(state), spark=spark)
    assert sink.read_text("utf-8") == "A\nB\nC\n"
    with sink.open("a") as cut_off:
        cut_off.write("what no batch has committed")
    with source.open("a") as more:
        more.write("d\n")
    run_main(flow(), recovery_config=RecoveryConfig(state), spark=spark)
    assert sink.read_text("utf-8") == "A\nB\nC\nD\n"


def len_text(text: str) -> str:
    return str(len(text))


def test_files_of_a_folder_and_rows_of_csv_are_sources_and_a_folder_is_a_sink(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    out.mkdir()
    (folder / "one.txt").write_text("a\nb\n", "utf-8")
    (folder / "two.txt").write_text("c\n", "utf-8")
    (tmp_path / "rows.csv").write_text("k;n\nx;1\ny;2\n", "utf-8")
    flow = Dataflow("files")
    lines = op.key_on("lines_key", op.input("lines", flow, DirSource(folder, "*.txt")), lambda line: line)
    rows = op.input("rows", flow, CSVSource(tmp_path / "rows.csv", delimiter=";"))
    texts = op.map("text", rows, lambda row: (row["k"], f"{row['k']}{int(row['n']) + 1}"))
    op.output("out", op.merge("all", lines, texts), DirSink(out, 2, assign_file=lambda key: int(key in "xy")))
    run_main(flow, spark=spark)
    assert sorted((out / "part_0").read_text("utf-8").split()) == ["a", "b", "c"]
    assert (out / "part_1").read_text("utf-8") == "x2\ny3\n"


class Numbers(DynamicSource[int]):
    """Three numbers."""

    def build(self, step_id: str, worker_index: int, worker_count: int) -> StatelessSourcePartition[int]:
        return _Numbers()


class _Numbers(StatelessSourcePartition[int]):
    def __init__(self) -> None:
        self._next = 0

    def next_batch(self) -> list[int]:
        self._next += 1
        if self._next > 3:
            raise StopIteration
        return [self._next]

    def next_awake(self) -> datetime:
        """A later time in each call. The time that it returns after a read counts."""
        return datetime.now(UTC) + timedelta(milliseconds=1)


class Polled(SimplePollingSource[int, int]):
    """Two numbers, one at a time."""

    def __init__(self) -> None:
        super().__init__(timedelta(milliseconds=1))
        self.next = 0

    def next_item(self) -> int | None:
        self.next += 1
        if self.next == 2:
            raise SimplePollingSource.Retry(timedelta(milliseconds=1))
        if self.next > 3:
            raise StopIteration
        return self.next * 10


def test_custom_sources_and_sinks(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    flow = Dataflow("own")
    all_of_them = op.merge(
        "all",
        op.input("numbers", flow, Numbers()),
        op.input("polled", flow, Polled()),
        op.map("metric", op.input("demo", flow, RandomMetricSource("m", timedelta(0), 2, lambda: 7.0)), lambda m: m[1]),
    )
    op.output("out", all_of_them, StdOutSink())
    run_main(flow, spark=spark)
    assert Counter(capsys.readouterr().out.split()) == Counter(["1", "2", "3", "10", "30", "7.0", "7.0"])


def test_windows_close_when_system_time_passes_their_end(spark: SparkSession) -> None:
    """Runs with a clock that the test moves, and a source that waits for the output of its items."""
    clock = ManualClock()
    out: list[Any] = []
    outputs_at_the_end: list[list[Any]] = []

    class Waiting(DynamicSource[Any]):
        def build(self, step_id: str, worker_index: int, worker_count: int) -> StatelessSourcePartition[Any]:
            return _Waiting(clock, out, outputs_at_the_end)

    flow = Dataflow("quiet")
    keyed: Any = op.input("in", flow, Waiting())
    times: Any = win.EventClock(at)
    windows = win.collect_window("w", keyed, times, win.TumblingWindower(seconds(10), START))
    op.output("out", windows.down, TestingSink(out))
    run_main(flow, clock=clock, spark=spark)
    assert outputs_at_the_end == [[("a", (0, [5]))]], "the window closed before there was an end"
    assert out == [("a", (0, [5])), ("a", (2, [25]))]


class _Waiting(StatelessSourcePartition[Any]):
    """An item, time until an output appears, another item, and the end."""

    def __init__(self, clock: ManualClock, out: list[Any], outputs_at_the_end: list[list[Any]]) -> None:
        self._clock = clock
        self._out = out
        self._outputs_at_the_end = outputs_at_the_end
        self._emitted = 0

    def next_batch(self) -> list[Any]:
        if self._emitted == 0:
            self._emitted = 1
            return [("a", 5)]
        if self._emitted == 1:
            if not self._out:
                self._clock.advance("1 second")
                return []
            self._emitted = 2
            self._outputs_at_the_end.append(list(self._out))
            return [("a", 25)]
        raise StopIteration


class _Endless(DynamicSource[Any]):
    """Items without an end or a pause."""

    def build(self, step_id: str, worker_index: int, worker_count: int) -> StatelessSourcePartition[Any]:
        return _EndlessPart()


class _EndlessPart(StatelessSourcePartition[Any]):
    def next_batch(self) -> list[Any]:
        return [("a", 1)] * 999 + [("a", 0)]


def test_a_request_to_stop_ends_the_run_and_keeps_windows_open(spark: SparkSession) -> None:
    inspected: list[Any] = []
    out: list[Any] = []
    flow = Dataflow("endless")
    keyed = op.input("in", flow, _Endless())
    op.inspect(
        "seen", op.filter_value("zeros", keyed, lambda value: value == 0), lambda step, item: inspected.append(item)
    )
    clock: Any = win.EventClock(at, now_getter=lambda: START)
    windows = win.count_window("n", op.key_rm("rm", keyed), clock, win.SessionWindower(seconds(5)), str)
    op.output("out", windows.down, TestingSink(out))
    runner.run(flow, None, spark=spark, asked_to_stop=lambda: bool(inspected))
    assert inspected
    assert out == []


class _Broken(FixedPartitionedSink[Any, None]):
    def list_parts(self) -> list[str]:
        return ["one"]

    def build_part(self, step_id: str, for_part: str, resume_state: None) -> StatefulSinkPartition[Any, None]:
        return _BrokenPart()


class _BrokenPart(StatefulSinkPartition[Any, None]):
    def write_batch(self, values: list[Any]) -> None:
        raise RuntimeError("the disk is full")

    def snapshot(self) -> None:
        return None


def test_an_error_of_a_sink_names_the_sink(spark: SparkSession) -> None:
    flow = Dataflow("sink")
    op.output("out", op.input("in", flow, TestingSource([("a", 1)])), _Broken())
    with pytest.raises(FunctionError, match=r"sink of 'sink\.out' failed: RuntimeError: the disk is full"):
        run_main(flow, spark=spark)
    flow = Dataflow("raises")
    op.raises("none", op.input("in", flow, TestingSource([("a", 1)])))
    with pytest.raises(FunctionError, match="must not receive items"):
        run_main(flow, spark=spark)


class _Quiet(DynamicSource[Any]):
    def build(self, step_id: str, worker_index: int, worker_count: int) -> StatelessSourcePartition[Any]:
        return _OneThenNothing()


class _OneThenNothing(StatelessSourcePartition[Any]):
    def __init__(self) -> None:
        self._items = [("a", 1)]

    def next_batch(self) -> list[Any]:
        batch, self._items = self._items, []
        return batch


def test_a_failed_sink_ends_a_run_whose_source_is_idle(spark: SparkSession) -> None:
    flow = Dataflow("endless")
    op.output("out", op.input("in", flow, _Quiet()), _Broken())
    with pytest.raises(FunctionError, match="the disk is full"):
        run_main(flow, spark=spark)


def test_the_first_batch_has_the_first_items_without_a_recovery_store(spark: SparkSession) -> None:
    batches: list[int] = []
    flow = Dataflow("first")
    items = op.stateful_map("count", op.input("in", flow, TestingSource([("a", 1)])), lambda n, _: ((n or 0) + 1,) * 2)
    op.inspect_debug("see", items, lambda step, item, batch, worker: batches.append(batch))
    op.output("out", items, TestingSink([]))
    run_main(flow, spark=spark)
    assert batches == [0]
