"""Windows whose functions are translated: the JVM runs them, and the result equals that of the released package."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import bytewax.operators as their_op
import bytewax.operators.windowing as their_win
import pytest
from bytewax.dataflow import Dataflow as TheirDataflow
from bytewax.testing import TestingSink as TheirSink
from bytewax.testing import TestingSource as TheirSource
from bytewax.testing import run_main as their_run
from pyspark.sql import SparkSession

import mullion.bytewax.operators as op
import mullion.bytewax.operators.windowing as win
from mullion._program.started import StartedQuery
from mullion.bytewax import explain
from mullion.bytewax.dataflow import Dataflow
from mullion.bytewax.recovery import RecoveryConfig
from mullion.bytewax.testing import TestingSink, TestingSource, run_main
from tests.support.bytewax import bytewax_traced as given
from tests.support.bytewax.bytewax_random import first_difference
from tests.support.functions.python_programs import Programs, lambdas, outcome, rows
from tests.support.seeds import SEED


def _compared(spark: SparkSession, round_: int) -> None:
    case = given.random_case(random.Random(f"{SEED} traced {round_}"), keys=120)
    flow, out = given.flow_of(case, released=False)
    assert "JVM" in [part.runs for part in explain(flow).parts], explain(flow)
    folded = _ended(spark, flow)
    key, difference = first_difference(given.run_released(case), given.streams(out))
    items = [item for item in case.items if given.shown(item)[1] in (key, given.shown(key)[1])]
    shown = f"{case.windower} {case.kind} {case.function} wait={case.wait} ordered={case.ordered} by {case.batch_size}"
    assert not difference, f"MULLION_SEED={SEED}, round {round_}, {shown}, of {items}: {difference}"
    # A third of the keys may have values that only Python supports. A window that contains an item with a list inside
    # runs in Python.
    holds_items = case.kind in ("reduce", "max", "min")
    assert folded >= len(case.items) // 2 or (case.shape == "dict" and holds_items)


@pytest.mark.parametrize("round_", range(3))
def test_windows_in_the_jvm_are_those_of_the_released_package(spark: SparkSession, round_: int) -> None:
    """120 cases a round; each round another windower, operator, shape of items and function."""
    _compared(spark, round_)


@pytest.mark.slow
@pytest.mark.parametrize("round_", range(20))
def test_many_windows_in_the_jvm_are_those_of_the_released_package(spark: SparkSession, round_: int) -> None:
    _compared(spark, round_ + 100)


def _ended(spark: SparkSession, flow: Dataflow) -> int:
    """Runs a dataflow; how many values the JVM folded."""
    started: list[StartedQuery] = []
    start = StartedQuery.start

    def noted(query: StartedQuery) -> None:
        start(query)
        started.append(query)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(StartedQuery, "start", noted)
        run_main(flow, spark=spark)
    return sum(
        int(of.customMetrics["rowsFolded"])
        for progress in started[0].query.recentProgress
        for of in progress.stateOperators
    )


def test_any_functions_in_the_jvm_give_what_python_gives(spark: SparkSession) -> None:
    """Four windows, of functions that compute three random expressions each."""
    random_ = random.Random(f"{SEED} functions")
    programs = Programs(random_)
    kinds = ("int", "float", "str", "bool")
    texts = [f"({', '.join(programs.of(random_.choice(kinds), 2) for _ in range(3))})" for _ in range(4)]
    functions = lambdas(texts, f"traced-{SEED}")
    folders = lambdas(texts, f"folders-{SEED}", "acc, x")
    flow = Dataflow("functions")
    out: list[Any] = []
    items: list[dict[str, Any]] = []
    expected: dict[str, Any] = {}
    for number, row in enumerate(rows(random_, 80, nulls=False)):
        for stage, function in enumerate(functions):
            how, given_ = outcome(function, row)
            if how == "gives":
                key = f"{stage} {number}"
                items.append({"key": key, "stage": stage, "at": given.START, **row})
                expected[key] = given_
    keyed = op.key_on("key", op.input("in", flow, TestingSource(items, 50)), lambda x: x["key"])
    clock: Any = win.EventClock(lambda x: x["at"])
    for stage, folder in enumerate(folders):
        own = op.filter_value(f"of_{stage}", keyed, _is_of(stage))
        windower = win.TumblingWindower(timedelta(minutes=1))
        windows = win.fold_window(f"w_{stage}", own, clock, windower, lambda: None, folder, lambda a, b: b)
        op.output(f"out_{stage}", windows.down, TestingSink(out))
    folded = _ended(spark, flow)
    assert len(out) == len(items)
    for key, (_, value) in out:
        assert given.shown(value) == given.shown(expected[key]), f"MULLION_SEED={SEED}: {texts[int(key[0])]}, {key}"
    # Of numbers that are not large nearly all is known, and of the others some.
    in_the_jvm = {part.name for part in explain(flow).parts if part.runs == "JVM"}
    assert folded >= sum(f"w_{item['stage']}" in in_the_jvm for item in items) / 4


def _is_of(stage: int) -> Callable[[Any], bool]:
    return lambda x: x["stage"] == stage


def test_explain_shows_the_steps_in_the_jvm_and_the_reasons_for_others() -> None:
    flow = Dataflow("mixed")
    items: Any = op.filter("some", op.input("in", flow, TestingSource([])), lambda item: item["n"] > 0)
    keyed = op.key_on("key", items, lambda item: item["key"])
    clock: Any = win.EventClock(lambda item: item["at"])
    minutes = win.TumblingWindower(timedelta(minutes=1))
    sums = win.fold_window("sums", keyed, clock, minutes, lambda: 0, lambda n, item: n + item["n"], lambda a, b: a + b)
    texts: Any = win.fold_window(
        "texts", keyed, clock, minutes, list, lambda n, item: sorted([*n, item]), lambda a, b: a + b
    )
    op.output("out", op.map_value("again", op.merge("both", sums.down, texts.down), str), TestingSink([]))
    explanations = {part.name: (part.runs, part.why.partition(":")[0]) for part in explain(flow).parts}
    assert explanations["some.flat_map_batch"][0] == explanations["key.map"][0] == explanations["sums"][0] == "JVM"
    assert explanations["texts"] == ("Python", "folder")
    assert explanations["again.map"][0] == "Python"


def _with_more(item: Any, more: int = 1) -> Any:
    return item


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (lambda up: op.map("m", up, str), "mapper"),
        (lambda up: op.map("m", up, lambda item: item.setdefault("a", 1)), "mapper"),
        (lambda up: op.map("m", up, _with_more), "mapper"),
        (lambda up: op.filter("m", up, lambda item: item["a"] ** 2 > 3), "predicate"),
        (lambda up: op.flat_map("m", up, lambda item: [item, item]), "its function is Python's"),
    ],
)
def test_a_step_next_to_a_step_in_python_names_it(step: Callable[[Any], Any], why: str) -> None:
    flow = Dataflow("mixed")
    up: Any = op.input("in", flow, TestingSource([]))
    op.output("one", step(up), TestingSink([]))
    op.output("other", op.map("known", up, lambda item: item["a"]), TestingSink([]))
    one, other = (part for part in explain(flow).parts if part.name.startswith(("m.", "known")))
    assert (one.runs, other.runs) == ("Python", "Python")
    assert one.why.startswith(why)
    assert other.why.startswith("beside another step")


def test_what_only_python_computes_at_the_end_counts_the_values_of_that_batch_once(spark: SparkSession) -> None:
    """A value waits for its watermark, which comes with the end; both are in one batch, and the product is large."""
    flow, out = Dataflow("end"), list[Any]()
    items = [("k", given.START + timedelta(seconds=n), 2**40) for n in range(3)]
    keyed = op.key_on("key", op.input("in", flow, TestingSource(items, 10)), lambda item: item[0])
    clock: Any = win.EventClock(lambda item: item[1], timedelta(seconds=30))
    minutes = win.TumblingWindower(timedelta(minutes=1), given.START)
    products = win.fold_window(
        "products", keyed, clock, minutes, lambda: 1, lambda total, item: total * item[2], lambda one, other: one
    )
    op.output("out", products.down, TestingSink(out))
    _ended(spark, flow)
    assert out == [("k", (0, 2**120))]


def _runs(random_: random.Random) -> list[Any]:
    """Of each key a row in each batch: in order, some late, some early, and one with numbers that only Python adds."""
    items: list[Any] = []
    clocks = dict.fromkeys(("ann", "é", "\U0001f600", "late", "early", "odd"), 0.0)
    for row in range(200):
        for key in clocks:
            clocks[key] += random_.choice((0, 0.5, 1, 1, 12 if row % 50 == 0 else 1))
            moved = {"late": -15, "early": 9}.get(key, 0) if random_.random() < 0.1 else 0
            n: Any = 2**70 if key == "odd" and row > 50 and random_.random() < 0.05 else random_.randrange(9)
            items.append((key, given.START + timedelta(seconds=clocks[key] + moved), n, key))
    return items


@pytest.mark.parametrize("folder", [lambda acc, x: (acc[0], acc[1] + x[2], x[3]), lambda acc, x: _folded(acc, x)])
def test_long_runs_of_a_key_are_those_of_the_released_package_over_an_abort(
    spark: SparkSession, tmp_path: Path, folder: Callable[[Any, Any], Any]
) -> None:
    """Runs the first function in the JVM and the second in Python. Each run ends in the middle, and resumes."""
    random_ = random.Random(f"{SEED} runs")
    items, ordered, wait = _runs(random_), random_.random() < 0.5, random_.choice((0, 0, 3))
    outcomes = []
    for ours in (False, True):
        its_op, its_win = (op, win) if ours else (their_op, their_win)
        source, sink = (TestingSource, TestingSink) if ours else (TheirSource, TheirSink)
        flow: Any = (Dataflow if ours else TheirDataflow)("runs")
        listed = [*items[:700], TestingSource.ABORT(), *items[700:]] if ours else items
        keyed = its_op.key_on("key", its_op.input("in", flow, source(listed, 6)), lambda item: item[0])
        clock: Any = its_win.EventClock(lambda item: item[1], timedelta(seconds=wait), now_getter=lambda: given.START)
        windower = its_win.TumblingWindower(timedelta(seconds=10), given.START)
        windows = its_win.fold_window(
            "w", keyed, clock, windower, lambda: (1, 0, ""), folder, lambda one, other: one, ordered
        )
        out: dict[str, list[Any]] = {"down": [], "late": [], "meta": []}
        for name, out_items in out.items():
            its_op.output(f"out_{name}", getattr(windows, name), sink(out_items))
        if ours:
            config = RecoveryConfig(tmp_path)
            for _ in range(2):
                run_main(flow, recovery_config=config, spark=spark)
        else:
            their_run(flow)
        outcomes.append(given.streams(out))
    difference = first_difference(*outcomes)
    assert not difference[1], f"MULLION_SEED={SEED}, ordered={ordered} wait={wait}: {difference}"
    assert len(outcomes[0]["late"]["late"]) > 5


def _folded(acc: Any, x: Any) -> Any:
    return (acc[0], sum([x[2]], acc[1]), "".join([x[3]]))


def _sums_in_windows(modules: tuple[Any, ...], wait: timedelta) -> tuple[Any, list[Any], list[Any]]:
    """A dataflow of sums in windows, and the lists that its windows and late items go to."""
    op_, win_, dataflow, source, sink = modules
    start = datetime(2022, 1, 1, tzinfo=UTC)
    down: list[Any] = []
    late: list[Any] = []
    flow = dataflow("x")
    items = [("a", (start + timedelta(seconds=at), at)) for at in (0, 8, 4, 13, 12)]
    stream = op_.input("inp", flow, source(items))
    clock = win_.EventClock(lambda event: event[0], wait_for_system_duration=wait)
    windower = win_.TumblingWindower(length=timedelta(seconds=10), align_to=start)
    out = win_.fold_window(
        "w", stream, clock, windower, lambda: 0, lambda sum_, event: sum_ + event[1], lambda a, b: a + b
    )
    op_.output("down", out.down, sink(down))
    op_.output("late", out.late, sink(late))
    return flow, down, late


@pytest.mark.parametrize("days", [365 * 200, 365 * 150_000, 365 * 290_000, 365 * 300_000, timedelta.max.days])
def test_a_duration_beyond_all_times_is_the_longest_one(spark: SparkSession, days: int) -> None:
    """In Bytewax's guide ``wait_for_system_duration=timedelta.max`` is for items in no order at all."""
    longest = timedelta(days=days)
    flow, *expected = _sums_in_windows((their_op, their_win, TheirDataflow, TheirSource, TheirSink), longest)
    their_run(flow)
    flow, *outputs = _sums_in_windows((op, win, Dataflow, TestingSource, TestingSink), longest)
    assert "JVM" in [part.runs for part in explain(flow).parts], explain(flow)
    run_main(flow)
    assert outputs == expected
