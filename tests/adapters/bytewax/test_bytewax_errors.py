"""Errors of functions name the step, the key, the function and its line."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

import mullion.bytewax.operators as op
import mullion.bytewax.operators.windowing as win
from mullion import InvalidArgumentError
from mullion.bytewax.dataflow import Dataflow, Stream
from mullion.bytewax.testing import TestingSink, TestingSource, run_main
from mullion.errors import FunctionError, MullionError
from tests.support.bytewax.bytewax_times import START, at, seconds

ITEMS = [("a", 3), ("b", 0), ("a", 4)]


def inverse(total: float, value: int) -> float:
    return total + sum([1 / value])


def time_of(value: int) -> Any:
    return at(value) if value else None


def largest(value: int) -> float:
    return 1 / (4 - value)


class Halves(op.StatefulLogic[int, int, Any]):
    def on_item(self, value: int) -> Any:
        raise KeyError(value)

    def snapshot(self) -> Any:
        return None


def _windows(clock_of: Callable[[int], Any], step: Any) -> Callable[[Stream[Any]], Any]:
    clock: Any = win.EventClock(clock_of, now_getter=lambda: START)
    return lambda up: step("w", up, clock, win.TumblingWindower(seconds(10), START)).down


def _folded(step_id: str, up: Any, clock: Any, windower: Any) -> Any:
    return win.fold_window(step_id, up, clock, windower, lambda: 0.0, inverse, lambda one, other: one + other)


def _maximum(step_id: str, up: Any, clock: Any, windower: Any) -> Any:
    return win.max_window(step_id, up, clock, windower, largest)


def _functions(step_id: str, up: Any, clock: Any, windower: Any) -> Any:
    return win.fold_window(step_id, up, clock, windower, lambda: lambda: 0, lambda state, _: state)


def _failed(spark: SparkSession, step: Callable[[Stream[Any]], Any]) -> MullionError:
    flow = Dataflow("flow")
    pairs: Any = op.input("in", flow, TestingSource(ITEMS))
    op.output("out", step(pairs), TestingSink([]))
    with pytest.raises(MullionError) as failure:
        run_main(flow, spark=spark)
    return failure.value


_LINE = r"at \S*test_bytewax_errors\.py:\d+: "


@pytest.mark.parametrize(
    ("step", "kind", "message"),
    [
        (
            _windows(lambda _: START, _folded),
            FunctionError,
            rf"The step 'flow\.w' failed for the key 'b': folder \(inverse\) raised ZeroDivisionError: \S+ by zero, "
            rf"{_LINE}return total \+ sum",
        ),
        (
            _windows(lambda _: START, _maximum),
            FunctionError,
            rf"The step 'flow\.w' failed for the key 'a': by \(largest\) raised ZeroDivisionError: .*{_LINE}return 1",
        ),
        (
            _windows(lambda value: [][value], win.collect_window),
            FunctionError,
            rf"The step 'flow\.w' failed for the key '[ab]': ts_getter \(<lambda>\) raised IndexError: .*{_LINE}",
        ),
        (
            _windows(time_of, win.collect_window),
            InvalidArgumentError,
            r"The step 'flow\.w' failed for the key 'b': None \(NoneType\) is not a datetime",
        ),
        (
            lambda up: op.stateful("s", up, lambda _: Halves()),
            FunctionError,
            rf"The step 'flow\.s\S*' failed for the key '[ab]': on_item raised KeyError: [03], {_LINE}raise KeyError",
        ),
        (
            lambda up: op.stateful_map("m", up, lambda _, value: (None, 1 / value)),
            FunctionError,
            rf"The step 'flow\.m\S*' failed for the key 'b': mapper \(<lambda>\) raised ZeroDivisionError: .*{_LINE}",
        ),
        (
            lambda up: op.map("m", up, lambda pair: [1 / pair[1]].pop()),
            FunctionError,
            rf"The step 'flow\.m\S*' failed: mapper \(<lambda>\) raised ZeroDivisionError: .*{_LINE}lambda up: op\.map",
        ),
        (
            lambda up: op.branch("b", up, lambda pair: [1 / pair[1]].pop() > 0).trues,
            FunctionError,
            rf"The step 'flow\.b\S*' failed: function \(<lambda>\) raised ZeroDivisionError: .*{_LINE}",
        ),
        (
            lambda up: op.flat_map("f", up, lambda pair: [1 // pair[1]]),
            FunctionError,
            rf"The step 'flow\.f\S*' failed: mapper \(<lambda>\) raised ZeroDivisionError: .*{_LINE}",
        ),
        (
            _windows(lambda _: START, _functions),
            InvalidArgumentError,
            r"The step 'flow\.w' failed for the key '[ab]': <function .* cannot be sent between steps",
        ),
        (
            lambda up: op.map("m", up, lambda pair: lambda: pair),
            InvalidArgumentError,
            r"The step 'flow\.out': <function .* cannot be sent between steps",
        ),
    ],
)
def test_an_error_names_the_step_the_key_the_function_and_the_line(
    spark: SparkSession, step: Callable[[Stream[Any]], Any], kind: type[MullionError], message: str
) -> None:
    error = _failed(spark, step)
    assert type(error) is kind
    assert re.match(message, str(error).splitlines()[0]), error
