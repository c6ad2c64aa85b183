"""The turns of a system: it writes to a pipe that it waits, and resumes when it reads a line."""

from __future__ import annotations

import os
import sys

# The environment variable with the number of the pipe.
TURNS = "MULLION_BENCH_TURNS"

# The messages of a process: it waits, or it waits and its later work is not to be measured.
WAITING, MEASURED = b".", b"!"


class Turns:
    """The turns of this process. Without the environment variable it never waits."""

    def __init__(self) -> None:
        pipe = os.environ.get(TURNS)
        self.pipe = int(pipe) if pipe else None

    def wait(self) -> None:
        self._pause(WAITING)

    def measured(self) -> None:
        """Waits for a turn whose processor time and memory are not measured."""
        self._pause(MEASURED)

    def _pause(self, message: bytes) -> None:
        if self.pipe is not None:
            os.write(self.pipe, message)
            sys.stdin.readline()
