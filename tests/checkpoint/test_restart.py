"""Queries that stop and restart, batches that run twice, and checkpoints of other queries.

The random streams of test_differential.py compare restarted queries with undisturbed ones, for all state stores.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion import Early, IncompatibleStateError, Sliding, Tumbling, Watermark, read_panes, windowed
from tests.support.checked import SESSION_STATE_IN_ROCKSDB, Case, CheckedQuery, settings
from tests.support.clocked import ClockedQuery
from tests.support.models.model import SECOND, Row, Rules
from tests.support.models.session_model import SessionRules
from tests.support.streams import Feed

TEN = 10 * SECOND


def rows(first: int, *times: int) -> list[Row]:
    """Rows of three keys at each of these seconds."""
    at = [(key, time * SECOND) for time in times for key in ("a", "b", "c")]
    return [Row(first + i, key, time) for i, (key, time) in enumerate(at)]


def open_panes(query: CheckedQuery) -> list[str]:
    return sorted(map(repr, read_panes(query.checkpoint, spark=query.spark).collect()))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "case",
    [
        Case("tumbling", Rules(TEN, TEN, lateness=2 * SECOND, early=5 * SECOND, late="emit")),
        Case("sliding", Rules(TEN, 4 * SECOND, early=5 * SECOND, unchanged=True), conf=SESSION_STATE_IN_ROCKSDB),
        Case("sliding", Rules(TEN, 4 * SECOND, early=5 * SECOND, late="reopen")),
        Case("sessions", SessionRules(gap=5 * SECOND, delay=6 * SECOND, early=3 * SECOND, late="reopen")),
        Case("sessions", SessionRules(gap=5 * SECOND, lateness=4 * SECOND, early=5 * SECOND)),
    ],
    ids=lambda case: f"{case.name}, {case.rules.late}",
)
def test_a_batch_that_runs_again_fires_the_same_and_changes_nothing_twice(
    spark: SparkSession, tmp_path: Path, case: Case
) -> None:
    with CheckedQuery(spark, tmp_path, case) as query:
        query.write(rows(0, 1, 4, 12))
        query.settle()
        query.advance(3 * SECOND)
        query.write(rows(100, 2, 17, 23))
        query.settle()

        def repeat() -> None:
            before = open_panes(query)
            total = query.repeat_last_batch()[-1]["numRowsTotal"]
            assert open_panes(query) == before
            assert query.repeat_last_batch()[-1]["numRowsTotal"] == total, "nor when it runs a third time"
            assert open_panes(query) == before

        repeat()  # a batch without rows: the clock closed and fired panes
        query.write(rows(200, 3, 21, 22))
        query.settle()
        assert len(query.last) == 1
        # A batch with some late rows. The clock has advanced since, but the repeated batch keeps its clock.
        query.wall += 2 * SECOND
        repeat()
        query.advance(3 * SECOND)
        query.settle()
        query.write(rows(300, 31))
        query.settle()
        query.finish()


def test_a_query_that_was_not_running_has_not_waited_for_its_source(spark: SparkSession, tmp_path: Path) -> None:
    """A repeated batch without rows has the time at which it was planned, before the query was stopped."""
    feed = Feed(tmp_path / "in", "k string, n bigint")
    feed.write([(9_500 * SECOND, "a", 1)])
    window = Sliding("100 seconds", "50 seconds")

    def start(seconds: int) -> ClockedQuery:
        panes = windowed(feed.stream(spark), window, by="k", time="ts", clock=Watermark(idle_after="60 seconds"))
        counted = panes.agg(F.count("*").alias("n")).select(F.unix_timestamp("window.end").alias("end"))
        return ClockedQuery(counted, checkpoint=tmp_path / "checkpoint", start_ms=seconds * 1000)

    with start(10_000) as query:
        assert query.settle() == []
        query.advance("61 seconds")
        assert [row.end for row in query.settle()] == [9_550]
    commits = tmp_path / "checkpoint" / "commits"
    last = max(int(file.name) for file in commits.iterdir() if file.name.isdigit())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)
    with start(20_000) as query:
        assert [row.end for row in query.settle()] == [9_550]
        query.advance("59 seconds")
        assert query.settle() == []
        query.advance("1 second")
        assert [row.end for row in query.settle()] == [9_600]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("retained", [2, 5])
def test_a_query_by_the_wall_clock_starts_again_whatever_spark_still_lists(
    spark: SparkSession, tmp_path: Path, retained: int
) -> None:
    feed = Feed(tmp_path / "in", "k string")
    fired: list[int] = []
    for life in range(3):
        rows = spark.readStream.schema(feed.ddl).option("maxFilesPerTrigger", 1).parquet(str(feed.folder))
        panes = windowed(rows, Tumbling("10 seconds"), by="k", time=None).agg(F.count("*").alias("n"))
        with settings(spark, {"spark.sql.streaming.minBatchesToRetain": str(retained)}):
            query = ClockedQuery(panes.select("n"), checkpoint=tmp_path / "checkpoint", start_ms=100_000 * life)
        with query:
            for _ in range(8):
                feed.write([(0, "a")])
                query.advance("1 second")
                fired += [row.n for row in query.settle()]
            offsets = [int(file.name) for file in (tmp_path / "checkpoint" / "offsets").glob("[0-9]*")]
    assert 0 not in offsets, "Spark forgot the first batches"
    assert fired == [8, 8]


TUMBLING: dict[str, Any] = {
    "window": Tumbling("10 seconds"),
    "by": ["k"],
    "allowed_lateness": "1 minute",
    "early": None,
    "late": "drop",
    "aggregates": {"n": F.count, "total": F.sum},
}
SLIDING: dict[str, Any] = {**TUMBLING, "window": Sliding("10 seconds", "4 seconds"), "early": Early("5 seconds")}

CHANGES: list[tuple[str, dict[str, Any], dict[str, Any], str, str]] = [
    ("size", TUMBLING, {"window": Tumbling("20 seconds")}, "[tumbling 10 seconds]", "[tumbling 20 seconds]"),
    (
        "offset",
        TUMBLING,
        {"window": Tumbling("10 seconds", offset="1 second")},
        "[tumbling 10 seconds]",
        "[tumbling 10 seconds, offset 1 second]",
    ),
    (
        "kind",
        TUMBLING,
        {"window": Sliding("10 seconds", "4 seconds")},
        "[tumbling 10 seconds]",
        "[sliding 10 seconds every 4 seconds]",
    ),
    (
        "slide",
        SLIDING,
        {"window": Sliding("10 seconds", "5 seconds")},
        "[sliding 10 seconds every 4 seconds]",
        "[sliding 10 seconds every 5 seconds]",
    ),
    ("aggregate", TUMBLING, {"aggregates": {"n": F.count, "total": F.max}}, "sum(v) AS total", "max(v) AS total"),
    (
        "added aggregate",
        TUMBLING,
        {"aggregates": {"n": F.count, "total": F.sum, "most": F.max}},
        "[count(v) AS n, sum(v) AS total]",
        "[count(v) AS n, sum(v) AS total, max(v) AS most]",
    ),
    ("key", TUMBLING, {"by": ["l"]}, "[k STRING]", "[l STRING]"),
    ("added key", SLIDING, {"by": ["k", "l"]}, "[k STRING]", "[k STRING, l STRING]"),
    ("removed key", SLIDING, {"by": []}, "[k STRING]", "[]"),
    ("discarding", SLIDING, {"accumulate": False}, "[none]", "[each firing has the rows since the previous one]"),
    ("empty windows", SLIDING, {"empty": "emit"}, "[none]", "[windows without rows close too]"),
]


class Checkpoint:
    """A checkpoint of a query, over which the same query or another one starts."""

    def __init__(self, spark: SparkSession, folder: Path, written: dict[str, Any]) -> None:
        self.spark = spark
        self.path = folder / "checkpoint"
        self.feed = Feed(folder / "in", "k string, l string, v int")
        self.feed.write([(SECOND, "a", "x", 1), (11 * SECOND, "a", "y", 2), (3 * SECOND, "b", "x", 3)])
        self.run(written)

    def run(self, query: dict[str, Any]) -> list[Any]:
        with ClockedQuery(self.panes(query), checkpoint=self.path) as running:
            return running.settle()

    def panes(self, query: dict[str, Any]) -> DataFrame:
        arguments = {name: value for name, value in query.items() if name != "aggregates"}
        aggregates = [function("v").alias(name) for name, function in query["aggregates"].items()]
        return windowed(self.feed.stream(self.spark), time="ts", **arguments).agg(*aggregates)

    def files(self) -> dict[str, bytes]:
        """The contents of every file of the state."""
        files = sorted((self.path / "state").rglob("*"))
        return {str(file.relative_to(self.path)): file.read_bytes() for file in files if file.is_file()}


@pytest.fixture(scope="module", params=["tumbling", "sliding"])
def checkpoint(request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Any:
    written = {"tumbling": TUMBLING, "sliding": SLIDING}[request.param]
    checkpoint = Checkpoint(spark, tmp_path_factory.mktemp(request.param), written)
    # The batch that a changed query must not run.
    checkpoint.feed.write([(12 * SECOND, "a", "x", 4)])
    return written, checkpoint


def test_a_changed_query_over_an_old_checkpoint_is_rejected_with_both_and_nothing_is_overwritten(
    checkpoint: tuple[dict[str, Any], Checkpoint],
) -> None:
    written, old = checkpoint
    files = old.files()
    for what, of, change, before, now in CHANGES:
        if of is not written:
            continue
        with pytest.raises(IncompatibleStateError) as refused:
            old.run({**written, **change})
        message = str(refused.value)
        assert before in message, what
        assert now in message.split(before)[1], what
        assert "Nothing was overwritten" in message, what
        assert "new checkpointLocation" in message, what
        assert old.files() == files, what


@pytest.mark.sampled(2)
@pytest.mark.parametrize("query", [TUMBLING, SLIDING], ids=["tumbling", "sliding"])
def test_an_added_aggregate_is_rejected(spark: SparkSession, tmp_path: Path, query: dict[str, Any]) -> None:
    old = Checkpoint(spark, tmp_path, query)
    old.feed.write([(12 * SECOND, "a", "x", 4)])
    files = old.files()
    with pytest.raises(IncompatibleStateError, match=r"aggregates was .* and is now .* AS most\]"):
        old.run({**query, "aggregates": {**query["aggregates"], "most": F.max}})
    assert old.files() == files
    old.feed.flood()
    assert len({(row.k, row.window) for row in old.run(query) if row.pane.firing == "close"}) > 2


@pytest.mark.parametrize("query", [TUMBLING, SLIDING], ids=["tumbling", "sliding"])
def test_a_renamed_result_continues_and_open_panes_have_the_new_name(
    spark: SparkSession, tmp_path: Path, query: dict[str, Any]
) -> None:
    old = Checkpoint(spark, tmp_path, query)
    renamed = {{"total": "sum"}.get(name, name): function for name, function in query["aggregates"].items()}
    old.feed.write([(12 * SECOND, "a", "x", 4)])
    old.run({**query, "aggregates": renamed})
    open_panes = read_panes(old.path, spark=spark)
    assert {"n", "sum"} < set(open_panes.columns)
    assert "total" not in open_panes.columns
    # 1 and 3 in the first window, 2 and 4 in the second: rows from before the change still count.
    assert {row["sum"] for row in open_panes.collect()} >= {6}


def test_a_query_that_is_changed_back_continues(checkpoint: tuple[dict[str, Any], Checkpoint]) -> None:
    written, old = checkpoint
    old.feed.flood()
    # The handling of late rows is not part of the state and may change.
    closed = [row for row in old.run({**written, "late": "emit"}) if row.pane.firing == "close"]
    last = {(row.k, row.window.start.second): (row.n, row.total) for row in closed}
    if written is TUMBLING:
        assert last == {("a", 0): (1, 1), ("b", 0): (1, 3), ("a", 10): (2, 6)}
    else:
        a = {52: (1, 1), 56: (1, 1), 0: (1, 1), 4: (2, 6), 8: (2, 6), 12: (1, 4)}
        b = {56: (1, 3), 0: (1, 3)}
        assert last == {("a", s): v for s, v in a.items()} | {("b", s): v for s, v in b.items()}
