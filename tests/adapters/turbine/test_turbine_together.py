"""Windows of one subscription in one query: they share the read, ``process`` and the shuffle, and are as if alone."""

# Programs are written as users write them.
# ruff: noqa: N801
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from mullion import Upgrade, topics, turbine
from mullion.errors import IncompatibleStateError, InvalidArgumentError
from mullion.turbine import aggregates as agg
from mullion.turbine import testing
from mullion.turbine import windowing as win
from mullion.turbine._plans.together import engine_name

_numbers = itertools.count()


def program(spark: SparkSession, *, together: bool, windows: str = "abc") -> turbine.App:
    """Windows that differ in kind, key, values and rows."""
    app = turbine.App(f"together-{next(_numbers)}", spark=spark)

    @app.subscribe("in", publish_to="out", partition_key="k", parallelism=2, together=together)
    class shop:
        def __init__(self) -> None:
            common: dict[str, Any] = {"time_column": "ts"}
            if "a" in windows:
                self._a = win.PersistentTumbling(
                    self,
                    name="Totals of 10 s",
                    size_ms=10_000,
                    value=agg.Multi(total=agg.Sum("x"), n=agg.Count(), first=agg.First("page"), last=agg.Last("page")),
                    allowed_lateness_ms=1_000,
                    on_close=self._totals,
                    **common,
                )
            if "b" in windows:
                self._b = win.PersistentSession(
                    self,
                    name="visits",
                    gap_ms=3_000,
                    key=["page", "k"],
                    value=agg.Count(),
                    on_close_each=self._visit,
                    early_fire_interval_ms=2_000,
                    on_early_fire_each=self._visit_so_far,
                    **common,
                )
            if "c" in windows:
                self._c = win.PersistentSliding(
                    self,
                    name="prices",
                    size_ms=8_000,
                    slide_ms=4_000,
                    value=agg.Max("price"),
                    on_close_each=self._price,
                    **common,
                )

        def _totals(self, state, panes):
            return panes.select(["k", "total", "n", "first", "last"]).combine_chunks().to_batches()[0]

        def _visit(self, state, window, value):
            return pa.RecordBatch.from_pylist([{**window.group, "visit": value, "end": window.end_ms}])

        def _visit_so_far(self, state, window, value):
            return pa.RecordBatch.from_pylist([{**window.group, "so_far": value}])

        def _price(self, state, window, value):
            return pa.RecordBatch.from_pylist([{**window.group, "price": value, "start": window.start_ms}])

        def process(self, batch, state):
            self._a.update(batch, state)
            self._b.update(batch.filter(pc.not_equal(batch["page"], "robots")), state)
            self._c.update(batch, state)

    return app


def rows(at: int, **more: Any) -> list[dict[str, Any]]:
    return [
        {"k": k, "page": page, "x": i, "ts": at + 700 * i, **more}
        for i, (k, page) in enumerate(itertools.product("uv", ("p", "robots", "q")))
    ]


def published(app: turbine.App, *, restarted: bool) -> tuple[Counter[str], list[Any]]:
    with testing.run(app) as t:
        t.feed("in", rows(0, price=5))
        t.settle()
        opened = app.window("Totals of 10 s").read().orderBy("k", "window_start_ms").collect()
        if restarted:
            t.restart()
        for more in (rows(4_000), rows(21_000, price=7), rows(2_000, price=9)):
            t.feed("in", more)
            # The clock of windows in one query moves with the rows of each, so due panes close before the next rows.
            t.settle()
        t.advance(60_000)
        published_rows = Counter(
            repr(sorted((k, v) for k, v in row.items() if v is not None)) for row in t.outputs("out")
        )
        assert (app.window("prices").skipped, app.window("visits").skipped) == (6, 0)
        assert app.window("visits").read().isEmpty()
    return published_rows, [tuple(pane) for pane in opened]


def test_windows_in_one_query_publish_the_same_as_alone(spark: SparkSession) -> None:
    alone, together = program(spark, together=False), program(spark, together=True)
    (outputs, opened), (wanted, opened_alone) = published(together, restarted=True), published(alone, restarted=False)
    # How often a pane fires early depends on how many batches there are.
    early = {row for row in wanted if "so_far" in row}
    assert {row for row in outputs if "so_far" in row} == early
    assert len(early) > 2
    for rows_of in (outputs, wanted):
        for row in early:
            del rows_of[row]
    assert (outputs - wanted, wanted - outputs) == (Counter(), Counter())
    assert outputs.total() > 15
    assert opened == opened_alone
    queries = [job.name for job in together._jobs()]
    assert queries == ["shop.together on ts, persistent"]
    says = str(together.explain())
    assert "in one query with 'prices', 'visits'" in says


def changing(
    spark: SparkSession, like: turbine.App | None = None, upgrade: Upgrade | None = None, **sizes: Any
) -> turbine.App:
    """Windows by their names: a number is the size of a tumbling one in seconds, and one in a list a session's gap."""
    app = turbine.App("changing" if like is None else like.name, spark=spark, upgrade=upgrade or Upgrade())
    if like is not None:
        app.broker, app.checkpoint, app.clock = like.broker, like.checkpoint, like.clock

    @app.subscribe("in", publish_to="out", together=True)
    class shop:
        def __init__(self) -> None:
            for name, size in sizes.items():
                key = ["k", "page"] if name < "m" else ["page", "k"]
                about: dict[str, Any] = {
                    "value": agg.Sum("x"),
                    "time_column": "ts",
                    "on_close_each": self._closed,
                    "key": key,
                }
                if isinstance(size, list):
                    window: Any = win.PersistentSession(self, name=name, gap_ms=size[0] * 1000, **about)
                else:
                    window = win.PersistentTumbling(self, name=name, size_ms=size * 1000, **about)
                setattr(self, f"_{name}", window)

        def _closed(self, state, window, value):
            start, end = window.start_ms // 1000, window.end_ms // 1000
            at = {"start": start, "end": end, "total": value}
            return pa.RecordBatch.from_pylist([{**window.group, **at}])

        def process(self, batch, state):
            for name in sizes:
                getattr(self, f"_{name}").update(batch, state)

    return app


def test_windows_in_one_query_are_added_removed_and_renamed_over_a_checkpoint(spark: SparkSession) -> None:
    app = changing(spark, minutes=60, visits=[30])

    def batch(app: turbine.App, *seconds: int) -> None:
        topics.produce(app.broker, "in", [{"k": "a", "page": "p", "x": at, "ts": at * 1000} for at in seconds])
        app.run(until="drained")

    def changes_of(app: turbine.App) -> list[tuple[str, str]]:
        return [(change.verdict, change.what.split(": the ")[1]) for change in app.plan_change()]

    with testing.run(app) as t:
        t.stop()
        batch(app, 1, 10)
        # One is new whose name and key come first, and one has another name: the numbers of key columns stay.
        more = changing(spark, app, by_hour=3600, minutes=60, sessions=[30])
        assert changes_of(more) == [
            ("goes on", "window 'visits' is now 'sessions'"),
            ("goes on", "window 'by_hour' (tumbling 1 hour) is new: it holds the rows from now on"),
        ]
        batch(more, 20)
        assert more.removed_parts() == []
        opened = {(n, *map(tuple, more.window(n).read().collect())) for n in ("by_hour", "minutes", "sessions")}
        assert opened == {
            ("by_hour", ("a", "p", 0, 3_600_000, 20)),
            ("minutes", ("p", "a", 0, 60_000, 31)),
            ("sessions", ("p", "a", 1_000, 50_000, 31)),
        }
        # One is gone: as in the engine, that has to be asked for.
        fewer: dict[str, Any] = {"by_hour": 3600, "minutes": 60}
        with pytest.raises(
            IncompatibleStateError, match=r"the window 'sessions' .* is gone: with upgrade=Upgrade\(window='drop'\)"
        ):
            changing(spark, app, **fewer).run(until="drained")
        dropping = changing(spark, app, Upgrade(window="drop"), **fewer)
        assert changes_of(dropping)[0][0] == "drops"
        batch(dropping, 30, 70)
        batch(dropping, 4000)
        batch(dropping, 4001)
        closed = [
            tuple(row[of] for of in ("k", "page", "start", "end", "total"))
            for row in topics.read(app.broker, "out").to_pylist()
        ]
        assert sorted(closed) == [("a", "p", 0, 60, 61), ("a", "p", 0, 3600, 120), ("a", "p", 60, 120, 70)]


def test_wrong_changes_of_windows_in_one_query_are_rejected_by_name(spark: SparkSession) -> None:
    app, one = program(spark, together=True), program(spark, together=True, windows="a")
    other_keys, fewer = program(spark, together=True, windows="ac"), program(spark, together=True, windows="bc")
    with testing.run(app) as t:
        t.feed("in", rows(0, price=5))
        t.settle()
        t.stop()
        for changed, says in (
            (one, "has run in the query 'shop.together on ts, persistent', and would now run in 'Totals of 10 s'"),
            (other_keys, r"had the columns k, page, and have k\. .*Without together=True"),
            (fewer, "where the state of a key lies depends on them.*Without together=True"),
        ):
            changed.broker, changed.checkpoint, changed.clock = app.broker, app.checkpoint, app.clock
            with pytest.raises(IncompatibleStateError, match=says):
                changed.start()
            assert {change.verdict for change in changed.plan_change()} >= {"refused"}


def floats(spark: SparkSession, like: turbine.App | None = None, *, ints: bool = False) -> turbine.App:
    """Windows ``a`` and ``b`` of one query. Without rows they get the topic's integers, then floats.

    With ``ints``, ``b`` always gets integers.
    """
    app = turbine.App(f"floats-{next(_numbers)}" if like is None else like.name, spark=spark)
    if like is not None:
        app.broker, app.checkpoint, app.clock = like.broker, like.checkpoint, like.clock

    @app.subscribe("in", publish_to="out", together=True)
    class shop:
        def __init__(self) -> None:
            for name in "ab":
                about: dict[str, Any] = {"value": agg.Sum("x"), "time_column": "ts", "on_close_each": self._closed}
                setattr(self, name, win.PersistentTumbling(self, name=name, size_ms=10_000, key=["k"], **about))

        def _closed(self, state, window, value):
            return pa.RecordBatch.from_pylist([{**window.group, "start": window.start_ms, "total": value}])

        def process(self, batch, state):
            all_rows = batch.to_pylist()
            half = pa.RecordBatch.from_pylist([{**row, "x": row["x"] / 2} for row in all_rows]) if all_rows else batch
            # The window ``b`` gets its first rows later than ``a``.
            later = half.filter(pc.greater_equal(half["ts"], 5_000))
            if ints:
                later = later.set_column(1, "x", later["x"].cast(pa.int64(), safe=False))
            for name, rows in (("a", half), ("b", later)):
                getattr(self, name).update(rows, state)

    return app


def halves(*seconds: int) -> list[dict[str, Any]]:
    return [{"k": "u", "x": at, "ts": at * 1000} for at in seconds]


@pytest.mark.parametrize("first", [1, 5], ids=["the second window has its rows later", "both in one batch"])
def test_windows_of_one_query_learn_one_type(spark: SparkSession, first: int) -> None:
    app = floats(spark)
    with testing.run(app) as t:
        t.feed("in", halves(first))
        t.settle()
        t.restart()
        t.feed("in", halves(7))
        t.settle()
        t.feed("in", halves(100))
        t.advance(60_000)
        closed = sorted(row["total"] for row in t.outputs("out") if row["start"] == 0)
        assert closed == ([3.5, 4.0] if first == 1 else [6.0, 6.0])


def test_two_types_of_a_column_are_rejected_until_the_program_is_corrected(spark: SparkSession) -> None:
    app = floats(spark, ints=True)
    with testing.run(app) as t:
        t.feed("in", halves(1))
        t.settle()
        t.feed("in", halves(7))
        with pytest.raises(InvalidArgumentError, match="'x' to the window 'a' as double and to 'b' as int64"):
            t.settle()
        t.stop()
        corrected = floats(spark, app)
        corrected.run(until="drained")
        totals = {name: [tuple(pane)[-1] for pane in corrected.window(name).read().collect()] for name in "ab"}
        assert totals == {"a": [4.0], "b": [3.5]}


def test_windows_that_cannot_share_a_query_have_their_own_and_explain_shows_why(spark: SparkSession) -> None:
    app = turbine.App("apart", spark=spark)

    @app.subscribe("in", publish_to="out", together=True)
    class events:
        def __init__(self) -> None:
            common: dict[str, Any] = {"value": agg.Count(), "on_close_each": self._closed}
            self._a = win.PersistentTumbling(self, name="a", size_ms=10, time_column="ts", **common)
            self._b = win.InMemoryTumbling(self, name="b", size_ms=10, time_column="ts", **common)
            self._c = win.PersistentTumbling(self, name="c", size_ms=10, **common)
            self._d = win.PersistentSession(self, name="d", gap_ms=10, key="k", time_column="ts", **common)

        def _closed(self, state, window, value):
            return pa.RecordBatch.from_pylist([{"k": window.group.get("k"), "n": value, "start": window.start_ms}])

        def process(self, batch, state):
            self._a.update(batch, state)
            self._b.update(batch, state)
            self._c.update(batch, state)
            self._d.update(batch, state)

    assert [job.name for job in app._jobs()] == ["events.together on ts, persistent", "b", "c"]
    why = {part.name: part.why for part in app.explain().parts}
    assert why["a"].endswith("in one query with 'd'")
    assert why["b"].endswith("a query of its own, because no other has its time_column and its idle_tick_ms")
    assert why["c"].endswith("a query of its own, because it is on processing time")
    with testing.run(app, start_ms=7_000) as t:
        t.feed("in", [{"k": "x", "ts": 1}, {"k": "x", "ts": 8}, {"k": None, "ts": 9}])
        t.feed("in", [{"ts": 12}])
        t.feed("in", [{"k": "y", "ts": 50}])
        outputs = Counter((row["k"], row["n"], row["start"]) for row in t.outputs("out") if row["start"] < 7_000)
        assert outputs == Counter({(None, 3, 0): 2, (None, 1, 10): 2, ("x", 2, 1): 1, (None, 1, 9): 1})
        assert (app.window("a").skipped, app.window("d").skipped) == (0, 1)
    with pytest.raises(InvalidArgumentError, match="together=1 is neither True nor False"):
        app.subscribe("in", together=1)  # type: ignore[arg-type]


def test_the_engine_distinguishes_any_names_of_windows() -> None:
    names = ["a", "A", "a b", "a_b", "ä", "5", ""]
    assert len({engine_name(name).lower() for name in names}) == len(names)
    assert all(engine_name(name).isascii() for name in names)
