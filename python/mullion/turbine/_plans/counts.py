"""What is counted in workers."""

from __future__ import annotations

from collections import Counter
from typing import Any

from pyspark.accumulators import AccumulatorParam
from pyspark.sql import SparkSession


class Counts:
    """What is counted in workers, by name."""

    def __init__(self, spark: SparkSession) -> None:
        self._all: Any = spark.sparkContext.accumulator(Counter(), _Adding())

    def __call__(self, name: str, by: int) -> None:
        """Counts so many, in a worker."""
        self._all.add(Counter({name: by}))

    def __getitem__(self, name: str) -> int:
        return int(self._all.value[name])


class _Adding(AccumulatorParam[Counter[str]]):
    def zero(self, value: Counter[str]) -> Counter[str]:
        return Counter()

    def addInPlace(self, value1: Counter[str], value2: Counter[str]) -> Counter[str]:  # noqa: N802
        value1.update(value2)
        return value1
