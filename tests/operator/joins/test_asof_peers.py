"""As-of joins compared with DuckDB's ``ASOF JOIN``, as streams and as batches, over random rows of several keys."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion import asof_join
from tests.support.cache_sizes import SIZES, set_size
from tests.support.clocked import ClockedQuery
from tests.support.peers import answers_of
from tests.support.seeds import SEED
from tests.support.streams import SECOND, Feed, batches_of

pytestmark = pytest.mark.slow

KEYS = (*"abcdefgh", None)
SIDES = ("lefts", "rights")
BATCHES = 4
# Seconds. No row is late: all times are in the first minute after 0, and the watermark's delay is a minute.
LATEST = 60

Row = tuple[int, str | None, int]
"""An id, a key and a time in seconds."""


def random_rows(chance: random.Random, count: int, first: int) -> list[Row]:
    """Rows with few times, so that many are equal within a side and between the sides."""
    times = chance.choice([8, LATEST])
    return [(first + number, chance.choice(KEYS), chance.randrange(1, times)) for number in range(count)]


def random_case(chance: random.Random, direction: str, *, is_exact: bool) -> dict[str, Any]:
    lefts, rights = chance.randrange(20, 120), chance.randrange(20, 120)
    has_tolerance = direction != "backward" or chance.random() < 0.5
    return {
        "direction": direction,
        "allow_exact": is_exact,
        "tolerance": chance.randrange(1, 15) if has_tolerance else None,
        "lefts": random_rows(chance, lefts, 0),
        "rights": random_rows(chance, rights, lefts),
    }


def join(case: dict[str, Any], left: DataFrame, right: DataFrame) -> DataFrame:
    tolerance = None if case["tolerance"] is None else f"{case['tolerance']} seconds"
    return asof_join(
        left,
        right,
        by="k",
        left_time="ts",
        right_time="ts",
        direction=case["direction"],
        tolerance=tolerance,
        allow_exact=case["allow_exact"],
    ).select("id", "id_right")


def pairs(rows: list[Any]) -> list[list[int | None]]:
    return sorted([row.id, row.id_right] for row in rows)


@pytest.mark.own_cache_size("the cases of the test have all three sizes")
@pytest.mark.parametrize("is_exact", [True, False], ids=["exact", "not exact"])
@pytest.mark.parametrize("direction", ["backward", "forward", "nearest"])
def test_random_joins_have_the_pairs_of_duckdb(
    spark: SparkSession, tmp_path: Path, direction: str, is_exact: bool
) -> None:
    chance = random.Random(f"{SEED} {direction} {is_exact}")
    cases = [random_case(chance, direction, is_exact=is_exact) for _ in SIZES]
    expected = answers_of("duckdb", "duckdb_asof.py", cases)
    for number, (size, case) in enumerate(zip(SIZES, cases, strict=True)):
        set_size(spark, size)
        feeds = [Feed(tmp_path / f"{side} {number}", "k string, id bigint") for side in SIDES]
        streams = [feed.stream(spark, f"{LATEST} seconds").select("ts", "k", "id") for feed in feeds]
        rows = []
        with ClockedQuery(join(case, *streams), checkpoint=tmp_path / f"checkpoint {number}") as query:
            # Batches keep the order of arrival.
            cuts = [sorted(chance.randrange(len(case[side]) + 1) for _ in range(BATCHES - 1)) for side in SIDES]
            for batch in range(BATCHES):
                for feed, side, cut in zip(feeds, SIDES, cuts, strict=True):
                    begin, end = [0, *cut][batch], [*cut, len(case[side])][batch]
                    feed.write([(time * SECOND, key, row) for row, key, time in case[side][begin:end]])
                rows += query.settle()
            for feed in feeds:
                feed.flood()
            rows += query.settle()
            assert sum(report["rowsLate"] for report in batches_of(query)) == 0
        assert pairs(rows) == sorted(expected[number]), f"MULLION_SEED={SEED}, {size}: {case}"
        frames = [frame(spark, case[side]) for side in SIDES]
        batch_pairs = pairs(join(case, *frames).collect())
        assert batch_pairs == sorted(expected[number]), f"MULLION_SEED={SEED}, a batch: {case}"
    matches = [right for pairs_of_case in expected for _, right in pairs_of_case]
    assert len(set(matches)) > 15, "most rows have no match"
    assert None in matches


def frame(spark: SparkSession, rows: list[Row]) -> DataFrame:
    created = spark.createDataFrame(rows, "id bigint, k string, t bigint").coalesce(1)
    return created.withColumn("ts", F.timestamp_seconds("t")).select("ts", "k", "id")
