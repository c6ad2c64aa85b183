"""Runs the scenarios of ``tests/transcripts``, whose README documents the notation, through the public API.

``TranscriptSuite`` runs the same files in Scala.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from pyspark.sql import SparkSession

from mullion import MullionError
from tests.support.cache_sizes import set_size, sizes_of
from tests.support.checked import CHANGELOGS
from tests.support.transcripts.scenario import Scenario, scenarios
from tests.support.transcripts.scenario_run import Run, play


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    own = spark.newSession()
    own.conf.set("spark.sql.shuffle.partitions", "2")
    own.conf.set("spark.sql.session.timeZone", "UTC")
    # Several tasks read a file of a few rows.
    own.conf.set("spark.sql.files.maxPartitionBytes", "64")
    # The Scala suite tests changelogs.
    own.conf.set(CHANGELOGS, "false")
    return own


def some_scenarios() -> list[Any]:
    """Every scenario.

    ``make test`` runs each scenario once: a fixed quarter here, by a hash of the name, and the others in Scala.
    ``make test-all`` runs all of them in both.
    """
    cases = []
    for scenario in scenarios():
        marks = [] if crc32(scenario.name.encode()) % 4 == 0 else [pytest.mark.slow]
        for size in sizes_of(scenario.name):
            name = f"{scenario.name} ({size})"
            cases.append(pytest.param(scenario, size, id=name, marks=[pytest.mark.always, *marks]))
    return cases


@pytest.mark.own_cache_size("each scenario has one by its name, as in Scala")
@pytest.mark.parametrize(("scenario", "size"), some_scenarios())
def test_the_scenario_is_true(scenario: Scenario, size: str, session: SparkSession, tmp_path: Path) -> None:
    set_size(session, size)
    try:
        if scenario.refused is not None:
            with pytest.raises(MullionError, match=scenario.refused):
                Run(session, scenario, tmp_path).start()
            return
        run = Run(session, scenario, tmp_path)
        try:
            play(run)
        finally:
            run.query.stop()
    finally:
        shutil.rmtree(tmp_path)
