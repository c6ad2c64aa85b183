"""A system's run in a process of its own, with the processor time and the memory that it and its children took."""

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
    """A system's process ended with an error; the message has its last words."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What a system did on a workload. Milliseconds are those of its warm batches, ``rows`` what a batch has.

    ``parts`` are where a warm batch's time went, part by part the median, where the system says so. ``medians`` are
    those of several rounds, which the machine may have gone through at unlike speeds: among the batches of all rounds
    the median of one side may be of another round than that of the other. ``peaks_mb`` are the peaks of memory up to
    each of its turns.
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
        """Of a round; of several, the mean of theirs."""
        return statistics.mean(self.of_rounds)

    @property
    def rate(self) -> float:
        """Rows a second in the median warm batch."""
        return self.rows / self.median_ms * 1000

    def joined(self, other: Figures) -> Figures:
        """The figures of two runs. Of runs over more and fewer rows, that over more says what a whole run is."""
        if self.all_rows != other.all_rows:
            whole = max(self, other, key=lambda figures: figures.all_rows)
        else:
            whole = replace(
                self,
                whole_s=min(self.whole_s, other.whole_s),
                state_rows=max(self.state_rows, other.state_rows),
                cpu_s=statistics.mean((self.cpu_s, other.cpu_s)),
                peak_mb=max(self.peak_mb, other.peak_mb),
                peaks_mb=[max(peaks) for peaks in zip(self.peaks_mb, other.peaks_mb, strict=False)],
                parts={part: (ms + other.parts[part]) / 2 for part, ms in self.parts.items()},
            )
        return replace(whole, ms=[*self.ms, *other.ms], medians=[*self.of_rounds, *other.of_rounds])


class Watch(threading.Thread):
    """Looks at a session of processes four times a second: their time on processors, and their memory together.

    Memory counts of a process that was there at the last look too: one that a JVM is just starting has the JVM's own.
    """

    def __init__(self, session: int) -> None:
        super().__init__(daemon=True)
        self.session = session
        self.over = threading.Event()
        self.cpu: dict[int, float] = {}
        self.peak = 0

    def run(self) -> None:
        while not self.over.wait(0.25):
            self.look()

    def stop(self) -> None:
        """What the processes do from now on does not count."""
        self.over.set()
        self.join()

    def look(self) -> None:
        pages = 0
        known = set(self.cpu)
        for folder in Path("/proc").iterdir():
            if not folder.name.isdigit():
                continue
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == self.session:
                self.cpu[int(folder.name)] = (int(fields[11]) + int(fields[12])) / HERTZ
                if int(folder.name) in known:
                    pages += int(fields[21])
        self.peak = max(self.peak, pages * PAGE)


class Running:
    """A system on its way over a folder with so many rows. Raises ``Unavailable`` where it cannot run.

    One on Spark stops before each micro-batch until it has its next turn, so that systems can go batch by batch: a
    machine that is slow for a minute is slow for all of them then. Its last turn is for its answer and does not count.
    The others do not stop.
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
        """Waits until it stops for its next turn; whether it does. Raises ``Failed`` if it ends with an error."""
        assert self.process is not None
        if self.process.stops():
            return True
        if self.process.end():
            raise Failed(f"{self.system.title} failed on {self.workload.name}:\n{self.err.read_text()[-4000:]}")
        return False

    def go_on(self) -> None:
        """Has it take its next turn."""
        assert self.process is not None
        self.process.go_on()

    def command(self, script: Path) -> list[str]:
        command = [str(self.python), str(script), self.name, json.dumps(self.described()), str(self.folder)]
        return ["taskset", "-c", "0", *command] if self.workload.cores == 1 else command

    def described(self) -> dict[str, Any]:
        """The workload as JSON: all its fields."""
        return asdict(self.workload)

    def interrupt(self) -> None:
        """Ends it before its time, if it goes on yet."""
        if self.process:
            self.process.kill()

    def figures(self) -> Figures:
        """What it did, once it is done."""
        assert self.process is not None
        said = json.loads(self.out.read_text().splitlines()[-1])
        return figures(self.workload, self.rows, said, self.process)


class Process:
    """A process that is watched, and that may stop until it is told to go on (see ``turns.py``)."""

    def __init__(self, command: list[str], out: Path, err: Path, modules: str = MODULES) -> None:
        self.ends, says = os.pipe()
        with out.open("wb") as to_out, err.open("wb") as to_err:
            self.child = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=to_out,
                stderr=to_err,
                env={**os.environ, "PYTHONPATH": modules, TURNS: str(says)},
                pass_fds=[says],
                start_new_session=True,
            )
        # What the process says ends with it, once none else has this end.
        os.close(says)
        self.is_over = False
        self.peaks: list[int] = []
        self.watch = Watch(self.child.pid)
        self.watch.start()

    def go_on(self) -> None:
        assert self.child.stdin is not None
        self.child.stdin.write(b"\n")
        self.child.stdin.flush()

    def stops(self) -> bool:
        """Whether it stops for the next turn; if not, it has ended."""
        said = os.read(self.ends, 1)
        if said == MEASURED:
            self.watch.stop()
        if said:
            self.peaks.append(self.watch.peak)
        return said != b""

    def end(self) -> int:
        """Waits for its end; how it exited."""
        exit_code = self.child.wait()
        if not self.is_over:
            self.is_over = True
            self.watch.stop()
            os.close(self.ends)
            if self.child.stdin:
                self.child.stdin.close()
        return exit_code

    def kill(self) -> None:
        # Those of its own session do not hear that a run is interrupted.
        if self.child.poll() is None:
            os.killpg(self.child.pid, signal.SIGKILL)
        self.end()


def figures(workload: Workload, rows: int, said: dict[str, Any], process: Process) -> Figures:
    batches = said["batches"]
    if workload.rows_of == "open":
        warm = [batch for batch in batches if not batch["rows"]][workload.warm :]
    else:
        full = [batch for batch in batches if batch["rows"] > 1]
        warm = full[min(said.get("warm", workload.warm), len(full) // 2) :]
    return Figures(
        [batch["ms"] for batch in warm],
        warm[0]["rows"],
        said["whole_s"],
        rows,
        said["answer"],
        max((batch.get("state_rows", 0) for batch in batches), default=0),
        round(sum(process.watch.cpu.values()), 1),
        process.watch.peak >> 20,
        {part: statistics.median(batch["parts"][part] for batch in warm) for part in warm[0].get("parts", ())},
        peaks_mb=[peak >> 20 for peak in process.peaks],
    )
