"""Turbine programs, run as they are on a clock that the test moves."""

# Programs are written as users write them.
# ruff: noqa: N801
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from mullion import turbine
from mullion.turbine import aggregates as agg
from mullion.turbine import functions as fn
from mullion.turbine import testing
from mullion.turbine import windowing as win

_numbers = itertools.count()


@pytest.fixture
def app(spark: SparkSession) -> turbine.App:
    return turbine.App(f"test-{next(_numbers)}", spark=spark)


def row(**columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([columns])


def test_the_revenue_of_the_document_is_live_while_its_window_is_open_and_final_at_the_close(app: turbine.App) -> None:
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
                on_close_each=self._commit,
                early_fire_interval_ms=10_000,
                on_early_fire_each=self._live_gauge,
            )

        def _commit(self, state, window, value):
            return pa.RecordBatch.from_pylist(
                [
                    {
                        **window.group,
                        "revenue": float(value),
                        "final": True,
                        "window_start_ms": window.start_ms,
                        "window_end_ms": window.end_ms,
                    }
                ]
            )

        def _live_gauge(self, state, window, value):
            return pa.RecordBatch.from_pylist(
                [
                    {
                        **window.group,
                        "revenue": float(value),
                        "final": False,
                        "window_start_ms": window.start_ms,
                        "window_end_ms": window.end_ms,
                    }
                ]
            )

        def process(self, batch, state):
            self._win.update(batch, state)
            return

    def shown(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
        return sorted((r["region"], r["revenue"], r["final"], r["window_start_ms"], r["window_end_ms"]) for r in rows)

    with testing.run(app, start_ms=1_000_000) as t:
        t.feed("orders", [{"region": "eu", "amount": 5, "event_ts_ms": 1_000}])
        t.feed("orders", [{"region": "eu", "amount": 6, "event_ts_ms": 11_000}])
        t.feed("orders", [{"region": "us", "amount": 7, "event_ts_ms": 304_999}])
        # Event time comes to 11 s with the third batch, and to 305 s after it.
        live = [("eu", 11.0, False, 0, 300_000)] * 2 + [("us", 7.0, False, 300_000, 600_000)]
        assert shown(t.fresh("revenue_5m")) == live

        t.feed("orders", [{"region": "eu", "event_ts_ms": 305_000}])
        assert t.fresh("revenue_5m") == [], "a batch without the amount is left out, and moves no clock"
        assert app.window("revenue_5m").skipped == 1

        t.feed("orders", [{"region": "eu", "amount": None, "event_ts_ms": 305_000}])
        assert ("eu", 11.0, True, 0, 300_000) in shown(t.fresh("revenue_5m"))

        t.feed("orders", [{"region": "eu", "amount": 100, "event_ts_ms": 2_000}])
        assert shown(t.fresh("revenue_5m")) == [("eu", 100.0, True, 0, 300_000)], "late rows reopen, and close at once"

        open_now = app.window("revenue_5m").read().orderBy("region").collect()
        assert [tuple(pane) for pane in open_now] == [("eu", 300_000, 600_000, 0), ("us", 300_000, 600_000, 7)]

        t.advance(20_000)
        assert {final for _, _, final, _, _ in shown(t.fresh("revenue_5m"))} == {False}, "by the wall clock"
        t.advance(300_000)
        assert ("us", 7.0, True, 300_000, 600_000) in shown(t.fresh("revenue_5m"))
        assert app.window("revenue_5m").read().count() == 0


def test_a_table_has_all_panes_of_a_tick_and_a_column_for_each_part_of_a_multi(app: turbine.App) -> None:
    @app.subscribe("requests", publish_to="scores", parallelism=1)
    class score_alert:
        def __init__(self) -> None:
            self._win = win.InMemorySliding(
                self,
                name="scores",
                size_ms=2_000,
                slide_ms=1_000,
                key=["host"],
                value=agg.Multi(
                    errors=agg.Sum(fn.col("status") >= 500),
                    bytes=agg.Sum("bytes"),
                    cost=agg.Max(fn.col("bytes") / 2 + 1),
                    n=agg.Count(),
                ),
                time_column="ts",
                on_close=self._emit,
            )

        def _emit(self, state: turbine.TurbineState, panes: pa.Table) -> pa.RecordBatch | None:
            assert panes.column_names == ["host", "window_start_ms", "window_end_ms", "errors", "bytes", "cost", "n"]
            rate = pc.divide(panes["errors"].cast(pa.float64()), panes["n"].cast(pa.float64()))
            bad = panes.append_column("rate", rate).append_column("of", pa.array([panes.num_rows] * panes.num_rows))
            bad = bad.filter(pc.greater(bad["rate"], 0.4))
            return bad.combine_chunks().to_batches()[0] if bad.num_rows else None

        def process(self, batch: pa.RecordBatch, state: turbine.TurbineState) -> None:
            """Only updates."""
            self._win.update(batch, state=state)

    with testing.run(app) as t:
        rows = [("a", 500, 2**62), ("a", 200, 2**62 + 1), ("b", 200, 1)]
        t.feed("requests", [{"host": h, "status": s, "bytes": b, "ts": 1_500} for h, s, b in rows])
        t.settle()
        # Windows in memory resume from their snapshot.
        t.restart()
        t.feed("requests", [{"host": "z", "status": 200, "bytes": 0, "ts": 9_000}])
        scores = t.outputs("scores")
        assert [(r["host"], r["window_start_ms"], r["rate"], r["of"]) for r in scores] == [
            ("a", 0, 0.5, 4),
            ("a", 1_000, 0.5, 4),
        ]
        assert [int(r["bytes"]) for r in scores] == [2**63 + 1] * 2, "whole numbers do not wrap"
        assert app.window("scores").skipped == 0
