"""Classes and functions of a program that its workers cannot import, sinks of one thread, and names to import."""

from __future__ import annotations

import importlib
import re
import sqlite3
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

import mullion.bytewax.operators as op
from mullion import UnsupportedError
from mullion.bytewax import errors, tracing, visualize
from mullion.bytewax._log.log import InputLog, LogEntry, learn_from
from mullion.bytewax._values.class_names import class_of
from mullion.bytewax._values.local_classes import classes_of
from mullion.bytewax.dataflow import Dataflow
from mullion.bytewax.inputs import FixedPartitionedSource, SimplePollingSource, StatefulSourcePartition
from mullion.bytewax.outputs import DynamicSink, StatelessSinkPartition
from mullion.bytewax.recovery import RecoveryConfig
from mullion.bytewax.testing import TestingSink, TestingSource, run_main
from mullion.errors import MullionError

ALLOWED = {"a": 1}.keys()
IS_NUMBER = re.compile(r"\d+$").match
LOCK = threading.Lock()
ITERATOR = iter([1])


def flow_of(function: Any, items: list[Any]) -> tuple[Dataflow, list[Any]]:
    flow, out = Dataflow("classes"), list[Any]()
    op.output("out", op.map("map", op.input("in", flow, TestingSource(items)), function), TestingSink(out))
    return flow, out


def test_types_that_python_does_not_define_are_no_classes_of_the_program() -> None:
    @dataclass
    class Own:
        lock: Any = LOCK

    def function(item: Any) -> Any:
        return item in ALLOWED, IS_NUMBER(item), LOCK, ITERATOR, np.mean, Own

    kinds = set(classes_of(flow_of(function, [])[0]).values())
    assert not kinds & {type(ALLOWED), type(IS_NUMBER), type(LOCK), type(ITERATOR), type(np.mean)}


@pytest.mark.always
def test_a_function_uses_views_matches_and_functions_of_numpy(spark: SparkSession) -> None:
    mean = np.mean
    flow, out = flow_of(lambda x: (x in ALLOWED, bool(IS_NUMBER(x)), float(mean([len(x), 3]))), ["a", "12"])
    run_main(flow, spark=spark)
    assert out == [(True, False, 2.0), (False, True, 2.5)]


def test_a_log_has_the_classes_of_its_own_items_only(tmp_path: Path) -> None:
    def instance_of(name: str) -> Any:
        return type(name, (), {"__module__": "__main__", "__qualname__": name})

    one, other = instance_of("One"), instance_of("Other")
    logs = {kind: InputLog(tmp_path / kind.__name__, is_durable=False) for kind in (one, other)}
    for kind, log in logs.items():
        log.append(LogEntry(0, [(0, 0, [kind()])], {}))
        log.append(LogEntry(0, [(0, 1, [1])], {}))
    heads = {kind: (tmp_path / kind.__name__ / f"{1:020d}").read_bytes() for kind in logs}
    assert b"One" in heads[one], "the newest entry has the classes of all items"
    assert b"Other" not in heads[one]
    assert b"One" not in heads[other]
    InputLog(tmp_path / "One", is_durable=False).append(LogEntry(0, [(0, 2, [1])], {}))
    assert b"One" in (tmp_path / "One" / f"{2:020d}").read_bytes(), "of a run before, too"
    learn_from(str(tmp_path / "One"))
    assert class_of("__main__:One").__name__ == "One"


@pytest.mark.always
def test_items_are_of_classes_in_modules_that_workers_cannot_import(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As pytest's test modules are: their folder is in the path of this process only."""
    name = f"module_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text("class Event:\n    v = 1\n\ndef padded(event):\n    return f'{event.v:03}'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module(name)

    class Local(module.Event):  # type: ignore[misc, name-defined]
        pass

    for function in (module.padded, lambda event: str(event.v).zfill(3)):
        flow, out = flow_of(function, [module.Event(), Local()])
        run_main(flow, spark=spark)
        assert out == ["001", "001"]
    flow, out = flow_of(lambda x: x + 1, [1])
    run_main(flow, spark=spark)
    assert out == [2]


def test_modules_that_spark_sends_to_workers_are_imported_there(spark: SparkSession, tmp_path: Path) -> None:
    name = f"file_{tmp_path.name}"
    code = "import threading\nLOCK = threading.Lock()\n\ndef one(x):\n    with LOCK:\n        return 1\n"
    (tmp_path / f"{name}.py").write_text(code)
    spark.sparkContext.addPyFile(str(tmp_path / f"{name}.py"))
    flow, out = flow_of(importlib.import_module(name).one, [1])
    run_main(flow, spark=spark)
    assert out == [1], "the lock is not pickled"


class _Thread(DynamicSink[Any]):
    def __init__(self, path: Path) -> None:
        self.path = path

    def build(self, step_id: str, worker_index: int, worker_count: int) -> StatelessSinkPartition[Any]:
        connection = sqlite3.connect(self.path)

        class Part(StatelessSinkPartition[Any]):
            def write_batch(self, items: list[Any]) -> None:
                connection.execute("CREATE TABLE IF NOT EXISTS t(v)")
                connection.executemany("INSERT INTO t VALUES(?)", [(item,) for item in items])
                connection.commit()

            def close(self) -> None:
                connection.close()

        return Part()


@pytest.mark.always
@pytest.mark.parametrize("recovers", [False, True])
def test_one_thread_builds_writes_and_closes_a_sink(spark: SparkSession, tmp_path: Path, recovers: bool) -> None:
    flow = Dataflow("sqlite")
    op.output("out", op.input("in", flow, TestingSource([1, 2])), _Thread(tmp_path / "t.db"))
    run_main(flow, spark=spark, recovery_config=RecoveryConfig(str(tmp_path)) if recovers else None)
    with sqlite3.connect(tmp_path / "t.db") as connection:
        assert connection.execute("SELECT v FROM t").fetchall() == [(1,), (2,)]


class _Nothing(FixedPartitionedSource[Any, Any]):
    def list_parts(self) -> list[str]:
        return []

    def build_part(self, step_id: str, for_part: str, resume_state: Any) -> StatefulSourcePartition[Any, Any]:
        raise AssertionError


def test_a_source_without_parts_ends_at_once(spark: SparkSession) -> None:
    flow, out = Dataflow("nothing"), list[Any]()
    op.output("out", op.input("in", flow, _Nothing()), TestingSink(out))
    run_main(flow, spark=spark)
    assert out == []


NAMES = {
    "operators": "DK DV Dataflow DynamicSink S Sink Source StatelessSinkPartition Stream U V W W_co X Y f_repr",
    "operators.windowing": "C DK DV S SC SW StatefulBatchLogic U V W W_co X",
    "dataflow": "DataflowId",
    "errors": "BytewaxRuntimeError",
    "tracing": "JaegerConfig OtlpTracingConfig TracingConfig setup_tracing",
    "visualize": "to_json to_mermaid to_plantuml to_rendered",
}


@pytest.mark.parametrize("module", NAMES)
def test_a_module_has_the_names_that_programs_import(module: str) -> None:
    ours = importlib.import_module(f"mullion.bytewax.{module}")
    assert not [name for name in NAMES[module].split() if not hasattr(ours, name)]


def test_names_that_programs_use_at_import(caplog: pytest.LogCaptureFixture) -> None:
    any_source: Any = SimplePollingSource
    assert any_source[int].__args__ == (int, type(None))
    assert any_source[int, str].__args__ == (int, str)
    assert issubclass(errors.BytewaxRuntimeError, MullionError)
    assert tracing.setup_tracing() is not None
    assert not caplog.records
    tracing.setup_tracing(tracing.OtlpTracingConfig("flow"))
    assert "has no effect" in caplog.text
    with pytest.raises(UnsupportedError, match="explain"):
        visualize.to_mermaid(Dataflow("flow"))
