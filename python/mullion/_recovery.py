"""The recovery of a query that has lost state."""

from __future__ import annotations

import os

from pyspark.sql import SparkSession

from mullion import _checkpoints, _engine
from mullion._calls import explained


@explained("recover('checkpoints/flights')")
def recover(checkpoint: str | os.PathLike[str], *, spark: SparkSession | None = None) -> int:
    """Sets the checkpoint of a query that has lost state back to the newest batch with complete state.

    State in RocksDB always has its last batch, so nothing has to be set back: this version raises an error for every
    checkpoint that is not damaged.

    - ``checkpoint``: the query's ``checkpointLocation``. The query must not be running.
    - ``spark``: the session to use; the active session by default.

    Raises :class:`InvalidArgumentError` when the query runs, and when it can continue unchanged.
    """
    path = _checkpoints.path_of(checkpoint)
    return _engine.recover(_checkpoints.session_of(spark), path)
