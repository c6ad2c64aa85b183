"""The revenue of a shop, live every ten seconds and final when a window closes: Turbine's first example.

    python examples/revenue.py                          a morning of orders, early and final rows
    mullion turbine explain examples.revenue:app        shows which parts run in the JVM and in Python

Topics are folders here. For a Kafka server, set ``broker="kafka://host:port"``.
"""

# Class names follow Turbine's documents.
# ruff: noqa: N801

from __future__ import annotations

import os
import random
import tempfile
from typing import Any

import pyarrow as pa

import mullion.turbine as turbine
from mullion import topics
from mullion.turbine import RecordBatch, TurbineState
from mullion.turbine import aggregates as agg
from mullion.turbine import windowing as win

BROKER = os.environ.get("BROKER") or f"dir:{tempfile.mkdtemp(prefix='revenue-')}"
OPENS_MS = 1_735_722_000_000  # 2025-01-01 09:00 UTC
REGIONS = {"north": 0.5, "south": 0.3, "east": 0.2}

app = turbine.App("revenue", broker=BROKER)


@app.subscribe("orders", publish_to="revenue_5m")
class revenue:
    def __init__(self) -> None:
        self._win = win.PersistentTumbling(
            self,
            name="revenue_5m",
            size_ms=5 * 60_000,
            key=["region"],
            value=agg.Sum("amount"),
            time_column="event_ts_ms",
            allowed_lateness_ms=5_000,
            on_close_each=self._commit,  # 1x, authoritative, at close
            early_fire_interval_ms=10_000,  # every 10 s while the window is open
            on_early_fire_each=self._live_gauge,  # n x, provisional, current so far
        )

    def _commit(self, state: TurbineState, window: win.Window, value: float) -> RecordBatch:
        row = {**window.group, "revenue": float(value), "final": True}
        return pa.RecordBatch.from_pylist([{**row, "window_start_ms": window.start_ms, "window_end_ms": window.end_ms}])

    def _live_gauge(self, state: TurbineState, window: win.Window, value: float) -> RecordBatch:
        row = {**window.group, "revenue": float(value), "final": False}
        return pa.RecordBatch.from_pylist([{**row, "window_start_ms": window.start_ms, "window_end_ms": window.end_ms}])

    def process(self, batch: RecordBatch, state: TurbineState) -> RecordBatch | None:
        self._win.update(batch, state)
        return None


def orders(minutes: int = 11, every_seconds: int = 30) -> list[list[dict[str, Any]]]:
    """Batches of orders for the shop's topic; some orders are up to 20 seconds old."""
    rng = random.Random(2025)
    batches = []
    for start in range(0, minutes * 60, every_seconds):
        seconds = sorted(rng.uniform(start, start + every_seconds) for _ in range(every_seconds * 2))
        batches.append(
            [
                {
                    "region": rng.choices(list(REGIONS), list(REGIONS.values()))[0],
                    "amount": round(rng.lognormvariate(3.5, 0.8), 2),
                    "event_ts_ms": OPENS_MS + int(max(0.0, second - abs(rng.gauss(0, 4))) * 1_000),
                }
                for second in seconds
            ]
        )
    return batches


def main() -> None:
    for batch in orders():
        topics.produce(BROKER, "orders", batch)
    app.run(until="drained")
    print(app.explain(), "\n")
    early: dict[Any, list[float]] = {}
    for row in topics.read(BROKER, "revenue_5m").to_pylist():
        pane = (row["window_start_ms"] - OPENS_MS) // 60_000, row["region"]
        if not row["final"]:
            early.setdefault(pane, []).append(row["revenue"])
            continue
        live = early.pop(pane, [])
        minute = f"09:{pane[0]:02}-09:{pane[0] + 5:02}"
        gauge = " ".join(f"{value:,.0f}" for value in live[:4])
        print(f"{minute}  {pane[1]:<6} final {row['revenue']:>10,.2f}   {len(live):>2} live: {gauge} ...")
    print(f"\n{len(early)} windows are still open: the watermark has not passed their end.")


if __name__ == "__main__":
    main()
