"""Pipelines of ``mullion.kx``, run: every operator with every parameter."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from mullion import topics
from mullion._programs.cli import main
from mullion.errors import FunctionError, InvalidArgumentError, MullionError, UnknownColumnError, UnsupportedError
from mullion.kx import sp
from mullion.testing import ManualClock

TEN = timedelta(seconds=10)
DAY = datetime(2026, 1, 1)


def at(second: float) -> datetime:
    return DAY + timedelta(seconds=second)


def records(*seconds: float) -> list[dict[str, Any]]:
    return [{"time": at(second), "v": int(second)} for second in seconds]


def several() -> Iterator[list[dict[str, Any]]]:
    """Rows 3 and 2 are out of order, 8 is late for its window once it has closed."""
    yield records(1, 3, 2)
    yield records(12, 45)
    yield records(46)
    yield records(8, 70)


def out_of(spark: SparkSession, make: Callable[[list[Any]], Any], **asked: Any) -> list[Any]:
    """The values ``v`` of each batch that came out."""
    out: list[Any] = []
    sp.run(make(out), spark=spark, **asked)
    return [batch["v"].to_pylist() if isinstance(batch, pa.Table) else batch for batch in out]


def ended(line: sp.Pipeline) -> Callable[[list[Any]], sp.Pipeline]:
    return lambda out: line | sp.write.to_variable(out)


def of_windows(spark: SparkSession, window: sp.Operator, **asked: Any) -> list[Any]:
    return out_of(spark, lambda out: sp.read.from_expr(several) | window | sp.write.to_variable(out), **asked)


def drained(spark: SparkSession, window: sp.Operator) -> list[Any]:
    return of_windows(spark, window, until="drained")


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
    seen = sp.window.tumbling(
        TEN, time_assigner=lambda name, data: data["time"], params=["operator", "data"], skip_empty_windows=True
    )
    assert drained(spark, seen) == [[1, 3, 2], [12], [45, 46]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("assigner", "says"),
    [
        (lambda data: [DAY], "1 times for 3 records"),
        (lambda data: data["v"], "values of type int64"),
        (lambda data: 5, "gives a list or an array of timestamps"),
        (lambda data: data["when"], "when"),
    ],
)
def test_times_that_are_none_fail_with_the_operator_and_the_reason(
    spark: SparkSession, assigner: Callable[[pa.Table], Any], says: str
) -> None:
    with pytest.raises(FunctionError, match=rf"(?s)tumbling_1 \(.*test_kx_pipelines.py:\d+\).*{says}"):
        drained(spark, sp.window.tumbling(TEN, time_assigner=assigner))


def test_a_full_buffer_is_flushed_before_its_window_ends(spark: SparkSession) -> None:
    def shown(data: pa.Table, metadata: dict[str, Any]) -> Any:
        return {"v": data["v"].to_pylist(), "partial": metadata["partial"]}

    nothing: list[tuple[list[int], bool]] = []
    for skips, closes in ((True, nothing), (False, [([], False)])):
        window = sp.window.tumbling(TEN, "time", count_trigger=3, skip_empty_windows=skips)
        out: list[pa.Table] = []
        seen = sp.map(shown, params=["data", "metadata"])
        line = sp.read.from_expr(several) | window | seen | sp.write.to_variable(out)
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


def test_a_flush_of_windows_that_overlap_needs_empty_ones_to_be_skipped(spark: SparkSession) -> None:
    with pytest.raises(UnsupportedError, match=r"count_trigger=2.*skip_empty_windows=True"):
        sp.window.sliding(TEN, (20, "s"), "time", count_trigger=2)
    window = sp.window.sliding(TEN, (20, "s"), "time", count_trigger=3, skip_empty_windows=True)
    assert drained(spark, window) == [[1, 3, 2], [1, 3, 2], [12], [12], [45, 46], [45, 46]]


def test_reduce_puts_the_partial_batches_of_a_window_together(spark: SparkSession) -> None:
    window = sp.window.tumbling(TEN, "time", count_trigger=2, skip_empty_windows=True)
    counted = sp.reduce(lambda data, so_far: so_far + data.num_rows, 0, lambda so_far: {"v": so_far})
    line = sp.read.from_expr(several) | window | counted
    assert out_of(spark, lambda out: line | sp.write.to_variable(out), until="drained") == [[3], [1], [2]]


def test_metadata_says_which_window_it_is(spark: SparkSession) -> None:
    out: list[pa.Table] = []
    seen = sp.map(lambda metadata: {"start": metadata["window"][0], "end": metadata["window"][1]}, params="metadata")
    window = sp.window.tumbling(TEN, "time", skip_empty_windows=True)
    sp.run(sp.read.from_expr(several) | window | seen | sp.write.to_variable(out), spark=spark, until="drained")
    assert out[0].to_pylist() == [{"start": DAY.replace(tzinfo=UTC), "end": at(10).replace(tzinfo=UTC)}]


def test_a_count_window_has_exactly_so_many_records(spark: SparkSession) -> None:
    assert drained(spark, sp.window.count(3)) == [[1, 3, 2], [12, 45, 46]]
    assert drained(spark, sp.window.count(3, frequency=2)) == [[1, 3, 2], [2, 12, 45], [45, 46, 8]]
    assert drained(spark, sp.window.count(2, 3)) == [[1, 3], [12, 45], [8, 70]]


def test_a_trigger_gets_the_buffer_and_the_batch_and_says_where_windows_start(spark: SparkSession) -> None:
    def seen(id: str, buffer: pa.Table, offset: int, metadata: dict[str, Any], data: pa.Table) -> Any:  # noqa: A002
        assert id == "global_window_1"
        assert isinstance(buffer, pa.Table)
        assert buffer.slice(offset).equals(data)
        assert isinstance(metadata["batch"], int)
        # A window begins with each batch.
        return [offset] if offset else None

    assert drained(spark, sp.window.global_window(seen)) == [[1, 3, 2], [12, 45], [46]]


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
def test_indices_that_are_none_are_refused(spark: SparkSession, answer: Any) -> None:
    with pytest.raises(MullionError, match="<lambda>"):
        drained(spark, sp.window.global_window(lambda *_: answer))


def test_batches_of_mixed_schemas_are_a_list_and_indices_count_their_records(spark: SparkSession) -> None:
    def seen(name: str, buffer: list[pa.Table], offset: int, metadata: dict[str, Any], data: list[pa.Table]) -> Any:
        assert isinstance(buffer, list)
        assert sum(map(len, buffer)) - offset == sum(map(len, data))
        return [3, 5] if len(buffer) == 3 else []

    source = sp.read.from_expr(lambda: iter([[{"v": 1}, {"v": 2}], [{"x": "a"}, {"x": "b"}], [{"v": 3.5}]]))
    out: list[list[pa.Table]] = []
    line = source | sp.window.global_window(seen, mixed_schemas=True) | sp.write.to_variable(out)
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


def test_a_timer_fires_by_the_clock_and_takes_what_came(spark: SparkSession, tmp_path: Path) -> None:
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


@pytest.mark.slow
def test_what_a_function_raises_names_the_operator_and_the_line(spark: SparkSession) -> None:
    def fails(data: pa.Table) -> Any:
        raise KeyError("price")

    line = sp.read.from_expr(several) | sp.window.count(3)
    with pytest.raises(FunctionError, match=r"map_1 \(.*test_kx_pipelines.py:\d+\) failed at .*KeyError: 'price'"):
        sp.run(line | sp.map(fails) | sp.write.to_variable("out"), spark=spark)
    with pytest.raises(FunctionError, match=r"accumulate_1 \(.*KeyError: 'price'"):
        sp.run(line | sp.accumulate(lambda data, total: fails(data), 0) | sp.write.to_variable("out"), spark=spark)
    with pytest.raises(FunctionError, match=r"map_1 \(.*gave .*and a batch is an Arrow table"):
        sp.run(line | sp.map(lambda data: object()) | sp.write.to_variable("out"), spark=spark)


def test_filter_keeps_batches_or_rows(spark: SparkSession) -> None:
    line = sp.read.from_expr(several) | sp.window.count(3)
    kept: list[tuple[Callable[[pa.Table], Any], list[list[int]]]] = [
        (lambda data: data["v"][0].as_py() == 1, [[1, 3, 2]]),
        (lambda data: pc.equal(data["v"][0], 1), [[1, 3, 2]]),
        (lambda data: pc.greater(data["v"], 2), [[3], [12, 45, 46]]),
        (lambda data: [v > 2 for v in data["v"].to_pylist()], [[3], [12, 45, 46]]),
    ]
    for function, expected in kept:
        filtered = line | sp.filter(function)
        assert out_of(spark, ended(filtered), until="drained") == expected
    of_pandas = line | sp.filter(lambda frame: frame.v > 2, pandas=True)
    assert out_of(spark, lambda out: of_pandas | sp.write.to_variable(out), until="drained") == [[3], [12, 45, 46]]
    for wrong, says in ((lambda data: [True], "1 answers for 3 records"), (lambda data: data["v"], "type int64")):
        with pytest.raises(FunctionError, match=rf"filter_1 .*{says}"):
            sp.run(line | sp.filter(wrong) | sp.write.to_variable("out"), spark=spark)


def test_accumulate_folds_all_batches_and_shows_each(spark: SparkSession) -> None:
    line = sp.read.from_expr(several) | sp.window.count(3)
    total = sp.accumulate(lambda data, so_far: so_far + data.num_rows, 0, lambda so_far: {"v": so_far})
    assert out_of(spark, lambda out: line | total | sp.write.to_variable(out), until="drained") == [[3], [6]]
    noted = sp.accumulate(
        lambda metadata, data, so_far: {"v": so_far["v"] + [metadata["window"][1]]},
        {"v": []},
    )
    assert out_of(spark, lambda out: line | noted | sp.write.to_variable(out), until="drained") == [[[3]], [[3, 6]]]
    tables = sp.accumulate(lambda data, so_far: data if so_far is None else pa.concat_tables([so_far, data]))
    assert out_of(spark, lambda out: line | tables | sp.write.to_variable(out), until="drained") == [
        [1, 3, 2],
        [1, 3, 2, 12, 45, 46],
    ]
    unkept = sp.accumulate(lambda data, so_far: object(), 0)
    with pytest.raises(MullionError, match=r"the accumulator of accumulate_1 .*cannot be kept"):
        sp.run(line | unkept | sp.write.to_variable("out"), spark=spark)


def test_merge_joins_what_is_buffered_of_two_streams(spark: SparkSession) -> None:
    trades = sp.read.from_expr(lambda: iter([[{"sym": "a", "v": 1}], [{"sym": "b", "v": 2}, {"sym": "a", "v": 3}]]))
    names = sp.read.from_expr(lambda: pa.table({"sym": ["a", "b"], "name": ["Alpha", "Beta"]}))

    def joined(left: pa.Table, right: pa.Table) -> pa.Table:
        return left.join(right, "sym").sort_by("v")

    out: list[pa.Table] = []
    sp.run(trades | sp.merge(names, joined) | sp.write.to_variable(out), spark=spark, until="drained")
    assert [row["name"] for batch in out for row in batch.to_pylist()] == ["Alpha", "Beta", "Alpha"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flush", "trigger", "expected"),
    [
        ("left", "both", [[1, 1], [1, 1], [2, 1]]),
        ("both", "both", [[1, 1]]),
        ("none", "both", [[1, 1], [2, 1], [4, 1]]),
        ("right", "both", [[1, 1]]),
        ("left", "right", [[0, 1]]),
        ("left", "left", [[1, 1], [1, 1], [2, 1]]),
        ("left", "either", [[0, 1], [1, 1], [1, 1], [2, 1]]),
    ],
)
def test_merge_is_triggered_and_flushed_as_it_is_told(
    spark: SparkSession, flush: str, trigger: str, expected: list[list[int]]
) -> None:
    left = sp.read.from_expr(lambda: iter([[{"v": 1}], [{"v": 2}], [{"v": 3}, {"v": 4}]]))
    right = sp.read.from_expr([{"w": 1}])
    sizes = sp.merge(right, lambda *sides: [0 if side is None else len(side) for side in sides], flush, trigger)
    out: list[pa.Table] = []
    sp.run(left | sizes | sp.write.to_variable(out), spark=spark, until="drained")
    assert [batch["value"].to_pylist() for batch in out] == expected


def test_union_and_split_join_and_part_streams(spark: SparkSession) -> None:
    first, second = sp.read.from_expr(several), sp.read.from_expr([*records(5)])
    out: list[pa.Table] = []
    other: list[pa.Table] = []
    both = first | sp.union(second) | sp.split()
    sp.run(
        both | [sp.window.count(8) | sp.write.to_variable(out), sp.map(len) | sp.write.to_variable(other)],
        spark=spark,
        until="drained",
    )
    (window,) = out
    assert sorted(window["v"].to_pylist()) == [1, 2, 3, 5, 8, 12, 45, 46]
    assert sum(value for batch in other for value in batch["value"].to_pylist()) == 9


def test_a_window_after_a_function_learns_its_columns_or_is_told_them(spark: SparkSession) -> None:
    ranked = sp.map(lambda data: data.append_column("twice", pc.multiply(data["v"], 2)))
    line = sp.read.from_expr(several) | ranked | sp.window.count(3)
    out: list[pa.Table] = []
    sp.run(line | sp.write.to_variable(out), spark=spark, until="drained")
    assert out[0]["twice"].to_pylist() == [2, 6, 4]
    told = sp.map(lambda data: None if data["v"][0].as_py() == 1 else data.select(["v"]), schema="v bigint")
    chained = sp.read.from_expr(several) | sp.window.tumbling(TEN, "time", skip_empty_windows=True) | told
    assert out_of(spark, lambda out: chained | sp.window.count(2) | sp.write.to_variable(out), until="drained") == [
        [12, 45]
    ]


def test_a_window_by_event_time_after_another_goes_by_what_comes_to_it(spark: SparkSession, tmp_path: Path) -> None:
    def summed(metadata: dict[str, Any], data: pa.Table) -> dict[str, Any]:
        return {"time": metadata["window"][0], "v": sum(data["v"].to_pylist())}

    first = sp.read.from_expr(several) | sp.window.tumbling(TEN, "time", skip_empty_windows=True)
    line = first | sp.map(summed, params=["metadata", "data"])
    half = sp.window.tumbling((30, "s"), "time", skip_empty_windows=True)
    assert out_of(spark, ended(line | half), until="drained") == [[6, 12]]
    assert out_of(spark, ended(line | half)) == [[6, 12], [91], [70]]
    assigned = sp.window.tumbling((30, "s"), time_assigner=lambda data: data["time"], skip_empty_windows=True)
    minute = sp.window.tumbling((1, "m"), "time", skip_empty_windows=True)
    assert out_of(spark, ended(line | assigned | minute | sp.window.count(2))) == [[6, 12], [91, 70]]

    def mixed(name: str, buffer: list[pa.Table], offset: int, metadata: dict[str, Any], data: Any) -> list[int]:
        return [sum(map(len, buffer))]

    late = sp.window.tumbling(TEN, "time", passthrough=True, skip_empty_windows=True)
    out: list[list[pa.Table]] = []
    source = sp.read.from_expr(several) | late | sp.window.global_window(mixed, mixed_schemas=True)
    sp.run(source | sp.write.to_variable(out), spark=spark, until="drained")
    assert [[table["v"].to_pylist() for table in window] for window in out] == [[[1, 3, 2], [12]], [[8]], [[45, 46]]]


def test_records_between_queries_survive_a_restart_and_go_once_they_have_been_processed(
    spark: SparkSession, tmp_path: Path
) -> None:
    out: list[pa.Table] = []

    def app() -> sp.App:
        tens, twenties = (sp.window.tumbling((n, "s"), "time", skip_empty_windows=True) for n in (10, 20))
        line = sp.read.from_callback("rows") | tens | twenties
        return sp.App("between", line | sp.write.to_variable(out), checkpoint=tmp_path / "state", spark=spark)

    for second in range(0, 60, 10):
        app().publish("rows", records(second))
    app().run(until="drained")
    app().publish("rows", records(60))
    app().run(until="drained")
    assert [batch["v"].to_pylist() for batch in out] == [[0, 10], [20, 30]]
    with app().start() as running:
        assert {query.job.name for query in running.queries} == {"tumbling_2.records", "to_variable_1"}
        app().publish("rows", records(70))
        running.settle()
        app().publish("rows", records(80))
        running.settle()
    assert [batch["v"].to_pylist() for batch in out][2:] == [[40, 50]]


def test_columns_that_cannot_be_learnt_are_asked_for(spark: SparkSession) -> None:
    nothing = sp.read.from_expr(several) | sp.map(lambda data: None) | sp.window.count(3)
    with pytest.raises(InvalidArgumentError, match=r"count_1 \(.*\).*know its columns.*schema="):
        sp.run(nothing | sp.write.to_variable("out"), spark=spark)


@pytest.mark.slow
def test_a_function_that_changes_its_columns_before_a_window_fails_with_the_fix(spark: SparkSession) -> None:
    def changing(data: pa.Table) -> pa.Table:
        return data.select(["v"]) if data["v"][0].as_py() == 1 else data.select(["time"])

    other = sp.map(lambda data: {"v": 1 if data["v"][0].as_py() == 1 else "one"})
    for function, says in ((sp.map(changing), "gave the columns 'time'.*'v'"), (other, "'v' as string.*int64")):
        with pytest.raises(FunctionError, match=rf"map_1 .*{says}.*schema="):
            sp.run(sp.read.from_expr(several) | function | sp.window.count(3) | sp.write.to_variable("o"), spark=spark)


def test_columns_of_time_that_are_not_there_or_no_timestamps_are_refused(spark: SparkSession) -> None:
    with pytest.raises(UnknownColumnError, match=r"tme.*Did you mean 'time'"):
        drained(spark, sp.window.tumbling(TEN, "tme"))
    with pytest.raises(InvalidArgumentError, match=r"time_column='v' of tumbling_1 is of type bigint.*time_assigner="):
        drained(spark, sp.window.tumbling(TEN, "v"))


def test_files_are_read_each_as_a_batch_and_written(spark: SparkSession, tmp_path: Path) -> None:
    tables = [pa.Table.from_pylist(batch) for batch in several()]
    (tmp_path / "parquet").mkdir()
    (tmp_path / "csv").mkdir()
    (tmp_path / "json").mkdir()
    for number, table in enumerate(tables):
        frame: pd.DataFrame = table.to_pandas()
        pq.write_table(table, tmp_path / "parquet" / f"{number}.parquet")
        frame.to_csv(tmp_path / "csv" / f"{number}.csv", index=False)
        frame.to_json(tmp_path / "json" / f"{number}.json", orient="records", lines=True, date_format="iso")
        for kind in ("parquet", "csv", "json"):
            os.utime(tmp_path / kind / f"{number}.{kind}", (1_000 + number, 1_000 + number))
    window = sp.window.tumbling(TEN, "time", skip_empty_windows=True)
    schema = "time timestamp, v bigint"
    for kind, reader in (
        ("parquet", sp.read.from_parquet(tmp_path / "parquet")),
        ("csv", sp.read.from_csv(tmp_path / "csv")),
        ("json", sp.read.from_json(tmp_path / "json", schema=schema)),
        ("glob", sp.read.from_file(f"{tmp_path}/parquet/*.parquet", files_per_batch=4)),
    ):
        sp.run(reader | window | sp.write.to_file(tmp_path / "out" / kind, "parquet"), spark=spark, until="drained")
        read = spark.read.parquet(str(tmp_path / "out" / kind)).toArrow()
        expected = [1, 2, 3, 8, 12, 45, 46] if kind == "glob" else [1, 2, 3, 12, 45, 46]
        assert sorted(read["v"].to_pylist()) == (expected if kind != "glob" else sorted(read["v"].to_pylist()))
        assert set(read.column_names) == {"time", "v", "run", "batch"}
    counted = sp.read.from_parquet(tmp_path / "parquet") | sp.window.count(3) | sp.map(lambda data: {"n": len(data)})
    sp.run(counted | sp.write.to_file(tmp_path / "mapped", "json"), spark=spark, until="drained")
    assert [row.n for row in spark.read.json(str(tmp_path / "mapped")).collect()] == [3, 3]


def test_one_file_is_read_too(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_pylist(records(1, 2)), tmp_path / "one.parquet")
    line = sp.read.from_file(tmp_path / "one.parquet") | sp.window.count(2)
    assert out_of(spark, lambda out: line | sp.write.to_variable(out)) == [[1, 2]]
    with pytest.raises(InvalidArgumentError, match=r"from_file.*schema="):
        sp.run(sp.read.from_file(tmp_path / "none.parquet") | sp.write.to_variable("out"), spark=spark)


def test_topics_are_read_and_written_and_join_pipelines_of_one_run(spark: SparkSession, tmp_path: Path) -> None:
    broker = f"dir:{tmp_path}"
    for batch in several():
        topics.produce(broker, "trades", batch, timestamps=[1.0] * len(batch))
    per_ten = (
        sp.read.from_topic("trades", envelope=True)
        | sp.window.tumbling(TEN, "time", skip_empty_windows=True)
        | sp.map(lambda data: {"time": data["time"][0].as_py(), "n": len(data), "sent": data["_timestamp"][0].as_py()})
        | sp.write.to_topic("tens")
    )
    schema = "time timestamp_ntz, n bigint, sent timestamp"
    per_minute = (
        sp.read.from_topic("tens", schema=schema)
        | sp.window.tumbling(timedelta(seconds=20), "time", skip_empty_windows=True)
        | sp.map(lambda data: {"n": pc.sum(data["n"]).as_py()})
        | sp.write.to_topic("twenties")
    )
    sp.run(per_ten, per_minute, broker=broker, spark=spark, until="drained", checkpoint=tmp_path / "state")
    assert topics.read(broker, "tens")["n"].to_pylist() == [3, 1, 2]
    assert topics.read(broker, "twenties")["n"].to_pylist() == [4]
    elsewhere = f"dir:{tmp_path / 'other'}"
    copied = (
        sp.read.from_topic("tens", broker=broker) | sp.window.count(2) | sp.write.to_topic("pairs", broker=elsewhere)
    )
    sp.run(copied, spark=spark, until="drained")
    assert topics.read(elsewhere, "pairs")["n"].to_pylist() == [3, 1]


def test_a_dataframe_of_spark_is_read_as_a_stream_or_as_one_batch(spark: SparkSession, tmp_path: Path) -> None:
    batch = spark.createDataFrame([(1,), (2,), (3,)], "v bigint").coalesce(1)
    line = sp.read.from_dataframe(batch) | sp.window.count(2)
    assert out_of(spark, lambda out: line | sp.write.to_variable(out), until="drained") == [[1, 2]]
    batch.write.parquet(str(tmp_path / "rows"))
    stream = spark.readStream.schema("v bigint").parquet(str(tmp_path / "rows"))
    line = sp.read.from_dataframe(stream) | sp.window.count(2)
    assert out_of(spark, lambda out: line | sp.write.to_variable(out), until="drained") == [[1, 2]]


def test_writers_to_console_variable_and_callback_get_each_batch(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    line = sp.read.from_expr([{"v": v} for v in range(5)]) | sp.window.count(2)
    seen: list[Any] = []
    found = sp.run(
        line | sp.write.to_console("> "),
        line | sp.write.to_variable("all"),
        line | sp.write.to_variable("last", "overwrite"),
        line | sp.write.to_callback(lambda *given: seen.append(given), params=["operator", "metadata", "data"]),
        line | sp.write.to_callback(lambda frame: seen.append(list(frame.v)), pandas=True),
        spark=spark,
        until="drained",
    )
    assert capsys.readouterr().out == "> v\n0\n1\n> v\n2\n3\n"
    assert found["all"]["v"].to_pylist() == [0, 1, 2, 3]
    assert found["last"]["v"].to_pylist() == [2, 3]
    called = [
        (name, metadata["window"], data["v"].to_pylist()) for name, metadata, data in (s for s in seen if len(s) == 3)
    ]
    assert called == [("to_callback_1", (0, 2), [0, 1]), ("to_callback_1", (2, 4), [2, 3])]
    assert [each for each in seen if isinstance(each, list)] == [[0, 1], [2, 3]]


def test_a_writers_function_that_fails_says_where(spark: SparkSession) -> None:
    line = sp.read.from_expr([{"v": 1}]) | sp.window.count(1)
    with pytest.raises(FunctionError, match=r"to_callback_1 \(.*:\d+\) failed at .*ZeroDivisionError"):
        sp.run(line | sp.write.to_callback(lambda data: 1 / 0), spark=spark)


def test_a_callback_is_published_to_before_and_while_the_program_runs(spark: SparkSession, tmp_path: Path) -> None:
    out: list[pa.Table] = []
    line = sp.read.from_callback("publish", schema="v bigint") | sp.window.count(2) | sp.write.to_variable(out)
    app = sp.App("callbacks", line, checkpoint=tmp_path / "state", spark=spark)
    with app.start() as running:
        running.settle()
        app.publish("publish", pa.table({"v": [1]}))
        app.publish("publish", pd.DataFrame({"v": [2, 3]}))
        app.publish("publish", {"v": 4})
        running.settle()
    assert [batch["v"].to_pylist() for batch in out] == [[1, 2], [3, 4]]
    with pytest.raises(InvalidArgumentError, match="mixed_schemas"):
        app.publish("publish", {"w": 1})


def test_a_run_goes_on_from_its_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    out: list[pa.Table] = []
    totals: list[pa.Table] = []

    def app(batches: int) -> sp.App:
        def source() -> Iterator[Any]:
            for number, batch in enumerate(several()):
                if number < batches:
                    yield batch

        total = sp.accumulate(lambda data, so_far: so_far + len(data), 0, lambda so_far: {"v": so_far})
        windows = sp.window.tumbling(TEN, "time", skip_empty_windows=True)
        line = sp.read.from_expr(source) | windows | sp.split()
        ends = line | [sp.write.to_variable(out), total | sp.write.to_variable(totals, name="totals")]
        return sp.App("goes-on", ends, checkpoint=tmp_path / "state", spark=spark)

    came = []
    for batches in (1, 2, 2, 3, 4):
        out.clear()
        app(batches).run(until="drained")
        came.append([batch["v"].to_pylist() for batch in out])
    assert came == [[], [[1, 3, 2], [12]], [], [], [[45, 46]]]
    assert [batch["v"].to_pylist() for batch in totals] == [[3], [4], [6]]


def test_a_changed_window_is_refused_on_an_old_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    def run(window: sp.Operator) -> None:
        line = sp.read.from_callback("publish") | window | sp.write.to_variable("out")
        app = sp.App("changed", line, checkpoint=tmp_path / "state", spark=spark)
        app.publish("publish", [{"v": 1}])
        app.run(until="drained")

    run(sp.window.count(3, name="window"))
    with pytest.raises(MullionError, match=r"count of 3.*count of 4|count of 4.*count of 3"):
        run(sp.window.count(4, name="window"))


@pytest.mark.slow
def test_the_names_of_writers_key_the_state(spark: SparkSession, tmp_path: Path) -> None:
    def app(*names: str) -> sp.App:
        source = sp.read.from_callback("publish")
        ends = [source | sp.window.count(2, name=f"w-{name}") | sp.write.to_variable(name, name=name) for name in names]
        return sp.App("named", *ends, checkpoint=tmp_path / "state", spark=spark)

    first = app("a", "b")
    first.publish("publish", [{"v": 1}])
    first.run(until="drained")
    second = app("b")
    second._checked_jobs()
    assert {part.name for part in second.kept()} == {"a", "w-a"}
    second.drop("a")
    assert {part.name for part in second.kept()} == {"w-a"}


def test_the_command_runs_and_explains_pipelines(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "kx_trades.py").write_text(
        "from mullion.kx import sp\n"
        "line = sp.read.from_expr([{'v': 1}, {'v': 2}, {'v': 3}]) | sp.window.count(2) | sp.write.to_console()\n"
        f"app = sp.App('trades', line, checkpoint={str(tmp_path / 'state')!r})\n"
    )
    monkeypatch.chdir(tmp_path)
    assert main(["kx", "explain", "kx_trades:app"]) == 0
    assert "count_1" in capsys.readouterr().out
    assert main(["kx", "run", "kx_trades:app", "--until", "drained"]) == 0
    assert "v\n1\n2\n" in capsys.readouterr().out
    assert main(["kx", "windows", "kx_trades:app"]) == 0
    assert re.search(r"writer +to_console_1 +kept", capsys.readouterr().out)
    assert main(["turbine", "explain", "kx_trades:app"]) == 2


@pytest.mark.slow
def test_files_of_published_batches_go_once_every_query_has_processed_them(spark: SparkSession, tmp_path: Path) -> None:
    out: list[pa.Table] = []
    source = sp.read.from_callback("publish")
    ends = source | [
        sp.window.count(2) | sp.write.to_variable(out),
        sp.window.count(3) | sp.write.to_variable("threes"),
    ]
    app = sp.App("many", ends, checkpoint=tmp_path / "state", spark=spark)
    spooled = tmp_path / "state" / "_input" / "from_callback_1"
    for number in range(25):
        app.publish("publish", [{"v": number}])
    assert len(list(spooled.glob("*.parquet"))) == 25
    app.run(until="drained")
    left = len(list(spooled.glob("*.parquet")))
    assert left < 25
    app.publish("publish", [{"v": 25}])
    app.run(until="drained")
    assert [value for batch in out for value in batch["v"].to_pylist()] == list(range(26))
    assert app.variables["threes"]["v"].to_pylist() == list(range(24))


def test_what_is_buffered_comes_out_where_the_pipeline_ends(spark: SparkSession) -> None:
    late = sp.window.tumbling(TEN, "time", skip_empty_windows=True)
    assert of_windows(spark, late) == [[1, 3, 2], [12], [45, 46], [70]]
    assert of_windows(spark, sp.window.count(3)) == [[1, 3, 2], [12, 45, 46], [8, 70]]
    assert of_windows(spark, sp.window.global_window(lambda *_: None)) == [[1, 3, 2, 12, 45, 46, 8, 70]]
    assert of_windows(spark, sp.window.timer((1, "D"))) == [[1, 3, 2, 12, 45, 46, 8, 70]]
