"""Every error that Mullion raises, in Python or from the JVM.

A message names the value, the cause and the fix. An error that began in the JVM keeps Spark's own exception as its
``__cause__``, so that no stack trace is lost.
"""

from __future__ import annotations


class MullionError(Exception):
    """The base of Mullion's errors.

    ``condition`` is the kind of error in one word, the same in Scala and Python.
    """

    condition: str = "ERROR"


class InvalidArgumentError(MullionError, ValueError):
    """A parameter that cannot be right, whatever the data."""

    condition = "INVALID_ARGUMENT"


class UnknownColumnError(InvalidArgumentError):
    """A column that the input does not have."""

    condition = "UNKNOWN_COLUMN"


class UnsupportedError(MullionError):
    """A sensible request that Mullion, or Spark, cannot serve."""

    condition = "UNSUPPORTED"


class IncompatibleStateError(MullionError):
    """A checkpoint whose state another query wrote: other windows, keys or aggregates. Nothing was overwritten."""

    condition = "INCOMPATIBLE_STATE"


class StateLostError(MullionError):
    """State that was in memory and is gone. :func:`mullion.recover` takes the query back to its newest snapshot."""

    condition = "STATE_LOST"


class QueryFailedError(MullionError):
    """A query of a program that failed, by an error that is not Mullion's: its ``__cause__``."""

    condition = "QUERY_FAILED"


class FunctionError(MullionError):
    """A function that was passed to Mullion raised an error, or returned what it may not.

    The message says file and line. Nothing of the batch was kept: the query goes on from its checkpoint once the
    function is mended.
    """

    condition = "FUNCTION_FAILED"


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
        StateLostError,
        QueryFailedError,
        FunctionError,
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
