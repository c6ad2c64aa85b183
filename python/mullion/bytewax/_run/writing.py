"""Writes a batch of a dataflow while the next one runs, where nothing is kept: what is lost is lost with all the rest.

::

    batch 7    tasks  collect | written by a thread
    batch 8                   | tasks  collect, waits for 7 | written by a thread
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from pyspark.sql import DataFrame

from mullion.bytewax._run.sinks import Outputs


class Writing:
    """Writes batches in order: during the next batch (``beside``), or before a batch ends.

    One thread builds, writes and closes the sinks: some objects, such as a connection of SQLite, belong to a thread.
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
        """Takes a batch; raises the error of the previous one."""
        found = rows.collect()
        self.wait()
        self._last = self._thread.submit(self.outputs.write, found, batch)
        if not self._beside:
            self.wait()

    @property
    def has_failed(self) -> bool:
        """Whether the last batch failed while the next one runs. Otherwise :meth:`write` raised its error."""
        return self._beside and self._last is not None and self._last.done() and self._last.exception() is not None

    def wait(self) -> None:
        """Waits until all is written that was taken; raises what that raised, as often as it is asked."""
        if self._last is not None:
            self._last.result()

    def close(self) -> None:
        """Closes the sinks once all batches are written."""
        try:
            self._thread.submit(self.outputs.close).result()
        finally:
            self._thread.shutdown()
