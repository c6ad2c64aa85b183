"""Taking a query whose state was in memory back to its newest snapshot."""

from __future__ import annotations

import os

from pyspark.sql import SparkSession

from mullion import _checkpoints, _jvm
from mullion._calls import explained


@explained("recover('checkpoints/flights')")
def recover(checkpoint: str | os.PathLike[str], *, spark: SparkSession | None = None) -> int:
    """Readies a query with ``state="memory"`` to start again after it was stopped or killed.

    Its checkpoint goes back to the newest snapshot. The query then reads again what came after it, so its answers are
    right, and what it put out since comes out once more. Gives how many batches that is: 0 when the query can go on
    as it is. The query must not be running.

    - ``checkpoint``: the query's ``checkpointLocation``.
    - ``spark``: the session to work in; the active one where none is given.

    The sources must still have what came since the snapshot.

    Raises :class:`StateLostError` when there is no snapshot, :class:`InvalidArgumentError` when the checkpoint is no
    query's with state in memory or the query runs, and :class:`UnsupportedError` under Spark Connect or when
    other operators of the query keep state in another store.

    >>> mullion.recover("checkpoints/flights")  # doctest: +SKIP
    7
    """
    path = _checkpoints.path_of(checkpoint)
    return _jvm.recover(_checkpoints.session_of(spark), path)
