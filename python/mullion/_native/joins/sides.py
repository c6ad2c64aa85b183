"""The two sides of a join: checks of their columns, and the names of the result's columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, StructType, TimestampType

from mullion._bridge import dispatch
from mullion._bridge.columns import field_of, require_dataframe
from mullion._bridge.request import quoted
from mullion.errors import InvalidArgumentError, UnsupportedError

_DELAY: Final = "spark.watermarkDelayMs"


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


def require_keys(left: DataFrame, right: DataFrame, keys: Sequence[str]) -> None:
    """Raises an error if a side lacks a key, or has it with another type."""
    for key in keys:
        of = [_column(side, df, f"by={key!r}", key) for side, df in (("left", left), ("right", right))]
        if of[0] != of[1]:
            raise InvalidArgumentError(
                f"by={key!r} is of type {of[0].simpleString()} on the left and {of[1].simpleString()} on the right. "
                f"Cast one of them first, as in right.withColumn({key!r}, F.col({key!r}).cast("
                f"{of[0].simpleString()!r}))."
            )


def require_time(side: str, df: DataFrame, option: str, time: object) -> str:
    """The column with the event time of one side, which in a stream has a watermark."""
    what = f"{option}={time!r}"
    if not isinstance(time, str):
        raise InvalidArgumentError(
            f"{what} ({type(time).__name__}) is not a column's name. Name the column with the event time of each side."
        )
    kind = _column(side, df, what, time)
    if not isinstance(kind, TimestampType) and not (isinstance(kind, StructType) and kind.names == ["start", "end"]):
        raise InvalidArgumentError(
            f"{what} is of type {kind.simpleString()} on the {side}, and a join needs a timestamp. Convert it before "
            f"the watermark is set, as in F.to_timestamp({time!r})."
        )
    if df.isStreaming and _DELAY not in field_of(df, what, quoted(time)).metadata:
        raise InvalidArgumentError(
            f"{what} has no watermark on the {side}: without one no row would ever be emitted. Call "
            f"{side}.withWatermark({time!r}, '10 minutes') before the join."
        )
    return time


def require_suffix(suffix: object) -> str:
    """The suffix of the right side's columns whose names the left side has too."""
    if not isinstance(suffix, str) or not suffix:
        raise InvalidArgumentError(f"suffix={suffix!r} is not a text to add to names. Write suffix='_right'.")
    return suffix


def right_names(taken: Sequence[str], right: Sequence[str], suffix: str) -> list[str]:
    """The names of the right side's columns in the result, next to the columns ``taken``."""
    names = list(taken)
    for name in right:
        names.append(name + suffix if name.lower() in {other.lower() for other in taken} else name)
    for name in names:
        if [other.lower() for other in names].count(name.lower()) > 1:
            raise InvalidArgumentError(
                f"The result of the join would have several columns named {name!r}. Rename or drop all but one of "
                "them before the join."
            )
    return names[len(taken) :]


def _column(side: str, df: DataFrame, what: str, name: str) -> DataType:
    return field_of(df, f"{what} of the {side} side", quoted(name)).dataType
