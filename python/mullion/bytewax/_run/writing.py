"""Writes a batch of a dataflow while the next one runs, where nothing is kept: what is lost is lost with all the rest.

::

    batch 7    tasks  collect | written by a thread
    batch 8                   | tasks  collect, waits for 7 | written by a thread
"""

from __future__ import annotations

import threading

from pyspark.sql import DataFrame, Row

from mullion.bytewax._run.sinks import Outputs


class Writing:
    """Writes batches to ``outputs``, one after another: ``beside`` the next batch, or before a batch has ended."""

    def __init__(self, outputs: Outputs, beside: bool) -> None:
        self._outputs = outputs
        self._beside = beside
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def write(self, rows: DataFrame, batch: int) -> None:
        """Takes a batch; raises what the one before it raised."""
        found = rows.collect()
        self.wait()
        if not self._beside:
            self._outputs.write(found, batch)
            return
        self._thread = threading.Thread(target=self._write, args=(found, batch), name="mullion-sinks", daemon=True)
        self._thread.start()

    def _write(self, found: list[Row], batch: int) -> None:
        try:
            self._outputs.write(found, batch)
        except BaseException as error:
            self._error = error

    @property
    def has_failed(self) -> bool:
        """Whether the batch that was taken last failed."""
        return self._error is not None

    def wait(self) -> None:
        """Waits until all is written that was taken; raises what that raised, as often as it is asked."""
        self.join()
        if self._error is not None:
            raise self._error

    def join(self) -> None:
        """Waits until nothing is written any more."""
        # Both the thread of batches and the program's own wait.
        thread = self._thread
        if thread is not None:
            thread.join()
