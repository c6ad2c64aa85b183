"""Columns and results of Python aggregates: their types, expressions over them, plans, and Spark Connect."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from mullion import (
    FunctionError,
    PythonAggregate,
    Tumbling,
    windowed,
)
from tests.support import connect_server
from tests.support.checked import settings
from tests.support.functions.python_aggregates import WAITING, Broken, Ids, Weighted, of_batch


@pytest.mark.parametrize("waiting", [1, 64])
def test_columns_of_all_types_reach_python_and_keep_their_values(waiting: int, spark: SparkSession) -> None:
    class First(PythonAggregate, returns="string"):
        def create(self) -> str:
            return ""

        def add_row(self, text: str, *values: object) -> str:
            return min(filter(None, (text, repr(values))))

        def merge(self, a: str, b: str) -> str:
            return min(filter(None, (a, b)))

    expressions = {
        "i": "CAST(7 AS INT)",
        "t": "timestamp_seconds(0)",
        "n": "timestamp_ntz'1970-01-01 00:00:01'",
        "d": "date'2013-01-05'",
        "m": "CAST(1.50 AS DECIMAL(20, 2))",
        "a": "array(timestamp_seconds(0), null)",
        "s": "struct(timestamp_seconds(0) AS at, 'x' AS x)",
        "e": "CAST(NULL AS STRING)",
        "b": "X'00FF'",
    }
    rows = spark.range(10).select(
        F.timestamp_seconds("id").alias("ts"), *(F.expr(text).alias(name) for name, text in expressions.items())
    )
    results = set[str]()
    for zone in ("UTC", "America/New_York"):
        with settings(spark, {WAITING: str(waiting), "spark.sql.session.timeZone": zone}):
            (pane,) = windowed(rows, Tumbling("1 hour"), time="ts").agg(result=First(*expressions)).collect()
            results.add(pane.result)
    (result,) = results
    for text in (
        "7, datetime.datetime(1970, 1, 1, 0, 0",
        "datetime.date(2013, 1, 5)",
        "Decimal('1.50')",
        "b'\\x00\\xff'",
    ):
        assert text in result


def test_a_result_is_part_of_expressions_and_has_its_type(spark: SparkSession) -> None:
    rows = spark.range(4).select(F.timestamp_seconds("id").alias("ts"), "id", F.col("id").alias("v"))
    panes = windowed(rows, Tumbling("1 hour"), time="ts").agg(
        (Ids("id").column()[1] * 10).alias("second"), Ids("id"), F.max("v").alias("largest")
    )
    assert panes.columns[2:] == ["second", "Ids('id')", "largest"]
    (pane,) = panes.collect()
    assert list(pane)[2:] == [10, [0, 1, 2, 3], 3]


def test_filters_in_sql_are_not_needed_for_rows_that_do_not_count(spark: SparkSession) -> None:
    even = F.when(F.col("v") % 2 == 0, F.col("v")).alias("id")

    class NotNull(Ids, returns="array<bigint>"):
        def finish(self, ids: list[int]) -> list[int]:
            return sorted(i for i in ids if i is not None)

    (pane,) = of_batch(spark, NotNull(even)).collect()
    assert pane.result == list(range(0, 100, 2))


def test_explain_names_the_aggregate_and_shows_no_code(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    of_batch(spark, Weighted("v", F.lit(5).alias("weight"), factor=2)).explain()
    plan = capsys.readouterr().out
    assert "AddPythonRows [Weighted(v, 5, factor => 2)]" in plan
    assert "SimplePythonFunction" not in plan


def test_a_client_of_spark_connect_has_the_same_results_and_errors(server: SparkSession) -> None:
    with connect_server.remote(server) as client:
        rows = client.range(0, 100, 1, 2).select(F.col("id").alias("id"), F.timestamp_seconds("id").alias("ts"))
        client.conf.set(WAITING, "3")
        panes = windowed(rows, Tumbling("1 hour"), time="ts").agg(Ids("id").alias("ids"), n=F.count("*"))
        (pane,) = panes.collect()
        assert (pane.ids, pane.n) == (list(range(100)), 100)
        for method in ("add", "finish"):
            failing = windowed(rows, Tumbling("1 hour"), time="ts").agg(ids=Broken("id", at=method))
            with pytest.raises(FunctionError, match=rf"Broken.{method} failed: ValueError: broken, at "):
                failing.collect()
