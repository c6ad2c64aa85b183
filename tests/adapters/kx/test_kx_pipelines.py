"""Functions of ``mullion.kx`` between windows, run, and the records between two queries."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from mullion.errors import FunctionError, InvalidArgumentError, MullionError, UnknownColumnError
from mullion.kx import sp
from tests.support.kx.kx_runs import TEN, drained, ended, out_of, records, several


@pytest.mark.slow
def test_what_a_function_raises_names_the_operator_and_the_line(spark: SparkSession) -> None:
    def fails(data: pa.Table) -> Any:
        raise KeyError("price")

    line = sp.read.from_expr(several) | sp.window.count(3)
    with pytest.raises(FunctionError, match=r"map_1 \(.*test_kx_pipelines.py:\d+\) raised .*KeyError: 'price'"):
        sp.run(line | sp.map(fails) | sp.write.to_variable("out"), spark=spark)
    with pytest.raises(FunctionError, match=r"accumulate_1 \(.*KeyError: 'price'"):
        sp.run(line | sp.accumulate(lambda data, total: fails(data), 0) | sp.write.to_variable("out"), spark=spark)
    with pytest.raises(FunctionError, match=r"map_1 \(.*returned .*and a batch is an Arrow table"):
        sp.run(line | sp.map(lambda data: object()) | sp.write.to_variable("out"), spark=spark)


def test_a_worker_that_ends_fails_the_query_with_the_names_of_its_operators(spark: SparkSession) -> None:
    line = sp.read.from_expr(several) | sp.window.count(3)
    ends = sp.map(lambda data: os._exit(7), name="score")
    with pytest.raises(MullionError, match=r"A Python worker .* ended unexpectedly while it ran keep or score: "):
        sp.run(line | sp.filter(lambda data: True, name="keep") | ends | sp.write.to_variable([]), spark=spark)


def test_filter_keeps_batches_or_rows(spark: SparkSession) -> None:
    line = sp.read.from_expr(several) | sp.window.count(3)
    cases: list[tuple[Callable[[pa.Table], Any], list[list[int]]]] = [
        (lambda data: data["v"][0].as_py() == 1, [[1, 3, 2]]),
        (lambda data: pc.equal(data["v"][0], 1), [[1, 3, 2]]),
        (lambda data: pc.greater(data["v"], 2), [[3], [12, 45, 46]]),
        (lambda data: [v > 2 for v in data["v"].to_pylist()], [[3], [12, 45, 46]]),
    ]
    for function, expected in cases:
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


def test_merge_joins_the_buffered_records_of_two_streams(spark: SparkSession) -> None:
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
def test_merge_follows_its_trigger_and_flush_options(
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


def test_a_window_after_a_function_infers_its_columns_or_has_a_schema(spark: SparkSession) -> None:
    ranked = sp.map(lambda data: data.append_column("twice", pc.multiply(data["v"], 2)))
    line = sp.read.from_expr(several) | ranked | sp.window.count(3)
    out: list[pa.Table] = []
    sp.run(line | sp.write.to_variable(out), spark=spark, until="drained")
    assert out[0]["twice"].to_pylist() == [2, 6, 4]
    with_schema = sp.map(lambda data: None if data["v"][0].as_py() == 1 else data.select(["v"]), schema="v bigint")
    chained = sp.read.from_expr(several) | sp.window.tumbling(TEN, "time", skip_empty_windows=True) | with_schema
    assert out_of(spark, lambda out: chained | sp.window.count(2) | sp.write.to_variable(out), until="drained") == [
        [12, 45]
    ]


def test_a_window_by_event_time_after_another_follows_its_own_input(spark: SparkSession, tmp_path: Path) -> None:
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
    with pytest.raises(InvalidArgumentError, match=r"count_1 \(.*\).*needs its columns .*schema="):
        sp.run(nothing | sp.write.to_variable("out"), spark=spark)


@pytest.mark.slow
def test_a_function_that_changes_its_columns_before_a_window_fails_with_the_fix(spark: SparkSession) -> None:
    def changing(data: pa.Table) -> pa.Table:
        return data.select(["v"]) if data["v"][0].as_py() == 1 else data.select(["time"])

    other = sp.map(lambda data: {"v": 1 if data["v"][0].as_py() == 1 else "one"})
    for function, says in ((sp.map(changing), "returned the columns 'time'.*'v'"), (other, "'v' as string.*int64")):
        with pytest.raises(FunctionError, match=rf"map_1 .*{says}.*schema="):
            sp.run(sp.read.from_expr(several) | function | sp.window.count(3) | sp.write.to_variable("o"), spark=spark)


def test_columns_of_time_that_are_not_there_or_no_timestamps_are_rejected(spark: SparkSession) -> None:
    with pytest.raises(UnknownColumnError, match=r"tme.*Did you mean 'time'"):
        drained(spark, sp.window.tumbling(TEN, "tme"))
    with pytest.raises(InvalidArgumentError, match=r"time_column='v' of tumbling_1 is of type bigint.*time_assigner="):
        drained(spark, sp.window.tumbling(TEN, "v"))
