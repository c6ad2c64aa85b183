"""The rows that ``process`` passes to windows: types come from the first rows, and no cast changes a value."""

# Programs are written as users write them.
# ruff: noqa: N801
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import datetime
import decimal
import itertools
import zoneinfo
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from mullion import turbine
from mullion.errors import FunctionError, InvalidArgumentError, UnknownColumnError, WindowInputError
from mullion.turbine import aggregates as agg
from mullion.turbine import testing
from mullion.turbine import windowing as win
from mullion.turbine._process.window_rows import WindowRows

_numbers = itertools.count()

PRICES = [{"k": "a", "price": price, "ts": f"1970-01-01T00:00:0{i}"} for i, price in enumerate(("9", "10", "100"))]
LATER = {"k": "z", "price": "1", "ts": "1970-01-01T00:01:00"}
"""Closes the windows of those before it."""


@pytest.fixture
def app(spark: SparkSession) -> turbine.App:
    return turbine.App(f"inputs-{next(_numbers)}", spark=spark)


class base:
    """Ten seconds of prices; each class makes numbers of the texts in its own way."""

    def __init__(self) -> None:
        value = agg.Multi(top=agg.Max("price"), all=agg.Collect("price"), total=agg.Sum("price"))
        self._win = win.PersistentTumbling(
            self,
            name=type(self).__name__,
            size_ms=10_000,
            key=["k"],
            value=value,
            time_column="ts",
            on_close_each=self._over,
        )

    def _over(self, state, window, value):
        row = {"of": type(self).__name__, "k": window.group["k"], "top": value.top, "all": sorted(value.all)}
        return pa.RecordBatch.from_pylist([{**row, "total": value.total}])


def ms(text: str) -> int:
    return int(datetime.datetime.fromisoformat(f"{text}+00:00").timestamp() * 1000)


def parsed(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    return [{"k": r["k"], "price": int(r["price"]), "ts": ms(r["ts"])} for r in batch.to_pylist()]


def test_a_window_has_the_columns_that_process_returns_with_or_without_rows(
    app: turbine.App,
) -> None:
    options: dict[str, Any] = {"publish_to": "out", "parallelism": 1}

    @app.subscribe("prices", **options)
    class early(base):
        def process(self, batch, state):
            if not batch.num_rows:
                return
            self._win.update(pa.RecordBatch.from_pylist(parsed(batch)), state)

    @app.subscribe("prices", **options)
    class listed(base):
        def process(self, batch, state):
            self._win.update(pa.RecordBatch.from_pylist(parsed(batch)), state)

    @app.subscribe("prices", **options)
    class wrongly_said(base):
        """Without rows it gives what it was given."""

        def __init__(self) -> None:
            value = agg.Multi(top=agg.Max("price"), all=agg.Collect("price"), total=agg.Count())
            common: Any = {"key": ["k"], "time_column": "ts", "on_close_each": self._over}
            self._win = win.PersistentTumbling(self, name="wrongly_said", size_ms=10_000, value=value, **common)

        def process(self, batch, state):
            rows = parsed(batch)
            times = pa.array([row["ts"] for row in rows], pa.int64())
            batch = batch.set_column(batch.schema.get_field_index("ts"), "ts", times)
            if rows:
                prices = pa.array([row["price"] for row in rows], pa.int16())
                batch = batch.set_column(batch.schema.get_field_index("price"), "price", prices)
            self._win.update(batch, state)

    @app.subscribe("prices", **options)
    class frames(base):
        def process(self, batch, state):
            frame = batch.to_pandas()
            frame["k"] = frame["k"].str.lower()
            frame["price"] = [int(price) for price in frame["price"]]
            frame["ts"] = [ms(ts) for ts in frame["ts"]]
            self._win.update(pa.RecordBatch.from_pandas(frame, preserve_index=False), state)

    @app.subscribe("prices", **options)
    class tables(base):
        def __init__(self) -> None:
            value = agg.Multi(top=agg.Max("twice"), all=agg.Collect("twice"), total=agg.Sum("twice"))
            common: Any = {"key": ["k"], "time_column": "at", "on_close_each": self._over}
            self._win = win.PersistentTumbling(self, name="tables", size_ms=10_000, value=value, **common)

        def process(self, batch, state):
            table = pa.Table.from_batches([batch])
            table = table.append_column("twice", pc.multiply(table["price"].cast(pa.int64()), 2))
            self._win.update(table.append_column("at", pa.array([ms(t) for t in batch["ts"].to_pylist()], "i8")), state)

    @app.subscribe("prices", partition_key="k", **options)
    class stateful(base):
        def process(self, batch, state):
            state["rows"] = state.get("rows", 0) + batch.num_rows
            if batch.num_rows:
                self._win.update(pa.RecordBatch.from_pylist(parsed(batch)), state)

    with testing.run(app) as t:
        t.feed("prices", PRICES[:2])
        t.feed("prices", PRICES[2:])
        t.feed("prices", [LATER])
        outputs = {row.pop("of"): row for row in t.outputs("out")}
        once = {"k": "a", "top": 100, "all": [9, 10, 100], "total": 119}
        twice = {"k": "a", "top": 200, "all": [18, 20, 200], "total": 238}
        several = dict.fromkeys(("early", "listed", "frames", "stateful"), once)
        assert outputs == several | {"wrongly_said": once | {"total": 3}, "tables": twice}
        t.restart()
        t.feed("prices", [LATER | {"ts": "1970-01-01T00:02:00"}])
        assert sorted(row["top"] for row in t.fresh("out") if row["k"] == "z") == [1, 1, 1, 1, 1, 2]


FAR = {"k": "z", "price": "1", "ts": "1970-01-01T00:05:00"}


class halves:
    """Ten seconds of low and of high prices. High ones become floats; a call without rows has neither type."""

    store = "Persistent"
    low_price = "price"

    def __init__(self) -> None:
        common: dict[str, Any] = {"key": ["k"], "time_column": "ts", "size_ms": 10_000}
        kind, name = getattr(win, f"{self.store}Tumbling"), type(self).__name__

        def value(column: str) -> agg.Multi:
            return agg.Multi(top=agg.Max(column), all=agg.Collect(column))

        self._low = kind(self, name=f"{name} low", value=value(self.low_price), on_close_each=self._over_low, **common)
        self._high = kind(self, name=f"{name} high", value=value("price"), on_close_each=self._over_high, **common)

    def _over_low(self, state, window, value):
        return self._over("low", window, value)

    def _over_high(self, state, window, value):
        return self._over("high", window, value)

    def _over(self, half, window, value):
        row = {"of": f"{type(self).__name__} {half}", "k": window.group["k"], "type": type(value.top).__name__}
        return pa.RecordBatch.from_pylist([row | {"all": sorted(map(float, value.all))}])

    def process(self, batch, state):
        rows = parsed(batch)
        low = [{"k": r["k"], "ts": r["ts"], self.low_price: r["price"]} for r in rows if r["price"] < 9]
        if low:
            self._low.update(pa.RecordBatch.from_pylist(low), state)
        high = [row | {"price": row["price"] / 2} for row in rows if row["price"] >= 9]
        if high:
            self._high.update(pa.RecordBatch.from_pylist(high), state)


def test_a_window_learns_its_types_from_the_first_batch_that_has_rows_for_it_whichever_that_is(
    app: turbine.App,
) -> None:
    options: dict[str, Any] = {"publish_to": "out", "parallelism": 1}

    @app.subscribe("prices", **options)
    class alone(halves): ...

    @app.subscribe("prices", **options)
    class memory(halves):
        store = "InMemory"

    @app.subscribe("prices", together=True, **options)
    class both(halves):
        low_price = "cheap"

    @app.subscribe("prices", partition_key="k", **options)
    class stateful(halves):
        def process(self, batch, state):
            state["rows"] = state.get("rows", 0) + batch.num_rows
            super().process(batch, state)

    assert {part.name for part in app.explain().parts if "one query" in part.why} == {"both low", "both high"}
    with testing.run(app) as t:
        low = {"k": "a", "price": "3", "ts": "1970-01-01T00:00:01"}
        t.feed("prices", [low])
        t.settle()
        t.feed("prices", [low | {"price": "4"}, *PRICES])
        t.feed("prices", [low | {"price": "5"}])
        t.settle()
        t.restart()
        t.feed("prices", [FAR, FAR | {"price": "11"}])
        outputs = {row.pop("of"): row for row in t.outputs("out") if row.pop("k") == "a"}
        for name in ("alone", "memory", "both", "stateful"):
            assert outputs[f"{name} low"] == {"type": "int", "all": [3, 4, 5]}, name
            assert outputs[f"{name} high"] == {"type": "float", "all": [4.5, 5, 50]}, name


def test_what_fits_the_type_of_the_first_rows_is_taken_also_where_that_was_a_guess(app: turbine.App) -> None:
    @app.subscribe("rows", publish_to="out", parallelism=1)
    class rows:
        def __init__(self) -> None:
            self._win = win.PersistentTumbling(
                self, name="ten", size_ms=10, value=agg.Max("x"), time_column="t", on_close_each=self._close
            )

        def _close(self, state, window, value):
            return pa.RecordBatch.from_pylist([{"x": value}])

        def process(self, batch, state):
            if batch.num_rows:
                small = batch["t"][0].as_py() == 3
                self._win.update(batch.set_column(1, "x", batch["x"].cast("i4")) if small else batch, state)

    with testing.run(app) as t:
        t.feed("rows", [{"t": 1, "x": 1}])
        t.settle()
        t.feed("rows", [{"t": 3, "x": 5}])
        t.feed("rows", [{"t": 99, "x": 2}])
        assert t.outputs("out") == [{"x": 5}]


def test_what_a_window_cannot_take_fails_the_query_and_letters_come_for_every_call_that_fails(app: turbine.App) -> None:
    @app.subscribe("rows", publish_to="out", parallelism=1, on_error="skip", dead_letter="failed")
    class rows:
        def __init__(self) -> None:
            self._win = win.PersistentTumbling(
                self, name="ten", size_ms=10, value=agg.Max("x"), time_column="t", on_close_each=self._close
            )

        def _close(self, state, window, value):
            return pa.RecordBatch.from_pylist([{"x": value}])

        def process(self, batch, state):
            if batch["says"].to_pylist() == ["fail"]:
                raise ValueError("a bad batch")
            texts = batch["says"].to_pylist() == ["text"]
            converted = batch.set_column(1, "x", batch["x"].cast(pa.string())) if texts else batch
            try:
                self._win.update(converted, state)
            except Exception:
                print("that is no fault of the batch")

    with testing.run(app) as t:
        for i, says in enumerate(("", "fail", "fail", "")):
            t.feed("rows", [{"t": 20 * i, "x": i, "says": says}])
        assert t.outputs("out") == [{"x": 0}]
        letters = t.outputs("failed")
        assert [letter["callback"] for letter in letters] == ["process of rows"] * 2
        assert all("ValueError: a bad batch" in letter["error"] for letter in letters)
        assert app.window("ten").failed == 2
        t.feed("rows", [{"t": 200, "x": 9, "says": "text"}])
        with pytest.raises(WindowInputError, match=r"'ten' a batch whose column 'x' is string, and .* int64"):
            t.settle()


def test_a_column_that_nothing_has_is_rejected_by_its_name(app: turbine.App) -> None:
    @app.subscribe("rows", on_error="skip")
    class rows:
        early = False

        def __init__(self) -> None:
            self._win = win.PersistentTumbling(
                self, name="ten", size_ms=10, value=agg.Max("typo"), on_close=lambda state, panes: None
            )

        def process(self, batch, state):
            if batch.num_rows or not self.early:
                self._win.update(batch.append_column("more", batch["x"]), state)

    for early, error in ((False, UnknownColumnError), (True, WindowInputError)):
        app.subscriptions[0].instance.early = early
        with testing.run(app) as t:
            t.feed("rows", [{"x": 1}])
            with pytest.raises(error, match=r"'ten'.* the column 'typo'.* the topic.*Name the column that it has"):
                t.settle()


NAIVE = datetime.datetime(2024, 1, 2, 3, 4, 5)
AWARE = NAIVE.replace(tzinfo=datetime.UTC)
ARROW = {
    "seconds": (pa.array([NAIVE], pa.timestamp("s")), NAIVE),
    "millis": (pa.array([AWARE], pa.timestamp("ms", "UTC")), AWARE),
    "nanos": (pa.array([NAIVE], pa.timestamp("ns")), NAIVE),
    "dictionary": (pa.array(["a"]).dictionary_encode(), "a"),
    "string_view": (pa.array(["a"], pa.string_view()), "a"),
    "large": (pa.array([["a"]], pa.large_list(pa.large_string())), ["a"]),
    "tiny": (pa.array([200], pa.uint8()), 200),
    "unsigned": (pa.array([2**64 - 1], pa.uint64()), 2**64 - 1),
    "date64": (pa.array([NAIVE.date()], pa.date64()), NAIVE.date()),
    "half": (pa.array([1.5]).cast(pa.float16()), 1.5),
}


def test_arrow_types_that_spark_has_not_come_as_topics_have_them(app: turbine.App) -> None:
    @app.subscribe("rows", publish_to="out", parallelism=1)
    class rows:
        def __init__(self) -> None:
            parts: dict[str, Any] = {name: agg.First(name) for name in ARROW}
            value = agg.Multi(sums=agg.Sum("unsigned"), tiny_sum=agg.Sum("tiny"), **parts)
            self._win = win.PersistentTumbling(self, name="ten", size_ms=10, value=value, on_close_each=self._close)

        def _close(self, state, window, value):
            kinds = {"sums": type(value.sums).__name__, "tiny_sum": type(value.tiny_sum).__name__}
            return pa.RecordBatch.from_pylist([{"value": repr(value._asdict()), **kinds}])

        def process(self, batch, state):
            converted = pa.record_batch({name: array for name, (array, _) in ARROW.items()})
            self._win.update(converted.slice(0, batch.num_rows), state)

    with testing.run(app) as t:
        t.feed("rows", [{"x": 1}])
        t.advance(20)
        (row,) = t.outputs("out")
        value = eval(row["value"], {"datetime": datetime, "Decimal": decimal.Decimal, "zoneinfo": zoneinfo})
        assert (row["sums"], row["tiny_sum"]) == ("int", "int")
        assert {name: value[name] for name in ARROW} == {name: text for name, (_, text) in ARROW.items()}
        assert (value["sums"], value["tiny_sum"]) == (2**64 - 1, 200)

    for array in (pa.array([1], pa.duration("s")), pa.array([1], pa.time32("s"))):
        for schema in (pa.schema([("x", pa.int64())]), pa.schema([("x", pa.null())])):
            record_batch = pa.record_batch({"x": array})
            with pytest.raises(WindowInputError, match=r"the window 'w' .* column 'x' has the Arrow type .*Cast it"):
                WindowRows("w", schema, None, frozenset("x"), True).of(record_batch, "s")


@pytest.mark.parametrize(
    ("values", "wanted", "says"),
    [
        (pa.array([1], pa.int32()), pa.int64(), None),
        (pa.array([1]), pa.float64(), None),
        (pa.array([None, None], pa.string()), pa.int64(), None),
        (pa.array([{"a": 1}]), pa.struct([("a", pa.float64()), ("b", pa.string())]), None),
        (pa.array([2**53 + 1]), pa.float64(), "is int64, and the window has double for it: "),
        (pa.array([1.0]), pa.int64(), "is double, and the window has int64"),
        (pa.array([1]), pa.string(), "is int64, and the window has string"),
        (pa.array(["1"]), pa.int64(), "is string, and the window has int64"),
        (pa.array([True]), pa.int64(), "is bool, and the window has int64"),
        (pa.array([1]), pa.int32(), "is int64, and the window has int32"),
        (pa.array(["1"]), pa.null(), "is string, and nothing is known of it"),
    ],
)
def test_values_are_widened_and_not_cast(values: pa.Array, wanted: pa.DataType, says: str | None) -> None:
    rows, record_batch = WindowRows("w", pa.schema([("x", wanted)])), pa.record_batch({"x": values})
    if says is not None:
        with pytest.raises(WindowInputError, match=f"process of s gave the window 'w' a batch whose column 'x' {says}"):
            rows.of(record_batch, "s")
    else:
        fitted = rows.of(record_batch, "s")
        assert fitted is not None
        assert fitted.schema.types == [wanted]
        for before, now in zip(values.to_pylist(), fitted["x"].to_pylist(), strict=True):
            assert now == (before if not isinstance(before, dict) else before | {"b": None})


def test_a_time_column_is_whole_milliseconds() -> None:
    rows = WindowRows("w", pa.schema([("t", pa.int64())]), "t", learns=True)
    with pytest.raises(WindowInputError, match="'t' is string, and time_column= has to be int64: milli") as met:
        rows.of(pa.record_batch({"t": ["1"]}), "s")
    assert "learnt" not in str(met.value)


def test_a_mismatch_that_is_the_windows_and_not_the_calls_is_no_function_error() -> None:
    assert not issubclass(WindowInputError, (FunctionError, InvalidArgumentError))
