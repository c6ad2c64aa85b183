"""Callbacks of fired panes in a worker, without Spark: errors, skipped calls, early firings before closes."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from mullion.errors import FunctionError
from mullion.topics._outputs import Output
from mullion.turbine._process.callbacks import CLOSE, EARLY, Called, PaneCallbacks
from mullion.turbine._process.firings import CallbacksOfWindows, WindowInQuery

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def panes(*firings: tuple[str, str, int]) -> pa.RecordBatch:
    """Panes of ten milliseconds, as the operator emits them: the firing, the key, and the value."""
    window = {"start": EPOCH, "end": EPOCH + timedelta(milliseconds=10)}
    bound = pa.timestamp("us", "UTC")
    return pa.RecordBatch.from_pydict(
        {
            "key_0": [key for _, key, _ in firings],
            "window": pa.array([window] * len(firings), pa.struct([("start", bound), ("end", bound)])),
            "pane": [{"firing": firing, "seq": 0} for firing, _, _ in firings],
            "value_0": [value for *_, value in firings],
        }
    )


def outputs(
    function: Callable[..., Any], *firings: tuple[str, str, int], each: bool = True, on_error: str = "stop"
) -> tuple[list[Output], Counter[str]]:
    """The outputs of a function as the callback of both kinds of firing, and its counters."""
    suffix = "_each" if each else ""
    early = Called(EARLY, f"on_early_fire{suffix}", function, "out", "w")
    close = Called(CLOSE, f"on_close{suffix}", function, "out", "w")
    callbacks = PaneCallbacks("w", ("k",), ("value",), False, frozenset(), each, close, early)
    counts: Counter[str] = Counter()
    run = CallbacksOfWindows([WindowInQuery(callbacks)], on_error, "failed", lambda name, by: counts.update({name: by}))
    return list(run([panes(*firings)])), counts


def rows(results: list[Output]) -> list[dict[str, Any]]:
    return [row for output in results for row in output.batch.to_pylist()]


FIRED = ((CLOSE, "a", 1), (CLOSE, "b", 0), (EARLY, "c", 3))


@pytest.mark.parametrize("fail", [lambda: 1 // 0, lambda: sys.exit(3)], ids=["raises", "exits"])
@pytest.mark.parametrize("each", [True, False])
def test_a_callback_that_fails_is_named_with_its_line_and_its_panes(fail: Callable[[], Any], each: bool) -> None:
    def failing(state: Any, *pane: Any) -> None:
        fail()

    call = r"the pane \[1970-01-01T00:00:00Z, 1970-01-01T00:00:00\.010000Z\) of k='c'"
    name = f"on_early_fire{'_each' if each else ''}=.*failing of the window 'w'"
    place = f"{__file__}:{fail.__code__.co_firstlineno}"
    with pytest.raises(FunctionError, match=rf"^The function failed for {call}: {name} raised .*, at {place}: "):
        outputs(failing, *FIRED, each=each)


def test_a_table_callback_that_fails_for_several_panes_is_named_with_their_number() -> None:
    def failing(state: Any, table: pa.Table) -> None:
        raise ValueError("no")

    with pytest.raises(FunctionError, match=r"^The function failed for 2 panes that begin from 1970-01-01T00:00:00"):
        outputs(failing, (CLOSE, "a", 1), (CLOSE, "b", 2), each=False)


def test_early_firings_come_first_and_failed_calls_are_left_out_and_counted() -> None:
    def inverse(state: Any, window: Any, value: int) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist([{"k": window.group["k"], "x": 12 // value}])

    results, counts = outputs(inverse, *FIRED, on_error="skip")
    assert rows([result for result in results if result.topic == "out"]) == [{"k": "c", "x": 4}, {"k": "a", "x": 12}]
    (letter,) = rows([result for result in results if result.topic == "failed"])
    assert letter["panes"] == 1
    assert letter["callback"] == "on_close_each=inverse of the window 'w'"
    assert "of k='b'" in letter["error"]
    assert counts == {"w.failed": 1}


def test_a_result_that_cannot_be_published_is_an_error_even_if_failed_calls_are_skipped() -> None:
    with pytest.raises(
        FunctionError, match=r"returned dict, which is not a pyarrow\.RecordBatch, for the pane .* of k='c'"
    ):
        outputs(lambda state, window, value: {"x": value}, *FIRED, on_error="skip")
