"""Counters that workers increment."""

from __future__ import annotations

from collections import Counter
from typing import Any

from pyspark.accumulators import AccumulatorParam
from pyspark.sql import SparkSession


class Counts:
    """Counters that workers increment, by name."""

    def __init__(self, spark: SparkSession) -> None:
        self._all: Any = spark.sparkContext.accumulator(Counter(), _Adding())

    def __call__(self, name: str, by: int) -> None:
        """Increments a counter, in a worker."""
        self._all.add(Counter({name: by}))

    def __getitem__(self, name: str) -> int:
        return int(self._all.value[name])


class _Adding(AccumulatorParam[Counter[str]]):
    def zero(self, value: Counter[str]) -> Counter[str]:
        return Counter()

    def addInPlace(self, value1: Counter[str], value2: Counter[str]) -> Counter[str]:  # noqa: N802
        value1.update(value2)
        return value1
