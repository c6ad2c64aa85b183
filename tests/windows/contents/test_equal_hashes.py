"""Keys with equal hashes have separate panes."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from mullion import (
    PerKey,
    Session,
    windowed,
)
from tests.support.clocked import ClockedQuery
from tests.support.models.model import SECOND
from tests.support.streams import Feed, rows_of

WORD = 2**64
P1, P2, P3, P4, P5 = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)


def turned(word: int, bits: int) -> int:
    return (word << bits | word >> (64 - bits)) % WORD


def mixed(number: int) -> int:
    return turned(number * P2 % WORD, 31) * P1 % WORD


def hash_of(number: int, seed: int) -> int:
    """The hash of a BIGINT by Spark's ``xxhash64``."""
    word = turned(((seed + P5 + 8) % WORD) ^ mixed(number % WORD), 27) * P1 + P4
    word = (word % WORD ^ (word % WORD) >> 33) * P2 % WORD
    word = (word ^ word >> 29) * P3 % WORD
    return word ^ word >> 32


def with_the_hash_of(a: int, b: int, other: int) -> int:
    """The number for which ``(other, number)`` has the hash of ``(a, b)``."""
    wanted = ((hash_of(a, 42) + P5 + 8) % WORD) ^ mixed(b) ^ ((hash_of(other, 42) + P5 + 8) % WORD)
    number = turned(wanted * pow(P1, -1, WORD) % WORD, 33) * pow(P2, -1, WORD) % WORD
    return number - WORD if number >= WORD // 2 else number


def test_keys_with_equal_hashes_are_separate_even_if_their_rows_are_mixed(spark: SparkSession, tmp_path: Path) -> None:
    keys = [(1, 2), (3, with_the_hash_of(1, 2, 3)), (5, with_the_hash_of(1, 2, 5))]
    hashes = spark.createDataFrame(keys, "a bigint, b bigint").select(F.xxhash64("a", "b").alias("h")).distinct()
    assert hashes.count() == 1
    feed = Feed(tmp_path / "in", "a bigint, b bigint, id bigint")
    panes = windowed(rows_of(spark, feed), Session("5 seconds"), by=["a", "b"], time="ts", clock=PerKey()).agg(
        F.collect_list("id").alias("ids")
    )
    query = ClockedQuery(panes, checkpoint=tmp_path / "checkpoint")
    try:
        fired = []
        for batch in range(2):
            # Each key's n-th row is n seconds after the last, so that its fifth closes a session of four.
            feed.write(
                [
                    (batch * 1000 * SECOND + second * SECOND, *keys[(second + i) % 3], batch * 100 + second * 10 + i)
                    for second in (1, 2, 3, 4, 20)
                    for i in range(3)
                ]
            )
            fired += [(row.a, sorted(row.ids), row.window.start.second) for row in query.settle()]
        wanted = []
        for number, (a, _) in enumerate(keys):
            ids = [[s * 10 + (number - s) % 3 for s in (1, 2, 3, 4)], [200 + (number - 20) % 3]]
            wanted += [(a, ids[0], 1), (a, ids[1], 20), (a, [100 + i for i in ids[0]], 41)]
        assert sorted(fired) == sorted(wanted)
    finally:
        query.stop()
