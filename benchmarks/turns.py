"""How a contender waits for its turn: it says on a pipe that it stops, and goes on when a line comes in."""

from __future__ import annotations

import os
import sys
import time

# The variable with the number of the pipe.
TURNS = "MULLION_BENCH_TURNS"


class Turns:
    """The turns of this process, if it is told to wait for them, and how long it waited after each batch."""

    def __init__(self) -> None:
        said = os.environ.get(TURNS)
        self.pipe = int(said) if said else None
        self.seconds: dict[int, float] = {}

    def wait(self) -> None:
        if self.pipe is not None:
            os.write(self.pipe, b".")
            sys.stdin.readline()

    def batch_over(self, batch: int) -> None:
        """Waits for the turn to go on to the next batch."""
        began = time.perf_counter()
        self.wait()
        self.seconds[batch] = self.seconds.get(batch, 0.0) + time.perf_counter() - began
