"""Some of many cases, other ones in each run; the rest are of ``make test-all``."""

from __future__ import annotations

import os
import random
from collections.abc import Collection, Sequence
from typing import Any

import pytest


def sample(many: int, some: int) -> Collection[int]:
    """The numbers of those that this run has. ``MULLION_TEST_SAMPLE``, which the run prints, gives the same again."""
    return set(random.Random(os.environ["MULLION_TEST_SAMPLE"]).sample(range(many), min(some, many)))


def some_of(cases: Sequence[Sequence[Any]], some: int) -> list[Any]:
    """Parameters of a test, by case: all of them, those that this run leaves out marked as slow."""
    chosen = sample(len(cases), some)
    return [
        pytest.param(*case, marks=() if number in chosen else pytest.mark.slow) for number, case in enumerate(cases)
    ]
