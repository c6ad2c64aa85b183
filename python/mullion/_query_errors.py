"""How a query over windows fails by an error that is not Mullion's, whichever way Spark tells of it."""

from __future__ import annotations

import re
from typing import Final

from mullion._tracebacks import raised_in_worker
from mullion.errors import TaskFailedError

OPERATOR: Final = "WindowedAggregate"
"""The name of Mullion's node in a plan."""
_SEVERAL: Final = "WindowsTogether"
FAILED_QUERY: Final = "org.apache.spark.sql.streaming.StreamingQueryException"
FAILED_TASK: Final = "org.apache.spark.executor.Executor$TaskRunner"
"""What runs a task: it is in the trace of what a task failed by."""


def is_of_windows(plan: str) -> bool:
    """Whether a plan, as text, has windows of Mullion's."""
    return OPERATOR in plan or _SEVERAL in plan


def task_failure(message: str) -> TaskFailedError:
    """Why a task failed, in a line of the message of what it failed by."""
    line = raised_in_worker(message) or next(iter(message.strip().splitlines()), "")
    line = re.sub(r"\s*SQLSTATE: \w+\s*$", "", line).rstrip(".")
    return TaskFailedError(
        f"A task of the query failed: {line}. Nothing of its batch was kept, and the query goes on from its checkpoint "
        "once that is mended."
    )
