"""The failure of a query as a Mullion error: raised on the driver, in the JVM or in a Python worker."""

from __future__ import annotations

import re
from typing import Any

from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql.streaming.query import StreamingQuery

from mullion import errors
from mullion._bridge import jvm
from mullion._util.tracebacks import lost_data, raised_in_worker, root_cause
from mullion.errors import MullionError, QueryFailedError, TaskFailedError, UnsupportedError

# A worker's error reaches the driver as the text of its traceback.
_RAISED = re.compile(r"^mullion\.errors\.(\w+): (.*)$", re.MULTILINE)
# The error of a stream of a topic, in Spark's text.
_WIDER = re.compile(r"\[USER_RAISED_EXCEPTION\] (Topic '[^\n]*?) SQLSTATE")


def failure_of(job: str, query: StreamingQuery, raised: BaseException | None) -> Exception | None:
    """The error of a query that ended, or ``None`` if it was stopped or finished."""
    query_error: Any = query.exception()
    if query_error is None:
        return None
    if isinstance(raised, MullionError):
        return raised
    if isinstance(query_error, MullionError) and not isinstance(query_error, TaskFailedError):
        return query_error
    text = (query_error.jvm_trace if isinstance(query_error, MullionError) else None) or str(query_error)
    ours = _RAISED.findall(text)
    if ours:
        kind, message = ours[-1]
        error = getattr(errors, kind)(message)
        assert isinstance(error, MullionError)
        return jvm.traced(error, query_error)
    wider = _WIDER.search(text)
    if wider:
        return jvm.traced(UnsupportedError(wider[1]), query_error)
    # An error of Spark or py4j only provides the trace, not a cause for readers of Python.
    own = None if isinstance(raised, (CapturedException, jvm.BridgeError)) else raised
    root = root_cause(text)
    reason = raised_in_worker(root)
    if reason is None and own is not None:
        reason = f"{type(own).__name__}: {own}"
    elif reason is None and isinstance(query_error, TaskFailedError):
        # Its message has the fix as well.
        return jvm.traced(QueryFailedError(f"{job!r} failed. {query_error}"), query_error)
    reason = reason or lost_data(root) or root
    failed = QueryFailedError(f"{job!r} failed. Run it again: with a checkpoint it continues from there. {reason}")
    if own is not None:
        failed.__cause__ = own
    return jvm.traced(failed, query_error)
