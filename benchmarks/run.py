"""``make bench`` and ``make bench-full``: Mullion and its peers over the same rows in one run, answers compared.

    run.py [--full] [--rounds N] [--keep [--again]] [--only PATTERN]... [--by SYSTEM]... [--share PART]

``--full`` adds millions of keys, the slow peers and the curves. ``--keep`` writes the results to
``benchmarks/results``, the README and ``docs/reference/results.md``, next to stored runs: a run has the figures of one
machine and one day. With ``--again`` the results are added to the last run of this machine, as further rounds of the
same workloads. ``--only`` selects workloads by a pattern of their name, ``--by`` selects a system, and ``--share`` a
part of each batch's rows.
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
# The judge expands each slice into one row for each of its windows.
MOST_FOR_THE_JUDGE = 200_000_000


def has_judge(workload: Workload, rows: int) -> bool:
    """True if DuckDB computes the workload too. Otherwise systems are compared with one another."""
    if workload.form != "published" or workload.rows_of in ("open", "nexmark"):
        return False
    if workload.rows <= 100 or not workload.ends:
        return False
    seconds = workload.span * rows // workload.rows
    return min(rows, seconds * workload.keys) * workload.overlaps <= MOST_FOR_THE_JUDGE


def in_turns(workload: Workload) -> list[list[str]]:
    """The systems of a workload, in groups that alternate: on Spark, as many as fit into memory.

    A JVM seldom uses more than half of a large heap, and one gigabyte outside of it.
    """
    gigabytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / (1 << 30)
    at_once = max(1, int(gigabytes * 0.8 / (workload.heap / 2 + 1)))
    on_spark = [name for name in workload.takes if SYSTEMS[name].is_on_spark]
    groups = [on_spark[i : i + at_once] for i in range(0, len(on_spark), at_once)]
    return groups + [[name] for name in workload.takes if name not in on_spark]


class Run:
    """The results of each system on each workload, and the failures."""

    def __init__(self, scratch: Path, console: Console) -> None:
        self.scratch, self.console = scratch, console
        self.results: report.Results = {}
        self.failures: list[str] = []

    def take(self, workload: Workload, rounds: int) -> None:
        """Runs all systems, round by round. Systems on Spark alternate batch by batch."""
        answers: dict[int, dict[str, dict[str, int]]] = {}
        judge: dict[int, Figures] = {}
        folder = self.scratch / re.sub(r"\W+", "-", workload.name)
        for rows in dict.fromkeys(workload.takes.values()):
            write(workload, rows, folder / str(rows))
            answers[rows] = {}
        if workload.settling:
            write_settling(workload, folder / SETTLING)
        # Otherwise the first system runs while the rows are still being written to disk.
        os.sync()
        for rows in answers:
            if has_judge(workload, rows) and (running := self.system(JUDGE, workload, rows, folder)):
                for _, figures in self.run([running], answers):
                    judge[rows] = figures
        for _ in range(rounds):
            for names in in_turns(workload):
                if names == [JUDGE] and workload.takes[JUDGE] in judge:
                    self.add_result(JUDGE, workload, judge[workload.takes[JUDGE]])
                    continue
                runs_in_turn = (self.system(name, workload, workload.takes[name], folder) for name in names)
                for name, figures in self.run([running for running in runs_in_turn if running], answers):
                    self.add_result(name, workload, figures)
        results = self.results.get(workload.name, {})
        self.results[workload.name] = {name: results[name] for name in workload.takes if name in results}
        for rows, answers_of_rows in answers.items():
            if len({tuple(answer.items()) for answer in answers_of_rows.values()}) > 1:
                self.note(f"The answers differ on {workload.name}, {rows:,} rows: {answers_of_rows}")
        shutil.rmtree(folder, ignore_errors=True)

    def system(self, name: str, workload: Workload, rows: int, folder: Path) -> Running | None:
        try:
            return Running(name, workload, rows, folder / str(rows))
        except Unavailable as why:
            self.console.print(str(why))
            return None

    def run(self, turns: list[Running], answers: dict[int, dict[str, dict[str, int]]]) -> Iterator[tuple[str, Figures]]:
        """Runs systems in turns until all have ended. Yields the figures of each."""
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
                            running.resume()
                        starting.discard(running)
                        is_waiting = running.turn()
                except Failed as why:
                    self.note(str(why))
                    continue
                if is_waiting:
                    waiting.append(running)
                    continue
                figures = running.figures()
                # The baseline has only parts of panes, and windows of wall time depend on chance.
                if figures.answer and running.name != "baseline" and running.workload.kind != "q12":
                    answers[running.rows][running.name] = figures.answer
                yield running.name, figures
        finally:
            for running in turns:
                running.interrupt()

    def add_result(self, name: str, workload: Workload, figures: Figures) -> None:
        results = self.results.setdefault(workload.name, {})
        results[name] = results[name].joined(figures) if name in results else figures
        self.console.print(
            f"{workload.name}: {SYSTEMS[name].title}: {figures.median_ms:,.0f} ms a batch of "
            f"{figures.rows:,} rows, {figures.whole_s:,.1f} s in all, {figures.peak_mb:,} MB"
        )

    def note(self, failure: str) -> None:
        self.console.print(failure, style="red")
        self.failures.append(failure)


def joined_results(before: report.Results, results: report.Results) -> report.Results:
    """The results of two parts of a run. Workloads in both count as rounds."""
    both = dict(before)
    for name, sides in results.items():
        both[name] = dict(before.get(name, {}))
        for who, figures in sides.items():
            both[name][who] = both[name][who].joined(figures) if who in both[name] else figures
    return both


def selected_workloads(options: argparse.Namespace) -> list[Workload]:
    """The workloads and systems of the options, by default all, with a share of their rows."""
    full, by = options.full, options.by
    candidates = [*workloads.FULL, *curves.points()] if full else workloads.GOALS if options.goals else workloads.BENCH
    results = []
    for workload in selected(candidates, options.only, options.share):
        takes = {**workload.takes, **(workload.more if full else {})}
        results.append(replace(workload, takes={name: takes[name] for name in takes if not by or name in by}, more={}))
    return results


def main() -> None:
    parser = argparse.ArgumentParser()
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--full", action="store_true", help="all workloads and curves")
    which.add_argument("--goals", action="store_true", help="the workloads with goals of speed and memory, 45 minutes")
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--by", action="append", default=[])
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--again", action="store_true")
    options = parser.parse_args()
    if options.keep and (options.by or options.share != 1.0):
        parser.error("--keep stores complete workloads. Leave out --by and --share.")
    if options.again and not options.keep:
        parser.error("--again adds to the stored run. Add --keep.")
    check_installed()
    console = Console(width=150)
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        run = Run(Path(scratch), console)
        for workload in selected_workloads(options):
            run.take(workload, options.rounds)
    report.show(run.results, console, (time.monotonic() - start) / 60)
    if run.failures:
        raise SystemExit(f"{len(run.failures)} failures; nothing was written:\n" + "\n".join(run.failures))
    if options.keep:
        runs = report.stored_runs()
        names = [name for name in runs if report.is_of(name, report.this_machine())] if options.again else []
        name = names[-1] if names else report.this_run()
        before = runs.pop(name, {})
        results = joined_results(before, run.results) if options.again else before | run.results
        order = [workload.name for workload in [*workloads.FULL, *curves.points()]]
        report.keep(report.without_repeated({**runs, name: {each: results[each] for each in order if each in results}}))


if __name__ == "__main__":
    main()
