"""The two sides of a join: checks of types. The JVM checks their columns."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

from mullion._bridge import dispatch
from mullion._bridge.columns import require_dataframe
from mullion.errors import InvalidArgumentError, UnsupportedError


def require_sides(call: str, left: object, right: object) -> None:
    """Raises an error unless both sides are DataFrames of one kind, in one session."""
    for name, side in (("left", left), ("right", right)):
        require_dataframe(side, f"{call}() was given as {name}=")
    assert isinstance(left, DataFrame) and isinstance(right, DataFrame)  # noqa: PT018
    dispatch.require_same(left, right, "right=")
    if dispatch.is_declared(left.sparkSession):
        raise UnsupportedError(
            f"{call}() needs the columns of both sides, which Spark does not report in a query function of a "
            "declarative pipeline. Write the join as a query of its own."
        )
    if left.isStreaming != right.isStreaming:
        stream, batch = ("left", "right") if left.isStreaming else ("right", "left")
        raise UnsupportedError(
            f"{call}(): {stream}= is a stream and {batch}= is a batch DataFrame. Read both as streams, or both as "
            "batches; a table that does not change joins with df.join(table, keys)."
        )


def key_names(by: object) -> tuple[str, ...]:
    """The names of the keys, which both sides have."""
    names = (by,) if isinstance(by, str) else by
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise InvalidArgumentError(
            f"by={by!r} ({type(by).__name__}) is neither a column's name nor a list of names. Name columns that both "
            "sides have, as in by='symbol'; compute or rename them first, with withColumn(...)."
        )
    return tuple(names)


def require_suffix(suffix: object) -> str:
    """The suffix of the right side's columns whose names the left side has too."""
    if not isinstance(suffix, str) or not suffix:
        raise InvalidArgumentError(f"suffix={suffix!r} is not a text to add to names. Write suffix='_right'.")
    return suffix
