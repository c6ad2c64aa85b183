"""Savepoints: new checkpoints with another number of partitions."""

from __future__ import annotations

import os

from pyspark.sql import DataFrame, SparkSession

from mullion._bridge import jvm
from mullion._util import checkpoints
from mullion._util.signatures import explained
from mullion.errors import InvalidArgumentError

MOST_PARTITIONS = 100_000


@explained("savepoint('checkpoints/flights', 'checkpoints/flights-2', partitions=200)")
def savepoint(
    checkpoint: str | os.PathLike[str],
    to: str | os.PathLike[str],
    *,
    partitions: int | None = None,
    checkpoint_format: int | None = None,
    panes: DataFrame | None = None,
    spark_query: DataFrame | None = None,
    spark: SparkSession | None = None,
) -> int:
    """Writes a savepoint: a checkpoint that a query starts from with another number of partitions.

    It contains the query after its last committed batch: all open panes, the offsets of its sources, the watermark. A
    query that starts from it continues with the next batch. Nothing is written to ``checkpoint``. If the call fails or
    is killed, nothing exists at ``to``.

    - ``checkpoint``: the ``checkpointLocation`` of a query. It may be running.
    - ``to``: a folder that does not exist or is empty.
    - ``partitions``: the new number of partitions of the state; unchanged by default.
    - ``checkpoint_format``: 1 or 2, the ``spark.sql.streaming.stateStore.checkpointFormatVersion`` of the new
      query; the one of ``checkpoint`` by default.
    - ``panes``: the query's own DataFrame, if its aggregates are Python functions or other code without an SQL text;
      with ``spark_query``, the new query.
    - ``spark_query``: for a checkpoint of Spark's own ``window(...)`` or ``session_window(...)``, the DataFrame of its
      query. Its open windows become panes of the window in ``panes``, which must have the same source.
    - ``spark``: the session to use; the active session by default.

    Returns the number of the last batch in the savepoint.

    Raises :class:`InvalidArgumentError` when there is no such checkpoint, or something at ``to``;
    :class:`UnsupportedError` when the query has stateful operators of Spark, or a function of a program whose records
    cannot be redistributed, and under Spark Connect; :class:`IncompatibleStateError` when ``spark_query`` did not write
    the checkpoint, or ``panes`` cannot continue with its windows; :class:`DamagedStateError` when the checkpoint cannot
    be read. A query that starts from a damaged savepoint fails with :class:`DamagedStateError` before its first batch.

    >>> mullion.savepoint("checkpoints/flights", "checkpoints/flights-2", partitions=200)  # doctest: +SKIP
    41
    """
    path = checkpoints.path_of(checkpoint)
    if not isinstance(to, (str, os.PathLike)):
        raise InvalidArgumentError(
            f"to={to!r} ({type(to).__name__}) is not a path. Give a folder that is not there yet."
        )
    if partitions is not None and (
        isinstance(partitions, bool) or not isinstance(partitions, int) or not 1 <= partitions <= MOST_PARTITIONS
    ):
        raise InvalidArgumentError(
            f"partitions={partitions!r} is not a number of partitions: say how many state is to have, from 1 to "
            f"{MOST_PARTITIONS}, or leave it out to have as many as now."
        )
    if checkpoint_format is not None and checkpoint_format not in (1, 2):
        raise InvalidArgumentError(
            f"checkpoint_format={checkpoint_format!r} is not 1 or 2, the formats that Spark has."
        )
    for name, frame in (("panes", panes), ("spark_query", spark_query)):
        if frame is not None and not isinstance(frame, DataFrame):
            raise InvalidArgumentError(f"{name}={frame!r} ({type(frame).__name__}) is not a DataFrame.")
    session = checkpoints.session_of(spark)
    jvm.require_classic(session, "spark")
    return jvm.savepoint(
        session,
        path,
        os.fspath(to),
        partitions=partitions,
        checkpoint_format=checkpoint_format,
        panes=panes,
        spark_query=spark_query,
    )
