"""What would become of a checkpoint under a query that has changed."""

from __future__ import annotations

import os

from pyspark.sql import DataFrame

from mullion import _checkpoints, _jvm
from mullion._calls import explained
from mullion.errors import InvalidArgumentError


@explained("compare(panes, 'checkpoints/flights')")
def compare(panes: DataFrame, checkpoint: str | os.PathLike[str]) -> DataFrame:
    """Says what would become of a checkpoint if a query were started over it. It writes nothing, and starts nothing.

    - ``panes``: the DataFrame of the query as it is now: what :func:`windowed` and ``.agg(...)`` gave, or what was made
      of that.
    - ``checkpoint``: the ``checkpointLocation`` of the query as it was. That query may be running.

    The result has a row for each thing that differs, and one for each operator where nothing does:

    - ``operator``: Spark's id of the operator of Mullion's.
    - ``window``: the window that the state is of.
    - ``verdict``: ``"goes on"``, ``"drains"``, ``"drops"`` or ``"refused"``. The query starts if nothing is refused. A
      window that drains takes the rows before a boundary, while another one takes its place. What is dropped is gone
      with the first batch, and never fires.
    - ``what``: what differs, and if it is refused, why.

    It compares what Mullion keeps: windows, keys, aggregates, firings, and how many sources there are. What Spark
    checks of sources, sinks and its own operators shows when the query starts.

    Raises :class:`InvalidArgumentError` when there is no such checkpoint or no window in ``panes``, and
    :class:`UnsupportedError` under Spark Connect.

    >>> mullion.compare(panes, "checkpoints/flights").show(truncate=False)  # doctest: +SKIP
    """
    path = _checkpoints.path_of(checkpoint)
    _jvm.require_classic(panes, "panes")
    if not isinstance(panes, DataFrame):
        raise InvalidArgumentError(f"panes={panes!r} is not a DataFrame. Give what windowed(...).agg() made.")
    return _jvm.compare(panes, path)
