"""The program's thread writes batches in order, next to the following batch or before the end of their own."""

from __future__ import annotations

import sqlite3
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import mullion.bytewax.operators as op
from mullion.bytewax._query.writing import Writing
from mullion.bytewax.dataflow import Dataflow
from mullion.bytewax.outputs import DynamicSink, StatelessSinkPartition
from mullion.bytewax.recovery import RecoveryConfig, init_db_dir
from mullion.bytewax.testing import TestingSource, run_main


class _Rows:
    def __init__(self, *rows: str) -> None:
        self._rows = list(rows)

    def collect(self) -> list[str]:
        return self._rows


class _Outputs:
    def __init__(self) -> None:
        self.written: list[tuple[int, list[str]]] = []
        self.fails = False
        self.threads: set[int] = set()

    def write(self, rows: Any, batch: int) -> None:
        self.threads.add(threading.get_ident())
        if self.fails:
            raise RuntimeError("the disk is full")
        self.written.append((batch, rows))

    def close(self) -> None:
        self.threads.add(threading.get_ident())


def _writing(beside: bool) -> tuple[_Outputs, Any]:
    outputs: Any = _Outputs()
    return outputs, Writing(outputs, beside)


def _passed(spark_thread: ThreadPoolExecutor, writing: Any, text: str, batch: int) -> Future[None]:
    return spark_thread.submit(writing.write, _Rows(text), batch)


def test_a_batch_ends_before_it_is_written_and_the_next_one_waits_for_it() -> None:
    outputs, writing = _writing(beside=True)
    with ThreadPoolExecutor(1) as spark_thread:
        _passed(spark_thread, writing, "a", 0).result(30)
        assert outputs.written == []
        second = _passed(spark_thread, writing, "b", 1)
        assert not second.done()
        writing.write_next()
        second.result(30)
        writing.write_next()
    assert outputs.written == [(0, ["a"]), (1, ["b"])]


def test_a_batch_with_state_is_written_before_it_ends() -> None:
    outputs, writing = _writing(beside=False)
    with ThreadPoolExecutor(1) as spark_thread:
        writing.write_during(lambda: _passed(spark_thread, writing, "a", 0).result(30))
        assert outputs.written == [(0, ["a"])]
        writing.close()
    assert outputs.threads == {threading.get_ident()}


def test_a_batch_that_arrives_during_a_pause_is_written() -> None:
    outputs, writing = _writing(beside=False)
    with ThreadPoolExecutor(1) as spark_thread:
        batch = _passed(spark_thread, writing, "a", 0)
        while not batch.done():
            writing.write_next(30)
    assert outputs.written == [(0, ["a"])]


@pytest.mark.parametrize("beside", [True, False])
def test_an_error_of_writing_ends_the_query_and_the_run(beside: bool) -> None:
    outputs, writing = _writing(beside)
    outputs.fails = True
    with ThreadPoolExecutor(1) as spark_thread:
        first = _passed(spark_thread, writing, "a", 0)
        while not first.done():
            writing.write_next(30)
        writing.write_next()
        assert writing.has_failed is beside
        for batch in ([] if beside else [first]) + [_passed(spark_thread, writing, "b", 1)]:
            with pytest.raises(RuntimeError, match="the disk is full"):
                batch.result(30)
    with pytest.raises(RuntimeError, match="the disk is full"):
        writing.require_success()
    assert outputs.written == []


class _Interrupted(BaseException):
    pass


def test_an_interrupt_of_the_program_releases_the_query() -> None:
    outputs, writing = _writing(beside=False)

    def write(rows: Any, batch: int) -> None:
        raise _Interrupted

    outputs.write = write  # type: ignore[method-assign]
    with ThreadPoolExecutor(1) as spark_thread:
        batch = _passed(spark_thread, writing, "a", 0)
        with pytest.raises(_Interrupted):
            writing.write_during(lambda: batch.result(30))
        with pytest.raises(_Interrupted):
            batch.result(30)
        writing.close()


class _Table(DynamicSink[Any], StatelessSinkPartition[Any]):
    """A sink with a connection that the program has created, and that belongs to its thread."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        database.execute("CREATE TABLE items (item)")

    def build(self, step_id: str, worker_index: int, worker_count: int) -> StatelessSinkPartition[Any]:
        return self

    def write_batch(self, items: list[Any]) -> None:
        self._database.executemany("INSERT INTO items VALUES (?)", [(item,) for item in items])


@pytest.mark.parametrize("resumes", [True, False])
def test_a_sink_writes_to_a_connection_of_the_program(spark: SparkSession, tmp_path: Path, resumes: bool) -> None:
    database = sqlite3.connect(":memory:")
    flow = Dataflow("table")
    op.output("out", op.input("in", flow, TestingSource([1, 2, 3])), _Table(database))
    init_db_dir(tmp_path, 1)
    run_main(flow, spark=spark, recovery_config=RecoveryConfig(tmp_path) if resumes else None)
    assert database.execute("SELECT item FROM items").fetchall() == [(1,), (2,), (3,)]
