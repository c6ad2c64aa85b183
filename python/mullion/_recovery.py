"""Taking a query whose state was in memory back to its newest snapshot."""

from __future__ import annotations

import os

from pyspark.sql import SparkSession

from mullion import _checkpoints, _engine
from mullion._calls import explained


@explained("recover('checkpoints/flights')")
def recover(checkpoint: str | os.PathLike[str], *, spark: SparkSession | None = None) -> int:
    """Takes the checkpoint of a query with ``state="memory"`` back to its newest snapshot.

    Call it before you start a query again that was stopped or killed. The query then reads again what came after the
    snapshot, so its answers are right, and it puts out once more what it put out since. The sources must still have
    those rows. The query must not be running.

    It gives the number of batches that the query will do again: 0 when it can go on as it is.

    - ``checkpoint``: the query's ``checkpointLocation``.
    - ``spark``: the session to work in; the active session by default.

    Raises :class:`StateLostError` when there is no snapshot; :class:`InvalidArgumentError` when the checkpoint does not
    belong to a query with state in memory, or when the query runs; and :class:`UnsupportedError` when other
    operators of the query keep state in another store.

    >>> mullion.recover("checkpoints/flights")  # doctest: +SKIP
    7
    """
    path = _checkpoints.path_of(checkpoint)
    return _engine.recover(_checkpoints.session_of(spark), path)
