"""Streaming queries on a clock that the test moves: nothing sleeps, and every batch is the test's own.

A test writes rows to its source, calls :meth:`ClockedQuery.settle`, and looks at what came out::

    query = ClockedQuery(panes, checkpoint=tmp_path)
    write_rows(...)
    fired = query.settle()        # the rows of the batches that ran, as a list of Row
    query.advance("1 minute")     # wall time passes
    fired = query.settle()
    query.stop()

:class:`ManualClock` is such a clock for programs over topics.
"""

from __future__ import annotations

import json
import os
from types import TracebackType
from typing import Any, Self

from pyspark.sql import DataFrame, Row, SparkSession

from mullion import _durations, _jvm
from mullion._clock import ManualClock
from mullion._durations import Duration

__all__ = ["ClockedQuery", "ManualClock"]


class ClockedQuery:
    """A running query over ``panes``, with its output in memory.

    Its clock is Spark's own trigger clock: batch timestamps, and all that is read from them, follow it. It starts at
    ``start_ms`` milliseconds since the epoch and only :meth:`advance` moves it. Its first batch waits until it is
    first asked for anything, so rows that come before the first :meth:`settle` are in it. With the ``checkpoint`` of a
    query that was stopped it goes on where that one ended. Errors of the query are raised by :meth:`settle`.
    """

    def __init__(
        self,
        panes: DataFrame,
        *,
        checkpoint: str | os.PathLike[str],
        output_mode: str = "append",
        start_ms: int = 0,
    ) -> None:
        self._spark = panes.sparkSession
        self._query: Any = _jvm.start_clocked(panes, os.fspath(checkpoint), output_mode, start_ms)
        self._seen = -1

    def settle(self) -> list[Row]:
        """Runs every batch that the sources, the watermark and the clock ask for; the rows that they wrote."""
        self._query.settle()
        rows = _jvm.output_since(self._query, self._seen, self._spark).collect()
        self._seen = max(self._seen, self._query.lastBatch())
        return rows

    def advance(self, by: Duration) -> None:
        """Moves the clock forward by ``by``, as text or ``timedelta``; whole milliseconds."""
        us = _durations.not_negative(by, "by", "advance({})")
        self._query.advanceMs(us // 1000)

    @property
    def progress(self) -> list[dict[str, Any]]:
        """The progress reports of the batches so far, Spark's ``StreamingQueryProgress`` as dicts, oldest first."""
        return [json.loads(report) for report in _jvm.progress_of(self._query)]

    @property
    def session(self) -> SparkSession:
        """The session that it runs in."""
        return self._spark

    @property
    def java_query(self) -> Any:
        """The JVM's side of it."""
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
