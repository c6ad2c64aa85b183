"""What is inferred in Turbine is certain, or refused: order of arrival, shards, windows, names, and what is kept."""

# Programs are written as users write them.
# ruff: noqa: N801
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import itertools
import pickle
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from mullion import turbine
from mullion.errors import FunctionError, UnsupportedError
from mullion.turbine import aggregates as agg
from mullion.turbine import functions as fn
from mullion.turbine import testing
from mullion.turbine import windowing as win
from mullion.turbine.windowing import UPDATING

_numbers = itertools.count()


@pytest.fixture
def app(spark: SparkSession) -> turbine.App:
    return turbine.App(f"certain-{next(_numbers)}", spark=spark)


def test_first_and_last_follow_the_batches_also_where_these_have_one_time(app: turbine.App) -> None:
    def windows(subscription, of, **more):
        ends = {"first": agg.First("x"), "last": agg.Last("x")}
        made = []
        for name, clock in (("event", {"time_column": "ts"}), ("wall", {})):
            options = {"name": f"{of} {name}", "size_ms": 10, "value": agg.Multi(**ends), **clock, **more}
            made.append(win.PersistentTumbling(subscription, on_close=closed, **options))
        return made

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
            # Each is the first row of its batch, and the clock stands still.
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


def test_a_process_with_state_that_changes_the_partition_key_is_refused_where_a_group_would_be_split(
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
        with pytest.raises(FunctionError, match=says + r".*partition_key.*pieces.*test_turbine_certain\.py:\d+"):
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
    for window, known in zip((again._minutes, again._visits), windows.values(), strict=True):
        assert (type(window), repr(window), window.name) == (type(known), repr(known), known.name)
        with pytest.raises(UnsupportedError, match="is called when panes fire"):
            window.spec.callbacks.close(None, None)
    updated: list[str] = []
    token = UPDATING.set(lambda window, batch: updated.append(window.name))
    try:
        again.process(pa.RecordBatch.from_pylist([{"x": 1}]), None)
    finally:
        UPDATING.reset(token)
    assert updated == ["minutes"], "as process says, in a worker too"

    class cleaning:
        def __init__(self) -> None:
            self._win = Cleaned(self, name="w", size_ms=1, value=agg.Sum("x"), on_close=nothing)

        def process(self, batch, state):
            self._win.update(batch, state)

    with pytest.raises(UnsupportedError, match=r"the window 'w' is a Cleaned, which has its own 'update'.*process"):
        app.subscribe("rows")(cleaning)
