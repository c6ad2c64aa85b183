"""Tracebacks of Python workers, which reach the driver as text."""

from __future__ import annotations

import re
from pathlib import Path

from mullion import errors

_HERE = str(Path(errors.__file__).parent)
_FRAME = re.compile(r'^\s+File "(.+)", line (\d+), in .+$')


def raised_in_worker(text: str) -> str | None:
    """What a traceback in a text ends with, and the last line of code in it that is neither PySpark's nor ours."""
    lines = text.splitlines()
    frames = [(index, frame) for index, line in enumerate(lines) if (frame := _FRAME.match(line))]
    if not frames:
        return None
    last = next((line for line in lines[frames[-1][0] + 1 :] if line and not line[0].isspace()), None)
    own = [frame for _, frame in frames if "/pyspark/" not in frame[1] and not frame[1].startswith(_HERE)]
    return f"{last}, at {own[-1][1]}:{own[-1][2]}" if last and own else last
