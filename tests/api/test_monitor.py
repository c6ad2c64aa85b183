"""``monitor``: the table of a query, its place on the screen, and its end."""

from __future__ import annotations

import io
import re
import signal
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from mullion import Early, InvalidArgumentError, Tumbling, monitor, windowed
from mullion._native.monitor import Terminal, table_of

PROGRESS: dict[str, Any] = {
    "batchId": 17,
    "timestamp": "2024-01-01T12:25:30.500Z",
    "numInputRows": 1200,
    "durationMs": {"triggerExecution": 400},
    "eventTime": {"watermark": "2024-01-01T11:05:00.000Z"},
    "stateOperators": [
        {"customMetrics": {"panesOpen": 3, "firingsEarly": 1, "firingsClose": 2, "rowsLate": 4}},
        {"customMetrics": {"rocksdbCommitFlushLatency": 1}},
    ],
}


class FakeQuery(StreamingQuery):
    """A query whose batches are given; each wait for its end is one batch."""

    def __init__(self, *batches: dict[str, Any] | None, error: BaseException | None = None) -> None:
        self._batches = list(batches)
        self._error = error

    name = "clicks"

    @property
    def isActive(self) -> bool:
        return len(self._batches) > 1

    @property
    def lastProgress(self) -> Any:
        return self._batches[0]

    def awaitTermination(self, timeout: Any = None) -> Any:
        if len(self._batches) > 1:
            self._batches.pop(0)
        if self._error is not None and len(self._batches) == 1:
            raise self._error


def progress(**changes: Any) -> dict[str, Any]:
    return {**PROGRESS, **changes}


def test_the_table_has_the_batch_the_clock_and_the_panes() -> None:
    assert table_of(FakeQuery(PROGRESS), "running") == [
        ("query", "clicks, running"),
        ("batch", "17, 1200 rows in 0.4 seconds, 3000 rows per second"),
        ("clock", "2024-01-01T11:05:00.000Z, lag 1 hour 20 minutes"),
        ("panes", "3 open, fired 1 early and 2 close"),
        ("late", "4 rows"),
    ]
    assert table_of(FakeQuery(None), "running") == [("query", "clicks, running"), ("batch", "none yet")]
    # On processing time there is no watermark. Each window of a query has its lines.
    window = {"customMetrics": {"panesOpen": 0, "rowsLate": 1}}
    lines = table_of(FakeQuery(progress(eventTime={}, stateOperators=[window, window])), "running")
    assert [heading for heading, _ in lines] == ["query", "batch", "panes 0", "late 0", "panes 1", "late 1"]
    assert lines[-2:] == [("panes 1", "0 open, fired none"), ("late 1", "1 row")]


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_overwrites_its_table_and_cuts_long_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    screen = Screen()
    terminal = Terminal(screen)
    terminal.show([("query", "clicks, running"), ("batch", "x" * 40)])
    terminal.show([("query", "clicks, stopped")])
    first, second = screen.getvalue().split("\x1b[2F\x1b[J")
    assert first == "query  clicks, running\n"[:20] + "\n" + "batch  " + "x" * 13 + "\n"
    assert second == "query  clicks, stopped"[:20] + "\n"


def test_a_terminal_gets_each_update_and_a_file_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for out, tables in ((Screen(), 3), (io.StringIO(), 1)):
        monkeypatch.setattr(sys, "stdout", out)
        monitor(FakeQuery(None, progress(batchId=3), progress(batchId=4)))
        assert out.getvalue().count("query") == tables
        assert "batch  4," in out.getvalue().rpartition("clicks, stopped")[2]


def test_a_failed_query_raises_its_error_after_the_last_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", out := io.StringIO())
    with pytest.raises(InvalidArgumentError, match="the error of the query"):
        monitor(FakeQuery(None, PROGRESS, error=InvalidArgumentError("the error of the query")))
    assert out.getvalue().startswith("query  clicks, failed\n")


def test_an_interrupt_ends_the_watch_and_not_the_query(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(signal.SIGINT)
    # As PySpark does, which would cancel the jobs of the query.
    signal.signal(signal.SIGINT, lambda *_: pytest.fail("the handler of the session was called"))
    mine = signal.getsignal(signal.SIGINT)
    try:
        monkeypatch.setattr(sys, "stdout", out := io.StringIO())
        query = FakeQuery(None, PROGRESS, PROGRESS)
        monkeypatch.setattr(query, "awaitTermination", lambda *_: signal.raise_signal(signal.SIGINT))
        monitor(query)
        assert out.getvalue().startswith("query  clicks, not watched any more\n")
        assert query.isActive
        assert signal.getsignal(signal.SIGINT) is mine
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_notebook_replaces_the_output_of_the_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[tuple[str, dict[str, str]]] = []

    def display(content: dict[str, str], *, raw: bool, display_id: bool) -> Any:
        assert raw
        assert display_id
        shown.append(("new", content))
        return SimpleNamespace(update=lambda content, raw: shown.append(("update", content)))

    notebook = ModuleType("IPython")
    monkeypatch.setattr(notebook, "get_ipython", lambda: SimpleNamespace(kernel=1), raising=False)
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    monkeypatch.setitem(sys.modules, "IPython.display", ModuleType("IPython.display"))
    monkeypatch.setattr(sys.modules["IPython.display"], "display", display, raising=False)
    monitor(FakeQuery(None, PROGRESS))
    assert [kind for kind, _ in shown] == ["new", "update"]
    assert "<table" in shown[1][1]["text/html"]
    assert shown[1][1]["text/plain"].startswith("query  clicks, stopped\n")


def test_a_query_is_watched_to_its_end(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for minute in ("10:05", "10:40", "11:30", "10:55"):
        row = spark.createDataFrame([(f"2024-01-01 {minute}:00",)], "at string")
        row.coalesce(1).write.mode("append").json(str(tmp_path / "rows"))
    stream = spark.readStream.schema("at timestamp").option("maxFilesPerTrigger", 1).json(str(tmp_path / "rows"))
    panes = windowed(
        stream.withWatermark("at", "10 minutes"), Tumbling("1 hour"), time="at", early=Early(every="10 minutes")
    ).agg(F.count("*").alias("n"))
    writer = panes.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.queryName("watched").trigger(availableNow=True).start()
    monitor(query, every="50 milliseconds")
    assert not query.isActive
    lines = dict(line.split("  ", 1) for line in capsys.readouterr().out.splitlines())
    assert lines["query"] == "watched, stopped"
    assert re.fullmatch(r"2024-01-01T11:20:00\.000Z, lag \d+ days( \d+ (hour|minute|second)s?)?", lines["clock"])
    assert lines["panes"].startswith("1 open, fired ")


def test_anything_but_a_query_is_an_error() -> None:
    with pytest.raises(InvalidArgumentError, match=r"query='checkpoints/x' \(str\) is not a running query"):
        monitor("checkpoints/x")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match=r"every='0 seconds' is zero"):
        monitor(FakeQuery(None), every="0 seconds")
