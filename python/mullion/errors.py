"""All errors of Mullion, in Python or from the JVM.

A message names the value, the cause and the fix. The traceback ends at your call; ``jvm_trace`` has the JVM's stack
trace.
"""

from __future__ import annotations

from pyspark.errors import StreamingQueryException


class MullionError(Exception):
    """The base of Mullion's errors.

    - ``condition``: the kind of error in one word, the same in Scala and Python.
    - ``jvm_trace``: the JVM's stack trace for an error from the JVM, otherwise ``None``.
    """

    condition: str = "ERROR"
    jvm_trace: str | None = None


class InvalidArgumentError(MullionError, ValueError):
    """An argument that is invalid for any data."""

    condition = "INVALID_ARGUMENT"


class WrongCallError(InvalidArgumentError, TypeError):
    """A call with a missing or an unknown argument."""


class NotAggregatedError(InvalidArgumentError, AttributeError):
    """The result of ``windowed(...)`` was used as a DataFrame, without ``.agg(...)``."""


class UnknownColumnError(InvalidArgumentError):
    """A column that the input does not have."""

    condition = "UNKNOWN_COLUMN"


class UnsupportedError(MullionError):
    """A valid request that Mullion or Spark does not support."""

    condition = "UNSUPPORTED"


class IncompatibleStateError(MullionError):
    """A checkpoint that another query wrote, with other windows, keys or aggregates. Nothing was overwritten."""

    condition = "INCOMPATIBLE_STATE"


class DamagedStateError(MullionError):
    """Truncated or missing files of a checkpoint. The message names the file. Nothing was written."""

    condition = "DAMAGED_STATE"


class StateLostError(MullionError):
    """State that is gone, or that no query can continue from."""

    condition = "STATE_LOST"


class QueryFailedError(MullionError):
    """A query of a program failed with an error outside of Mullion.

    An error from this process is its ``__cause__``. For an error in a worker, the message has its text.
    """

    condition = "QUERY_FAILED"


class TaskFailedError(QueryFailedError, StreamingQueryException):
    """A task of a query over windows failed with an error outside of Mullion, such as an overflow of a sum.

    The message has the error in one line. This is also a ``StreamingQueryException``, for code that catches Spark's
    error.
    """


class FunctionError(MullionError):
    """One of your functions raised an error or returned an invalid result.

    The message has the file and the line. Nothing of the batch was stored. Fix the function, then restart the query
    from its checkpoint.
    """

    condition = "FUNCTION_FAILED"


class AgentError(MullionError):
    """An agent of a :mod:`mullion.faust` program failed. The message has the event and the line.

    If the agent ran in this process, its error is the ``__cause__``.
    """

    condition = "AGENT_FAILED"


class WindowInputError(MullionError):
    """``process`` of a Turbine program passed a window rows of other types than before. Nothing of them was stored.

    The first rows determine the types. A query without a committed batch restarts automatically with their types.
    """

    condition = "WINDOW_INPUT"


class NewWindowsError(MullionError):
    """A program created a window that its query has no operator for. The query restarts with one."""

    condition = "NEW_WINDOWS"


class WrongShardError(MullionError):
    """An event used a table under a key that belongs to another shard. Totals would have been split.

    Nothing of the batch was stored. The message names the table, the key, the agent and the fix.
    """

    condition = "WRONG_SHARD"


class DroppedRowsWarning(UserWarning):
    """A Spark operator before a window drops rows by the watermark, so they never reach the window."""


class VersionMismatchError(MullionError):
    """The versions of the JAR, the Python package and Spark do not match."""

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
    """The error for a condition from the JVM. An unknown condition becomes a plain ``MullionError``."""
    error = _BY_CONDITION.get(condition, MullionError)(message)
    error.condition = condition
    return error
