"""The comparisons of the benchmark, and the ratios to reach.

A ratio is Mullion's figure divided by the other system's. The goal is a lower bound for rows per second, and an upper
bound for milliseconds and memory. Comparisons without a goal are shown too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from harness import workloads as w
from harness.measured import Figures
from harness.workloads import Workload

UNITS: dict[str, Callable[[Figures], float]] = {
    "rows/s": lambda figures: figures.rate,
    "ms": lambda figures: figures.median_ms,
    "MB": lambda figures: figures.peak_mb,
    "rows/s, whole run": lambda figures: figures.all_rows / figures.whole_s,
}


@dataclass(frozen=True, slots=True)
class Comparison:
    """Mullion on ``workload`` compared with ``other`` on ``other_workload``, by default the same workload."""

    workload: Workload
    other: str
    goal: float | None = None
    unit: str = "rows/s"
    other_workload: Workload | None = None
    readme_name: str | None = None
    """The name of the other side in the README. None: the README does not show this comparison."""

    @property
    def more_is_better(self) -> bool:
        return self.unit.startswith("rows/s")

    def is_met(self, ratio: float) -> bool | None:
        if self.goal is None:
            return None
        return ratio >= self.goal if self.more_is_better else ratio <= self.goal

    def pair(self, ours: Figures, other: Figures) -> tuple[float, float]:
        """The two figures. Memory is compared at the last common batch, because a JVM's peak rises with each batch.

        The last turn of the shorter run has only the row that closes all panes; the longer run has a batch there.
        """
        turns = min(len(ours.peaks_mb), len(other.peaks_mb))
        if len(ours.peaks_mb) != len(other.peaks_mb):
            turns -= 1
        if self.unit == "MB" and turns > 0:
            return ours.peaks_mb[turns - 1], other.peaks_mb[turns - 1]
        unit = UNITS[self.unit]
        return unit(ours), unit(other)

    def goal_text(self) -> str | None:
        return None if self.goal is None else f"{'>=' if self.more_is_better else '<='} {self.goal:g}"


# The ratios to reach, to Spark's windows and to the stateless baseline.
ORDINARY_GOALS: dict[str, tuple[float | None, float]] = {
    "UUID key": (5, 1.7),
    'text key "user-123"': (5, 1.7),
    "two text keys, device and country": (5, 1.7),
    "session 10 s, UUID key": (5, 1.2),
    "early every 2 s, UUID key": (4, 1),
    "JSON files, text key": (2.5, 1.3),
    "a value parsed by from_json, UUID key": (2.5, 1.3),
    "sliding 60 s / 1 s, UUID key": (None, 0.9),
    "avg, stddev, max of text, approx_count_distinct, max_by": (4, 1.2),
}

COMPARISONS = (
    Comparison(w.SIZED[100_000][5 * w.M], "baseline", 2),
    Comparison(w.SIZED[1_000][5 * w.M], "baseline", 2),
    Comparison(w.SIZED[100_000][5 * w.M], "spark", 4),
    Comparison(w.SIZED[1_000][5 * w.M], "spark", 3),
    Comparison(w.SIZED[100_000][5 * w.M], "duckdb", 0.6, readme_name="DuckDB, all rows at once"),
    Comparison(w.TUMBLING_100K, "baseline", 0.8, readme_name="the stateless baseline"),
    Comparison(w.TUMBLING_3M, "baseline", 0.6),
    Comparison(w.TUMBLING_100K, "spark", 2, readme_name="Spark's windows"),
    Comparison(w.TUMBLING_100K, "spark hdfs"),
    Comparison(w.TUMBLING_3M, "spark", 4, readme_name="Spark's windows"),
    Comparison(w.LARGER_THAN_CACHE, "spark"),
    Comparison(w.SLIDING_1K, "spark", 18, readme_name="Spark's windows"),
    Comparison(w.SLIDING_1K, "baseline", 0.8),
    Comparison(w.SLIDING_100K, "spark"),
    Comparison(w.SLIDING_100K, "baseline", 0.8),
    Comparison(w.HOUR_1K, "spark", 500),
    # 1 / 1.3 of the rows a second: a row costs at most 1.3 times as much.
    Comparison(w.HOUR_1K, "mullion", 0.77, other_workload=w.TUMBLING_1K),
    Comparison(w.HOUR_100K, "mullion", other_workload=w.TUMBLING_100K),
    Comparison(w.VISITS, "spark", 3, readme_name="Spark's windows"),
    Comparison(w.VISITS, "baseline", 1),
    Comparison(w.BURSTS, "spark", 3),
    Comparison(w.BURSTS, "baseline", 0.7),
    Comparison(w.NOTHING[300_000], "mullion", 1.2, unit="ms", other_workload=w.NOTHING[10_000]),
    Comparison(w.NOTHING[300_000], "spark", unit="ms"),
    Comparison(w.NOTHING[10 * w.M], "mullion", 1.2, unit="ms", other_workload=w.NOTHING[10_000]),
    Comparison(w.NOTHING[10 * w.M], "spark", unit="ms", readme_name="Spark's windows"),
    Comparison(w.TUMBLING_1K, "pandas", 20, readme_name="`transformWithStateInPandas`"),
    Comparison(w.TUMBLING_100K, "pandas", 20),
    Comparison(w.TUMBLING_1K, "bytewax", 10, readme_name="Bytewax"),
    Comparison(w.SLIDING_1K, "bytewax", 80),
    Comparison(w.TUMBLING_1K, "quix"),
    Comparison(w.TUMBLING_1K, "pathway"),
    Comparison(w.TUMBLING_1K, "pyflink"),
    Comparison(w.SLIDING_1K, "pyflink"),
    Comparison(w.TUMBLING_1K, "duckdb"),
    Comparison(w.TUMBLING_100K, "duckdb"),
    Comparison(w.SLIDING_1K, "duckdb"),
    Comparison(w.VISITS, "duckdb"),
    Comparison(w.FEW_ROWS, "stateless", 1.1, unit="ms"),
    Comparison(w.FEW_ROWS, "baseline", unit="ms"),
    Comparison(w.FEW_ROWS, "spark", 0.5, unit="ms", readme_name="Spark's windows"),
    Comparison(w.FEW_ROWS_AT_ONE, "baseline", unit="ms"),
    Comparison(w.FEW_ROWS_AT_ONE, "spark", 0.5, unit="ms"),
    Comparison(w.TUMBLING_100K, "spark", 1, unit="MB"),
    Comparison(w.SLIDING_1K, "spark", 1, unit="MB"),
    Comparison(w.TUMBLING_3M, "spark", 1, unit="MB"),
    Comparison(w.TUMBLING_100K, "mullion", 1.8, other_workload=w.ONE_CORE),
    Comparison(w.LATE, "spark"),
    Comparison(w.EARLY, "mullion", 0.7, other_workload=w.NOT_EARLY),
    *(
        Comparison(workload, system, goal)
        for workload in w.ORDINARY
        for system, goal in zip(("spark", "baseline"), ORDINARY_GOALS.get(workload.name, (None, None)), strict=True)
        if system in workload.takes
    ),
    *(Comparison(workload, "spark", 1, unit="MB") for workload in w.ORDINARY if "spark" in workload.takes),
    *(Comparison(query, "spark") for query in w.NEXMARK),
    *(Comparison(query, "spark hdfs") for query in w.NEXMARK),
)
