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
    Early,
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
from tests.support.functions.python_aggregates import COLUMNS, WAITING, Broken, Ids, InOrder, of_batch
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
    assert message.endswith("Fix the function and run the query again: with a checkpoint it continues from there.")


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


@pytest.mark.parametrize("waiting", [1, 64])
@pytest.mark.parametrize(
    "options",
    [{"late": "reopen"}, {"accumulate": False, "early": Early("1 minute")}],
    ids=["late rows", "panes that keep their own rows"],
)
def test_an_error_in_overlapping_windows_has_one_of_their_panes(
    options: dict[str, Any], waiting: int, spark: SparkSession, tmp_path: Path
) -> None:
    feed, start = Feed(tmp_path / "in", COLUMNS), 1_700_000_000 * SECOND
    with settings(spark, {WAITING: str(waiting)}):
        window = Sliding("2 minutes", "1 minute")
        panes = windowed(feed.stream(spark), window, by="k", time="ts", **options).agg(ids=Broken("id", at="add"))
        with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:
            if "late" in options:
                feed.flood()
                query.settle()
            feed.write([(start - SECOND, "a", 0, number) for number in range(100)])
            with pytest.raises(FunctionError) as failed:
                query.settle()
    panes_of_row = ("[2023-11-14T22:12:00Z, 2023-11-14T22:14:00Z)", "[2023-11-14T22:13:00Z, 2023-11-14T22:15:00Z)")
    assert str(failed.value).startswith(tuple(f"In the pane {pane} of k=a, Broken.add" for pane in panes_of_row))


def test_an_error_in_a_library_has_the_line_of_the_class(spark: SparkSession) -> None:
    class Misread(Ids, returns="array<bigint>"):
        def add(self, ids: list[int], rows: Any) -> list[int]:
            return ids + cast("list[int]", rows["other"].to_pylist())

    line = inspect.getsourcelines(Misread.add)[1] + 1
    says = rf"KeyError: .*, at {re.escape(__file__)}:{line}: return .*\. The rows have id \(name an expression with"
    with pytest.raises(FunctionError, match=says):
        of_batch(spark, Misread(F.col("v").alias("id"))).collect()


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

    class OfTwo(PythonAggregate, returns="int"):
        def create(self) -> int:
            return 0

        def add_row(self, total: int, value: int, weight: int) -> int:
            return total + value

        def merge(self, a: int, b: int) -> int:
            return a + b

    calls: list[tuple[Any, str]] = [
        (lambda: OfTwo("id"), r"OfTwo\('id'\) does not fit add_row\(total.*missing a required argument: 'weight'"),
        (lambda: OfTwo("id", "v", "w"), "too many positional arguments. Name one column for each parameter"),
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


def test_a_result_type_that_is_no_ddl_is_an_error(spark: SparkSession) -> None:
    class Misspelt(Ids, returns="array<dobule>"):
        pass

    says = r"returns='array<dobule>' is not a type as DDL: .*Syntax error at or near '<'. Write, for instance, returns="
    with pytest.raises(InvalidArgumentError, match=says):
        of_batch(spark, Misspelt("v"))
    rows = windowed(spark.sql("SELECT timestamp'2024-01-01' AS ts"), Tumbling("1 minute"), time="ts")
    with pytest.raises(InvalidArgumentError, match=r"schema='y dobule' is not a type as DDL"):
        rows.apply(lambda key, pane, rows: rows, "y dobule")
