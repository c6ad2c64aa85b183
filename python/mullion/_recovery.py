"""Taking a query that has lost state back to an earlier batch."""

from __future__ import annotations

import os

from pyspark.sql import SparkSession

from mullion import _checkpoints, _engine
from mullion._calls import explained


@explained("recover('checkpoints/flights')")
def recover(checkpoint: str | os.PathLike[str], *, spark: SparkSession | None = None) -> int:
    """Takes the checkpoint of a query that has lost state back to the newest batch whose state is there.

    State in RocksDB continues after its last batch, so there is nothing to take back: this version raises an error for
    every checkpoint that is not damaged.

    - ``checkpoint``: the query's ``checkpointLocation``. The query must not be running.
    - ``spark``: the session to work in; the active session by default.

    Raises :class:`InvalidArgumentError` when the query runs, and when it can continue as it is.
    """
    path = _checkpoints.path_of(checkpoint)
    return _engine.recover(_checkpoints.session_of(spark), path)
