"""The memory and files of a dataflow, in the JVM and in this process, do not grow with its batches."""

from __future__ import annotations

import gc
import os
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import mullion.bytewax.operators as op
import mullion.bytewax.operators.windowing as win
from mullion.bytewax._query.runner import run
from mullion.bytewax.dataflow import Dataflow
from mullion.bytewax.inputs import DynamicSource, StatelessSourcePartition
from mullion.bytewax.outputs import DynamicSink, StatelessSinkPartition
from mullion.testing import ManualClock
from tests.support.heap import live

pytestmark = pytest.mark.slow

FEW, MANY = (int(os.environ.get(f"MULLION_TEST_HEAP_{name}", n)) for name, n in (("FEW", 150), ("MANY", 350)))
_AT_ONCE = 5
"""So many objects of a kind may be there by chance, of a batch that is going on."""

START = datetime(2024, 1, 1, tzinfo=UTC)


@dataclass
class Counted:
    """The objects and files after a number of batches."""

    objects: Counter[str]
    own: int
    files: Counter[str]


@dataclass
class Probe:
    """Counts while a dataflow runs."""

    spark: SparkSession
    folder: Path
    counted: list[Counted] = field(default_factory=list)

    def count(self) -> None:
        gc.collect()
        own = sum(str(type(one).__module__).startswith("mullion.") for one in gc.get_objects())
        files = Counter(path.relative_to(self.folder).parts[1] for path in self.folder.rglob("*") if path.is_file())
        self.counted.append(Counted(live(self.spark), own, files))


class _OneByOne(StatelessSourcePartition[Any]):
    """An item, then nothing, then the next: so that each is a batch of Spark's."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._calls = 0

    def next_batch(self) -> list[Any]:
        self._calls += 1
        number, rest = divmod(self._calls, 2)
        if rest:
            return []
        if number in (FEW, MANY):
            self._probe.count()
        if number > MANY:
            raise StopIteration
        return [(f"k{number % 5}", START + timedelta(seconds=number), number)]


class _Source(DynamicSource[Any]):
    def __init__(self, probe: Probe) -> None:
        self._probe = probe

    def build(self, step_id: str, worker_index: int, worker_count: int) -> _OneByOne:
        return _OneByOne(self._probe)


class _Counting(StatelessSinkPartition[Any]):
    def __init__(self, counter: list[int]) -> None:
        self._counter = counter

    def write_batch(self, items: list[Any]) -> None:
        self._counter[0] += len(items)


class _Sink(DynamicSink[Any]):
    def __init__(self, counter: list[int]) -> None:
        self._counter = counter

    def build(self, step_id: str, worker_index: int, worker_count: int) -> _Counting:
        return _Counting(self._counter)


@pytest.mark.parametrize("runs", ["JVM", "Python"])
def test_a_dataflow_keeps_as_much_after_many_batches_as_after_a_few(
    spark: SparkSession, tmp_path: Path, runs: str
) -> None:
    probe, counter = Probe(spark, tmp_path), [0]
    flow = Dataflow("long")
    keyed = op.key_on("key", op.input("in", flow, _Source(probe)), lambda item: item[0])
    clock: Any = win.EventClock(lambda item: item[1], now_getter=lambda: START)
    windower = win.TumblingWindower(timedelta(seconds=3))
    by = (lambda total, item: total + item[2]) if runs == "JVM" else (lambda total, item: sum([total, item[2]]))
    sums = win.fold_window("sums", keyed, clock, windower, lambda: 0, by, lambda one, other: one + other)
    op.output("out", sums.down, _Sink(counter))
    run(flow, tmp_path, ManualClock(), spark)
    before, after = probe.counted
    assert counter[0] > MANY / 2
    grown = {kind: n for kind, n in after.objects.items() if n - before.objects[kind] > _AT_ONCE}
    assert not grown
    assert after.own - before.own <= _AT_ONCE
    assert after.files["inputs"] <= before.files["inputs"] + 2
    # Of Spark's own notes of batches the newest hundred stay, and its versions of state until maintenance.
    assert after.files["outputs.json"] == 1
