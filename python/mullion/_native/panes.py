"""The open panes of a query: their contents, and the reasons why they are open."""

from __future__ import annotations

import os

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from mullion._bridge import dispatch, jvm
from mullion._bridge.connect import is_remote
from mullion._native.displays import displayed
from mullion._util import checkpoints
from mullion._util.signatures import explained
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
    """Returns the open panes of a query after its last committed batch: keys, ``window``, and the aggregates so far.

    It writes nothing, and the query may be running.

    - ``checkpoint``: the query's ``checkpointLocation``.
    - ``operator``: Spark's id of a stateful operator. Required if the query has several operators of Mullion.
    - ``panes``: the query's own DataFrame. Required if the aggregates cannot be rebuilt from their SQL text, such as
      Scala UDAFs.
    - ``window``: the name of a window that shares its operator with functions, as in a ``mullion.turbine`` subscription
      with state.
    - ``spark``: the session to use; the active session by default.

    Raises :class:`InvalidArgumentError` when there is no such checkpoint, operator or session, and
    :class:`UnsupportedError` when ``panes`` is needed.
    """
    path = checkpoints.path_of(checkpoint)
    number = checkpoints.operator_of(operator)
    _check(panes, window)
    session = checkpoints.session_of(spark or (panes.sparkSession if panes is not None else None))
    return dispatch.read_panes(session, path, number, panes, window)


def open_panes(
    query: StreamingQuery | ClockedQuery | str | os.PathLike[str],
    *,
    operator: int | None = None,
    panes: DataFrame | None = None,
    window: str | None = None,
    spark: SparkSession | None = None,
) -> DataFrame:
    """Shows why each open pane of a query has not closed. Print the result with ``.show(truncate=False)``.

    A notebook shows the first 100 rows if the call is the last line of a cell.

    It writes nothing. The panes are those of the last committed batch. The clocks of a running query are as they are
    now.

    - ``query``: a running query, or the ``checkpointLocation`` of one.
    - ``operator``, ``panes``, ``window``, ``spark``: as for :func:`read_panes`.

    The result has a row for each open pane. Its columns are the keys and ``window`` (and before them ``window_name``,
    for windows of :func:`together`), and then:

    - ``closes_at``: the time at which the clock closes the pane: its end plus the allowed lateness. For a session it
      moves with each row. Null for count windows.
    - ``clock``: the kind of clock: ``"event time"``, ``"event time of its key"``, ``"processing time"`` or
      ``"rows of its key"``.
    - ``clock_at``: the current time of the clock: the watermark of the next batch, or the wall clock. For a stopped
      query it is the time after its last batch. The clock of a window after another window of Mullion is behind by the
      lateness of that one, which is included for a running query.
    - ``waits_for``: a description of how far the clock still has to advance.
    - ``held_by``: the source that holds the event clock back, because its rows are furthest behind, and its latest
      time. Spark has one watermark per ``withWatermark``, not per partition. Null if this is unknown, as for a
      checkpoint.
    - ``fired``: the number of firings of the pane.
    - ``last_fired``: the time of the batch of the last firing, if state has it.
    - ``rows``: the number of rows of the pane, if it has a ``count(*)`` or collects its rows. With ``accumulate=False``
      these are the rows since its last firing.

    Raises the errors of :func:`read_panes`.

    >>> mullion.open_panes(query).show(truncate=False)  # doctest: +SKIP
    """
    number = checkpoints.operator_of(operator)
    _check(panes, window)
    if isinstance(query, ClockedQuery):
        return _displayed(jvm.open_panes(query.session, query.java_query, number, panes, window))
    if isinstance(query, StreamingQuery) or is_remote(query):
        session = checkpoints.session_of(spark or (panes.sparkSession if panes is not None else None))
        return _displayed(dispatch.open_panes(session, query, number, panes, window))
    if not isinstance(query, (str, os.PathLike)):
        raise InvalidArgumentError(
            f"query={query!r} ({type(query).__name__}) is neither a running query nor a path. Give what "
            "writeStream...start() gave, or a query's checkpointLocation."
        )
    path = checkpoints.path_of(query)
    session = checkpoints.session_of(spark or (panes.sparkSession if panes is not None else None))
    return _displayed(dispatch.open_panes(session, path, number, panes, window))


def _displayed(panes: DataFrame) -> DataFrame:
    return displayed(panes, "Open panes")


def _check(panes: DataFrame | None, window: str | None) -> None:
    if panes is not None and not isinstance(panes, DataFrame):
        raise InvalidArgumentError(f"panes={panes!r} is not a DataFrame. Give what windowed(...).agg() made.")
    if window is not None and (panes is not None or not isinstance(window, str)):
        raise InvalidArgumentError(
            f"window={window!r} is the name of a window between functions, whose panes are read without panes=."
        )
