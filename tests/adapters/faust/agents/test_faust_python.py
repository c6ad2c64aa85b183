"""Faust programs against Python itself: the same source in plain Python, in Spark's Python workers and in the JVM."""

from __future__ import annotations

import re
from pathlib import Path
from zlib import crc32

import pytest
from pyspark.sql import SparkSession

from tests.support.faust import faust_random
from tests.support.faust.faust_against_python import Runs
from tests.support.faust.programs import faust_ways
from tests.support.seeds import SEED


@pytest.mark.usefixtures("spark")
def test_random_programs_give_the_answers_of_plain_python(tmp_path: Path) -> None:
    seed = SEED
    print(f"tests/support/faust/faust_random.py --programs 30 --seed {seed}")
    comparison = faust_random.run(seed, 30, tmp_path)
    assert not comparison.wrong, "\n".join(comparison.wrong.values())
    # Most run, and all ways of running are used.
    assert len(comparison.refused) < 10, comparison.refused
    assert comparison.sharded
    assert comparison.jvm
    assert comparison.folded > 25


@pytest.mark.parametrize("many", [14, pytest.param(56, marks=pytest.mark.slow)])
def test_fifty_six_ways_of_writing_an_agent_give_the_answers_of_plain_python(
    tmp_path: Path, spark: SparkSession, many: int
) -> None:
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    assert partitions is not None
    spark.conf.set("spark.sql.shuffle.partitions", "4")
    try:
        hold_ways(tmp_path, many)
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", partitions)


def hold_ways(folder: Path, many: int) -> None:
    ways = faust_ways.programs()
    assert len(ways) == 56
    chosen = sorted(ways, key=lambda words: crc32(words.encode()))[:many]
    ways = {words: ways[words] for words in chosen}
    comparison = Runs(folder, faust_ways.batches()).compare(list(ways.values()), twice=True)
    assert not comparison.wrong, "\n".join(comparison.wrong.values())
    names = {program.name: words for words, program in ways.items()}
    refused = {names[name]: why for name, why in comparison.refused.items()}
    expected = {words: why for words, why in faust_ways.REFUSED.items() if words in ways}
    assert refused.keys() == expected.keys(), refused
    for words, why in expected.items():
        assert re.search(why, refused[words]), refused[words]
    assert not comparison.carries
    if many < 56:
        return
    assert len(comparison.sharded) >= 15
    assert len(comparison.jvm) >= 5
    assert comparison.folded >= 500
