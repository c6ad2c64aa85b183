"""The documents' programs of Bytewax's windows run as they stand there, and the documents' own readings hold."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from pyspark.sql import SparkSession

from mullion.bytewax import operators as op
from mullion.bytewax.dataflow import Dataflow
from mullion.bytewax.seed import windowing as seed
from mullion.bytewax.testing import TestingSink, TestingSource, run_main
from tests.support.bytewax import bytewax_documents as documents
from tests.support.bytewax.bytewax_documents import EVENTS, START


def test_the_programs_of_the_document_run_as_they_stand_there(spark: SparkSession) -> None:
    out: dict[str, list[Any]] = {}
    run_main(documents.flow_of(out), spark=spark)
    a = [event for key, event in EVENTS if key == "a"]
    b = [event for key, event in EVENTS if key == "b"]
    assert out["windowed_events"] == [("a", a[:2]), ("a", [a[2]]), ("a", [a[3]]), ("b", b)]
    assert [total for key, total in out["sliding_totals"] if key == "b"] == [5] * 4
    assert sum(total for key, total in out["sliding_totals"] if key == "a") == 4 * (1 + 2 + 3 + 4)
    assert out["user_activity"] == [(key, (event, event)) for key, event in EVENTS]
    assert out["metrics"][0] == ("a", {"sum": 3.0, "count": 2, "min": 1.0, "max": 2.0})
    assert [len(prices) for key, prices in out["trends"] if key == "b"] == [1] * 4
    assert out["user_sessions"] == [("a", a[:3]), ("a", [a[3]]), ("b", b)]
    assert out["late_tolerant_windows"] == out["windowed_events"]
    assert out["counted"] == [("a", 2), ("a", 1), ("a", 1), ("b", 1)]
    assert [event.amount for key, event in out["largest"] if key == "a"] == [2, 3, 3, 3, 4, 4, 4, 4]
    assert [event.amount for _, event in out["smallest"]] == [1, 4, 5]
    assert [event.amount for _, event in out["reduced"]] == [4, 5]


def test_the_document_s_count_takes_values_and_its_metadata_are_tuples(spark: SparkSession) -> None:
    flow = Dataflow("seed")
    counts: list[Any] = []
    closed: list[Any] = []
    keyed: Any = op.input("events", flow, TestingSource(EVENTS))
    windows = seed.count_window(
        "count",
        keyed,
        seed.EventClock(lambda event: event.timestamp),
        seed.TumblingWindower(timedelta(hours=1)),
        lambda event: "large" if event.amount > 2 else "small",
    )
    op.output("counts", windows, TestingSink(counts))
    op.output("closed", windows.meta, TestingSink(closed))
    run_main(flow, spark=spark)
    assert sorted(counts) == [("large", 1), ("large", 2), ("small", 2)]
    assert ("small", (str(START.timestamp() // 3600)[:-2], START, START + timedelta(hours=1))) in closed
