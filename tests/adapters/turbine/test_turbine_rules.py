"""Every rule of Turbine's windows is checked when they are built; what code does is read from the code."""

# ruff: noqa: N801

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from mullion import turbine
from mullion.errors import InvalidArgumentError, UnsupportedError
from mullion.turbine import aggregates as agg
from mullion.turbine import functions as fn
from mullion.turbine import windowing as win
from mullion.turbine._process import source

KINDS: dict[Any, dict[str, int]] = {
    win.PersistentTumbling: {"size_ms": 1_000},
    win.PersistentSliding: {"size_ms": 1_000, "slide_ms": 500},
    win.PersistentSession: {"gap_ms": 1_000},
    win.InMemoryTumbling: {"size_ms": 1_000},
    win.InMemorySliding: {"size_ms": 1_000, "slide_ms": 500},
    win.InMemorySession: {"gap_ms": 1_000},
}


def each(state: Any, window: Any, value: Any) -> None:
    """A callback for each pane."""


def all_panes(state: Any, panes: Any) -> None:
    """A callback for all panes."""


def subscribed(make: Callable[[Any], object], **options: Any) -> turbine.App:
    """An App with a subscription that makes its windows with ``make``."""
    app = turbine.App("rules")

    @app.subscribe("orders", **options)
    class orders:
        def __init__(self) -> None:
            self.windows = make(self)

        def process(self, batch: pa.RecordBatch, state: object) -> None:
            return None

    return app


def window_of(
    kind: Any = win.PersistentTumbling, *, options: dict[str, Any] | None = None, **options_of_window: Any
) -> Any:
    """A window, as a subscription makes it."""
    arguments = {"name": "w", "value": agg.Count(), **KINDS[kind], **options_of_window}
    if not any(name.startswith("on_close") for name in options_of_window):
        arguments["on_close_each"] = each
    app = subscribed(lambda me: kind(me, **arguments), **(options or {}))
    return app.subscriptions[0].windows[arguments["name"]]


TOPICS: list[tuple[str, dict[str, Any], str]] = [
    ("dir:topics", {"publish_to": "sales/north"}, "publish_to='sales/north' is not a topic's name"),
    ("dir:topics", {"publish_to": "_sales"}, "publish_to='_sales' is not a topic's name.* a letter or digit first"),
    (
        "dir:topics",
        {"publish_to": {"close": "ok", "early": "a b"}},
        r"publish_to\['early'\]='a b' is not a topic's",
    ),
    ("dir:topics", {"publish_to": {"w": "x" * 250}}, r"publish_to\['w'\]='x*' is not a topic's name.* 249 at most"),
    ("dir:topics", {"on_error": "skip", "dead_letter": "died:"}, "dead_letter='died:' is not a topic's name"),
    ("kafka://nowhere:1", {"publish_to": "umsätze"}, "publish_to='umsätze' is not a topic's name"),
    ("kafka://nowhere:1", {"publish_to": {"process": ".."}}, r"publish_to\['process'\]='\.\.' is not a topic's name"),
    (
        "kafka://nowhere:1",
        {"publish_to": "__mullion_batches"},
        "publish_to='__mullion_batches' is where publisher",
    ),
]


@pytest.mark.parametrize(("broker", "options", "message"), TOPICS)
def test_a_topic_to_publish_to_that_cannot_be_is_rejected_where_the_program_names_it(
    broker: str, options: dict[str, Any], message: str
) -> None:
    app = turbine.App("rules", broker=broker)
    with pytest.raises(InvalidArgumentError, match=message):
        app.subscribe("orders", **options)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("close", ["on_close_each", "on_close"])
def test_each_of_the_six_windows_takes_either_form_of_callbacks_and_fires_early(kind: Any, close: str) -> None:
    callback = each if close == "on_close_each" else all_panes
    early = close.replace("close", "early_fire")
    callbacks: dict[str, Any] = {close: callback, early: callback}
    window = window_of(kind, **callbacks, early_fire_interval_ms=10, key=["region"])
    assert window.spec.callbacks.each == (close == "on_close_each")
    assert window.spec.key == ("region",)
    assert repr(window).startswith(f"{kind.__name__}(name='w', ")
    assert f"{close}={callback.__name__}, {early}={callback.__name__})" in repr(window)
    assert (window.spec.idle_tick_ms is not None) == kind.__name__.startswith("InMemory")
    assert window == window_of(kind, **callbacks, early_fire_interval_ms=10, key="region")
    assert window != window_of(kind, **callbacks, early_fire_interval_ms=11, key="region")


MIXED = {"on_close_each": each, "early_fire_interval_ms": 10}

REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("no close callback", {"on_close": None}, "'w' has no close callback.*on_close_each=.*on_close="),
    ("both close callbacks", {"on_close": all_panes, "on_close_each": each}, "has both on_close_each= and on_close="),
    ("early in the other form", {**MIXED, "on_early_fire": all_panes}, "on_close_each= goes with on_early_fire_each="),
    (
        "early for each pane with a close for all",
        {"on_close": all_panes, "early_fire_interval_ms": 10, "on_early_fire_each": each},
        "on_close= goes with on_early_fire=, and it has on_early_fire_each=",
    ),
    (
        "both early callbacks",
        {**MIXED, "on_early_fire": all_panes, "on_early_fire_each": each},
        "has both on_early_fire_each=",
    ),
    ("an interval alone", MIXED, "early_fire_interval_ms=10 and no early callback.*on_early_fire_each="),
    ("an early callback alone", {"on_early_fire_each": each, "on_close_each": each}, "no early_fire_interval_ms="),
    ("an interval of zero", {**MIXED, "on_early_fire_each": each, "early_fire_interval_ms": 0}, "above 0"),
    ("an interval below zero", {**MIXED, "on_early_fire_each": each, "early_fire_interval_ms": -1}, "above 0"),
    ("an interval that is no int", {**MIXED, "on_early_fire_each": each, "early_fire_interval_ms": 1.5}, "above 0"),
    ("a size of zero", {"size_ms": 0}, "size_ms=0 of the window 'w' is not a whole number of milliseconds above 0"),
    ("a size that is a bool", {"size_ms": True}, "size_ms=True"),
    ("a size that is text", {"size_ms": "5 minutes"}, "size_ms='5 minutes'"),
    ("a lateness below zero", {"allowed_lateness_ms": -1}, "allowed_lateness_ms=-1.*from 0 to"),
    ("a lateness beyond all time", {"allowed_lateness_ms": 2**63}, "allowed_lateness_ms=9223372036854775808 .*from 0"),
    ("an interval beyond all time", {**MIXED, "on_early_fire_each": each, "early_fire_interval_ms": 2**63}, "=9223372"),
    ("a time that is no name", {"time_column": 3}, "time_column=3 .* does not name a column"),
    ("a key that is no list", {"key": 3}, "key=3 .* is not a list of columns"),
    ("a key that is there twice", {"key": ["a", "a"]}, "names 'a' twice"),
    ("a value that is not an aggregate", {"value": "sum"}, "value= of the window 'w' is 'sum'.*agg.Sum"),
    ("a value that is a class", {"value": agg.Sum}, "the class agg.Sum and not an aggregate. Call it"),
    ("a key called as the value", {"key": ["value"]}, "both called 'value'.*agg.Multi"),
    ("a key called as a time", {"key": ["window_start_ms"]}, "'window_start_ms', as the column of a pane's time"),
    ("a name that is empty", {"name": " "}, "name=' ' does not name the PersistentTumbling"),
    ("a callback that cannot be called", {"on_close_each": "emit"}, "on_close_each='emit' .* cannot be called"),
    (
        "a callback of the other form",
        {"on_close_each": all_panes},
        "is called with \\(state, window, value\\).*give it as on_close=",
    ),
    (
        "a table's callback of the other form",
        {"on_close": each},
        "is called with \\(state, panes\\).*give it as on_close_each=",
    ),
]


@pytest.mark.parametrize(("options", "says"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_what_cannot_be_right_is_rejected_when_the_window_is_built(options: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidArgumentError, match=says):
        window_of(**options)


def test_a_slide_longer_than_the_size_a_gap_and_an_idle_tick_of_zero_are_rejected() -> None:
    with pytest.raises(InvalidArgumentError, match="slide_ms=2000 of the window 'w' is longer than size_ms=1000"):
        window_of(win.PersistentSliding, slide_ms=2_000)
    with pytest.raises(InvalidArgumentError, match="gap_ms=0"):
        window_of(win.InMemorySession, gap_ms=0)
    with pytest.raises(InvalidArgumentError, match="idle_tick_ms=0"):
        window_of(win.InMemoryTumbling, idle_tick_ms=0)
    with pytest.raises(TypeError, match="idle_tick_ms"):
        window_of(win.PersistentTumbling, idle_tick_ms=10)


def test_two_windows_of_one_name_are_rejected_in_a_subscription_and_in_an_app() -> None:
    def two(me: Any) -> None:
        for _ in range(2):
            win.PersistentTumbling(me, name="w", size_ms=1, value=agg.Count(), on_close=all_panes)

    with pytest.raises(InvalidArgumentError, match="makes two windows of the name 'w'"):
        subscribed(two)
    app = subscribed(lambda me: win.PersistentTumbling(me, name="w", size_ms=1, value=agg.Count(), on_close=all_panes))
    with pytest.raises(InvalidArgumentError, match=r"Two parts have the name 'w'.*test_turbine_rules\.py"):

        @app.subscribe("others")
        class others:
            def __init__(self) -> None:
                win.PersistentTumbling(self, name="w", size_ms=1, value=agg.Count(), on_close=all_panes)

            def process(self, batch: pa.RecordBatch, state: object) -> None: ...

    assert len(app.subscriptions) == 1
    with pytest.raises(InvalidArgumentError, match=r"There is no window 'v'.*Its windows are: 'w'"):
        app.window("v")


def test_the_partition_key_is_in_the_key_of_every_window() -> None:
    options = {"options": {"partition_key": "customer"}}
    assert window_of(**options).spec.key == ("customer",)
    assert window_of(**options, key=["region", "customer"]).spec.key == ("region", "customer")
    with pytest.raises(
        InvalidArgumentError, match=r"key=\['region'\] of the window 'w' lacks 'customer'.*key"
    ) as rejected:
        window_of(**options, key=["region"])
    for sentence in ("must be keyed (at least) by the same column", "you never write it again on the window"):
        assert sentence in str(rejected.value)
    assert "Write key=['customer', 'region'], or leave key out for ['customer']" in str(rejected.value)
    assert window_of().spec.key == ()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"publish_to": 3}, "publish_to=3 is neither a topic nor a dict"),
        ({"publish_to": {"closed": "a"}}, "the key 'closed'.*did you mean 'close'"),
        ({"publish_to": {"close": ""}}, r"publish_to\['close'\]='' .* is not a name"),
        ({"partition_key": ["a"]}, r"partition_key=\['a'\]"),
        ({"parallelism": 0}, "parallelism=0"),
        ({"with_kafka_timestamp": 1}, "with_kafka_timestamp=1"),
        ({"on_error": "ignore"}, "on_error='ignore'.*'stop'.*'skip'"),
        ({"dead_letter": "failed"}, "Add on_error='skip'"),
    ],
)
def test_what_a_subscription_cannot_be_given_is_rejected(options: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidArgumentError, match=says):
        subscribed(lambda me: None, **options)


def test_a_subscription_without_a_topic_without_a_class_or_without_process_is_rejected() -> None:
    app = turbine.App("rules")
    with pytest.raises(InvalidArgumentError, match="needs the topic"):
        app.subscribe(object)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="is for a class"):
        app.subscribe("orders")(3)  # type: ignore[type-var]
    with pytest.raises(InvalidArgumentError, match="has no process"):
        app.subscribe("orders")(type("empty", (), {}))
    with pytest.raises(InvalidArgumentError, match=r"process .* is called with \(batch, state\)"):
        app.subscribe("orders")(type("short", (), {"process": lambda self, batch: None}))


def test_a_window_is_made_in_init_of_its_subscription_and_updated_in_process() -> None:
    with pytest.raises(InvalidArgumentError, match=r"The first argument of win\.PersistentTumbling.* is str"):
        win.PersistentTumbling("orders", name="w", size_ms=1, value=agg.Count(), on_close=all_panes)
    window = window_of()
    with pytest.raises(InvalidArgumentError, match=r"called outside of process\(self, batch, state\)"):
        window.update(pa.RecordBatch.from_pylist([{"a": 1}]), None)
    with pytest.raises(AttributeError, match="does not change"):
        window.name = "v"


def test_a_part_of_a_multi_is_called_as_an_attribute_can_be() -> None:
    for name in ("p-95", "95", "a b", "", "class", "_x"):
        with pytest.raises(InvalidArgumentError, match=r"cannot be an attribute of a pane's value. Call it otherwise"):
            agg.Multi(**{name: agg.Count()})
    assert list(agg.Multi(p95=agg.Count(), count=agg.Count(), é=agg.Count()).parts) == ["p95", "count", "é"]


def test_aggregates_and_expressions_are_values_that_say_what_they_are() -> None:
    multi = agg.Multi(rate=agg.Sum(fn.col("a") / (fn.col("b") + 1)), n=agg.Count(), p=agg.Percentile("ms", 0.95))
    assert repr(multi) == "Multi(rate=Sum(fn.col('a') / (fn.col('b') + 1)), n=Count(), p=Percentile('ms', 0.95))"
    assert multi == agg.Multi(
        rate=agg.Sum(fn.col("a") / (fn.col("b") + 1)), n=agg.Count(), p=agg.Percentile("ms", 0.95)
    )
    assert multi != agg.Multi(n=agg.Count())
    assert multi.columns == {"a", "b", "ms"}
    assert hash(agg.Sum("a")) == hash(agg.Sum("a"))
    copy = pickle.loads(cloudpickle.dumps(multi))  # type: ignore[no-untyped-call]
    assert copy == multi
    assert copy.columns == multi.columns
    with pytest.raises(AttributeError, match="is a value"):
        agg.Count().columns = frozenset()
    with pytest.raises(InvalidArgumentError, match="a Multi cannot contain another one"):
        agg.Multi(inner=agg.Multi(n=agg.Count()))
    with pytest.raises(InvalidArgumentError, match="names no aggregate"):
        agg.Multi()
    with pytest.raises(InvalidArgumentError, match=r"is not a percentile from 0 to 1.*0.95\)"):
        agg.Percentile("ms", 95)
    with pytest.raises(InvalidArgumentError, match=r"agg.Sum\(...\) takes a column's name or an expression"):
        agg.Sum(3)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="is not true or false"):
        bool(fn.col("a") > 1)
    with pytest.raises(InvalidArgumentError, match="there is no such type"):
        fn.cast("a", "integer")


class Shapes:
    """Ways to write ``process``; ``win`` and ``other`` are windows."""

    def only_updates(self, batch: Any, state: Any) -> Any:
        """Two windows."""
        self.win.update(batch, state)  # type: ignore[attr-defined]
        self.other.update(batch, state=state)  # type: ignore[attr-defined]
        return None

    def nothing(self, batch: Any, state: Any) -> Any: ...

    def filters(self, batch: Any, state: Any) -> Any:
        batch = batch.slice(1)
        self.win.update(batch, state)  # type: ignore[attr-defined]

    def another_batch(self, batch: Any, state: Any) -> Any:
        self.win.update(batch.slice(1), state)  # type: ignore[attr-defined]

    def twice(self, batch: Any, state: Any) -> Any:
        self.win.update(batch, state)  # type: ignore[attr-defined]
        self.win.update(batch, state)  # type: ignore[attr-defined]

    def prints(self, batch: Any, state: Any) -> Any:
        self.win.update(batch, state)  # type: ignore[attr-defined]
        print(batch)

    def returns(self, batch: Any, state: Any) -> Any:
        self.win.update(batch, state)  # type: ignore[attr-defined]
        return batch

    def counts(self, batch: Any, state: Any) -> Any:
        state["n"] = state.get("n", 0) + 1
        self.win.update(batch, state)  # type: ignore[attr-defined]

    def other_names(self, rows: Any, state: Any) -> Any:
        self.win.update(rows, state)  # type: ignore[attr-defined]

    def no_window(self, batch: Any, state: Any) -> Any:
        self.shop.update(batch, state)  # type: ignore[attr-defined]


def test_a_process_that_only_updates_windows_is_recognized_and_others_have_the_deciding_line() -> None:
    shapes = Shapes()
    shapes.win, shapes.other, shapes.shop = window_of(), window_of(name="other"), {}  # type: ignore[attr-defined]

    def read(function: Any) -> tuple[tuple[str, ...], str | None, bool, bool]:
        reading = source.read(shapes, function)
        if reading.python is not None:
            assert reading.python.file == __file__
            lines = Path(__file__).read_text("utf-8").splitlines()
            assert reading.python.says.startswith("the window") or reading.python.says in lines[reading.python.line - 1]
        return reading.updates, reading.python and reading.python.says, reading.state is not None, reading.returns

    assert read(shapes.only_updates) == (("w", "other"), None, False, False)
    assert read(shapes.nothing) == ((), None, False, False)
    assert read(shapes.other_names) == (("w",), None, False, False)
    assert read(shapes.filters) == ((), "batch = batch.slice(1)", False, False)
    assert read(shapes.another_batch) == ((), "self.win.update(batch.slice(1), state)", False, False)
    assert read(shapes.twice) == ((), "the window 'w' is updated a second time", False, False)
    assert read(shapes.prints) == ((), "print(batch)", False, False)
    assert read(shapes.returns) == ((), "return batch", False, True)
    assert read(shapes.counts) == ((), 'state["n"] = state.get("n", 0) + 1', True, False)
    assert read(shapes.no_window) == ((), "self.shop.update(batch, state)", False, False)


def test_whether_a_callback_reads_its_state_is_seen_in_lambdas_too_and_doubted_where_it_cannot_be_seen() -> None:
    def closes_over(state: Any, window: Any, value: Any) -> Any:
        return lambda: state

    assert source.reads(each, 0) is None
    assert source.reads(lambda state, window, value: value, 0) is None
    reading = source.reads(lambda state, window, value: state["n"], 0)
    assert reading is not None
    assert reading.says == "reads state"
    assert source.reads(closes_over, 0) is not None
    assert source.reads(lambda *args: None, 0) is not None
    assert source.reads(partial(each, None), 0) is not None


def test_windows_that_are_made_in_process_need_on_recover() -> None:
    app = turbine.App("rules")
    with pytest.raises(
        UnsupportedError, match=r"late makes a window, Persist.* \(.*rules.py:\d+\).*Write def on_recover"
    ):

        @app.subscribe("orders")
        class late:
            def process(self, batch: pa.RecordBatch, state: object) -> None:
                win.PersistentTumbling(self, name="w", size_ms=1, value=agg.Count(), on_close=all_panes).update(
                    batch, state
                )

    with pytest.raises(
        InvalidArgumentError, match=r"on_recover of the subscription unfit is called with \(name, spec\)"
    ):

        @app.subscribe("orders")
        class unfit:
            def process(self, batch: pa.RecordBatch, state: object) -> None: ...

            def on_recover(self, name: str) -> None: ...


def test_explain_shows_where_each_part_runs_and_why() -> None:
    app = turbine.App("rules")

    @app.subscribe("orders", publish_to="out")
    class shop:
        def __init__(self) -> None:
            self._used = win.InMemoryTumbling(
                self, name="used", size_ms=1, value=agg.Count(), on_close=all_panes, allowed_lateness_ms=5
            )
            win.PersistentSession(self, name="unused", gap_ms=1, value=agg.Count(), time_column="t", on_close_each=each)

        def process(self, batch: pa.RecordBatch, state: object) -> None:
            self._used.update(batch, state)

    explanations = {part.name: (part.runs, part.why) for part in app.explain().parts}
    assert explanations["shop.process"] == ("JVM", "it only updates windows, and is not called")
    lateness = "no row is late on processing time, so allowed_lateness_ms does nothing"
    assert explanations["used"] == ("JVM", f"InMemoryTumbling on processing time, panes in RocksDB; {lateness}")
    assert explanations["used.close"] == ("Python", "over Arrow: called once for all panes of a tick")
    never = "process never updates it, so it does not run"
    assert explanations["unused"] == ("JVM", f"PersistentSession on event time t, panes in RocksDB; {never}")
    assert [part.where.split(":")[0].endswith("test_turbine_rules.py") for part in app.explain().parts] == [True] * 5
    assert [line.split()[:2] for line in app.windows().splitlines()[1:]] == [["window", "used"], ["window", "unused"]]
