"""What is compared with what, and the ratio to reach.

A ratio is Mullion's figure over the other's: of rows a second it is to be at least, of milliseconds and of memory at
most, what the goal says. Comparisons without a goal are shown all the same.
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
    """Mullion on ``workload`` against ``theirs`` on ``beside``, which is the same workload unless said."""

    workload: Workload
    theirs: str
    goal: float | None = None
    unit: str = "rows/s"
    beside: Workload | None = None
    first: str | None = None
    """What the README, if it shows the comparison too, calls the other side."""

    @property
    def more_is_better(self) -> bool:
        return self.unit.startswith("rows/s")

    def met(self, ratio: float) -> bool | None:
        if self.goal is None:
            return None
        return ratio >= self.goal if self.more_is_better else ratio <= self.goal

    def pair(self, ours: Figures, theirs: Figures) -> tuple[float, float]:
        """The two figures. Memory is that up to the last batch that both took whole: a JVM's peak rises with each.

        The last turn of all is for a row that closes panes; one that takes more rows has a whole batch in that turn.
        """
        turns = min(len(ours.peaks_mb), len(theirs.peaks_mb))
        if len(ours.peaks_mb) != len(theirs.peaks_mb):
            turns -= 1
        if self.unit == "MB" and turns > 0:
            return ours.peaks_mb[turns - 1], theirs.peaks_mb[turns - 1]
        unit = UNITS[self.unit]
        return unit(ours), unit(theirs)

    def said(self) -> str | None:
        return None if self.goal is None else f"{'>=' if self.more_is_better else '<='} {self.goal:g}"


# The factors to reach: against Spark's windows, and against the stateless baseline.
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
    Comparison(w.SIZED[100_000][5 * w.M], "ceiling", 2),
    Comparison(w.SIZED[1_000][5 * w.M], "ceiling", 2),
    Comparison(w.SIZED[100_000][5 * w.M], "spark", 4),
    Comparison(w.SIZED[1_000][5 * w.M], "spark", 3),
    Comparison(w.SIZED[100_000][5 * w.M], "duckdb", 0.6, first="DuckDB, all rows at once"),
    Comparison(w.TUMBLING_100K, "ceiling", 0.8, first="the stateless baseline"),
    Comparison(w.TUMBLING_3M, "ceiling", 0.6),
    Comparison(w.TUMBLING_100K, "spark", 2, first="Spark's windows"),
    Comparison(w.TUMBLING_100K, "spark hdfs"),
    Comparison(w.TUMBLING_3M, "spark", 4, first="Spark's windows"),
    Comparison(w.LARGER_THAN_CACHE, "spark"),
    Comparison(w.SLIDING_1K, "spark", 18, first="Spark's windows"),
    Comparison(w.SLIDING_1K, "ceiling", 0.8),
    Comparison(w.SLIDING_100K, "spark"),
    Comparison(w.SLIDING_100K, "ceiling", 0.8),
    Comparison(w.HOUR_1K, "spark", 500),
    # 1 / 1.3 of the rows a second: a row costs at most 1.3 times as much.
    Comparison(w.HOUR_1K, "mullion", 0.77, beside=w.TUMBLING_1K),
    Comparison(w.HOUR_100K, "mullion", beside=w.TUMBLING_100K),
    Comparison(w.VISITS, "spark", 3, first="Spark's windows"),
    Comparison(w.VISITS, "ceiling", 1),
    Comparison(w.BURSTS, "spark", 3),
    Comparison(w.BURSTS, "ceiling", 0.7),
    Comparison(w.NOTHING[300_000], "mullion", 1.2, unit="ms", beside=w.NOTHING[10_000]),
    Comparison(w.NOTHING[300_000], "spark", unit="ms"),
    Comparison(w.NOTHING[10 * w.M], "mullion", 1.2, unit="ms", beside=w.NOTHING[10_000]),
    Comparison(w.NOTHING[10 * w.M], "spark", unit="ms", first="Spark's windows"),
    Comparison(w.TUMBLING_1K, "pandas", 20, first="`transformWithStateInPandas`"),
    Comparison(w.TUMBLING_100K, "pandas", 20),
    Comparison(w.TUMBLING_1K, "bytewax", 10, first="Bytewax"),
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
    Comparison(w.FEW_ROWS, "ceiling", unit="ms"),
    Comparison(w.FEW_ROWS, "spark", 0.5, unit="ms", first="Spark's windows"),
    Comparison(w.FEW_ROWS_AT_ONE, "ceiling", unit="ms"),
    Comparison(w.FEW_ROWS_AT_ONE, "spark", 0.5, unit="ms"),
    Comparison(w.TUMBLING_100K, "spark", 1, unit="MB"),
    Comparison(w.SLIDING_1K, "spark", 1, unit="MB"),
    Comparison(w.TUMBLING_3M, "spark", 1, unit="MB"),
    Comparison(w.TUMBLING_100K, "mullion", 1.8, beside=w.ONE_CORE),
    Comparison(w.LATE, "spark"),
    Comparison(w.EARLY, "mullion", 0.7, beside=w.NOT_EARLY),
    *(
        Comparison(workload, other, goal)
        for workload in w.ORDINARY
        for other, goal in zip(("spark", "ceiling"), ORDINARY_GOALS.get(workload.name, (None, None)), strict=True)
        if other in workload.takes
    ),
    *(Comparison(workload, "spark", 1, unit="MB") for workload in w.ORDINARY if "spark" in workload.takes),
    *(Comparison(query, "spark") for query in w.NEXMARK),
    *(Comparison(query, "spark hdfs") for query in w.NEXMARK),
)
