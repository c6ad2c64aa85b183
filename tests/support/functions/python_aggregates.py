"""Aggregates in Python for tests, and their equivalents of Spark."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from mullion import (
    Custom,
    PythonAggregate,
    Tumbling,
    windowed,
)
from mullion.windows import Window
from tests.support.streams import SECOND

WAITING = "spark.sql.mullion.pythonAggregate.waitingRows"

COLUMNS = "k string, id bigint, v bigint"


class Ids(PythonAggregate, returns="array<bigint>"):
    """All ids of a pane, in order."""

    def create(self) -> list[int]:
        return []

    def add(self, ids: list[int], rows: pa.RecordBatch) -> list[int]:
        assert rows.num_rows > 0
        ids += rows["id"].to_pylist()
        return ids

    def merge(self, a: list[int], b: list[int]) -> list[int]:
        a += b
        return a

    def finish(self, ids: list[int]) -> list[int]:
        return sorted(ids)


class Weighted(PythonAggregate, returns="bigint"):
    """The sum of products of two columns, row by row."""

    factor: int = 1

    def create(self) -> int:
        return 0

    def add_row(self, total: int, v: int | None, weight: int) -> int:
        return total + self.factor * (v or 0) * weight

    def merge(self, a: int, b: int) -> int:
        return a + b


def compared(rows: DataFrame, window: Window, **options: Any) -> DataFrame:
    """Panes with aggregates in Python and their equivalents of Spark."""
    arguments: dict[str, Any] = {"by": "k", "time": "ts", **options}
    weight = (F.col("id") % 5 + 1).alias("weight")
    if isinstance(window, Custom):
        rows = rows.withColumn("ranges", F.expr("array(struct(ts AS start, ts + INTERVAL 3 SECONDS AS end))"))
    return windowed(rows, window, **arguments).agg(
        Ids("id").alias("ids"),
        F.sort_array(F.collect_list("id")).alias("wanted_ids"),
        total=Weighted("v", weight, factor=3),
        wanted_total=F.coalesce(F.sum(F.col("v") * weight * 3), F.lit(0)),
    )


def assert_equal(panes: list[Row]) -> None:
    for pane in panes:
        if pane.pane.firing == "late":
            assert (pane.ids, pane.total) == (None, None)
        else:
            assert (pane.ids, pane.total) == (pane.wanted_ids, pane.wanted_total), pane


def random_rows(chance: random.Random, ids: int, start: int) -> list[tuple[Any, ...]]:
    """Rows of several keys, of which one has many rows."""
    return [
        (
            start + chance.randrange(-15, 15) * SECOND,
            chance.choice(["a", "b", "c", None, "many", "many", "many"]),
            ids + i,
            chance.choice([None, *range(6)]),
        )
        for i in range(chance.choice([1, 12, 60]))
    ]


class InOrder(PythonAggregate, returns="array<bigint>", ordered=True):
    def create(self) -> list[int]:
        return []

    def add(self, ids: list[int], rows: pa.RecordBatch) -> list[int]:
        return [*ids, *rows["id"].to_pylist()]


def of_batch(spark: SparkSession, aggregate: PythonAggregate) -> DataFrame:
    rows = spark.range(0, 100, 1, 2).select(F.col("id").alias("v"), F.timestamp_seconds("id").alias("ts"))
    return windowed(rows, Tumbling("1 hour"), time="ts").agg(result=aggregate)


class Broken(Ids, returns="array<bigint>"):
    at: str = "nowhere"
    how: str = "raise"

    def _break(self, method: str) -> Any:
        if method == self.at:
            if self.how == "exit":
                raise SystemExit(3)
            if self.how == "none":
                return None
            raise ValueError("broken")
        return True

    def create(self) -> list[int]:
        assert self._break("create")
        return []

    def add(self, ids: list[int], rows: pa.RecordBatch) -> Any:
        return super().add(ids, rows) if self._break("add") else None

    def merge(self, a: list[int], b: list[int]) -> Any:
        return super().merge(a, b) if self._break("merge") else None

    def finish(self, ids: list[int]) -> Any:
        return super().finish(ids) if self._break("finish") else None
