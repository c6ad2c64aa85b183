"""Random streams compared with the model of the contract: every firing of every batch, and the state at the end.

A random case is a key; hundreds of them share a query, and with it an event clock.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.cache_sizes import draw_size
from tests.support.checked import CHANGELOGS, SESSION_STATE_IN_ROCKSDB, Case, CheckedQuery
from tests.support.models.custom_model import CustomRules
from tests.support.models.model import SECOND, AroundRules, CumulativeRules, Rules
from tests.support.models.random_steps import steps
from tests.support.models.session_model import SessionRules
from tests.support.seeds import SEED

TEN = 10 * SECOND
LISTS = (
    ((0, TEN), (0, 3 * SECOND)),
    ((-SECOND, 2 * SECOND),),
    (),
    ((0, 30 * SECOND), (-9 * SECOND, 1), (0, 30 * SECOND)),
    None,
    ((-20 * SECOND, -SECOND),),
    ((5 * SECOND, 6 * SECOND), (-SECOND, 6 * SECOND), (0, 6 * SECOND), (0, 2 * SECOND)),
)
"""The ranges of custom windows, by the unit of a row's time."""
HOT = "spark.sql.streaming.stateStore.mullion.hotBytes"
# The cache has room for the state of a few keys, so keys enter and leave it between batches.
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", HOT: "40k"}
ROCKSDB_ALONE = {**SESSION_STATE_IN_ROCKSDB, HOT: "0"}
STATE_WITH_CHECKPOINT_IDS = {
    **SESSION_STATE_IN_ROCKSDB,
    CHANGELOGS: "true",
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
}

CASES = [
    Case("tumbling", Rules(TEN, TEN), aggregates="figures"),
    Case(
        "tumbling, offset, lateness, emit, the session's state in rocksdb, restarted",
        Rules(TEN, TEN, offset=3 * SECOND, delay=2 * SECOND, lateness=7 * SECOND, late="emit"),
        conf=SESSION_STATE_IN_ROCKSDB,
        restart_after=5,
    ),
    Case(
        "tumbling, early, lateness, rocksdb alone, restarted",
        Rules(TEN, TEN, delay=5 * SECOND, lateness=SECOND, early=4 * SECOND),
        aggregates="figures",
        conf=ROCKSDB_ALONE,
        restart_after=4,
    ),
    Case(
        "tumbling, early unchanged, lateness, reopen",
        Rules(TEN, TEN, lateness=15 * SECOND, early=6 * SECOND, unchanged=True, late="reopen"),
    ),
    Case(
        "tumbling, early unchanged",
        Rules(TEN, TEN, delay=SECOND, early=3 * SECOND, unchanged=True),
        aggregates="figures",
    ),
    Case(
        "tumbling, reopen, interpreted",
        Rules(TEN, TEN, delay=3 * SECOND, late="reopen"),
        conf=INTERPRETED,
    ),
    Case(
        "tumbling, odd microseconds, emit",
        Rules(7_000_003, 7_000_003, offset=-1, delay=1000, lateness=999, late="emit"),
    ),
    Case(
        "tumbling, early, lateness, emit, memory, restarted",
        Rules(TEN, TEN, delay=2 * SECOND, lateness=4 * SECOND, early=3 * SECOND, late="emit"),
        restart_after=5,
    ),
    Case(
        "sliding, early unchanged, offset, lateness, reopen, memory, restarted",
        Rules(TEN, 3 * SECOND, offset=SECOND, lateness=4 * SECOND, early=3 * SECOND, unchanged=True, late="reopen"),
        aggregates="figures",
        restart_after=4,
    ),
    Case("sliding", Rules(TEN, 2 * SECOND), aggregates="figures"),
    Case(
        "sliding, slide does not divide size, lateness, emit, checkpoint ids, restarted",
        Rules(TEN, 4 * SECOND, delay=3 * SECOND, lateness=5 * SECOND, late="emit"),
        conf=STATE_WITH_CHECKPOINT_IDS,
        restart_after=4,
    ),
    Case(
        "sliding, slide does not divide size, offset, reopen each",
        Rules(TEN, 3 * SECOND, offset=2 * SECOND, delay=SECOND, late="reopen each"),
        aggregates="figures",
    ),
    Case(
        "sliding, early, lateness, update mode, restarted",
        Rules(12 * SECOND, 4 * SECOND, delay=2 * SECOND, lateness=3 * SECOND, early=5 * SECOND),
        output_mode="update",
        restart_after=3,
    ),
    Case(
        "sliding, early unchanged, offset, lateness, reopen, restarted",
        Rules(TEN, 7 * SECOND, offset=SECOND, lateness=4 * SECOND, early=3 * SECOND, unchanged=True, late="reopen"),
        restart_after=6,
    ),
    Case(
        "sliding, early, emit, interpreted",
        Rules(9 * SECOND, 2 * SECOND, offset=-SECOND, early=8 * SECOND, late="emit"),
        aggregates="figures",
        conf=INTERPRETED,
    ),
    Case(
        "gaps, offset, lateness, emit",
        Rules(4 * SECOND, TEN, offset=SECOND, delay=SECOND, lateness=2 * SECOND, late="emit"),
    ),
    Case(
        "gaps, early, reopen",
        Rules(4 * SECOND, 5 * SECOND, delay=4 * SECOND, early=2 * SECOND, late="reopen"),
        aggregates="figures",
    ),
    Case(
        "tumbling, a count, on time, lateness, emit, restarted",
        Rules(TEN, TEN, delay=SECOND, lateness=25 * SECOND, count=3, on_time=True, late="emit"),
        aggregates="figures",
        restart_after=4,
    ),
    Case(
        "tumbling, early unchanged, a count, on time, discarding, reopen, restarted",
        Rules(
            *(TEN, TEN),
            lateness=12 * SECOND,
            early=4 * SECOND,
            unchanged=True,
            count=2,
            on_time=True,
            accumulate=False,
            late="reopen",
        ),
        restart_after=3,
    ),
    Case(
        "sliding, early, a count, on time, lateness, reopen",
        Rules(TEN, 3 * SECOND, lateness=17 * SECOND, early=6 * SECOND, count=4, on_time=True, late="reopen"),
    ),
    Case(
        "sliding, on time, lateness, restarted",
        Rules(TEN, 5 * SECOND, delay=2 * SECOND, lateness=20 * SECOND, on_time=True),
        aggregates="figures",
        restart_after=4,
    ),
    Case(
        "sliding, a count, on time, discarding, emit, restarted",
        Rules(TEN, 4 * SECOND, lateness=15 * SECOND, count=2, on_time=True, accumulate=False, late="emit"),
        restart_after=5,
    ),
    Case(
        "sliding, early, discarding, reopen",
        Rules(12 * SECOND, 4 * SECOND, delay=SECOND, early=3 * SECOND, accumulate=False, late="reopen"),
        aggregates="figures",
    ),
    Case("cumulate", CumulativeRules(12 * SECOND, 3 * SECOND), aggregates="figures"),
    Case(
        "cumulate, offset, lateness, emit, restarted",
        CumulativeRules(TEN, 2 * SECOND, offset=3 * SECOND, delay=2 * SECOND, lateness=5 * SECOND, late="emit"),
        restart_after=4,
    ),
    Case(
        "cumulate, early unchanged, lateness, reopen, rocksdb alone, restarted",
        CumulativeRules(12 * SECOND, 4 * SECOND, lateness=3 * SECOND, early=5 * SECOND, unchanged=True, late="reopen"),
        conf=ROCKSDB_ALONE,
        restart_after=3,
    ),
    Case(
        "cumulate, a count, on time, discarding, reopen each",
        CumulativeRules(
            *(9 * SECOND, 3 * SECOND),
            offset=-SECOND,
            lateness=12 * SECOND,
            count=2,
            on_time=True,
            accumulate=False,
            late="reopen each",
        ),
    ),
    Case(
        "cumulate, empty windows, on time, lateness, restarted",
        CumulativeRules(8 * SECOND, 2 * SECOND, delay=SECOND, lateness=7 * SECOND, on_time=True, empty=True),
        aggregates="figures",
        restart_after=4,
    ),
    Case(
        "cumulate, processing time, restarted",
        CumulativeRules(12 * SECOND, 3 * SECOND, offset=4 * SECOND, processing=True),
        restart_after=3,
    ),
    Case("custom", CustomRules(unit=TEN, lists=LISTS), aggregates="figures"),
    Case(
        "custom, lateness, emit, restarted",
        CustomRules(unit=4 * SECOND, lists=LISTS, delay=3 * SECOND, lateness=5 * SECOND, late="emit"),
        restart_after=4,
    ),
    Case(
        "custom, early, lateness, reopen, update mode, rocksdb alone, restarted",
        CustomRules(unit=6 * SECOND, lists=LISTS, delay=SECOND, lateness=2 * SECOND, early=3 * SECOND, late="reopen"),
        output_mode="update",
        conf=ROCKSDB_ALONE,
        restart_after=3,
    ),
    Case(
        "custom, early unchanged, emit, interpreted",
        CustomRules(unit=5 * SECOND, lists=LISTS, early=4 * SECOND, unchanged=True, late="emit"),
        conf=INTERPRETED,
    ),
    Case(
        "custom, reopen, interpreted",
        CustomRules(unit=5 * SECOND, lists=LISTS, delay=4 * SECOND, late="reopen"),
        aggregates="figures",
        conf=INTERPRETED,
    ),
    Case(
        "custom, on time, early by count, discarding",
        CustomRules(
            unit=8 * SECOND, lists=LISTS, delay=SECOND, lateness=9 * SECOND, count=2, on_time=True, accumulate=False
        ),
    ),
    Case(
        "custom by a function, early, emit, restarted",
        CustomRules(unit=5 * SECOND, lists=LISTS, delay=2 * SECOND, early=5 * SECOND, late="emit", in_python=True),
        restart_after=4,
    ),
    Case(
        "custom, early, reopen, memory, restarted",
        CustomRules(unit=4 * SECOND, lists=LISTS, delay=SECOND, lateness=SECOND, early=3 * SECOND, late="reopen"),
        restart_after=3,
    ),
    Case(
        "custom, idle, early, on time, lateness",
        CustomRules(unit=TEN, lists=LISTS, lateness=4 * SECOND, early=6 * SECOND, on_time=True, idle_after=3 * SECOND),
    ),
    Case(
        "tumbling, processing time, early, a count, restarted",
        Rules(TEN, TEN, processing=True, early=4 * SECOND, count=3),
        aggregates="figures",
        restart_after=3,
    ),
    Case(
        "sliding, processing time, restarted",
        Rules(TEN, 3 * SECOND, offset=SECOND, processing=True),
        restart_after=4,
    ),
    Case(
        "sessions, processing time, discarding, restarted",
        SessionRules(gap=6 * SECOND, processing=True, early=3 * SECOND, accumulate=False),
        restart_after=4,
    ),
    Case(
        "tumbling, idle, early, lateness, emit, restarted",
        Rules(TEN, TEN, delay=SECOND, lateness=4 * SECOND, early=7 * SECOND, late="emit", idle_after=3 * SECOND),
        restart_after=4,
    ),
    Case(
        "sliding, idle, on time, reopen",
        Rules(TEN, 4 * SECOND, lateness=9 * SECOND, on_time=True, late="reopen", idle_after=5 * SECOND),
        aggregates="figures",
    ),
    Case(
        "sessions, idle, restarted",
        SessionRules(gap=5 * SECOND, delay=4 * SECOND, lateness=SECOND, idle_after=4 * SECOND),
        restart_after=2,
    ),
    Case(
        "tumbling, empty windows, lateness, early, emit, restarted",
        Rules(
            TEN, TEN, offset=SECOND, delay=2 * SECOND, lateness=3 * SECOND, early=6 * SECOND, late="emit", empty=True
        ),
        aggregates="figures",
        restart_after=3,
    ),
    Case(
        "sliding, empty windows, on time, reopen",
        Rules(TEN, 4 * SECOND, lateness=8 * SECOND, on_time=True, late="reopen", empty=True),
    ),
    Case(
        "sliding, empty windows, early, a count, on time, discarding, emit, restarted",
        Rules(
            *(TEN, 4 * SECOND),
            delay=SECOND,
            lateness=9 * SECOND,
            early=5 * SECOND,
            count=2,
            on_time=True,
            accumulate=False,
            late="emit",
            empty=True,
        ),
        restart_after=4,
    ),
    Case(
        "sliding, empty windows, a count, discarding, reopen each, offset, restarted",
        Rules(TEN, 3 * SECOND, offset=SECOND, count=3, accumulate=False, late="reopen each", empty=True),
        restart_after=3,
    ),
    Case(
        "gaps, empty windows, processing time, restarted",
        Rules(4 * SECOND, TEN, processing=True, empty=True),
        aggregates="figures",
        restart_after=4,
    ),
    Case(
        "around, emit, restarted",
        AroundRules(before=5 * SECOND, after=2 * SECOND, delay=6 * SECOND, late="emit"),
        restart_after=4,
    ),
    Case(
        "around, nothing before, lateness, reopen",
        AroundRules(before=0, after=4_000_001, delay=3 * SECOND, lateness=2 * SECOND, late="reopen"),
        aggregates="figures",
    ),
    Case(
        "around, early, a count, on time, lateness, reopen, restarted",
        AroundRules(
            before=4 * SECOND,
            after=SECOND,
            delay=2 * SECOND,
            lateness=8 * SECOND,
            early=3 * SECOND,
            count=3,
            on_time=True,
            late="reopen",
        ),
        restart_after=3,
    ),
    Case(
        "around, early unchanged, nothing after, rocksdb alone, restarted",
        AroundRules(before=6 * SECOND, after=0, delay=4 * SECOND, early=5 * SECOND, unchanged=True),
        restart_after=5,
    ),
    Case("sessions", SessionRules(gap=TEN, delay=3 * SECOND), aggregates="figures"),
    Case(
        "sessions, lateness, emit, restarted",
        SessionRules(gap=4 * SECOND, delay=TEN, lateness=7 * SECOND, late="emit"),
        restart_after=4,
    ),
    Case(
        "sessions, early, lateness, emit, memory, restarted",
        SessionRules(gap=5 * SECOND, delay=12 * SECOND, lateness=4 * SECOND, early=4 * SECOND, late="emit"),
        restart_after=5,
    ),
    Case("sessions, reopen, odd microseconds", SessionRules(gap=7_000_003, delay=18 * SECOND, late="reopen")),
    Case(
        "sessions, early, lateness, emit, rocksdb alone, restarted",
        SessionRules(gap=5 * SECOND, delay=15 * SECOND, lateness=3 * SECOND, early=4 * SECOND, late="emit"),
        conf=ROCKSDB_ALONE,
        restart_after=3,
    ),
    Case(
        "sessions, early unchanged, reopen, restarted",
        SessionRules(gap=6 * SECOND, delay=14 * SECOND, early=3 * SECOND, unchanged=True, late="reopen"),
        aggregates="figures",
        restart_after=5,
    ),
    Case(
        "sessions, early, update mode, interpreted",
        SessionRules(gap=8 * SECOND, delay=25 * SECOND, early=5 * SECOND),
        output_mode="update",
        conf=INTERPRETED,
    ),
    Case(
        "sessions, early, a count, on time, lateness, reopen, restarted",
        SessionRules(
            gap=5 * SECOND, delay=TEN, lateness=20 * SECOND, early=6 * SECOND, count=3, on_time=True, late="reopen"
        ),
        restart_after=4,
    ),
    Case(
        "sessions, early unchanged, a count, on time, discarding, emit",
        SessionRules(
            gap=6 * SECOND,
            delay=5 * SECOND,
            lateness=15 * SECOND,
            early=4 * SECOND,
            unchanged=True,
            count=2,
            on_time=True,
            accumulate=False,
            late="emit",
        ),
        aggregates="figures",
    ),
    Case(
        "sessions, a gap per row, early, emit, checkpoint ids",
        SessionRules(
            gap=TEN,
            gaps=(TEN, 1, None, 4 * SECOND, 15 * SECOND, 0, SECOND, 6_000_001, -SECOND, TEN),
            delay=30 * SECOND,
            lateness=SECOND,
            early=6 * SECOND,
            late="emit",
        ),
        conf=STATE_WITH_CHECKPOINT_IDS,
    ),
    Case(
        "tumbling, distinct values, early, lateness, emit, restarted",
        Rules(TEN, TEN, delay=2 * SECOND, lateness=4 * SECOND, early=3 * SECOND, late="emit"),
        aggregates="distinct",
        restart_after=5,
    ),
    Case(
        "tumbling, distinct values, early unchanged, a count, on time, discarding, reopen, rocksdb alone, restarted",
        Rules(
            *(TEN, TEN),
            lateness=12 * SECOND,
            early=4 * SECOND,
            unchanged=True,
            count=2,
            on_time=True,
            accumulate=False,
            late="reopen",
        ),
        aggregates="distinct",
        conf=ROCKSDB_ALONE,
        restart_after=3,
    ),
    Case(
        "sliding, distinct values, early, lateness, restarted",
        Rules(TEN, 3 * SECOND, delay=2 * SECOND, lateness=3 * SECOND, early=5 * SECOND),
        aggregates="distinct",
        restart_after=3,
    ),
    Case(
        "sliding, distinct values, a count, discarding, reopen each, rocksdb alone",
        Rules(TEN, 4 * SECOND, lateness=SECOND, count=3, accumulate=False, late="reopen each"),
        aggregates="distinct",
        conf=ROCKSDB_ALONE,
    ),
    Case(
        "sessions, distinct values, early, lateness, reopen, restarted",
        SessionRules(gap=6 * SECOND, delay=12 * SECOND, lateness=2 * SECOND, early=4 * SECOND, late="reopen"),
        aggregates="distinct",
        restart_after=4,
    ),
    Case(
        "custom, distinct values, early, emit",
        CustomRules(unit=5 * SECOND, lists=LISTS, delay=3 * SECOND, early=4 * SECOND, late="emit"),
        aggregates="distinct",
    ),
    Case(
        "around, distinct values, lateness",
        AroundRules(before=5 * SECOND, after=2 * SECOND, delay=6 * SECOND, lateness=SECOND),
        aggregates="distinct",
    ),
]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_random_stream_fires_as_the_contract_requires_and_leaves_no_state(
    spark: SparkSession, tmp_path: Path, case: Case
) -> None:
    rng = random.Random(f"{SEED} {case.name}")
    size = draw_size(spark, rng)
    with CheckedQuery(spark, tmp_path, case) as query:
        for number, step in enumerate(steps(rng, case.rules, case.restart_after)):
            query.context = f"{case.name}, {size}, step {number}, MULLION_SEED={SEED}"
            query.perform(step)
        query.finish()
