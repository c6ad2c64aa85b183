"""The state of a Turbine program whose code changes: windows by their names, and the state of its query."""

# Programs are written as users write them.
# ruff: noqa: N801
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mullion import topics, turbine
from mullion._util.clock import ManualClock
from mullion.errors import IncompatibleStateError
from mullion.turbine import aggregates as agg
from mullion.turbine import windowing as win


def nothing(state, panes):
    """A callback that publishes nothing."""


def shop(spark: SparkSession, broker: str, kind: str = "alone", **windows: dict[str, Any]) -> turbine.App:
    """A program of windows: in separate queries, in one query, or with a callback that has state."""
    app = turbine.App("shop", broker=broker, spark=spark, clock=ManualClock())

    @app.subscribe("rows", publish_to="out", together=kind == "together")
    class rows:
        def __init__(self) -> None:
            count = self._counting if kind == "state" else self._count
            common: dict[str, Any] = {"size_ms": 10, "value": agg.Count(), "time_column": "ts", "key": ["k"]}
            self._windows = [
                win.PersistentTumbling(self, name=name, on_close_each=count, **{**common, **more})
                for name, more in windows.items()
            ]

        def process(self, batch, state):
            for window in self._windows:
                window.update(batch, state)

        def _count(self, state, window, value):
            return pa.RecordBatch.from_pylist([{**window.group, "n": value}])

        def _counting(self, state, window, value):
            state["n"] = state.get("n", 0) + 1
            return pa.RecordBatch.from_pylist([{**window.group, "n": value}])

    return app


def run(app: turbine.App, *rows: tuple[str, int]) -> list[tuple[Any, int]]:
    """The outputs that are published for these rows."""
    before = topics.read(app.broker, "out").num_rows
    for k, ts in rows:
        topics.produce(app.broker, "rows", [{"k": k, "c": k.upper(), "ts": ts, "other": ts}])
    app.run(until="drained")
    return [(row.get("k") or row.get("c"), row["n"]) for row in topics.read(app.broker, "out").to_pylist()[before:]]


def test_a_window_keeps_its_key_and_its_time_column_under_its_name(spark: SparkSession, tmp_path: Path) -> None:
    for kind in ("alone", "state"):
        broker = f"dir:{tmp_path / kind}"
        assert run(shop(spark, broker, kind, w={}, v={}), ("a", 1), ("a", 2)) == []
        for other, says in (
            ({"key": ["c"]}, r"'w' had key=\['k'\] and is now key=\['c'\].*another name="),
            ({"time_column": "other"}, "'w' had time_column='ts' and is now time_column='other'"),
        ):
            with pytest.raises(IncompatibleStateError, match=says):
                run(shop(spark, broker, kind, w=other, v={}))
        assert run(shop(spark, broker, kind, v={}, w={}), ("b", 11), ("b", 12)) == [("a", 2), ("a", 2)], (
            "nothing is lost"
        )


def test_a_window_keeps_its_panes_when_its_lateness_changes(spark: SparkSession, tmp_path: Path) -> None:
    broker = f"dir:{tmp_path}"
    assert run(shop(spark, broker, w={}), ("a", 1), ("a", 2)) == []
    later = {"allowed_lateness_ms": 5}
    assert run(shop(spark, broker, w=later), ("a", 3), ("a", 12)) == []
    assert run(shop(spark, broker, w=later), ("a", 4), ("b", 16)) == [("a", 4)]


def test_the_analysis_of_code_never_moves_state_to_another_query(spark: SparkSession, tmp_path: Path) -> None:
    queries = {"alone": "w", "together": "rows.together on ts, persistent", "state": "rows.state"}
    for before, now, gives_up in (("alone", "state", True), ("state", "together", True), ("together", "alone", False)):
        broker = f"dir:{tmp_path / before / now}"
        assert run(shop(spark, broker, before, w={}, v={}), ("a", 1), ("a", 12), ("a", 13)) == [("a", 1), ("a", 1)]
        changed = shop(spark, broker, now, w={}, v={})
        why = "_counting uses the state .*test_turbine_kept.py:.*" if now == "state" else "nothing uses the state"
        says = rf"would now run in '{queries[now]}': .*{why}.*read all rows again.*app\.drop\('{queries[before]}'\)"
        with pytest.raises(IncompatibleStateError, match=says):
            run(changed)
        if not gives_up:
            assert run(shop(spark, broker, before, w={}, v={}), ("a", 22)) == [("a", 2), ("a", 2)], (
                "it resumes unchanged"
            )
            continue
        for query in ("w", "v") if before == "alone" else (queries[before],):
            changed.drop(query)
        assert run(changed) == [("a", 1), ("a", 1)], "all is read again, for that was asked for"


def test_a_process_that_begins_to_use_the_state_does_not_leave_its_place_in_the_topic(
    spark: SparkSession, tmp_path: Path
) -> None:
    def copying(*, counts: bool) -> turbine.App:
        app = turbine.App("shop", broker=f"dir:{tmp_path}", spark=spark, clock=ManualClock())

        class copies:
            def process(self, batch, state):
                return batch.select(["k"]).append_column("n", pa.repeat(0, batch.num_rows))

        class counted(copies):
            def process(self, batch, state):
                state["n"] = state.get("n", 0) + 1
                return batch.select(["k"]).append_column("n", pa.repeat(state["n"], batch.num_rows))

        chosen = counted if counts else copies
        chosen.__name__ = "copies"
        app.subscribe("rows", publish_to="out")(chosen)
        return app

    assert run(copying(counts=False), ("a", 1)) == [("a", 0)]
    with pytest.raises(IncompatibleStateError, match=r"process of copies has run in the query 'copies\.process', and"):
        run(copying(counts=True))
    assert run(copying(counts=False), ("b", 1)) == [("b", 0)]
