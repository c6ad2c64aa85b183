"""The examples of Turbine, on a clock that does not move."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
from pyspark.sql import SparkSession

from mullion.turbine import testing

EXAMPLES = Path(__file__).parents[3] / "examples"


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.usefixtures("spark")
def test_a_host_with_a_high_error_rate_is_reported_once_in_five_minutes() -> None:
    alerts = example("score_alert")
    with testing.run(alerts.app) as t:
        t.feed("requests", [{"host": "a", "status": 500, "latency_ms": 900.0, "event_ts_ms": at} for at in range(9)])
        t.feed("requests", [{"host": "b", "status": 200, "latency_ms": 9.0, "event_ts_ms": 90_000}])
        alert_rows = [(row["host"], row["window_end_ms"], row["score"]) for row in t.outputs("alerts")]
        assert alert_rows == [("a", 30_000, 2.0)], "and not again with the next window"


def test_the_revenue_example_only_updates_its_window(spark: SparkSession) -> None:
    revenue = example("revenue")
    assert [part.runs for part in revenue.app.explain().parts] == ["JVM", "JVM", "Python", "Python"]
    amounts = [order["amount"] for batch in revenue.orders(minutes=1) for order in batch]
    assert len(amounts) == 120
    assert min(amounts) > 0
