"""Panes with many rows reach Python functions in parts: all rows, in order, at each firing."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, Row, SparkSession

from mullion import (
    Around,
    Count,
    Early,
    FunctionError,
    PerKey,
    Session,
    Sliding,
    Tumbling,
    UnsupportedError,
    read_panes,
    windowed,
)
from mullion.windows import Order, Window
from tests.support.clocked import ClockedQuery
from tests.support.seeds import SEED
from tests.support.streams import SECOND, Feed

# Workers do not have the folder of the tests on their path.
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]

COLUMNS = "k string, id bigint"
SEEN = "n bigint, ids string, most bigint"


def contents(key: Any, pane: Any, rows: Iterator[pa.RecordBatch]) -> dict[str, Any]:
    """The number of rows, their ids in order as a digest, and the most rows of a batch."""
    ids: list[int] = []
    most = 0
    for batch in rows:
        ids += batch["id"].to_pylist()
        most = max(most, batch.num_rows)
    return {"n": len(ids), "ids": digest(ids), "most": most}


def digest(ids: list[int]) -> str:
    import hashlib

    return hashlib.sha256(str(ids).encode()).hexdigest()


def in_order(rows: list[tuple[int, str, int]], order: Order) -> list[int]:
    return [row[2] for row in (sorted(rows, key=lambda row: row[0]) if order == "time" else rows)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("window", "order", "options"),
    [
        (Tumbling("1 hour"), "arrival", {}),
        (Tumbling("1 hour"), "time", {}),
        (Sliding("1 hour", "20 minutes"), "arrival", {}),
        (Session("1 hour"), "time", {"clock": PerKey()}),
        (Session("1 hour"), "arrival", {"late": "emit"}),
    ],
    ids=str,
)
def test_all_rows_of_a_large_pane_come_in_order(
    window: Window, order: Order, options: dict[str, Any], spark: SparkSession, tmp_path: Path
) -> None:
    chance = random.Random(f"{SEED} {window} {order}")
    feed = Feed(tmp_path / "in", COLUMNS)
    rows: list[tuple[int, str, int]] = []

    def started() -> ClockedQuery:
        fired = windowed(feed.stream(spark, "2 hours"), window, by="k", time="ts", **options)
        return ClockedQuery(fired.apply(contents, SEEN, order=order), checkpoint=tmp_path / "checkpoint")

    query = started()
    try:
        for number in range(3):
            # The largest batch is more than a key holds in memory.
            some = [
                (3600 * SECOND + chance.randrange(3000 * SECOND), "large", 100_000 * number + i)
                for i in range((12_000, 66_000, 300)[number])
            ]
            few = [(3600 * SECOND, "few", 100_000 * number)]
            rows += some + few
            feed.write(some + few)
            assert query.settle() == []
            if number == 1:
                query.stop()
                query = started()
        feed.write([(100_000 * SECOND, key, 10**6) for key in ("large", "few")])
        feed.write([(100_001 * SECOND, key, 10**6 + 1) for key in ("large", "few")])
        fired = {(pane.k, pane.window.start.timestamp()): pane for pane in query.settle() if pane.n is not None}
    finally:
        query.stop()
    wanted: dict[Any, list[tuple[int, str, int]]] = {}
    first_of = {key: min(row[0] for row in rows if row[1] == key) / SECOND for key in ("large", "few")}
    for row in rows:
        if isinstance(window, Session):
            wanted.setdefault((row[1], first_of[row[1]]), []).append(row)
            continue
        size, slide = 3600, 1200 if isinstance(window, Sliding) else 3600
        last = row[0] // SECOND // slide * slide
        for first in range(last, last - size, -slide):
            if first + size > row[0] // SECOND:
                wanted.setdefault((row[1], float(first)), []).append(row)
    assert {key: (pane.n, pane.ids) for key, pane in fired.items()} == {
        key: (len(of), digest(in_order(of, order))) for key, of in wanted.items()
    }
    assert max(pane.most for pane in fired.values()) <= 10_000


def test_a_large_pane_fires_early_with_all_rows_or_those_since(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", COLUMNS)
    queries = {
        accumulate: ClockedQuery(
            windowed(
                feed.stream(spark),
                Tumbling("1 hour"),
                by="k",
                time="ts",
                early=Early(every="1 second"),
                accumulate=accumulate,
            ).apply(contents, SEEN),
            checkpoint=tmp_path / str(accumulate),
        )
        for accumulate in (True, False)
    }
    firings: dict[bool, list[Row]] = {True: [], False: []}
    try:
        for number in range(4):
            feed.write([(number * 60 * SECOND, "a", 15_000 * number + i) for i in range(15_000)])
            for accumulate, query in queries.items():
                firings[accumulate] += query.settle()
        feed.flood()
        for accumulate, query in queries.items():
            firings[accumulate] += query.settle()
            assert int(query.progress[-1]["stateOperators"][0]["numRowsTotal"]) == 0
    finally:
        for query in queries.values():
            query.stop()
    assert [(pane.pane.firing, pane.n) for pane in firings[True]] == [
        ("early", 45_000),
        ("early", 60_000),
        ("close", 60_000),
    ]
    assert firings[True][-1].ids == digest(list(range(60_000)))
    assert [(pane.pane.firing, pane.n) for pane in firings[False]] == [
        ("early", 45_000),
        ("early", 15_000),
        ("close", 0),
    ]
    assert firings[False][1].ids == digest(list(range(45_000, 60_000)))


@pytest.mark.parametrize("order", ["arrival", "time"])
def test_a_batch_dataframe_has_large_panes_in_parts(order: Order, spark: SparkSession, tmp_path: Path) -> None:
    chance = random.Random(f"{SEED} batch {order}")
    feed = Feed(tmp_path / "in", COLUMNS)
    # More rows than a key holds in memory, also of the slices of two panes.
    rows = [(chance.randrange(3600 * SECOND), "large", i) for i in range(150_000)]
    feed.write([*rows, (0, "few", 0)])
    panes = windowed(feed.batch(spark), Sliding("1 hour", "30 minutes"), by="k", time="ts").apply(
        contents, SEEN, order=order
    )
    got = {(pane.k, pane.window.start.timestamp()): pane for pane in panes.where("window.start IS NOT NULL").collect()}
    for start in (-1800, 0, 1800):
        of = [row for row in rows if start <= row[0] // SECOND < start + 3600]
        pane = got["large", start]
        assert (pane.n, pane.ids) == (len(of), digest(in_order(of, order)))
        assert pane.most <= 10_000
    assert got["few", 0].n == 1


def test_windows_that_aggregate_lists_have_the_limit_too(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", COLUMNS)
    feed.write([(SECOND, "a", i) for i in range(3)])
    around = windowed(feed.batch(spark), Around(before="1 minute"), by="k", time="ts")
    assert all(pane.n == 3 for pane in around.apply(contents, SEEN, max_rows=3).collect())
    with pytest.raises(FunctionError, match=r"of k='a', in its firing 'close': it has 3 rows, and max_rows=2"):
        around.apply(contents, SEEN, max_rows=2).collect()


def test_a_function_of_pandas_gets_a_large_pane_as_one_frame(spark: SparkSession, tmp_path: Path) -> None:
    def of_frame(key: Any, pane: Any, rows: pd.DataFrame) -> dict[str, Any]:
        return {"n": len(rows), "ids": digest(rows["id"].tolist()), "most": None}

    feed = Feed(tmp_path / "in", COLUMNS)
    feed.write([(SECOND, "a", i) for i in range(25_000)])

    def panes(rows: DataFrame) -> DataFrame:
        return windowed(rows, Tumbling("1 hour"), by="k", time="ts").apply(of_frame, SEEN)

    with ClockedQuery(panes(feed.stream(spark)), checkpoint=tmp_path / "checkpoint") as query:
        assert query.settle() == []
        (open_pane,) = read_panes(tmp_path / "checkpoint", spark=spark).collect()
        assert len(open_pane["_mullion_rows"]) == 25_000
        feed.flood()
        (closed,) = query.settle()
    (of_batch,) = panes(feed.batch(spark)).where("k = 'a'").collect()
    assert (closed.n, closed.ids) == (of_batch.n, of_batch.ids) == (25_000, digest(list(range(25_000))))


def test_a_pane_of_row_numbers_may_be_large(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", COLUMNS)
    with ClockedQuery(
        windowed(feed.stream(spark), Count(30_000), by="k", time=None).apply(contents, SEEN),
        checkpoint=tmp_path / "checkpoint",
    ) as query:
        panes: list[Row] = []
        for number in range(4):
            feed.write([(SECOND, "a", 20_000 * number + i) for i in range(20_000)])
            panes += query.settle()
    assert [(pane.n, pane.ids) for pane in panes] == [
        (30_000, digest(list(range(first, first + 30_000)))) for first in (0, 30_000)
    ]


def test_a_pane_beyond_max_rows_is_an_error_with_the_pane(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", COLUMNS)
    feed.write([(SECOND * (i % 3600), "a", i) for i in range(25_000)])
    feed.flood()
    sliding = windowed(feed.stream(spark), Sliding("1 hour", "20 minutes"), by="k", time="ts")
    with (
        ClockedQuery(sliding.apply(contents, SEEN, max_rows=20_000), checkpoint=tmp_path / "checkpoint") as query,
        pytest.raises(UnsupportedError, match=r"The pane \[1970.* of k=a has more than 20000 rows"),
    ):
        query.settle()
