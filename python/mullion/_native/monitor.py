"""A live table of a running query."""

from __future__ import annotations

import shutil
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, Protocol, TextIO, TypeAlias

from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from mullion._bridge.connect import is_remote
from mullion._util import durations, html
from mullion._util.durations import Duration
from mullion._util.signatures import explained
from mullion.errors import InvalidArgumentError, MullionError

Lines: TypeAlias = list[tuple[str, str]]


@explained("monitor(query)")
def monitor(query: StreamingQuery, *, every: Duration = "1 second") -> None:
    """Shows a small live table of a running query, until the query ends: batch, clock, open panes, firings, late rows.

    In a terminal and in a notebook the table is updated in place. Any other output, such as a file, gets the last table
    only. The call returns when the query stops, and raises the query's error if it fails. Press Ctrl-C, or interrupt
    the cell, to stop watching: the query continues.

    - ``query``: a running query.
    - ``every``: the time between two updates.

    The numbers are those of Spark's progress report of the last batch. *lag* is the time between the watermark and the
    start of that batch.

    Raises :class:`InvalidArgumentError` for anything but a query.

    >>> mullion.monitor(query)  # doctest: +SKIP
    query    clicks
    batch    17, 1200 rows in 0.4 seconds, 3000 rows per second
    clock    2024-01-01T11:05:00.000Z, lag 12 minutes
    panes    3 open, fired 1 early and 2 close
    late     4 rows
    """
    _require_query(query)
    seconds = durations.positive(every, "every", "monitor(query, every={})") / 1_000_000
    screen = _screen(sys.stdout)
    with _interruptible():
        try:
            while query.isActive:
                screen.show(table_of(query, "running"))
                query.awaitTermination(seconds)  # type: ignore[arg-type]  # a fraction is allowed
            query.awaitTermination()
        except KeyboardInterrupt:
            screen.show(table_of(query, "not watched any more"), is_last=True)
        except (MullionError, PySparkException):
            screen.show(table_of(query, "failed"), is_last=True)
            raise
        else:
            screen.show(table_of(query, "stopped"), is_last=True)


def _require_query(query: object) -> None:
    if not (isinstance(query, StreamingQuery) or is_remote(query)):
        raise InvalidArgumentError(
            f"query={query!r} ({type(query).__name__}) is not a running query. Pass the result of "
            "writeStream...start()."
        )


def table_of(query: StreamingQuery, state: str) -> Lines:
    """The table of a query, as pairs of a heading and a text."""
    lines: Lines = [("query", f"{query.name or query.id}, {state}")]
    progress: Any = query.lastProgress
    if progress is None:
        return [*lines, ("batch", "none yet")]
    rows, took = progress["numInputRows"], progress["durationMs"].get("triggerExecution", 0) / 1000
    rate = f", {rows / took:.0f} rows per second" if took else ""
    lines.append(("batch", f"{progress['batchId']}, {_counted(rows)} in {took:.1f} seconds{rate}"))
    watermark = (progress["eventTime"] or {}).get("watermark")
    if watermark is not None:
        lag = datetime.fromisoformat(progress["timestamp"]) - datetime.fromisoformat(watermark)
        lines.append(("clock", f"{watermark}, lag {_rounded(lag)}"))
    windows = [operator["customMetrics"] for operator in progress["stateOperators"]]
    windows = [metrics for metrics in windows if "panesOpen" in metrics]
    for number, metrics in enumerate(windows):
        suffix = f" {number}" if len(windows) > 1 else ""
        lines.append((f"panes{suffix}", f"{metrics['panesOpen']} open, fired {_firings(metrics)}"))
        lines.append((f"late{suffix}", _counted(metrics["rowsLate"])))
    return lines


def _counted(rows: int) -> str:
    return f"{rows} row{'s' * (rows != 1)}"


def _firings(metrics: Mapping[str, int]) -> str:
    kinds = {"early": "Early", "on time": "OnTime", "update": "Update", "running": "Running", "close": "Close"}
    counts = {kind: metrics.get(f"firings{name}", 0) for kind, name in kinds.items()}
    return " and ".join(f"{count} {kind}" for kind, count in counts.items() if count) or "none"


def _rounded(lag: timedelta) -> str:
    """The two largest units are enough."""
    text = durations.written(int(lag.total_seconds()) * 1_000_000)
    return " ".join(text.split()[:4])


class _Screen(Protocol):
    def show(self, lines: Lines, *, is_last: bool = False) -> None: ...


def _screen(out: TextIO) -> _Screen:
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is not None and hasattr(shell, "kernel"):
        return NotebookCell()
    return Terminal(out) if out.isatty() else Log(out)


def text_of(lines: Lines) -> list[str]:
    """The table as aligned lines of text."""
    width = max(len(heading) for heading, _ in lines)
    return [f"{heading.ljust(width)}  {text}" for heading, text in lines]


class Terminal:
    """Overwrites its last table."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._height = 0

    def show(self, lines: Lines, *, is_last: bool = False) -> None:
        """Replaces the table. A line that wraps would be more than one line of the screen, so it is cut."""
        columns = shutil.get_terminal_size().columns
        up = f"\x1b[{self._height}F\x1b[J" if self._height else ""
        self._out.write(up + "".join(f"{line[:columns]}\n" for line in text_of(lines)))
        self._out.flush()
        self._height = len(lines)


class Log:
    """Writes the last table only."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def show(self, lines: Lines, *, is_last: bool = False) -> None:
        """Writes the table if it is the last one."""
        if is_last:
            self._out.write("".join(f"{line}\n" for line in text_of(lines)))
            self._out.flush()


class NotebookCell:
    """Replaces the output of the cell."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, lines: Lines, *, is_last: bool = False) -> None:
        """Displays the table, the first time as a new output."""
        from IPython.display import display  # type: ignore[import-not-found,unused-ignore]

        content = {"text/html": html.table(lines), "text/plain": "\n".join(text_of(lines))}
        if self._handle is None:
            self._handle = display(content, raw=True, display_id=True)
        else:
            self._handle.update(content, raw=True)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Lets Ctrl-C raise :class:`KeyboardInterrupt` only. PySpark's handler also cancels all jobs, the query's too."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
