"""The run of one system in a separate process, with the processor time and the memory of its process tree."""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import threading
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.environments import ROOT, SYSTEMS
from harness.turns import MEASURED, TURNS
from harness.workloads import Workload

HERTZ = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
MODULES = os.pathsep.join(str(ROOT / part) for part in ("benchmarks", "."))


class Failed(Exception):  # noqa: N818
    """A system's process ended with an error; the message has the end of its log."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a system on a workload: milliseconds of its warm batches, and the ``rows`` of a batch.

    ``parts`` has the median of each part of a warm batch, if the system reports parts. ``medians`` has one median per
    round: the machine's speed may differ between rounds, so the median over all batches could come from one round for
    one side and from another round for the other. ``peaks_mb`` has the peak of memory up to each turn.
    """

    ms: list[float]
    rows: int
    whole_s: float
    all_rows: int
    answer: dict[str, int]
    state_rows: int
    cpu_s: float
    peak_mb: int
    parts: dict[str, float]
    medians: list[float] = field(default_factory=list)
    peaks_mb: list[int] = field(default_factory=list)

    @property
    def of_rounds(self) -> list[float]:
        return self.medians or [statistics.median(self.ms)]

    @property
    def median_ms(self) -> float:
        """The median of a round, or the mean of the medians of several rounds."""
        return statistics.mean(self.of_rounds)

    @property
    def rate(self) -> float:
        """Rows per second in the median warm batch."""
        return self.rows / self.median_ms * 1000

    def joined(self, other: Figures) -> Figures:
        """The figures of two runs together. Totals are those of the run with more rows, or of both."""
        if self.all_rows != other.all_rows:
            total = max(self, other, key=lambda figures: figures.all_rows)
        else:
            total = replace(
                self,
                whole_s=min(self.whole_s, other.whole_s),
                state_rows=max(self.state_rows, other.state_rows),
                cpu_s=statistics.mean((self.cpu_s, other.cpu_s)),
                peak_mb=max(self.peak_mb, other.peak_mb),
                peaks_mb=[max(peaks) for peaks in zip(self.peaks_mb, other.peaks_mb, strict=False)],
                parts={part: (ms + other.parts[part]) / 2 for part, ms in self.parts.items()},
            )
        return replace(total, ms=[*self.ms, *other.ms], medians=[*self.of_rounds, *other.of_rounds])


class Watch(threading.Thread):
    """Samples the processor time and the total memory of a session of processes four times per second.

    A process counts towards memory from its second sample on: a process that a JVM has just forked reports the memory
    of the JVM.
    """

    def __init__(self, session: int) -> None:
        super().__init__(daemon=True)
        self.session = session
        self.stopped = threading.Event()
        self.cpu: dict[int, float] = {}
        self.peak = 0

    def run(self) -> None:
        while not self.stopped.wait(0.25):
            self.look()

    def stop(self) -> None:
        """Stops sampling. Later work of the processes does not count."""
        self.stopped.set()
        self.join()

    def look(self) -> None:
        pages = 0
        earlier_pids = set(self.cpu)
        for folder in Path("/proc").iterdir():
            if not folder.name.isdigit():
                continue
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == self.session:
                self.cpu[int(folder.name)] = (int(fields[11]) + int(fields[12])) / HERTZ
                if int(folder.name) in earlier_pids:
                    pages += int(fields[21])
        self.peak = max(self.peak, pages * PAGE)


class Running:
    """A system that processes the rows of a folder. Raises ``Unavailable`` if it cannot run here.

    A system on Spark waits for its turn before each micro-batch, so that systems alternate batch by batch: if the
    machine is slow for a minute, it is slow for all of them. Its last turn computes the answer and is not measured.
    Other systems do not wait.
    """

    def __init__(self, name: str, workload: Workload, rows: int, folder: Path) -> None:
        self.name, self.workload, self.rows, self.folder = name, workload, rows, folder
        self.system = SYSTEMS[name]
        self.python = self.system.python()
        self.out, self.err = (folder.parent / f"{name}-{rows}.{kind}" for kind in ("out", "err"))
        self.process: Process | None = None

    def start(self) -> None:
        script = ROOT / "benchmarks" / "systems" / self.system.script
        self.process = Process(self.command(script), self.out, self.err)

    def turn(self) -> bool:
        """Waits for the next turn. Returns False if the system has ended. Raises ``Failed`` on an error."""
        assert self.process is not None
        if self.process.is_waiting():
            return True
        if self.process.end():
            raise Failed(f"{self.system.title} failed on {self.workload.name}:\n{self.err.read_text()[-4000:]}")
        return False

    def resume(self) -> None:
        """Starts the next turn."""
        assert self.process is not None
        self.process.resume()

    def command(self, script: Path) -> list[str]:
        command = [str(self.python), str(script), self.name, json.dumps(self.workload_fields()), str(self.folder)]
        return ["taskset", "-c", "0", *command] if self.workload.cores == 1 else command

    def workload_fields(self) -> dict[str, Any]:
        """The workload as JSON: all its fields."""
        return asdict(self.workload)

    def interrupt(self) -> None:
        """Kills the process if it is still running."""
        if self.process:
            self.process.kill()

    def figures(self) -> Figures:
        """The figures, after the system has ended."""
        assert self.process is not None
        report = json.loads(self.out.read_text().splitlines()[-1])
        return figures(self.workload, self.rows, report, self.process)


class Process:
    """A measured process, which may wait for its turns (see ``turns.py``)."""

    def __init__(self, command: list[str], out: Path, err: Path, modules: str = MODULES) -> None:
        self.messages, child_end = os.pipe()
        with out.open("wb") as to_out, err.open("wb") as to_err:
            self.child = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=to_out,
                stderr=to_err,
                env={**os.environ, "PYTHONPATH": modules, TURNS: str(child_end)},
                pass_fds=[child_end],
                start_new_session=True,
            )
        # The pipe ends with the process if nobody else holds its writing end.
        os.close(child_end)
        self.has_ended = False
        self.peaks: list[int] = []
        self.watch = Watch(self.child.pid)
        self.watch.start()

    def resume(self) -> None:
        assert self.child.stdin is not None
        self.child.stdin.write(b"\n")
        self.child.stdin.flush()

    def is_waiting(self) -> bool:
        """True if the process waits for its next turn, False if it has ended."""
        message = os.read(self.messages, 1)
        if message == MEASURED:
            self.watch.stop()
        if message:
            self.peaks.append(self.watch.peak)
        return message != b""

    def end(self) -> int:
        """Waits for the end of the process. Returns its exit code."""
        exit_code = self.child.wait()
        if not self.has_ended:
            self.has_ended = True
            self.watch.stop()
            os.close(self.messages)
            if self.child.stdin:
                self.child.stdin.close()
        return exit_code

    def kill(self) -> None:
        # The process has a session of its own, which the signal of an interrupted run does not reach.
        if self.child.poll() is None:
            os.killpg(self.child.pid, signal.SIGKILL)
        self.end()


def figures(workload: Workload, rows: int, report: dict[str, Any], process: Process) -> Figures:
    batches = report["batches"]
    if workload.rows_of == "open":
        warm = [batch for batch in batches if not batch["rows"]][workload.warm :]
    else:
        full = [batch for batch in batches if batch["rows"] > 1]
        warm = full[min(report.get("warm", workload.warm), len(full) // 2) :]
    return Figures(
        [batch["ms"] for batch in warm],
        warm[0]["rows"],
        report["whole_s"],
        rows,
        report["answer"],
        max((batch.get("state_rows", 0) for batch in batches), default=0),
        round(sum(process.watch.cpu.values()), 1),
        process.watch.peak >> 20,
        {part: statistics.median(batch["parts"][part] for batch in warm) for part in warm[0].get("parts", ())},
        peaks_mb=[peak >> 20 for peak in process.peaks],
    )
