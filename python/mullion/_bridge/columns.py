"""Columns of a DataFrame, and the translation of Spark's errors about them."""

from __future__ import annotations

import re
from typing import Final, TypeAlias

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructField

from mullion._bridge import dispatch, jvm
from mullion._bridge.quiet import quiet
from mullion._util.checks import did_you_mean
from mullion.errors import InvalidArgumentError, UnknownColumnError

ColumnOrName: TypeAlias = Column | str

# Fixes that Spark's errors do not name.
_FIXES: Final = {
    "NESTED_AGGREGATE_FUNCTION": " Aggregate the inner one first, in a separate windowed(...).agg(...) over "
    "shorter windows, and window its result.",
    "MISSING_AGGREGATION": " Choose one of a pane's values, as in F.max(...) or F.last(...), or add it to by=.",
}
# Spark's errors whose text does not apply to windows.
_REASONS: Final = {
    "MISSING_GROUP_BY": "it has a column that is not an aggregate. Choose one of a pane's values, as in F.max(...) or "
    "F.last(...), or add the column to by=.",
}


def require_dataframe(df: object, call: str = "windowed() was given") -> None:
    """Raises :class:`InvalidArgumentError` if ``df`` is not a DataFrame."""
    if not isinstance(df, DataFrame):
        is_window = type(df).__module__.startswith("mullion.windows")
        fix = (
            f"The DataFrame comes first, as in windowed(df, {df!r}, ...)."
            if is_window
            else "Create one with spark.createDataFrame(...) or spark.readStream."
        )
        kind = type(df).__name__ if is_window else f"{type(df).__module__}.{type(df).__name__}"
        raise InvalidArgumentError(f"{call} a {kind}, which is not a Spark DataFrame. {fix}")


def field_of(df: DataFrame, what: str, column: ColumnOrName) -> StructField:
    """The name and type of a column of ``df``."""
    if isinstance(column, Column):
        dispatch.require_same(df, column, what)
    elif column.isidentifier() and column.lower() not in (name.lower() for name in df.columns):
        # The error is clear without the trace of the JVM.
        raise _unknown(column, df, what)
    try:
        with quiet():
            fields = df.select(column).schema.fields
    except AnalysisException as error:
        raise refusal(error, df, what) from None
    if len(fields) != 1:
        raise InvalidArgumentError(
            f"{what} means {len(fields)} columns ({', '.join(field.name for field in fields)}). Name each of them."
        )
    return fields[0]


def refusal(error: AnalysisException, df: DataFrame, what: str) -> InvalidArgumentError:
    """Spark's error about a column as an error of Mullion, which lists the existing columns."""
    condition = error.getCondition() or ""
    parameters = error.getMessageParameters() or {}
    if condition.startswith(("UNRESOLVED_COLUMN", "FIELD_NOT_FOUND")):
        wanted = parameters.get("objectName") or parameters.get("fieldName") or ""
        return jvm.traced(_unknown(wanted.replace("`", ""), df, what), error)
    # The first line is the reason; the rest is the plan and the JVM's stack.
    reason = re.sub(r"\s*SQLSTATE: \w+;?\s*$", "", str(error).splitlines()[0].removeprefix(f"[{condition}] "))
    kind = condition.split(".")[0]
    why = _REASONS.get(kind, f"{reason}{_FIXES.get(kind, '')}")
    return jvm.traced(InvalidArgumentError(f"{what} cannot be computed from the input: {why}"), error)


def _unknown(wanted: str, df: DataFrame, what: str) -> UnknownColumnError:
    if wanted in df.columns:
        hint = f" A dot in a name selects a field, unless the name is quoted: '`{wanted}`'."
    elif (names := [name.strip() for name in wanted.split(",")]) and len(names) > 1 and {*names} <= {*df.columns}:
        hint = f" Several columns are a list: {what.partition('=')[0]}={names}."
    else:
        hint = did_you_mean(wanted, df.columns)
    return UnknownColumnError(
        f"{what}: the input has no column {wanted!r}.{hint} It has {', '.join(map(repr, df.columns))}."
    )
