"""The state that ``process`` and the callbacks of a shard share."""

# Programs are written as users write them.
# ruff: noqa: N801
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import ast
import itertools
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mullion import topics, turbine
from mullion._util.clock import ManualClock
from mullion.errors import FunctionError, IncompatibleStateError, InvalidArgumentError
from mullion.turbine import aggregates as agg
from mullion.turbine import testing
from mullion.turbine import windowing as win
from mullion.turbine.state import Scratch, StateJournal, save_changes

SCHEMA = "k string, ts bigint, enters string"
_numbers = itertools.count()


@pytest.fixture
def app(spark: SparkSession) -> turbine.App:
    return turbine.App(f"state-{next(_numbers)}", spark=spark)


def test_process_and_the_callbacks_of_all_windows_see_what_the_others_wrote_and_so_after_a_restart(
    app: turbine.App,
) -> None:
    @app.subscribe("orders", publish_to="out", partition_key="customer", parallelism=2)
    class alerts:
        def __init__(self) -> None:
            self._sum = win.PersistentTumbling(
                self,
                name="sum",
                size_ms=10_000,
                value=agg.Sum("amount"),
                time_column="ts",
                on_close_each=self._closed,
                early_fire_interval_ms=1_000,
                on_early_fire_each=self._live,
            )
            self._pause = win.InMemorySession(
                self, name="pause", gap_ms=60_000, key=["customer"], value=agg.Count(), on_close=self._paused
            )

        def process(self, batch: pa.RecordBatch, state: turbine.TurbineState) -> pa.RecordBatch | None:
            for customer in batch["customer"].to_pylist():
                entries = state.get(customer, [])
                state[customer] = [*entries, "row"]
            self._sum.update(batch, state)
            self._pause.update(batch, state)
            return None

        def _live(self, state, window, value):
            state[window.group["customer"]] += [f"early {value}"]

        def _closed(self, state, window, value):
            customer = window.group["customer"]
            state[customer] += [f"close {value}"]
            return pa.RecordBatch.from_pylist([{"customer": customer, "said": state[customer], "of": "sum"}])

        def _paused(self, state, panes):
            lengths = [len(state.get(customer)) for customer in panes["customer"].to_pylist()]
            return pa.record_batch(
                {"customer": panes["customer"].combine_chunks(), "n": lengths, "of": ["pause"] * len(lengths)}
            )

    report = str(app.explain())
    assert "process uses the state: reads state; shards by customer" in report

    with testing.run(app) as t:
        t.feed("orders", [{"customer": c, "amount": 2, "ts": 1_000} for c in ("a", "b", "a")])
        t.feed("orders", [{"customer": "a", "amount": 5, "ts": 2_500}, {"customer": "b", "ts": 9_000, "amount": None}])
        assert t.outputs("out") == []
        t.restart()
        t.feed("orders", [{"customer": "c", "amount": 1, "ts": 10_000}])
        t.feed("orders", [{"customer": "c", "ts": 99_000}])
        lengths = {row["customer"]: row["said"] for row in t.outputs("out")}
        assert lengths == {
            "a": ["row", "row", "row", "early 9", "close 9"],
            "b": ["row", "row", "early 2", "close 2"],
        }, "early, at 9 s on the event clock, then the close"
        assert app.window("sum").skipped == 1
        t.advance(61_000)
        paused = sorted((row["customer"], row["n"]) for row in t.outputs("out") if row["of"] == "pause")
        assert paused == [("a", 5), ("b", 4), ("c", 4)]


def test_state_without_a_partition_key_is_in_one_shard_and_a_wrong_value_names_its_key(app: turbine.App) -> None:
    @app.subscribe("orders", publish_to="out")
    class orders:
        def process(self, batch: pa.RecordBatch, state: turbine.TurbineState) -> pa.RecordBatch | None:
            state["n"] = state.get("n", 0) + batch.num_rows
            if state["n"] > 3:
                state["when"] = {1: 2}
            return pa.RecordBatch.from_pylist([{"n": state["n"]}])

    assert "one shard, because there is no partition_key" in str(app.explain())
    with testing.run(app) as t:
        t.feed("orders", [{"x": 1}, {"x": 2}])
        t.feed("orders", [{"x": 3}])
        assert [row["n"] for row in t.outputs("out")] == [2, 3]
        t.feed("orders", [{"x": 4}])
        with pytest.raises(FunctionError, match=r"state\['when'\] = a dict with the key 1.*test_turbine_state.py"):
            t.settle()


def test_a_state_is_a_mapping_of_plain_values_and_arrow_and_rejects_anything_else() -> None:
    state = turbine.TurbineState()
    state["a"] = {"deep": [1, 2.5, None, True, "é"]}
    state["batch"] = pa.RecordBatch.from_pylist([{"x": 1}])
    state["none"] = pa.table({"x": pa.array([], pa.int64())})
    assert state["a"] == {"deep": [1, 2.5, None, True, "é"]}
    assert state["batch"].equals(pa.RecordBatch.from_pylist([{"x": 1}]))
    assert state["none"].equals(pa.table({"x": pa.array([], pa.int64())}))
    assert ("a" in state, "b" in state, len(state), sorted(state)) == (True, False, 3, ["a", "batch", "none"])
    assert state.get("b", 7) == 7
    assert dict(state.items())["a"] == state["a"]
    del state["a"]
    with pytest.raises(KeyError):
        state["a"]
    with pytest.raises(KeyError):
        del state["a"]
    with pytest.raises(InvalidArgumentError, match=r"state\['x'\] = \{1\} \(set\).*what JSON does"):
        state["x"] = {1}
    with pytest.raises(InvalidArgumentError, match=r"state\[3\] \(int\): the keys of the state are text"):
        state[3] = 1  # type: ignore[index]
    state["big"] = 2**80
    assert state["big"] == 2**80


def counting(app: turbine.App, sizes: dict[str, int]) -> None:
    """Windows of so many seconds, in this order; a row enters those that it names, or all."""

    @app.subscribe("rows", publish_to="out", partition_key="k", parallelism=2, schema=SCHEMA)
    class rows:
        def __init__(self) -> None:
            self._windows = [
                win.PersistentTumbling(
                    self,
                    name=name,
                    size_ms=seconds * 1_000,
                    value=agg.Count(),
                    time_column="ts",
                    on_close=partial(self._close, name),
                )
                for name, seconds in sizes.items()
            ]

        def process(self, batch, state):
            state["rows"] = state.get("rows", 0) + batch.num_rows
            for window in self._windows:
                enters = [row["enters"] in (None, window.name) for row in batch.to_pylist()]
                window.update(batch.filter(pa.array(enters)), state)

        def _close(self, name, state, panes):
            starts = panes["window_start_ms"].to_pylist()
            texts = [f"{name} {start} {n}" for start, n in zip(starts, panes["value"].to_pylist(), strict=True)]
            return pa.record_batch({"closed": texts})


def _row(ts: int, enters: str | None = None) -> list[dict[str, object]]:
    return [{"k": "a", "ts": ts, "enters": enters}]


def test_windows_with_state_are_added_removed_and_reordered_and_their_panes_can_be_read(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broker = f"dir:{tmp_path}"

    def started(**sizes: int) -> turbine.App:
        app = turbine.App("shop", broker=broker, spark=spark, clock=ManualClock())
        counting(app, sizes)
        return app

    def fed(app: turbine.App, *times: int) -> None:
        with app.start() as running:
            for ts in times:
                topics.produce(broker, "rows", _row(ts))
                running.settle()

    topics.produce(broker, "rows", _row(1_000, "nobody"))
    fed(started(a=10, b=20), 2_000)
    second = started(c=10, b=20, a=10)
    fed(second, 3_000)
    (pane,) = second.window("b").read().collect()
    assert (pane.k, pane.window_start_ms, pane.window_end_ms, pane.value) == ("a", 0, 20_000, 2)
    third = started(b=20)
    fed(third, 11_000)
    assert "The window 'a' is no longer in shop. Its state is kept" in caplog.text
    assert sorted(part.name for part in third.removed_parts()) == ["a", "c"]
    assert third.window("b").read().collect()[0].value == 3
    third.drop("c")
    with pytest.raises(IncompatibleStateError, match=r"window was \[tumbling 10 seconds\]"):
        fed(started(a=15, b=20), 12_000)
    fed(started(c=10, a=10, b=20), 25_000, 26_000)
    closed = topics.read(broker, "out")["closed"].to_pylist()
    # The rows of 11 and 12 seconds came to a window that was not there, or not until the size was put right.
    assert sorted(closed) == ["a 0 2", "a 10000 1", "b 0 4", "c 10000 1"]


def test_a_window_whose_rows_do_not_come_does_not_hold_the_others_open(app: turbine.App) -> None:
    counting(app, {"loud": 5, "quiet": 10, "silent": 5})
    with testing.run(app) as t:
        t.feed("rows", _row(1_000, "quiet"))
        t.feed("rows", _row(2_000, "loud"))
        t.feed("rows", _row(6_000, "loud"))
        assert [row["closed"] for row in t.outputs("out")] == ["loud 0 1"]
        t.restart()
        t.feed("rows", _row(12_000, "loud"))
        assert sorted(row["closed"] for row in t.fresh("out")) == ["loud 0 1", "loud 5000 1", "quiet 0 1"]


def test_what_a_call_that_is_left_out_wrote_into_the_state_is_taken_back(app: turbine.App) -> None:
    @app.subscribe("rows", publish_to="out", partition_key="k", parallelism=1, on_error="skip", dead_letter="failed")
    class noting:
        def __init__(self) -> None:
            self._each = win.PersistentTumbling(
                self, name="each", size_ms=10, value=agg.Count(), time_column="ts", on_close_each=self._pane
            )
            self._all = win.PersistentTumbling(
                self, name="all", size_ms=10, value=agg.Count(), time_column="ts", on_close=self._panes
            )

        def process(self, batch, state):
            (says,) = batch["says"].to_pylist()
            state["rows"] = state.get("rows", "") + says
            state[says] = True
            if says == "y":
                del state["x"]
                self._each.update(batch, state)
                raise ValueError("a bad row")
            self._each.update(batch, state)
            self._all.update(batch, state)

        def _pane(self, state, window, value):
            state["panes"] = state.get("panes", "") + window.group["k"]
            if window.group["k"] == "b":
                raise ValueError("a bad pane")
            return pa.RecordBatch.from_pylist([{"said": repr(dict(state))}])

        def _panes(self, state, panes):
            state["ticks"] = state.get("ticks", 0) + 1
            if panes.num_rows == 3:
                del state["panes"]
                raise ValueError("a bad tick")
            return pa.RecordBatch.from_pylist([{"said": repr(dict(state))}])

    with testing.run(app) as t:
        for k, says, ts in (("a", "x", 1), ("b", "x", 2), ("a", "y", 3), ("c", "z", 4), ("c", "z", 25), ("c", "z", 45)):
            t.feed("rows", [{"k": k, "says": says, "ts": ts}])
        first, second, *others = [ast.literal_eval(row["said"]) for row in t.outputs("out")]
        undisturbed = {"rows": "xxzzz", "x": True, "z": True}
        assert first == undisturbed | {"panes": "a"}
        assert second == undisturbed | {"panes": "ac"}
        assert others == [
            undisturbed | {"panes": "acc"},
            undisturbed | {"panes": "acc", "ticks": 1},
        ], "the tick of three panes failed, and that of one did not"
        failed = [row["error"].split(", at ")[0] for row in t.outputs("failed")]
        assert [error.rsplit("Error: ", 1)[1] for error in failed] == ["a bad row", "a bad pane", "a bad tick"]


def test_changes_within_values_of_the_state_are_stored_unless_the_call_failed(app: turbine.App) -> None:
    @app.subscribe("rows", publish_to="out", partition_key="k", on_error="skip")
    class rows:
        def __init__(self) -> None:
            self._win = win.PersistentTumbling(
                self, name="w", size_ms=10, value=agg.Count(), time_column="ts", on_close_each=self._closed
            )

        def process(self, batch, state):
            for row in batch.to_pylist():
                state.setdefault("seen", []).append(row["ts"])
                counts = state.get("counts", None)
                if counts is None:
                    counts = state["counts"] = {"n": {}}
                counts["n"]["rows"] = counts["n"].get("rows", 0) + 1
                if row["fails"]:
                    raise ValueError("it fails")
            self._win.update(batch, state)

        def _closed(self, state, window, value):
            state["counts"]["n"]["panes"] = state["counts"]["n"].get("panes", 0) + 1
            return pa.RecordBatch.from_pylist([{"seen": state["seen"], **state["counts"]["n"]}])

    def row(ts: int, *, fails: bool = False) -> list[dict[str, object]]:
        return [{"k": "a", "ts": ts, "fails": fails}]

    with testing.run(app) as t:
        t.feed("rows", [*row(1), *row(2)])
        t.feed("rows", row(13))
        t.feed("rows", row(14, fails=True))
        t.settle()
        t.restart()
        t.feed("rows", row(26))
        t.feed("rows", row(37))
        assert [(row["seen"], row["rows"], row["panes"]) for row in t.outputs("out")] == [
            ([1, 2, 13], 3, 1),
            ([1, 2, 13, 26, 37], 5, 2),
            ([1, 2, 13, 26, 37], 5, 3),
        ]


def test_a_value_of_the_state_is_one_object_within_a_call() -> None:
    journal = StateJournal(Scratch())
    state = journal.state
    state.setdefault("seen", []).append("x")
    assert state["seen"] is state["seen"]
    state["again"] = state["seen"]
    state["again"].append("y")
    save_changes(state)
    assert (state["seen"], state["again"]) == (["x", "y"], ["x", "y"])
    state["seen"].append("z")
    assert state["again"] == ["x", "y"], "after the call they are two"
    journal.begin()
    journal.undo()
    assert state["seen"] == ["x", "y"]
    state["seen"].append({1: 2})
    with pytest.raises(InvalidArgumentError, match=r"state\['seen'\] = a dict with the key 1"):
        save_changes(state)
    del state["seen"]
    state["text"] = "x"
    save_changes(state)
    assert dict(state) == {"again": ["x", "y"], "text": "x"}
