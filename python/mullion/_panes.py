"""Reading the open panes of a query: what they hold, and why they are open."""

from __future__ import annotations

import os

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from mullion import _checkpoints, _jvm
from mullion._calls import explained
from mullion.errors import InvalidArgumentError
from mullion.testing import ClockedQuery


@explained("read_panes('checkpoints/flights')")
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
    _check(panes, window)
    session = _checkpoints.session_of(spark or (panes.sparkSession if panes is not None else None))
    return _jvm.read_panes(session, path, number, panes, window)


def open_panes(
    query: StreamingQuery | ClockedQuery | str | os.PathLike[str],
    *,
    operator: int | None = None,
    panes: DataFrame | None = None,
    window: str | None = None,
    spark: SparkSession | None = None,
) -> DataFrame:
    """Why each open pane of a query has not closed: a row for each, to be printed with ``.show(truncate=False)``.

    - ``query``: a running query, or the ``checkpointLocation`` of one. The panes are those of the last committed batch
      (of state in memory, of the newest snapshot); of a running query the clocks are as they are now. Nothing is
      written.
    - ``operator``, ``panes``, ``window``, ``spark``: as for :func:`read_panes`.

    The columns: the keys and ``window``, and before them ``window_name`` for windows of :func:`together`;

    - ``closes_at``: when the clock closes the pane: its end and the allowed lateness. A session's moves on with
      its rows. Null for windows of row numbers.
    - ``clock``: which one that is: ``"event time"``, ``"event time of its key"``, ``"processing time"`` or
      ``"rows of its key"``.
    - ``clock_at``: where the clock stands: the watermark of the next batch, or the wall clock, as of the last batch
      where the query does not run. After another window of Mullion's the clock is behind by that one's lateness, which
      is known while the query runs.
    - ``waits_for``: how far it has to go, in words.
    - ``held_by``: what has the event clock stand there: the source of the rows whose times have come least far, and how
      far that is. Spark has one watermark for each ``withWatermark``, whatever partitions a source has. Null where it
      is not known, as from a checkpoint.
    - ``fired``: how often the pane has fired, and ``last_fired``: the time of the batch in which it last did, where
      that is kept.
    - ``rows``: how many rows it has so far, where its aggregates say so, with a ``count(*)``, or ``collect``; with
      ``accumulate=False``, since it last fired.

    Raises what :func:`read_panes` raises.

    >>> mullion.open_panes(query).show(truncate=False)  # doctest: +SKIP
    """
    number = _checkpoints.operator_of(operator)
    _check(panes, window)
    if isinstance(query, ClockedQuery):
        return _jvm.open_panes(query.session, query.java_query, number, panes, window)
    _jvm.require_classic(query, "query=")
    if isinstance(query, StreamingQuery):
        session = _checkpoints.session_of(spark or (panes.sparkSession if panes is not None else None))
        return _jvm.open_panes(session, _jvm.java_query(query), number, panes, window)
    if not isinstance(query, (str, os.PathLike)):
        raise InvalidArgumentError(
            f"query={query!r} ({type(query).__name__}) is neither a running query nor a path. Give what "
            "writeStream...start() gave, or a query's checkpointLocation."
        )
    path = _checkpoints.path_of(query)
    session = _checkpoints.session_of(spark or (panes.sparkSession if panes is not None else None))
    return _jvm.open_panes(session, path, number, panes, window)


def _check(panes: DataFrame | None, window: str | None) -> None:
    if panes is not None:
        _jvm.require_classic(panes, "panes")
        if not isinstance(panes, DataFrame):
            raise InvalidArgumentError(f"panes={panes!r} is not a DataFrame. Give what windowed(...).agg() made.")
    if window is not None and (panes is not None or not isinstance(window, str)):
        raise InvalidArgumentError(
            f"window={window!r} is the name of a window between functions, whose panes are read without panes=."
        )
