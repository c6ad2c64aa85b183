"""Alerts about hosts with a high error rate, in the batch form: one call per tick over Arrow, for any number of panes.

    python examples/score_alert.py

After an alert, a host has no further alert for five minutes: the callback stores the time in the state of its shard.
"""

# Class names follow Turbine's documents.
# ruff: noqa: N801

from __future__ import annotations

import os
import random
import tempfile
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import mullion.turbine as turbine
from mullion import topics
from mullion.turbine import RecordBatch, TurbineState
from mullion.turbine import aggregates as agg
from mullion.turbine import functions as fn
from mullion.turbine import windowing as win

BROKER = os.environ.get("BROKER") or f"dir:{tempfile.mkdtemp(prefix='alerts-')}"
COOLDOWN_MS = 5 * 60_000

app = turbine.App("alerts", broker=BROKER)


@app.subscribe("requests", publish_to="alerts", partition_key="host", parallelism=2)
class score_alert:
    def __init__(self) -> None:
        self._win = win.PersistentSliding(
            self,
            name="error_rate",
            size_ms=60_000,
            slide_ms=30_000,
            value=agg.Multi(
                errors=agg.CountIf(fn.col("status") >= 500),
                p95=agg.Percentile("latency_ms", 0.95),
                n=agg.Count(),
            ),
            time_column="event_ts_ms",
            on_close=self._emit,
        )

    def _emit(self, state: TurbineState, panes: pa.Table) -> RecordBatch | None:
        rate = pc.divide(panes["errors"].cast(pa.float64()), panes["n"].cast(pa.float64()))
        score = pc.multiply(rate, pc.if_else(pc.greater(panes["p95"], 500.0), 2.0, 1.0))
        scored = panes.append_column("score", score)
        bad = scored.filter(pc.greater(score, 0.5)).sort_by("window_end_ms")
        is_new = []
        for host, end in zip(bad["host"].to_pylist(), bad["window_end_ms"].to_pylist(), strict=True):
            quiet = end - state.get(host, -COOLDOWN_MS) < COOLDOWN_MS
            is_new.append(not quiet)
            if not quiet:
                state[host] = end
        alerts = bad.filter(pa.array(is_new, pa.bool_())).select(
            ["host", "window_end_ms", "score", "errors", "n", "p95"]
        )
        return alerts.combine_chunks().to_batches()[0] if alerts.num_rows else None

    def process(self, batch: RecordBatch, state: TurbineState) -> RecordBatch | None:
        self._win.update(batch, state)
        return None


def requests(minutes: int = 8) -> list[list[dict[str, Any]]]:
    """Requests, a minute per batch; two hosts fail for some time."""
    rng = random.Random(7)
    batches = []
    for minute in range(minutes):
        rows = []
        for _ in range(400):
            host, second = f"host-{rng.randrange(8)}", rng.uniform(0, 60)
            bad = (host == "host-3" and minute >= 2) or (host == "host-5" and minute == 4)
            status = 500 if rng.random() < (0.6 if bad else 0.02) else 200
            latency = rng.lognormvariate(6.3 if bad else 4.5, 0.5)
            at = int((minute * 60 + second) * 1_000)
            rows.append({"host": host, "status": status, "latency_ms": latency, "event_ts_ms": at})
        batches.append(rows)
    return batches


def main() -> None:
    for batch in requests():
        topics.produce(BROKER, "requests", batch)
    app.run(until="drained")
    print(app.explain(), "\n")
    for row in topics.read(BROKER, "alerts").to_pylist():
        at = f"{row['window_end_ms'] // 60_000:02}:{row['window_end_ms'] // 1_000 % 60:02}"
        says = f"{row['errors']} of {row['n']} failed, p95 {row['p95']:.0f} ms"
        print(f"{at}  {row['host']}  score {row['score']:.2f}  {says}")


if __name__ == "__main__":
    main()
