"""The cost of a row or a batch by the number of keys, overlaps, cores and open panes. Each point is a workload."""

from __future__ import annotations

from dataclasses import dataclass, replace

from harness import workloads as w
from harness.workloads import Workload, everyone

M = w.M


@dataclass(frozen=True, slots=True)
class Curve:
    """Points of workloads at values of ``along``, and the unit (see ``goals.UNITS``) that is drawn."""

    along: str
    unit: str
    points: dict[int, Workload]


def keys(count: int) -> Workload:
    return replace(
        w.TUMBLING_100K,
        name=f"keys: {count:,}",
        keys=count,
        takes=everyone(6 * M, "mullion", "spark", "baseline"),
        more={},
        batches=6,
        heap=8,
    )


def overlaps(count: int) -> Workload:
    rows_of_system = everyone(2 * M, "mullion")
    # Spark's time grows with the overlaps.
    return replace(
        w.SLIDING_1K,
        name=f"overlaps: {count:,}",
        size=count,
        rows=500_000,
        batches=4,
        more={},
        takes=rows_of_system | ({"spark": 2 * M} if count <= 60 else {}),
        warm=2,
    )


def cores(count: int) -> Workload:
    takes = everyone(6 * M, "mullion", "spark", "baseline")
    return replace(w.TUMBLING_100K, name=f"cores: {count}", cores=count, batches=6, takes=takes, more={})


CURVES = (
    Curve("keys", "rows/s", {count: keys(count) for count in (1_000, 10_000, 100_000, 300_000, M)}),
    Curve("overlaps", "rows/s", {count: overlaps(count) for count in (1, 10, 60, 600, 3600)}),
    Curve("cores", "rows/s", {count: cores(count) for count in (1, 2)}),
    Curve("open panes, batch without rows", "ms", w.NOTHING),
)


def points() -> list[Workload]:
    """The points that are not workloads of the full benchmark."""
    all_points = [point for curve in CURVES for point in curve.points.values()]
    return [point for point in all_points if point not in w.FULL]
