"""Unit tests of Turbine programs: rows in, a clock that the test moves, outputs out. Nothing sleeps.

The program runs unchanged, in Spark, over topics in a folder of the test's own::

    from mullion.turbine import testing
    from shop import app

    def test_revenue_is_live_every_ten_seconds_and_final_at_the_close():
        with testing.run(app) as t:
            t.feed("orders", [{"region": "north", "amount": 5.0, "event_ts_ms": 1_000}])
            t.feed("orders", [{"region": "north", "amount": 7.0, "event_ts_ms": 301_000}])
            assert t.outputs("revenue_5m") == [...]
            t.advance(300_000)
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, final

from pyspark import cloudpickle

from mullion import topics
from mullion._program.runner import Running
from mullion._util.clock import ManualClock
from mullion.errors import InvalidArgumentError
from mullion.topics._records import Data
from mullion.turbine.app import App

__all__ = ["Trial", "run"]


@contextmanager
def run(app: App, *, start_ms: int = 0) -> Iterator[Trial]:
    """Runs ``app`` with empty topics and no state until the end of the ``with`` block, and then restores the App.

    ``start_ms``: the clock's start, milliseconds since the epoch.

    The App's own broker, checkpoint and clock are replaced during the block. Its classes are sent to the workers by
    value, so that workers need not import the test's module.
    """
    if not isinstance(app, App):
        raise InvalidArgumentError(f"testing.run({app!r}) runs a mullion.turbine.App.")
    home = Path(tempfile.mkdtemp(prefix="mullion-test-"))
    aside = app.broker, app.checkpoint, app.clock
    app.broker, app.checkpoint, app.clock = (
        topics.broker(f"dir:{home}"),
        home / "_apps" / app.name,
        ManualClock(start_ms),
    )
    named = {each.kind.__module__ for each in app.subscriptions} - {"__main__"}
    modules = [sys.modules[name] for name in named if name in sys.modules]
    for module in modules:
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    trial = Trial(app)
    try:
        yield trial
    finally:
        trial.stop()
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)  # type: ignore[no-untyped-call]
        app.broker, app.checkpoint, app.clock = aside
        shutil.rmtree(home, ignore_errors=True)


@final
class Trial:
    """A program under test; made by :func:`run`.

    The program processes rows, and raises its errors, when the test reads outputs or moves the clock. A part of the
    program starts when its topic has rows.
    """

    def __init__(self, app: App) -> None:
        self._app = app
        self._running: list[Running] = []
        self._waiting = list(app._checked_jobs())
        self._read: dict[str, int] = {}

    def feed(self, topic: str, data: Data, timestamps: Sequence[float] | None = None) -> None:
        """Produces rows to a topic, from dicts or an Arrow batch: one batch of the program.

        ``timestamps`` are those of the rows in the topic, in seconds since the epoch; by default the clock's.
        """
        self._app.broker.produce(topic, data, timestamps, clock=self._app.clock)

    def advance(self, ms: int) -> None:
        """Processes the rows so far, and then advances the clock by ``ms`` milliseconds."""
        self.settle()
        clock = self._app.clock
        assert isinstance(clock, ManualClock)
        clock.advance(f"{ms} milliseconds")

    def outputs(self, topic: str) -> list[dict[str, Any]]:
        """All rows that were published to a topic so far, in order, as dicts."""
        self.settle()
        rows: list[dict[str, Any]] = (
            topics.read(self._app.broker, topic).drop_columns(["_key", "_timestamp"]).to_pylist()
        )
        return rows

    def fresh(self, topic: str) -> list[dict[str, Any]]:
        """The rows that were published to a topic since the last call."""
        rows = self.outputs(topic)
        first, self._read[topic] = self._read.get(topic, 0), len(rows)
        return rows[first:]

    def settle(self) -> None:
        """Runs batches until all rows and clock ticks are processed."""
        while True:
            due = [job for job in self._waiting if self._has_rows(job.reads)]
            if due:
                self._waiting = [job for job in self._waiting if job not in due]
                self._running.append(Running(self._app, due))
            before = self._messages_published
            for running in self._running:
                running.settle()
            if self._messages_published == before and not due:
                return

    def restart(self) -> None:
        """Stops the program; it resumes from its checkpoint with the next step of the test."""
        self.stop()
        self._waiting = list(self._app._checked_jobs())
        self._running.clear()

    def stop(self) -> None:
        """Stops the program."""
        for running in self._running:
            running.stop()

    @property
    def _messages_published(self) -> int:
        return sum(sum(query.published.values()) for running in self._running for query in running.queries)

    def _has_rows(self, names: Sequence[str]) -> bool:
        return all(topics.read(self._app.broker, name).num_rows for name in names)
