"""Items and logics between micro-batches: a step receives the emitted items, and a logic keeps its state."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import mullion.bytewax.operators as op
import mullion.bytewax.operators.windowing as win
from mullion import InvalidArgumentError
from mullion.bytewax._log import source_loop
from mullion.bytewax._query.logics import Logics
from mullion.bytewax._query.runner import run
from mullion.bytewax._values.copies import copied
from mullion.bytewax.dataflow import Dataflow
from mullion.bytewax.outputs import DynamicSink, StatelessSinkPartition
from mullion.bytewax.testing import TestingSource
from mullion.testing import ManualClock
from tests.support.bytewax import bytewax_random as given
from tests.support.bytewax.bytewax_times import START, at, seconds
from tests.support.seeds import SEED


class Texts(DynamicSink[Any]):
    """A sink that writes the text of an item at once, as a file does."""

    def __init__(self, texts: list[str]) -> None:
        self.texts = texts

    def build(self, step_id: str, worker_index: int, worker_count: int) -> StatelessSinkPartition[Any]:
        texts = self.texts

        class Part(StatelessSinkPartition[Any]):
            def write_batch(self, items: list[Any]) -> None:
                texts.extend(map(repr, items))

        return Part()


@pytest.fixture
def an_item_per_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each item is processed in a micro-batch of its own, with a clock that the test moves."""
    monkeypatch.setattr(source_loop, "_ITEMS_OF_AN_ENTRY", 1)


def texts_of(spark: SparkSession, folder: Path | None, items: list[Any], step: Any) -> list[str]:
    """The texts of what a step returns for items, with a micro-batch for each."""
    flow, texts = Dataflow("texts"), list[str]()
    op.output("out", step(op.input("in", flow, TestingSource(items))), Texts(texts))
    run(flow, folder, ManualClock(), spark)
    return texts


class Totals(op.StatefulBatchLogic[int, int, Any]):
    """As in Bytewax's tutorial, where ``builder`` ignores the state."""

    def __init__(self) -> None:
        self.total = 0

    def on_batch(self, values: list[int]) -> Any:
        self.total += sum(values)
        return [self.total], False

    def snapshot(self) -> Any:
        return self.total


class New(op.StatefulLogic[int, int, Any]):
    """Without recovery, programs return nothing from ``snapshot()``. The lock cannot be pickled."""

    def __init__(self) -> None:
        self.values_before: set[int] = set()
        self.lock = threading.Lock()

    def on_item(self, value: int) -> Any:
        with self.lock:
            is_new = value not in self.values_before
            self.values_before.add(value)
        return ([value] if is_new else []), False

    def snapshot(self) -> Any:
        return None


class Unsendable:
    """A state that has no encoding."""

    def __init__(self) -> None:
        self.count = 0
        self.call: Callable[[], int] = lambda: self.count

    def __reduce__(self) -> Any:
        return _unsendable, (self.count,)


def _unsendable(count: int) -> Unsendable:
    logic = Unsendable()
    logic.count = count
    return logic


def counted(state: Unsendable | None, value: int) -> tuple[Unsendable, int]:
    state = state or Unsendable()
    state.count += value
    return state, state.call()


class Longest(win.WindowLogic[Any, int, Any]):
    def __init__(self) -> None:
        self.longest = 0

    def on_value(self, value: Any) -> list[int]:
        self.longest = max(self.longest, value[1])
        return [self.longest]

    def on_merge(self, original: Any) -> list[int]:
        return []

    def on_close(self) -> list[int]:
        return [self.longest]

    def snapshot(self) -> Any:
        return None


PAIRS = [("a", 1), ("a", 2), ("b", 2), ("a", 1)]


@pytest.mark.always
@pytest.mark.usefixtures("an_item_per_batch")
@pytest.mark.parametrize("resumes", [False, True])
def test_a_logic_lives_on_between_micro_batches(spark: SparkSession, tmp_path: Path, resumes: bool) -> None:
    folder = tmp_path / "state" if resumes else None
    totals = texts_of(spark, folder, PAIRS, lambda up: op.stateful_batch("totals", up, lambda _: Totals()))
    assert totals == ["('a', 1)", "('a', 3)", "('b', 2)", "('a', 4)"]
    folder = tmp_path / "others" if resumes else None
    new = texts_of(spark, folder, PAIRS, lambda up: op.stateful("new", up, lambda _: New()))
    assert new == ["('a', 1)", "('a', 2)", "('b', 2)"]


@pytest.mark.usefixtures("an_item_per_batch")
def test_the_logic_of_a_window_lives_on_between_micro_batches(spark: SparkSession) -> None:
    clock: Any = win.EventClock(lambda pair: at(pair[1]), seconds(100), now_getter=lambda: START)

    def longest(up: Any) -> Any:
        keyed = op.map_value("pairs", up, lambda n: ("", n))
        tumbling = win.TumblingWindower(seconds(1000), START)
        return win.window("longest", keyed, clock, tumbling, lambda _: Longest(), ordered=False).down

    items = [("a", 3), ("a", 5), ("a", 4)]
    assert texts_of(spark, None, items, longest) == [f"('a', (0, {n}))" for n in (3, 5, 5, 5)]


@pytest.mark.usefixtures("an_item_per_batch")
@pytest.mark.parametrize("round_", range(6))
def test_windows_over_several_micro_batches_are_those_of_the_released_package(spark: SparkSession, round_: int) -> None:
    """With a micro-batch for each batch of the source."""
    case = given.random_case(random.Random(f"{SEED} batches {round_}"), keys=6)
    case = replace(case, batch_size=max(case.batch_size, len(case.items) // 8))
    flow, out = given.flow_of(case, released=False)
    run(flow, None, ManualClock(), spark)
    difference = given.difference(case, given.run_released(case), given.by_key(out))
    assert not difference, f"MULLION_SEED={SEED}, round {round_}: {difference}"


@pytest.mark.usefixtures("an_item_per_batch")
def test_a_state_without_an_encoding_is_kept_within_a_run_that_never_resumes(
    spark: SparkSession, tmp_path: Path
) -> None:
    def step(up: Any) -> Any:
        return op.stateful_map("count", up, counted)

    assert texts_of(spark, None, PAIRS, step) == ["('a', 1)", "('a', 3)", "('b', 2)", "('a', 4)"]
    with pytest.raises(InvalidArgumentError, match="cannot be sent between steps or kept in state"):
        texts_of(spark, tmp_path, PAIRS, step)


@pytest.mark.always
@pytest.mark.parametrize("batch_size", [1, 10])
def test_a_sink_receives_an_object_as_it_was_when_it_was_emitted(spark: SparkSession, batch_size: int) -> None:
    def counting(state: Any, value: int) -> Any:
        state = state or {"count": 0, "of": [0]}
        state["count"] += 1
        state["of"][0] += value
        return state, state

    def enrich(item: dict[str, int]) -> dict[str, int]:
        item["price"] = 10
        return item

    flow, states, raw, enriched = Dataflow("changed"), list[str](), list[str](), list[str]()
    pairs = op.input("pairs", flow, TestingSource([("a", 1), ("a", 2)], batch_size))
    op.output("states", op.stateful_map("count", pairs, counting), Texts(states))
    items = op.input("items", flow, TestingSource([{"v": 1}], batch_size))
    op.output("raw", items, Texts(raw))
    op.output("enriched", op.map("enrich", items, enrich), Texts(enriched))
    run(flow, None, None, spark)
    # As in the released package, a step receives what a batch of the source made once all of it is made.
    first = "{'count': 1, 'of': [1]}" if batch_size == 1 else "{'count': 2, 'of': [3]}"
    assert states == [f"('a', {first})", "('a', {'count': 2, 'of': [3]})"]
    assert (raw, enriched) == (["{'v': 1}"], ["{'v': 1, 'price': 10}"])


def test_copies_do_not_change_with_their_originals() -> None:
    for make in (
        lambda inner: ("a", inner),
        lambda inner: [1, inner],
        lambda inner: {"a": 1, "b": inner},
        lambda inner: {(1, 2): inner},
        lambda inner: (("a", [inner]), None),
        lambda inner: {frozenset({1}): inner},
        lambda inner: Longest() if inner is None else _with(inner),
    ):
        inner = [1]
        values = [make(inner), make(inner)]
        before = copied(values)
        inner.append(2)
        assert [_plain(value) for value in before] == [_plain(make([1]))] * 2
        assert type(before[0]) is type(values[0])
    endless: list[Any] = []
    endless.append(endless)
    assert copied([endless])[0] is endless, "the step that receives it names it"
    lock = threading.Lock()
    assert copied([{"lock": lock}]) == [{"lock": lock}]


def _with(inner: Any) -> Longest:
    logic = Longest()
    logic.longest = inner
    return logic


def _plain(value: Any) -> Any:
    return vars(value) if isinstance(value, Longest) else value


def test_a_logic_of_another_run_is_built_from_its_snapshot(caplog: pytest.LogCaptureFixture) -> None:
    mine = Logics("flow.step", b"1" * 32, {}, resumes=True)
    other = Logics("flow.step", b"2" * 32, {}, resumes=True)
    totals = Totals()
    totals.total = 7
    saved_state = mine.state_of(totals)
    assert mine.restored(saved_state, lambda _: Totals()).total == 7, "builder is not called"
    assert other.restored(saved_state, lambda state: _with(state)).longest == 7
    other.warn()
    assert not caplog.records
    saved_state = mine.state_of(New())
    other.restored(saved_state, lambda _: New())
    other.restored(saved_state, lambda _: New())
    other.warn()
    assert [record.getMessage()[:40] for record in caplog.records] == ["The step 'flow.step': 2 keys start anew."]


def test_a_pickled_logic_with_another_signature_is_never_unpickled() -> None:
    mine = Logics("flow.step", b"1" * 32, {}, resumes=False)
    snapshot, signed = mine.state_of(Totals())
    assert snapshot is None, "a run that never resumes needs no snapshot"
    for changed in (signed[:-1] + b"x", b"x" + signed[1:], signed[16:], b""):
        assert mine.restored((5, changed), lambda state: ("built", state)) == ("built", 5)


def test_a_batch_that_is_tried_again_finds_the_logic_as_it_was_before() -> None:
    logics = Logics("flow.step", b"1" * 32, {}, resumes=False)
    totals = Totals()
    totals.on_batch([3])
    state = logics.state_of(totals)
    first, again = (logics.restored(state, lambda _: Totals()) for _ in range(2))
    assert first.on_batch([4]) == again.on_batch([4]) == ([7], False)


def test_a_large_logic_is_meaning_of_its_snapshot() -> None:
    logics = Logics("flow.step", b"1" * 32, {}, resumes=False)
    totals: Any = Totals()
    totals.model = bytes(5 << 20)
    assert logics.state_of(totals) == (0, None)
