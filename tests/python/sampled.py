"""Some of many cases, other ones in each run; the rest are of ``make test-all``."""

from __future__ import annotations

import os
import random
from collections.abc import Collection


def sample(many: int, some: int) -> Collection[int]:
    """The numbers of those that this run has. ``MULLION_TEST_SAMPLE``, which the run prints, gives the same again."""
    return set(random.Random(os.environ["MULLION_TEST_SAMPLE"]).sample(range(many), min(some, many)))
