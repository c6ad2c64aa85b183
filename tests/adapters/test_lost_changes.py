"""Programs whose functions change variables outside of them get a warning with the variable, the place and a fix."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

import mullion.bytewax.operators as op
import mullion.turbine as turbine
from mullion.bytewax._dataflow_plan import Plan
from mullion.bytewax._query.runner import warn_of_lost_changes
from mullion.bytewax.dataflow import Dataflow
from mullion.bytewax.testing import TestingSink, TestingSource
from mullion.kx import sp
from mullion.kx.app import App
from mullion.turbine import aggregates as agg
from mullion.turbine import windowing as win
from mullion.turbine._explained import warnings_of

COUNTS: dict[str, int] = {}
SEEN: list[str] = []
total = 0


def line_of(text: str) -> int:
    """The number of the first line of this file that contains a text."""
    return next(number for number, line in enumerate(Path(__file__).read_text("utf-8").splitlines(), 1) if text in line)


def count(item: tuple[str, int]) -> tuple[str, int]:
    COUNTS[item[0]] = COUNTS.get(item[0], 0) + item[1]
    return item[0], COUNTS[item[0]]


def only_reads(item: tuple[str, int]) -> tuple[str, int]:
    return item[0], COUNTS.get(item[0], 0)


class Distinct(op.StatefulLogic[int, int, int]):
    """A logic of ``op.stateful``, whose own attributes are its state."""

    def __init__(self, state: int | None) -> None:
        self.n = state or 0

    def on_item(self, value: int) -> tuple[list[int], bool]:
        self.n += value
        SEEN.append(str(value))
        return [self.n], False

    def snapshot(self) -> int:
        return self.n


def flow_of(step: Any) -> Plan:
    flow = Dataflow("counts")
    stream = op.input("in", flow, TestingSource([("a", 1)]))
    out: list[Any] = []
    op.output("out", step(stream), TestingSink(out))
    return Plan.of(flow)


def test_a_bytewax_step_that_changes_a_global_variable_is_named(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "mullion"):
        warn_of_lost_changes(flow_of(lambda stream: op.map("count", stream, count)))
    (warning,) = caplog.messages
    assert "'counts.count" in warning
    assert f"'COUNTS' ({Path(__file__).name}:{line_of('COUNTS[item[0]] = ')})" in warning.replace(
        f"{Path(__file__).parent}/", ""
    )
    assert "op.stateful_map" in warning


def test_the_logic_of_a_bytewax_step_keeps_its_own_attributes_and_loses_a_global(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, "mullion"):
        warn_of_lost_changes(flow_of(lambda stream: op.stateful("sum", stream, Distinct)))
    (warning,) = caplog.messages
    assert "'SEEN'" in warning
    assert "self" not in warning


def test_a_bytewax_program_that_only_reads_globals_gets_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "mullion"):
        warn_of_lost_changes(flow_of(lambda stream: op.map("read", stream, only_reads)))
    assert caplog.messages == []


def test_a_kx_function_that_changes_a_global_variable_is_named(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    def add(data: Any) -> Any:
        global total
        total += len(data)
        return data

    app = App(
        "totals",
        sp.read.from_callback("rows") | sp.map(add) | sp.write.to_variable("out"),
        broker=f"dir:{tmp_path}/topics",
    )
    with caplog.at_level(logging.WARNING, "mullion"):
        app._checked_jobs()
    (warning,) = caplog.messages
    assert "'total'" in warning
    assert "sp.accumulate(function, initial)" in warning


def test_a_turbine_callback_that_changes_a_global_variable_is_named(tmp_path: Path) -> None:
    app = turbine.App("orders", broker=f"dir:{tmp_path}/topics")

    @app.subscribe("orders", publish_to="out")
    class Orders:
        def __init__(self) -> None:
            self._win = win.PersistentTumbling(
                self, name="ten", size_ms=10, key="k", value=agg.Count(), time_column="t", on_close_each=self._close
            )

        def _close(self, state: Any, window: Any, value: Any) -> None:
            SEEN.append(str(window))

        def process(self, batch: Any, state: Any) -> None:
            self._win.update(batch, state)

    (warning,) = [warning for warning in warnings_of(app.subscriptions[0]) if "SEEN" in warning]
    assert "a callback of 'ten' in Orders changes 'SEEN'" in warning
    assert "Keep such values in state" in warning
