"""Runs pipelines of ``mullion.kx`` over a few records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from mullion.kx import sp

TEN = timedelta(seconds=10)
DAY = datetime(2026, 1, 1)


def at(second: float) -> datetime:
    return DAY + timedelta(seconds=second)


def records(*seconds: float) -> list[dict[str, Any]]:
    return [{"time": at(second), "v": int(second)} for second in seconds]


def several() -> Iterator[list[dict[str, Any]]]:
    """Rows 3 and 2 are out of order, and row 8 is late because its window has closed."""
    yield records(1, 3, 2)
    yield records(12, 45)
    yield records(46)
    yield records(8, 70)


def out_of(spark: SparkSession, make: Callable[[list[Any]], Any], **options: Any) -> list[Any]:
    """The values ``v`` of each output batch."""
    out: list[Any] = []
    sp.run(make(out), spark=spark, **options)
    return [batch["v"].to_pylist() if isinstance(batch, pa.Table) else batch for batch in out]


def ended(line: sp.Pipeline) -> Callable[[list[Any]], sp.Pipeline]:
    return lambda out: line | sp.write.to_variable(out)


def of_windows(spark: SparkSession, window: sp.Operator, **options: Any) -> list[Any]:
    return out_of(spark, lambda out: sp.read.from_expr(several) | window | sp.write.to_variable(out), **options)


def drained(spark: SparkSession, window: sp.Operator) -> list[Any]:
    return of_windows(spark, window, until="drained")
