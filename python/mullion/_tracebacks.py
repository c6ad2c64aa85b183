"""Tracebacks of Python workers, which reach the driver as text."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from mullion import errors

_HERE = str(Path(errors.__file__).parent)
_FRAME = re.compile(r'^\s+File "(.+)", line (\d+), in .+$')
_THEIRS = re.compile(r"/(pyspark|py4j)/")
_NO_MULLION = re.compile(r"ModuleNotFoundError: No module named 'mullion\b")


def raised_in_worker(text: str) -> str | None:
    """The last line of a traceback in a text, and the last line of user code in it.

    A worker that cannot import Mullion has a special message: its Python is not that of the program.
    """
    lines = text.splitlines()
    frames = [(index, frame) for index, line in enumerate(lines) if (frame := _FRAME.match(line))]
    if not frames:
        return None
    last = next((line for line in lines[frames[-1][0] + 1 :] if line and not line[0].isspace()), None)
    if last is not None and _NO_MULLION.search(last):
        return (
            f"{last}: Spark starts its workers with a Python that Mullion is not installed for. Set PYSPARK_PYTHON "
            f"to one that has it, such as {sys.executable}, before the session starts."
        )
    own = [frame for _, frame in frames if not _THEIRS.search(frame[1]) and not frame[1].startswith(_HERE)]
    return f"{last}, at {own[-1][1]}:{own[-1][2]}" if last and own else last
