"""Arguments of functions on a query's checkpoint."""

from __future__ import annotations

import os

from pyspark.sql import SparkSession

from mullion.errors import InvalidArgumentError


def path_of(checkpoint: str | os.PathLike[str]) -> str:
    """The path as text. Raises :class:`InvalidArgumentError` for other types."""
    if not isinstance(checkpoint, (str, os.PathLike)):
        raise InvalidArgumentError(
            f"checkpoint={checkpoint!r} ({type(checkpoint).__name__}) is not a path. Give a query's checkpointLocation."
        )
    return os.fspath(checkpoint)


def operator_of(operator: int | None) -> int:
    """The number of an operator, -1 for the only one. Raises :class:`InvalidArgumentError` for an invalid number."""
    if operator is None:
        return -1
    if isinstance(operator, bool) or not isinstance(operator, int) or operator < 0:
        raise InvalidArgumentError(
            f"operator={operator!r} is not the id of an operator: ids are 0, 1, ... as in the query's progress. Leave "
            "it out when only one operator of the query is Mullion's."
        )
    return operator


def session_of(spark: SparkSession | None) -> SparkSession:
    """The session to use, by default the active one."""
    session = spark or SparkSession.getActiveSession()
    if session is None:
        raise InvalidArgumentError(
            "There is no active Spark session to read in. Start one, "
            "mullion.configure(SparkSession.builder).getOrCreate(), or pass spark=."
        )
    return session
