"""Reading the open panes of a query from its checkpoint."""

from __future__ import annotations

import os

from pyspark.sql import DataFrame, SparkSession

from mullion import _checkpoints, _jvm
from mullion.errors import InvalidArgumentError


def read_panes(
    checkpoint: str | os.PathLike[str],
    *,
    operator: int | None = None,
    panes: DataFrame | None = None,
    window: str | None = None,
    spark: SparkSession | None = None,
) -> DataFrame:
    """The panes that a query has open, as of its last committed batch: keys, ``window``, and the aggregates so far.

    - ``checkpoint``: the query's ``checkpointLocation``. The query may be running; nothing is written. Of state in
      memory the newest snapshot is read, up to 10 batches old.
    - ``operator``: which of the query's stateful operators, by Spark's id; ``None`` when only one is Mullion's.
    - ``panes``: the query's own DataFrame, where its aggregates cannot be rebuilt from their SQL text (Scala UDAFs).
    - ``window``: of windows that share an operator with functions, as those of a ``mullion.turbine`` subscription with
      state do, which one.
    - ``spark``: the session to read in; the active one where none is given.

    Raises :class:`InvalidArgumentError` when there is no such checkpoint, operator or session, and
    :class:`UnsupportedError` under Spark Connect or when ``panes`` is needed.
    """
    path = _checkpoints.path_of(checkpoint)
    number = _checkpoints.operator_of(operator)
    if panes is not None:
        _jvm.require_classic(panes, "panes")
        if not isinstance(panes, DataFrame):
            raise InvalidArgumentError(f"panes={panes!r} is not a DataFrame. Give what windowed(...).agg() made.")
    session = _checkpoints.session_of(spark or (panes.sparkSession if panes is not None else None))
    if window is not None and (panes is not None or not isinstance(window, str)):
        raise InvalidArgumentError(
            f"window={window!r} is the name of a window between functions, whose panes are read without panes=."
        )
    return _jvm.read_panes(session, path, number, panes, window)
