"""The amount of state that a query caches in memory. It must emit the same firings with each size.

A test with the fixture ``spark`` has one of three sizes, by a fixed hash of its id: ``conftest`` sets it. With
``MULLION_TEST_CACHES=all`` each test runs with all three. ``CacheSize`` is the same in Scala.
"""

from __future__ import annotations

import os
import random
from typing import Final
from zlib import crc32

from pyspark.sql import SparkSession

HOT: Final = "spark.sql.streaming.stateStore.mullion.hotBytes"

SIZES: Final[dict[str, str | None]] = {"all in memory": None, "2 kB in memory": "2k", "none in memory": "0"}

ALL_SIZES: Final = os.environ.get("MULLION_TEST_CACHES") == "all"


def name_of(nodeid: str) -> str:
    """The id of a Python test without the folder of its file."""
    file, colons, rest = nodeid.partition("::")
    return file.rpartition("/")[2] + colons + rest


def size_of(test: str) -> str:
    """The size of a test case."""
    return list(SIZES)[crc32(test.encode()) % len(SIZES)]


def sizes_of(test: str) -> list[str]:
    """The sizes that a test case runs with."""
    return list(SIZES) if ALL_SIZES else [size_of(test)]


def set_size(spark: SparkSession, size: str) -> None:
    """Sets the size for the queries that start in the session from now on."""
    value = SIZES[size]
    if value is None:
        spark.conf.unset(HOT)
    else:
        spark.conf.set(HOT, value)


def draw_size(spark: SparkSession, rng: random.Random) -> str:
    """Sets a random size in place of the one that follows from the test's id."""
    size = rng.choice(list(SIZES))
    if not ALL_SIZES:
        set_size(spark, size)
    return size
