"""Conversions of Spark's errors in queries with windows."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from mullion._util.tracebacks import exited_worker, in_one_line, last_raised, root_cause
from mullion.errors import FunctionError, IncompatibleStateError, QueryFailedError, TaskFailedError

OPERATOR: Final = "WindowedAggregate"
"""The name of Mullion's node in a plan."""
_SEVERAL: Final = "WindowsTogether"
FAILED_QUERY: Final = "org.apache.spark.sql.streaming.StreamingQueryException"
FAILED_TASK: Final = "org.apache.spark.executor.Executor$TaskRunner"
"""The class that runs a task. It is in the stack trace of a failed task."""


_OTHER_OPERATORS: Final = re.compile(
    r"STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA"
    r".*in the metadata: (.*); .* in current batch: (.*mullion.*)",
    re.S,
)
_OPERATOR_NAME: Final = re.compile(r"OperatorName: (\w+)")
_SPARKS_WINDOWS: Final = {"stateStoreSave", "sessionWindowStateStoreSaveExec"}
NO_FUNCTION: Final = "no function of the user"
"""The name in plans of a function that calls none of the user's."""
FUNCTION_FAILED: Final = "[FUNCTION_FAILED] "
"""The beginning of the message of an error that a worker without this package raises for a user's function."""
_FUNCTION_ERROR: Final = re.compile(
    rf"^(?:\w+: {re.escape(FUNCTION_FAILED)}|{FunctionError.__module__}\.{FunctionError.__name__}: )(.*)$", re.M
)


_FUNCTIONS: Final = re.compile(
    r"\b(?:MapInArrow|(?:Arrow|Batch)EvalPython)(?: (?!\()|\b.*\n(?:Input.*\n)?Arguments: )\[?(.+?)\("
    r"|\bKeyedFunction (.+?), (?:by \[|in one shard)"
    # The function of custom windows.
    r"|\bby the function (.+?), (?:by \[|on event time|closes |in order of arrival)"
    # The UDF that computes the result of a PythonAggregate.
    r"|\b(\w+)\((?:if \(isnull\(\4\(.*?)?named_struct\(accumulators, \4\("
)
"""Python functions in the text of a logical plan, or of a physical one in each mode of ``spark.sql.ui.explainMode``."""
_OF_PANES: Final = re.compile(r"_mullion_|\bnamed_struct\(accumulators, |\bAssignRanges\b|\bArrivalBatch\b")
"""The rows of panes, accumulators, or custom windows in a physical plan."""


def is_of_windows(plan: str) -> bool:
    """True if the text of a plan has windows of Mullion."""
    return OPERATOR in plan or _SEVERAL in plan


def task_failure(message: str, plan: str) -> TaskFailedError:
    """The error of a failed task of a query with the logical plan ``plan``, with its cause in one line."""
    cause = root_cause(message)
    name = exited_worker(cause)
    failure = f"A task of the query failed: {in_one_line(cause)}" if name is None else _exit_text(name, plan)
    return TaskFailedError(_not_kept(failure, "that"))


def exit_of_action(message: str, physical_plan: Callable[[], str]) -> QueryFailedError | None:
    """The error of an action on a batch DataFrame with windows whose worker ended; ``None`` for other messages."""
    name = exited_worker(message)
    if name is None:
        return None
    plan = "" if name else physical_plan()
    if not name and _OF_PANES.search(plan) is None:
        return None
    return QueryFailedError(f"{_exit_text(name, plan)}. Fix that, and run the query again.")


def _exit_text(function: str, plan: str) -> str:
    """The end of a worker that ran ``function``, or one of those in the plan."""
    of_plan = (str(match[match.lastindex or 0]) for match in _FUNCTIONS.finditer(plan))
    names = function or " or ".join(dict.fromkeys(name for name in of_plan if name != NO_FUNCTION))
    return (
        f"A Python worker of the query ended unexpectedly{' while it ran ' if names else ''}{names}: its process "
        "called os._exit(), crashed in native code, or was killed, for example for lack of memory"
    )


def foreach_batch_failure(message: str, plan: str) -> TaskFailedError:
    """The error of a failed function of ``foreachBatch``, from the text of its traceback."""
    if FAILED_TASK in last_raised(message):
        return task_failure(message, plan)
    cause = in_one_line(root_cause(message))
    return TaskFailedError(
        f"The function of foreachBatch failed: {cause}. The state of its batch was not kept: the query runs the batch "
        "again, from its checkpoint, once that is fixed."
    )


def function_failure(message: str) -> FunctionError | None:
    """The error of a user's function in the traceback of a worker, or ``None``."""
    match = _FUNCTION_ERROR.search(message)
    if match is None:
        return None
    reason = match[1].rstrip(".")
    if reason.partition(" ")[0].isalpha():
        # A word, and not the name of the user's function or operator.
        reason = reason[:1].upper() + reason[1:]
    return FunctionError(_not_kept(reason, "the function"))


def _not_kept(reason: str, cause: str) -> str:
    return (
        f"{reason}. Nothing of the batch was kept. Fix {cause} and run the query again: with a checkpoint it continues "
        "from there."
    )


def other_operators(message: str) -> IncompatibleStateError | None:
    """The error of a query of windows over a checkpoint of Spark's operators, or ``None``."""
    match = _OTHER_OPERATORS.search(message)
    if match is None:
        return None
    before, now = (sorted(set(_OPERATOR_NAME.findall(text))) for text in match.groups())
    has_sparks_windows = not _SPARKS_WINDOWS.isdisjoint(before)
    whose = "Spark's own windows" if has_sparks_windows else "other operators"
    fix = (
        "To continue with the open windows, call mullion.savepoint(checkpoint, to, spark_query=..., panes=...), and "
        "start the query from that; or start it with a new checkpointLocation."
        if has_sparks_windows
        else "Start the query with a new checkpointLocation, or change it back."
    )
    return IncompatibleStateError(
        f"The checkpoint holds state of {whose} ({', '.join(before)}), and this query has the operators "
        f"{', '.join(now)}. {fix} No batch was run."
    )
