"""``InMemory*`` windows publish what ``Persistent*`` ones do."""

# Programs are written as users write them.
# ruff: noqa: N801
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from mullion import topics, turbine
from mullion._util.clock import ManualClock
from mullion.turbine import aggregates as agg
from mullion.turbine import windowing as win


def program(broker: str, spark: SparkSession, kind: str) -> turbine.App:
    # On the machine's clock, a slow batch fires panes early.
    app = turbine.App("shop", broker=broker, spark=spark, clock=ManualClock())

    @app.subscribe("orders", publish_to={"early": "live", "close": "revenue"})
    class revenue:
        def __init__(self) -> None:
            self._win = getattr(win, kind)(
                self,
                name="revenue",
                size_ms=10_000,
                key=["region"],
                value=agg.Sum("amount"),
                time_column="ts",
                allowed_lateness_ms=2_000,
                early_fire_interval_ms=3_000,
                on_early_fire_each=self._over,
                on_close_each=self._over,
            )

        def _over(self, state, window, value):
            return pa.RecordBatch.from_pylist([{**window.group, "start": window.start_ms, "amount": value}])

        def process(self, batch, state):
            self._win.update(batch, state)

    return app


def rows(number: int) -> list[dict[str, Any]]:
    """Those of a call: some of the window before, which is open still, and one that is late."""
    times = [3_000 * number + back for back in (0, 1_000, 2_900, -3_500)] + [-20_000]
    return [{"region": "ab"[i % 2], "amount": 10**number + i, "ts": 10**12 + t} for i, t in enumerate(times)]


def published(broker: str, *names: str) -> dict[str, Counter[str]]:
    """The contents of each topic, independent of the order of shards."""
    rows_by_topic = {}
    for topic in names:
        table = topics.read(broker, topic).drop_columns(["_key", "_timestamp"])
        rows_by_topic[topic] = Counter(map(repr, table.to_pylist()))
    return rows_by_topic


def test_windows_in_memory_publish_what_persistent_ones_publish_over_several_runs(
    spark: SparkSession, tmp_path: Path
) -> None:
    brokers = {kind: f"dir:{tmp_path / kind}" for kind in ("PersistentTumbling", "InMemoryTumbling")}
    for number in range(4):
        for kind, broker in brokers.items():
            topics.produce(broker, "orders", rows(number * 3))
            program(broker, spark, kind).run(until="drained")
    persistent, in_memory = (published(broker, "live", "revenue") for broker in brokers.values())
    assert in_memory == persistent
    assert len(in_memory["revenue"]) >= 6
    assert len(in_memory["live"]) >= 6
