"""Why a query failed, as one of Mullion's errors: what was raised on the driver, in the JVM or in a Python worker."""

from __future__ import annotations

import re
from pathlib import Path

from pyspark.sql.streaming.query import StreamingQuery

from mullion import errors
from mullion.errors import MullionError, QueryFailedError, UnsupportedError

_HERE = str(Path(errors.__file__).parent)

# A worker's error reaches the driver as the text of its traceback.
_RAISED = re.compile(r"^mullion\.errors\.(\w+): (.*)$", re.MULTILINE)
# What a stream of a topic raises, as text of Spark's.
_WIDER = re.compile(r"\[USER_RAISED_EXCEPTION\] (Topic '[^\n]*?) SQLSTATE")
_FRAME = re.compile(r'^\s+File "(.+)", line (\d+), in .+$')


def failure_of(job: str, query: StreamingQuery, raised: BaseException | None) -> Exception | None:
    """The error of a query that ended, or ``None`` if it was stopped or came to its end."""
    theirs = query.exception()
    if theirs is None:
        return None
    if isinstance(raised, MullionError):
        return raised
    if isinstance(theirs, MullionError):
        return theirs
    text = str(theirs)
    ours = _RAISED.findall(text)
    if ours:
        kind, message = ours[-1]
        error = getattr(errors, kind)(message)
        assert isinstance(error, MullionError)
        error.__cause__ = theirs
        return error
    wider = _WIDER.search(text)
    if wider:
        changed = UnsupportedError(wider[1])
        changed.__cause__ = theirs
        return changed
    reason = raised_in_worker(text) or (f"{type(raised).__name__}: {raised}" if raised is not None else text)
    failed = QueryFailedError(f"{job!r} failed, and goes on from its checkpoint when it is run again. {reason}")
    failed.__cause__ = raised or theirs
    return failed


def raised_in_worker(text: str) -> str | None:
    """What a traceback in a text ends with, and the last line of code in it that is neither PySpark's nor ours."""
    lines = text.splitlines()
    frames = [(index, frame) for index, line in enumerate(lines) if (frame := _FRAME.match(line))]
    if not frames:
        return None
    last = next((line for line in lines[frames[-1][0] + 1 :] if line and not line[0].isspace()), None)
    own = [frame for _, frame in frames if "/pyspark/" not in frame[1] and not frame[1].startswith(_HERE)]
    return f"{last}, at {own[-1][1]}:{own[-1][2]}" if last and own else last
