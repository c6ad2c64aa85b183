"""Runs the queries of a program: start, wait, stop.

If one query fails, the others are stopped. Stopping waits for the running micro-batch, because an interrupted batch
would have to run again.

One process runs a query at a time: another raises an error before it plans a batch. Of two that plan the same batch,
Spark would fail the later one, which may be the process that ran first.

``drained`` repeats rounds until no query has published rows that another one reads::

    round 1     clean: orders -> cleaned        totals: cleaned -> totals (nothing there yet)
    round 2                                     totals: the rows of clean
    round 3     no new rows
"""

from __future__ import annotations

import json
import logging
import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any, Self

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame

from mullion._bridge import jvm
from mullion._program.host import Host
from mullion._program.jobs import Job
from mullion._program.part_names import folder_name
from mullion._program.started import StartedQuery
from mullion._util.clock import ManualClock
from mullion._util.durations import Duration
from mullion.errors import InvalidArgumentError, MullionError
from mullion.topics import _leases

log = logging.getLogger("mullion")

_POLL_SECONDS = 0.05


class Query(StartedQuery):
    """A running job."""

    def __init__(self, app: Host, job: Job, *, drain: bool) -> None:
        self.job = job
        self._publisher = job.publisher(app) if job.publisher else app.broker.publisher(app.clock)
        self._lease = app.checkpoint.absolute() / "_running" / f"{folder_name(job.name)}.lock"
        _leases.take(self._lease, self, f"{app.name}.{job.name}", done="run")
        try:
            super().__init__(
                job.name,
                f"{app.name}.{job.name}",
                app.folder_of(job.name),
                app.clock,
                lambda: job.build(app.spark),
                self._publish,
                drain=drain,
            )
        except BaseException:
            _leases.release(self._lease, self)
            raise

    def mended(self, failure: BaseException) -> bool:
        """Restarts the query if its job can adapt to ``failure``. Returns whether it did."""
        if self.query.exception() is not None:
            # Waits for the very end, so that the last batch's work can be inspected.
            with suppress(StreamingQueryException, MullionError):
                self.query.awaitTermination()
        if self.job.mend is None or not self.job.mend(failure):
            return False
        self.start()
        return True

    @property
    def published(self) -> dict[str, int]:
        """The number of rows published to each topic since its start."""
        return dict(self._publisher.published)

    def _publish(self, outputs: DataFrame, batch: int) -> None:
        if self.job.publish is None:
            self._publisher.publish(outputs, batch)
        else:
            self.job.publish(self._publisher, outputs, batch)

    def flush(self) -> None:
        """Waits until readers see the published rows."""
        self._publisher.flush()

    def stop_after_batch(self) -> None:
        """Stops the query after the running batch."""
        batch = self._last_batch()
        while self.query.isActive and self.query.status["isTriggerActive"] and self._last_batch() == batch:
            time.sleep(_POLL_SECONDS)
        self.query.stop()
        self._publisher.close()
        _leases.release(self._lease, self)

    def _last_batch(self) -> int | None:
        return jvm.last_batch_of(self.query)

    @property
    def progress(self) -> list[dict[str, Any]]:
        """The progress reports of its batches, Spark's ``StreamingQueryProgress`` as dicts, oldest first."""
        return [json.loads(report) for report in jvm.reports_of(self.query)]


class Running:
    """The queries of a started program.

    On a ``ManualClock`` :meth:`settle` runs all batches that rows and clock require, :meth:`advance` moves the clock.
    """

    def __init__(self, app: Host, jobs: Sequence[Job], *, drain: bool = False) -> None:
        self._app = app
        self.queries: list[Query] = []
        try:
            for job in jobs:
                query = Query(app, job, drain=drain)
                self.queries.append(query)
                app.queries[job.name] = query
        except BaseException:
            self.stop()
            raise

    def settle(self) -> None:
        """Runs all batches for existing rows and for rows of other queries; raises a query's error."""
        while True:
            before = self._published_within()
            for query in self.queries:
                self._settle(query)
            if self._published_within() == before:
                return

    def _settle(self, query: Query) -> None:
        while True:
            try:
                query.query.processAllAvailable()
                query.flush()
                return
            except Exception as error:
                failure = query.failure() or error
                if not query.mended(failure):
                    self._fail(failure)

    def advance(self, by: Duration) -> None:
        """Moves the program's clock, which must be a ``ManualClock``, by text or ``timedelta``; whole milliseconds."""
        if not isinstance(self._app.clock, ManualClock):
            raise InvalidArgumentError(
                f"{self._app!r} runs on the machine's clock, which nobody moves. Give it clock=ManualClock()."
            )
        self._app.clock.advance(by)

    def wait(self, asked_to_stop: Callable[[], bool] = lambda: False) -> None:
        """Returns when all queries have ended, or on request; raises the error of one that failed."""
        while any(query.query.isActive for query in self.queries) and not asked_to_stop():
            self.raise_failure()
            time.sleep(_POLL_SECONDS)
        # A failed query may have been restarted meanwhile.
        if self.raise_failure():
            self.wait(asked_to_stop)

    def raise_failure(self) -> bool:
        """Stops all and raises the error of a failed query, if any. Returns whether one has been restarted."""
        mended = False
        for query in self.queries:
            if not query.query.isActive:
                failure = query.failure()
                if failure is None:
                    continue
                if not query.mended(failure):
                    self._fail(failure)
                mended = True
        return mended

    def _fail(self, failure: Exception) -> None:
        self.stop()
        raise failure

    def stop(self) -> None:
        """Stops all queries, each after its running batch."""
        for query in self.queries:
            query.stop_after_batch()

    def published(self, topics: frozenset[str]) -> set[str]:
        """The topics among these that got rows from these queries."""
        return {topic for query in self.queries for topic, rows in query.published.items() if rows and topic in topics}

    def _published_within(self) -> int:
        read = {topic for query in self.queries for topic in query.job.reads}
        return sum(rows for query in self.queries for topic, rows in query.published.items() if topic in read)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def drain(app: Host, jobs: Sequence[Job]) -> None:
    """Runs all jobs until there are no more rows, including those that they publish for one another."""
    _start_session(app)
    read = frozenset(topic for job in jobs for topic in job.reads)
    due: Sequence[Job] = jobs
    with Signals() as signals:
        while due and not signals.to_stop():
            now = _first(due) if app.in_order else due
            running = Running(app, now, drain=True)
            try:
                running.wait(signals.to_stop)
            finally:
                running.stop()
            fresh = running.published(read)
            due = [job for job in jobs if fresh.intersection(job.reads) or (job in due and job not in now)]


def _first(due: Sequence[Job]) -> Sequence[Job]:
    """The jobs whose topics no other job may still extend; all of them in a cycle."""
    first = [
        job for job in due if not any(set(other.publishes).intersection(job.reads) for other in due if other is not job)
    ]
    return first or due


def serve(app: Host, jobs: Sequence[Job]) -> None:
    """Runs all jobs until it is asked to stop."""
    _start_session(app)
    with Signals() as signals, Running(app, jobs) as running:
        running.wait(signals.to_stop)
        if signals.to_stop():
            log.info("%s stops after the batches that run.", app.name)


def _start_session(app: Host) -> None:
    # Before signals are handled, because a new session handles SIGINT itself.
    _ = app.spark


class Signals:
    """SIGINT and SIGTERM as a request to stop; a second one ends the program. Only the main thread gets signals."""

    def __init__(self) -> None:
        self._stop_request = threading.Event()
        self._before: dict[signal.Signals, Any] = {}

    def to_stop(self) -> bool:
        """True after a signal."""
        return self._stop_request.is_set()

    def _ask(self, number: int, _frame: FrameType | None) -> None:
        self._stop_request.set()
        self._restore()

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()

    def _restore(self) -> None:
        while self._before:
            number, handler = self._before.popitem()
            signal.signal(number, handler)
