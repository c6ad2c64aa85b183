"""The comparison of a changed query with its checkpoint."""

from __future__ import annotations

import os

from pyspark.sql import DataFrame

from mullion._bridge import jvm
from mullion._native.displays import displayed
from mullion._util import checkpoints
from mullion._util.signatures import explained
from mullion.errors import InvalidArgumentError


@explained("compare(panes, 'checkpoints/flights')")
def compare(panes: DataFrame, checkpoint: str | os.PathLike[str]) -> DataFrame:
    """Shows the effect of a changed query on a checkpoint. It writes nothing and starts nothing.

    - ``panes``: the DataFrame of the changed query: the result of :func:`windowed` and ``.agg(...)`` or of
      :func:`asof_join`, or a DataFrame that uses it.
    - ``checkpoint``: the ``checkpointLocation`` of the old query. That query may be running.

    The result has a row for each difference, and one for each operator without differences:

    - ``operator``: Spark's id of Mullion's operator.
    - ``window``: the window of the state.
    - ``verdict``: ``"goes on"``, ``"drains"``, ``"drops"`` or ``"refused"``. The query starts unless a row has
      ``"refused"``. A window that drains accepts the rows before a boundary, while another one replaces it. Dropped
      panes are deleted in the first batch and never fire.
    - ``what``: the difference, and the reason for ``"refused"``.

    It compares Mullion's state: windows, keys, aggregates, firings, and the number of sources. Spark checks sources,
    sinks and its own operators when the query starts.

    Raises :class:`InvalidArgumentError` when there is no such checkpoint or no window in ``panes``, and
    :class:`UnsupportedError` under Spark Connect.

    A notebook shows the rows if the call is the last line of a cell.

    >>> mullion.compare(panes, "checkpoints/flights").show(truncate=False)  # doctest: +SKIP
    """
    path = checkpoints.path_of(checkpoint)
    jvm.require_classic(panes, "panes")
    if not isinstance(panes, DataFrame):
        raise InvalidArgumentError(f"panes={panes!r} is not a DataFrame. Give what windowed(...).agg() made.")
    return displayed(jvm.compare(panes, path), f"Compared with {path}")
