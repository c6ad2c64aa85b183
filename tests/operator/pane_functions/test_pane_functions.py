"""Python functions over the rows of panes: ``.apply`` against ``.collect``, its results, its errors and its workers."""

from __future__ import annotations

import itertools
import os
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from mullion import (
    Count,
    Custom,
    Early,
    FunctionError,
    Global,
    InvalidArgumentError,
    Pane,
    PerKey,
    Session,
    Sliding,
    Tumbling,
    windowed,
)
from mullion.windows import Window
from tests.support import connect_server
from tests.support.checked import settings
from tests.support.clocked import ClockedQuery
from tests.support.seeds import SEED
from tests.support.streams import SECOND, Feed

# The folder of the tests is not on the workers' path.
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]

SCHEMA = "place int, ids string, total bigint"
ARROW_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"


# --- Random windows and functions, against the rows of collect -------------------------------------------------------


def results(key: tuple[Any, ...], pane: Pane, ids: list[int], values: list[int | None]) -> list[dict[str, Any]]:
    """No row, one row or several, which depend on the key, the pane and all rows."""
    total = None if None in values else sum(value for value in values if value is not None)
    text = f"{key} {pane.start} {pane.end} {pane.firing} {pane.seq} {ids}"
    return [{"place": place, "ids": text, "total": total} for place in range(len(ids) % 3)]


def of_frame(key: Any, pane: Pane, rows: pd.DataFrame) -> pd.DataFrame:
    assert list(rows.index) == list(range(len(rows)))
    assert rows["id"].dtype == "int64"
    assert rows["v"].dtype == ("float64" if rows["v"].isna().any() else "int64")
    values = [None if pd.isna(value) else int(value) for value in rows["v"]]
    rows["id"] += 1  # The frame belongs to the function.
    emitted = results(key, pane, [int(each) - 1 for each in rows["id"]], values)
    return pd.DataFrame(emitted, columns=["total", "ids", "place"])


def of_table(key: Any, pane: Pane, rows: pa.Table) -> pa.Table:
    emitted = results(key, pane, rows["id"].to_pylist(), rows["v"].to_pylist())
    return pa.Table.from_pylist(emitted, pa.schema([("ids", "string"), ("place", "int64"), ("total", "int64")]))


def of_batch(key: Any, pane: Pane, rows: pa.RecordBatch) -> list[dict[str, Any]]:
    return results(key, pane, rows["id"].to_pylist(), rows["v"].to_pylist())


def of_batches(key: Any, pane: Pane, rows: Iterator[pa.RecordBatch]) -> Iterator[Any]:
    ids: list[int] = []
    values: list[int | None] = []
    for batch in rows:
        ids += batch["id"].to_pylist()
        values += batch["v"].to_pylist()
    for place, row in enumerate(results(key, pane, ids, values)):
        yield pd.DataFrame([row]) if place else row


def of_frames(key: Any, pane: Pane, rows: Iterator[pd.DataFrame]) -> pd.DataFrame | None:
    frame = pd.concat(rows) if pane.firing != "early" else pd.concat(list(rows))
    values = [None if pd.isna(value) else int(value) for value in frame["v"]]
    emitted = results(key, pane, [int(each) for each in frame["id"]], values)
    return pd.DataFrame(emitted) if emitted else None


FORMS: list[Callable[..., Any]] = [of_frame, of_table, of_batch, of_batches, of_frames]
WINDOWS: list[Callable[[], Window]] = [
    lambda: Tumbling("10 seconds"),
    lambda: Sliding("20 seconds", "10 seconds"),
    lambda: Session("3 seconds"),
    lambda: Custom(F.expr("mullion_windows(ts, '10 seconds')")),
    lambda: Count(3),
    lambda: Global.every(4),
]


def expected(rows: list[Row]) -> list[tuple[Any, ...]]:
    """The results of plain Python over the panes of collect, with aware times in UTC."""
    output: list[tuple[Any, ...]] = []
    for row in rows:
        if row.pane.firing == "late":
            output.append((row.k, row.pane.firing, None, None, None, row.late_row.id))
            continue
        pane = Pane(aware(row.window.start), aware(row.window.end), row.pane.firing, row.pane.seq)
        of_pane = results((row.k,), pane, [each.id for each in row.rows], [each.v for each in row.rows])
        output += [(row.k, row.pane.firing, each["place"], each["ids"], each["total"], None) for each in of_pane]
    return sorted(output, key=repr)


def aware(bound: Any) -> Any:
    return bound if isinstance(bound, int) else pd.Timestamp(bound, tz="UTC").to_pydatetime()


@pytest.mark.parametrize("case", range(12))
def test_a_function_gets_the_rows_that_collect_returns(case: int, spark: SparkSession, tmp_path: Path) -> None:
    rng = random.Random(f"{SEED} {case}")
    window = WINDOWS[case % len(WINDOWS)]()
    options: dict[str, Any] = {"by": "k", "time": "ts"}
    if isinstance(window, (Count, Global)):
        options["time"] = None
    else:
        options["late"] = rng.choice(["drop", "emit", "reopen"])
        options["allowed_lateness"] = rng.choice(["0 seconds", "4 seconds"])
        if rng.random() < 0.3 and not isinstance(window, Custom):
            options["clock"] = PerKey()
        elif rng.random() < 0.6:
            options["early"] = Early("5 seconds")
        if isinstance(window, Session) or rng.random() < 0.5:
            options["ids"] = True
    feed, ids = Feed(tmp_path / "in", "k string, id bigint, v bigint"), itertools.count(step=3)
    for _ in range(6):
        feed.write(
            (rng.randrange(40) * SECOND, rng.choice("abc"), next(ids) + rng.randrange(3), rng.choice([1, 2**60, None]))
            for _ in range(rng.randrange(12))
        )
    feed.flood()
    function = FORMS[case % len(FORMS)]

    def run(name: str, panes: DataFrame) -> list[Row]:
        with ClockedQuery(panes, checkpoint=tmp_path / name) as query:
            return query.settle()

    with settings(spark, {ARROW_ROWS: rng.choice(["2", "7", "10000"]), "spark.sql.session.timeZone": "UTC"}):
        windows = windowed(feed.stream(spark), window, **options)
        rows = run("applied", windows.apply(function, SCHEMA))
        output = [(r.k, r.pane.firing, r.place, r.ids, r.total, getattr(r, "late_row", None)) for r in rows]
        actual = sorted(((*row[:5], row[5] and row[5].id) for row in output), key=repr)
        # collect does not support custom windows. Ids are in the order of arrival.
        lists = F.sort_array(F.collect_list(F.struct("id", "v"))).alias("rows")
        collected = windows.agg(lists) if isinstance(window, Custom) else windows.collect()
        assert actual == expected(run("collected", collected))


def test_a_batch_dataframe_gives_the_closing_results(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "k string, id bigint, v bigint")
    feed.write([(0, "a", 1, 5), (SECOND, "b", 2, None), (11 * SECOND, "a", 3, 7), (2 * SECOND, "a", 4, 1)])
    with settings(spark, {"spark.sql.session.timeZone": "UTC"}):
        windows = windowed(feed.batch(spark), Tumbling("10 seconds"), by="k", time="ts", early=Early("1 second"))
        output = [
            (r.k, r.pane.firing, r.place, r.ids, r.total, None) for r in windows.apply(of_frame, SCHEMA).collect()
        ]
        assert sorted(output, key=repr) == expected(windows.collect().collect())


def test_panes_of_no_key_and_of_no_rows_are_called_too(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "v bigint")
    feed.write([(0, 1), (25 * SECOND, 2)])

    def count(key: Any, pane: Pane, rows: pd.DataFrame) -> dict[str, Any]:
        return {"key": str(key), "n": len(rows), "kind": str(rows["v"].dtype)}

    windows = windowed(feed.batch(spark), Tumbling("10 seconds"), time="ts", empty="emit")
    output = windows.apply(count, "key string, n int, kind string").collect()
    assert [(r.key, r.n, r.kind) for r in sorted(output, key=lambda r: r.window.start)] == [
        ("()", 1, "int64"),
        ("()", 0, "int64"),
        ("()", 1, "int64"),
    ]


def test_a_window_over_the_results_has_the_watermark_of_the_panes(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "k string, v bigint")
    for second, key, value in [(1, "a", 1), (12, "b", 2), (65, "a", 3)]:
        feed.write([(second * SECOND, key, value)])
    feed.flood()
    panes = windowed(feed.stream(spark), Tumbling("10 seconds"), by="k", time="ts").apply(
        lambda key, pane, rows: {"s": sum(rows["v"].to_pylist())}, "s bigint"
    )
    minutes = windowed(panes, Tumbling("1 minute"), time="window").agg(F.sum("s").alias("s"))
    with ClockedQuery(minutes, checkpoint=tmp_path / "checkpoint") as query:
        assert [row.s for row in query.settle()] == [3, 3]


# --- Errors ----------------------------------------------------------------------------------------------------------


def pane_of_b(spark: SparkSession, folder: Path) -> DataFrame:
    feed = Feed(folder, "k string, v bigint")
    feed.write([(0, "a", 1), (0, "b", 2)])
    return feed.batch(spark)


PANE = "The function failed for the pane [1970-01-01T00:00:00Z, 1970-01-01T00:00:10Z) of k='b', in its firing 'close': "


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (lambda: 1 // 0, r"wrong raised ZeroDivisionError: .*, at .*test_pane_functions\.py:\d+: \(lambda: 1 // 0"),
        (lambda: sys.exit(3), r"wrong raised SystemExit: 3, at .*test_pane_functions\.py"),
        (lambda: 5, r"wrong returned 5 \(int\), which is not rows\. Return a pandas DataFrame, "),
        (lambda: [5], r"wrong yielded 5 \(int\), which is not a row\. Return a pandas DataFrame, "),
        (lambda: {"m": 1}, r"wrong returned the columns 'm', and the schema has 'n'\. Return exactly these columns"),
        (lambda: pd.DataFrame({"n": [1], "m": [1]}), r"returned the columns 'n', 'm', and the schema has 'n'\."),
        (lambda: {"n": "x"}, r"values of the column 'n' that are not int32, as the schema has it: .*'x'"),
        (lambda: {"n": 2**40}, r"values of the column 'n' that are not int32, as the schema has it: "),
        (lambda: pd.DataFrame({"n": [1.5]}), r"values of the column 'n' that are not int32"),
        (lambda: pa.table({"n": [1.5]}), r"the column 'n' as double, and the schema has it as int32: "),
    ],
)
def test_an_error_has_the_line_the_key_and_the_pane(
    result: Callable[[], Any], message: str, spark: SparkSession, tmp_path: Path
) -> None:
    def wrong(key: Any, pane: Pane, rows: pa.Table) -> Any:
        return result() if key == ("b",) else None

    panes = windowed(pane_of_b(spark, tmp_path / "in"), Tumbling("10 seconds"), by="k", time="ts")
    with pytest.raises(FunctionError, match=message) as failed:
        panes.apply(wrong, "n int").collect()
    assert str(failed.value).startswith(PANE)


def test_a_query_continues_with_the_same_firing_once_its_function_is_fixed(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "k string, v bigint")

    def query(divisor: int) -> ClockedQuery:
        def ratio(key: Any, pane: Pane, rows: pd.DataFrame) -> dict[str, Any]:
            return {"total": int(rows["v"].sum()) // divisor}

        panes = windowed(feed.stream(spark), Tumbling("10 seconds"), by="k", time="ts").apply(ratio, "total bigint")
        return ClockedQuery(panes, checkpoint=tmp_path / "checkpoint")

    feed.write([(0, "a", 4), (SECOND, "b", 6)])
    with query(0) as failing:
        assert failing.settle() == []
        feed.write([(12 * SECOND, "a", 8)])
        with pytest.raises(FunctionError, match=r"(?s)ZeroDivisionError.*with a checkpoint it continues from there"):
            failing.settle()
    with query(2) as fixed:
        assert sorted((row.k, row.total) for row in fixed.settle()) == [("a", 2), ("b", 3)]
        feed.flood()
        assert [(row.k, row.total) for row in fixed.settle()] == [("a", 4)]


@pytest.mark.parametrize(
    ("function", "schema", "message"),
    [
        (5, "n int", r"function=5 \(int\) is not a function\. Write one of three parameters"),
        (lambda rows: None, "n int", r"is called with 3 arguments\. Write it as def score\(key, pane, rows: pandas"),
        (lambda key, pane, rows, more: None, "n int", r"is called with 3 arguments"),
        (of_table, "", r"schema='' has no columns"),
        (of_table, "n int, N int", r"has the column 'n' twice"),
        (of_table, "k int", r"schema= has the column 'k', which the result has already"),
        (of_table, "Pane int", r"schema= has the column 'Pane', which the result has already"),
    ],
)
def test_arguments_that_are_invalid_for_any_data_raise_an_error(
    function: Any, schema: str, message: str, spark: SparkSession, tmp_path: Path
) -> None:
    windows = windowed(pane_of_b(spark, tmp_path / "in"), Tumbling("10 seconds"), by="k", time="ts")
    with pytest.raises(InvalidArgumentError, match=message):
        windows.apply(function, schema)


def test_an_unsupported_annotation_raises_an_error_that_lists_the_forms(spark: SparkSession, tmp_path: Path) -> None:
    def listed(key: Any, pane: Pane, rows: list) -> None:  # type: ignore[type-arg]
        pass

    windows = windowed(pane_of_b(spark, tmp_path / "in"), Tumbling("10 seconds"), by="k", time="ts")
    with pytest.raises(InvalidArgumentError, match=r"listed has rows: list, which .*Iterator\[pyarrow.RecordBatch\]"):
        windows.apply(listed, "n int")


# --- Workers ---------------------------------------------------------------------------------------------------------


def test_functions_may_print_fork_and_leave_rows_unread(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "k string, v bigint")
    feed.write([(0, key, value) for key in "abcd" for value in range(50)])

    def careless(key: Any, pane: Pane, rows: Iterator[pa.RecordBatch]) -> Any:
        if key == ("a",):
            print("x" * 100_000)
            return {"n": 0}
        if key == ("b",):
            if (child := os.fork()) == 0:
                os._exit(0)
            os.waitpid(child, 0)
            return {"n": next(rows).num_rows}
        if key == ("c",):
            return ({"n": batch.num_rows} for batch in rows)
        return None

    windows = windowed(feed.batch(spark), Tumbling("10 seconds"), by="k", time="ts")
    with settings(spark, {ARROW_ROWS: "7"}):
        output = windows.apply(careless, "n int").collect()
    counts = {key: [row.n for row in output if row.k == key] for key in "abcd"}
    assert counts["a"] == [0]
    assert 1 <= counts["b"][0] <= 7
    assert sum(counts["c"]) == 50
    assert max(counts["c"]) <= 7
    assert counts["d"] == []


@pytest.mark.slow
def test_a_worker_holds_a_bounded_part_of_a_large_pane(spark: SparkSession) -> None:
    rows = 400_000

    def measure(key: Any, pane: Pane, batches: Iterator[pa.RecordBatch]) -> dict[str, Any]:
        import resource

        first = next(batches)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        total = first.num_rows + sum(batch.num_rows for batch in batches)
        return {"rows": total, "grown_kb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before}

    measure.__annotations__["batches"] = "Iterator[pyarrow.RecordBatch]"
    one = spark.range(0, rows, 1, 1).select("id", F.timestamp_seconds(F.lit(1)).alias("ts"), F.lit("x" * 60).alias("s"))
    windows = windowed(one, Tumbling("10 seconds"), time="ts")
    (output,) = windows.apply(measure, "rows bigint, grown_kb bigint", max_rows=rows).collect()
    assert output.rows == rows
    # The rows have 30 MB.
    assert output.grown_kb < 10_000


def test_a_client_of_spark_connect_gets_the_same_results(server: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "k string, id bigint, v bigint")
    feed.write([(0, "a", 1, 5), (SECOND, "b", 2, 6), (11 * SECOND, "a", 3, 7), (2 * SECOND, "a", 4, 1)])
    with connect_server.remote(server) as remote:
        remote.conf.set("spark.sql.session.timeZone", "UTC")
        windows = windowed(feed.batch(remote), Tumbling("10 seconds"), by="k", time="ts")
        output = [
            (r.k, r.pane.firing, r.place, r.ids, r.total, None) for r in windows.apply(of_frame, SCHEMA).collect()
        ]
        assert sorted(output, key=repr) == expected(windows.collect().collect())

        def boom(key: Any, pane: Pane, rows: pa.Table) -> None:
            if key == ("b",):
                _ = 1 // 0

        with pytest.raises(FunctionError, match=r"of k='b', in its firing 'close': boom raised ZeroDivisionError"):
            windows.apply(boom, "n int").collect()
