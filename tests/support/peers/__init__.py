"""Other systems that compute windows and joins: scripts that run in environments of their own, and their callers."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from harness.environments import SYSTEMS, Unavailable

SCRIPTS = Path(__file__).parent


class Window(NamedTuple):
    """A closed window: its key, its bounds in seconds, and the number, the sum and the sum of squares of its ids."""

    key: str
    start: int
    end: int
    rows: int
    ids: int
    squares: int


def ask(system: str, script: str, cases: Sequence[dict[str, Any]]) -> list[list[Window]]:
    """The windows of each case. A case has ``rows`` (id, key, seconds), a ``kind``, and the lengths of its windows in
    seconds.
    """
    answers = answers_of(system, script, cases)
    return [sorted(Window(*window) for window in case) for case in answers]


def answers_of(system: str, script: str, cases: Sequence[dict[str, Any]]) -> list[list[list[Any]]]:
    """The rows that a script of this folder computes for each case. Skips the test if the system does not install."""
    try:
        python = SYSTEMS[system].python()
    except Unavailable as failure:
        pytest.skip(str(failure))
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SPARK"))}
    done = subprocess.run(
        [str(python), str(SCRIPTS / script)],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        check=False,
        env=variables,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    answers: list[list[list[Any]]] = json.loads(done.stdout.splitlines()[-1])
    return answers


def window_of(key: str, start: int, end: int, ids: Sequence[int]) -> Window:
    return Window(key, start, end, len(ids), sum(ids), sum(i * i for i in ids))
