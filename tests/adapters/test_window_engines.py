"""One table: windows of Turbine and KX, on the JVM alone and behind functions that run in Python's workers.

Their windows have one engine, the operator. A program has a second one in front of it: Turbine's ``process`` with other
code than an update, and KX's ``time_assigner``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

import mullion.turbine as turbine
from mullion.kx import sp
from mullion.turbine import aggregates as agg
from mullion.turbine import testing
from mullion.turbine import windowing as win
from tests.support.kx.kx_runs import TEN, records

# Workers do not have the folder of the tests on their path.
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]

ENGINES = pytest.mark.parametrize("is_in_jvm", [True, False], ids=["JVM", "Python"])


@dataclass(frozen=True)
class Window:
    """A window of KX, the seconds of its batches, and the values of each window that it emits."""

    make: Callable[..., sp.Operator]
    batches: Sequence[Sequence[float]]
    windows: Sequence[Sequence[int]]
    options: Mapping[str, Any] = field(default_factory=dict)


SOME = ((1, 3, 2), (12, 45), (46,), (8, 70))
"""Rows 3 and 2 are out of order, 8 is late for its window once that has closed."""

WINDOWS: dict[str, Window] = {
    "empty windows are emitted": Window(
        sp.window.tumbling, SOME, [[1, 3, 2], [12], [], [], [45, 46], [], []], {"skip_empty_windows": False}
    ),
    "a window is sorted": Window(sp.window.tumbling, SOME, [[1, 2, 3], [12], [45, 46]], {"sort": True}),
    "lateness keeps a window open": Window(
        sp.window.tumbling, SOME, [[1, 3, 2, 8]], {"lateness": timedelta(minutes=1)}
    ),
    "sliding windows overlap": Window(
        lambda period, **options: sp.window.sliding(period, (20, "s"), **options),
        SOME,
        [[1, 3, 2], [1, 3, 2, 12], [12], [45, 46], [45, 46]],
    ),
    "a row is late by the clock before its batch": Window(
        sp.window.tumbling,
        ((1, 2), (14,), (3,), (16,), (4,), (5,), (70,)),
        # When 4 arrives, the clock before has reached 14. When 5 arrives, it has reached 16.
        [[1, 2, 3, 4], [14, 16]],
        {"lateness": timedelta(seconds=5)},
    ),
}


@ENGINES
@pytest.mark.parametrize("name", WINDOWS)
def test_windows_of_kx_are_the_same_behind_a_function(spark: SparkSession, name: str, is_in_jvm: bool) -> None:
    case, out = WINDOWS[name], list[pa.Table]()
    times = {"time_column": "time"} if is_in_jvm else {"time_assigner": lambda data: data["time"]}

    def read() -> Iterator[list[dict[str, Any]]]:
        return (records(*batch) for batch in case.batches)

    window = case.make(TEN, **times, **{"skip_empty_windows": True, **case.options})
    line = sp.read.from_expr(read) | window | sp.write.to_variable(out)
    runs = {part.name: part.runs for part in sp.App("windows", line, spark=spark).explain().parts}
    assert [place for part, place in runs.items() if part.startswith(("tumbling", "sliding"))] == [
        "JVM" if is_in_jvm else "Python"
    ]
    sp.run(line, spark=spark, until="drained")
    assert [batch["v"].to_pylist() for batch in out] == list(case.windows)


Fed = tuple[str | None, int, int]
"""A user, a time in milliseconds, and an amount."""


@dataclass(frozen=True)
class Subscription:
    """A window of Turbine, its batches, and the sums that it publishes with their users and starts."""

    window: type[Any]
    options: Mapping[str, Any]
    batches: Sequence[Sequence[Fed]]
    sums: Sequence[tuple[str | None, int, int]]


LAST: Fed = ("z", 10**6, 0)
"""A row that closes all windows before it, in a batch of its own."""

SUBSCRIPTIONS: dict[str, Subscription] = {
    "rows out of order": Subscription(
        win.PersistentTumbling,
        {"size_ms": 10},
        [[("a", 7, 1), ("b", 1, 2), ("a", 3, 4)], [("a", 12, 8)], [LAST]],
        [("a", 0, 5), ("b", 0, 2), ("a", 10, 8)],
    ),
    "a null is a key": Subscription(
        win.PersistentTumbling,
        {"size_ms": 10},
        [[(None, 1, 1), ("a", 1, 2), (None, 2, 4)], [LAST]],
        [(None, 0, 5), ("a", 0, 2)],
    ),
    "a very late row reopens its pane": Subscription(
        win.PersistentTumbling,
        {"size_ms": 10},
        [[("a", 1, 1)], [("a", 50, 2)], [("a", 61, 4)], [("a", 2, 8)], [LAST]],
        [("a", 0, 1), ("a", 50, 2), ("a", 0, 8), ("a", 60, 4)],
    ),
    "lateness keeps a pane open": Subscription(
        win.PersistentTumbling,
        {"size_ms": 10, "allowed_lateness_ms": 100},
        [[("a", 1, 1)], [("a", 50, 2)], [("a", 61, 4)], [("a", 2, 8)], [LAST]],
        [("a", 0, 9), ("a", 50, 2), ("a", 60, 4)],
    ),
    "sliding windows overlap": Subscription(
        win.PersistentSliding,
        {"size_ms": 10, "slide_ms": 5},
        [[("a", 7, 1), ("a", 12, 2)], [LAST]],
        [("a", 0, 1), ("a", 5, 3), ("a", 10, 2)],
    ),
    "sessions merge": Subscription(
        win.PersistentSession,
        {"gap_ms": 10, "allowed_lateness_ms": 100},
        [[("a", 1, 1), ("a", 18, 2)], [("a", 10, 4), ("b", 3, 8)], [LAST]],
        [("a", 1, 7), ("b", 3, 8)],
    ),
}


def app_of(case: Subscription, is_in_jvm: bool, spark: SparkSession) -> turbine.App:
    app = turbine.App("windows", spark=spark)

    class Rows:
        def __init__(self) -> None:
            self._win = case.window(
                self,
                name="sums",
                key=["user"],
                value=agg.Sum("n"),
                time_column="ts",
                on_close=self._close,
                **case.options,
            )

        def _close(self, state: Any, panes: Any) -> Any:
            return panes.select(["user", "window_start_ms", "value"]).combine_chunks().to_batches()[0]

    class InJvm(Rows):
        def process(self, batch: Any, state: Any) -> None:
            self._win.update(batch, state)

    class InPython(Rows):
        def process(self, batch: Any, state: Any) -> None:
            rows = batch.to_pylist()
            self._win.update(pa.RecordBatch.from_pylist(rows, schema=batch.schema), state)

    app.subscribe("rows", publish_to="out")(InJvm if is_in_jvm else InPython)
    return app


@ENGINES
@pytest.mark.parametrize("name", SUBSCRIPTIONS)
def test_windows_of_turbine_are_the_same_behind_a_process(spark: SparkSession, name: str, is_in_jvm: bool) -> None:
    case = SUBSCRIPTIONS[name]
    app = app_of(case, is_in_jvm, spark)
    (process,) = [part.runs for part in app.explain().parts if part.name.endswith(".process")]
    assert process == ("JVM" if is_in_jvm else "Python")
    with testing.run(app) as t:
        for batch in case.batches:
            t.feed("rows", [{"user": user, "ts": time, "n": amount} for user, time, amount in batch])
            t.settle()
        published = [(row["user"], row["window_start_ms"], int(row["value"])) for row in t.outputs("out")]
    assert sorted(published, key=repr) == sorted(case.sums, key=repr)
