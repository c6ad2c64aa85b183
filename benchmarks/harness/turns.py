"""How a system waits for its turn: it says on a pipe that it stops, and goes on when a line comes in."""

from __future__ import annotations

import os
import sys

# The variable with the number of the pipe.
TURNS = "MULLION_BENCH_TURNS"

# What a process says on it: that it stops, and that it stops before what is not measured any more.
STOPS, MEASURED = b".", b"!"


class Turns:
    """The turns of this process, if it is told to wait for them."""

    def __init__(self) -> None:
        said = os.environ.get(TURNS)
        self.pipe = int(said) if said else None

    def wait(self) -> None:
        self._stop(STOPS)

    def measured(self) -> None:
        """Waits for a turn whose processor time and memory do not count."""
        self._stop(MEASURED)

    def _stop(self, how: bytes) -> None:
        if self.pipe is not None:
            os.write(self.pipe, how)
            sys.stdin.readline()
