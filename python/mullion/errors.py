"""Every error that Mullion raises, in Python or from the JVM.

A message names the value, the cause and the fix. The traceback ends at the call of yours that was refused; what the JVM
says is in ``jvm_trace``.
"""

from __future__ import annotations

from pyspark.errors import StreamingQueryException


class MullionError(Exception):
    """The base of Mullion's errors.

    - ``condition``: the kind of error in one word, the same in Scala and Python.
    - ``jvm_trace``: the JVM's stack trace if the error began there, otherwise ``None``.
    """

    condition: str = "ERROR"
    jvm_trace: str | None = None


class InvalidArgumentError(MullionError, ValueError):
    """An argument that cannot be right, whatever the data."""

    condition = "INVALID_ARGUMENT"


class WrongCallError(InvalidArgumentError, TypeError):
    """A call without an argument that it needs, or with one that it does not know."""


class NotAggregatedError(InvalidArgumentError, AttributeError):
    """The result of ``windowed(...)`` was used as a DataFrame before ``.agg(...)`` said what its panes hold."""


class UnknownColumnError(InvalidArgumentError):
    """A column that the input does not have."""

    condition = "UNKNOWN_COLUMN"


class UnsupportedError(MullionError):
    """A sensible request that Mullion, or Spark, cannot serve."""

    condition = "UNSUPPORTED"


class IncompatibleStateError(MullionError):
    """A checkpoint that another query wrote, with other windows, keys or aggregates. Nothing was overwritten."""

    condition = "INCOMPATIBLE_STATE"


class DamagedStateError(MullionError):
    """Files of a checkpoint that are cut short or missing. The message names the file. Nothing was written."""

    condition = "DAMAGED_STATE"


class StateLostError(MullionError):
    """State in memory that is gone. :func:`mullion.recover` takes the query back to its newest snapshot."""

    condition = "STATE_LOST"


class QueryFailedError(MullionError):
    """A query of a program failed by an error that is not Mullion's.

    An error that was raised in this process is its ``__cause__``. For an error in a worker, the message has its text.
    """

    condition = "QUERY_FAILED"


class TaskFailedError(QueryFailedError, StreamingQueryException):
    """A task of a query over windows failed by an error that is not Mullion's, such as an overflow of a sum.

    The message has the error in one line. This is also a ``StreamingQueryException``, for code that catches Spark's
    error.
    """


class FunctionError(MullionError):
    """A function of yours raised an error, or returned something that it may not return.

    The message has the file and the line. Nothing of the batch was kept. The query goes on from its checkpoint once you
    have mended the function.
    """

    condition = "FUNCTION_FAILED"


class AgentError(MullionError):
    """An agent of a :mod:`mullion.faust` program failed. The message has the event and the line.

    If the agent ran in this process, the error that it raised is the ``__cause__``.
    """

    condition = "AGENT_FAILED"


class WindowInputError(MullionError):
    """``process`` of a Turbine program gave a window rows of other types than the window has. Nothing was kept of them.

    The first rows decide the types. A query that has committed nothing starts again by itself with their types.
    """

    condition = "WINDOW_INPUT"


class NewWindowsError(MullionError):
    """A program created a window that its query has no operator for. The query starts again by itself, with one."""

    condition = "NEW_WINDOWS"


class WrongShardError(MullionError):
    """An event used a table under a key that belongs to another shard. Totals would have come out in pieces.

    Nothing of the batch was kept. The message names the table, the key, the agent and the fix.
    """

    condition = "WRONG_SHARD"


class DroppedRowsWarning(UserWarning):
    """A Spark operator before a window drops rows by the watermark, so the window never sees them."""


class VersionMismatchError(MullionError):
    """The JAR, the Python package and Spark do not belong together."""

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
