"""Chooses what ``make test`` runs of the tests that need Spark: a quarter of each file. The rest is marked slow.

``@pytest.mark.sampled(3)`` on a test with parameters keeps three of its cases instead, ``@pytest.mark.always`` all.
The choice follows from the tests' ids alone: each run has the same tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

import pytest

from tests.support.cache_sizes import name_of


def mark_the_rest_slow(items: Sequence[pytest.Item]) -> None:
    """Marks the tests that ``make test`` leaves to ``make test-all``."""
    cases: dict[str, list[pytest.Item]] = {}
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sampled"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
        elif item.get_closest_marker("spark") and not any(map(item.get_closest_marker, ("slow", "always"))):
            tests.setdefault(item.nodeid.partition("::")[0], []).append(item)
    for of_one in cases.values():
        marker = of_one[0].get_closest_marker("sampled")
        assert marker is not None
        _keep(of_one, *marker.args)
    for of_file in tests.values():
        _keep(of_file, (len(of_file) + 3) // 4)


def _keep(items: Sequence[pytest.Item], count: int) -> None:
    for item in sorted(items, key=lambda item: crc32(name_of(item.nodeid).encode()))[count:]:
        item.add_marker("slow")
