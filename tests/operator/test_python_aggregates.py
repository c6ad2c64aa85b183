"""Aggregates in Python: the same results as Spark's, for all windows and options; storage of accumulators; errors."""

from __future__ import annotations

import random
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from mullion import (
    Count,
    Custom,
    Early,
    FunctionError,
    Global,
    IncompatibleStateError,
    InvalidArgumentError,
    PerKey,
    PythonAggregate,
    Session,
    Sliding,
    Tumbling,
    UnsupportedError,
    compare,
    read_panes,
    together,
    windowed,
)
from mullion.testing import ClockedQuery
from mullion.windows import Window
from tests.support import connect_server
from tests.support.checked import settings
from tests.support.seeds import SEED
from tests.support.streams import SECOND, Feed

WAITING = "spark.sql.mullion.pythonAggregate.waitingRows"
LIMIT = "spark.sql.streaming.stateStore.mullion.maxAccumulatorBytes"
COLUMNS = "k string, id bigint, v bigint"


class Ids(PythonAggregate, returns="array<bigint>"):
    """All ids of a pane, in order."""

    def create(self) -> list[int]:
        return []

    def add(self, ids: list[int], rows: pa.RecordBatch) -> list[int]:
        assert rows.num_rows > 0
        ids += rows["id"].to_pylist()
        return ids

    def merge(self, a: list[int], b: list[int]) -> list[int]:
        a += b
        return a

    def finish(self, ids: list[int]) -> list[int]:
        return sorted(ids)


class Weighted(PythonAggregate, returns="bigint"):
    """The sum of products of two columns, row by row."""

    factor: int = 1

    def create(self) -> int:
        return 0

    def add_row(self, total: int, v: int | None, weight: int) -> int:
        return total + self.factor * (v or 0) * weight

    def merge(self, a: int, b: int) -> int:
        return a + b


CASES: dict[str, tuple[Window, dict[str, Any]]] = {
    "tumbling": (Tumbling("10 seconds"), {}),
    "sliding": (Sliding("20 seconds", "5 seconds"), {}),
    "session": (Session("4 seconds"), {}),
    "early": (Tumbling("10 seconds"), {"early": Early(every="2 seconds")}),
    "early sliding": (Sliding("12 seconds", "4 seconds"), {"early": Early(every="3 seconds"), "late": "reopen"}),
    "not accumulating": (Tumbling("10 seconds"), {"early": Early(every="2 seconds"), "accumulate": False}),
    "on time": (Session("4 seconds"), {"on_time": True, "allowed_lateness": "5 seconds"}),
    "late rows": (Sliding("20 seconds", "5 seconds"), {"late": "emit"}),
    "reopened": (Session("4 seconds"), {"late": "reopen"}),
    "deduplicated": (Tumbling("10 seconds"), {"dedupe_by": "v"}),
    "per key": (Tumbling("10 seconds"), {"clock": PerKey()}),
    "per key sessions": (Session("4 seconds"), {"clock": PerKey(), "late": "emit"}),
    "each row": (Tumbling("10 seconds"), {"early": Early(each_row=True)}),
    "empty": (Tumbling("10 seconds"), {"empty": "emit"}),
    "custom": (Custom("ranges"), {}),
    "count": (Count(4), {"time": None}),
    "global": (Global.every(7), {"time": None}),
}


def compared(rows: DataFrame, window: Window, **options: Any) -> DataFrame:
    """Panes with aggregates in Python next to the same of Spark."""
    asked: dict[str, Any] = {"by": "k", "time": "ts", **options}
    weight = (F.col("id") % 5 + 1).alias("weight")
    if isinstance(window, Custom):
        rows = rows.withColumn("ranges", F.expr("array(struct(ts AS start, ts + INTERVAL 3 SECONDS AS end))"))
    return windowed(rows, window, **asked).agg(
        Ids("id").alias("ids"),
        F.sort_array(F.collect_list("id")).alias("wanted_ids"),
        total=Weighted("v", weight, factor=3),
        wanted_total=F.coalesce(F.sum(F.col("v") * weight * 3), F.lit(0)),
    )


def assert_equal(panes: list[Row]) -> None:
    for pane in panes:
        if pane.pane.firing == "late":
            assert (pane.ids, pane.total) == (None, None)
        else:
            assert (pane.ids, pane.total) == (pane.wanted_ids, pane.wanted_total), pane


def random_rows(chance: random.Random, ids: int, start: int) -> list[tuple[Any, ...]]:
    """Rows of several keys, of which one has many rows."""
    return [
        (
            start + chance.randrange(-15, 15) * SECOND,
            chance.choice(["a", "b", "c", None, "many", "many", "many"]),
            ids + i,
            chance.choice([None, *range(6)]),
        )
        for i in range(chance.choice([1, 12, 60]))
    ]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("case", CASES)
def test_a_pane_has_the_results_of_sparks_aggregates_whenever_rows_are_added(
    case: str, spark: SparkSession, tmp_path: Path
) -> None:
    window, options = CASES[case]
    waiting = (1, 1, 3, 64)[list(CASES).index(case) % 4]
    chance = random.Random(f"{SEED} {case} {waiting}")
    feed = Feed(tmp_path / "in", COLUMNS)

    def started() -> ClockedQuery:
        panes = compared(feed.stream(spark, "5 seconds"), window, **options)
        return ClockedQuery(panes, checkpoint=tmp_path / "checkpoint")

    with settings(spark, {WAITING: str(waiting)}):
        query, panes, ids = started(), list[Row](), 0
        try:
            for number in range(7):
                rows = random_rows(chance, ids, number * 8 * SECOND)
                ids += len(rows)
                feed.write(rows)
                if number == 4:
                    query.stop()
                    query = started()
                panes += query.settle()
            if options.get("time", "ts") is not None and case != "empty":
                feed.flood()
                panes += query.settle()
        finally:
            query.stop()
        assert len(panes) > 5
        assert_equal(panes)
        batch = compared(feed.batch(spark), window, **options).collect()
        assert len(batch) > 5
        assert_equal(batch)


def test_several_windows_in_one_query_share_the_aggregates(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", COLUMNS)
    chance = random.Random(f"{SEED} together")
    rows = feed.stream(spark, "5 seconds")
    with settings(spark, {WAITING: "2"}):
        panes = together(
            short=compared(rows, Tumbling("10 seconds")), long=compared(rows, Sliding("20 seconds", "10 seconds"))
        )
        fired = list[Row]()
        with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:
            for number in range(5):
                feed.write(random_rows(chance, 100 * number, number * 6 * SECOND))
                fired += query.settle()
            feed.flood()
            fired += query.settle()
    assert {"short", "long"} == {row[0] for row in fired}
    assert_equal(fired)


def test_open_panes_are_read_with_the_querys_own_aggregates(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", COLUMNS)
    panes = compared(feed.stream(spark), Tumbling("10 seconds"))
    with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:
        feed.write([(SECOND * i, "a", i, 1) for i in range(5)])
        query.settle()
    (pane,) = read_panes(tmp_path / "checkpoint", panes=panes).collect()
    assert pane.ids == pane.wanted_ids == [0, 1, 2, 3, 4]


class InOrder(PythonAggregate, returns="array<bigint>", ordered=True):
    def create(self) -> list[int]:
        return []

    def add(self, ids: list[int], rows: pa.RecordBatch) -> list[int]:
        return [*ids, *rows["id"].to_pylist()]


@pytest.mark.parametrize("window", [Tumbling("1 minute"), Session("1 minute")], ids=["tumbling", "session"])
@pytest.mark.parametrize("clock", ["stream", "per key"])
def test_an_ordered_aggregate_adds_rows_by_time_and_arrival(
    window: Window, clock: str, spark: SparkSession, tmp_path: Path
) -> None:
    chance = random.Random(f"{SEED} {window} {clock}")
    feed = Feed(tmp_path / "in", COLUMNS)
    rows: list[tuple[int, str, int, int]] = []
    options: dict[str, Any] = {"clock": PerKey()} if clock == "per key" else {}
    panes = windowed(feed.stream(spark, "1 hour"), window, by="k", time="ts", **options).agg(ids=InOrder("id"))
    with settings(spark, {WAITING: "1"}), ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:
        for number in range(4):
            # Equal times have a defined order only where windows work row by row.
            times = [chance.randrange(10) if options else number + 4 * i for i in range(10)]
            chance.shuffle(times)
            some = [(time * SECOND, "a", 100 * number + i, 0) for i, time in enumerate(times)]
            rows += some
            feed.write(some)
            assert query.settle() == []
        feed.write([(8000 * SECOND, "a", 0, 0)])
        (pane,) = query.settle()
    assert pane.ids == [row[2] for row in sorted(rows, key=lambda row: row[0])]


# --- Storage of accumulators -----------------------------------------------------------------------------------------


@dataclass
class Figures:
    count: int
    largest: float


class OfDataclass(PythonAggregate, returns="struct<count: bigint, largest: double>"):
    def create(self) -> Figures:
        return Figures(0, float("-inf"))

    def add_row(self, figures: Figures, v: int) -> Figures:
        return Figures(figures.count + 1, max(figures.largest, v))

    def merge(self, a: Figures, b: Figures) -> Figures:
        return Figures(a.count + b.count, max(a.largest, b.largest))

    def finish(self, figures: Figures) -> tuple[int, float]:
        return figures.count, figures.largest


class OfArray(PythonAggregate, returns="array<double>"):
    def create(self) -> np.ndarray[Any, Any]:
        return np.zeros(3)

    def add(self, sums: np.ndarray[Any, Any], rows: pa.RecordBatch) -> np.ndarray[Any, Any]:
        sums += np.bincount(rows["v"].to_numpy() % 3, minlength=3)
        return sums

    def merge(self, a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        a += b
        return a


class Bag:
    """An object that no codec stores."""

    def __init__(self, values: set[int]) -> None:
        self.values = values


class Pickled(PythonAggregate, returns="bigint", pickle=True):
    def create(self) -> Bag:
        return Bag(set())

    def add_row(self, bag: Bag, v: int) -> Bag:
        bag.values.add(v)
        return bag

    def merge(self, a: Bag, b: Bag) -> Bag:
        a.values |= b.values
        return a

    def finish(self, bag: Bag) -> int:
        return len(bag.values)


class Dumped(Pickled, returns="bigint"):
    def dump(self, bag: Bag) -> bytes:
        return b",".join(b"%d" % v for v in sorted(bag.values))

    def load(self, data: bytes) -> Bag:
        return Bag({int(v) for v in data.split(b",")})


class Unpickled(Pickled, returns="bigint"):
    _pickle = False


def test_accumulators_are_stored_as_plain_values_by_the_class_or_with_pickle(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed = Feed(tmp_path / "in", COLUMNS)
    with settings(spark, {WAITING: "1"}):
        panes = windowed(feed.stream(spark), Tumbling("1 minute"), by="k", time="ts").agg(
            figures=OfDataclass("v"), sums=OfArray("v"), pickled=Pickled("v"), dumped=Dumped("v")
        )
        with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:
            for number in range(30):
                feed.write([(number * SECOND, key, 0, number % 10) for key in "abc" for _ in range(3)])
                query.settle()
            feed.flood()
            fired = query.settle()
    assert len(fired) == 3
    for pane in fired:
        assert tuple(pane.figures) == (90, 9.0)
        assert pane.sums == [36.0, 27.0, 27.0]
        assert (pane.pickled, pane.dumped) == (10, 10)


def test_an_accumulator_that_is_no_plain_value_is_an_error_with_three_ways(spark: SparkSession) -> None:
    with settings(spark, {WAITING: "1"}), pytest.raises(FunctionError) as failed:
        of_batch(spark, Unpickled("v")).collect()
    message = str(failed.value)
    assert "Unpickled cannot store its accumulator, because of the value <" in message
    assert "test_python_aggregates.Bag" in message
    for way in ("plain values", "dump() and load()", "pickle=True"):
        assert way in message


def test_a_pane_beyond_the_limit_is_an_error_with_the_aggregate(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", COLUMNS)
    with settings(spark, {LIMIT: "2k"}):
        panes = windowed(feed.stream(spark), Tumbling("1 minute"), by="k", time="ts").agg(ids=Ids("id"))
        with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:
            feed.write([(SECOND, "a", i, 0) for i in range(2000)])
            with pytest.raises(UnsupportedError, match=r"k=a.* bytes of aggregates, most of it in Ids\(id\)"):
                query.settle()


def test_a_group_of_many_rows_is_added_in_parts(spark: SparkSession) -> None:
    class Sizes(PythonAggregate, returns="array<bigint>"):
        def create(self) -> list[int]:
            return []

        def add(self, sizes: list[int], rows: pa.RecordBatch) -> list[int]:
            return [*sizes, rows.num_rows]

        def merge(self, a: list[int], b: list[int]) -> list[int]:
            return a + b

    rows = spark.range(0, 40_000, 1, 1).select(F.lit("a").alias("k"), F.lit(0).cast("timestamp").alias("ts"), "id")
    (pane,) = windowed(rows, Tumbling("1 hour"), by="k", time="ts").agg(sizes=Sizes("id")).collect()
    assert sum(pane.sizes) == 40_000
    assert max(pane.sizes) <= 8192


# --- Columns, types and results --------------------------------------------------------------------------------------


def of_batch(spark: SparkSession, aggregate: PythonAggregate) -> DataFrame:
    rows = spark.range(0, 100, 1, 2).select(F.col("id").alias("v"), F.timestamp_seconds("id").alias("ts"))
    return windowed(rows, Tumbling("1 hour"), time="ts").agg(result=aggregate)


@pytest.mark.always
def test_an_accumulator_may_be_of_a_class_of_the_main_program(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    total: Any = type("Total", (), {"n": 0, "__module__": "__main__"})
    monkeypatch.setattr(sys.modules["__main__"], "Total", total, raising=False)

    class Counted(PythonAggregate, returns="bigint", pickle=True):
        def create(self) -> Any:
            return total()

        def add(self, accumulator: Any, rows: pa.RecordBatch) -> Any:
            accumulator.n += rows.num_rows
            return accumulator

        def merge(self, a: Any, b: Any) -> Any:
            a.n += b.n
            return a

        def finish(self, accumulator: Any) -> Any:
            return accumulator.n

    with settings(spark, {WAITING: "1"}):
        assert [row.result for row in of_batch(spark, Counted("v")).collect()] == [100]


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


# --- Errors ----------------------------------------------------------------------------------------------------------


class Broken(Ids, returns="array<bigint>"):
    at: str = "nowhere"
    how: str = "raise"

    def _break(self, method: str) -> Any:
        if method == self.at:
            if self.how == "exit":
                raise SystemExit(3)
            if self.how == "none":
                return None
            raise ValueError("broken")
        return True

    def create(self) -> list[int]:
        assert self._break("create")
        return []

    def add(self, ids: list[int], rows: pa.RecordBatch) -> Any:
        return super().add(ids, rows) if self._break("add") else None

    def merge(self, a: list[int], b: list[int]) -> Any:
        return super().merge(a, b) if self._break("merge") else None

    def finish(self, ids: list[int]) -> Any:
        return super().finish(ids) if self._break("finish") else None


@pytest.mark.parametrize("waiting", [1, 64])
@pytest.mark.parametrize("how", ["raise", "exit"])
@pytest.mark.parametrize("method", ["create", "add", "merge", "finish"])
def test_an_error_in_a_method_has_its_name_and_line(method: str, how: str, waiting: int, spark: SparkSession) -> None:
    id_ = F.col("v").alias("id")
    with settings(spark, {WAITING: str(waiting)}):
        panes = of_batch(spark, Broken(id_, at=method, how=how))
        if method == "merge" and waiting == 64:
            assert len(panes.collect()) == 1
            return
        with pytest.raises(FunctionError) as failed:
            panes.collect()
    message = str(failed.value)
    error = {"raise": "ValueError: broken", "exit": "SystemExit: 3"}[how]
    assert re.search(r"In the pane \[1970-01-01T00:00:00Z, 1970-01-01T\S*Z\)", message), message
    assert f", Broken.{method} failed: {error}, at {__file__}:" in message
    assert "continues from its checkpoint" in message or "the query continues once the function is fixed" in message


@pytest.mark.parametrize(
    ("window", "pane"),
    [
        (Tumbling("1 minute"), "[1970-01-01T00:00:00Z, 1970-01-01T00:01:00Z)"),
        (Sliding("2 minutes", "1 minute"), "[1969-12-31T23:59:00Z, 1970-01-01T00:01:00Z)"),
        (Session("1 minute"), "[1970-01-01T00:00:01Z, 1970-01-01T00:01:01Z)"),
        (Count(20), "[0, 20)"),
    ],
)
def test_an_error_while_the_operator_adds_rows_has_the_pane_and_the_key(
    window: Window, pane: str, spark: SparkSession, tmp_path: Path
) -> None:
    """Rows of eight batches wait in state, until the last of them is added with the others."""
    feed = Feed(tmp_path / "in", COLUMNS)
    for number in range(8):
        feed.write([(SECOND, key, number, 0) for key in ("a", "b")[: 2 if number < 7 else 1]])
    time = None if isinstance(window, Count) else "ts"
    with settings(spark, {WAITING: "2"}):
        panes = windowed(feed.stream(spark), window, by="k", time=time).agg(ids=Broken("id", at="add"))
        with (
            ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query,
            pytest.raises(FunctionError) as failed,
        ):
            query.settle()
    assert f"In the pane {pane} of k=a, Broken.add failed: ValueError: broken, at {__file__}:" in str(failed.value)


@pytest.mark.parametrize("method", ["add", "merge"])
def test_a_method_without_return_is_an_error(method: str, spark: SparkSession) -> None:
    with settings(spark, {WAITING: "1"}), pytest.raises(FunctionError, match=f"Broken.{method} returned None. Return"):
        of_batch(spark, Broken(F.col("v").alias("id"), at=method, how="none")).collect()


def test_a_result_of_another_type_is_an_error(spark: SparkSession) -> None:
    class Wrong(Ids, returns="bigint"):
        pass

    with pytest.raises(FunctionError, match=r"Wrong.finish returned \[0, 1.*\(list\), which is not a value of int64"):
        of_batch(spark, Wrong(F.col("v").alias("id"))).collect()


def test_a_worker_that_dies_fails_the_query_with_the_aggregates_name(spark: SparkSession) -> None:
    class Killer(Ids, returns="array<bigint>"):
        def add(self, ids: list[int], rows: pa.RecordBatch) -> list[int]:
            import os

            os._exit(7)

    with settings(spark, {WAITING: "1"}), pytest.raises(Exception, match=r"Python worker|crashed") as failed:
        of_batch(spark, Killer(F.col("v").alias("id"))).collect()
    assert "exited" in str(failed.value) or "ended" in str(failed.value)


def test_a_function_may_print_and_start_processes(spark: SparkSession) -> None:
    class Busy(Ids, returns="array<bigint>"):
        def add(self, ids: list[int], rows: pa.RecordBatch) -> list[int]:
            import os
            import sys

            print("out" * 10_000)
            print("err" * 1000, file=sys.stderr)
            child = os.fork()
            if child == 0:
                os._exit(0)
            os.waitpid(child, 0)
            return super().add(ids, rows)

    with settings(spark, {WAITING: "1"}):
        (pane,) = of_batch(spark, Busy(F.col("v").alias("id"))).collect()
    assert pane.result == list(range(100))


def test_tasks_use_the_workers_of_earlier_tasks(spark: SparkSession) -> None:
    class Processes(PythonAggregate, returns="array<bigint>"):
        def create(self) -> list[int]:
            return []

        def add(self, processes: list[int], rows: pa.RecordBatch) -> list[int]:
            import os

            return [*processes, os.getpid()]

        def merge(self, a: list[int], b: list[int]) -> list[int]:
            return a + b

    processes = set[int]()
    with settings(spark, {WAITING: "1"}):
        for _ in range(6):
            (pane,) = of_batch(spark, Processes("v")).collect()
            processes.update(pane.result)
    # Two tasks add rows at a time, and two others finish.
    assert len(processes) <= 4


def test_a_query_stops_while_a_function_runs(spark: SparkSession, tmp_path: Path) -> None:
    began = tmp_path / "began"

    class Endless(Ids, returns="array<bigint>"):
        def add(self, ids: list[int], rows: pa.RecordBatch) -> list[int]:
            import time

            began.touch()
            time.sleep(3600)
            return ids

    feed = Feed(tmp_path / "in", COLUMNS)
    feed.write([(SECOND, "a", 1, 1)])
    with settings(spark, {WAITING: "1"}):
        panes = windowed(feed.stream(spark), Tumbling("1 minute"), by="k", time="ts").agg(ids=Endless("id"))
        writer = panes.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.start()
    while query.isActive and not began.exists():
        query.awaitTermination(1)
    # Raises an error after the session's stopTimeout.
    query.stop()
    assert query.exception() is None


def test_after_a_failure_the_fixed_query_continues_from_its_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", COLUMNS)
    fixed = tmp_path / "fixed"

    class Fragile(Ids, returns="array<bigint>"):
        def add(self, ids: list[int], rows: pa.RecordBatch) -> list[int]:
            if 13 in rows["id"].to_pylist() and not fixed.exists():
                raise ValueError("13")
            return super().add(ids, rows)

    def started() -> ClockedQuery:
        panes = windowed(feed.stream(spark), Tumbling("1 minute"), by="k", time="ts").agg(ids=Fragile("id"))
        return ClockedQuery(panes, checkpoint=tmp_path / "checkpoint")

    with settings(spark, {WAITING: "1"}):
        feed.write([(SECOND * i, "a", i, 0) for i in range(10)])
        with started() as query:
            query.settle()
            feed.write([(SECOND * i, "a", i, 0) for i in range(10, 20)])
            with pytest.raises(FunctionError, match=r"Fragile.add failed: ValueError: 13"):
                query.settle()
        fixed.touch()
        feed.flood()
        with started() as query:
            (pane,) = query.settle()
    assert pane.ids == list(range(20))


def test_another_class_parameter_or_column_type_does_not_continue_the_state(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed = Feed(tmp_path / "in", COLUMNS)

    def panes_of(aggregate: PythonAggregate) -> DataFrame:
        return windowed(feed.stream(spark), Tumbling("1 minute"), by="k", time="ts").agg(total=aggregate)

    with ClockedQuery(panes_of(Weighted("v", "id", factor=2)), checkpoint=tmp_path / "checkpoint") as query:
        feed.write([(SECOND, "a", 1, 1)])
        query.settle()
    again = panes_of(Weighted("v", "id", factor=2))
    assert [row.verdict for row in compare(again, tmp_path / "checkpoint").collect()] == ["goes on"]
    for other in (
        Weighted("v", "id", factor=3),
        Weighted("id", "v", factor=2),
        Weighted(F.col("v").cast("int").alias("v"), "id", factor=2),
        OfDataclass("v"),
    ):
        assert [row.verdict for row in compare(panes_of(other), tmp_path / "checkpoint").collect()] == ["refused"]
    feed.write([(SECOND, "a", 1, 1)])
    with (
        ClockedQuery(panes_of(OfDataclass("v")), checkpoint=tmp_path / "checkpoint") as query,
        pytest.raises(IncompatibleStateError, match=r"Weighted\(v, id, factor => 2\)"),
    ):
        query.settle()


# --- Invalid classes and calls ---------------------------------------------------------------------------------------


def test_a_call_is_checked_before_anything_runs() -> None:
    class Sized(Ids, returns="array<bigint>"):
        size: int
        limit: int = 3

    assert repr(Sized("id", size=5)) == "Sized('id', size=5, limit=3)"
    calls: list[tuple[Any, str]] = [
        (lambda: Sized(size=1), r"Sized\(\) has no column"),
        (lambda: Sized("id"), r"Sized needs the parameter 'size'"),
        (lambda: Sized("id", sice=1), r"Sized has no parameter 'sice'. Did you mean 'size'\?"),
        (lambda: Sized("id", cast("Any", 5)), r"Sized\(5\) has a int as a positional argument"),
    ]
    for call, message in calls:
        with pytest.raises(InvalidArgumentError, match=message):
            call()


def test_a_class_is_checked_at_its_first_call() -> None:
    class Untyped(PythonAggregate):
        pass

    class Neither(PythonAggregate, returns="int"):
        def create(self) -> int:
            return 0

    class Both(Ids, returns="int"):
        def add_row(self, ids: list[int], value: int) -> list[int]:
            return ids

    class Unmerged(PythonAggregate, returns="int"):
        def create(self) -> int:
            return 0

        def add_row(self, total: int, value: int) -> int:
            return total + value

    class HalfDumped(Ids, returns="int"):
        def dump(self, ids: list[int]) -> bytes:
            return b""

    for kind, message in [
        (Untyped, "Untyped has no result type"),
        (Neither, "Neither defines neither add nor add_row"),
        (Both, "Both defines both add and add_row"),
        (Unmerged, "Unmerged does not define merge"),
        (HalfDumped, "HalfDumped defines dump without load"),
    ]:
        with pytest.raises(InvalidArgumentError, match=message):
            kind("v")
    with pytest.raises(InvalidArgumentError, match=r"returns=5 \(int\) is not a Spark type"):

        class Numbered(PythonAggregate, returns=5):  # type: ignore[arg-type]
            pass


def test_columns_of_one_name_and_a_missing_time_are_errors(spark: SparkSession) -> None:
    with pytest.raises(InvalidArgumentError, match="Ids has two columns named 'v'"):
        of_batch(spark, Ids("v", "v"))
    rows = spark.range(4)
    with pytest.raises(InvalidArgumentError, match=r"InOrder adds rows in the order of their times .* and time=None"):
        windowed(rows, Count(2), time=None).agg(ids=InOrder("id"))
    with (
        pytest.raises(InvalidArgumentError, match=f"{WAITING}=none is not a number of rows"),
        settings(spark, {WAITING: "none"}),
    ):
        of_batch(spark, Ids("v"))
