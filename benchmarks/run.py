"""``make bench`` and ``make bench-full``: Mullion and its peers over the same rows in one run, answers compared.

    run.py [--full] [--only WORD]... [--share PART] [--rounds N] [--keep]

``--full`` takes millions of keys, the slow peers and the curves. ``--only`` takes the workloads and contenders whose
names have the words. ``--share`` takes a part of each batch's rows, to try things out. ``--keep`` writes what is found
to ``benchmarks/results``, which no part of a run does.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from rich.console import Console

import report
import workloads
from environments import CONTENDERS, Unavailable
from measured import Figures, measure
from rows import write
from workloads import Workload

JUDGE = "duckdb"
CURVES_BY = "full"


def judged(workload: Workload) -> bool:
    """Whether DuckDB answers the same question. Others are compared with one another."""
    return workload.kind in ("tumbling", "sliding", "session") and workload.rows_of != "open" and workload.rows > 100


def run(workload: Workload, scratch: Path, rounds: int, console: Console) -> dict[str, Figures]:
    """What each contender did, in turns, round by round. Raises ``SystemExit`` where answers differ."""
    found: dict[str, Figures] = {}
    answers: dict[int, dict[str, dict[str, int]]] = {}
    home = scratch / re.sub(r"\W+", "-", workload.name)
    for turn in range(rounds):
        for name, rows in sorted(workload.takes.items(), key=lambda taken: taken[1]):
            folder = home / str(rows)
            if not folder.exists():
                write(workload, rows, folder)
                if judged(workload):
                    answers.setdefault(rows, {})["judge"] = measure(JUDGE, workload, rows, folder).answer
            with console.status(f"{workload.name}: {CONTENDERS[name].title}"):
                try:
                    figures = measure(name, workload, rows, folder)
                except Unavailable as why:
                    console.print(str(why))
                    continue
            found[name] = found[name].joined(figures) if turn else figures
            if name != "ceiling" and figures.answer:
                answers.setdefault(rows, {})[name] = figures.answer
            console.print(
                f"{workload.name}: {CONTENDERS[name].title}: {figures.median_ms:,.0f} ms a batch of {figures.rows:,} "
                f"rows, {figures.whole_s:,.1f} s in all, {figures.cpu_s:,.0f} s of processors, {figures.peak_mb:,} MB"
            )
    for rows, said in answers.items():
        if len({tuple(answer.items()) for answer in said.values()}) > 1:
            raise SystemExit(f"The answers differ on {workload.name}, {rows:,} rows: {said}")
    return found


def chosen(words: list[str], full: bool, share: float) -> list[Workload]:
    """The workloads, those with the words if there are any, with a share of their rows."""
    found = []
    for workload in workloads.FULL if full else workloads.BENCH:
        if any(word in workload.name for word in words) or not words:
            rows = max(100, int(workload.rows * share)) if workload.rows_of != "open" else workload.rows
            part = rows / workload.rows
            takes = {name: int(taken * part) for name, taken in workload.takes.items()}
            found.append(replace(workload, rows=rows, takes=takes))
    return found


def main() -> None:
    asked = argparse.ArgumentParser()
    asked.add_argument("--full", action="store_true")
    asked.add_argument("--only", action="append", default=[])
    asked.add_argument("--by", action="append", default=[])
    asked.add_argument("--share", type=float, default=1.0)
    asked.add_argument("--rounds", type=int, default=1)
    asked.add_argument("--keep", action="store_true")
    options = asked.parse_args()
    console = Console(width=150)
    start = time.monotonic()
    found: dict[str, dict[str, Figures]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for workload in chosen(options.only, options.full, options.share):
            if options.by:
                takes = {name: rows for name, rows in workload.takes.items() if name in options.by}
                workload = replace(workload, takes=takes)
            found[workload.name] = run(workload, Path(scratch), options.rounds, console)
    minutes = (time.monotonic() - start) / 60
    report.show(found, console, minutes, options.keep)


if __name__ == "__main__":
    main()
