"""Columns of a DataFrame, and what Spark says of them in our words."""

from __future__ import annotations

import re
from typing import Final, TypeAlias

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructField

from mullion import _engine, _jvm
from mullion._checks import did_you_mean
from mullion.errors import InvalidArgumentError, UnknownColumnError

ColumnOrName: TypeAlias = Column | str

# What Spark's refusals leave unsaid.
_FIXES: Final = {
    "NESTED_AGGREGATE_FUNCTION": " Aggregate the inner one first, in a windowed(...).agg(...) of its own over shorter "
    "windows, and window its result.",
    "MISSING_AGGREGATION": " Say which of a pane's values is meant, as in F.max(...) or F.last(...), or add it to by=.",
}


def require_dataframe(df: object, given: str = "windowed() was given") -> None:
    """Raises when ``df`` is no DataFrame."""
    if not isinstance(df, DataFrame):
        raise InvalidArgumentError(
            f"{given} a {type(df).__module__}.{type(df).__name__}, which is not a Spark DataFrame. "
            "Make one with spark.createDataFrame(...) or spark.readStream."
        )


def field_of(df: DataFrame, what: str, column: ColumnOrName) -> StructField:
    """The name and type that Spark gives a column of ``df``."""
    if isinstance(column, Column):
        _engine.require_same(df, column, what)
    elif column.isidentifier() and column.lower() not in (name.lower() for name in df.columns):
        # Spark would say so too, but in its log as well.
        raise _unknown(column, df, what)
    try:
        fields = df.select(column).schema.fields
    except AnalysisException as theirs:
        raise refusal(theirs, df, what) from None
    if len(fields) != 1:
        raise InvalidArgumentError(
            f"{what} stands for {len(fields)} columns ({', '.join(field.name for field in fields)}). Name each itself."
        )
    return fields[0]


def refusal(theirs: AnalysisException, df: DataFrame, what: str) -> InvalidArgumentError:
    """Spark's refusal of a column as our own error, which names the columns that there are."""
    condition = theirs.getCondition() or ""
    parameters = theirs.getMessageParameters() or {}
    if condition.startswith(("UNRESOLVED_COLUMN", "FIELD_NOT_FOUND")):
        wanted = parameters.get("objectName") or parameters.get("fieldName") or ""
        return _jvm.traced(_unknown(wanted.replace("`", ""), df, what), theirs)
    # The first line says what is wrong; the rest is the plan and the JVM's stack.
    reason = re.sub(r"\s*SQLSTATE: \w+;?\s*$", "", str(theirs).splitlines()[0].removeprefix(f"[{condition}] "))
    fix = _FIXES.get(condition.split(".")[0], "")
    return _jvm.traced(InvalidArgumentError(f"{what} cannot be computed from the input: {reason}{fix}"), theirs)


def _unknown(wanted: str, df: DataFrame, what: str) -> UnknownColumnError:
    if wanted in df.columns:
        hint = f" A dot in a name stands for a field, unless the name is quoted: '`{wanted}`'."
    else:
        hint = did_you_mean(wanted, df.columns)
    return UnknownColumnError(
        f"{what}: the input has no column {wanted!r}.{hint} It has {', '.join(map(repr, df.columns))}."
    )
