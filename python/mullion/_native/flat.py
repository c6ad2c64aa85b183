"""Panes as rows of plain columns, without structs."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql.functions import col
from pyspark.sql.types import StructType

from mullion._bridge import dispatch
from mullion._bridge.columns import require_dataframe
from mullion.errors import InvalidArgumentError, UnsupportedError

_STRUCTS = ("window", "pane", "late_row")


def flat(panes: DataFrame) -> DataFrame:
    """Replaces the structs of panes by plain columns, for pandas, CSV files and BI tools.

    ``window`` becomes ``window_start`` and ``window_end``. ``pane`` becomes ``pane_firing`` and ``pane_seq``. If there
    is a ``late_row``, each of its columns becomes one named ``late_row_`` and the column's name. The values stay the
    same. A window or a stateful operator over panes needs ``window``, so call ``flat`` after it.

    - ``panes``: the result of ``windowed(...).agg(...)``, ``.collect(...)`` or :func:`mullion.together`.

    Raises :class:`InvalidArgumentError` when these columns are missing, and when a name would occur twice in the
    result.

    >>> flat(windowed(events, Tumbling("1 hour"), by="carrier", time="ts").agg(n)).columns  # doctest: +SKIP
    ['carrier', 'window_start', 'window_end', 'pane_firing', 'pane_seq', 'n']
    """
    require_dataframe(panes, "flat() was given")
    if dispatch.is_declared(panes.sparkSession):
        raise UnsupportedError(
            "flat() needs the columns of the panes, which Spark does not tell in a query function of a declarative "
            "pipeline. Name them there, as in panes.select('carrier', 'window.start', 'n'), or call flat() "
            "where the table is read."
        )
    columns: list[Column] = []
    for field in panes.schema.fields:
        name = f"`{field.name.replace('`', '``')}`"
        if field.name in _STRUCTS and isinstance(field.dataType, StructType):
            columns += [
                col(f"{name}.`{inner.replace('`', '``')}`").alias(f"{field.name}_{inner}")
                for inner in field.dataType.names
            ]
        else:
            columns.append(col(name))
    if not {"window", "pane"} <= set(panes.columns):
        raise InvalidArgumentError(
            f"flat() was given no panes: it has the columns {', '.join(map(repr, panes.columns))}, and panes have "
            "'window' and 'pane'. Give what windowed(...).agg(...) made."
        )
    result = panes.select(*columns)
    for name in result.columns:
        if result.columns.count(name) > 1:
            raise InvalidArgumentError(
                f"The flat panes would have {result.columns.count(name)} columns named {name!r}. Give the "
                "aggregate, or the key, another name with .alias('...')."
            )
    return result
