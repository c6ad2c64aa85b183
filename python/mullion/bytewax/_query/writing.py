"""Writes the batches of a dataflow in the program's thread, which builds, calls and closes the sinks, as in Bytewax.

Some objects, such as SQLite connections, are bound to the thread that created them. In a run without state, a batch is
written while tasks process the next one, because a crash of such a run loses all its data::

    batch 7    tasks  collect |
    program    reads sources  | writes 7         reads sources
    batch 8                   | tasks  collect, waits for 7 |
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Condition
from typing import Any

from pyspark.sql import DataFrame, Row

from mullion.bytewax._query.sinks import Outputs


class Writing:
    """Passes batches in order from Spark's thread, which calls :meth:`write`, to the program's thread.

    - ``beside``: True if a batch ends before it is written.
    """

    def __init__(self, outputs: Outputs, beside: bool) -> None:
        self.outputs = outputs
        self._beside = beside
        # An interrupted call may still run while another one stops the query.
        self._threads = ThreadPoolExecutor(2, "mullion-bytewax")
        self._changed = Condition()
        self._batch: tuple[list[Row], int] | None = None
        self._error: BaseException | None = None

    def write(self, rows: DataFrame, batch: int) -> None:
        """Passes a batch. Raises the error of writing it, or of the previous one if batches end before."""
        collected = rows.collect()
        with self._changed:
            self._changed.wait_for(self._is_idle)
            self.require_success()
            self._batch = collected, batch
            self._changed.notify_all()
            if not self._beside:
                self._changed.wait_for(self._is_idle)
                self.require_success()

    def _is_idle(self) -> bool:
        return self._batch is None or self._error is not None

    def write_next(self, seconds: float = 0) -> None:
        """Writes the batch that waits, or one that arrives within ``seconds``."""
        if self._batch is None and not seconds:
            return
        with self._changed:
            if self._batch is None:
                self._changed.wait(seconds)
        self._write()

    def write_during(self, call: Callable[[], Any]) -> None:
        """Runs a call in another thread, and writes all batches until it returns. Raises its error."""
        done = self._threads.submit(call)
        done.add_done_callback(self._wake)
        try:
            while not done.done() or self._batch is not None:
                with self._changed:
                    self._changed.wait_for(lambda: done.done() or self._batch is not None)
                self._write()
        except BaseException as interrupt:
            self._fail(interrupt)
            raise
        done.result()

    def close(self) -> None:
        """Closes the sinks, after the query has stopped."""
        try:
            self.outputs.close()
        finally:
            self._threads.shutdown()

    def _write(self) -> None:
        batch = self._batch
        if batch is None:
            return
        try:
            if self._error is None:
                self.outputs.write(*batch)
        except BaseException as error:
            self._error = error
            if not isinstance(error, Exception):
                raise
        finally:
            self._batch = None
            self._wake()

    def _fail(self, error: BaseException) -> None:
        self._error = error
        self._wake()

    def _wake(self, *_: object) -> None:
        with self._changed:
            self._changed.notify_all()

    @property
    def has_failed(self) -> bool:
        """True if a batch failed that had ended before. Otherwise :meth:`write` raises its error."""
        return self._beside and self._error is not None

    def require_success(self) -> None:
        """Raises the error of the batch that failed, if one did."""
        if self._error is not None:
            raise self._error
