"""Turbine infers nothing that may be wrong: order of arrival, shards, windows, names, and kept state."""

# Programs are written as users write them.
# ruff: noqa: N801
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import itertools
import linecache
import pickle
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from mullion import turbine
from mullion.errors import (
    FunctionError,
    QueryFailedError,
    UnsupportedError,
)
from mullion.turbine import aggregates as agg
from mullion.turbine import functions as fn
from mullion.turbine import testing
from mullion.turbine import windowing as win
from mullion.turbine._explained import warnings_of
from mullion.turbine._process.callbacks import Called
from mullion.turbine._process.worker import Process
from mullion.turbine.windowing import UPDATING

_numbers = itertools.count()


@pytest.fixture
def app(spark: SparkSession) -> turbine.App:
    return turbine.App(f"certain-{next(_numbers)}", spark=spark)


def test_first_and_last_follow_the_batches_also_where_these_have_one_time(app: turbine.App) -> None:
    def windows(subscription, of, **more):
        ends = {"first": agg.First("x"), "last": agg.Last("x")}
        all_windows = []
        for name, clock in (("event", {"time_column": "ts"}), ("wall", {})):
            options = {"name": f"{of} {name}", "size_ms": 10, "value": agg.Multi(**ends), **clock, **more}
            all_windows.append(win.PersistentTumbling(subscription, on_close=closed, **options))
        return all_windows

    def closed(state, panes):
        return panes.select(["first", "last"]).combine_chunks().to_batches()[0]

    @app.subscribe("rows", publish_to="alone")
    class alone:
        def __init__(self) -> None:
            self._event, self._wall = windows(self, "alone")

        def process(self, batch, state):
            self._event.update(batch, state)
            self._wall.update(batch, state)

    @app.subscribe("rows", publish_to="together", together=True)
    class together:
        def __init__(self) -> None:
            self._all = [*windows(self, "one of two"), *windows(self, "two of two")]

        def process(self, batch, state):
            for window in self._all:
                window.update(batch, state)

    @app.subscribe("rows", publish_to="state")
    class beside:
        def __init__(self) -> None:
            self._all = windows(self, "state")

        def process(self, batch, state):
            state["n"] = state.get("n", 0) + 1
            for window in self._all:
                window.update(batch, state)

    with testing.run(app) as t:
        for x in (7, 3, 9, 5):
            # Each is the first row of its batch, and the clock does not move.
            t.feed("rows", [{"x": x, "ts": 5}])
            t.settle()
            if x == 9:
                t.restart()
        t.feed("rows", [{"x": 0, "ts": 11}])
        t.settle()
        t.advance(400)
        for topic, panes in (("alone", 3), ("together", 6), ("state", 3)):
            rows = t.outputs(topic)
            # The row of 11 ms is in the pane by the wall clock, and has one of its own on the event clock.
            assert sorted((row["first"], row["last"]) for row in rows) == sorted(
                [(7, 5), (7, 0), (0, 0)] * (panes // 3)
            ), topic


def test_a_process_with_state_that_changes_the_partition_key_is_rejected_where_a_group_would_be_split(
    app: turbine.App,
) -> None:
    @app.subscribe("orders", publish_to="out", partition_key="customer", parallelism=4)
    class orders:
        def __init__(self) -> None:
            self._ten = win.PersistentTumbling(
                self, name="ten", size_ms=10, value=agg.Count(), time_column="ts", on_close=self._closed
            )

        def process(self, batch, state):
            state["n"] = state.get("n", 0) + batch.num_rows
            rows = batch.to_pylist()
            for row in rows:
                row["customer"] = row["customer"].lower() if row["lower"] else row["customer"]
            self._ten.update(pa.RecordBatch.from_pylist(rows, schema=batch.schema), state)

        def _closed(self, state, panes):
            return panes.select(["customer", "value"]).combine_chunks().to_batches()[0]

    def row(customer: str | None, ts: int, lower: bool = False) -> dict[str, object]:
        return {"customer": customer, "ts": ts, "lower": lower}

    with testing.run(app) as t:
        names = ("Anna", "ANNA", "anna", "Bert", "BERT")
        t.feed("orders", [row(name, 1) for name in (*names, None, None)])
        t.feed("orders", [row("anna", 11, True)])
        t.feed("orders", [row("anna", 21, True)])
        counted = sorted((str(each["customer"]), each["value"]) for each in t.outputs("out"))
        assert counted == sorted([*((name, 1) for name in names), ("None", 2), ("anna", 1)])
        t.feed("orders", [row(name, 31, True) for name in names])
        says = "gave the window 'ten' a row whose 'customer' is '(anna|bert)' in a shard that has other values"
        with pytest.raises(
            FunctionError, match=says + r".*partition_key.*a part of the group.*test_turbine_certain\.py:\d+"
        ):
            t.settle()


class Minutes(win.PersistentTumbling):
    """Windows of a minute: a class of the user's that gives parameters, and no more."""

    def __init__(self, subscription: object, **more: Any) -> None:
        super().__init__(subscription, size_ms=60_000, on_close=nothing, **more)


class Cleaned(win.PersistentTumbling):
    """One that would have its rows cleaned."""

    def update(self, batch, state):
        super().update(batch.filter(pc.is_valid(batch["x"])), state)


def nothing(state, panes):
    """A callback that publishes nothing."""


def test_a_window_is_the_same_in_workers_and_a_class_of_it_may_give_parameters_and_nothing_else() -> None:
    app = turbine.App("classes")

    @app.subscribe("rows")
    class rows:
        def __init__(self) -> None:
            value = agg.Multi(n=agg.Count(), most=agg.Max(fn.col("x") + 1))
            self._minutes = Minutes(self, name="minutes", value=value)
            self._visits = win.InMemorySession(
                self, name="visits", gap_ms=5, value=agg.Sum("x"), on_close=lambda state, panes: None
            )

        def process(self, batch, state):
            for window in vars(self).values():
                if isinstance(window, win.PersistentTumbling):
                    window.update(batch, state)

    (subscription,) = app.subscriptions
    windows = subscription.windows
    assert [repr(window).split("(")[0] for window in windows.values()] == ["PersistentTumbling", "InMemorySession"]
    again = pickle.loads(cloudpickle.dumps(subscription.instance))
    for window, expected in zip((again._minutes, again._visits), windows.values(), strict=True):
        assert (type(window), repr(window), window.name) == (type(expected), repr(expected), expected.name)
        with pytest.raises(UnsupportedError, match="is called when panes fire"):
            window.spec.callbacks.close(None, None)
    updated: list[str] = []
    token = UPDATING.set(lambda window, batch: updated.append(window.name))
    try:
        again.process(pa.RecordBatch.from_pylist([{"x": 1}]), None)
    finally:
        UPDATING.reset(token)
    assert updated == ["minutes"], "as in process, in a worker too"

    class cleaning:
        def __init__(self) -> None:
            self._win = Cleaned(self, name="w", size_ms=1, value=agg.Sum("x"), on_close=nothing)

        def process(self, batch, state):
            self._win.update(batch, state)

    with pytest.raises(UnsupportedError, match=r"the window 'w' is a Cleaned, which has its own 'update'.*process"):
        app.subscribe("rows")(cleaning)


def window_of(subscription: object, name: str, **more: Any) -> win.PersistentTumbling:
    return win.PersistentTumbling(
        subscription, **{"name": name, "size_ms": 10, "value": agg.Count(), "on_close": nothing, **more}
    )


def test_rows_for_a_window_of_another_subscription_are_rejected_and_a_process_without_a_query_is_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = turbine.App("others")
    windows: list[Any] = []

    @app.subscribe("one")
    class one:
        def __init__(self) -> None:
            self._win = window_of(self, "of one")
            windows.append(self._win)

        def process(self, batch, state):
            self._win.update(batch, state)

    class plain:
        def __init__(self) -> None:
            self._other = windows[0]

        def process(self, batch, state):
            self._other.update(batch, state)

    class filtering(plain):
        def process(self, batch, state):
            if batch.num_rows:
                self._other.update(batch, state)

    for kind in (plain, filtering):
        says = rf"process of {kind.__name__} updates the window 'of one', which another .*test_turbine_certain\.py:\d+"
        with pytest.raises(UnsupportedError, match=says):
            app.subscribe("two")(kind)

    class hidden(plain):
        def process(self, batch, state):
            for window in vars(self).values():
                window.update(batch, state)

    function = hidden().process
    called = Called("process", "process", function, None, "hidden")
    process = Process("hidden", called, (), "stop", None, lambda name, by: None, frozenset())
    with pytest.raises(FunctionError, match="process of hidden updates the window 'of one', which another"):
        process.call(pa.RecordBatch.from_pylist([{"x": 1}]), None, lambda window, rows: None)

    @app.subscribe("three")
    class three:
        def __init__(self) -> None:
            self._idle = window_of(self, "idle")

        def process(self, batch, state):
            """It does nothing yet."""

    @app.subscribe("four")
    class four:
        def process(self, batch, state):
            print(batch.num_rows)

    app._jobs = lambda: [None]  # type: ignore[method-assign, list-item]
    app.names.remember = lambda checkpoint: None  # type: ignore[method-assign]
    app._checked_jobs()
    warned = [record.getMessage() for record in caplog.records]
    assert len(warned) == 3
    assert [says.split(" (")[0] for says in warned] == ["process of three", "process of three", "process of four"]
    assert "has no query, and reads nothing of 'three': it updates no window" in warned[0]
    assert "never updates the window 'idle'" in warned[1]
    assert "four.process" in str(app.explain())
    assert "it is not called: it updates no window, returns nothing and uses no state" in str(app.explain())


def test_an_uncertain_process_runs_in_python_and_helpers_are_analysed_for_the_state() -> None:
    app = turbine.App("certain")

    class base:
        def __init__(self) -> None:
            self._a, self._b = window_of(self, f"{type(self).__name__} a"), window_of(self, f"{type(self).__name__} b")

        def process(self, batch, state):
            self._a.update(batch, state)

        def _give(self, batch, how, *, state):
            self._b.update(batch, state)

        def _count(self, state):
            state["n"] = state.get("n", 0) + 1

    def subscription(kind: type) -> Any:
        app.subscribe("rows")(kind)
        return app.subscriptions[-1]

    class chosen(base):
        @property
        def _now(self):
            return self._a if self._odd() else self._b

        def _odd(self):
            return True

        def process(self, batch, state):
            self._now.update(batch, state)

    assert subscription(chosen).process.python.says == "self._now.update(batch, state)"

    class extended(base):
        def process(self, batch, state):
            super().process(batch, state)
            self._give(batch, 1, state=state)

    assert subscription(extended).state is None, "nothing that it calls reads it: no shards are asked for"
    assert subscription(type("again", (extended,), {"process": extended.process})).state is None

    class counting(base):
        def process(self, batch, state):
            super().process(batch, state)
            self._count(state)

    reader, place = subscription(counting).state
    assert (reader, place.says) == ("process", "reads state")
    assert linecache.getline(place.file, place.line).strip() == 'state["n"] = state.get("n", 0) + 1'

    class doubtful(base):
        def __init__(self) -> None:
            super().__init__()
            self._own = self._count

        def process(self, batch, state):
            self._own(state)

    assert subscription(doubtful).state is not None, "an attribute is not looked into"

    class endless(base):
        def process(self, batch, state):
            self.process(batch, state)

    assert subscription(endless).state is None


def test_attributes_that_process_and_callbacks_set_on_self_are_reported_with_their_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = turbine.App("selves")

    @app.subscribe("rows", publish_to="out")
    class rows:
        def __init__(self) -> None:
            self.n = 0
            self.letters: list[str] = []
            self._win = window_of(self, "w", on_close=self._closed)

        def process(self, batch, state):
            self.n += batch.num_rows
            self._win.update(batch, state)

        def _closed(self, state, panes):
            self.letters.append("x")
            self.last, there = panes, self.n
            return pa.RecordBatch.from_pylist([{"n": there}])

    why = {part.name: part.why for part in app.explain().parts}
    assert "attributes that it sets on self are lost after the batch: self.n (" in why["rows.process"]
    assert why["w.close"].count("test_turbine_certain.py:") == 2
    assert "self.letters" in why["w.close"]
    assert "self.last" in why["w.close"]
    assert why["w.close"].endswith("Keep such values in state")
    warned = list(warnings_of(app.subscriptions[0]))
    assert len(warned) == 2
    assert any(says.startswith("process in rows: attributes that it sets on self") for says in warned)
    assert any(says.startswith("a callback of 'w' in rows: attributes that it sets on self") for says in warned)
    assert not caplog.records, "it is reported when it runs"


def test_numbers_that_do_not_fit_fail_also_in_a_session_that_would_cut_them(spark: SparkSession) -> None:
    lenient = spark.newSession()
    for name in ("spark.sql.shuffle.partitions", "spark.sql.session.timeZone"):
        lenient.conf.set(name, str(spark.conf.get(name)))
    lenient.conf.set("spark.sql.ansi.enabled", "false")
    for value, row, says in (
        (agg.Max(fn.cast("x", "int8")), {"x": 1000.0, "n": 1}, "CAST_OVERFLOW"),
        (agg.Max(fn.col("n") * 2), {"x": 1.0, "n": 2**62}, "ARITHMETIC_OVERFLOW"),
    ):
        app = turbine.App(f"lenient-{next(_numbers)}", spark=lenient)

        @app.subscribe("rows", publish_to="out")
        class rows:
            def __init__(self, value: agg.Aggregate = value) -> None:
                self._win = window_of(
                    self, "w", value=value, time_column="ts", on_close=None, on_close_each=self._closed
                )

            def process(self, batch, state):
                self._win.update(batch, state)

            def _closed(self, state, window, value):
                return pa.RecordBatch.from_pylist([{"value": value}])

        with testing.run(app) as t:
            t.feed("rows", [{"x": 7.0, "n": 7, "ts": 1}])
            t.feed("rows", [{"x": 1.0, "n": 1, "ts": 11}])
            assert [row["value"] for row in t.outputs("out")] == [7 if says == "CAST_OVERFLOW" else 14]
            assert [row.value for row in app.window("w").read().collect()] == [1 if says == "CAST_OVERFLOW" else 2]
            t.feed("rows", [{**row, "ts": 12}])
            with pytest.raises(QueryFailedError, match=says):
                t.settle()
    assert lenient.conf.get("spark.sql.ansi.enabled") == "false"


def test_a_row_reopens_those_of_its_sliding_windows_that_have_closed(app: turbine.App) -> None:
    def sliding(subscription, name, closed, **more):
        lengths = {"size_ms": 10, "slide_ms": 5, "time_column": "ts"}
        return win.PersistentSliding(
            subscription, **{"name": name, "value": agg.Sum("x"), "on_close_each": closed, **lengths, **more}
        )

    def describe(state, window, value):
        return pa.RecordBatch.from_pylist([{"start": window.start_ms, "total": value}])

    @app.subscribe("rows", publish_to="alone")
    class alone:
        def __init__(self) -> None:
            self._win = sliding(self, "alone", describe)

        def process(self, batch, state):
            self._win.update(batch, state)

    @app.subscribe("rows", publish_to="together", together=True)
    class together:
        def __init__(self) -> None:
            self._one, self._two = sliding(self, "one", describe), sliding(self, "two", describe)

        def process(self, batch, state):
            self._one.update(batch, state)
            self._two.update(batch, state)

    @app.subscribe("rows", publish_to="made")
    class from_data:
        def process(self, batch, state):
            sliding(self, "made", self._describe).update(batch, state)

        def on_recover(self, name, spec):
            return spec.window(self, on_close_each=self._describe)

        def _describe(self, state, window, value):
            return describe(state, window, value)

    with testing.run(app) as t:
        t.feed("rows", [{"x": 0, "ts": 1}, {"x": 1, "ts": 15}])
        t.settle()
        t.feed("rows", [{"x": 2, "ts": 13}, {"x": 4, "ts": 3}])
        t.settle()
        t.feed("rows", [{"x": 8, "ts": 45}])
        for topic in ("alone", "together", "made"):
            closed = [(row["start"], row["total"]) for row in t.outputs(topic)]
            assert sorted(set(closed)) == [(-5, 0), (-5, 4), (0, 0), (0, 4), (5, 2), (10, 3), (15, 1)], topic


def test_a_pane_that_ended_before_1970_closes_in_each_batch_that_brings_rows_for_it(app: turbine.App) -> None:
    days = 365 * 86_400_000

    @app.subscribe("rows", publish_to="plain")
    class plain:
        def __init__(self) -> None:
            self._ten = window_of(self, "plain", time_column="ts", on_close=self._over)

        def process(self, batch, state):
            self._ten.update(batch, state)

        def _over(self, state, panes):
            return panes.combine_chunks().to_batches()[0]

    @app.subscribe("rows", publish_to="moved")
    class moved:
        """The advice of the page."""

        def __init__(self) -> None:
            self._ten = window_of(self, "moved", time_column="ts", on_close_each=self._over, on_close=None)

        def process(self, batch, state):
            later = pc.add(batch["ts"], days)
            self._ten.update(batch.set_column(batch.schema.get_field_index("ts"), "ts", later), state)

        def _over(self, state, window, value):
            return pa.RecordBatch.from_pylist([{"window_start_ms": window.start_ms - days, "value": value}])

    with testing.run(app) as t:
        for times in ([-25, -21], [-23, -8], [3], [-4], [40]):
            t.feed("rows", [{"ts": ts} for ts in times])
            t.settle()
        panes_by_name = {
            topic: sorted((row["window_start_ms"], row["value"]) for row in t.outputs(topic))
            for topic in ("plain", "moved")
        }
    assert panes_by_name["plain"] == [(-30, 1), (-30, 2), (-10, 1), (-10, 1), (0, 1)]
    assert panes_by_name["moved"] == [(-30, 3), (-10, 1), (-10, 1), (0, 1)]
