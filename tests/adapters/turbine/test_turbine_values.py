"""Results of aggregates and expressions, compared with Python over the same rows."""

from __future__ import annotations

import datetime
import math
import statistics
from collections import Counter
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import DataType

from mullion.turbine import aggregates as agg
from mullion.turbine import functions as fn
from mullion.turbine.functions import Expression

THIN, CENT = Decimal("1e-37"), Decimal("0.01")

ROWS: list[dict[str, Any]] = [
    {"n": 2**62, "m": 3, "x": 1.5, "b": True, "s": "North ", "none": None, "d": THIN, "e": CENT},
    {"n": 2**62, "m": -4, "x": -2.25, "b": False, "s": "south", "none": None, "d": 2 * THIN, "e": 3 * CENT},
    {"n": 2**62 + 5, "m": 0, "x": 0.0, "b": None, "s": None, "none": None, "d": None, "e": None},
    {"n": -7, "m": None, "x": None, "b": True, "s": "south", "none": None, "d": None, "e": None},
]
SCHEMA = "n bigint, m bigint, x double, b boolean, s string, none double, d decimal(38, 37), e decimal(10, 2)"


def values(name: str) -> list[Any]:
    return [row[name] for row in ROWS if row[name] is not None]


AGGREGATES: list[tuple[agg.Aggregate, Any]] = [
    (agg.Count(), 4),
    (agg.Count("x"), 3),
    (agg.CountIf(fn.col("m") < 1), 2),
    (agg.Sum("n"), sum(values("n"))),
    (agg.Sum("m"), -1),
    (agg.Sum("x"), -0.75),
    (agg.Sum("b"), 2),
    (agg.Sum("none"), 0),
    (agg.Mean("x"), -0.25),
    (agg.Mean("b"), 2 / 3),
    (agg.Mean("none"), None),
    (agg.Sum("d"), 3 * THIN),
    (agg.Sum("e"), 4 * CENT),
    (agg.Sum(fn.null_if("e", fn.col("e"))), 0),
    (agg.Mean("e"), 0.02),
    (agg.Mean("d"), 1.5e-37),
    (agg.Max("s"), "south"),
    (agg.Min("m"), -4),
    (agg.MaxBy("s", "x"), "North "),
    (agg.MinBy("s", "x"), "south"),
    (agg.StdDev("x"), statistics.pstdev(values("x"))),
    (agg.StdDev("x", sample=True), statistics.stdev(values("x"))),
    (agg.Variance("x"), statistics.pvariance(values("x"))),
    (agg.Variance("x", sample=True), statistics.variance(values("x"))),
    (agg.Median("m"), 0),
    (agg.Percentile("m", 1.0), 3),
    (agg.Percentiles("m", [0.0, 0.5]), [-4, 0]),
    (agg.ApproxDistinct("s"), 2),
    (agg.Sum(fn.col("m") * 2 + 1), 1),
]


def test_every_aggregate_gives_python_what_python_would_compute(spark: SparkSession) -> None:
    rows = spark.createDataFrame(ROWS, SCHEMA)

    def type_of(expression: Expression) -> DataType:
        return rows.select(expression.to_column()).schema[0].dataType

    more = {"collect": agg.Collect("s"), "set": agg.CollectSet("s"), "top": agg.ApproxTop("s", 1)}
    columns = [aggregate.to_column(type_of).alias(f"c{i}") for i, (aggregate, _) in enumerate(AGGREGATES)]
    columns += [aggregate.to_column(type_of).alias(name) for name, aggregate in more.items()]
    (result,) = rows.agg(*columns).collect()
    for i, (aggregate, expected) in enumerate(AGGREGATES):
        assert not isinstance(aggregate, agg.Mean) or isinstance(result[i], float | None), aggregate
        assert result[i] == (pytest.approx(expected, rel=1e-9) if isinstance(expected, float) else expected), aggregate
    assert Counter(result["collect"]) == Counter(values("s"))
    assert sorted(result["set"]) == ["North ", "south"]
    assert [(top["item"], top["count"]) for top in result["top"]] == [("south", 2)]
    named = {type(each).__name__ for each in [*more.values(), *(aggregate for aggregate, _ in AGGREGATES)]}
    assert named | {"First", "Last", "Multi", "Aggregate"} == set(agg.__all__), (
        "every aggregate is here or in a program"
    )


EXPRESSIONS: list[tuple[Expression, list[Any]]] = [
    (fn.col("m") + 1, [4, -3, 1, None]),
    (1 - fn.col("m"), [-2, 5, 1, None]),
    (fn.col("m") / 2, [1.5, -2.0, 0.0, None]),
    (1 / fn.col("m"), [1 / 3, -0.25, None, None]),
    (fn.col("m") % 2, [1, 0, 0, None]),
    (-fn.col("x"), [-1.5, 2.25, 0.0, None]),
    ((fn.col("m") >= 0) & ~fn.col("b"), [False, False, None, False]),
    ((fn.col("m") == 3) | (fn.col("s") != "south"), [True, False, None, None]),
    (fn.abs("m"), [3, 4, 0, None]),
    (fn.ceil("x"), [2, -2, 0, None]),
    (fn.floor("x"), [1, -3, 0, None]),
    (fn.round("x", 1), [1.5, -2.2, 0.0, None]),
    (fn.sqrt(fn.abs("m")), [math.sqrt(3), 2.0, 0.0, None]),
    (fn.exp("m"), [math.exp(3), math.exp(-4), 1.0, None]),
    (fn.log("m"), [math.log(3), None, None, None]),
    (fn.log2(fn.col("x") + 0.5), [1.0, None, -1.0, None]),
    (fn.log10(fn.col("x") * 0 + 100), [2.0, 2.0, 2.0, None]),
    (fn.power("m", 2), [9.0, 16.0, 0.0, None]),
    (fn.sign("m"), [1.0, -1.0, 0.0, None]),
    (fn.coalesce(fn.col("s"), "?"), ["North ", "south", "?", "south"]),
    (fn.least(fn.col("m"), 0), [0, -4, 0, 0]),
    (fn.greatest(fn.col("m"), 0), [3, 0, 0, 0]),
    (fn.null_if("m", 0), [3, -4, None, None]),
    (fn.is_null("s"), [False, False, True, False]),
    (fn.is_not_null("s"), [True, True, False, True]),
    (fn.is_in("m", [3, 0]), [True, False, True, None]),
    (fn.lower("s"), ["north ", "south", None, "south"]),
    (fn.upper(fn.trim("s")), ["NORTH", "SOUTH", None, "SOUTH"]),
    (fn.length("s"), [6, 5, None, 5]),
    (fn.concat(fn.col("s"), "!"), ["North !", "south!", None, "south!"]),
    (fn.substring("s", 1, 3), ["ort", "out", None, "out"]),
    (fn.contains("s", "out"), [False, True, None, True]),
    (fn.starts_with("s", "N"), [True, False, None, False]),
    (fn.ends_with("s", "h"), [False, True, None, True]),
    (fn.replace("s", "o", "0"), ["N0rth ", "s0uth", None, "s0uth"]),
    (fn.cast("m", "float64"), [3.0, -4.0, 0.0, None]),
    (fn.when(fn.col("m") > 0, "up").otherwise("down"), ["up", "down", "down", "down"]),
    (fn.when(fn.col("m") > 0, fn.lit("up")), ["up", None, None, None]),
]


def test_every_expression_computes_what_its_python_twin_does(spark: SparkSession) -> None:
    rows = spark.createDataFrame(ROWS, SCHEMA)
    columns = [expression.to_column().alias(f"c{i}") for i, (expression, _) in enumerate(EXPRESSIONS)]
    results = rows.coalesce(1).select(*columns).collect()
    for i, (expression, expected) in enumerate(EXPRESSIONS):
        got = [row[i] for row in results]
        assert got == [pytest.approx(e) if isinstance(e, float) else e for e in expected], expression
        assert eval(repr(expression), {"fn": fn}).same_as(expression), "an honest repr"
    text = repr([expression for expression, _ in EXPRESSIONS])
    unused = [name for name in fn.__all__ if name not in ("Expression", "lit") and f"fn.{name}(" not in text]
    assert unused == [], "every function is here"
    assert fn.lit(datetime.datetime(2025, 1, 1)).columns == frozenset()
