"""Random windows with random options, aggregates and sizes of the cache, each against the model of the contract.

``test_differential.py`` has random rows for chosen queries. Here the query is random, too: its window, the options that
the model has, its aggregates, a restart and the settings of its state. ``MULLION_SEED`` repeats a failed run, and
``MULLION_TEST_ROUNDS`` sets the number of queries.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mullion import UnsupportedError
from tests.support.cache_sizes import draw_size
from tests.support.checked import CHANGELOGS, SESSION_STATE_IN_ROCKSDB, Case, CheckedQuery
from tests.support.models.custom_model import CustomRules
from tests.support.models.model import SECOND, AroundRules, CumulativeRules, Rules
from tests.support.models.random_steps import steps
from tests.support.models.session_model import SessionRules
from tests.support.seeds import SEED

ROUNDS = int(os.environ.get("MULLION_TEST_ROUNDS", "3"))
LISTS = (((0, 10 * SECOND), (0, 3 * SECOND)), ((-SECOND, 2 * SECOND),), (), None, ((5 * SECOND, 6 * SECOND),) * 2)
"""Ranges of custom windows."""
CONF: tuple[Mapping[str, str], ...] = (
    {},
    SESSION_STATE_IN_ROCKSDB,
    {"spark.sql.codegen.wholeStage": "false"},
    {**SESSION_STATE_IN_ROCKSDB, CHANGELOGS: "true", "spark.sql.streaming.stateStore.checkpointFormatVersion": "2"},
)

AnyRules = Rules | SessionRules | AroundRules | CustomRules


def random_rules(rng: random.Random) -> AnyRules:
    """A window and its options, which may be a combination that Mullion does not support."""

    def seconds(*choices: float) -> int:
        return round(rng.choice(choices) * SECOND)

    early = rng.choice((None, None, seconds(2, 3, 5, 8)))
    count = rng.choice((None, None, None, 2, 3))
    lateness = seconds(0, 0, 1, 4, 15)
    on_time = lateness > 0 and rng.random() < 0.3
    fires = early is not None or count is not None or on_time
    options: dict[str, Any] = {
        "delay": seconds(0, 0.001, 1, 3, 12),
        "lateness": lateness,
        "early": early,
        "unchanged": early is not None and rng.random() < 0.3,
        "count": count,
        "on_time": on_time,
        "accumulate": not (fires and rng.random() < 0.3),
        "late": rng.choice(("drop", "emit", "reopen")),
        "idle_after": rng.choice((None, None, None, 3 * SECOND)),
    }
    size, slide = seconds(3, 7.000003, 10, 12), seconds(1, 2, 3, 4, 7)
    match rng.choice(("tumbling", "sliding", "cumulate", "session", "gaps", "around", "custom")):
        case "tumbling":
            return Rules(size, size, offset=seconds(0, 1, -0.000001), **options)
        case "sliding":
            late = rng.choice((options["late"], "reopen each"))
            return Rules(size, slide, offset=seconds(0, 1, -3), **{**options, "late": late})
        case "cumulate":
            return CumulativeRules(3 * slide, slide, offset=seconds(0, 1, -3), **options)
        case "session":
            return SessionRules(gap=slide, **options)
        case "gaps":
            return SessionRules(gap=size, gaps=(slide, None, size), **options)
        case "around":
            return AroundRules(before=size, after=seconds(0, 2), **options)
        case _:
            return CustomRules(unit=5 * SECOND, lists=LISTS, **options)


def random_case(rng: random.Random) -> Case:
    rules = random_rules(rng)
    return Case(
        repr(rules),
        rules,
        aggregates=rng.choice(("list", "figures", "figures", "distinct")),
        keys=rng.choice(("of one hash", "plain")),
        restart_after=rng.choice((None, 1, 3, 5)),
        conf=rng.choice(CONF),
    )


@pytest.mark.parametrize("number", range(ROUNDS))
def test_random_queries_fire_as_the_contract_requires_and_leave_no_state(
    spark: SparkSession, tmp_path: Path, number: int
) -> None:
    rng = random.Random(f"{SEED} options {number}")
    size = draw_size(spark, rng)
    for attempt in range(20):
        case = random_case(rng)
        context = f"{case}, {size}, MULLION_SEED={SEED}, round {number}"
        try:
            with CheckedQuery(spark, tmp_path / str(attempt), case) as query:
                # Each key is a case of its own; both partitions have many.
                for at, step in enumerate(steps(rng, case.rules, case.restart_after, number_of_keys=120)):
                    query.context = f"step {at} of {context}"
                    query.perform(step)
                query.finish()
        except UnsupportedError as e:
            print(f"rejected: {case.rules}: {e}")
            continue
        return
    raise AssertionError(f"20 queries in a row were rejected, the last one was {context}")
