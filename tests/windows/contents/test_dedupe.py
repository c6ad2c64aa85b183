"""``dedupe_by=``: rows of a pane with the same id count once, compared with plain Python; and unsupported options."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion import Session, Sliding, Tumbling, windowed
from mullion.errors import IncompatibleStateError, InvalidArgumentError, UnknownColumnError, UnsupportedError
from mullion.windows import Window
from tests.support.clocked import ClockedQuery
from tests.support.streams import FLOOD, SECOND, Feed

COLUMNS = "k string, id bigint, v bigint"
Row = tuple[int, str, int, int]
Pane = tuple[str, int, int, int, list[int]]

WINDOWS: list[Window] = [Tumbling("10 seconds"), Sliding("20 seconds", "5 seconds"), Session("4 seconds")]


def panes_of(rows: DataFrame, window: Window, **options: Any) -> DataFrame:
    arguments: dict[str, Any] = {"by": "k", "time": "ts", "dedupe_by": "id", **options}
    panes = windowed(rows, window, **arguments).agg(F.sum("v").alias("total"), F.collect_list("v").alias("vs"))
    bounds = [F.unix_micros(F.col("window")[name]).alias(name) for name in ("start", "end")]
    return panes.select("k", *bounds, "total", "vs")


def bounds_of(window: Window, rows: list[Row]) -> set[tuple[int, int]]:
    """The windows of one key without late rows."""
    if isinstance(window, Session):
        bounds: list[tuple[int, int]] = []
        for time in sorted(row[0] for row in rows):
            if bounds and time <= bounds[-1][1]:
                bounds[-1] = bounds[-1][0], time + 4 * SECOND
            else:
                bounds.append((time, time + 4 * SECOND))
        return set(bounds)
    size, slide = (10, 10) if isinstance(window, Tumbling) else (20, 5)
    starts = {
        first - i * slide * SECOND
        for time, *_ in rows
        for first in (time // (slide * SECOND) * slide * SECOND,)
        for i in range(size // slide)
    }
    return {(start, start + size * SECOND) for start in starts}


def wanted_of(window: Window, rows: list[Row]) -> list[Pane]:
    panes = []
    for key in {row[1] for row in rows}:
        own = [row for row in rows if row[1] == key]
        for start, end in bounds_of(window, own):
            firsts: dict[int, int] = {}
            for time, _, id_, v in own:
                if start <= time < end:
                    firsts.setdefault(id_, v)
            if firsts:
                panes.append((key, start, end, sum(firsts.values()), list(firsts.values())))
    return sorted(panes)


def values_of(panes: list[Any]) -> list[Pane]:
    return sorted((row.k, row.start, row.end, row.total, list(row.vs)) for row in panes)


@pytest.mark.parametrize("window", WINDOWS, ids=[type(w).__name__ for w in WINDOWS])
def test_panes_hold_the_first_row_of_each_id_and_leave_nothing_behind(
    spark: SparkSession, tmp_path: Path, window: Window
) -> None:
    chance = random.Random(f"{window}")
    feed = Feed(tmp_path / "in", COLUMNS)
    rows: list[Row] = []

    def started() -> ClockedQuery:
        return ClockedQuery(panes_of(feed.stream(spark, "60 seconds"), window), checkpoint=tmp_path / "at")

    query = started()
    try:
        got: list[Any] = []
        for number in range(8):
            # A few ids over a minute, so that most repeat with other values, in the same window or another one.
            some = [
                (chance.randrange(60) * SECOND, chance.choice("ab"), chance.randrange(6), chance.randrange(1000))
                for _ in range(12)
            ]
            feed.write(some)
            rows += some
            if number == 4:
                query.stop()
                query = started()
            got += query.settle()
        feed.write([(FLOOD, None, None, None)])
        got += query.settle()
        assert values_of(got) == wanted_of(window, rows)
        assert Counter(row[2] for row in rows).most_common(1)[0][1] > 1
        assert int(query.progress[-1]["stateOperators"][0]["numRowsTotal"]) == 0
    finally:
        query.stop()


@pytest.mark.parametrize("window", [Tumbling("10 seconds"), Session("10 seconds")])
def test_ids_in_chunks_count_once_when_the_pane_fires(spark: SparkSession, tmp_path: Path, window: Window) -> None:
    feed = Feed(tmp_path / "in", COLUMNS)
    query = ClockedQuery(panes_of(feed.stream(spark), window), checkpoint=tmp_path / "at")
    try:
        for batch in range(4):
            # Half of them are of the previous batch; 2,000 need more than a chunk.
            feed.write([(SECOND, "a", batch * 1000 + i, batch + 1) for i in range(2000)])
            query.settle()
        feed.write([(30 * SECOND, "b", 1, 1)])
        (pane,) = query.settle()
        assert len(pane.vs) == 5000
        assert pane.total == 2000 * 1 + 1000 * (2 + 3 + 4)
        assert int(query.progress[-1]["stateOperators"][0]["customMetrics"]["panesOpen"]) == 1
        assert int(query.progress[-1]["stateOperators"][0]["numRowsTotal"]) <= 3
    finally:
        query.stop()


def test_a_batch_returns_the_closing_results_of_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", COLUMNS)
    chance = random.Random(1)
    # The rows of one file keep their order.
    rows = [
        (chance.randrange(60) * SECOND, chance.choice("ab"), chance.randrange(6), chance.randrange(1000))
        for _ in range(80)
    ]
    feed.write(rows)
    for window in (Tumbling("10 seconds"), Sliding("20 seconds", "5 seconds"), Session("4 seconds")):
        assert values_of(panes_of(feed.batch(spark), window).collect()) == wanted_of(window, rows), window


def test_a_query_with_other_ids_is_rejected_by_the_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", COLUMNS)
    feed.write([(SECOND, "a", 1, 1)])

    def run(**options: Any) -> None:
        panes = panes_of(feed.stream(spark), Tumbling("10 seconds"), **options)
        writer = panes.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "at"))
        writer.trigger(availableNow=True).start().awaitTermination()

    run()
    feed.write([(2 * SECOND, "a", 1, 1)])
    with pytest.raises(IncompatibleStateError, match=r"dedupe_by was \[id\] and is now \[id, v\]"):
        run(dedupe_by=["id", "v"])
    with pytest.raises(IncompatibleStateError, match=r"dedupe_by was \[id\] and is now \[none\]"):
        run(dedupe_by=())
    run()


def test_an_unsupported_id_is_rejected(spark: SparkSession, tmp_path: Path) -> None:
    rows = Feed(tmp_path / "in", COLUMNS).stream(spark)
    with pytest.raises(UnknownColumnError, match=r"dedupe_by='ids': .* Did you mean 'id'\?"):
        panes_of(rows, Tumbling("10 seconds"), dedupe_by="ids")
    with pytest.raises(InvalidArgumentError, match=r"dedupe_by=5 \(int\)"):
        panes_of(rows, Tumbling("10 seconds"), dedupe_by=5)
    with pytest.raises(InvalidArgumentError, match="differs each time that it is computed"):
        panes_of(rows, Tumbling("10 seconds"), dedupe_by=F.rand())
    with pytest.raises(UnsupportedError, match="collation"):
        panes_of(rows, Tumbling("10 seconds"), dedupe_by=F.expr("collate(k, 'UTF8_LCASE')"))


def test_explain_shows_that_rows_count_once(spark: SparkSession, tmp_path: Path) -> None:
    panes = panes_of(Feed(tmp_path / "in", COLUMNS).stream(spark), Tumbling("10 seconds"), dedupe_by=["id", "v"])
    query: Any = panes._jdf
    assert "rows of a pane with the same id, v count once" in query.queryExecution().analyzed().toString()
