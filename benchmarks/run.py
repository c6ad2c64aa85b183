"""``make bench`` and ``make bench-full``: Mullion and its peers over the same rows in one run, answers compared.

    run.py [--full] [--rounds N] [--keep [--again]] [--only PATTERN]... [--by CONTENDER]... [--share PART]

``--full`` takes millions of keys, the slow peers and the curves. ``--keep`` writes what is found to
``benchmarks/results``, the README and ``docs/performance.md``, beside what is kept of other workloads and of other
machines; with ``--again`` as further rounds of what is kept of the same workloads on this machine. ``--only`` takes the
workloads in whose names the pattern is found. The rest is for trying things out: ``--by`` takes a contender,
``--share`` a part of each batch's rows.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from rich.console import Console

import curves
import report
import workloads
from environments import CONTENDERS, Unavailable
from measured import Failed, Figures, measure
from rows import write
from workloads import Workload

JUDGE = "duckdb"


# It makes a row of each slice for each of its windows.
MOST_FOR_THE_JUDGE = 200_000_000


def judged(workload: Workload, rows: int) -> bool:
    """Whether DuckDB answers the same question. Where it does not, contenders are compared with one another."""
    if workload.rows_of in ("open", "nexmark") or workload.rows <= 100 or not workload.ends:
        return False
    seconds = workload.span * rows // workload.rows
    return min(rows, seconds * workload.keys) * workload.overlaps <= MOST_FOR_THE_JUDGE


class Run:
    """What each contender did on each workload, and what went wrong."""

    def __init__(self, scratch: Path, console: Console) -> None:
        self.scratch, self.console = scratch, console
        self.found: report.Found = {}
        self.wrong: list[str] = []

    def take(self, workload: Workload, rounds: int) -> None:
        """All contenders in turns, round by round."""
        found = self.found.setdefault(workload.name, {})
        answers: dict[int, dict[str, dict[str, int]]] = {}
        judge: dict[int, Figures | None] = {}
        folder = self.scratch / re.sub(r"\W+", "-", workload.name)
        for _ in range(rounds):
            for name, rows in workload.takes.items():
                files = folder / str(rows)
                if rows not in answers:
                    write(workload, rows, files)
                    # Else the first contender runs while the rows are still being written to disk.
                    os.sync()
                    answers[rows] = {}
                    if judged(workload, rows):
                        judge[rows] = self.measure(JUDGE, workload, rows, files, answers[rows])
                again = name != JUDGE or rows not in judge
                figures = self.measure(name, workload, rows, files, answers[rows]) if again else judge[rows]
                if figures:
                    found[name] = found[name].joined(figures) if name in found else figures
                    self.console.print(
                        f"{workload.name}: {CONTENDERS[name].title}: {figures.median_ms:,.0f} ms a batch of "
                        f"{figures.rows:,} rows, {figures.whole_s:,.1f} s in all, {figures.peak_mb:,} MB"
                    )
        for rows, said in answers.items():
            if len({tuple(answer.items()) for answer in said.values()}) > 1:
                self.note(f"The answers differ on {workload.name}, {rows:,} rows: {said}")
        shutil.rmtree(folder, ignore_errors=True)

    def measure(
        self, name: str, workload: Workload, rows: int, folder: Path, answers: dict[str, dict[str, int]]
    ) -> Figures | None:
        try:
            with self.console.status(f"{workload.name}: {CONTENDERS[name].title}"):
                figures = measure(name, workload, rows, folder)
        except Unavailable as why:
            self.console.print(str(why))
            return None
        except Failed as why:
            self.note(str(why))
            return None
        # The ceiling has parts of panes, and what is of the wall clock is for chance to say.
        if figures.answer and name != "ceiling" and workload.kind != "q12":
            answers[name] = figures.answer
        return figures

    def note(self, wrong: str) -> None:
        self.console.print(wrong, style="red")
        self.wrong.append(wrong)


def together(before: report.Found, found: report.Found) -> report.Found:
    """What two runs found on one machine, as rounds of one."""
    both = dict(before)
    for name, sides in found.items():
        both[name] = dict(before.get(name, {}))
        for who, figures in sides.items():
            both[name][who] = both[name][who].joined(figures) if who in both[name] else figures
    return both


def chosen(full: bool, only: list[str], by: list[str], share: float) -> list[Workload]:
    """The workloads and contenders that are asked for, or all where none are, with a share of their rows."""
    found = []
    for workload in [*workloads.FULL, *curves.points()] if full else workloads.BENCH:
        if only and not any(re.search(pattern, workload.name) for pattern in only):
            continue
        takes = {**workload.takes, **(workload.more if full else {})}
        # Fewer rows of panes that stay open would be fewer panes, and of small batches, none.
        part = share if workload.rows_of != "open" and workload.rows > 100 else 1.0
        found.append(
            replace(
                workload,
                rows=int(workload.rows * part),
                takes={name: int(rows * part) for name, rows in takes.items() if not by or name in by},
                more={},
            )
        )
    return found


def main() -> None:
    asked = argparse.ArgumentParser()
    asked.add_argument("--full", action="store_true")
    asked.add_argument("--only", action="append", default=[])
    asked.add_argument("--by", action="append", default=[])
    asked.add_argument("--share", type=float, default=1.0)
    asked.add_argument("--rounds", type=int, default=1)
    asked.add_argument("--keep", action="store_true")
    asked.add_argument("--again", action="store_true")
    options = asked.parse_args()
    if options.keep and (options.by or options.share != 1.0):
        asked.error("--keep keeps whole workloads: leave --by and --share out.")
    if options.again and not options.keep:
        asked.error("--again adds to what is kept: say --keep too.")
    console = Console(width=150)
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        run = Run(Path(scratch), console)
        for workload in chosen(options.full, options.only, options.by, options.share):
            run.take(workload, options.rounds)
    report.show(run.found, console, (time.monotonic() - start) / 60)
    if run.wrong:
        raise SystemExit(f"{len(run.wrong)} things went wrong, and nothing was written:\n" + "\n".join(run.wrong))
    if options.keep:
        everywhere = report.kept()
        before = everywhere.pop(report.here(), {})
        # Workloads that were not asked for stay as they were found last: one that is has all its contenders anew.
        found = together(before, run.found) if options.again else {**before, **run.found}
        names = [workload.name for workload in [*workloads.FULL, *curves.points()]]
        report.keep({**everywhere, report.here(): {name: found[name] for name in names if name in found}})


if __name__ == "__main__":
    main()
