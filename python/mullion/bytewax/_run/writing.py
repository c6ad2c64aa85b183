"""Writes a batch of a dataflow while the next one runs, where nothing is kept: what is lost is lost with all the rest.

::

    batch 7    tasks  collect | written by a thread
    batch 8                   | tasks  collect, waits for 7 | written by a thread
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

from pyspark.sql import DataFrame

from mullion.bytewax._run.sinks import Outputs


class Writing:
    """Writes batches to ``outputs``, one after another: ``beside`` the next batch, or before a batch has ended."""

    def __init__(self, outputs: Outputs, beside: bool) -> None:
        self._outputs = outputs
        self._thread = ThreadPoolExecutor(1, "mullion-sinks") if beside else None
        self._last: Future[None] | None = None

    def write(self, rows: DataFrame, batch: int) -> None:
        """Takes a batch; raises what the one before it raised."""
        found = rows.collect()
        if self._thread is None:
            self._outputs.write(found, batch)
            return
        self.wait()
        self._last = self._thread.submit(self._outputs.write, found, batch)

    @property
    def has_failed(self) -> bool:
        """Whether the batch that was taken last failed."""
        return self._last is not None and self._last.done() and self._last.exception() is not None

    def wait(self) -> None:
        """Waits until all is written that was taken; raises what that raised, as often as it is asked."""
        if self._last is not None:
            self._last.result()

    def join(self) -> None:
        """Waits until nothing is written any more, and takes no more."""
        if self._thread is not None:
            self._thread.shutdown()
