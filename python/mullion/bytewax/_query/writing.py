"""Writes a batch of a dataflow while the next one runs. Only runs without state do so: a crash loses all their data.

::

    batch 7    tasks  collect | written by a thread
    batch 8                   | tasks  collect, waits for 7 | written by a thread
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from pyspark.sql import DataFrame

from mullion.bytewax._query.sinks import Outputs


class Writing:
    """Writes batches in order: during the next batch (``beside=True``), or before the batch ends.

    One thread builds, writes to and closes the sinks, because some objects, such as SQLite connections, are bound to a
    thread.
    """

    def __init__(self, make_outputs: Callable[[], Outputs], beside: bool) -> None:
        self._beside = beside
        self._thread = ThreadPoolExecutor(1, "mullion-sinks")
        try:
            self.outputs = self._thread.submit(make_outputs).result()
        except BaseException:
            self._thread.shutdown()
            raise
        self._last: Future[None] | None = None

    def write(self, rows: DataFrame, batch: int) -> None:
        """Writes a batch. Raises the error of the previous one."""
        found = rows.collect()
        self.wait()
        self._last = self._thread.submit(self.outputs.write, found, batch)
        if not self._beside:
            self.wait()

    @property
    def has_failed(self) -> bool:
        """True if writing the last batch in the background failed. Otherwise :meth:`write` raises its error."""
        return self._beside and self._last is not None and self._last.done() and self._last.exception() is not None

    def wait(self) -> None:
        """Waits until all batches are written. Raises the error of the last one, on each call."""
        if self._last is not None:
            self._last.result()

    def close(self) -> None:
        """Closes the sinks once all batches are written."""
        try:
            self._thread.submit(self.outputs.close).result()
        finally:
            self._thread.shutdown()
