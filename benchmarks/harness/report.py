"""What was found: tables with the goals beside, of all figures, plots, and ``results/latest.json``.

A run is what one machine measured in a day. Figures of two runs are never compared: machines have slow hours. A
comparison is of the last run that has both its sides; what other runs found stays beside that, under their names.
"""

from __future__ import annotations

import json
import math
import os
import platform
import re
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pyspark
from rich.console import Console
from rich.table import Table

from harness.curves import CURVES, Curve, points
from harness.environments import ROOT, SYSTEMS
from harness.goals import COMPARISONS, UNITS, Comparison
from harness.measured import Figures
from harness.workloads import KEYS, ORDINARY, SIZED, SIZES

mpl.use("Agg")
from matplotlib import pyplot as plt

RESULTS = ROOT / "benchmarks" / "results"
PAGE, README = ROOT / "docs" / "results.md", ROOT / "README.md"
FROM_PAGE = "../benchmarks/results"
BEGIN, END = "<!-- begin: as produced -->", "<!-- end: as produced -->"

PARTS = ["workload", "system", "batch", "source", "planning", "running", "logs", "updates", "removals", "commits"]

RATIOS = """A ratio is Mullion's figure divided by the other one. More rows per second are better, and fewer
milliseconds and megabytes. The last columns show the project's goal and its result in this run."""

SPENT = """Milliseconds of a warm batch, the median of each part. `source` finds new input, `planning` plans the batch,
`running` runs its tasks, `logs` writes Spark's logs. The last three are parts of `running`, summed over the tasks, from
the metrics of the stateful operator: updates of state, removals and commits."""

ORDINARY_TEXT = """Batches of 1,000,000 rows with 100,000 keys, and tumbling windows of ten seconds unless a row says
otherwise. Milliseconds of a warm batch, and how many times as long Spark's windows and the stateless baseline take."""

COST = """Tumbling windows of ten seconds. Milliseconds of a warm batch by its number of rows, and the line through
them: the fixed cost of a batch and the cost of each row, from which you can predict your own batches."""

Found = dict[str, dict[str, Figures]]
# By run, the last one at the end.
Everywhere = dict[str, Found]
Rows = list[list[str]]
# With what ``latest.json`` says of each.
Compared = list[tuple[Comparison, dict[str, Any]]]

COMPARED = ["workload", "compared with", "unit", "Mullion", "other", "ratio", "goal", ""]
MEASURED = ["workload", "system", "warm batch (range)", "rows/s", "complete run", "processor time", "peak memory"]
COSTS = ["keys", "system", *(f"{rows:,} rows" for rows in SIZES), "per batch", "per row"]
ORDINARY_ROWS = ["rows", "Mullion, ms per batch", "times as fast as Spark's windows", "... as the stateless baseline"]
AT_A_GLANCE = ["windows", "compared with", "other", "Mullion", "ratio"]


def show(found: Found, console: Console, minutes: float) -> None:
    tables = ((MEASURED, measured(found)), (COSTS, costs(found)), (COMPARED, shown(compared(found))))
    for heads, rows in (*tables, (ORDINARY_ROWS, ordinary(found))):
        if not rows:
            continue
        table = Table(*heads)
        for row in rows:
            table.add_row(*row)
        console.print(table)
    console.print(f"{', '.join(filter(None, (here(), peers([found]))))}. {minutes:.0f} minutes in all.")


def keep(everywhere: Everywhere) -> None:
    """Writes what was found into ``benchmarks/results``, the README and the page."""
    RESULTS.mkdir(exist_ok=True)
    said = [{**said, "run": run} for run, pairs in last_compared(everywhere).items() for _, said in pairs]
    (RESULTS / "latest.json").write_text(json.dumps(said, indent=1) + "\n")
    raw = {
        run: {name: {who: asdict(figures) for who, figures in sides.items()} for name, sides in found.items()}
        for run, found in everywhere.items()
    }
    (RESULTS / "runs.json").write_text(json.dumps(raw) + "\n")
    in_curves = {point.name for point in points()}
    bars(
        {name: sides for found in everywhere.values() for name, sides in found.items() if name not in in_curves},
        RESULTS / "latest.png",
    )
    if drawn := drawn_curves(everywhere):
        lines(drawn, RESULTS / "curves.png")
    write_into(README, of_readme(everywhere))
    write_into(PAGE, of_page(everywhere))


def of_readme(everywhere: Everywhere) -> str:
    """Ten comparisons at most, from the greatest ratio to the least, of the last run that has both sides."""
    first: dict[str, Rows] = {}
    for run, pairs in last_compared(everywhere).items():
        named = [(comparison.first, said, times_as_fast(comparison, said)) for comparison, said in pairs]
        named.sort(key=lambda glance: glance[2], reverse=True)
        first[run] = [at_a_glance(theirs, said, faster) for theirs, said, faster in named if theirs]
    return by_run(AT_A_GLANCE, first)


def of_page(everywhere: Everywhere) -> str:
    """All comparisons and all figures, of each run."""
    pictures = [f"![Rows per second of each system, on a logarithmic scale]({FROM_PAGE}/latest.png)"]
    if drawn_curves(everywhere):
        pictures.append(f"![The cost of a row or a batch by keys, overlaps and cores]({FROM_PAGE}/curves.png)")
    rows = by_run(ORDINARY_ROWS, {at: ordinary(found) for at, found in everywhere.items()})
    costly = by_run(COSTS, {at: costs(found) for at, found in everywhere.items()})
    sections = (
        "## Ratios",
        RATIOS,
        f"Other systems: {peers(list(everywhere.values()))}.",
        by_run(COMPARED, {at: shown(compared(found)) for at, found in everywhere.items()}),
        *(["## Ordinary rows", ORDINARY_TEXT, rows] if rows else []),
        *(["## Cost of a batch", COST, costly] if costly else []),
        *pictures,
        "## All figures",
        by_run(MEASURED, {at: measured(found) for at, found in everywhere.items()}),
        "## Parts of a batch",
        SPENT,
        by_run(PARTS, {at: spent(found) for at, found in everywhere.items()}),
    )
    return "\n\n".join(sections)


def drawn_curves(everywhere: Everywhere) -> list[tuple[Curve, Found]]:
    """Each curve with the run that has most points of it."""
    return [(curve, found) for curve in CURVES if (found := most_of(curve, everywhere))]


def times_as_fast(comparison: Comparison, said: dict[str, Any]) -> float:
    ratio: float = said["ratio"]
    return ratio if comparison.more_is_better else 1 / ratio


def at_a_glance(theirs: str, said: dict[str, Any], faster: float) -> list[str]:
    """A comparison in a reader's words."""
    unit = said["unit"]
    return [said["workload"], theirs, f"{said['theirs']:,} {unit}", f"{said['ours']:,} {unit}", two_digits(faster)]


def two_digits(ratio: float) -> str:
    """A ratio with two digits that count: ``0.87``, ``3.7``, ``21``, ``150,000``."""
    rounded = float(f"{ratio:.1e}")
    return f"{rounded:,.{max(1 - math.floor(math.log10(rounded)), 0)}f}"


def by_run(heads: list[str], found: dict[str, Rows]) -> str:
    """A table for each run that has rows, the last run first."""
    return "\n\n".join(f"{run}:\n\n{markdown(heads, rows)}" for run, rows in reversed(found.items()) if rows)


def kept() -> Everywhere:
    """What was kept before."""
    file = RESULTS / "runs.json"
    if not file.exists():
        return {}
    before: dict[str, Any] = json.loads(file.read_text())
    return {
        run: {name: {who: Figures(**said) for who, said in sides.items()} for name, sides in found.items()}
        for run, found in before.items()
    }


def last_compared(everywhere: Everywhere) -> dict[str, Compared]:
    """Each comparison in the last run that has both its sides."""
    last: dict[str, Compared] = {run: [] for run in everywhere}
    for comparison in COMPARISONS:
        for run, found in reversed(everywhere.items()):
            if said := said_of(comparison, found):
                last[run].append((comparison, said))
                break
    return last


def most_of(curve: Curve, everywhere: Everywhere) -> Found | None:
    """What the run found that has most points of a curve, if any has two."""

    def found_of(found: Found) -> int:
        return sum(point.name in found for point in curve.points.values())

    best = max(reversed(everywhere.values()), key=found_of)
    return best if found_of(best) > 1 else None


def peers(founds: list[Found]) -> str:
    names = {name for found in founds for sides in found.values() for name in sides if SYSTEMS[name].group}
    return ", ".join(f"{SYSTEMS[name].title} {SYSTEMS[name].version()}" for name in sorted(names))


DAY = re.compile(r", \d{4}-\d\d-\d\d$")


def this_run() -> str:
    return f"{here()}, {date.today()}"


def is_of(run: str, machine: str) -> bool:
    """Whether it is a run of that machine. The first runs have no day."""
    return DAY.sub("", run) == machine


def of_use(everywhere: Everywhere) -> Everywhere:
    """Without what a later run of the same machine measured too, by all systems."""
    runs = list(everywhere.items())

    def again(place: int, workload: str) -> bool:
        run, found = runs[place]
        return any(
            is_of(later, DAY.sub("", run)) and found[workload].keys() <= then.get(workload, {}).keys()
            for later, then in runs[place + 1 :]
        )

    left = {
        run: {name: sides for name, sides in found.items() if not again(place, name)}
        for place, (run, found) in enumerate(runs)
    }
    return {run: found for run, found in left.items() if found}


def here() -> str:
    cpu = [
        line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line
    ]
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / (1 << 30)
    return ", ".join(
        [
            f"{os.cpu_count()} cores ({cpu[0] if cpu else platform.machine()}), {memory:.0f} GB",
            f"Python {platform.python_version()}",
            f"Spark {pyspark.__version__}",
        ]
    )


def measured(found: Found) -> Rows:
    """Every figure. A system's rows are fewer where it is slow; the rate is that of what it took."""
    return [
        [
            workload,
            SYSTEMS[name].title,
            f"{figures.median_ms:,.0f} ms ({min(figures.ms):,.0f} - {max(figures.ms):,.0f})",
            f"{figures.rate:,.0f}" if figures.rows else "",
            f"{figures.whole_s:,.1f} s",
            f"{figures.cpu_s:,.0f} s",
            f"{figures.peak_mb:,} MB",
        ]
        for workload, sides in found.items()
        for name, figures in sides.items()
    ]


def ordinary(found: Found) -> Rows:
    """The comparisons on rows as people have them, from the form that Mullion does best to the one it does worst."""

    def times(sides: dict[str, Figures], other: str) -> str:
        return f"{sides[other].median_ms / sides['mullion'].median_ms:.2f}" if other in sides else ""

    ran = [(w.name, found[w.name]) for w in ORDINARY if "mullion" in found.get(w.name, {})]
    ran.sort(key=lambda row: row[1]["mullion"].median_ms)
    return [
        [name, f"{sides['mullion'].median_ms:,.0f}", times(sides, "spark"), times(sides, "ceiling")]
        for name, sides in ran
    ]


def costs(found: Found) -> Rows:
    """What a batch costs and what a row adds, of each system that ran with three sizes of batches."""
    rows: Rows = []
    for keys, sizes in SIZED.items():
        for name, system in SYSTEMS.items():
            medians = {
                size: found[workload.name][name].median_ms
                for size, workload in sizes.items()
                if system.is_on_spark and name in found.get(workload.name, {})
            }
            if len(medians) > 2:
                batch, row = line(medians)
                shown = [f"{medians[size]:,.0f} ms" if size in medians else "" for size in SIZES]
                rows.append([KEYS[keys], system.title, *shown, f"{batch:,.0f} ms", f"{row:,.0f} ns"])
    return rows


def line(medians: dict[int, float]) -> tuple[float, float]:
    """Milliseconds a batch, and nanoseconds a row: the line that is off by the least share of each median."""
    sizes, times = np.array(list(medians)), np.array(list(medians.values()))
    slope, batch = np.polyfit(sizes, times, 1, w=1 / times)
    return float(batch), float(slope * 1e6)


def spent(found: Found) -> Rows:
    return [
        [workload, SYSTEMS[name].title, *(f"{ms:,.0f}" for ms in (figures.median_ms, *figures.parts.values()))]
        for workload, sides in found.items()
        for name, figures in sides.items()
        if figures.parts
    ]


def compared(found: Found) -> Compared:
    """Each comparison of which both sides ran."""
    return [(comparison, said) for comparison in COMPARISONS if (said := said_of(comparison, found))]


def said_of(comparison: Comparison, found: Found) -> dict[str, Any] | None:
    """What ``latest.json`` says of a comparison, if both its sides ran."""
    beside = comparison.beside or comparison.workload
    ours = found.get(comparison.workload.name, {}).get("mullion")
    theirs = found.get(beside.name, {}).get(comparison.theirs)
    if ours is None or theirs is None:
        return None
    mine, other = comparison.pair(ours, theirs)
    return {
        "workload": comparison.workload.name,
        "against": SYSTEMS[comparison.theirs].title + (f", {beside.name}" if comparison.beside else ""),
        "unit": comparison.unit,
        "ours": round(mine),
        "theirs": round(other),
        "ratio": round(mine / other, 3),
        "goal": comparison.said(),
    }


def shown(comparisons: Compared) -> Rows:
    met = {None: "", True: "met", False: "missed"}
    return [
        [
            said["workload"],
            said["against"],
            said["unit"],
            f"{said['ours']:,}",
            f"{said['theirs']:,}",
            f"{said['ratio']:.2f}",
            said["goal"] or "",
            met[comparison.met(said["ratio"])],
        ]
        for comparison, said in comparisons
    ]


def markdown(heads: list[str], rows: Rows) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in [heads, ["---"] * len(heads), *rows])


def write_into(page: Path, produced: str) -> None:
    """Puts what was produced between the marks of a page."""
    before, rest = page.read_text().split(BEGIN)
    _, after = rest.split(END)
    page.write_text(f"{before}{BEGIN}\n{produced}\n{END}{after}")


def bars(found: Found, file: Path) -> None:
    """Rows a second of each system on each workload, on a logarithmic scale, from the least to the most."""
    sides = {name: sides for name, sides in found.items() if any(figures.rows for figures in sides.values())}
    figure, axes = plt.subplots(figsize=(11, 1 + 0.3 * sum(len(each) + 1.5 for each in sides.values())))
    place = 0.0
    ticks: list[tuple[float, str, bool]] = []
    for workload, systems in sides.items():
        ticks.append((place, workload, True))
        for name, figures in systems.items():
            place += 1
            rates = [figures.rows / ms * 1000 for ms in figures.ms]
            spread = [[figures.rate - min(rates)], [max(rates) - figures.rate]]
            color = "tab:blue" if SYSTEMS[name].title.startswith("Mullion") else "silver"
            axes.barh(place, figures.rate, color=color, xerr=spread, ecolor="dimgrey")
            ticks.append((place, SYSTEMS[name].title, False))
        place += 1.5
    axes.set_xscale("log")
    axes.set_yticks([at for at, _, _ in ticks], [said for _, said, _ in ticks])
    for label, (_, _, heading) in zip(axes.get_yticklabels(), ticks, strict=True):
        label.set_fontweight("bold" if heading else "normal")
    axes.set_ylim(place - 1, -1)
    axes.set_xlabel("rows per second in a warm batch")
    figure.tight_layout()
    figure.savefig(file, dpi=100)


def lines(curves: list[tuple[Curve, Found]], file: Path) -> None:
    figure, grid = plt.subplots(1, len(curves), figsize=(5 * len(curves), 4), squeeze=False)
    for axes, (curve, found) in zip(grid[0], curves, strict=True):
        for name, system in SYSTEMS.items():
            drawn = {
                at: UNITS[curve.unit](found[point.name][name])
                for at, point in curve.points.items()
                if name in found.get(point.name, {})
            }
            if drawn:
                axes.plot(list(drawn), list(drawn.values()), marker="o", label=system.title)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel(curve.along)
        axes.set_ylabel(curve.unit)
        axes.legend(fontsize="small")
    figure.tight_layout()
    figure.savefig(file, dpi=100)
