"""``make bench`` and ``make bench-full``: Mullion and its peers over the same rows in one run, answers compared.

    run.py [--full] [--rounds N] [--keep [--again]] [--only PATTERN]... [--by SYSTEM]... [--share PART]

``--full`` takes millions of keys, the slow peers and the curves. ``--keep`` writes what is found to
``benchmarks/results``, the README and ``docs/results.md``, beside what is kept of other runs: a run is what one machine
measured in a day. With ``--again`` what is found is added to the last run of this machine, as further rounds of the
same workloads. ``--only`` takes the workloads in whose names the pattern is found. The rest is for trying things out:
``--by`` takes a system, ``--share`` a part of each batch's rows.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from harness import curves, report, workloads
from harness.environments import SYSTEMS, Unavailable, check_installed
from harness.measured import Failed, Figures, Running
from harness.rows import write, write_settling
from harness.workloads import SETTLING, Workload, selected

JUDGE = "duckdb"


# It makes a row of each slice for each of its windows.
MOST_FOR_THE_JUDGE = 200_000_000


def judged(workload: Workload, rows: int) -> bool:
    """Whether DuckDB answers the same question. Where it does not, systems are compared with one another."""
    if workload.form != "published" or workload.rows_of in ("open", "nexmark"):
        return False
    if workload.rows <= 100 or not workload.ends:
        return False
    seconds = workload.span * rows // workload.rows
    return min(rows, seconds * workload.keys) * workload.overlaps <= MOST_FOR_THE_JUDGE


def in_turns(workload: Workload) -> list[list[str]]:
    """The systems of a workload, those together that take turns: on Spark, as many as the memory has room for.

    A JVM seldom takes more than half of what it may where that is much, and a gigabyte beside.
    """
    has = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / (1 << 30)
    at_once = max(1, int(has * 0.8 / (workload.heap / 2 + 1)))
    on_spark = [name for name in workload.takes if SYSTEMS[name].is_on_spark]
    groups = [on_spark[i : i + at_once] for i in range(0, len(on_spark), at_once)]
    return groups + [[name] for name in workload.takes if name not in on_spark]


class Run:
    """What each system did on each workload, and what went wrong."""

    def __init__(self, scratch: Path, console: Console) -> None:
        self.scratch, self.console = scratch, console
        self.found: report.Found = {}
        self.wrong: list[str] = []

    def take(self, workload: Workload, rounds: int) -> None:
        """All systems, round by round; those on Spark batch by batch in turns."""
        answers: dict[int, dict[str, dict[str, int]]] = {}
        judge: dict[int, Figures] = {}
        folder = self.scratch / re.sub(r"\W+", "-", workload.name)
        for rows in dict.fromkeys(workload.takes.values()):
            write(workload, rows, folder / str(rows))
            answers[rows] = {}
        if workload.settling:
            write_settling(workload, folder / SETTLING)
        # Else the first system runs while the rows are still being written to disk.
        os.sync()
        for rows in answers:
            if judged(workload, rows) and (running := self.system(JUDGE, workload, rows, folder)):
                for _, figures in self.run([running], answers):
                    judge[rows] = figures
        for _ in range(rounds):
            for names in in_turns(workload):
                if names == [JUDGE] and workload.takes[JUDGE] in judge:
                    self.found_of(JUDGE, workload, judge[workload.takes[JUDGE]])
                    continue
                made = (self.system(name, workload, workload.takes[name], folder) for name in names)
                for name, figures in self.run([running for running in made if running], answers):
                    self.found_of(name, workload, figures)
        found = self.found.get(workload.name, {})
        self.found[workload.name] = {name: found[name] for name in workload.takes if name in found}
        for rows, said in answers.items():
            if len({tuple(answer.items()) for answer in said.values()}) > 1:
                self.note(f"The answers differ on {workload.name}, {rows:,} rows: {said}")
        shutil.rmtree(folder, ignore_errors=True)

    def system(self, name: str, workload: Workload, rows: int, folder: Path) -> Running | None:
        try:
            return Running(name, workload, rows, folder / str(rows))
        except Unavailable as why:
            self.console.print(str(why))
            return None

    def run(self, turns: list[Running], answers: dict[int, dict[str, dict[str, int]]]) -> Iterator[tuple[str, Figures]]:
        """Has systems go on in turns until all are done, each with what it did."""
        waiting = deque(turns)
        starting = set(turns)
        try:
            for running in turns:
                running.start()
            while waiting:
                running = waiting.popleft()
                try:
                    with self.console.status(f"{running.workload.name}: {SYSTEMS[running.name].title}"):
                        # No query begins while other processes are starting.
                        if running not in starting:
                            running.go_on()
                        starting.discard(running)
                        goes_on = running.turn()
                except Failed as why:
                    self.note(str(why))
                    continue
                if goes_on:
                    waiting.append(running)
                    continue
                figures = running.figures()
                # The ceiling has parts of panes, and what is of the wall clock is for chance to say.
                if figures.answer and running.name != "ceiling" and running.workload.kind != "q12":
                    answers[running.rows][running.name] = figures.answer
                yield running.name, figures
        finally:
            for running in turns:
                running.interrupt()

    def found_of(self, name: str, workload: Workload, figures: Figures) -> None:
        found = self.found.setdefault(workload.name, {})
        found[name] = found[name].joined(figures) if name in found else figures
        self.console.print(
            f"{workload.name}: {SYSTEMS[name].title}: {figures.median_ms:,.0f} ms a batch of "
            f"{figures.rows:,} rows, {figures.whole_s:,.1f} s in all, {figures.peak_mb:,} MB"
        )

    def note(self, wrong: str) -> None:
        self.console.print(wrong, style="red")
        self.wrong.append(wrong)


def together(before: report.Found, found: report.Found) -> report.Found:
    """What one run found in two parts, of which workloads in both are rounds."""
    both = dict(before)
    for name, sides in found.items():
        both[name] = dict(before.get(name, {}))
        for who, figures in sides.items():
            both[name][who] = both[name][who].joined(figures) if who in both[name] else figures
    return both


def chosen(options: argparse.Namespace) -> list[Workload]:
    """The workloads and systems that are asked for, or all where none are, with a share of their rows."""
    full, by = options.full, options.by
    asked = [*workloads.FULL, *curves.points()] if full else workloads.GOALS if options.goals else workloads.BENCH
    found = []
    for workload in selected(asked, options.only, options.share):
        takes = {**workload.takes, **(workload.more if full else {})}
        found.append(replace(workload, takes={name: takes[name] for name in takes if not by or name in by}, more={}))
    return found


def main() -> None:
    asked = argparse.ArgumentParser()
    which = asked.add_mutually_exclusive_group()
    which.add_argument("--full", action="store_true", help="all workloads and curves")
    which.add_argument("--goals", action="store_true", help="what the goals of speed and memory ask, 45 minutes")
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
    check_installed()
    console = Console(width=150)
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        run = Run(Path(scratch), console)
        for workload in chosen(options):
            run.take(workload, options.rounds)
    report.show(run.found, console, (time.monotonic() - start) / 60)
    if run.wrong:
        raise SystemExit(f"{len(run.wrong)} things went wrong, and nothing was written:\n" + "\n".join(run.wrong))
    if options.keep:
        everywhere = report.kept()
        names = [name for name in everywhere if report.is_of(name, report.here())] if options.again else []
        name = names[-1] if names else report.this_run()
        before = everywhere.pop(name, {})
        found = together(before, run.found) if options.again else before | run.found
        order = [workload.name for workload in [*workloads.FULL, *curves.points()]]
        report.keep(report.of_use({**everywhere, name: {each: found[each] for each in order if each in found}}))


if __name__ == "__main__":
    main()
