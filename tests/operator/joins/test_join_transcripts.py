"""Runs the test cases of ``tests/transcripts/joins``; ``JoinTranscriptSuite`` runs the same files in Scala."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from pyspark.sql import SparkSession

from tests.support.cache_sizes import set_size, sizes_of
from tests.support.transcripts.join_scenario import JoinRun, JoinScenario, join_scenarios


def cases() -> list[Any]:
    """Every test case. ``make test`` runs a fixed quarter of them here, and the others in Scala."""
    return [
        pytest.param(
            scenario,
            size,
            id=f"{scenario.name} ({size})",
            marks=[pytest.mark.always, *([] if crc32(scenario.name.encode()) % 4 == 0 else [pytest.mark.slow])],
        )
        for scenario in join_scenarios()
        for size in sizes_of(scenario.name)
    ]


@pytest.mark.own_cache_size("each test case has one by its name, as in Scala")
@pytest.mark.parametrize(("scenario", "size"), cases())
def test_the_join_returns_the_rows_of_the_test_case(
    scenario: JoinScenario, size: str, spark: SparkSession, tmp_path: Path
) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "2")
    session.conf.set("spark.sql.session.timeZone", "UTC")
    set_size(session, size)
    run = JoinRun(session, scenario, tmp_path)
    try:
        run.play()
    finally:
        run.query.stop()
