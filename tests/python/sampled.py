"""What a run takes of the tests that need Spark: a quarter of each file, others each time; the rest is slow.

``@pytest.mark.sampled(3)`` on a test with parameters keeps three of its cases instead, ``@pytest.mark.whole`` all.
``MULLION_TEST_SAMPLE``, which the run prints, gives the same sample again.
"""

from __future__ import annotations

import os
import random
from collections.abc import Collection, Sequence

import pytest

# Workers have the environment of the process that starts them.
SAMPLE = int(os.environ.setdefault("MULLION_TEST_SAMPLE", str(random.randrange(10**6))))


def sample(many: int, some: int) -> Collection[int]:
    """The numbers of those that this run has."""
    return set(random.Random(SAMPLE).sample(range(many), min(some, many)))


def mark_the_rest_slow(items: Sequence[pytest.Item]) -> None:
    """Marks what this run leaves out."""
    cases: dict[str, list[pytest.Item]] = {}
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sampled"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
        elif item.get_closest_marker("spark") and not any(map(item.get_closest_marker, ("slow", "whole"))):
            tests.setdefault(item.nodeid.partition("::")[0], []).append(item)
    for of_one in cases.values():
        marker = of_one[0].get_closest_marker("sampled")
        assert marker is not None
        _keep(of_one, *marker.args)
    for of_file in tests.values():
        _keep(of_file, (len(of_file) + 3) // 4)


def _keep(items: Sequence[pytest.Item], some: int) -> None:
    chosen = sample(len(items), some)
    for number, item in enumerate(items):
        if number not in chosen:
            item.add_marker("slow")
