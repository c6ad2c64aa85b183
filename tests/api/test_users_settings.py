"""A user's settings, and not those of the suite: the JAR alone, ANSI off, a snapshot every 10 batches, more partitions
than keys, checkpoints of both formats.

Each run plays other scenarios of the transcripts, and Turbine programs; random ones are in ``test_turbine_random``.
``MULLION_TEST_SCENARIOS=all`` plays every scenario. ``MULLION_SEED`` repeats a failed run.
"""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mullion import MullionError
from tests.adapters.turbine.test_turbine import *  # noqa: F403
from tests.adapters.turbine.test_turbine_kept import (  # noqa: F401
    test_the_analysis_of_code_never_moves_state_to_another_query,
)
from tests.adapters.turbine.test_turbine_together import (  # noqa: F401
    test_windows_in_one_query_publish_the_same_as_alone,
)
from tests.support.checked import of_a_user
from tests.support.seeds import SEED
from tests.support.transcripts.scenario import Scenario, scenarios
from tests.support.transcripts.scenario_run import Run, play

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def spark(spark: SparkSession) -> SparkSession:
    """For the tests that are here too."""
    return of_a_user(spark, "1")


@pytest.mark.parametrize("checkpoints", ["1", "2"])
def test_scenarios_are_true_with_a_users_settings(spark: SparkSession, tmp_path: Path, checkpoints: str) -> None:
    seeded = SEED
    print(f"MULLION_SEED={seeded}")
    session = of_a_user(spark, checkpoints)
    chosen = [each for each in scenarios() if each.refused is None]
    number_of_scenarios = os.environ.get("MULLION_TEST_SCENARIOS", "6")
    if number_of_scenarios != "all":
        chosen = random.Random(f"{seeded} {checkpoints}").sample(chosen, int(number_of_scenarios))
    wrong: dict[str, BaseException] = {}
    for number, scenario in enumerate(chosen):
        try:
            tell(session, scenario, tmp_path / str(number))
        except (AssertionError, MullionError, pytest.fail.Exception) as error:
            wrong[scenario.name] = error
    assert not wrong, f"MULLION_SEED={seeded}: {len(wrong)} of {len(chosen)} scenarios: " + "\n".join(
        f"{name}: {error}" for name, error in wrong.items()
    )


def tell(session: SparkSession, scenario: Scenario, folder: Path) -> None:
    run = Run(session, scenario, folder)
    try:
        play(run)
    finally:
        run.query.stop()
        shutil.rmtree(folder)
