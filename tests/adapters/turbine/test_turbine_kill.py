"""Turbine programs that are killed: what they publish is what they would have published undisturbed."""

# Programs are written as users write them.
# ruff: noqa: N801
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from mullion import topics, turbine
from mullion.turbine import aggregates as agg
from mullion.turbine import windowing as win
from tests.support.killing import committed, kill_after, session_of_its_own, somewhere_in_a_batch
from tests.support.seeds import SEED

pytestmark = pytest.mark.slow

LAST_MS = 10**12


def program(broker: str, spark: SparkSession) -> turbine.App:
    """Windows in the JVM with early firings, windows that share the state of their shard, and some made from data."""
    app = turbine.App("shop", broker=broker, spark=spark)

    @app.subscribe("orders", publish_to={"early": "live", "close": "revenue"})
    class revenue:
        def __init__(self) -> None:
            self._win = win.PersistentSliding(
                self,
                name="revenue",
                size_ms=10_000,
                slide_ms=5_000,
                key=["region"],
                value=agg.Multi(total=agg.Sum("amount"), n=agg.Count(), top=agg.Max("amount")),
                time_column="ts",
                allowed_lateness_ms=2_000,
                on_close=self._panes,
                early_fire_interval_ms=3_000,
                on_early_fire=self._panes,
            )

        def _panes(self, state, panes):
            return panes.combine_chunks().to_batches()[0]

        def process(self, batch, state):
            self._win.update(batch, state)

    @app.subscribe("orders", publish_to="visits", partition_key="region", parallelism=2)
    class visits:
        def __init__(self) -> None:
            self._win = win.PersistentSession(
                self, name="visits", gap_ms=1_500, value=agg.Count(), time_column="ts", on_close_each=self._over
            )

        def process(self, batch, state):
            for region in batch["region"].to_pylist():
                state[region] = state.get(region, 0) + 1
            self._win.update(batch, state)
            for region in pc.unique(batch["region"]).to_pylist():
                self._of(region).update(batch.filter(pc.equal(batch["region"], region)), state)

        def _of(self, region):
            common: Any = {
                "name": f"of {region}",
                "value": agg.Count(),
                "time_column": "ts",
                "on_close_each": self._over,
            }
            return win.PersistentTumbling(self, size_ms=1_000 * ord(region), **common)

        def on_recover(self, name, spec):
            return spec.window(self, on_close_each=self._over)

        def _over(self, state, window, value):
            state["closed"] = state.get("closed", 0) + 1
            region = window.group["region"]
            row = {"region": region, "rows": value, "seen": state[region], "closed": state["closed"]}
            return pa.RecordBatch.from_pylist([{**row, "start": window.start_ms, "end": window.end_ms}])

    return app


def published(broker: str) -> dict[str, Counter[str]]:
    """The contents of each topic, independent of the order of shards."""
    rows_by_topic = {}
    for topic in ("live", "revenue", "visits"):
        rows = topics.read(broker, topic).drop_columns(["_key", "_timestamp"]).to_pylist()
        rows_by_topic[topic] = Counter(map(repr, rows))
    return rows_by_topic


def test_a_program_that_is_killed_in_mid_run_and_started_again_publishes_what_it_would_have_undisturbed(
    spark: SparkSession, tmp_path: Path
) -> None:
    rng = random.Random(SEED)
    killed, undisturbed = f"dir:{tmp_path / 'killed'}", f"dir:{tmp_path / 'undisturbed'}"
    number = 0

    def feed(batches: int) -> None:
        nonlocal number
        for _ in range(batches):
            times = [2_000 * number + rng.randrange(-8_000, 2_000) for _ in range(20)]
            rows = [{"region": rng.choice("abc"), "amount": rng.randrange(100), "ts": time} for time in times]
            for broker in (killed, undisturbed):
                topics.produce(broker, "orders", rows)
            number += 1

    feed(6)
    apps = tmp_path / "killed" / "_apps" / "shop"
    checkpoints = [apps / name / "query" for name in ("revenue", "visits.state")]
    rng.shuffle(checkpoints)
    kill_after(tmp_path, somewhere_in_a_batch(checkpoints[0], rng, checkpoints[1]), __file__)

    for broker in (killed, undisturbed):
        topics.produce(broker, "orders", [{"region": "z", "amount": 0, "ts": LAST_MS}])
        program(broker, spark).run(until="drained")
    expected = published(undisturbed)
    assert published(killed) == expected, f"MULLION_SEED={SEED}"
    assert all(rows.total() > 5 for rows in expected.values())


def live(broker: str, spark: SparkSession) -> turbine.App:
    """Windows that fire early, into the topic of their closes."""
    app = turbine.App("live", broker=broker, spark=spark)

    @app.subscribe("orders", publish_to="panes")
    class panes:
        def __init__(self) -> None:
            common: Any = {"key": ["region"], "value": agg.Count(), "time_column": "ts", "allowed_lateness_ms": 4_000}
            common |= {"early_fire_interval_ms": 500}
            self._tens = win.PersistentSliding(
                self,
                name="tens",
                size_ms=10_000,
                slide_ms=5_000,
                on_close_each=self._tens_close,
                on_early_fire_each=self._tens_early,
                **common,
            )
            self._visits = win.PersistentSession(
                self,
                name="visits",
                gap_ms=600,
                on_close_each=self._visit_close,
                on_early_fire_each=self._visit_early,
                **common,
            )

        def _tens_close(self, state, window, value):
            return self._fired("tens", "close", window, value)

        def _tens_early(self, state, window, value):
            return self._fired("tens", "early", window, value)

        def _visit_close(self, state, window, value):
            return self._fired("visits", "close", window, value)

        def _visit_early(self, state, window, value):
            return self._fired("visits", "early", window, value)

        def _fired(self, name, firing, window, value):
            row = {"window": name, "firing": firing, "region": window.group["region"], "rows": value}
            return pa.RecordBatch.from_pylist([{**row, "start": window.start_ms, "end": window.end_ms}])

        def process(self, batch, state):
            self._tens.update(batch, state)
            self._visits.update(batch, state)

    return app


def test_a_program_that_fires_early_and_is_killed_again_and_again_fires_each_pane_in_order_and_closes_it_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    rng = random.Random(SEED)
    killed, undisturbed = f"dir:{tmp_path / 'killed'}", f"dir:{tmp_path / 'undisturbed'}"
    rows: list[dict[str, Any]] = []

    def feed(called: list[dict[str, Any]]) -> None:
        for broker in (killed, undisturbed):
            topics.produce(broker, "orders", called)

    apps = tmp_path / "killed" / "_apps" / "live"
    checkpoints = [apps / name / "query" for name in ("tens", "visits")]
    for _ in range(3):
        for _ in range(6):
            now = 100 * len(rows)
            rows += [{"region": rng.choice("ab"), "ts": now + rng.randrange(2_000)} for _ in range(20)]
            feed(rows[-20:])
        first, second = rng.sample(checkpoints, 2)
        kill_after(tmp_path, somewhere_in_a_batch(first, rng, second), __file__, "live")
    assert all(committed(checkpoint) for checkpoint in checkpoints)
    feed([{"region": "z", "ts": LAST_MS}])
    for broker in (killed, undisturbed):
        live(broker, spark).run(until="drained")

    fired = fired_of(killed)
    for pane, firings in fired.items():
        kinds, counts = [kind for kind, _ in firings], [count for _, count in firings]
        assert kinds == ["early"] * (len(kinds) - 1) + ["close"], f"{pane}, MULLION_SEED={SEED}: {firings}"
        assert counts == sorted(counts), f"{pane}, MULLION_SEED={SEED}: {firings}"
    # Open panes fire with or without a change, so the comparison with an undisturbed run finds duplicates.
    assert fired == fired_of(undisturbed), f"MULLION_SEED={SEED}"
    assert sum(len(firings) > 1 for firings in fired.values()) > 10
    closed = {pane: firings[-1][1] for pane, firings in fired.items()}
    assert closed == {**tens_of(rows), **visits_of(rows)}, f"MULLION_SEED={SEED}"


def fired_of(broker: str) -> dict[tuple[Any, ...], list[tuple[str, int]]]:
    """The firings of each pane, in order; not of those that the last row of all leaves open."""
    fired: dict[tuple[Any, ...], list[tuple[str, int]]] = {}
    for row in topics.read(broker, "panes").to_pylist():
        if row["region"] == "z":
            continue
        # A session's end moves on while it is open.
        pane = (row["window"], row["region"], row["start"], *([row["end"]] if row["window"] == "tens" else []))
        fired.setdefault(pane, []).append((row["firing"], row["rows"]))
    return fired


def tens_of(rows: list[dict[str, Any]]) -> dict[tuple[Any, ...], int]:
    counts: Counter[tuple[Any, ...]] = Counter()
    for row in rows:
        last = row["ts"] // 5_000 * 5_000
        counts.update(("tens", row["region"], start, start + 10_000) for start in (last - 5_000, last))
    return dict(counts)


def visits_of(rows: list[dict[str, Any]]) -> dict[tuple[Any, ...], int]:
    counts: Counter[tuple[Any, ...]] = Counter()
    for region in "ab":
        start = end = -(10**9)
        for ts in sorted(row["ts"] for row in rows if row["region"] == region):
            start = ts if ts > end else start
            end = ts + 600
            counts["visits", region, start] += 1
    return dict(counts)


if __name__ == "__main__":
    home = Path(sys.argv[1])
    run = live if sys.argv[2:] else program
    run(f"dir:{home / 'killed'}", session_of_its_own(home)).run(until="drained")
