"""Reports of benchmark runs: tables of ratios and goals, of all figures, plots, and ``results/latest.json``.

A run has the figures of one machine and one day. Figures of two runs are never compared, because machines have slow
hours. Each comparison is shown for the last run that has both its sides.
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
PAGE, README = ROOT / "docs" / "reference" / "results.md", ROOT / "README.md"
FROM_PAGE = "../../benchmarks/results"
BEGIN, END = "<!-- begin: as produced -->", "<!-- end: as produced -->"

PARTS = ["workload", "system", "batch", "source", "planning", "running", "logs", "updates", "removals", "commits"]

RATIOS_TEXT = """A ratio is Mullion's figure divided by the other one. More rows per second are better, and fewer
milliseconds and megabytes. The last columns show the project's goal and its result in this run."""

PARTS_TEXT = """\
Milliseconds of a warm batch, the median of each part. `source` finds new input, `planning` plans the batch,
`running` runs its tasks, `logs` writes Spark's logs. The last three are parts of `running`, summed over the tasks, from
the metrics of the stateful operator: updates of state, removals and commits."""

ORDINARY_TEXT = """Batches of 1,000,000 rows with 100,000 keys, and tumbling windows of ten seconds unless a row
names others. Milliseconds of a warm batch, and how many times as long Spark's windows and the stateless baseline
take."""

COSTS_TEXT = """\
Tumbling windows of ten seconds. Milliseconds of a warm batch by its number of rows, and the line through
them: the fixed cost of a batch and the cost of each row, from which you can predict your own batches."""

Results = dict[str, dict[str, Figures]]
# The results of each run, the newest last.
Runs = dict[str, Results]
Rows = list[list[str]]
# Each comparison with its entry of ``latest.json``.
Compared = list[tuple[Comparison, dict[str, Any]]]

COMPARED = ["workload", "compared with", "unit", "Mullion", "other", "ratio", "goal", ""]
MEASURED = ["workload", "system", "warm batch (range)", "rows/s", "complete run", "processor time", "peak memory"]
COSTS = ["keys", "system", *(f"{rows:,} rows" for rows in SIZES), "per batch", "per row"]
ORDINARY_ROWS = ["rows", "Mullion, ms per batch", "times as fast as Spark's windows", "... as the stateless baseline"]
AT_A_GLANCE = ["windows", "compared with", "other", "Mullion", "ratio"]


def show(results: Results, console: Console, minutes: float) -> None:
    tables = ((MEASURED, measured(results)), (COSTS, costs(results)), (COMPARED, ratio_rows(compared(results))))
    for heads, rows in (*tables, (ORDINARY_ROWS, ordinary(results))):
        if not rows:
            continue
        table = Table(*heads)
        for row in rows:
            table.add_row(*row)
        console.print(table)
    console.print(f"{', '.join(filter(None, (this_machine(), peers([results]))))}. {minutes:.0f} minutes in all.")


def keep(runs: Runs) -> None:
    """Writes results into ``benchmarks/results``, the README and the page."""
    RESULTS.mkdir(exist_ok=True)
    entries = [{**entry, "run": run} for run, pairs in last_compared(runs).items() for _, entry in pairs]
    (RESULTS / "latest.json").write_text(json.dumps(entries, indent=1) + "\n")
    raw = {
        run: {name: {who: asdict(figures) for who, figures in sides.items()} for name, sides in results.items()}
        for run, results in runs.items()
    }
    (RESULTS / "runs.json").write_text(json.dumps(raw) + "\n")
    in_curves = {point.name for point in points()}
    bars(
        {name: sides for results in runs.values() for name, sides in results.items() if name not in in_curves},
        RESULTS / "latest.png",
    )
    if curves := curves_to_draw(runs):
        lines(curves, RESULTS / "curves.png")
    write_into(README, readme_tables(runs))
    write_into(PAGE, page_tables(runs))


def readme_tables(runs: Runs) -> str:
    """The tables of the README: at most ten comparisons, in descending order of ratio within each run."""
    first: dict[str, Rows] = {}
    for run, pairs in last_compared(runs).items():
        titled = [(comparison.readme_name, entry, times_as_fast(comparison, entry)) for comparison, entry in pairs]
        titled.sort(key=lambda glance: glance[2], reverse=True)
        first[run] = [at_a_glance(name, entry, ratio) for name, entry, ratio in titled if name]
    return by_run(AT_A_GLANCE, first)


def page_tables(runs: Runs) -> str:
    """The tables and pictures of the page of results, for each run."""
    pictures = [f"![Rows per second of each system, on a logarithmic scale]({FROM_PAGE}/latest.png)"]
    if curves_to_draw(runs):
        pictures.append(f"![The cost of a row or a batch by keys, overlaps and cores]({FROM_PAGE}/curves.png)")
    rows = by_run(ORDINARY_ROWS, {at: ordinary(results) for at, results in runs.items()})
    costly = by_run(COSTS, {at: costs(results) for at, results in runs.items()})
    sections = (
        "## Ratios",
        RATIOS_TEXT,
        f"Other systems: {peers(list(runs.values()))}.",
        by_run(COMPARED, {at: ratio_rows(compared(results)) for at, results in runs.items()}),
        *(["## Ordinary rows", ORDINARY_TEXT, rows] if rows else []),
        *(["## Cost of a batch", COSTS_TEXT, costly] if costly else []),
        *pictures,
        "## All figures",
        by_run(MEASURED, {at: measured(results) for at, results in runs.items()}),
        "## Parts of a batch",
        PARTS_TEXT,
        by_run(PARTS, {at: batch_parts(results) for at, results in runs.items()}),
    )
    return "\n\n".join(sections)


def curves_to_draw(runs: Runs) -> list[tuple[Curve, Results]]:
    """Each curve, with the results of the run that has most of its points."""
    return [(curve, results) for curve in CURVES if (results := most_of(curve, runs))]


def times_as_fast(comparison: Comparison, entry: dict[str, Any]) -> float:
    ratio: float = entry["ratio"]
    return ratio if comparison.more_is_better else 1 / ratio


def at_a_glance(other: str, entry: dict[str, Any], faster: float) -> list[str]:
    """A row of the README's table."""
    unit = entry["unit"]
    return [entry["workload"], other, f"{entry['theirs']:,} {unit}", f"{entry['ours']:,} {unit}", two_digits(faster)]


def two_digits(ratio: float) -> str:
    """A ratio with two significant digits: ``0.87``, ``3.7``, ``21``, ``150,000``."""
    rounded = float(f"{ratio:.1e}")
    return f"{rounded:,.{max(1 - math.floor(math.log10(rounded)), 0)}f}"


def by_run(heads: list[str], results: dict[str, Rows]) -> str:
    """A table for each run that has rows, the newest run first."""
    return "\n\n".join(f"{run}:\n\n{markdown(heads, rows)}" for run, rows in reversed(results.items()) if rows)


def stored_runs() -> Runs:
    """The runs that are stored in ``benchmarks/results``."""
    file = RESULTS / "runs.json"
    if not file.exists():
        return {}
    before: dict[str, Any] = json.loads(file.read_text())
    return {
        run: {name: {who: Figures(**entry) for who, entry in sides.items()} for name, sides in results.items()}
        for run, results in before.items()
    }


def last_compared(runs: Runs) -> dict[str, Compared]:
    """Each comparison, under the last run that has both its sides."""
    last: dict[str, Compared] = {run: [] for run in runs}
    for comparison in COMPARISONS:
        for run, results in reversed(runs.items()):
            if entry := entry_of(comparison, results):
                last[run].append((comparison, entry))
                break
    return last


def most_of(curve: Curve, runs: Runs) -> Results | None:
    """The results of the run that has most points of a curve, and at least two."""

    def points_found(results: Results) -> int:
        return sum(point.name in results for point in curve.points.values())

    best = max(reversed(runs.values()), key=points_found)
    return best if points_found(best) > 1 else None


def peers(runs: list[Results]) -> str:
    names = {name for results in runs for sides in results.values() for name in sides if SYSTEMS[name].group}
    return ", ".join(f"{SYSTEMS[name].title} {SYSTEMS[name].version()}" for name in sorted(names))


DAY = re.compile(r", \d{4}-\d\d-\d\d$")


def this_run() -> str:
    return f"{this_machine()}, {date.today()}"


def is_of(run: str, machine: str) -> bool:
    """True if the run is of this machine. The names of the oldest runs have no day."""
    return DAY.sub("", run) == machine


def without_repeated(runs: Runs) -> Runs:
    """Removes workloads that a later run of the same machine measured with all the same systems."""
    pairs = list(runs.items())

    def again(place: int, workload: str) -> bool:
        run, results = pairs[place]
        return any(
            is_of(later, DAY.sub("", run)) and results[workload].keys() <= then.get(workload, {}).keys()
            for later, then in pairs[place + 1 :]
        )

    remaining = {
        run: {name: sides for name, sides in results.items() if not again(place, name)}
        for place, (run, results) in enumerate(pairs)
    }
    return {run: results for run, results in remaining.items() if results}


def this_machine() -> str:
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


def measured(results: Results) -> Rows:
    """All figures. Slow systems process fewer rows; the rate is that of the rows that a system processed."""
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
        for workload, sides in results.items()
        for name, figures in sides.items()
    ]


def ordinary(results: Results) -> Rows:
    """The comparisons on ordinary rows, in ascending order of Mullion's time."""

    def times(sides: dict[str, Figures], other: str) -> str:
        return f"{sides[other].median_ms / sides['mullion'].median_ms:.2f}" if other in sides else ""

    measured_here = [(w.name, results[w.name]) for w in ORDINARY if "mullion" in results.get(w.name, {})]
    measured_here.sort(key=lambda row: row[1]["mullion"].median_ms)
    return [
        [name, f"{sides['mullion'].median_ms:,.0f}", times(sides, "spark"), times(sides, "baseline")]
        for name, sides in measured_here
    ]


def costs(results: Results) -> Rows:
    """The fixed cost of a batch and the cost of a row, of each system that ran with at least three sizes of batches."""
    rows: Rows = []
    for keys, sizes in SIZED.items():
        for name, system in SYSTEMS.items():
            medians = {
                size: results[workload.name][name].median_ms
                for size, workload in sizes.items()
                if system.is_on_spark and name in results.get(workload.name, {})
            }
            if len(medians) > 2:
                batch, row = line(medians)
                shown = [f"{medians[size]:,.0f} ms" if size in medians else "" for size in SIZES]
                rows.append([KEYS[keys], system.title, *shown, f"{batch:,.0f} ms", f"{row:,.0f} ns"])
    return rows


def line(medians: dict[int, float]) -> tuple[float, float]:
    """Milliseconds per batch and nanoseconds per row: the line with the least relative error at the medians."""
    sizes, times = np.array(list(medians)), np.array(list(medians.values()))
    slope, batch = np.polyfit(sizes, times, 1, w=1 / times)
    return float(batch), float(slope * 1e6)


def batch_parts(results: Results) -> Rows:
    return [
        [workload, SYSTEMS[name].title, *(f"{ms:,.0f}" for ms in (figures.median_ms, *figures.parts.values()))]
        for workload, sides in results.items()
        for name, figures in sides.items()
        if figures.parts
    ]


def compared(results: Results) -> Compared:
    """The comparisons whose two sides ran, with their entries."""
    return [(comparison, entry) for comparison in COMPARISONS if (entry := entry_of(comparison, results))]


def entry_of(comparison: Comparison, results: Results) -> dict[str, Any] | None:
    """The entry of a comparison in ``latest.json``, if both its sides ran."""
    other_workload = comparison.other_workload or comparison.workload
    our_figures = results.get(comparison.workload.name, {}).get("mullion")
    other_figures = results.get(other_workload.name, {}).get(comparison.other)
    if our_figures is None or other_figures is None:
        return None
    mine, other = comparison.pair(our_figures, other_figures)
    return {
        "workload": comparison.workload.name,
        "against": SYSTEMS[comparison.other].title + (f", {other_workload.name}" if comparison.other_workload else ""),
        "unit": comparison.unit,
        "ours": round(mine),
        "theirs": round(other),
        "ratio": round(mine / other, 3),
        "goal": comparison.goal_text(),
    }


def ratio_rows(comparisons: Compared) -> Rows:
    met = {None: "", True: "met", False: "missed"}
    return [
        [
            entry["workload"],
            entry["against"],
            entry["unit"],
            f"{entry['ours']:,}",
            f"{entry['theirs']:,}",
            f"{entry['ratio']:.2f}",
            entry["goal"] or "",
            met[comparison.is_met(entry["ratio"])],
        ]
        for comparison, entry in comparisons
    ]


def markdown(heads: list[str], rows: Rows) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in [heads, ["---"] * len(heads), *rows])


def write_into(page: Path, produced: str) -> None:
    """Replaces the text between the markers of a page."""
    before, rest = page.read_text().split(BEGIN)
    _, after = rest.split(END)
    page.write_text(f"{before}{BEGIN}\n{produced}\n{END}{after}")


def bars(results: Results, file: Path) -> None:
    """Draws the rows per second of each system on each workload, on a logarithmic scale."""
    sides = {name: sides for name, sides in results.items() if any(figures.rows for figures in sides.values())}
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
    axes.set_yticks([at for at, _, _ in ticks], [label for _, label, _ in ticks])
    for label, (_, _, heading) in zip(axes.get_yticklabels(), ticks, strict=True):
        label.set_fontweight("bold" if heading else "normal")
    axes.set_ylim(place - 1, -1)
    axes.set_xlabel("rows per second in a warm batch")
    figure.tight_layout()
    figure.savefig(file, dpi=100)


def lines(curves: list[tuple[Curve, Results]], file: Path) -> None:
    figure, grid = plt.subplots(1, len(curves), figsize=(5 * len(curves), 4), squeeze=False)
    for axes, (curve, results) in zip(grid[0], curves, strict=True):
        for name, system in SYSTEMS.items():
            points_by_value = {
                at: UNITS[curve.unit](results[point.name][name])
                for at, point in curve.points.items()
                if name in results.get(point.name, {})
            }
            if points_by_value:
                axes.plot(list(points_by_value), list(points_by_value.values()), marker="o", label=system.title)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel(curve.along)
        axes.set_ylabel(curve.unit)
        axes.legend(fontsize="small")
    figure.tight_layout()
    figure.savefig(file, dpi=100)
