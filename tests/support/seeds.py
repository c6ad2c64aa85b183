"""The seed of all random tests, the same in each run unless the environment has another.

A test that fails prints its seed, and ``MULLION_SEED=`` repeats it. The nightly workflow sets a new one.
"""

from __future__ import annotations

import os
from typing import Final

# Processes that tests start inherit it.
SEED: Final = int(os.environ.setdefault("MULLION_SEED", "2026"))
