"""Accumulators of Python aggregates in state: their storage, their size, and their comparison at a restart."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion import (
    FunctionError,
    IncompatibleStateError,
    PythonAggregate,
    Tumbling,
    UnsupportedError,
    compare,
    windowed,
)
from tests.support.checked import settings
from tests.support.clocked import ClockedQuery
from tests.support.functions.python_aggregates import COLUMNS, WAITING, Ids, InOrder, Weighted, of_batch
from tests.support.streams import SECOND, Feed

LIMIT = "spark.sql.streaming.stateStore.mullion.maxAccumulatorBytes"


@dataclass
class Figures:
    count: int
    largest: float


class OfDataclass(PythonAggregate, returns="struct<count: bigint, largest: double>"):
    def create(self) -> Figures:
        return Figures(0, float("-inf"))

    def add_row(self, figures: Figures, v: int) -> Figures:
        return Figures(figures.count + 1, max(figures.largest, v))

    def merge(self, a: Figures, b: Figures) -> Figures:
        return Figures(a.count + b.count, max(a.largest, b.largest))

    def finish(self, figures: Figures) -> tuple[int, float]:
        return figures.count, figures.largest


class OfArray(PythonAggregate, returns="array<double>"):
    def create(self) -> np.ndarray[Any, Any]:
        return np.zeros(3)

    def add(self, sums: np.ndarray[Any, Any], rows: pa.RecordBatch) -> np.ndarray[Any, Any]:
        sums += np.bincount(rows["v"].to_numpy() % 3, minlength=3)
        return sums

    def merge(self, a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        a += b
        return a


class Bag:
    """An object that no codec stores."""

    def __init__(self, values: set[int]) -> None:
        self.values = values


class Pickled(PythonAggregate, returns="bigint", pickle=True):
    def create(self) -> Bag:
        return Bag(set())

    def add_row(self, bag: Bag, v: int) -> Bag:
        bag.values.add(v)
        return bag

    def merge(self, a: Bag, b: Bag) -> Bag:
        a.values |= b.values
        return a

    def finish(self, bag: Bag) -> int:
        return len(bag.values)


class Dumped(Pickled, returns="bigint"):
    def dump(self, bag: Bag) -> bytes:
        return b",".join(b"%d" % v for v in sorted(bag.values))

    def load(self, data: bytes) -> Bag:
        return Bag({int(v) for v in data.split(b",")})


class Unpickled(Pickled, returns="bigint"):
    _pickle = False


def test_accumulators_are_stored_as_plain_values_by_the_class_or_with_pickle(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed = Feed(tmp_path / "in", COLUMNS)
    with settings(spark, {WAITING: "1"}):
        panes = windowed(feed.stream(spark), Tumbling("1 minute"), by="k", time="ts").agg(
            figures=OfDataclass("v"), sums=OfArray("v"), pickled=Pickled("v"), dumped=Dumped("v")
        )
        with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:
            for number in range(30):
                feed.write([(number * SECOND, key, 0, number % 10) for key in "abc" for _ in range(3)])
                query.settle()
            feed.flood()
            fired = query.settle()
    assert len(fired) == 3
    for pane in fired:
        assert tuple(pane.figures) == (90, 9.0)
        assert pane.sums == [36.0, 27.0, 27.0]
        assert (pane.pickled, pane.dumped) == (10, 10)


def test_an_accumulator_that_is_no_plain_value_is_an_error_with_three_ways(spark: SparkSession) -> None:
    with settings(spark, {WAITING: "1"}), pytest.raises(FunctionError) as failed:
        of_batch(spark, Unpickled("v")).collect()
    message = str(failed.value)
    assert "Unpickled cannot store its accumulator, because of the value <" in message
    assert "test_python_aggregate_state.Bag" in message
    for way in ("plain values", "dump() and load()", "pickle=True"):
        assert way in message


@pytest.mark.parametrize("kind", [Ids, InOrder])
def test_a_pane_beyond_the_limit_is_an_error_with_the_aggregate(
    kind: type[PythonAggregate], spark: SparkSession, tmp_path: Path
) -> None:
    feed = Feed(tmp_path / "in", COLUMNS)
    with settings(spark, {LIMIT: "2k"}):
        panes = windowed(feed.stream(spark), Tumbling("1 minute"), by="k", time="ts").agg(ids=kind("id"))
        with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:
            feed.write([(SECOND, "a", i, 0) for i in range(2000)])
            of = rf"k=a.* bytes of aggregates, most of it in {kind.__name__}\(id\)"
            with pytest.raises(UnsupportedError, match=of):
                query.settle()


@pytest.mark.always
def test_an_accumulator_may_be_of_a_class_of_the_main_program(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    total: Any = type("Total", (), {"n": 0, "__module__": "__main__"})
    monkeypatch.setattr(sys.modules["__main__"], "Total", total, raising=False)

    class Counted(PythonAggregate, returns="bigint", pickle=True):
        def create(self) -> Any:
            return total()

        def add(self, accumulator: Any, rows: pa.RecordBatch) -> Any:
            accumulator.n += rows.num_rows
            return accumulator

        def merge(self, a: Any, b: Any) -> Any:
            a.n += b.n
            return a

        def finish(self, accumulator: Any) -> Any:
            return accumulator.n

    with settings(spark, {WAITING: "1"}):
        assert [row.result for row in of_batch(spark, Counted("v")).collect()] == [100]


def test_another_class_parameter_or_column_type_does_not_continue_the_state(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed = Feed(tmp_path / "in", COLUMNS)

    def panes_of(aggregate: PythonAggregate) -> DataFrame:
        return windowed(feed.stream(spark), Tumbling("1 minute"), by="k", time="ts").agg(total=aggregate)

    with ClockedQuery(panes_of(Weighted("v", "id", factor=2)), checkpoint=tmp_path / "checkpoint") as query:
        feed.write([(SECOND, "a", 1, 1)])
        query.settle()
    again = panes_of(Weighted("v", "id", factor=2))
    assert [row.verdict for row in compare(again, tmp_path / "checkpoint").collect()] == ["goes on"]
    for other in (
        Weighted("v", "id", factor=3),
        Weighted("id", "v", factor=2),
        Weighted(F.col("v").cast("int").alias("v"), "id", factor=2),
        OfDataclass("v"),
    ):
        assert [row.verdict for row in compare(panes_of(other), tmp_path / "checkpoint").collect()] == ["refused"]
    feed.write([(SECOND, "a", 1, 1)])
    with (
        ClockedQuery(panes_of(OfDataclass("v")), checkpoint=tmp_path / "checkpoint") as query,
        pytest.raises(IncompatibleStateError, match=r"Weighted\(v, id, factor => 2\)"),
    ):
        query.settle()
