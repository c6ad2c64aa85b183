"""Some of many cases, other ones in each run; the rest are of ``make test-all``.

``@pytest.mark.sampled(3)`` on a test with parameters keeps three of its cases and marks the others slow.
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
    """Of each test that is marked as sampled, marks the cases slow that this run leaves out."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sampled"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for of_one in cases.values():
        marker = of_one[0].get_closest_marker("sampled")
        assert marker is not None
        chosen = sample(len(of_one), *marker.args)
        for number, item in enumerate(of_one):
            if number not in chosen:
                item.add_marker("slow")
