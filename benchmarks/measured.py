"""A contender's run in a process of its own, with the processor time and the memory that it and its children took."""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import tempfile
import threading
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from environments import CONTENDERS, ROOT, Contender
from workloads import Workload

HERTZ = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


class Failed(Exception):  # noqa: N818
    """A contender's process ended with an error; the message has its last words."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What a contender did on a workload. Milliseconds are those of its warm batches, ``rows`` what a batch has.

    ``parts`` are where a warm batch's time went, part by part the median, where the contender says so.
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

    @property
    def median_ms(self) -> float:
        return statistics.median(self.ms)

    @property
    def rate(self) -> float:
        """Rows a second in the median warm batch."""
        return self.rows / self.median_ms * 1000

    def joined(self, other: Figures) -> Figures:
        """The figures of two runs. Of runs over more and fewer rows, that over more says what a whole run is."""
        if self.all_rows != other.all_rows:
            longer = max(self, other, key=lambda figures: figures.all_rows)
            return replace(longer, ms=[*self.ms, *other.ms])
        return replace(
            self,
            ms=[*self.ms, *other.ms],
            whole_s=min(self.whole_s, other.whole_s),
            state_rows=max(self.state_rows, other.state_rows),
            cpu_s=statistics.mean((self.cpu_s, other.cpu_s)),
            peak_mb=max(self.peak_mb, other.peak_mb),
            parts={part: (ms + other.parts[part]) / 2 for part, ms in self.parts.items()},
        )


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


def measure(name: str, workload: Workload, rows: int, folder: Path) -> Figures:
    """Runs a contender over a folder with so many rows. Raises ``Failed``, or ``Unavailable`` where it cannot run."""
    contender = CONTENDERS[name]
    script = ROOT / "benchmarks" / "contenders" / contender.script
    command = [str(contender.python()), str(script), name, json.dumps(asdict(workload)), str(folder)]
    if workload.cores == 1:
        command = ["taskset", "-c", "0", *command]
    modules = os.pathsep.join(str(ROOT / part) for part in ("benchmarks", "tests/python"))
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env={**os.environ, "PYTHONPATH": modules},
            start_new_session=True,
        )
        watch = Watch(child.pid)
        watch.start()
        try:
            child.wait()
        finally:
            # Those of its own session do not hear that a run is interrupted.
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
            watch.over.set()
            watch.join()
        out.seek(0)
        err.seek(0)
        if child.returncode:
            raise Failed(f"{contender.title} failed on {workload.name}:\n{err.read()[-4000:]}")
        said = json.loads(out.read().splitlines()[-1])
    return figures(contender, workload, rows, said, watch)


def figures(contender: Contender, workload: Workload, rows: int, said: dict[str, Any], watch: Watch) -> Figures:
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
        round(sum(watch.cpu.values()), 1),
        watch.peak >> 20,
        {part: statistics.median(batch["parts"][part] for batch in warm) for part in warm[0].get("parts", ())},
    )
