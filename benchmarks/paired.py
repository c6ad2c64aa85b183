"""Two versions of Mullion over the same rows, alternating batch by batch: the ratio of their times, with its interval.

    paired.py FOLDER [--only PATTERN]... [--share PART] [--rounds N]

FOLDER is a checkout of the other version in which ``make venv`` has run. If the machine is slow for a minute, it is
slow for both versions, so the ratio is more exact than that of two consecutive runs. The answers are compared.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import statistics
import tempfile
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from harness import workloads
from harness.environments import check_installed
from harness.measured import Figures, Process, Running
from harness.rows import write, write_settling
from harness.workloads import SETTLING, Workload, selected

# The quantile of a normal distribution that leaves 2.5 % above it, for an interval of 95 %.
QUANTILE = 1.96
PAIRED = (
    workloads.TUMBLING_1K,
    workloads.TUMBLING_100K,
    workloads.SLIDING_1K,
    workloads.SLIDING_100K,
    workloads.VISITS,
    workloads.BURSTS,
    workloads.EARLY,
    workloads.LATE,
    workloads.TUMBLING_3M,
    workloads.NOTHING[100_000],
    workloads.FEW_ROWS,
    *workloads.ORDINARY,
)


class OtherVersion(Running):
    """The benchmark script of another checkout, with the Mullion that is installed there."""

    def __init__(self, checkout: Path, workload: Workload, rows: int, folder: Path) -> None:
        super().__init__("mullion", workload, rows, folder)
        self.checkout = checkout
        self.python = checkout / ".venv" / "bin" / "python"
        self.out, self.err = (folder.parent / f"other-{rows}.{kind}" for kind in ("out", "err"))

    def start(self) -> None:
        # The folder of the scripts may have another name there.
        script = next((self.checkout / "benchmarks").rglob(self.system.script))
        modules = os.pathsep.join(str(self.checkout / part) for part in ("benchmarks", "."))
        self.process = Process(self.command(script), self.out, self.err, modules)

    def workload_fields(self) -> dict[str, Any]:
        """The fields without a default or with another value: another version may lack the rest."""
        pairs = [(each, getattr(self.workload, each.name)) for each in fields(self.workload)]
        return {each.name: value for each, value in pairs if each.default is MISSING or value != each.default}


def ratio(ours: list[float], other: list[float]) -> tuple[float, float, float]:
    """The factor by which this version is faster: the geometric mean over pairs of batches, and its 95 % interval."""
    logarithms = [math.log(their / our) for our, their in zip(ours, other, strict=True)]
    middle = statistics.mean(logarithms)
    half = QUANTILE * statistics.stdev(logarithms) / math.sqrt(len(logarithms))
    return math.exp(middle), math.exp(middle - half), math.exp(middle + half)


def take(workload: Workload, checkout: Path, scratch: Path) -> tuple[Figures, Figures]:
    """Runs both versions over the rows of a workload, alternating batch by batch."""
    rows = workload.takes["mullion"]
    folder = scratch / re.sub(r"\W+", "-", workload.name)
    write(workload, rows, folder / str(rows))
    if workload.settling:
        write_settling(workload, folder / SETTLING)
    os.sync()
    both = [
        Running("mullion", workload, rows, folder / str(rows)),
        OtherVersion(checkout, workload, rows, folder / str(rows)),
    ]
    try:
        for running in both:
            running.start()
        active = [running for running in both if running.turn()]
        while active:
            for running in active:
                running.resume()
                if not running.turn():
                    active = [other for other in active if other is not running]
        ours, other = (running.figures() for running in both)
        return ours, other
    finally:
        for running in both:
            running.interrupt()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    check_installed()
    console = Console(width=150)
    table = Table("workload", "pairs of batches", "ms a batch", "other: ms a batch", "times as fast", "95 % interval")
    differ: list[str] = []
    for workload in selected(PAIRED, options.only, options.share):
        ours: list[float] = []
        other: list[float] = []
        for _ in range(options.rounds):
            with tempfile.TemporaryDirectory() as scratch, console.status(workload.name):
                here, there = take(workload, options.checkout.resolve(), Path(scratch))
            if here.answer != there.answer:
                differ.append(f"The answers differ on {workload.name}: {here.answer} here, {there.answer} there")
            ours += here.ms
            other += there.ms
        middle, least, most = ratio(ours, other)
        medians = (f"{statistics.median(side):,.0f}" for side in (ours, other))
        table.add_row(workload.name, str(len(ours)), *medians, f"{middle:.3f}", f"{least:.3f} to {most:.3f}")
        console.print(f"{workload.name}: {middle:.3f} ({least:.3f} to {most:.3f})")
    console.print(table)
    if differ:
        raise SystemExit("\n".join(differ))


if __name__ == "__main__":
    main()
