"""``process`` that runs in Python: its results, and errors in it and in callbacks."""

# Programs are written as users write them.
# ruff: noqa: N801
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import itertools
import os
import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from mullion import topics, turbine
from mullion.errors import FunctionError, InvalidArgumentError, QueryFailedError, UnknownColumnError
from mullion.turbine import aggregates as agg
from mullion.turbine import testing
from mullion.turbine import windowing as win

_numbers = itertools.count()


@pytest.fixture
def app(spark: SparkSession) -> turbine.App:
    return turbine.App(f"process-{next(_numbers)}", spark=spark)


def count(state: Any, window: win.Window, value: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [{**window.group, "value": value, "start": window.start_ms, "end": window.end_ms}]
    )


def _event(user: str, page: str, **more: Any) -> dict[str, Any]:
    return {"user": user, "page": page, **more}


def test_a_process_in_python_filters_derives_and_returns_for_several_windows_and_topics(app: turbine.App) -> None:
    @app.subscribe(
        "events",
        publish_to={"process": "clean", "close": "counts"},
        partition_key="user",
        parallelism=1,
        with_kafka_timestamp=True,
    )
    class sessions:
        def __init__(self) -> None:
            self._session = win.PersistentSession(
                self,
                name="sessions",
                gap_ms=1_000,
                value=agg.Multi(n=agg.Count(), first=agg.First("page"), last=agg.Last("page"), total=agg.Sum("cents")),
                time_column="_kafka_ts_ms",
                on_close_each=self._session_closed,
            )
            self._minute = win.InMemoryTumbling(
                self, name="minute", size_ms=60_000, key=["user", "page"], value=agg.Count(), on_close_each=count
            )

        def _session_closed(self, state, window, v):
            row = {**window.group, "n": v.n, "first": v.first, "last": v.last, "total": v.total}
            return pa.RecordBatch.from_pylist([{**row, "start": window.start_ms, "end": window.end_ms}])

        def process(self, batch, state):
            assert "_kafka_ts_ms" in batch.schema.names
            assert "_columns" not in batch.schema.names
            batch = batch.filter(pc.not_equal(batch["page"], "robots"))
            if "price" in batch.schema.names:
                self._session.update(batch.append_column("cents", pc.multiply(batch["price"], 100)), state)
            else:
                self._session.update(batch, state)
            self._minute.update(batch, state)
            return batch.select(["user"])

    report = str(app.explain())
    assert "sessions.process" in report
    assert 'assert "_kafka_ts_ms" in batch.schema.names' in report

    with testing.run(app) as t:
        t.feed("events", [_event("u", "a", price=1), _event("u", "robots", price=9)], [1.0, 1.1])
        t.feed("events", [_event("v", "b", price=2), _event("u", "c", price=3)], [1.5, 1.9])
        t.feed("events", [_event("v", "z")], [8.0])
        assert [row["user"] for row in t.outputs("clean")] == ["u", "v", "u", "v"]
        assert app.window("sessions").skipped == 1, "it has no cents"
        t.feed("events", [_event("w", "a", price=1)], [9.0])
        closed = [r for r in t.outputs("counts") if not r.get("page")]
        assert sorted((r["user"], r["n"], r["first"], r["last"], r["total"], r["start"], r["end"]) for r in closed) == [
            ("u", 2, "a", "c", 400, 1_000, 2_900),
            ("v", 1, "b", "b", 200, 1_500, 2_500),
        ]
        t.advance(60_000)
        pages = sorted((r["user"], r["page"], r["value"], r["start"]) for r in t.outputs("counts") if r.get("page"))
        assert pages == [("u", "a", 1, 0), ("u", "c", 1, 0), ("v", "b", 1, 0), ("v", "z", 1, 0), ("w", "a", 1, 0)]
        assert sorted(r["user"] for r in t.outputs("counts") if not r.get("page")) == ["u", "v", "w"], (
            "w by the wall clock"
        )


def test_a_callback_that_fails_stops_the_query_with_its_pane_and_line_and_after_the_fix_no_pane_is_lost_or_repeated(
    app: turbine.App,
) -> None:
    broken = {"north": True}

    @app.subscribe("orders", publish_to="out", parallelism=1)
    class orders:
        def __init__(self) -> None:
            self._win = win.PersistentTumbling(
                self, name="ten", size_ms=10, key="k", value=agg.Sum("x"), time_column="t", on_close_each=self._close
            )

        def _close(self, state, window, value):
            if broken.get(window.group["k"]):
                return pa.RecordBatch.from_pylist([{"k": 1 / 0}])
            return count(None, window, value)

        def process(self, batch, state):
            self._win.update(batch, state)

    with testing.run(app) as t:
        t.feed("orders", [{"k": k, "x": 1.5, "t": 5} for k in ("south", "north")])
        t.feed("orders", [{"k": "south", "x": 1.0, "t": 15}])
        with pytest.raises(FunctionError) as failed:
            t.settle()
        says = str(failed.value)
        assert (
            "The function failed for the pane [1970-01-01T00:00:00Z, 1970-01-01T00:00:00.010000Z) of k='north': "
            in says
        )
        assert "on_close_each=orders._close of the window 'ten' raised ZeroDivisionError" in says
        assert "test_turbine_process.py:" in says
        assert 'return pa.RecordBatch.from_pylist([{"k": 1 / 0}])' in says

        broken.clear()
        t.restart()
        t.feed("orders", [{"k": "south", "x": 1.0, "t": 25}])
        closed = sorted((row["start"], row["k"], row["value"]) for row in t.outputs("out"))
        assert closed == [(0, "north", 1.5), (0, "south", 1.5), (10, "south", 1.0)]


@pytest.mark.parametrize("process", ["in the JVM", "in Python"])
def test_a_worker_that_ends_fails_the_query_with_the_names_of_its_functions(process: str, app: turbine.App) -> None:
    in_jvm = process == "in the JVM"

    @app.subscribe("orders", publish_to="out", parallelism=1)
    class orders:
        def __init__(self) -> None:
            self._win = win.PersistentTumbling(
                self, name="ten", size_ms=10, key="k", value=agg.Sum("x"), time_column="t", on_close_each=self._close
            )

        def _close(self, state, window, value):
            os._exit(7)

        if in_jvm:

            def process(self, batch, state):
                self._win.update(batch, state)

        else:

            def process(self, batch, state):
                self._win.update(batch.filter(pc.greater(batch["x"], 0)), state)

    names = f"{'' if in_jvm else 'process of orders or '}on_close_each=orders._close of the window 'ten'"
    with testing.run(app) as t:
        t.feed("orders", [{"k": "south", "x": 1.5, "t": 5}])
        t.feed("orders", [{"k": "south", "x": 1.0, "t": 15}])
        with pytest.raises(QueryFailedError, match=rf"A Python worker .* while it ran {re.escape(names)}: its process"):
            t.settle()


def test_panes_whose_callback_fails_are_skipped_counted_and_reported_on_request(app: turbine.App) -> None:
    @app.subscribe("orders", publish_to="out", parallelism=1, on_error="skip", dead_letter="failed")
    class orders:
        def __init__(self) -> None:
            self._win = win.PersistentTumbling(
                self, name="ten", size_ms=10, key="k", value=agg.Count(), time_column="t", on_close_each=self._close
            )

        def _close(self, state, window, value):
            return count(None, window, 10 // window.group["k"])

        def process(self, batch, state):
            self._win.update(batch, state)

    with testing.run(app) as t:
        t.feed("orders", [{"k": k, "t": 5} for k in (0, 5)])
        t.feed("orders", [{"k": 1, "t": 15}])
        assert [(row["k"], row["value"]) for row in t.outputs("out")] == [(5, 2)]
        assert app.window("ten").failed == 1
        (letter,) = t.outputs("failed")
        assert letter["callback"] == "on_close_each=orders._close of the window 'ten'"
        assert "of k=0: on_close_each=orders._close of the window 'ten' raised ZeroDivisionError" in letter["error"]


def test_a_callback_returns_one_schema_whatever_batch_and_shard_it_is_called_in(app: turbine.App) -> None:
    @app.subscribe("orders", publish_to="out", parallelism=1)
    class orders:
        def __init__(self) -> None:
            self._win = win.PersistentTumbling(
                self, name="ten", size_ms=10, value=agg.Max("x"), time_column="t", on_close_each=self._close
            )

        def _close(self, state, window, value):
            if value == "table":
                return pa.table({"x": [1]})
            if value == "other":
                return pa.RecordBatch.from_pylist([{"x": 1, "y": None}])
            return pa.RecordBatch.from_pylist([{"x": value, "y": None if window.start_ms else 1.5}])

        def process(self, batch, state):
            self._win.update(batch, state)

    with testing.run(app) as t:
        for at, x in ((5, "a"), (15, None), (25, "other"), (35, "b")):
            t.feed("orders", [{"x": x, "t": at}])
        with pytest.raises(FunctionError, match=r"'ten' returned another schema .* 'x' is int64, and was string"):
            t.settle()
        assert [(row["x"], row["y"]) for row in topics.read(app.broker, "out").to_pylist()] == [
            ("a", 1.5),
            (None, None),
        ]


def test_a_callback_that_returns_no_record_batch_raises_an_error_with_the_fix(app: turbine.App) -> None:
    @app.subscribe("orders", publish_to={"early": "out"})
    class orders:
        def __init__(self) -> None:
            self._win = win.PersistentTumbling(self, name="ten", size_ms=10, value=agg.Max("x"), on_close=self._close)

        def _close(self, state, panes):
            if panes["value"][0].as_py() == 1:
                return panes
            return panes.combine_chunks().to_batches()[0]

        def process(self, batch, state):
            self._win.update(batch, state)

    with testing.run(app) as t:
        t.feed("orders", [{"x": 1}])
        t.advance(20)
        with pytest.raises(FunctionError, match=r"returned Table, which is not a pyarrow\.RecordBatch.*to_batches\(\)"):
            t.settle()
    with testing.run(app) as t:
        t.feed("orders", [{"x": 2}])
        t.advance(20)
        with pytest.raises(FunctionError, match=r"no topic to publish it to.*publish_to=.*the key 'close'"):
            t.settle()


def test_what_a_topic_lacks_or_has_in_another_type_is_rejected_when_the_program_starts(app: turbine.App) -> None:
    @app.subscribe("orders", publish_to="out")
    class orders:
        def __init__(self) -> None:
            self._win = win.PersistentTumbling(
                self, name="ten", size_ms=10, value=agg.Sum("amount"), time_column="t", on_close=self._close
            )

        def _close(self, state, panes): ...

        def process(self, batch, state):
            self._win.update(batch, state)

    for row, error, says in (
        ({"amuont": 1, "t": 1}, UnknownColumnError, "'ten' reads the column 'amount'.*Did you mean 'amuont'"),
        ({"amount": 1, "t": 1.5}, InvalidArgumentError, "time_column='t' .* is Float64, and has to be Int64"),
        (
            {"amount": "1", "t": 1},
            InvalidArgumentError,
            r"agg.Sum\('amount'\) .* is string: .*fn.cast",
        ),
    ):
        with testing.run(app) as t:
            t.feed("orders", [row])
            with pytest.raises(error, match=says):
                t.settle()
