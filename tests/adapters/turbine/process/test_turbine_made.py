"""Windows that ``process`` makes from data, and ``on_recover``, which makes them again."""

# Programs are written as users write them.
# ruff: noqa: N801
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import datetime
import decimal
import itertools
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from mullion import turbine
from mullion.errors import FunctionError, InvalidArgumentError, NewWindowsError
from mullion.topics._records import COLUMNS
from mullion.turbine import aggregates as agg
from mullion.turbine import functions as fn
from mullion.turbine import testing
from mullion.turbine import windowing as win
from mullion.turbine._process.aggregate_json import from_json
from mullion.turbine._process.callbacks import Called
from mullion.turbine._process.dynamic_windows import FromData, Shape, note, shapes_in, specs_in
from mullion.turbine._process.worker import Process, ProcessOfShard
from mullion.turbine.state import Scratch

_numbers = itertools.count()


@pytest.fixture
def app(spark: SparkSession) -> turbine.App:
    return turbine.App(f"made-{next(_numbers)}", spark=spark)


def _opened(tenant: str, **lengths: int) -> dict[str, Any]:
    return {"tenant": tenant, "ts": 0, "bytes": None, "size_ms": None, "slide_ms": None, "gap_ms": None, **lengths}


def _used(tenant: str, ts: int, amount: int) -> dict[str, Any]:
    return {**_opened(tenant), "ts": ts, "bytes": amount}


def quotas_in(app: turbine.App) -> None:
    """A row with a length makes a tenant's window, which counts the rows after it."""

    schema = "tenant string, ts bigint, bytes bigint, size_ms bigint, slide_ms bigint, gap_ms bigint"

    @app.subscribe("usage", publish_to="out", schema=schema)
    class quotas:
        def __init__(self) -> None:
            self._all = win.PersistentTumbling(
                self,
                name="all",
                size_ms=1_000,
                value=agg.Count(),
                key=["tenant"],
                time_column="ts",
                on_close_each=self._counted,
            )
            self._windows: dict[str, Any] = {}
            self._recovered: list[str] = []

        def process(self, batch, state):
            for row in batch.to_pylist():
                tenant = row["tenant"]
                if row["size_ms"] or row["gap_ms"]:
                    self._windows[tenant] = self._open(row)
            used = batch.filter(pc.is_valid(batch["bytes"]))
            for tenant in pc.unique(used["tenant"]).to_pylist():
                state[tenant] = [*state.get(tenant, []), "recovered" if tenant in self._recovered else "made"]
                self._windows[tenant].update(used.filter(pc.equal(used["tenant"], tenant)), state)
            self._all.update(used, state)

        def _open(self, row):
            common: dict[str, Any] = {
                "name": f"quota {row['tenant']}",
                "key": ["tenant"],
                "value": agg.Multi(total=agg.Sum("bytes"), n=agg.Count()),
                "time_column": "ts",
                "allowed_lateness_ms": 500,
                "on_close_each": self._full,
                "early_fire_interval_ms": 10_000,
                "on_early_fire_each": self._live,
            }
            if row["gap_ms"]:
                return win.PersistentSession(self, gap_ms=row["gap_ms"], **common)
            if row["slide_ms"]:
                return win.InMemorySliding(self, size_ms=row["size_ms"], slide_ms=row["slide_ms"], **common)
            return win.PersistentTumbling(self, size_ms=row["size_ms"], **common)

        def on_recover(self, name, spec):
            tenant = name.removeprefix("quota ")
            self._recovered.append(tenant)
            self._windows[tenant] = spec.window(self, on_close_each=self._full, on_early_fire_each=self._live)
            return self._windows[tenant]

        def _live(self, state, window, value):
            return self._row("live", window, value, state)

        def _full(self, state, window, value):
            return self._row("full", window, value, state)

        def _row(self, what, window, value, state):
            row = {"what": what, **window.group, "total": value.total, "n": value.n, "start": window.start_ms}
            return pa.RecordBatch.from_pylist([{**row, "end": window.end_ms, "said": state.get(row["tenant"], [])}])

        def _counted(self, state, window, value):
            return None


def panes_of(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted(tuple(row[name] for name in ("what", "tenant", "start", "end", "total", "n")) for row in rows)


def test_a_window_that_a_row_asks_for_has_panes_of_its_own_length_that_outlive_a_restart(app: turbine.App) -> None:
    quotas_in(app)
    with testing.run(app) as t:
        t.feed("usage", [_opened("a", size_ms=5_000), _opened("b", size_ms=4_000, slide_ms=2_000)])
        t.feed("usage", [_used("a", 1_000, 1), _used("a", 4_000, 2), _used("b", 3_000, 10)])
        assert t.outputs("out") == []
        # c is a session: a window of another operator.
        t.feed("usage", [_opened("c", gap_ms=3_000), _used("c", 4_100, 7), _used("a", 6_000, 4)])
        assert panes_of(t.fresh("out")) == [
            ("full", "a", 0, 5_000, 3, 2),
            ("full", "b", 0, 4_000, 10, 1),
        ]
        t.restart()
        # Nobody opens them again: on_recover does.
        t.feed("usage", [_used("a", 7_000, 8), _used("b", 9_500, 20), _used("c", 6_500, 1)])
        t.feed("usage", [_used("b", 20_600, 30)])
        outputs = t.fresh("out")
        # Each window is in all panes of its own length; those that are open fire when their clock has moved by 10 s.
        assert panes_of(outputs) == [
            ("full", "a", 5_000, 10_000, 12, 2),
            ("full", "b", 2_000, 6_000, 10, 1),
            ("full", "b", 6_000, 10_000, 20, 1),
            ("full", "b", 8_000, 12_000, 20, 1),
            ("full", "c", 4_100, 9_500, 8, 2),
            ("live", "b", 18_000, 22_000, 30, 1),
            ("live", "b", 20_000, 24_000, 30, 1),
        ]
        assert {row["tenant"]: row["said"][:3] for row in outputs} == {
            # Each batch begins with a new self, and the windows made before are made again.
            "a": ["recovered"] * 3,
            "b": ["recovered"] * 3,
            "c": ["made", "recovered"],
        }

        panes = app.window("quota b").read().orderBy("window_start_ms").collect()
        assert [(row.tenant, row.window_start_ms, row.window_end_ms, row.total, row.n) for row in panes] == [
            ("b", 18_000, 22_000, 30, 1),
            ("b", 20_000, 24_000, 30, 1),
        ]
        assert app.window("quota c").read().count() == 0
        assert repr(app.window("quota c")).startswith(
            "WindowSpec(kind='PersistentSession', name='quota c', value=Multi(total=Sum('bytes'), n=Count()), gap_ms="
        )
        listed = {line.split()[1:3][-1]: line for line in app.windows().splitlines() if "quota" in line}
        assert "2 open panes" in listed["b"]
        assert "0 open panes" in listed["a"]
        assert "quotas.on_recover" in str(app.explain())


def test_windows_made_from_data_follow_the_wall_clock_where_they_have_no_time_and_are_of_each_shard(
    app: turbine.App,
) -> None:
    @app.subscribe("visits", publish_to="out", partition_key="user", parallelism=2)
    class visits:
        def process(self, batch, state):
            for length in pc.unique(batch["length"]).to_pylist():
                window = self._of(f"within {length}", length)
                window.update(batch.filter(pc.equal(batch["length"], length)), state)

        def _of(self, name, length):
            if length < 0:
                return win.InMemorySession(self, name=name, gap_ms=-length, value=agg.Count(), on_close=self._over)
            return win.InMemoryTumbling(
                self,
                name=name,
                size_ms=length,
                value=agg.Count(),
                on_close=self._over,
                early_fire_interval_ms=1_000,
                on_early_fire=self._live,
            )

        def on_recover(self, name, spec):
            return self._of(name, spec.size_ms or -spec.gap_ms)

        def _live(self, state, panes):
            return self._panes("live", panes)

        def _over(self, state, panes):
            return self._panes("over", panes)

        def _panes(self, what, panes):
            rows = [{"what": what, "user": row["user"], "n": row["value"]} for row in panes.to_pylist()]
            return pa.RecordBatch.from_pylist(rows)

    def new_panes() -> list[tuple[Any, ...]]:
        return sorted((row["what"], row["user"], row["n"]) for row in t.fresh("out"))

    with testing.run(app, start_ms=5_000) as t:
        t.feed("visits", [{"user": user, "length": 10_000} for user in "abca"] + [{"user": "a", "length": -2_000}])
        assert new_panes() == []
        t.advance(1_500)
        assert new_panes() == [("live", "a", 2), ("live", "b", 1), ("live", "c", 1)]
        t.feed("visits", [{"user": "d", "length": 3_000}, {"user": "b", "length": 10_000}])
        assert new_panes() == []
        t.advance(600)
        assert new_panes() == [("over", "a", 1)]
        t.advance(2_000)
        assert ("over", "d", 1) in new_panes()
        # No row comes any more.
        t.restart()
        t.advance(1_000)
        assert [row for row in new_panes() if row[0] == "over"] == [
            ("over", "a", 2),
            ("over", "b", 2),
            ("over", "c", 1),
        ]


class wrong:
    """Makes a window of a name and a size, which ``on_recover`` may not make again."""

    def process(self, batch, state):
        (row,) = batch.to_pylist()
        value = agg.Count(fn.lower(fn.lit("a"))) if row["name"] == "text" else agg.Count()
        window = win.PersistentTumbling(self, name=row["name"], size_ms=row["size"], value=value, on_close=self._over)
        window.update(batch, state)

    def on_recover(self, name, spec):
        if name == "lost":
            return None
        if name == "broken":
            raise KeyError(name)
        return spec.window(self, on_close=self._over)

    def _over(self, state, panes):
        return pa.RecordBatch.from_pylist([{"n": sum(panes["value"].to_pylist())}])


def test_what_windows_made_from_data_cannot_be_is_said_where_they_are_made(app: turbine.App) -> None:
    for rows, says in (
        ([("fixed", 10)], "makes a window 'fixed', and the App has a part of that name already"),
        ([("text", 10)], r"value=Count\(fn.lower\('a'\)\) of the window 'text' cannot be kept"),
        ([("lost", 10), ("w", 10)], "on_recover of wrong was asked for .*'lost' and returned None"),
        ([("broken", 1), ("w", 1)], "for the window 'broken': on_recover of wrong raised KeyError.*made.py:"),
    ):
        records = Scratch()
        shape = Shape.of(turbine.WindowSpec("PersistentTumbling", "w", agg.Count(), size_ms=rows[0][1]), pa.schema([]))
        process = process_of(wrong(), {shape.name: shape})

        def fed(records: Scratch = records, process: ProcessOfShard = process, rows: Any = rows) -> None:
            for name, size in rows:
                batch = pa.RecordBatch.from_pylist([{"name": name, "size": size, COLUMNS: "name\nsize"}])
                list(process(iter([batch]), records))

        with pytest.raises(FunctionError, match=says):
            fed()

    @app.subscribe("rows", publish_to="out")
    class late(wrong):
        def __init__(self) -> None:
            # It needs no column.
            self._fixed = win.PersistentTumbling(self, name="fixed", size_ms=1, value=agg.Count(), on_close=self._over)

        def process(self, batch, state):
            self._fixed.update(batch, state)
            super().process(batch, state)

    with testing.run(app) as t:
        t.feed("rows", [{"name": "w", "size": 10}])
        t.advance(5)
        assert t.outputs("out") == [{"n": 1}]
        t.feed("rows", [{"name": "w", "size": 20}])
        says = "'w' was made before, and is another one now: size_ms was 10 and is now 20"
        with pytest.raises(FunctionError, match=rf"for a batch of 1 rows: process of late raised .*{says}"):
            t.settle()


@pytest.mark.parametrize(
    "value",
    [
        agg.Count(),
        agg.Multi(a=agg.Sum(fn.col("a") + fn.col("b")), b=agg.Percentiles("c", [0.5, 0.9], accuracy=100)),
        agg.Max(fn.when((fn.col("s") >= 500) & ~fn.is_null("t"), -1.5).otherwise("text")),
        agg.StdDev(fn.cast("a", "float64"), sample=True),
        agg.Sum(-fn.coalesce(fn.col("a") % 2 == 1, 1 - fn.col("b"), float("inf"), -2, None)),
        agg.CountIf(
            fn.is_in("c", [b"\0", decimal.Decimal("1.50"), datetime.date(2024, 1, 2), True]) | (fn.col("`") != 1)
        ),
        agg.MaxBy("é", fn.concat(fn.col("a"), "'text'", fn.substring("b", 1, 2))),
        agg.CountIf(fn.col("at") > fn.lit(datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC))),
    ],
    ids=repr,
)
def test_a_stored_window_has_all_its_parameters(value: Any) -> None:
    spec = turbine.WindowSpec("InMemorySliding", "é", value, size_ms=4, slide_ms=2, key=("k",), idle_tick_ms=7)
    assert turbine.WindowSpec.from_json(spec.to_json()) == spec
    names = {"WindowSpec": turbine.WindowSpec, "fn": fn, "datetime": datetime, "Decimal": decimal.Decimal} | vars(agg)
    assert eval(repr(spec), names) == spec == spec


class counting:
    """Makes a window that needs no column, or one that needs ``x``."""

    def process(self, batch, state):
        value = agg.Sum("x") if "x" in batch.schema.names else agg.Count()
        window = win.InMemoryTumbling(self, name="n", size_ms=5, value=value, on_close=lambda state, panes: None)
        window.update(batch, state)

    def on_recover(self, name, spec):
        return spec.window(self, on_close=lambda state, panes: None)


def process_of(instance: Any, shapes: dict[str, Shape]) -> ProcessOfShard:
    """``process`` as a worker runs it."""
    name = type(instance).__name__
    called = Called("process", "process", instance.process, None, name)
    process = Process(name, called, (), "stop", None, lambda name, by: None)
    return ProcessOfShard(process, (), FromData(name, instance, None, frozenset({"fixed"}), shapes))


def test_a_worker_tells_the_driver_of_a_new_kind_of_window_and_hands_on_all_of_its_rows(tmp_path: Path) -> None:
    rows = pa.RecordBatch.from_pylist([{"y": y, COLUMNS: "y"} for y in (1, 2, 3)])
    records = Scratch()
    with pytest.raises(NewWindowsError, match="made windows of a kind that is new to it") as met:
        list(process_of(counting(), {})(iter([rows]), records))
    assert list(records.scan()) == [], "the batch is done again"
    assert note(tmp_path, met.value)
    assert not note(tmp_path, met.value), "it has been noted"
    assert not note(tmp_path, ValueError("another error"))
    (shape,) = shapes_in(tmp_path)
    process = process_of(counting(), {shape.name: shape})
    ((name, window_rows),) = process(iter([rows]), records)
    assert (name, window_rows.num_rows, window_rows.schema) == (shape.name, 3, shape.rows)
    (spec,) = specs_in(records).values()
    assert (spec.name, spec.size_ms, spec.value) == ("n", 5, agg.Count())
    nothing = pa.RecordBatch.from_pylist([{"x": None, COLUMNS: "x"}])
    with pytest.raises(FunctionError, match="'n' was made before, and is another one now: value was Count"):
        list(process(iter([nothing]), records))
    with pytest.raises(FunctionError, match=r"'n' is of a kind that is new.* the column 'x' has no value and no type"):
        list(process(iter([nothing]), Scratch()))


def test_only_aggregates_are_read_from_a_stored_window() -> None:
    stored = json.loads(turbine.WindowSpec("PersistentTumbling", "w", agg.Sum("a"), size_ms=1).to_json())
    assert stored["value"] == {"call": "Sum", "args": ["a"]}, "it is data, and no code"
    code = "datetime.sys.modules['os'].system('true')"
    wrong: list[Any] = [
        code,
        {"call": code, "args": []},
        {"call": "datetime.sys", "args": []},
        {"call": "eval", "args": [code]},
        {"call": "fn.col", "args": ["a"]},
        {"call": "fn.__loader__", "args": []},
        {"call": "fn.Expression", "args": ["a", [], None]},
        {"call": "Sum", "args": [{"name": "datetime.sys"}]},
        {"call": "Sum", "args": [{"call": "*", "args": ["a", 1 << 40]}]},
        {"call": "Sum", "args": []},
        {"call": "Sum", "args": ["a"], "named": {"b": 1}},
        {"call": "otherwise", "args": [{"call": "fn.col", "args": ["a"]}, 1]},
        [[]],
        None,
    ]
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    for value in [*wrong, {"call": "Sum", "args": [deep]}]:
        with pytest.raises(InvalidArgumentError, match="is not what an aggregate is kept as"):
            from_json(value)
    with pytest.raises(InvalidArgumentError, match="'native' is not a kind of window"):
        turbine.WindowSpec.from_json(json.dumps(stored | {"kind": "native"}).encode())
