"""Batches are written beside the next one, in their order, and what fails is told."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from mullion.bytewax._query.writing import Writing


class _Rows:
    def __init__(self, *held: str) -> None:
        self._held = list(held)

    def collect(self) -> list[str]:
        return self._held


class _Outputs:
    """Writes once it is let."""

    def __init__(self) -> None:
        self.written: list[tuple[int, list[str]]] = []
        self.may_write = threading.Semaphore(0)
        self.fails = False
        self.threads = {threading.get_ident()}

    def write(self, rows: Any, batch: int) -> None:
        self.threads.add(threading.get_ident())
        assert self.may_write.acquire(timeout=30)
        if self.fails:
            raise RuntimeError("the disk is full")
        self.written.append((batch, rows))

    def close(self) -> None:
        self.threads.add(threading.get_ident())


def _writing(beside: bool) -> tuple[_Outputs, Any]:
    writing: Any = Writing(_Outputs, beside)  # type: ignore[arg-type]
    return writing.outputs, writing


def test_a_batch_is_written_beside_the_next_one_and_before_that_one_is() -> None:
    outputs, writing = _writing(beside=True)
    writing.write(_Rows("a"), 0)
    assert outputs.written == []
    second = threading.Thread(target=writing.write, args=(_Rows("b"), 1))
    second.start()
    second.join(0.05)
    assert second.is_alive()
    outputs.may_write.release(2)
    second.join(30)
    writing.wait()
    assert outputs.written == [(0, ["a"]), (1, ["b"])]


def test_a_batch_is_written_before_it_ends_where_state_is_kept() -> None:
    outputs, writing = _writing(beside=False)
    outputs.may_write.release()
    writing.write(_Rows("a"), 0)
    assert outputs.written == [(0, ["a"])]
    writing.close()
    assert len(outputs.threads) == 1


def test_what_fails_beside_a_batch_ends_the_next_one_and_the_run() -> None:
    outputs, writing = _writing(beside=True)
    outputs.fails = True
    outputs.may_write.release(2)
    writing.write(_Rows("a"), 0)
    writing.close()
    assert writing.has_failed
    with pytest.raises(RuntimeError, match="the disk is full"):
        writing.write(_Rows("b"), 1)
    with pytest.raises(RuntimeError, match="the disk is full"):
        writing.wait()
    assert outputs.written == []
