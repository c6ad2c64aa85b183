"""Whole programs as their users run them, by the command in processes of their own: started twice, and killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mullion import topics
from tests.support.kafka.kafka_connector import connector_jars
from tests.support.kafka.kafka_server import KafkaServer
from tests.support.killing import environment

pytestmark = pytest.mark.slow

COMMAND = Path(sys.executable).with_name("mullion")

SESSION = """
import time
from pathlib import Path

from pyspark import TaskContext

from tests.support.killing import session_of_its_own

HOME = Path({home!r})
# Workers import the program too.
spark = None if TaskContext.get() else session_of_its_own(HOME, jars=map(Path, {jars!r}))


def take_long():
    if (HOME / "held").exists():
        (HOME / "in a batch").touch()
        while (HOME / "held").exists():
            time.sleep(0.05)

"""

TURBINE = (
    SESSION
    + """
import pyarrow as pa

import mullion.turbine as turbine
from mullion.turbine import aggregates as agg
from mullion.turbine import windowing as win

app = turbine.App("shop", broker={broker!r}, checkpoint=HOME / "checkpoint", spark=spark)


@app.subscribe("orders", publish_to="revenue")
class revenue:
    def __init__(self):
        self._win = win.PersistentTumbling(
            self, name="revenue", size_ms=10_000, key=["region"], value=agg.Sum("amount"), time_column="ts",
            on_close_each=self._closed,
        )

    def _closed(self, state, window, value):
        take_long()
        return pa.RecordBatch.from_pylist([{{**window.group, "start": window.start_ms, "total": value}}])

    def process(self, batch, state):
        self._win.update(batch, state)
"""
)

FAUST = (
    SESSION
    + """
import mullion.faust as faust

app = faust.App("site", broker={broker!r}, checkpoint=HOME / "checkpoint", spark=spark)
visits = app.Table("visits", default=int).tumbling(10.0)
counted = app.topic("counted")


@app.agent(app.topic("orders"), sink=[counted])
async def count(stream):
    async for event in stream:
        take_long()
        visits[event["region"]] += 1
        yield {{"region": event["region"], "ts": event["ts"], "visits": visits[event["region"]].value()}}
"""
)


class Programs:
    """The processes of one program, the last of which are killed at the end."""

    def __init__(self, home: Path, text: str, broker: str, command: list[str], jars: list[Path]) -> None:
        (home / "program.py").write_text(text.format(home=str(home), broker=broker, jars=list(map(str, jars))))
        self._home = home
        self._command = [str(COMMAND), *command]
        self._running: list[subprocess.Popen[str]] = []

    def start(self, *more: str) -> subprocess.Popen[str]:
        number = len(self._running)
        with (self._home / f"errors {number}").open("w") as errors:
            process = subprocess.Popen(
                [*self._command, *more],
                cwd=self._home,
                env=environment(),
                stdout=subprocess.DEVNULL,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
        self._running.append(process)
        return process

    def errors(self, process: subprocess.Popen[str]) -> str:
        return (self._home / f"errors {self._running.index(process)}").read_text()

    def until(self, process: subprocess.Popen[str], condition: Callable[[], bool]) -> None:
        """Waits for what a process is to come to."""
        while not condition():
            with contextlib.suppress(subprocess.TimeoutExpired):
                raise AssertionError(f"it ended with {process.wait(timeout=0.2)}: {self.errors(process)[-4000:]}")

    def run(self, *more: str) -> tuple[int, str]:
        """Its exit code, and what it said."""
        process = self.start(*more)
        return process.wait(timeout=300), self.errors(process)

    def succeeds(self, *more: str) -> None:
        code, output = self.run(*more)
        assert code == 0, output[-4000:]

    def kill(self, process: subprocess.Popen[str]) -> None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def end(self) -> None:
        for process in self._running:
            if process.poll() is None:
                self.kill(process)
        # Workers are in a group of their own.
        (self._home / "held").unlink(missing_ok=True)


@contextlib.contextmanager
def programs(
    home: Path, text: str, broker: str, command: list[str], jars: list[Path] | None = None
) -> Iterator[Programs]:
    these = Programs(home, text, broker, command, jars or [])
    try:
        yield these
    finally:
        these.end()


def feed(broker: str, first: int, last: int) -> list[dict[str, Any]]:
    """A row each second, in calls of five seconds."""
    fed_rows = []
    for start in range(first, last, 5):
        numbers = range(start, min(start + 5, last))
        rows: list[dict[str, Any]] = [{"region": "ab"[n % 2], "amount": n, "ts": 1_000 * n} for n in numbers]
        topics.produce(broker, "orders", rows, timestamps=[float(n) for n in numbers])
        fed_rows += rows
    return fed_rows


def messages_in(broker: str, topic: str) -> list[dict[str, Any]]:
    table = topics.read(broker, topic)
    return [dict(row) for row in table.drop_columns(["_key", "_timestamp"]).to_pylist()] if table.num_rows else []


def panes_of(rows: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    """Each of their panes of ten seconds, once."""
    sums: Counter[tuple[str, int]] = Counter()
    for row in rows:
        sums[row["region"], row["ts"] // 10_000 * 10_000] += row["amount"]
    return Counter((region, start, total) for (region, start), total in sums.items())


def refused_until_the_first_is_killed(these: Programs, home: Path, broker: str, topic: str) -> list[dict[str, Any]]:
    """The rows that the program was given."""
    rows = feed(broker, 1, 20)
    first = these.start()
    these.until(first, lambda: len(messages_in(broker, topic)) > 1)
    # While it waits for rows, and while it is in a batch.
    require_refused(these, first, "--until", "drained")
    (home / "held").touch()
    # A quiet topic's clock has gone on by the time that the other one took.
    rows += feed(broker, 1000, 1020)
    these.until(first, (home / "in a batch").exists)
    before = messages_in(broker, topic)
    require_refused(these, first)
    assert messages_in(broker, topic) == before

    these.kill(first)
    (home / "held").unlink()
    these.succeeds("--until", "drained")
    return rows


def require_refused(these: Programs, first: subprocess.Popen[str], *more: str) -> None:
    code, output = these.run(*more)
    assert code == 1, output[-4000:]
    assert f"is run by process {first.pid} on " in output
    assert "two at once would publish its batches twice. Stop that one first" in output
    assert "Traceback" not in output
    assert first.poll() is None, these.errors(first)[-4000:]


@pytest.mark.parametrize("kind", ["dir", pytest.param("kafka", marks=pytest.mark.xdist_group("kafka"))])
def test_a_second_instance_of_a_turbine_program_is_rejected_and_once_the_first_is_killed_each_pane_is_there_once(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    server: KafkaServer | None = request.getfixturevalue("kafka") if kind == "kafka" else None
    broker = server.url if server else f"dir:{tmp_path / 'topics'}"
    connector = connector_jars() if server else []
    with programs(tmp_path, TURBINE, broker, ["turbine", "run", "program:app"], connector) as these:
        rows = refused_until_the_first_is_killed(these, tmp_path, broker, "revenue")
        feed(broker, 2000, 2005)
        these.succeeds("--until", "drained")
        # A clock by which those of the last rows close too is as good.
        published = [row for row in messages_in(broker, "revenue") if row["start"] < 2_000_000]
        assert Counter((row["region"], row["start"], row["total"]) for row in published) == panes_of(rows)
        assert len(published) == 8


def test_a_second_instance_of_a_faust_program_is_rejected_and_once_the_first_is_killed_each_event_is_counted_once(
    tmp_path: Path,
) -> None:
    broker = f"dir:{tmp_path / 'topics'}"
    with programs(tmp_path, FAUST, broker, ["faust", "worker", "-A", "program:app"]) as these:
        rows = refused_until_the_first_is_killed(these, tmp_path, broker, "counted")
        rows += feed(broker, 2000, 2015)
        these.succeeds("--until", "drained")

    visits: Counter[tuple[str, int]] = Counter()
    expected = []
    for row in rows:
        visits[row["region"], row["ts"] // 10_000] += 1
        expected.append(
            {"region": row["region"], "ts": row["ts"], "visits": visits[row["region"], row["ts"] // 10_000]}
        )
    assert sorted(messages_in(broker, "counted"), key=lambda row: row["ts"]) == expected
