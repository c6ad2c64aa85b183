"""The rows of small results in notebooks."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from mullion._bridge.request import quoted
from mullion._util import html

_MOST: Final = 100


def displayed(df: DataFrame, title: str) -> DataFrame:
    """Makes notebooks show the rows of a DataFrame that is the result of a cell; the first 100 of them."""
    setattr(df, "_repr_html_", lambda: _html(df, title))  # noqa: B010
    return df


def _html(df: DataFrame, title: str) -> str:
    rows = df.select(*(_text(df, name) for name in df.columns)).limit(_MOST + 1).collect()
    notes = ["no rows"] if not rows else [f"only the first {_MOST} rows"] if len(rows) > _MOST else []
    return html.table(rows[:_MOST], df.columns, title, notes)


def _text(df: DataFrame, name: str) -> Column:
    column, kind = F.col(quoted(name)), df.schema[name].dataType
    if isinstance(kind, StructType) and kind.names == ["start", "end"]:
        return F.concat_ws(" to ", column["start"].cast("string"), column["end"].cast("string")).alias(name)
    return column.cast("string")
