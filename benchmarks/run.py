"""``make bench``: Mullion against Spark's own ``window()``, on the same rows in one run, with the answers compared.

Each side of a workload runs in a process of its own, one after the other, on two cores: Mullion with state in RocksDB
and in memory, Spark with RocksDB. Times are of warm batches: medians after the first ones, each with the batch without
rows in which what it made due comes out.
"""

from __future__ import annotations

import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyspark
from rich.console import Console
from rich.table import Table

from workloads import ALL, Workload, write

HERE = Path(__file__).parent
SIDES = ("mullion", "memory", "spark")


def measure(side: str, workload: Workload, folder: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, HERE / "side.py", side, workload.name, folder], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit(f"{side} failed on {workload.name}:\n{done.stderr[-4000:]}")
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    figures["times"] = times(workload, figures["batches"])[workload.warm :]
    figures["state_rows"] = max(batch["state_rows"] for batch in figures["batches"])
    return figures


def times(workload: Workload, batches: list[dict[str, int]]) -> list[int]:
    """Milliseconds for each file of rows, with the batch without rows in which what it made due came out."""
    if workload.idle:
        return [batch["ms"] for batch in batches if not batch["rows"]]
    took: list[int] = []
    for batch in batches:
        if batch["rows"]:
            took.append(0)
        took[-1] += batch["ms"]
    return took


def together(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The figures of a side over all its runs."""
    took = [ms for run in runs for ms in run["times"]]
    peak = statistics.median(run["peak_mb"] for run in runs)
    return {**runs[0], "ms": statistics.median(took), "spread": (min(took), max(took)), "peak_mb": round(peak)}


def main() -> None:
    console = Console(width=140)
    console.print(
        f"Spark {pyspark.__version__}, {os.cpu_count()} cores, {platform.machine()}; state in RocksDB, and in memory. "
        "Medians of warm batches; the least and the most in brackets."
    )
    table = Table("workload", "", "Mullion", "in memory", "Spark's window()", "ratio (in memory)")
    with tempfile.TemporaryDirectory() as scratch:
        for workload in ALL:
            folder = Path(scratch) / re.sub(r"\W+", "-", workload.name)
            write(workload, folder)
            with console.status(workload.name):
                runs = [{side: measure(side, workload, folder) for side in SIDES} for _ in range(workload.rounds)]
            answers = {(run[side]["panes"], run[side]["checksum"]) for run in runs for side in SIDES}
            if len(answers) > 1:
                raise SystemExit(f"The answers differ on {workload.name}: {answers}.")
            add_rows(table, workload, *(together([run[side] for run in runs]) for side in SIDES))
    console.print(table)
    console.print("All sides gave the same panes on every workload.")


def add_rows(
    table: Table, workload: Workload, ours: dict[str, Any], memory: dict[str, Any], theirs: dict[str, Any]
) -> None:
    sides = (ours, memory, theirs)

    def ms(figures: dict[str, Any]) -> str:
        low, high = figures["spread"]
        return f"{figures['ms']:,.0f} ms ({low:,}-{high:,})"

    def rate(figures: dict[str, Any]) -> str:
        return f"{workload.rows / figures['ms'] * 1000:,.0f}"

    faster, faster_in_memory = (theirs["ms"] / side["ms"] for side in (ours, memory))
    table.add_row(workload.name, "batch", *map(ms, sides), f"{faster:.2f}x faster ({faster_in_memory:.2f}x)")
    if not workload.idle:
        table.add_row("", "rows/s", *map(rate, sides), "")
    table.add_row("", "panes out", *(f"{side['panes']:,}" for side in sides), "equal")
    for name, key, unit in (("state rows", "state_rows", ""), ("peak memory", "peak_mb", " MB")):
        shares = [side[key] / theirs[key] for side in (ours, memory)] if theirs[key] else []
        ratio = "{:.2f}x of Spark's ({:.2f}x)".format(*shares) if shares else ""
        table.add_row("", name, *(f"{side[key]:,}{unit}" for side in sides), ratio)
    table.add_section()


if __name__ == "__main__":
    main()
