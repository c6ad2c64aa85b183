"""Windows of ``mullion.kx``, run: every window with every parameter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mullion.errors import FunctionError, InvalidArgumentError, MullionError
from mullion.kx import sp
from mullion.testing import ManualClock
from tests.support.kx.kx_runs import DAY, TEN, at, drained, ended, out_of, records, several


def test_a_tumbling_window_is_a_table_in_order_of_arrival_and_empty_ones_come_too(spark: SparkSession) -> None:
    window = sp.window.tumbling(TEN, time_column="time")
    assert drained(spark, window) == [[1, 3, 2], [12], [], [], [45, 46], [], []]


def test_sort_puts_a_window_in_order_of_time_and_empty_windows_may_be_skipped(spark: SparkSession) -> None:
    window = sp.window.tumbling(TEN, "time", sort=True, skip_empty_windows=True)
    assert drained(spark, window) == [[1, 2, 3], [12], [45, 46]]


def test_late_records_are_dropped_or_pass_through_as_a_batch_of_their_own(spark: SparkSession) -> None:
    def shown(data: pa.Table, metadata: dict[str, Any]) -> Any:
        return {"v": data["v"].to_pylist(), "late": metadata.get("late", False)}

    window = sp.window.tumbling(TEN, "time", passthrough=True, skip_empty_windows=True)
    out: list[pa.Table] = []
    line = sp.read.from_expr(several) | window | sp.map(shown, params=["data", "metadata"]) | sp.write.to_variable(out)
    sp.run(line, spark=spark, until="drained")
    came = [(row["v"], row["late"]) for batch in out for row in batch.to_pylist()]
    assert came == [([1, 3, 2], False), ([12], False), ([8], True), ([45, 46], False)]


def test_lateness_waits_with_a_window_for_its_late_records(spark: SparkSession) -> None:
    window = sp.window.tumbling(TEN, "time", lateness=timedelta(minutes=1), skip_empty_windows=True)
    assert drained(spark, window) == [[1, 3, 2, 8]]


def test_sliding_windows_overlap_by_their_duration(spark: SparkSession) -> None:
    window = sp.window.sliding(TEN, (20, "s"), "time", skip_empty_windows=True)
    assert drained(spark, window) == [[1, 3, 2], [1, 3, 2, 12], [12], [45, 46], [45, 46]]
    apart = sp.window.sliding(TEN, (4, "s"), "time", skip_empty_windows=True)
    assert drained(spark, apart) == [[1, 3, 2], [12]]


def test_a_time_assigner_gives_the_times_of_a_batch(spark: SparkSession) -> None:
    def times(data: pa.Table) -> list[datetime]:
        return [at(v) for v in data["v"].to_pylist()]

    window = sp.window.tumbling(TEN, time_assigner=times, skip_empty_windows=True)
    assert drained(spark, window) == [[1, 3, 2], [12], [45, 46]]
    of_pandas = sp.window.tumbling(TEN, time_assigner=lambda frame: frame["time"], pandas=True, skip_empty_windows=True)
    assert drained(spark, of_pandas) == [[1, 3, 2], [12], [45, 46]]
    with_assigner = sp.window.tumbling(
        TEN, time_assigner=lambda name, data: data["time"], params=["operator", "data"], skip_empty_windows=True
    )
    assert drained(spark, with_assigner) == [[1, 3, 2], [12], [45, 46]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("assigner", "says"),
    [
        (lambda data: [DAY], "1 times for 3 records"),
        (lambda data: data["v"], "values of type int64"),
        (lambda data: 5, "has to return a list or an array of timestamps"),
        (lambda data: data["when"], "when"),
    ],
)
def test_times_that_are_none_fail_with_the_operator_and_the_reason(
    spark: SparkSession, assigner: Callable[[pa.Table], Any], says: str
) -> None:
    with pytest.raises(FunctionError, match=rf"(?s)tumbling_1 \(.*test_kx_windows.py:\d+\).*{says}"):
        drained(spark, sp.window.tumbling(TEN, time_assigner=assigner))


def test_a_full_buffer_is_flushed_before_its_window_ends(spark: SparkSession) -> None:
    def shown(data: pa.Table, metadata: dict[str, Any]) -> Any:
        return {"v": data["v"].to_pylist(), "partial": metadata["partial"]}

    nothing: list[tuple[list[int], bool]] = []
    for skips, closes in ((True, nothing), (False, [([], False)])):
        window = sp.window.tumbling(TEN, "time", count_trigger=3, skip_empty_windows=skips)
        out: list[pa.Table] = []
        described = sp.map(shown, params=["data", "metadata"])
        line = sp.read.from_expr(several) | window | described | sp.write.to_variable(out)
        sp.run(line, spark=spark, until="drained")
        came = [(row["v"], row["partial"]) for batch in out for row in batch.to_pylist()]
        # The first window has shown all when it ends.
        assert came[:1] == [([1, 3, 2], True)]
        assert [each for each in came[1:] if each[0]] == [([12], False), ([45, 46], False)]
        assert came[1 : 1 + len(closes)] == closes


def test_a_buffer_is_flushed_with_the_record_that_makes_it_full(spark: SparkSession) -> None:
    def rows() -> Iterator[list[dict[str, Any]]]:
        yield records(1, 3, 2, 4, 6, 5, 11)
        # The first window has closed with the batch that comes, and the second is full twice in it.
        yield records(12, 25, 13, 14, 15)
        yield records(7, 16)

    window = sp.window.tumbling(TEN, "time", count_trigger=2, sort=True, skip_empty_windows=True)
    line = sp.read.from_expr(rows) | window
    full = [[1, 3], [2, 4], [5, 6], [11, 12], [13, 14], [15, 16]]
    assert out_of(spark, ended(line), until="drained") == full
    assert out_of(spark, ended(line)) == [*full, [25]]


def test_windows_that_overlap_are_flushed_each_for_itself_and_come_empty_too(spark: SparkSession) -> None:
    window = sp.window.sliding(TEN, (20, "s"), "time", count_trigger=3, skip_empty_windows=True)
    assert drained(spark, window) == [[1, 3, 2], [1, 3, 2], [12], [12], [45, 46], [45, 46]]
    every = sp.window.sliding(TEN, (20, "s"), "time", count_trigger=3)
    # The first window has shown all when it ends; the second has shown three, and 12 came since.
    none: list[int] = []
    assert drained(spark, every) == [[1, 3, 2], [1, 3, 2], none, [12], [12], none, [45, 46], [45, 46], none]


def test_reduce_puts_the_partial_batches_of_a_window_together(spark: SparkSession) -> None:
    window = sp.window.tumbling(TEN, "time", count_trigger=2, skip_empty_windows=True)
    counted = sp.reduce(lambda data, so_far: so_far + data.num_rows, 0, lambda so_far: {"v": so_far})
    line = sp.read.from_expr(several) | window | counted
    assert out_of(spark, lambda out: line | sp.write.to_variable(out), until="drained") == [[3], [1], [2]]


def test_metadata_identifies_the_window(spark: SparkSession) -> None:
    out: list[pa.Table] = []
    bounds = sp.map(lambda metadata: {"start": metadata["window"][0], "end": metadata["window"][1]}, params="metadata")
    window = sp.window.tumbling(TEN, "time", skip_empty_windows=True)
    sp.run(sp.read.from_expr(several) | window | bounds | sp.write.to_variable(out), spark=spark, until="drained")
    assert out[0].to_pylist() == [{"start": DAY.replace(tzinfo=UTC), "end": at(10).replace(tzinfo=UTC)}]


def test_a_count_window_has_exactly_so_many_records(spark: SparkSession) -> None:
    assert drained(spark, sp.window.count(3)) == [[1, 3, 2], [12, 45, 46]]
    assert drained(spark, sp.window.count(3, frequency=2)) == [[1, 3, 2], [2, 12, 45], [45, 46, 8]]
    assert drained(spark, sp.window.count(2, 3)) == [[1, 3], [12, 45], [8, 70]]


def test_a_trigger_receives_the_buffer_and_the_batch_and_returns_the_starts_of_windows(spark: SparkSession) -> None:
    def trigger(id: str, buffer: pa.Table, offset: int, metadata: dict[str, Any], data: pa.Table) -> Any:  # noqa: A002
        assert id == "global_window_1"
        assert isinstance(buffer, pa.Table)
        assert buffer.slice(offset).equals(data)
        assert isinstance(metadata["batch"], int)
        # A window begins with each batch.
        return [offset] if offset else None

    assert drained(spark, sp.window.global_window(trigger)) == [[1, 3, 2], [12, 45], [46]]


def test_the_last_list_stays_in_the_buffer_unless_its_length_is_an_index(spark: SparkSession) -> None:
    def tens(name: str, buffer: pa.Table, *_: Any) -> list[int]:
        values = buffer["v"].to_pylist()
        return [i for i in range(1, len(values)) if values[i] // 10 != values[i - 1] // 10]

    assert drained(spark, sp.window.global_window(tens)) == [[1, 3, 2], [12], [45, 46], [8]]
    every = sp.window.global_window(lambda name, buffer, *_: [len(buffer)])
    assert drained(spark, every) == [[1, 3, 2], [12, 45], [46], [8, 70]]
    assert drained(spark, sp.window.global_window(lambda *_: [])) == []


def test_a_trigger_cannot_change_the_buffer(spark: SparkSession) -> None:
    def changes(name: str, buffer: pa.Table, *_: Any) -> list[int]:
        buffer["v"] = pa.array([0] * len(buffer))
        return [len(buffer)]

    with pytest.raises(MullionError, match="does not support item assignment"):
        drained(spark, sp.window.global_window(changes))


@pytest.mark.slow
@pytest.mark.parametrize("answer", [[2, 1], [-1], [100], ["a"], "all", 5])
def test_indices_that_are_none_are_rejected(spark: SparkSession, answer: Any) -> None:
    with pytest.raises(MullionError, match="<lambda>"):
        drained(spark, sp.window.global_window(lambda *_: answer))


def test_batches_of_mixed_schemas_are_a_list_and_indices_count_their_records(spark: SparkSession) -> None:
    def trigger(name: str, buffer: list[pa.Table], offset: int, metadata: dict[str, Any], data: list[pa.Table]) -> Any:
        assert isinstance(buffer, list)
        assert sum(map(len, buffer)) - offset == sum(map(len, data))
        return [3, 5] if len(buffer) == 3 else []

    source = sp.read.from_expr(lambda: iter([[{"v": 1}, {"v": 2}], [{"x": "a"}, {"x": "b"}], [{"v": 3.5}]]))
    out: list[list[pa.Table]] = []
    line = source | sp.window.global_window(trigger, mixed_schemas=True) | sp.write.to_variable(out)
    sp.run(line, spark=spark, until="drained")
    assert [[table.to_pylist() for table in window] for window in out] == [
        [[{"v": 1}, {"v": 2}], [{"x": "a"}]],
        [[{"x": "b"}], [{"v": 3.5}]],
    ]


def test_mixed_schemas_without_the_option_are_an_error(spark: SparkSession) -> None:
    source = sp.read.from_expr(lambda: iter([[{"v": 1}], [{"x": "a"}]]))
    with pytest.raises(InvalidArgumentError, match=r"(?s)from_expr_1.*'x'.*'v'.*mixed_schemas=True"):
        sp.run(source | sp.window.count(2) | sp.write.to_variable("out"), spark=spark)


@pytest.mark.slow
def test_functions_make_batches_of_mixed_schemas_too(spark: SparkSession) -> None:
    def other(data: pa.Table) -> pa.Table:
        return data if data["v"][0].as_py() == 1 else data.select(["time"])

    line = sp.read.from_expr(several) | sp.map(other)
    all_of_it = sp.window.global_window(
        lambda name, buffer, *_: [sum(map(len, buffer))] if len(buffer) == 2 else None, mixed_schemas=True
    )
    out: list[list[pa.Table]] = []
    sp.run(line | all_of_it | sp.write.to_variable(out), spark=spark, until="drained")
    assert [[table.column_names for table in window] for window in out] == [[["time", "v"], ["time"]], [["time"]] * 2]


def test_a_timer_fires_by_the_clock_with_the_records_so_far(spark: SparkSession, tmp_path: Path) -> None:
    out: list[pa.Table] = []
    clock = ManualClock()
    line = sp.read.from_callback("publish") | sp.window.timer(TEN) | sp.write.to_variable(out)
    app = sp.App("timers", line, checkpoint=tmp_path / "state", clock=clock, spark=spark)
    app.publish("publish", [{"v": 1}, {"v": 2}])
    with app.start() as running:
        running.settle()
        assert out == []
        for batch, expected in (([{"v": 3}], [[1, 2]]), (None, [[1, 2], [3]]), (None, [[1, 2], [3], []])):
            running.advance("10 seconds")
            running.settle()
            assert [each["v"].to_pylist() for each in out] == expected
            if batch:
                app.publish("publish", batch)
                running.settle()


def test_a_timer_skips_empty_windows_and_is_flushed_when_full(spark: SparkSession, tmp_path: Path) -> None:
    out: list[pa.Table] = []
    window = sp.window.timer(TEN, count_trigger=2, skip_empty_windows=True)
    line = sp.read.from_callback("publish") | window | sp.write.to_variable(out)
    app = sp.App("timers", line, checkpoint=tmp_path / "state", clock=ManualClock(), spark=spark)
    app.publish("publish", [{"v": 1}, {"v": 2}])
    with app.start() as running:
        running.settle()
        assert [each["v"].to_pylist() for each in out] == [[1, 2]]
        app.publish("publish", [{"v": 3}])
        running.settle()
        running.advance("30 seconds")
        running.settle()
        assert [row for each in out for row in each["v"].to_pylist()] == [1, 2, 3]


def test_map_takes_tables_and_pandas_and_gives_batches_of_many_kinds(spark: SparkSession) -> None:
    line = sp.read.from_expr(several) | sp.window.count(3)
    for function, expected in (
        (lambda data: data.slice(0, 1), [[1], [12]]),
        (lambda data: data.to_batches()[0], [[1, 3, 2], [12, 45, 46]]),
        (lambda data: {"v": data.num_rows}, [[3], [3]]),
        (lambda data: [{"v": 1}, {"v": 2}], [[1, 2], [1, 2]]),
        (lambda data: None if data["v"][0].as_py() == 1 else data, [[12, 45, 46]]),
        (lambda data: [data.slice(0, 1), data.slice(1, 1)], None),
    ):
        out: list[Any] = []
        sp.run(line | sp.map(function) | sp.write.to_variable(out), spark=spark, until="drained")
        if expected is None:
            assert [[table["v"].to_pylist() for table in batch] for batch in out] == [[[1], [3]], [[12], [45]]]
        else:
            assert [batch["v"].to_pylist() for batch in out] == expected
    values: list[pa.Table] = []
    plain = line | sp.map(lambda data: data.num_rows) | sp.write.to_variable(values)
    of_pandas = line | sp.map(lambda frame: frame[frame.v > 2], pandas=True, name="pandas")
    named = line | sp.map(
        lambda name, metadata, data: f"{name}{metadata['window']}", params=["operator", "metadata", "data"]
    )
    frames: list[pa.Table] = []
    names: list[pa.Table] = []
    sp.run(
        plain,
        of_pandas | sp.write.to_variable(frames),
        named | sp.write.to_variable(names),
        spark=spark,
        until="drained",
    )
    assert [batch["value"].to_pylist() for batch in values] == [[3], [3]]
    assert [batch["v"].to_pylist() for batch in frames] == [[3], [12, 45, 46]]
    assert [batch["value"].to_pylist() for batch in names] == [["map_3(0, 3)"], ["map_3(3, 6)"]]
