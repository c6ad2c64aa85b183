"""What functions on a query's checkpoint are given."""

from __future__ import annotations

import os

from pyspark.sql import SparkSession

from mullion.errors import InvalidArgumentError


def path_of(checkpoint: str | os.PathLike[str]) -> str:
    """The path as text; raises :class:`InvalidArgumentError` for what is none."""
    if not isinstance(checkpoint, (str, os.PathLike)):
        raise InvalidArgumentError(
            f"checkpoint={checkpoint!r} ({type(checkpoint).__name__}) is not a path. Give a query's checkpointLocation."
        )
    return os.fspath(checkpoint)


def session_of(given: SparkSession | None) -> SparkSession:
    """The session to work in, the active one where none is given."""
    session = given or SparkSession.getActiveSession()
    if session is None:
        raise InvalidArgumentError(
            "There is no active Spark session to read in. Start one, "
            "mullion.configure(SparkSession.builder).getOrCreate(), or pass spark=."
        )
    return session
