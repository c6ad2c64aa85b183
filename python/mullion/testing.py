"""Runs streaming queries on a clock that only the test advances, so no test sleeps.

A test writes rows to its source, calls :meth:`ClockedQuery.settle`, and checks the output rows::

    query = ClockedQuery(panes, checkpoint=tmp_path)
    write_rows(...)
    fired = query.settle()        # the rows of the batches that ran, as a list of Row
    query.advance("1 minute")     # wall time passes
    fired = query.settle()
    query.stop()

:class:`ManualClock` is the same kind of clock for programs over topics.
"""

from __future__ import annotations

import json
import os
from types import TracebackType
from typing import Any, Self

from pyspark.sql import DataFrame, Row, SparkSession

from mullion._bridge import jvm
from mullion._util import durations
from mullion._util.clock import ManualClock
from mullion._util.durations import Duration
from mullion._util.signatures import explained

__all__ = ["ClockedQuery", "ManualClock"]


class ClockedQuery:
    """Runs a query over ``panes``, with its output in memory, on a clock that only :meth:`advance` moves.

    The clock is Spark's trigger clock, so batch timestamps follow it. It starts at ``start_ms`` milliseconds since the
    epoch, by default with the machine's clock, or at the last batch of the checkpoint if that is later. Pass
    ``start_ms`` if results contain the time of this clock, as with ``time=None``.

    The first batch waits for the first call of :meth:`settle`, so all rows written before that are in it. With the
    ``checkpoint`` of a stopped query, the query continues where that one ended. With ``drain`` it is a query with
    ``trigger(availableNow=True)``, which :meth:`settle` runs to its end: until it has read the input that was available
    at its start. :meth:`settle` raises the errors of the query.
    """

    @explained(
        "ClockedQuery(panes, checkpoint=tmp_path)", {"checkpoint": "Name a folder for its checkpoint."}, "ClockedQuery"
    )
    def __init__(
        self,
        panes: DataFrame,
        *,
        checkpoint: str | os.PathLike[str],
        output_mode: str = "append",
        start_ms: int | None = None,
        drain: bool = False,
    ) -> None:
        self._spark = panes.sparkSession
        self._query: Any = jvm.start_clocked(panes, os.fspath(checkpoint), output_mode, start_ms, drain)
        self._last_batch = -1

    def settle(self) -> list[Row]:
        """Runs all batches that are due by the sources, the watermark and the clock, and returns their output rows."""
        self._query.settle()
        rows = jvm.output_since(self._query, self._last_batch, self._spark).collect()
        self._last_batch = max(self._last_batch, self._query.lastBatch())
        return rows

    def advance(self, by: Duration) -> None:
        """Moves the clock forward by ``by``, text or a ``timedelta``, in whole milliseconds."""
        us = durations.not_negative(by, "by", "advance({})")
        self._query.advanceMs(us // 1000)

    @property
    def progress(self) -> list[dict[str, Any]]:
        """The progress reports of the batches so far, Spark's ``StreamingQueryProgress`` as dicts, oldest first."""
        return [json.loads(report) for report in jvm.progress_of(self._query)]

    @property
    def session(self) -> SparkSession:
        """The Spark session of the query."""
        return self._spark

    @property
    def java_query(self) -> Any:
        """The query's object in the JVM."""
        return self._query.query()

    def stop(self) -> None:
        """Stops the query; its checkpoint stays."""
        self._query.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
