"""Some of many tests, other ones in each run; the rest are of ``make test-all``.

``@pytest.mark.sampled(3)`` on a test with parameters keeps three of its cases and marks the others slow.
``pytestmark = pytest.mark.halved`` in a file keeps half of its tests that need Spark.
``MULLION_TEST_SAMPLE``, which the run prints, gives the same sample again.
"""

from __future__ import annotations

import os
import random
from collections.abc import Collection, Sequence

import pytest


def sample(many: int, some: int) -> Collection[int]:
    """The numbers of those that this run has."""
    return set(random.Random(os.environ["MULLION_TEST_SAMPLE"]).sample(range(many), min(some, many)))


def mark_the_rest_slow(items: Sequence[pytest.Item]) -> None:
    """Marks what this run leaves out: cases of tests that are sampled, and tests of files that are halved."""
    cases: dict[str, list[pytest.Item]] = {}
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sampled"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
        elif item.get_closest_marker("slow"):
            continue
        elif item.get_closest_marker("halved") and item.get_closest_marker("spark"):
            tests.setdefault(item.nodeid.partition("::")[0], []).append(item)
    for of_one in cases.values():
        marker = of_one[0].get_closest_marker("sampled")
        assert marker is not None
        _keep(of_one, *marker.args)
    for of_file in tests.values():
        _keep(of_file, (len(of_file) + 1) // 2)


def _keep(items: Sequence[pytest.Item], some: int) -> None:
    chosen = sample(len(items), some)
    for number, item in enumerate(items):
        if number not in chosen:
            item.add_marker("slow")
