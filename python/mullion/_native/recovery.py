"""The recovery of a query that has lost state."""

from __future__ import annotations

import os

from pyspark.sql import SparkSession

from mullion._bridge import dispatch
from mullion._util import checkpoints
from mullion._util.signatures import explained


@explained("recover('checkpoints/flights')")
def recover(checkpoint: str | os.PathLike[str], *, spark: SparkSession | None = None) -> int:
    """Sets the checkpoint of a query that has lost state back to the newest batch with complete state.

    Returns the number of batches that the query repeats when it starts again; 0 if it can continue unchanged. It reads
    the rows of these batches again, in one or more new batches with new numbers, and emits their panes again. Tables
    that ``upsert`` maintains then have the same rows as before; other outputs contain these firings twice. A row
    that was late in a repeated batch may be in time now, because the watermark goes back too.

    - ``checkpoint``: the query's ``checkpointLocation``. The query must not be running.
    - ``spark``: the session to use; the active session by default.

    Spark keeps the state of the last 100 batches (``spark.sql.streaming.minBatchesToRetain``); older ones cannot be
    used. The sources must still have the rows. If the call is interrupted, the query does not start until you call
    ``recover`` again.

    Raises :class:`StateLostError` when no batch has complete state: start the query with a new ``checkpointLocation``.
    Raises :class:`InvalidArgumentError` when the query runs, and :class:`UnsupportedError` for a query with functions
    with state or with stateful operators of Spark.
    """
    path = checkpoints.path_of(checkpoint)
    return dispatch.recover(checkpoints.session_of(spark), path)
