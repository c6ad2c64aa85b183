"""Warns of Spark's operators before a window that drop rows by the watermark."""

from __future__ import annotations

import warnings

from pyspark.sql import DataFrame

from mullion._bridge import dispatch
from mullion.errors import DroppedRowsWarning


def warn_of_dropped_rows(df: DataFrame, calls: int) -> None:
    """Reports the user's call; the log repeats it when the query starts.

    ``calls`` is the number of calls from here to the user's code.
    """
    if dispatch.is_declared(df.sparkSession):
        return
    for text in dispatch.dropped_before(df):
        warnings.warn(text, DroppedRowsWarning, stacklevel=calls)
