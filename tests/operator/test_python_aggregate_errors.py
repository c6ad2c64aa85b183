"""Errors of Python aggregates: in their methods, in calls and in classes."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from mullion import (
    Count,
    FunctionError,
    InvalidArgumentError,
    PythonAggregate,
    Session,
    Sliding,
    Tumbling,
    windowed,
)
from mullion.windows import Window
from tests.support.checked import settings
from tests.support.clocked import ClockedQuery
from tests.support.python_aggregates import COLUMNS, WAITING, Broken, Ids, InOrder, of_batch
from tests.support.streams import SECOND, Feed


@pytest.mark.parametrize("waiting", [1, 64])
@pytest.mark.parametrize("how", ["raise", "exit"])
@pytest.mark.parametrize("method", ["create", "add", "merge", "finish"])
def test_an_error_in_a_method_has_its_name_and_line(method: str, how: str, waiting: int, spark: SparkSession) -> None:
    id_ = F.col("v").alias("id")
    with settings(spark, {WAITING: str(waiting)}):
        panes = of_batch(spark, Broken(id_, at=method, how=how))
        if method == "merge" and waiting == 64:
            assert len(panes.collect()) == 1
            return
        with pytest.raises(FunctionError) as failed:
            panes.collect()
    message = str(failed.value)
    error = {"raise": "ValueError: broken", "exit": "SystemExit: 3"}[how]
    assert re.search(r"In the pane \[1970-01-01T00:00:00Z, 1970-01-01T\S*Z\)", message), message
    assert f", Broken.{method} failed: {error}, at {inspect.getfile(Broken)}:" in message
    assert "continues from its checkpoint" in message or "the query continues once the function is fixed" in message


@pytest.mark.parametrize(
    ("window", "pane"),
    [
        (Tumbling("1 minute"), "[1970-01-01T00:00:00Z, 1970-01-01T00:01:00Z)"),
        (Sliding("2 minutes", "1 minute"), "[1969-12-31T23:59:00Z, 1970-01-01T00:01:00Z)"),
        (Session("1 minute"), "[1970-01-01T00:00:01Z, 1970-01-01T00:01:01Z)"),
        (Count(20), "[0, 20)"),
    ],
)
def test_an_error_while_the_operator_adds_rows_has_the_pane_and_the_key(
    window: Window, pane: str, spark: SparkSession, tmp_path: Path
) -> None:
    """Rows of eight batches wait in state, until the last of them is added with the others."""
    feed = Feed(tmp_path / "in", COLUMNS)
    for number in range(8):
        feed.write([(SECOND, key, number, 0) for key in ("a", "b")[: 2 if number < 7 else 1]])
    time = None if isinstance(window, Count) else "ts"
    with settings(spark, {WAITING: "2"}):
        panes = windowed(feed.stream(spark), window, by="k", time=time).agg(ids=Broken("id", at="add"))
        with (
            ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query,
            pytest.raises(FunctionError) as failed,
        ):
            query.settle()
    named = f"In the pane {pane} of k=a, Broken.add failed: ValueError: broken, at {inspect.getfile(Broken)}:"
    assert named in str(failed.value)


@pytest.mark.parametrize("method", ["add", "merge"])
def test_a_method_without_return_is_an_error(method: str, spark: SparkSession) -> None:
    with settings(spark, {WAITING: "1"}), pytest.raises(FunctionError, match=f"Broken.{method} returned None. Return"):
        of_batch(spark, Broken(F.col("v").alias("id"), at=method, how="none")).collect()


def test_a_result_of_another_type_is_an_error(spark: SparkSession) -> None:
    class Wrong(Ids, returns="bigint"):
        pass

    with pytest.raises(FunctionError, match=r"Wrong.finish returned \[0, 1.*\(list\), which is not a value of int64"):
        of_batch(spark, Wrong(F.col("v").alias("id"))).collect()


def test_a_call_is_checked_before_anything_runs() -> None:
    class Sized(Ids, returns="array<bigint>"):
        size: int
        limit: int = 3

    assert repr(Sized("id", size=5)) == "Sized('id', size=5, limit=3)"
    calls: list[tuple[Any, str]] = [
        (lambda: Sized(size=1), r"Sized\(\) has no column"),
        (lambda: Sized("id"), r"Sized needs the parameter 'size'"),
        (lambda: Sized("id", sice=1), r"Sized has no parameter 'sice'. Did you mean 'size'\?"),
        (lambda: Sized("id", cast("Any", 5)), r"Sized\(5\) has a int as a positional argument"),
    ]
    for call, message in calls:
        with pytest.raises(InvalidArgumentError, match=message):
            call()


def test_a_class_is_checked_at_its_first_call() -> None:
    class Untyped(PythonAggregate):
        pass

    class Neither(PythonAggregate, returns="int"):
        def create(self) -> int:
            return 0

    class Both(Ids, returns="int"):
        def add_row(self, ids: list[int], value: int) -> list[int]:
            return ids

    class Unmerged(PythonAggregate, returns="int"):
        def create(self) -> int:
            return 0

        def add_row(self, total: int, value: int) -> int:
            return total + value

    class HalfDumped(Ids, returns="int"):
        def dump(self, ids: list[int]) -> bytes:
            return b""

    for kind, message in [
        (Untyped, "Untyped has no result type"),
        (Neither, "Neither defines neither add nor add_row"),
        (Both, "Both defines both add and add_row"),
        (Unmerged, "Unmerged does not define merge"),
        (HalfDumped, "HalfDumped defines dump without load"),
    ]:
        with pytest.raises(InvalidArgumentError, match=message):
            kind("v")
    with pytest.raises(InvalidArgumentError, match=r"returns=5 \(int\) is not a Spark type"):

        class Numbered(PythonAggregate, returns=5):  # type: ignore[arg-type]
            pass


def test_columns_of_one_name_and_a_missing_time_are_errors(spark: SparkSession) -> None:
    with pytest.raises(InvalidArgumentError, match="Ids has two columns named 'v'"):
        of_batch(spark, Ids("v", "v"))
    rows = spark.range(4)
    with pytest.raises(InvalidArgumentError, match=r"InOrder adds rows in the order of their times .* and time=None"):
        windowed(rows, Count(2), time=None).agg(ids=InOrder("id"))
    with (
        pytest.raises(InvalidArgumentError, match=f"{WAITING}=none is not a number of rows"),
        settings(spark, {WAITING: "none"}),
    ):
        of_batch(spark, Ids("v"))
