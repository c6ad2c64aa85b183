"""Why a query failed, as one of Mullion's errors: what was raised on the driver, in the JVM or in a Python worker."""

from __future__ import annotations

import re

from pyspark.sql.streaming.query import StreamingQuery

from mullion import errors
from mullion.errors import MullionError, QueryFailedError

# A worker's error reaches the driver as the text of its traceback.
_RAISED = re.compile(r"^mullion\.errors\.(\w+): (.*)$", re.MULTILINE)
_OTHER = re.compile(r"^(?:[\w.]+\.)?(\w+(?:Error|Exception|Exit|Interrupt))(?:: (.*))?$", re.MULTILINE)


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
    reason = f"{type(raised).__name__}: {raised}" if raised is not None else text
    failed = QueryFailedError(f"{job!r} failed, and goes on from its checkpoint when it is run again. {reason}")
    failed.__cause__ = raised or theirs
    return failed
