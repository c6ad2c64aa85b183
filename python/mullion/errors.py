"""Every error that Mullion raises, in Python or from the JVM.

A message names the value, the cause and the fix. Its traceback is the user's own lines down to the call that is
refused: what the JVM and the bridge to it have to say stands in ``jvm_trace``.
"""

from __future__ import annotations

from pyspark.errors import StreamingQueryException


class MullionError(Exception):
    """The base of Mullion's errors.

    - ``condition``: the kind of error in one word, the same in Scala and Python.
    - ``jvm_trace``: the JVM's stack trace, where the error began there; else ``None``.
    """

    condition: str = "ERROR"
    jvm_trace: str | None = None


class InvalidArgumentError(MullionError, ValueError):
    """A parameter that cannot be right, whatever the data."""

    condition = "INVALID_ARGUMENT"


class WrongCallError(InvalidArgumentError, TypeError):
    """A call without an argument that it needs, or with one that it does not know."""


class NotAggregatedError(InvalidArgumentError, AttributeError):
    """What ``windowed(...)`` gives was used as a DataFrame, before ``.agg(...)`` said what its panes hold."""


class UnknownColumnError(InvalidArgumentError):
    """A column that the input does not have."""

    condition = "UNKNOWN_COLUMN"


class UnsupportedError(MullionError):
    """A sensible request that Mullion, or Spark, cannot serve."""

    condition = "UNSUPPORTED"


class IncompatibleStateError(MullionError):
    """A checkpoint whose state another query wrote: other windows, keys or aggregates. Nothing was overwritten."""

    condition = "INCOMPATIBLE_STATE"


class DamagedStateError(MullionError):
    """Files of a checkpoint that are cut short, or gone. The message names the file; nothing was written."""

    condition = "DAMAGED_STATE"


class StateLostError(MullionError):
    """State that was in memory and is gone. :func:`mullion.recover` takes the query back to its newest snapshot."""

    condition = "STATE_LOST"


class QueryFailedError(MullionError):
    """A query of a program that failed, by an error that is not Mullion's.

    One that was raised in this process is its ``__cause__``; the message says what one in a worker was.
    """

    condition = "QUERY_FAILED"


class TaskFailedError(QueryFailedError, StreamingQueryException):
    """A query over windows of which a task failed by an error that is not Mullion's, such as an overflow of a sum.

    The message says by what, in a line. It is also what Spark raises of queries that fail, for those who catch that.
    """


class FunctionError(MullionError):
    """A function that was passed to Mullion raised an error, or returned what it may not.

    The message says file and line. Nothing of the batch was kept: the query goes on from its checkpoint once the
    function is mended.
    """

    condition = "FUNCTION_FAILED"


class AgentError(MullionError):
    """An agent of a :mod:`mullion.faust` program failed. The message names the event and the line.

    Where the agent ran in this process the error that it raised is the ``__cause__``.
    """

    condition = "AGENT_FAILED"


class WindowInputError(MullionError):
    """What ``process`` of a Turbine program gives a window is not of the window's types. Nothing of the batch was kept.

    The first rows say what the types are: a query that has committed nothing starts again by itself with these.
    """

    condition = "WINDOW_INPUT"


class NewWindowsError(MullionError):
    """A program made windows from data that its query has no operator for. It starts again by itself, with one."""

    condition = "NEW_WINDOWS"


class WrongShardError(MullionError):
    """A table of a program was used by an event of another shard than its key's: totals would have come in pieces.

    Nothing of the batch was kept. The message names the table, the key, the agent and the fix.
    """

    condition = "WRONG_SHARD"


class DroppedRowsWarning(UserWarning):
    """An operator of Spark's before a window drops rows by the watermark, so that the window knows nothing of them."""


class VersionMismatchError(MullionError):
    """A JAR, a Python package and a Spark that do not belong together."""

    condition = "VERSION_MISMATCH"


_BY_CONDITION: dict[str, type[MullionError]] = {
    kind.condition: kind
    for kind in (
        InvalidArgumentError,
        UnknownColumnError,
        UnsupportedError,
        IncompatibleStateError,
        DamagedStateError,
        StateLostError,
        QueryFailedError,
        FunctionError,
        AgentError,
        WindowInputError,
        NewWindowsError,
        WrongShardError,
        VersionMismatchError,
    )
}


def error_of(condition: str, message: str) -> MullionError:
    """The error for a condition that the JVM reports; a condition this version does not know keeps its word."""
    error = _BY_CONDITION.get(condition, MullionError)(message)
    error.condition = condition
    return error
