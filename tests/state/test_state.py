"""The state of a query: read as panes, and the part of it that a batch reads."""

from __future__ import annotations

from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion import (
    Early,
    IncompatibleStateError,
    InvalidArgumentError,
    Session,
    Sliding,
    Tumbling,
    UnsupportedError,
    read_panes,
    windowed,
)
from tests.support.checked import Case, CheckedQuery, bounds_of
from tests.support.clocked import ClockedQuery
from tests.support.models.model import SECOND, Row, Rules
from tests.support.models.session_model import SessionRules
from tests.support.stores import PARTITIONS, records
from tests.support.streams import FLOOD, Feed, batches_of

TEN = 10 * SECOND


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "rules",
    [
        Rules(TEN, TEN, lateness=4 * SECOND, early=3 * SECOND),
        Rules(TEN, TEN, offset=SECOND, late="emit"),
        Rules(TEN, 4 * SECOND, lateness=4 * SECOND, early=3 * SECOND, unchanged=True),
        Rules(12 * SECOND, 3 * SECOND, delay=2 * SECOND, late="reopen"),
        SessionRules(gap=5 * SECOND, delay=8 * SECOND, late="emit"),
        SessionRules(gap=5 * SECOND, gaps=(6 * SECOND, None, SECOND), lateness=4 * SECOND, early=3 * SECOND),
    ],
    ids=["tumbling, early", "tumbling", "sliding, early", "sliding", "sessions", "sessions, a gap per row, early"],
)
def test_the_open_panes_are_read_while_the_query_runs_and_nothing_is_written(
    spark: SparkSession, tmp_path: Path, rules: Rules | SessionRules
) -> None:
    with CheckedQuery(spark, tmp_path, Case("panes", rules, keys="text")) as query:
        for first in (0, 7, 26):  # before the epoch too; panes close, keys come and go
            times = [(first + i) * SECOND for i in range(-12, 6)]
            query.write([Row(1000 * first + i, f"key {i % 5}" if i % 5 else None, t) for i, t in enumerate(times)])
            reports = query.settle()
            files = sorted(query.checkpoint.rglob("*"))
            panes = read_panes(query.checkpoint, spark=spark)
            assert panes.columns == ["k", "window", "ids"]
            read = {(r.k, r.start, r.end): r.ids for r in panes.select("k", *bounds_of("window"), "ids").collect()}
            assert read == {(key, start, pane.end): sorted(pane.ids) for (key, start), pane in query.model.open.items()}
            assert sorted(query.checkpoint.rglob("*")) == files
            kinds = records(spark, query.checkpoint)
            own = {kind: n for kind, n in kinds.items() if kind != "totals"}
            assert reports[-1]["numRowsTotal"] == sum(own.values()), kinds


def test_aggregates_are_read_back_from_their_text(spark: SparkSession, tmp_path: Path) -> None:
    """Names, literals, types and expressions written as SQL have the same meaning when they are read again."""
    feed = Feed(tmp_path / "in", "`the key` string, s struct<a: int, `b c`: string>, v int, d decimal(10, 2), day date")
    stream = feed.stream(spark).withColumnRenamed("v", "a.v")
    day = date(2024, 2, 29)
    feed.write(
        [
            (SECOND, "it's", {"a": 1, "b c": 'say "x"'}, 10, None, day),
            (2 * SECOND, "it's", {"a": 2, "b c": "back`tick"}, 20, None, day),
            (3 * SECOND, None, {"a": 3, "b c": "\\ and \n"}, None, None, None),
        ]
    )
    v = F.col("`a.v`")
    panes = windowed(
        stream,
        Tumbling("10 seconds"),
        by=[F.upper("the key").alias("THE KEY"), (F.col("s.a") > 2).alias("big")],
        time="ts",
    ).agg(
        (F.sum(v) / F.count(F.lit(1))).alias("mean `of` v"),
        F.max_by(F.col("s").getField("b c"), v).alias("text"),
        F.expr("count_if(`the key` = 'it\\'s' AND s.`b c` LIKE '%\"%')").alias("quoted"),
        F.expr("sum(`a.v`) FILTER (WHERE s.a >= 2)").alias("some"),
        F.sum(v.cast("decimal(12,3)") * F.lit("1.5").cast("decimal(3,1)")).alias("decimals"),
        F.min(F.date_format("ts", "yyyy-MM-dd HH:mm")).alias("at"),
        F.max(F.when(F.col("day") == F.lit(day), "leap").otherwise("no")).alias("day"),
        F.sort_array(F.collect_set(F.concat_ws("\n", "the key", F.lit("\\'")))).alias("set"),
        F.percentile_approx(v, [0.5, 1.0]).alias("percentiles"),
    )
    with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:
        query.settle()
    expected = feed.batch(spark).withColumnRenamed("v", "a.v")
    keys = [F.upper("the key").alias("THE KEY"), (F.col("s.a") > 2).alias("big")]
    read = read_panes(tmp_path / "checkpoint", spark=spark)
    assert read.columns == [name for name in panes.columns if name != "pane"]
    first = read.where("big = false").collect()[0].asDict(True)
    del first["window"]
    assert first == {
        "THE KEY": "IT'S",
        "big": False,
        "mean `of` v": 15.0,
        "text": "back`tick",
        "quoted": 1,
        "some": 20,
        "decimals": 45,
        "at": "1970-01-01 00:00",
        "day": "leap",
        "set": ["it's\n\\'"],
        "percentiles": [10, 20],
    }
    assert read.where("big").count() == 1
    assert expected.groupBy(*keys).count().count() == 2
    # The query's own DataFrame gives the same.
    assert read_panes(tmp_path / "checkpoint", panes=panes, spark=spark).collect() == read.collect()


def test_aggregates_without_text_are_read_with_the_querys_own_dataframe(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "v int")
    doubled = F.max(F.transform(F.array("v"), lambda x: x * 2)).alias("doubled")
    panes = windowed(feed.stream(spark), Tumbling("10 seconds"), time="ts").agg(doubled)
    feed.write([(SECOND, 1), (6 * SECOND, 2)])
    with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:
        query.settle()
    with pytest.raises(UnsupportedError, match=r"Pass the query's own DataFrame as panes="):
        read_panes(tmp_path / "checkpoint", spark=spark)
    assert [row.doubled for row in read_panes(tmp_path / "checkpoint", panes=panes).collect()] == [[4]]


def test_expressions_over_aggregates_are_read_back_under_their_names(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "k string, v int")
    total, plus = F.sum("v"), F.udf(lambda n: n and n + 1000, "bigint")
    shown = {
        "a UDF": [
            plus(total).alias("more"),
            total.alias("s"),
            plus(F.expr("count(v) FILTER (WHERE v > 1)")).alias("n"),
        ],
        "the batch's time": [F.when(F.current_timestamp() > F.max("ts"), total).alias("s"), F.col("k").alias("key")],
    }
    for late in ("drop", "emit"):
        for name, aggregates in shown.items():
            checkpoint = tmp_path / f"{name} {late}"
            panes = windowed(feed.stream(spark), Session("10 seconds"), by="k", time="ts", late=late).agg(*aggregates)
            if not list((tmp_path / "in").glob("*.parquet")):
                feed.write([(SECOND, "a", 1), (6 * SECOND, "a", 2)])
            with ClockedQuery(panes, checkpoint=checkpoint) as query:
                query.settle()
            read = read_panes(checkpoint, panes=panes)
            assert read.columns == [c for c in panes.columns if c not in ("pane", "late_row")]
            (row,) = read.drop("window").collect()
            assert row.asDict() == (
                {"k": "a", "more": 1003, "s": 3, "n": 1001} if name == "a UDF" else {"k": "a", "s": 3, "key": "a"}
            )
    assert read_panes(checkpoint, spark=spark).collect() == read.collect(), "the time of a batch has a text"


def test_windows_over_the_whole_stream_are_read_without_a_key(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "v int")
    panes = windowed(feed.stream(spark), Sliding("10 seconds", "5 seconds"), time="ts").agg(F.sum("v").alias("v"))
    feed.write([(SECOND, 1), (6 * SECOND, 2)])
    with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:
        query.settle()
    read = read_panes(tmp_path / "checkpoint", spark=spark)
    assert read.columns == ["window", "v"]
    rows = read.select(*bounds_of("window"), "v").orderBy("start").collect()
    assert [(r.start // SECOND, r.v) for r in rows] == [(0, 3), (5, 2)]


@pytest.fixture(scope="module")
def two_windows(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, DataFrame]:
    """A checkpoint with two of our operators, and one of Spark's between them."""
    folder = tmp_path_factory.mktemp("two windows")
    feed = Feed(folder / "in", "k string, id bigint")
    seconds = windowed(feed.stream(spark), Tumbling("10 seconds"), by="k", time="ts").agg(F.count("*").alias("n"))
    lines = seconds.dropDuplicates(["k", "window"])
    minutes = windowed(lines, Tumbling("1 minute"), by="k", time="window").agg(F.sum("n").alias("n"))
    with ClockedQuery(minutes, checkpoint=folder / "checkpoint") as query:
        feed.write([(SECOND, "a", 1), (2 * SECOND, "a", 2), (11 * SECOND, "b", 3), (25 * SECOND, "b", 4)])
        query.settle()
    return folder / "checkpoint", minutes


def test_one_operator_of_several_is_read_by_its_number(
    spark: SparkSession, two_windows: tuple[Path, DataFrame]
) -> None:
    checkpoint, _ = two_windows
    operators = spark.read.format("state-metadata").load(str(checkpoint))
    ours = sorted(r.operatorId for r in operators.where("operatorName = 'mullionWindow'").distinct().collect())
    assert len(set(ours)) == 2
    last, first = ours[0], ours[-1]
    small = read_panes(checkpoint, operator=first, spark=spark).select("k", *bounds_of("window"), "n").collect()
    large = read_panes(checkpoint, operator=last, spark=spark).select("k", *bounds_of("window"), "n").collect()
    assert [(r.k, r.start // SECOND, r.end // SECOND, r.n) for r in small] == [("b", 20, 30, 1)]
    assert sorted((r.k, r.start, r.end // SECOND, r.n) for r in large) == [("a", 0, 60, 2), ("b", 0, 60, 1)]


def test_of_several_operators_one_must_be_named(spark: SparkSession, two_windows: tuple[Path, DataFrame]) -> None:
    with pytest.raises(
        InvalidArgumentError, match=r"several windows: give the number of one as operator=.*tumbling 10 seconds"
    ):
        read_panes(two_windows[0], spark=spark)


@pytest.mark.parametrize("number", [1, 7])
def test_an_operator_that_is_no_window_is_rejected_with_those_that_are(
    spark: SparkSession, two_windows: tuple[Path, DataFrame], number: int
) -> None:
    with pytest.raises(
        InvalidArgumentError, match=rf"Operator {number} of .* is not a window of Mullion's; there is 0, 2"
    ):
        read_panes(two_windows[0], operator=number, spark=spark)


def test_a_checkpoint_without_state_is_rejected(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"no state in .*Give the checkpointLocation"):
        read_panes(tmp_path, spark=spark)


def test_a_checkpoint_without_a_window_is_rejected(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "k string")
    feed.write([(SECOND, "a")])
    with ClockedQuery(feed.stream(spark).dropDuplicates(["k"]), checkpoint=tmp_path / "checkpoint") as query:
        query.settle()
    with pytest.raises(InvalidArgumentError, match=r"No operator in .* is a window"):
        read_panes(tmp_path / "checkpoint", spark=spark)


def test_another_querys_dataframe_is_rejected_with_the_difference(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "k string")
    feed.write([(SECOND, "a")])
    panes = [
        windowed(feed.stream(spark), Tumbling(size), by="k", time="ts").agg(F.count("*").alias("n"))
        for size in ("1 minute", "1 hour")
    ]
    with ClockedQuery(panes[0], checkpoint=tmp_path / "checkpoint") as query:
        query.settle()
    assert read_panes(tmp_path / "checkpoint", panes=panes[0]).count() == 1
    with pytest.raises(
        IncompatibleStateError, match=r"window was \[tumbling 1 minute\] and is now \[tumbling 1 hour\]"
    ):
        read_panes(tmp_path / "checkpoint", panes=panes[1])
    with pytest.raises(InvalidArgumentError, match="not a result of windowed"):
        read_panes(tmp_path / "checkpoint", panes=feed.batch(spark))


# What a batch may read whatever it does: in each partition the totals, and where a scan finds that no more is due.
A_FEW = 3 * PARTITIONS


class Work:
    """A query over many keys, and how many records of state each batch of it reads."""

    def __init__(self, spark: SparkSession, folder: Path, **options: Any) -> None:
        self.feed = Feed(folder / "in", "k int")
        options = {"by": "k", "time": "ts", **options}
        self.panes = windowed(self.feed.stream(spark), **options).agg(F.count("*").alias("n"))
        self.checkpoint = folder / "checkpoint"
        self.reports = 0

    @cached_property
    def query(self) -> ClockedQuery:
        """Starts with the first rows there: one with early firings runs a batch at its start."""
        return ClockedQuery(self.panes, checkpoint=self.checkpoint)

    def batches(self, rows: list[tuple[int, int | None]] | None = None) -> list[dict[str, Any]]:
        """Runs the batches that there are to run; rows are (second, key)."""
        if rows is not None:
            self.feed.write([(second * SECOND, key) for second, key in rows])
        self.query.settle()
        reports = batches_of(self.query)[self.reports :]
        self.reports += len(reports)
        return reports

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.query.stop()


def test_closing_reads_the_panes_that_close(spark: SparkSession, tmp_path: Path) -> None:
    keys, windows = 100, 20
    with Work(spark, tmp_path, window=Tumbling("10 seconds"), allowed_lateness="1 hour") as work:
        rows, *rest = work.batches([(10 * w, k) for w in range(windows) for k in range(keys)])
        assert rows["panesOpen"] == keys * windows
        assert rows["stateRowsRead"] <= A_FEW, "new panes are not looked for among the old"
        assert rest == []

        # Three windows of all keys close; the others stay.
        _, closing = work.batches([(3600 + 30, None)])
        assert closing["firingsClose"] == 3 * keys
        assert closing["panesOpen"] == keys * (windows - 3) + 1
        assert 3 * keys <= closing["stateRowsRead"] <= 3 * keys + A_FEW

        # One pane gets rows; none closes.
        (touched,) = work.batches([(190, 1)] * 50)
        assert touched["stateRowsRead"] <= 1 + A_FEW

        # A batch with nothing to do.
        (idle,) = work.batches([(0, 1)])
        assert (idle["rowsLate"], idle["firingsClose"]) == (1, 0)
        assert idle["stateRowsRead"] <= A_FEW


def test_early_firing_reads_the_panes_that_fire(spark: SparkSession, tmp_path: Path) -> None:
    keys, windows = 100, 20
    early = Early("1 minute")
    arguments = {"window": Tumbling("10 seconds"), "allowed_lateness": "1 hour", "early": early}
    with Work(spark, tmp_path, **arguments) as work:
        work.batches([(10 * w, k) for w in range(windows) for k in range(keys)])
        work.query.advance("1 minute")
        (first,) = work.batches()
        assert first["firingsEarly"] == keys * windows
        # Of all open panes seven change, and each is read once for its row, and with its place in the queue to fire.
        (changed,) = work.batches([(10 * w, w) for w in range(7)])
        assert changed["stateRowsRead"] <= 7 + A_FEW
        work.query.advance("1 minute")
        (fired,) = work.batches()
        assert fired["firingsEarly"] == 7
        assert 2 * 7 <= fired["stateRowsRead"] <= 2 * 7 + A_FEW
        # Nothing changed: nothing fires, and no batch runs for it.
        work.query.advance("1 hour")
        assert work.batches() == []
        (idle,) = work.batches([(-7200, 1)])
        assert idle["stateRowsRead"] <= A_FEW


def test_sliding_windows_read_the_slices_of_the_panes_that_close(spark: SparkSession, tmp_path: Path) -> None:
    # Slices 0 to 7 and 8 to 11 of a key have a record each.
    keys, seconds, records = 40, 120, 2
    with Work(spark, tmp_path, window=Sliding("60 seconds", "10 seconds")) as work:
        rows, closing = work.batches([(s, k) for s in range(5, seconds, 10) for k in range(keys)])
        assert rows["panesOpen"] == keys * (12 + 5)
        assert rows["stateRowsRead"] <= A_FEW, "a new key is written once, however many rows it has"
        # The clock is at 115: the panes of each key that end by 110 close, which are eleven over eleven slices.
        # A record of which some slices close and others do not is looked at once more.
        assert closing["firingsClose"] == keys * 11
        assert closing["stateRowsRead"] <= keys * (records + 1 + 2) + A_FEW

        # Then one pane more of each key: its slices, the key's record and its timer.
        _, one = work.batches([(120, None)])
        assert one["firingsClose"] == keys
        assert keys * records <= one["stateRowsRead"] <= keys * (records + 1 + 2) + A_FEW

        # One key gets a row in an open slice: its record and that slice.
        (touched,) = work.batches([(111, 1)])
        assert touched["stateRowsRead"] <= 2 + A_FEW

        # A batch with nothing to do.
        (idle,) = work.batches([(1, 1)])
        assert idle["rowsLate"] == 1
        assert idle["stateRowsRead"] <= A_FEW

        # At the end each slice is read once, however many panes it is in, and each record is looked at before it goes.
        work.feed.write([(FLOOD, None)])
        *_, last = work.batches()
        assert (last["panesOpen"], last["numRowsTotal"]) == (0, 0)
        assert last["stateRowsRead"] <= keys * (records + records + 2) + 3 + A_FEW


def test_sliding_windows_read_the_slices_of_the_panes_that_fire_early(spark: SparkSession, tmp_path: Path) -> None:
    keys = 40
    arguments = {"window": Sliding("60 seconds", "10 seconds"), "early": Early("5 minutes")}
    with Work(spark, tmp_path, allowed_lateness="1 hour", **arguments) as work:
        work.batches([(s, k) for s in range(5, 300, 10) for k in range(keys)])
        work.query.advance("5 minutes")
        (fired,) = work.batches()
        assert fired["firingsEarly"] == keys * (30 + 5)
        # Two keys change in one slice, which is in six panes over eleven slices, in two records.
        (changed,) = work.batches([(155, 1), (157, 2)])
        assert changed["stateRowsRead"] <= 2 * 2 + A_FEW
        work.query.advance("5 minutes")
        (again,) = work.batches()
        assert again["firingsEarly"] == 2 * 6
        assert again["stateRowsRead"] <= 2 * (2 + 2) + A_FEW
        work.query.advance("1 hour")
        assert work.batches() == []
