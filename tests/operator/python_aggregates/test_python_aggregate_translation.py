"""Random Python aggregates have the same results in the JVM as in Python; other classes run in Python."""

from __future__ import annotations

import linecache
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import ArithmeticException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion import Early, FunctionError, PythonAggregate, Session, Sliding, Tumbling, windowed
from mullion.windows import Window
from tests.support.checked import settings
from tests.support.clocked import ClockedQuery
from tests.support.functions.python_aggregates import WAITING
from tests.support.seeds import SEED
from tests.support.streams import SECOND, Feed

TRANSLATE = "spark.sql.mullion.pythonAggregate.translate"
COLUMNS = "k string, i int, j int, n bigint, x double, s string, b boolean"


# --- Random classes ---------------------------------------------------------------------------------------------------


class Writer:
    """Writes random classes whose values depend on the columns i, j, n, x, s and b."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance

    def integer(self, depth: int = 2) -> str:
        match self.chance.randrange(9 if depth else 3):
            case 0:
                return self.chance.choice(["i", "j"])
            case 1:
                return str(self.chance.choice([0, 1, 2, -3, 10]))
            case 2:
                return "self.factor"
            case 3 | 4:
                return f"({self.integer(depth - 1)} {self.chance.choice('+-*')} {self.integer(depth - 1)})"
            case 5:
                return f"({self.integer(depth - 1)} if {self.test(depth - 1)} else {self.integer(depth - 1)})"
            case 6:
                return f"({self.chance.choice('ijn')} or {self.integer(depth - 1)})"
            case 7:
                return f"abs({self.integer(depth - 1)})"
            case _:
                return f"-{self.integer(depth - 1)}"

    def test(self, depth: int = 1) -> str:
        match self.chance.randrange(9 if depth > 0 else 6):
            case 0:
                return f"{self.chance.choice('ijnxsb')} is {self.chance.choice(['', 'not '])}None"
            case 1:
                return f"s {self.chance.choice(['==', '!='])} {self.chance.choice(['a', 'é', ''])!r}"
            case 2:
                return "b"
            case 3:
                return f"{self.chance.choice('ijn')} {self.chance.choice(['==', '!='])} {self.chance.choice('ijn')}"
            case 4:
                return f"(i or 0) {self.chance.choice(['<', '<=', '>', '>='])} {self.integer(0)}"
            case 5:
                return self.chance.choice("ijnx")
            case 6:
                return f"not {self.test(depth - 1)}"
            case _:
                return f"({self.test(depth - 1)} {self.chance.choice(['and', 'or'])} {self.test(depth - 1)})"

    def part(self, part: str) -> tuple[str, str, str]:
        """A part of an accumulator: its first value, its next one, and how two are merged."""
        kind = self.chance.choice(["sum", "sum", "count", "n", "float", "min", "max"])
        value = {"sum": self.integer(), "count": "1", "n": "(n or 0)", "float": "(x or 0.0)"}.get(kind, self.integer(1))
        if kind in ("min", "max"):
            step, merge = f"{kind}({part}, {value})", f"{kind}(a#, b#)"
            first = str(self.chance.choice([0, 5, -100]))
        else:
            step = self.chance.choice([f"{part} + {value}", f"{value} + {part}", f"{part} - {value}"])
            merge, first = self.chance.choice(["a# + b#", "b# + a#"]), "0.0" if kind == "float" else "0"
        if self.chance.random() < 0.3:
            step = f"({step} if {self.test()} else {part})"
        return first, step, merge

    def source(self, name: str) -> str:
        size = self.chance.choice([0, 0, 1, 2, 3])
        if size == 0:
            first, step, merge = self.part("acc")
            body, finish = [f"return {step}"], ""
            returns = "double" if first == "0.0" else "bigint"
        else:
            parts = [self.part(f"acc[{i}]") for i in range(size)]
            first = f"({', '.join(part[0] for part in parts)},)"
            merges = (part[2].replace("#", f"[{i}]") for i, part in enumerate(parts))
            merge = f"({', '.join(merges)},)"
            body = [f"return ({', '.join(part[1] for part in parts)},)"]
            if self.chance.random() < 0.3:
                body = [f"if {self.test()}:", "    return acc", *body]
            floats = [i for i, part in enumerate(parts) if part[0] == "0.0"]
            wholes = [i for i in range(size) if i not in floats]
            returns, finish = f"struct<{', '.join(f'p{i}: {self.kind(i, floats)}' for i in range(size))}>", ""
            if wholes and self.chance.random() < 0.4:
                one, other = self.chance.choice(wholes), self.chance.choice(wholes)
                returns, finish = "double", f"return acc[{one}] / acc[{other}] if acc[{other}] else None"
            elif wholes and not floats:
                returns, finish = "array<bigint>", f"return [{', '.join(f'acc[{i}]' for i in range(size))}]"
        lines = [
            f"class {name}(PythonAggregate, returns={returns!r}):",
            f"    factor: int = {self.chance.choice([1, 2, -7])}",
            "    def create(self):",
            f"        return {first}",
            "    def add_row(self, acc, i, j, n, x, s, b):",
            *(f"        {line}" for line in body),
            "    def merge(self, a, b):",
            f"        return {merge.replace('#', '')}",
        ]
        lines += ["    def finish(self, acc):", f"        {finish}"] if finish else []
        return "\n".join(lines) + "\n"

    @staticmethod
    def kind(i: int, floats: list[int]) -> str:
        return "double" if i in floats else "bigint"


def classes_of(sources: dict[str, str]) -> dict[str, type[PythonAggregate]]:
    """The classes of a module with these sources, which Python's own tools find."""
    text = "from mullion import PythonAggregate\n" + "\n".join(sources.values())
    file = f"/drawn/{abs(hash(text))}.py"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    module: dict[str, Any] = {"__name__": "drawn"}
    exec(compile(text, file, "exec"), module)
    return {name: module[name] for name in sources}


SMALL = {"i": [0, 1, -1, 7, -30000, 2**20], "n": [0, 3, -5, 2**53 + 1, -(2**54)]}
LARGE = {"i": [0, 1, -1, 7, 2**31 - 1, -(2**31)], "n": [0, 3, -5, 2**62, -(2**63), 2**63 - 1]}


def rows_of(chance: random.Random, n: int, nulls: float, wholes: dict[str, list[int]]) -> list[tuple[Any, ...]]:
    def value(kind: str) -> Any:
        if chance.random() < nulls:
            return None
        draw: dict[str, Callable[[], Any]] = {
            "i": lambda: chance.choice(wholes["i"]),
            "n": lambda: chance.choice(wholes["n"]),
            "x": lambda: float(chance.choice([0, -2, 1000, 2**40])),
            "s": lambda: chance.choice(["a", "é", "", "b"]),
            "b": lambda: chance.random() < 0.5,
        }
        return draw[kind]()

    return [(chance.randrange(60) * SECOND, chance.choice("abc"), *map(value, "iinxsb")) for _ in range(n)]


def aggregated(rows: DataFrame, window: Window, kinds: dict[str, type[PythonAggregate]], **options: Any) -> DataFrame:
    columns = {name: kind("i", "j", "n", "x", "s", "b") for name, kind in kinds.items()}
    return windowed(rows, window, by="k", time="ts", **options).agg(**columns)


def in_python(panes: DataFrame, *kinds: type[PythonAggregate]) -> bool:
    """True if the plan has one of the classes, and not aggregates of the JVM in place of all of them."""
    plan: Any = panes._jdf
    text = plan.queryExecution().analyzed().toString()
    return any(f"{kind.__name__}(" in text for kind in kinds)


def both_ways(rows: DataFrame, window: Window, kinds: dict[str, type[PythonAggregate]]) -> tuple[DataFrame, DataFrame]:
    """The panes as they are, and those of Python alone."""
    spark = rows.sparkSession
    with settings(spark, {WAITING: "3"}):
        panes = aggregated(rows, window, kinds)
        with settings(spark, {TRANSLATE: "false"}):
            unchanged = aggregated(rows, window, kinds)
    assert in_python(unchanged, *kinds.values())
    return panes, unchanged


def test_random_classes_have_the_results_of_python(spark: SparkSession) -> None:
    chance = random.Random(f"{SEED} translation")
    writer = Writer(chance)
    sources = {f"Drawn{i}": writer.source(f"Drawn{i}") for i in range(40)}
    kinds = classes_of(sources)
    rows = spark.createDataFrame(rows_of(chance, 200, 0.0, SMALL), f"t bigint, {COLUMNS}").coalesce(1)
    timed = rows.withColumn("ts", F.timestamp_micros("t"))
    got, wanted = (
        sorted(panes.collect(), key=lambda row: (row.k, str(row.window)))
        for panes in both_ways(timed, Sliding("20 seconds", "10 seconds"), kinds)
    )
    assert len(got) == len(wanted) > 10
    for name, source in sources.items():
        for one, other in zip(got, wanted, strict=True):
            assert repr(one[name]) == repr(other[name]), f"MULLION_SEED={SEED}\n{source}\n{one[name]}, {other[name]}"
    in_jvm = [kind for kind in kinds.values() if not in_python(aggregated(timed, Tumbling("1 day"), {"r": kind}), kind)]
    assert len(in_jvm) > 15, f"{len(in_jvm)} classes ran in the JVM"


def test_random_classes_fail_where_python_does(spark: SparkSession) -> None:
    """Null values, and sums beyond 64 bits."""
    chance = random.Random(f"{SEED} translation of nulls")
    writer = Writer(chance)
    rows = spark.createDataFrame(rows_of(chance, 60, 0.2, LARGE), f"t bigint, {COLUMNS}").coalesce(1)
    timed = rows.withColumn("ts", F.timestamp_micros("t"))
    failed = succeeded = 0
    while failed + succeeded < 8:
        source = writer.source("Drawn")
        kind = classes_of({"Drawn": source})["Drawn"]
        panes, unchanged = both_ways(timed, Tumbling("1 minute"), {"r": kind})
        if in_python(panes, kind):
            continue
        got, wanted = results(panes), results(unchanged)
        assert got == wanted, f"MULLION_SEED={SEED}\n{source}\n{got}\n{wanted}"
        failed, succeeded = failed + (wanted is None), succeeded + (wanted is not None)
    assert failed
    assert succeeded


def results(panes: DataFrame) -> list[str] | None:
    """The results, or ``None`` if the query fails."""
    try:
        return sorted(repr((row.k, row.r)) for row in panes.collect())
    except (FunctionError, ArithmeticException):
        return None


@pytest.mark.parametrize(
    ("window", "options"),
    [
        (Tumbling("10 seconds"), {"early": Early(every="2 seconds")}),
        (Sliding("20 seconds", "5 seconds"), {"late": "reopen"}),
        (Session("4 seconds"), {"late": "emit"}),
        (Tumbling("10 seconds"), {"early": Early(each_row=True)}),
    ],
    ids=str,
)
def test_streams_have_the_results_of_python(
    window: Window, options: dict[str, Any], spark: SparkSession, tmp_path: Path
) -> None:
    chance = random.Random(f"{SEED} translation {window}")
    feed = Feed(tmp_path / "in", COLUMNS)
    kinds: dict[str, type[PythonAggregate]] = {"total": Total, "mean": Mean, "least": Least}

    def started(translate: str) -> ClockedQuery:
        with settings(spark, {TRANSLATE: translate, WAITING: "2"}):
            panes = aggregated(feed.stream(spark, "5 seconds"), window, kinds, **options)
            assert in_python(panes, *kinds.values()) == (translate == "false")
            return ClockedQuery(panes, checkpoint=tmp_path / translate)

    def firings() -> int:
        """The number of firings of a batch, which are equal in both queries."""
        got, wanted = (sorted(map(repr, query.settle())) for query in queries.values())
        assert got == wanted
        return len(got)

    queries = {translate: started(translate) for translate in ("true", "false")}
    try:
        fired = 0
        for number in range(6):
            rows = [(number * 7 * SECOND + row[0] // 4, *row[1:]) for row in rows_of(chance, 20, 0.2, SMALL)]
            feed.write(rows)
            if number == 3:
                queries["true"].stop()
                queries["true"] = started("true")
            fired += firings()
        feed.flood()
        assert fired + firings() > 5
        for query in queries.values():
            assert int(query.progress[-1]["stateOperators"][0]["numRowsTotal"]) == 0
    finally:
        for query in queries.values():
            query.stop()


# --- Classes that run in the JVM, and those that do not ---------------------------------------------------------------


class Total(PythonAggregate, returns="bigint"):
    def create(self) -> int:
        return 0

    def add_row(self, total: int, i: Any, j: Any, n: Any, x: Any, s: Any, b: Any) -> int:
        return total + (i or 0) * 3

    def merge(self, a: int, b: int) -> int:
        return a + b


class Mean(PythonAggregate, returns="double"):
    def create(self) -> tuple[int, int]:
        return 0, 0

    def add_row(self, acc: tuple[int, int], i: Any, j: Any, n: Any, x: Any, s: Any, b: Any) -> tuple[int, int]:
        if n is None or s == "a":
            return acc
        return acc[0] + n, acc[1] + 1

    def merge(self, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
        return a[0] + b[0], a[1] + b[1]

    def finish(self, acc: tuple[int, int]) -> float | None:
        return acc[0] / acc[1] if acc[1] else None


class Least(PythonAggregate, returns="int"):
    def create(self) -> int:
        return 100

    def add_row(self, least: int, i: Any, j: Any, n: Any, x: Any, s: Any, b: Any) -> int:
        return min(least, j) if j is not None else least

    def merge(self, a: int, b: int) -> int:
        return min(b, a)


UNTRANSLATED = {
    "begins with one": ("1", "acc + i", "a + b"),
    "another merge": ("0", "acc + i", "a + b + 1"),
    "a product": ("0", "acc * i", "a + b"),
    "a value over the accumulator": ("0", "acc + acc * i", "a + b"),
    "a test of the accumulator": ("0", "acc + i if acc < 10 else acc", "a + b"),
    "the minimum of floats": ("0.0", "min(acc, x)", "min(a, b)"),
    "arithmetic beyond 64 bits": ("0", "acc + n * n", "a + b"),
    "text": ("''", "acc + s", "a + b"),
    "a list": ("[]", "acc + [i]", "a + b"),
    "rounding": ("0", "acc + round(x)", "a + b"),
    "merge of other parts": ("(0, 0)", "(acc[0] + i, acc[1] + j)", "(a[0] + b[1], a[1] + b[0])"),
}


@pytest.mark.parametrize("case", UNTRANSLATED)
def test_other_classes_run_in_python(case: str, spark: SparkSession) -> None:
    create, add, merge = UNTRANSLATED[case]
    source = (
        "class Other(PythonAggregate, returns='string'):\n"
        f"    def create(self):\n        return {create}\n"
        f"    def add_row(self, acc, i, j, n, x, s, b):\n        return {add}\n"
        f"    def merge(self, a, b):\n        return {merge}\n"
        "    def finish(self, acc):\n        return str(acc)\n"
    )
    rows = spark.createDataFrame([(0, "k", 1, 2, 3, 0.5, "s", True)], f"t bigint, {COLUMNS}")
    timed = rows.withColumn("ts", F.timestamp_micros("t"))
    for text in (source, source.replace("returns='string'", "returns='bigint'").replace("str(acc)", "acc")):
        kinds = classes_of({"Other": text})
        assert in_python(aggregated(timed, Tumbling("1 minute"), kinds), *kinds.values())


def test_a_null_that_python_would_not_add_is_an_error_with_the_method(spark: SparkSession) -> None:
    kinds = classes_of(
        {
            "Sum": (
                "class Sum(PythonAggregate, returns='bigint'):\n"
                "    def create(self):\n        return 0\n"
                "    def add_row(self, acc, i, j, n, x, s, b):\n        return acc + i\n"
                "    def merge(self, a, b):\n        return a + b\n"
            )
        }
    )
    rows = spark.createDataFrame([(0, "k", None, 2, 3, 0.5, "s", True)], f"t bigint, {COLUMNS}")
    panes = aggregated(rows.withColumn("ts", F.timestamp_micros("t")), Tumbling("1 minute"), kinds)
    assert not in_python(panes, *kinds.values())
    says = r"Sum.add_row failed: TypeError: a value is None, because i is NULL, in the method at .*:5\. Nothing of"
    with pytest.raises(FunctionError, match=says):
        panes.collect()


def above(condition: str) -> type[PythonAggregate]:
    source = (
        "class Above(PythonAggregate, returns='bigint'):\n"
        "    def create(self):\n        return 0\n"
        f"    def add_row(self, acc, n):\n        return acc + 1 if {condition} else acc\n"
        "    def merge(self, a, b):\n        return a + b\n"
    )
    return classes_of({"Above": source})["Above"]


@pytest.mark.parametrize("fix", ["in the class", "before the window"])
def test_a_query_continues_after_the_fix_of_a_class_that_runs_in_the_jvm(
    fix: str, spark: SparkSession, tmp_path: Path
) -> None:
    feed = Feed(tmp_path / "in", "k string, n bigint")

    def started(kind: type[PythonAggregate], only: str = "true") -> ClockedQuery:
        rows = feed.stream(spark).where(only)
        panes = windowed(rows, Tumbling("10 seconds"), by="k", time="ts").agg(above=kind("n"))
        assert not in_python(panes, kind)
        return ClockedQuery(panes, checkpoint=tmp_path / "checkpoint")

    broken = above("n > 10")
    feed.write([(SECOND, "a", 11), (SECOND, "a", 9)])
    with started(broken) as query:
        query.settle()
        feed.write([(2 * SECOND, "a", None), (2 * SECOND, "a", 12)])
        with pytest.raises(FunctionError, match="because n is NULL"):
            query.settle()
    inside = fix == "in the class"
    with started(above("n is not None and n > 10")) if inside else started(broken, "n IS NOT NULL") as query:
        query.settle()
        feed.write([(60 * SECOND, "b", 11)])
        assert [(row.k, row.above) for row in query.settle()] == [("a", 2)]


EDGES = {
    "zero over a negative int": ("(0, 0)", "(acc[0] + j * 0, acc[1] - 1)", "acc[0] / acc[1]"),
    "a value that only a test before it allows, twice": (
        "(0, 0)",
        "(acc[0] + (1 if n is not None and n > 5 else 0), acc[1] + (2 if n is not None and n > 5 else 0))",
        "acc[0] / acc[1] if acc[1] else None",
    ),
    "None as the result of a test": (
        "(0, 0)",
        "(acc[0] + (1 if (n is None and b) is None else 0), acc[1] + 1)",
        "acc[0] / acc[1]",
    ),
    "ints added to floats": ("(0.0, 0)", "(acc[0] + (n or 0), acc[1] + 1)", "acc[0] / acc[1]"),
}


def test_results_at_the_edges_are_those_of_python(spark: SparkSession) -> None:
    kinds = classes_of(
        {
            f"Edge{number}": (
                f"class Edge{number}(PythonAggregate, returns='double'):\n"
                f"    def create(self):\n        return {create}\n"
                f"    def add_row(self, acc, i, j, n, x, s, b):\n        return {add}\n"
                "    def merge(self, a, b):\n        return (a[0] + b[0], a[1] + b[1])\n"
                f"    def finish(self, acc):\n        return {finish}\n"
            )
            for number, (create, add, finish) in enumerate(EDGES.values())
        }
    )
    rows = [(0, "k", None, 2, n, 0.5, "s", n and True) for n in (None, 2**53 + 1, 2**53 + 1, 7)]
    timed = spark.createDataFrame(rows, f"t bigint, {COLUMNS}").withColumn("ts", F.timestamp_micros("t"))
    panes, unchanged = both_ways(timed, Tumbling("1 minute"), kinds)
    assert not in_python(panes, *kinds.values())
    (got,), (wanted,) = panes.collect(), unchanged.collect()
    assert repr(got) == repr(wanted)
    assert repr(got["Edge0"]) == "-0.0"


def test_products_of_a_minimum_that_begins_beyond_32_bits_run_in_python(spark: SparkSession) -> None:
    source = (
        "class Other(PythonAggregate, returns='bigint'):\n"
        "    def create(self):\n        return 100\n"
        "    def add_row(self, acc, i, j, n, x, s, b):\n        return min(acc, j)\n"
        "    def merge(self, a, b):\n        return min(a, b)\n"
        "    def finish(self, acc):\n        return acc * 1000\n"
    )
    rows = spark.createDataFrame([(0, "k", 1, 2, 3, 0.5, "s", True)], f"t bigint, {COLUMNS}")
    timed = rows.withColumn("ts", F.timestamp_micros("t"))
    for text, expected in ((source, False), (source.replace("return 100", f"return {2**61}"), True)):
        kinds = classes_of({"Other": text})
        panes = aggregated(timed, Tumbling("1 minute"), kinds)
        assert in_python(panes, *kinds.values()) == expected
        assert [pane.Other for pane in panes.collect()] == [2000]


def test_a_part_that_may_fail_and_is_left_out_keeps_a_class_in_python(spark: SparkSession) -> None:
    source = (
        "class Other(PythonAggregate, returns='bigint'):\n"
        "    def create(self):\n        return 0, 0\n"
        "    def add_row(self, acc, i, j, n, x, s, b):\n        return acc[0] + 1, acc[1] + i\n"
        "    def merge(self, a, b):\n        return a[0] + b[0], a[1] + b[1]\n"
        "    def finish(self, acc):\n        return acc[0]\n"
    )
    rows = spark.createDataFrame([(0, "k", 1, 2, 3, 0.5, "s", True)], f"t bigint, {COLUMNS}")
    timed = rows.withColumn("ts", F.timestamp_micros("t"))
    for text, expected in ((source, True), (source.replace("acc[1] + i", "acc[1] + (i or 0)"), False)):
        kinds = classes_of({"Other": text})
        assert in_python(aggregated(timed, Tumbling("1 minute"), kinds), *kinds.values()) == expected


def test_quotients_of_large_numbers_are_rounded_once(spark: SparkSession) -> None:
    chance = random.Random(f"{SEED} quotients")
    for _ in range(3):
        values = [chance.choice([1, -1]) * chance.randrange(2**62, 2**63) for _ in range(3)]
        rows = spark.createDataFrame([(0, "k", 1, 1, n, 0.5, "s", True) for n in values], f"t bigint, {COLUMNS}")
        (pane,) = aggregated(
            rows.withColumn("ts", F.timestamp_micros("t")), Tumbling("1 minute"), {"mean": Mean}
        ).collect()
        assert pane.mean == sum(values) / 3
        assert math.isfinite(pane.mean)
