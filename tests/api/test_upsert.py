"""Tables of the last firings of panes: after every batch they equal a batch query over the same rows."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

import mullion
from mullion import (
    Early,
    InvalidArgumentError,
    JdbcTable,
    ParquetTable,
    Session,
    Sliding,
    Tumbling,
    UnsupportedError,
    Upgrade,
    changelog,
    together,
    upsert,
    windowed,
)
from mullion.tables import DeltaTable, Table
from mullion.windows import Window
from tests.support.seeds import SEED
from tests.support.streams import SECOND, Feed

COLUMNS = "k string, v bigint"
SESSIONS = Session("10 seconds")


def derby(folder: Path) -> JdbcTable:
    return JdbcTable(f"jdbc:derby:{folder / 'database'};create=true", "visits")


@pytest.fixture(params=["parquet", "jdbc"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    return derby(tmp_path) if request.param == "jdbc" else ParquetTable(str(tmp_path / "table"))


def panes_of(rows: DataFrame, window: Window = SESSIONS, *, late: Any = "drop") -> DataFrame:
    return windowed(rows, window, by="k", time="ts", early=Early(count=1), late=late, ids=True).agg(*aggregates())


def aggregates() -> list[Column]:
    return [F.count("*").alias("n"), F.sum("v").alias("total")]


def shown(rows: DataFrame | None) -> Counter[tuple[Any, ...]]:
    """The columns of panes that do not depend on batches."""
    assert rows is not None
    bounds = [F.unix_micros("window_start"), F.unix_micros("window_end")]
    return Counter(tuple(row) for row in rows.select("k", *bounds, "n", "total").collect())


class Running:
    """A query that keeps a table, stopped and started at will."""

    def __init__(
        self, panes: DataFrame, table: Table, folder: Path, **more: Callable[[DataFrame, int], object]
    ) -> None:
        self.panes, self.table, self.checkpoint, self.more = panes, table, folder / "checkpoint", more
        self.query = self.start()

    def start(self) -> StreamingQuery:
        return (
            upsert(self.panes, into=self.table, **self.more).option("checkpointLocation", str(self.checkpoint)).start()
        )

    def settle(self) -> DataFrame:
        self.query.processAllAvailable()
        table_rows = self.table.read(self.panes.sparkSession)
        assert table_rows is not None
        return table_rows

    def restart(self) -> None:
        self.query.stop()
        self.query = self.start()

    def repeat_last_batch(self) -> None:
        """As if it had been killed when all was written but that the batch is done."""
        self.query.stop()
        last = max(int(file.name) for file in (self.checkpoint / "commits").iterdir() if file.name.isdigit())
        for name in (str(last), f".{last}.crc"):
            (self.checkpoint / "commits" / name).unlink(missing_ok=True)
        self.query = self.start()


def random_batch(rng: random.Random, keys: Sequence[str | None], reach: int) -> list[tuple[int, str | None, int]]:
    """Rows of each key at its own pace: some far apart, some between others."""
    rows = []
    for key in keys:
        for _ in range(rng.randrange(4)):
            rows.append((rng.randrange(reach) * SECOND // 2, key, rng.randrange(100)))
    return rows


@pytest.mark.sampled(2)
@pytest.mark.parametrize("window", [SESSIONS, Sliding("10 seconds", "4 seconds")], ids=["session", "sliding"])
def test_a_table_equals_a_batch_query_over_the_same_rows_after_every_batch(
    window: Window, table: Table, spark: SparkSession, tmp_path: Path
) -> None:
    seed = SEED
    rng = random.Random(seed)
    keys = [None, *(f"key {i}" for i in range(40))]
    feed = Feed(tmp_path / "in", COLUMNS)
    feed.write(random_batch(rng, keys, 200))
    # No row is late.
    running = Running(panes_of(feed.stream(spark, "1 hour"), window), table, tmp_path)
    ids_so_far: set[tuple[str | None, str]] = set()
    try:
        for batch in range(5):
            if batch:
                feed.write(random_batch(rng, keys, 200))
            if batch == 2:
                running.restart()
            if batch == 3:
                running.settle()
                running.repeat_last_batch()
            table_rows = running.settle()
            expected = mullion.flat(panes_of(feed.batch(spark), window))
            assert shown(table_rows) == shown(expected), f"seed {seed}, batch {batch}"
            now = {(row.k, row.pane_id) for row in table_rows.collect()}
            assert len(now) == table_rows.count()
            ids_so_far |= now
        if window == SESSIONS:
            assert ids_so_far - now, f"seed {seed}: no session became part of another"
    finally:
        running.query.stop()


def test_the_row_of_a_closed_pane_stays_next_to_the_row_of_the_reopened_pane(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed = Feed(tmp_path / "in", COLUMNS)
    table = ParquetTable(str(tmp_path / "table"))
    feed.write([(1 * SECOND, "a", 1), (50 * SECOND, "b", 2)])
    running = Running(panes_of(feed.stream(spark), late="reopen"), table, tmp_path)
    try:
        running.settle()
        for value in (4, 8):
            feed.write([(2 * SECOND, "a", value)])
            running.settle()
        running.repeat_last_batch()
        table_rows = running.settle()
        closes = {(row.k, row.pane_firing, row.total) for row in table_rows.collect()}
        assert closes == {("a", "close", 1), ("b", "early", 2), ("a", "close", 4), ("a", "close", 8)}
        ids = [row.pane_id for row in table_rows.where("k = 'a'").collect()]
        assert len(set(ids)) == 3
    finally:
        running.query.stop()


def test_late_rows_go_where_they_are_sent_and_the_table_has_all_others(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", COLUMNS)
    table = ParquetTable(str(tmp_path / "table"))
    late: dict[int, list[int]] = {}
    feed.write([(1 * SECOND, "a", 1), (50 * SECOND, "b", 2)])

    def keep(rows: DataFrame, batch: int) -> None:
        late[batch] = [row.v for row in rows.collect()]

    running = Running(panes_of(feed.stream(spark), late="emit"), table, tmp_path, late=keep)
    try:
        running.settle()
        feed.write([(2 * SECOND, "a", 4), (51 * SECOND, "b", 8)])
        table_rows = running.settle()
        assert {(row.k, row.total) for row in table_rows.collect()} == {("a", 1), ("b", 10)}
        assert [values for values in late.values() if values] == [[4]]
    finally:
        running.query.stop()


def test_several_windows_share_a_table_with_their_names(table: Table, spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", COLUMNS)
    feed.write([(20 * SECOND, "a", 1), (36 * SECOND, "a", 2)])
    stream = feed.stream(spark, "1 minute")
    running = Running(together(tens=panes_of(stream, Tumbling("10 seconds")), visits=panes_of(stream)), table, tmp_path)
    try:
        running.settle()
        feed.write([(28 * SECOND, "a", 4)])
        table_rows = running.settle()
        ascending = sorted((row.window_name, row.pane_id, row.total) for row in table_rows.collect())
        assert ascending == [("tens", "20000000", 5), ("tens", "30000000", 2), ("visits", "20000000", 7)]
    finally:
        running.query.stop()


def test_the_changes_of_a_batch_include_the_previous_rows(table: Table, spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", COLUMNS)
    recorded: dict[int, list[tuple[Any, ...]]] = {}

    def keep(rows: DataFrame, batch: int) -> None:
        assert rows.columns[:2] == ["change", "k"]
        recorded[batch] = sorted((row.change, row.pane_id, row.total) for row in rows.collect())

    feed.write([(20 * SECOND, "a", 1), (36 * SECOND, "a", 2)])
    running = Running(panes_of(feed.stream(spark, "1 minute")), table, tmp_path, changes=keep)
    try:
        running.settle()
        feed.write([(28 * SECOND, "a", 4)])
        running.settle()
        running.repeat_last_batch()
        running.settle()
        assert recorded[0] == [("insert", "20000000", 1), ("insert", "36000000", 2)]
        # The last time, there was no more to change.
        assert recorded[1] == []
        feed.write([(24 * SECOND, "a", 8)])
        running.settle()
        assert recorded[2] == [("update_after", "20000000", 15), ("update_before", "20000000", 7)]
    finally:
        running.query.stop()


def test_a_sum_of_all_changes_is_the_table(spark: SparkSession, tmp_path: Path) -> None:
    seed = SEED
    rng = random.Random(seed)
    feed = Feed(tmp_path / "in", COLUMNS)
    sums = Counter[tuple[Any, ...]]()
    sign = {"insert": 1, "update_after": 1, "update_before": -1, "delete": -1}
    kinds = Counter[str]()

    def add(rows: DataFrame, _: int) -> None:
        for row in rows.collect():
            sums[tuple(row)[1:]] += sign[row.change]
            kinds[row.change] += 1

    feed.write(random_batch(rng, ["a", "b", None], 100))
    table = ParquetTable(str(tmp_path / "table"))
    running = Running(panes_of(feed.stream(spark, "1 hour")), table, tmp_path, changes=add)
    try:
        for _ in range(4):
            feed.write([*random_batch(rng, ["a", "b", None, "c"], 100), (0, "d", 1)])
            table_rows = running.settle()
            assert +sums == Counter(tuple(row) for row in table_rows.collect()), f"seed {seed}"
            assert all(count >= 0 for count in sums.values())
        assert kinds["update_before"] == kinds["update_after"] > 0
    finally:
        running.query.stop()


def test_a_changelog_has_the_effect_of_each_firing_on_a_row(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", COLUMNS)
    changes = changelog(panes_of(feed.stream(spark, "1 minute")))
    assert changes.columns == [
        "change",
        "k",
        "window_start",
        "window_end",
        "pane_firing",
        "pane_seq",
        "pane_id",
        "n",
        "total",
    ]
    feed.write([(20 * SECOND, "a", 1), (36 * SECOND, "a", 2)])
    query = changes.writeStream.format("memory").queryName("changes").start()
    try:
        query.processAllAvailable()
        feed.write([(28 * SECOND, "a", 4)])
        query.processAllAvailable()
        rows = spark.table("changes").collect()
        assert Counter((row.change, row.k, row.pane_id, row.total) for row in rows) == Counter(
            [
                ("insert", "a", "20000000", 1),
                ("insert", "a", "36000000", 2),
                ("delete", "a", "36000000", None),
                ("update_after", "a", "20000000", 7),
            ]
        )
        deleted = next(row for row in rows if row.change == "delete")
        assert deleted.window_start is None
        assert deleted.pane_seq is None
    finally:
        query.stop()
        spark.catalog.dropTempView("changes")


def test_a_table_that_is_there_keeps_its_own_names_and_types(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", COLUMNS)
    feed.write([(20 * SECOND, "a", 1)])
    table = derby(tmp_path)
    existing = spark.createDataFrame(
        [],
        "K string, WINDOW_START timestamp, WINDOW_END timestamp, PANE_FIRING string, PANE_SEQ int, PANE_ID string, "
        "N int, TOTAL double, NOTE string",
    )
    types = "K VARCHAR(20), PANE_ID VARCHAR(40), PANE_FIRING VARCHAR(10)"
    existing.write.jdbc(table.url, table.table, properties={"createTableColumnTypes": types})
    running = Running(panes_of(feed.stream(spark, "1 minute")), table, tmp_path)
    try:
        table_rows = running.settle()
        assert [tuple(row) for row in table_rows.select("K", "N", "TOTAL", "NOTE").collect()] == [("a", 1, 1.0, None)]
    finally:
        running.query.stop()


def test_a_version_that_is_half_written_is_passed_over(spark: SparkSession, tmp_path: Path) -> None:
    table = ParquetTable(tmp_path / "table")  # type: ignore[arg-type]
    rows = spark.createDataFrame([("a", "1", 1)], "k string, pane_id string, n int")
    for n in (1, 2, 3):
        table.merge(rows.withColumn("n", F.lit(n)), rows.select("k", "pane_id"))
    versions = sorted(folder.name for folder in (tmp_path / "table").iterdir())
    assert len(versions) == 2
    (tmp_path / "table" / versions[-1] / "_SUCCESS").unlink()
    table_rows = table.read(spark)
    assert table_rows is not None
    assert [row.n for row in table_rows.collect()] == [2]
    table.merge(rows.withColumn("n", F.lit(4)), rows.select("k", "pane_id"))
    table_rows = table.read(spark)
    assert table_rows is not None
    assert [row.n for row in table_rows.collect()] == [4]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda rows, t: upsert(windowed(rows, SESSIONS, by="k", time="ts").agg(*aggregates()), into=t),
            r"windowed\(..., ids=True\)",
        ),
        (lambda rows, t: upsert(rows, into=t), "no panes"),
        (lambda rows, t: upsert(panes_of(rows).drop("k"), into=t), "lost their key 'k'"),
        (lambda rows, t: upsert(panes_of(rows).drop("pane"), into=t), "no panes"),
        (lambda rows, t: upsert(panes_of(rows), into="visits"), "is not a table"),  # type: ignore[arg-type]
        (lambda rows, t: upsert(panes_of(rows, late="emit"), into=t), "late=lambda"),
        (lambda rows, t: upsert(panes_of(rows), into=t, late=print), "these panes have none"),
        (lambda rows, t: upsert(panes_of(rows), into=t, changes=1), "is not a function"),  # type: ignore[arg-type]
        (lambda rows, t: changelog(rows), "no panes"),
        (lambda rows, t: changelog(panes_of(rows).withColumn("change", F.lit(1))), "'change'"),
    ],
)
def test_what_makes_no_right_table_is_rejected_before_the_query_starts(
    make: Callable[[DataFrame, Table], object], message: str, spark: SparkSession, tmp_path: Path
) -> None:
    stream = Feed(tmp_path / "in", COLUMNS).stream(spark)
    with pytest.raises(InvalidArgumentError, match=message):
        make(stream, ParquetTable(str(tmp_path / "table")))


def test_firings_that_show_a_part_and_panes_of_a_batch_are_rejected(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", COLUMNS)
    table = ParquetTable(str(tmp_path / "table"))
    early = Early(count=1)
    parts = windowed(feed.stream(spark), SESSIONS, by="k", time="ts", early=early, accumulate=False, ids=True).agg(
        *aggregates()
    )
    with pytest.raises(UnsupportedError, match="Leave accumulate out"):
        upsert(parts, into=table)
    feed.write([(0, "a", 1)])
    with pytest.raises(InvalidArgumentError, match=r"mullion.flat\(panes\).write"):
        upsert(panes_of(feed.batch(spark)), into=table)


def test_a_renamed_key_is_known_for_what_it_is(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", COLUMNS)
    feed.write([(20 * SECOND, "a", 1), (20 * SECOND, "b", 2)])
    renamed = panes_of(feed.stream(spark, "1 minute")).withColumnRenamed("k", "who").where("total > 0")
    table = ParquetTable(str(tmp_path / "table"))
    running = Running(renamed, table, tmp_path)
    try:
        assert {(row.who, row.total) for row in running.settle().collect()} == {("a", 1), ("b", 2)}
    finally:
        running.query.stop()


def changed(
    feed: Feed, spark: SparkSession, table: Table, folder: Path, key: str = "k", more: Sequence[Column] | None = None
) -> list[tuple[Any, ...]]:
    """One run of a query of which the aggregates and the name of the key change; the table after it."""
    panes = windowed(
        feed.stream(spark, "1 minute"),
        Tumbling("10 seconds"),
        by=F.col("k").alias(key),
        time="ts",
        early=Early(count=1),
        ids=True,
        upgrade=Upgrade("reject" if more is None else "from now"),
    ).agg(*(more or aggregates()))
    running = Running(panes, table, folder)
    try:
        table_rows = running.settle()
        shown = [name for name in table_rows.columns if not name.startswith(("window", "pane"))]
        return [(shown, *(tuple(row) for row in table_rows.select(*shown).orderBy(*shown).collect()))]
    finally:
        running.query.stop()


def test_a_parquet_table_follows_its_query_s_changes(spark: SparkSession, tmp_path: Path) -> None:
    feed, table = Feed(tmp_path / "in", COLUMNS), ParquetTable(str(tmp_path / "table"))
    count = aggregates()[0]
    feed.write([(1 * SECOND, "a", 1), (2 * SECOND, "b", 2)])
    assert changed(feed, spark, table, tmp_path) == [(["k", "n", "total"], ("a", 1, 1), ("b", 1, 2))]
    feed.write([(3 * SECOND, "a", 5)])
    more = [count, F.max("v").alias("most")]
    columns = ["k", "n", "total", "most", "incomplete"]
    contents = changed(feed, spark, table, tmp_path, more=more)
    assert contents == [(columns, ("a", 2, None, 5, ["most"]), ("b", 1, 2, None, None))]
    feed.write([(4 * SECOND, "a", 7)])
    contents = changed(feed, spark, table, tmp_path, key="who", more=more)
    assert contents == [(["who", *columns[1:]], ("a", 3, None, 7, ["most"]), ("b", 1, 2, None, None))]


def test_a_database_s_table_is_to_be_changed_first_where_a_key_has_another_name(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed, table = Feed(tmp_path / "in", COLUMNS), derby(tmp_path)
    feed.write([(1 * SECOND, "a", 1)])
    before = changed(feed, spark, table, tmp_path)
    feed.write([(3 * SECOND, "a", 5)])
    with pytest.raises(Exception, match="ALTER TABLE visits RENAME COLUMN k TO who"):
        changed(feed, spark, table, tmp_path, key="who")
    with pytest.raises(Exception, match=r"has no column 'most'.* with ALTER TABLE: most \(bigint\)"):
        changed(feed, spark, table, tmp_path, more=[F.max("v").alias("most")])
    assert changed(feed, spark, table, tmp_path) != before


def test_a_table_that_was_dropped_is_not_begun_anew(spark: SparkSession, tmp_path: Path) -> None:
    feed, table = Feed(tmp_path / "in", COLUMNS), ParquetTable(str(tmp_path / "table"))
    feed.write([(1 * SECOND, "a", 1), (2 * SECOND, "b", 2)])
    before = changed(feed, spark, table, tmp_path)
    (tmp_path / "table").rename(tmp_path / "aside")
    feed.write([(3 * SECOND, "a", 5)])
    with pytest.raises(Exception, match=r"this query has kept ParquetTable.* new checkpointLocation"):
        changed(feed, spark, table, tmp_path)
    other = ParquetTable(str(tmp_path / "other"))
    with pytest.raises(Exception, match=r"other'.* does not exist, and this query has kept ParquetTable.*table'"):
        changed(feed, spark, other, tmp_path)
    (tmp_path / "aside").rename(tmp_path / "table")
    assert changed(feed, spark, table, tmp_path) != before
    saved = tmp_path / "saved"
    mullion.savepoint(tmp_path / "checkpoint", saved / "checkpoint", spark=spark)
    (tmp_path / "table").rename(tmp_path / "aside")
    feed.write([(4 * SECOND, "a", 5)])
    with pytest.raises(Exception, match="does not exist, and this query has kept"):
        changed(feed, spark, table, saved)


def test_delta_is_asked_for_where_it_is_not(spark: SparkSession, tmp_path: Path) -> None:
    stream = Feed(tmp_path / "in", COLUMNS).stream(spark)
    with pytest.raises(UnsupportedError, match="delta-spark"):
        upsert(panes_of(stream), into=DeltaTable("visits_of_nobody"))


def test_tables_are_values_and_their_text_has_no_password() -> None:
    table = JdbcTable("jdbc:postgresql://host/db", "visits", user="etl", password="secret")
    assert repr(table) == "JdbcTable('jdbc:postgresql://host/db', 'visits', password=..., user='etl')"
    assert table == JdbcTable("jdbc:postgresql://host/db", "visits", password="secret", user="etl")
    assert DeltaTable("lake.visits") == eval(repr(DeltaTable("lake.visits")))
    with pytest.raises(InvalidArgumentError, match="does not begin with 'jdbc:'"):
        JdbcTable("postgresql://host/db", "visits")
    for wrong in (lambda: DeltaTable(1), lambda: ParquetTable(""), lambda: JdbcTable("jdbc:x", "t", fetchsize=1)):  # type: ignore[arg-type]
        with pytest.raises(InvalidArgumentError, match="is not a text"):
            wrong()
