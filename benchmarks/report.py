"""What was found, as one table with the goals beside, one plot, and ``results/latest.json``."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pyspark
from rich.console import Console
from rich.table import Table

from environments import CONTENDERS
from goals import COMPARISONS, UNITS, Comparison
from measured import Figures

mpl.use("Agg")
from matplotlib import pyplot as plt

RESULTS = Path(__file__).parent / "results"
Found = dict[str, dict[str, Figures]]


def show(found: Found, console: Console, minutes: float, keep: bool) -> None:
    console.print(machine(found))
    console.print(everything(found))
    rows = compared(found)
    console.print(goals(rows))
    console.print(f"All contenders gave the same answers to the same rows. {minutes:.0f} minutes in all.")
    if keep:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "latest.json").write_text(json.dumps([said for _, said in rows], indent=1) + "\n")
        raw = {name: {who: asdict(figures) for who, figures in sides.items()} for name, sides in found.items()}
        (RESULTS / "runs.json").write_text(json.dumps({"machine": machine(found), "runs": raw}) + "\n")
        with (RESULTS / "latest.txt").open("w") as file:
            plain = Console(file=file, width=150)
            plain.print(machine(found))
            plain.print(everything(found))
            plain.print(goals(rows))
        plot(found, RESULTS / "latest.png")


def machine(found: Found) -> str:
    model = next(
        (
            line.split(":")[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 30
    others = {name for sides in found.values() for name in sides if CONTENDERS[name].group}
    versions = [f"{CONTENDERS[name].title} {CONTENDERS[name].version()}" for name in sorted(others)]
    return ", ".join(
        [
            f"{os.cpu_count()} cores ({model}), {memory} GB, Python {platform.python_version()}",
            f"Spark {pyspark.__version__}",
            *versions,
        ]
    )


def everything(found: Found) -> Table:
    table = Table("workload", "contender", "warm batch (least - most)", "rows/s", "whole run", "processors", "peak")
    for workload, sides in found.items():
        for name, figures in sides.items():
            table.add_row(
                workload,
                CONTENDERS[name].title,
                f"{figures.median_ms:,.0f} ms ({min(figures.ms):,.0f} - {max(figures.ms):,.0f})",
                f"{figures.rate:,.0f}" if figures.rows else "",
                f"{figures.whole_s:,.1f} s",
                f"{figures.cpu_s:,.0f} s",
                f"{figures.peak_mb:,} MB",
            )
            workload = ""
        table.add_section()
    return table


def compared(found: Found) -> list[tuple[Comparison, dict[str, Any]]]:
    """Each comparison of which both sides ran, with what ``latest.json`` says of it."""
    rows = []
    for comparison in COMPARISONS:
        beside = comparison.beside or comparison.workload
        ours = found.get(comparison.workload.name, {}).get(comparison.ours)
        theirs = found.get(beside.name, {}).get(comparison.theirs)
        if ours is None or theirs is None:
            continue
        mine, other = (UNITS[comparison.unit](figures) for figures in (ours, theirs))
        against = CONTENDERS[comparison.theirs].title
        memory = ", state in memory" if comparison.ours == "memory" else ""
        rows.append(
            (
                comparison,
                {
                    "workload": comparison.workload.name + memory,
                    "against": against if beside is comparison.workload else f"{against}, {beside.name}",
                    "unit": comparison.unit,
                    "ours": round(mine),
                    "theirs": round(other),
                    "ratio": round(mine / other, 3),
                    "goal": comparison.said(),
                },
            )
        )
    return rows


def goals(rows: list[tuple[Comparison, dict[str, Any]]]) -> Table:
    table = Table("workload", "against", "unit", "ours", "theirs", "ratio", "goal", "")
    for comparison, said in rows:
        met = comparison.met(said["ratio"])
        table.add_row(
            said["workload"],
            said["against"],
            said["unit"],
            f"{said['ours']:,}",
            f"{said['theirs']:,}",
            f"{said['ratio']:.2f}",
            said["goal"] or "",
            "" if met is None else "met" if met else "missed",
        )
    return table


def plot(found: Found, file: Path) -> None:
    """Rows a second of each contender on each workload, on a logarithmic scale."""
    shown = {name: sides for name, sides in found.items() if any(figures.rows for figures in sides.values())}
    figure, axes = plt.subplots(figsize=(11, 1 + 0.32 * sum(len(sides) + 1 for sides in shown.values())))
    place, ticks = 0.0, []
    for workload, sides in shown.items():
        ticks.append((place, workload, True))
        for name, figures in sides.items():
            place += 1
            ours = name in ("mullion", "memory")
            rates = [figures.rows / ms * 1000 for ms in figures.ms]
            axes.barh(
                place,
                figures.rate,
                color="tab:blue" if ours else "lightgrey",
                xerr=[[figures.rate - min(rates)], [max(rates) - figures.rate]],
                ecolor="grey",
            )
            ticks.append((place, CONTENDERS[name].title, False))
        place += 1.5
    axes.set_xscale("log")
    axes.set_yticks([at for at, _, _ in ticks], [said for _, said, _ in ticks])
    for label, (_, _, heading) in zip(axes.get_yticklabels(), ticks, strict=True):
        label.set_fontweight("bold" if heading else "normal")
    axes.invert_yaxis()
    axes.set_xlabel("rows a second in a warm batch")
    figure.tight_layout()
    figure.savefig(file, dpi=110)
