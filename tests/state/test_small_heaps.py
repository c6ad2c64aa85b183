"""Large state, keys and batches in small heaps: nothing runs out of memory, and nothing is lost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.killing import environment

QUICK = "a_batch_of_large_keys_in_many_tasks"
EXPECTED = {
    "small_batches_of_large_keys": {"open": 10_000},
    "keys_of_any_size": {"open": 30_000},
    "large_values": {"open": 600},
    "a_restart_of_many_tasks": {"open": 32_000, "batches": 1},
    QUICK: {"open": 500},
    "a_large_batch_of_late_rows": {"late": 3_000_000},
    "a_pane_of_many_rows_in_python": {"rows": 10_000_000, "ordered": True, "worker within 500 MB": True},
    "many_small_batches": {"grew by MB": 0, "left behind MB": 0},
    "a_window_of_many_keys_that_closes_at_once": {"closed": 1_000_000},
}


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[] if case == QUICK else pytest.mark.slow) for case in EXPECTED]
)
def test_a_heap_that_is_small_compared_with_the_state_is_enough(case: str, tmp_path: Path) -> None:
    script = Path(__file__).parents[1] / "support" / "campaigns" / "small_heaps.py"
    command = [sys.executable, str(script), case, str(tmp_path)]
    # With the compiler and the collector that a user's JVM has.
    env = {name: value for name, value in environment().items() if name != "SPARK_SUBMIT_OPTS"}
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1]) == EXPECTED[case]
