"""Dataflows of Bytewax on Spark: their outputs, the order of these, and their state."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import bytewax.operators as their_op
import pyarrow as pa
import pytest
from bytewax.dataflow import Dataflow as TheirDataflow
from bytewax.testing import TestingSink as TheirSink
from bytewax.testing import TestingSource as TheirSource
from bytewax.testing import run_main as their_run
from pyspark.sql import SparkSession

import mullion.bytewax.operators as op
import mullion.bytewax.operators.windowing as win
from mullion import InvalidArgumentError
from mullion.bytewax import run as command
from mullion.bytewax._dataflow_plan import Plan
from mullion.bytewax._log import log
from mullion.bytewax._query.stage import Inputs
from mullion.bytewax.connectors.files import DirSource, FileSource
from mullion.bytewax.dataflow import Dataflow, KeyedStream, Stream, operator
from mullion.bytewax.recovery import NoPartitionsError, RecoveryConfig, init_db_dir
from mullion.bytewax.testing import TestingSink, TestingSource, cluster_main, run_main
from mullion.errors import IncompatibleStateError, UnsupportedError, WrongCallError
from tests.support.bytewax import bytewax_random as given
from tests.support.bytewax.bytewax_times import START, at, seconds
from tests.support.seeds import SEED


def second_of(item: Any) -> datetime:
    return at(item[1])


untyped: Any = op
"""For what a type checker would find."""

CLOCK: Any = win.EventClock(second_of, now_getter=lambda: START)


@pytest.mark.parametrize("round_", range(3))
def test_windows_on_spark_are_those_of_the_released_package(spark: SparkSession, round_: int) -> None:
    """120 cases a round; each round another windower and operator."""
    case = given.random_case(random.Random(f"{SEED} spark {round_}"), keys=120)
    flow, out = given.flow_of(case, released=False)
    run_main(flow, spark=spark)
    difference = given.difference(case, given.run_released(case), given.by_key(out))
    assert not difference, f"MULLION_SEED={SEED}, round {round_}: {difference}"


@pytest.mark.slow
@pytest.mark.parametrize("round_", range(20))
def test_many_windows_on_spark_are_those_of_the_released_package(spark: SparkSession, round_: int) -> None:
    test_windows_on_spark_are_those_of_the_released_package(spark, round_ + 100)


def _all_operators(op: Any, flow: Any, source: Any, sink: Callable[[str], Any]) -> None:
    """A flow of every operator without windows."""
    numbers = op.input("numbers", flow, source)
    halves = op.branch("halves", numbers, lambda n: n % 2 == 0)
    merged = op.merge("merged", op.map("doubled", halves.trues, lambda n: n * 2), halves.falses)
    large = op.filter("kept", op.redistribute("again", merged), lambda n: n > 2)
    split = op.flat_map("split", large, lambda n: [n, -n])
    few = op.filter_map("few", split, lambda n: n if n % 3 else None)
    op.output("few_out", few, sink("few"))
    nested = op.map("nested", few, lambda n: [n, n + 1])
    op.output("flat_out", op.flatten("flat", nested), sink("flat"))
    batched = op.flat_map_batch("batched", few, lambda xs: [sum(xs)])
    op.output("batched_out", batched, sink("batched"))
    keyed: Any = op.key_on("keyed", numbers, lambda n: str(n % 3))
    shifted = op.map_value("shifted", keyed, lambda n: n + 10)
    odd = op.filter_value("odd", shifted, lambda n: n % 2 == 1)
    more = op.flat_map_value("more", odd, lambda n: [n, n * 100])
    some = op.filter_map_value("some", more, lambda n: n if n < 1900 else None)
    op.output("some_out", some, sink("some"))
    op.output("values_out", op.key_rm("values", some), sink("values"))
    op.output("enriched_out", op.enrich_cached("enriched", numbers, str, lambda c, n: c.get(n % 2)), sink("enriched"))
    running = op.stateful_map("running", shifted, lambda s, n: ((s or 0) + n, (s or 0) + n))
    op.output("running_out", running, sink("running"))
    pairs = op.stateful_flat_map("pairs", shifted, lambda s, n: (None, [(s, n)]) if s else (n, []))
    op.output("pairs_out", pairs, sink("pairs"))
    op.output("count_out", op.count_final("count", numbers, lambda n: str(n % 2)), sink("count"))
    op.output("max_out", op.max_final("max", shifted, lambda n: n % 7), sink("max"))
    op.output("min_out", op.min_final("min", shifted), sink("min"))
    op.output("reduce_out", op.reduce_final("reduce", shifted, lambda a, b: a * 2 + b), sink("reduce"))
    op.output("fold_out", op.fold_final("fold", shifted, list, lambda s, n: [*s, n]), sink("fold"))
    op.output("collect_out", op.collect("collect", shifted, timedelta(days=1), 2), sink("collect"))
    sides = op.branch("sides", shifted, lambda pair: pair[1] % 2 == 0)
    for emit in ("complete", "final", "running"):
        joined = op.join(f"join_{emit}", sides.trues, sides.falses, insert_mode="product", emit_mode=emit)
        op.output(f"join_{emit}_out", joined, sink(f"join_{emit}"))


def _sorted_by_key(items: list[Any]) -> list[Any]:
    """In the order of keys, and of each key in its own."""
    return sorted(items, key=lambda item: item[0] if isinstance(item, tuple) else "")


def test_every_operator_gives_what_the_released_package_gives(spark: SparkSession) -> None:
    ours: dict[str, list[Any]] = {}
    expected_outputs: dict[str, list[Any]] = {}
    items = [5, 1, 8, 2, 9, 4, 7, 3, 6]
    flow = Dataflow("operators")
    _all_operators(op, flow, TestingSource(items, 2), lambda name: TestingSink(ours.setdefault(name, [])))
    run_main(flow, spark=spark)
    their_flow = TheirDataflow("operators")
    their_source = TheirSource(items, 2)
    _all_operators(their_op, their_flow, their_source, lambda name: TheirSink(expected_outputs.setdefault(name, [])))
    their_run(their_flow)
    for name, expected in expected_outputs.items():
        assert _sorted_by_key(ours[name]) == _sorted_by_key(expected), name


def test_items_are_emitted_in_the_order_of_one_worker(spark: SparkSession) -> None:
    out: list[Any] = []
    flow = Dataflow("order")
    keyed: Any = op.input("in", flow, TestingSource([("z", 1), ("b", 2), ("z", 12), ("a", 0), ("b", 25)]))
    clock: Any = win.EventClock(at, now_getter=lambda: START)
    windows = win.collect_window("w", keyed, clock, win.TumblingWindower(seconds(10), START))
    op.inspect("seen", keyed, lambda step, item: out.append((step, item)))
    op.output("out", windows.down, TestingSink(out))
    run_main(flow, spark=spark)
    assert out == [
        ("order.seen", ("z", 1)),
        ("order.seen", ("b", 2)),
        ("order.seen", ("z", 12)),
        ("z", (0, [1])),
        ("order.seen", ("a", 0)),
        ("order.seen", ("b", 25)),
        ("b", (0, [2])),
        ("a", (0, [0])),
        ("b", (2, [25])),
        ("z", (1, [12])),
    ]


def test_sums_of_clicks_and_a_second_window_over_what_the_first_gave(spark: SparkSession) -> None:
    """Steps with state one after the other: the second sees all that the first gave, in order, and its end too."""
    out: list[Any] = []
    flow = Dataflow("chained")
    clicks: Any = op.input("in", flow, TestingSource([("a", 1), ("b", 2), ("a", 3), ("a", 11), ("b", 12), ("c", 25)]))
    clock: Any = win.EventClock(at, now_getter=lambda: START)
    counts = win.fold_window("n", clicks, clock, win.TumblingWindower(seconds(10), START), int, lambda n, _: n + 1)
    by_window = op.key_on("by_window", counts.down, lambda pair: str(pair[1][0]))
    totals = op.fold_final("totals", by_window, int, lambda total, pair: total + pair[1][1])
    op.output("out", totals, TestingSink(out))
    run_main(flow, spark=spark)
    assert out == [("0", 3), ("1", 2), ("2", 1)]


@dataclass
class Order:
    customer: str
    second: int
    price: float


def orders_flow(source: Any, sink: Any) -> Dataflow:
    flow = Dataflow("orders")
    orders = op.input("in", flow, source)
    keyed: Any = op.key_on("by_customer", orders, lambda order: order.customer)
    clock: Any = win.EventClock(lambda order: at(order.second), now_getter=lambda: START)
    windows = win.collect_window("per_minute", keyed, clock, win.TumblingWindower(seconds(60), START))
    op.output("out", windows.down, sink)
    return flow


def test_a_run_continues_after_the_end_of_the_previous_run(spark: SparkSession, tmp_path: Path) -> None:
    """As in the released package: windows that closed at the end stay closed, and the ids of sessions continue."""
    out: list[Any] = []
    flow = Dataflow("ends")
    items = [("a", 1), ("b", 2), TestingSource.EOF(), ("a", 3), ("b", 12), ("a", 14)]
    keyed: Any = op.input("in", flow, TestingSource(items))
    clock: Any = win.EventClock(at, now_getter=lambda: START)
    windows = win.collect_window("w", keyed, clock, win.SessionWindower(seconds(5)))
    op.output("out", windows.down, TestingSink(out))
    config = RecoveryConfig(tmp_path)
    run_main(flow, recovery_config=config, spark=spark)
    assert out == [("a", (0, [1])), ("b", (0, [2]))]
    run_main(flow, recovery_config=config, spark=spark)
    assert out[2:] == [("a", (1, [3])), ("a", (2, [14])), ("b", (1, [12]))]
    run_main(flow, recovery_config=config, spark=spark)
    assert len(out) == 5, "there was nothing new"


def test_an_aborted_run_continues_with_its_windows(spark: SparkSession, tmp_path: Path) -> None:
    out: list[Any] = []
    items = [Order("a", 1, 2.0), Order("b", 2, 3.0), TestingSource.ABORT(), Order("a", 3, 4.0), Order("a", 61, 1.0)]
    flow = orders_flow(TestingSource(items), TestingSink(out))
    init_db_dir(tmp_path, 3)
    run_main(flow, recovery_config=RecoveryConfig(tmp_path), spark=spark)
    assert out == []
    run_main(flow, recovery_config=RecoveryConfig(tmp_path), spark=spark)
    assert out == [
        ("a", (0, [items[0], items[3]])),
        ("a", (1, [items[4]])),
        ("b", (0, [items[1]])),
    ]


def test_state_of_other_steps_is_rejected(spark: SparkSession, tmp_path: Path) -> None:
    run_main(orders_flow(TestingSource([]), TestingSink([])), recovery_config=RecoveryConfig(tmp_path), spark=spark)
    flow = Dataflow("orders")
    op.output("out", op.count_final("n", op.input("in", flow, TestingSource([])), str), TestingSink([]))
    with pytest.raises(IncompatibleStateError, match=r"per_minute.*now they are orders\.n"):
        run_main(flow, recovery_config=RecoveryConfig(tmp_path), spark=spark)


def test_a_class_of_a_function_crosses(spark: SparkSession) -> None:
    @dataclass
    class Reading:
        sensor: str
        second: int

    out: list[Any] = []
    flow = Dataflow("local")
    keyed: Any = op.key_on("k", op.input("in", flow, TestingSource([Reading("s", 1)])), lambda reading: reading.sensor)
    later = op.map_value("later", keyed, lambda reading: Reading(reading.sensor, reading.second + 1))
    clock: Any = win.EventClock(lambda reading: at(reading.second), now_getter=lambda: START)
    op.output("out", win.max_window("w", later, clock, win.SessionWindower(seconds(1)), second_of_it), TestingSink(out))
    run_main(flow, spark=spark)
    assert out == [("s", Reading("s", 2))]


def second_of_it(reading: Any) -> int:
    second: int = reading.second
    return second


@operator
def _sizes(step_id: str, up: Stream[str]) -> Stream[int]:
    return op.map("len", up, len)


@operator
def _keyed_sizes(step_id: str, up: KeyedStream[str]) -> KeyedStream[int]:
    return op.map_value("len", up, len)


def test_operators_of_one_s_own_and_steps_in_a_row(spark: SparkSession) -> None:
    out: list[Any] = []
    flow = Dataflow("rows")
    (
        op.input("in", flow, TestingSource(["a", "bb"]))
        .then(op.key_on, "k", lambda text: text[0])
        .then(_keyed_sizes, "sizes")
        .then(op.key_rm, "rm")
        .then(op.map, "again", str)
        .then(_sizes, "of_texts")
        .then(op.output, "out", TestingSink(out))
    )
    cluster_main(flow, [], 0)
    assert out == [1, 1]
    assert [step.step_id for step in flow.substeps[2].substeps] == ["rows.sizes.len"]


@pytest.mark.parametrize(
    ("step", "says"),
    [
        (lambda s: untyped.filter("f", s, lambda item: 1), "must return a bool"),
        (lambda s: untyped.branch("b", s, lambda item: None).trues, "must return a bool"),
        (lambda s: untyped.key_on("k", s, lambda item: 7), "must be a str"),
        (lambda s: untyped.key_rm("k", untyped.map("m", s, lambda item: 7)), "key_on"),
        (lambda s: untyped.count_final("c", s, lambda item: 7), "whose key is int"),
        (lambda s: untyped.flatten("f", untyped.map("m", s, lambda item: 7)), "not iterable"),
        (lambda s: untyped.flat_map_batch("f", s, lambda items: 7), "iterated over"),
        (lambda s: untyped.map("m", s, lambda item: iter(())), "cannot be sent"),
    ],
)
def test_what_a_function_may_not_return_is_rejected_with_the_fix(step: Callable[[Any], Any], says: str) -> None:
    """As in a worker, without Spark."""
    flow = Dataflow("refused")
    op.output("out", step(op.input("in", flow, TestingSource([("a", 1)]))), TestingSink([]))
    entry = log.LogEntry(0, [(0, 0, [("a", 1)])], {})
    rows = pa.RecordBatch.from_pydict({"number": [0], "data": [log._written(entry, {})]})
    with pytest.raises(InvalidArgumentError, match=says):
        list(Inputs(Plan.of(flow), {})([rows]))


def test_what_a_step_with_state_may_not_return_is_rejected_with_the_fix(spark: SparkSession) -> None:
    flow = Dataflow("refused")
    keyed = op.input("in", flow, TestingSource([("a", 1)]))
    op.output("out", untyped.stateful_map("m", keyed, lambda state, value: 7), TestingSink([]))
    with pytest.raises(InvalidArgumentError, match=r"returned 7 \(int\), and must return \(state, value\)"):
        run_main(flow, spark=spark)


def _stream() -> Any:
    return op.input("in", Dataflow("given"), TestingSource([("a", 1)]))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Dataflow("a.b"), "period"),
        (lambda: Dataflow(""), "not the name"),
        (lambda: op.map("a.b", _stream(), str), "without periods"),
        (lambda: op.map("in", _stream(), str), "already exists"),
        (lambda: op.map("m", _stream()), "was called wrongly"),  # type: ignore[call-arg]
        (lambda: op.map("m", op.branch("b", _stream(), bool), str), r"\.trues, \.falses"),  # type: ignore[arg-type]
        (lambda: op.map("m", _stream(), 7), "not a function"),  # type: ignore[arg-type]
        (lambda: op.merge("m"), "given no stream"),
        (lambda: op.merge("m", _stream(), _stream()), None),
        (lambda: op.merge("m", _stream(), op.input("in", Dataflow("other"), TestingSource([]))), "several dataflows"),
        (lambda: op.join("j", _stream(), insert_mode="all"), "insert_mode='first'"),  # type: ignore[arg-type]
        (lambda: op.join("j"), "given no stream"),
        (lambda: op.collect("c", _stream(), 7, 1), "timedelta"),  # type: ignore[arg-type]
        (lambda: op.collect("c", _stream(), seconds(1), 0), "from 1 on"),
        (lambda: op.input("i", Dataflow("f"), [1]), "TestingSource"),  # type: ignore[arg-type]
        (lambda: op.output("o", _stream(), print), "StdOutSink"),  # type: ignore[arg-type]
        (lambda: op.unary, "stateful_batch"),
        (lambda: win.collect_window("w", _stream(), CLOCK, win.SessionWindower(seconds(1)), tuple), "fold_window"),
        (lambda: win.collect_window("w", _stream(), "now", win.SessionWindower(seconds(1))), "EventClock"),
        (lambda: win.collect_window("w", _stream(), CLOCK, seconds(1)), "TumblingWindower"),
        (lambda: win.join_window("j", _stream()), "EventClock"),
        (lambda: win.join_window("j", CLOCK), "no windower"),
        (lambda: win.join_window("j", CLOCK, win.SessionWindower(seconds(1)), _stream(), clock=CLOCK), "given twice"),
        (lambda: TestingSource([], 0), "from 1 on"),
        (lambda: TestingSink(()), "list"),  # type: ignore[arg-type]
        (lambda: FileSource(7), "path"),  # type: ignore[arg-type]
        (lambda: DirSource(Path("/no/such/folder")), "not a folder"),
        (lambda: RecoveryConfig(7), "folder"),  # type: ignore[arg-type]
        (lambda: init_db_dir("x", 0), "from 1 on"),
        (lambda: cluster_main(Dataflow("f"), ["other:2101"], 0), "Spark has its own workers"),
        (lambda: run_main("flow"), "Dataflow"),  # type: ignore[arg-type]
        (lambda: run_main(Dataflow("empty")), "no input"),
        (lambda: run_main(_stream().flow()), "no output"),
        (lambda: command.cli_main(_stream().flow(), addresses=["a"]), "Spark has its own workers"),
    ],
)
def test_what_cannot_be_right_is_rejected_before_anything_runs(make: Callable[[], Any], says: str | None) -> None:
    if says is None:
        says = "several dataflows"
    with pytest.raises((InvalidArgumentError, UnsupportedError, WrongCallError), match=says):
        make()


def test_state_needs_its_folder() -> None:
    with pytest.raises(NoPartitionsError, match=r"mullion\.bytewax\.recovery"):
        run_main(_stream().flow(), recovery_config=RecoveryConfig("/no/such/folder"))


FLOW = """
from mullion.bytewax import operators as op
from mullion.bytewax.connectors.stdio import StdOutSink
from mullion.bytewax.dataflow import Dataflow
from mullion.bytewax.testing import TestingSource


def get_flow(name, times=1):
    flow = Dataflow(name)
    op.output("out", op.map("m", op.input("in", flow, TestingSource([1, 2])), lambda n: n * times), StdOutSink())
    return flow


flow = get_flow("plain")
"""


@pytest.mark.parametrize(
    ("where", "printed"), [("", "1\n2\n"), (":flow", "1\n2\n"), (":get_flow('x', times=3)", "3\n6\n")]
)
def test_a_dataflow_runs_from_a_command_line(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], where: str, printed: str
) -> None:
    name = f"flow_{abs(hash((where, str(tmp_path))))}"
    (tmp_path / f"{name}.py").write_text(FLOW, "utf-8")
    assert command.main([f"{tmp_path / name}.py{where}", "-r", str(tmp_path)]) == 0
    assert capsys.readouterr().out == printed
    sys.path.remove(str(tmp_path))


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("no_such_module", "no module 'no_such_module'"),
        ("tests.support.bytewax.bytewax_documents:nothing", "has no 'nothing'"),
        ("tests.support.bytewax.bytewax_documents:1 + 1", "neither a name nor a call"),
        ("tests.support.bytewax.bytewax_documents:START", "(datetime) is not a Dataflow"),
        ("tests.support.bytewax.bytewax_documents:after(1, 2, 3)", "cannot be called so"),
    ],
)
def test_a_wrong_command_line_raises_an_error_with_the_reason(
    capsys: pytest.CaptureFixture[str], where: str, says: str
) -> None:
    assert command.main([where]) == 2
    assert says in capsys.readouterr().err


def test_an_inspector_sees_an_item_before_the_steps_behind_it_change_it(spark: SparkSession) -> None:
    def doubled(item: dict[str, int]) -> dict[str, int]:
        item["n"] = item["n"] * 2
        return item

    flow, inspected, out = Dataflow("changed"), list[Any](), list[Any]()
    items = op.input("in", flow, TestingSource([{"n": 1}, {"n": 2}], 2))
    before = op.inspect("see", items, lambda _, item: inspected.append(item))
    op.output("out", op.map("doubled", before, doubled), TestingSink(out))
    run_main(flow, spark=spark)
    assert (inspected, out) == ([{"n": 1}, {"n": 2}], [{"n": 2}, {"n": 4}])
