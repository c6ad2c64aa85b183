"""Calls of users' functions in workers: errors, skipped calls and their writes, and results of a schema."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from mullion._keyed.calls import FAILURES, failed_call, results_of
from mullion._keyed.journal import RecordJournal
from mullion._keyed.memory import MemoryStore
from mullion._keyed.results import Results, WrongResultError
from mullion.errors import FunctionError


@pytest.mark.parametrize(
    ("fail", "text"),
    [(lambda: [][1], "IndexError: list index out of range"), (lambda: sys.exit("over"), "SystemExit: over")],
)
def test_an_error_has_the_call_the_function_and_the_line(fail: Callable[[], Any], text: str) -> None:
    def called() -> FunctionError:
        try:
            fail()
        except FAILURES as error:
            return failed_call(error, fail, "f", "the pane [0, 1) of k='a'", "Do not")
        raise AssertionError

    about = f"The function failed for the pane [0, 1) of k='a': f raised {text}, at {__file__}:"
    assert str(called()).startswith(f"{about}{fail.__code__.co_firstlineno}: ")
    assert str(called()).endswith(". Do not")


def test_a_wrong_result_has_the_call_and_the_function() -> None:
    results = Results(pa.schema([("n", pa.int64())]), "the next window", lambda have, want: have != pa.string())
    assert results.fitted(pa.RecordBatch.from_pydict({"n": pa.array([1], pa.int32())})).to_pylist() == [{"n": 1}]
    with pytest.raises(WrongResultError) as wrong:
        results.fitted(pa.RecordBatch.from_pydict({"n": ["1"]}))
    assert str(failed_call(wrong.value, None, "f", "a batch")).startswith(
        "The function failed for a batch: f returned the column 'n' as string, and the next window has it as int64: "
    )
    assert Results(results.schema).fitted(pa.RecordBatch.from_pydict({"n": ["1"]})).to_pylist() == [{"n": 1}]


def test_a_skipped_call_leaves_no_writes_and_other_errors_are_not_skipped() -> None:
    store, skipped = MemoryStore(), list[tuple[int, str]]()
    journal = RecordJournal(store)

    def call(item: int) -> int:
        journal.put(b"last", bytes([item]))
        if item % 2:
            raise FunctionError(f"{item} is not even")
        if item > 4:
            raise KeyError(item)
        return item * 10

    def skip(item: int, error: FunctionError) -> None:
        skipped.append((item, str(error)))

    results = results_of(range(10), call, [journal], skip)
    assert [next(results), next(results)] == [(0, 0), (2, 20)]
    assert store.get(b"last") == bytes([2])
    assert next(results) == (4, 40)
    assert skipped == [(1, "1 is not even"), (3, "3 is not even")]
    with pytest.raises(KeyError):
        next(results)
    with pytest.raises(FunctionError, match="1 is not even"):
        list(results_of(range(10), call, [journal]))
