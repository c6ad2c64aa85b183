"""Reading the open panes of a query from its checkpoint."""

from __future__ import annotations

import os

from pyspark.sql import DataFrame, SparkSession

from mullion import _jvm
from mullion.errors import InvalidArgumentError


def read_panes(
    checkpoint: str | os.PathLike[str],
    *,
    operator: int | None = None,
    panes: DataFrame | None = None,
    spark: SparkSession | None = None,
) -> DataFrame:
    """The panes that a query has open, as of its last committed batch: keys, ``window``, and the aggregates so far.

    - ``checkpoint``: the query's ``checkpointLocation``. The query may be running; nothing is written.
    - ``operator``: which of the query's stateful operators, by Spark's id; ``None`` when only one is Mullion's.
    - ``panes``: the query's own DataFrame, where its aggregates cannot be rebuilt from their SQL text (Scala UDAFs).
    - ``spark``: the session to read in; the active one where none is given.

    Raises :class:`InvalidArgumentError` when there is no such checkpoint, operator or session, and
    :class:`UnsupportedError` under Spark Connect or when ``panes`` is needed.
    """
    if not isinstance(checkpoint, (str, os.PathLike)):
        raise InvalidArgumentError(
            f"checkpoint={checkpoint!r} ({type(checkpoint).__name__}) is not a path. Give a query's checkpointLocation."
        )
    if operator is not None and (isinstance(operator, bool) or not isinstance(operator, int) or operator < 0):
        raise InvalidArgumentError(
            f"operator={operator!r} is not the id of an operator: ids are 0, 1, ... as in the query's progress. Leave "
            "it out when only one operator of the query is Mullion's."
        )
    if panes is not None:
        _jvm.require_classic(panes, "panes")
        if not isinstance(panes, DataFrame):
            raise InvalidArgumentError(f"panes={panes!r} is not a DataFrame. Give what windowed(...).agg() made.")
    session = spark or (panes.sparkSession if panes is not None else SparkSession.getActiveSession())
    if session is None:
        raise InvalidArgumentError(
            "There is no active Spark session to read in. Start one, "
            "mullion.configure(SparkSession.builder).getOrCreate(), or pass spark=."
        )
    return _jvm.read_panes(session, os.fspath(checkpoint), operator, panes)
