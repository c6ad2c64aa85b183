"""Large panes: growing accumulators have a limit, and a batch writes only its own rows."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion import (
    Count,
    Custom,
    Early,
    Global,
    InvalidArgumentError,
    Session,
    Sliding,
    Tumbling,
    UnsupportedError,
    read_panes,
    windowed,
)
from mullion.windows import Window
from tests.support.checked import SNAPSHOTS, settings
from tests.support.clocked import ClockedQuery
from tests.support.stores import records
from tests.support.streams import SECOND, Feed, batches_of

pytestmark = pytest.mark.slow

LIMIT = "spark.sql.streaming.stateStore.mullion.maxAccumulatorBytes"
MILLION = 1_000_000
# A function, because a Column requires a session.
WINDOWS: dict[str, Callable[[], Window]] = {
    "tumbling": lambda: Tumbling("1 day"),
    "sliding": lambda: Sliding("1 day", "8 hours"),
    "session": lambda: Session("1 day"),
    "custom": lambda: Custom(F.expr("mullion_windows(ts, '1 day')")),
    "global": lambda: Global.when(F.col("id") < 0),
    "count": lambda: Count(1000),
}
LISTED = ["tumbling", "sliding", "session", "custom"]


@pytest.fixture(autouse=True)
def _in_snapshots(spark: SparkSession) -> Iterator[None]:
    with settings(spark, SNAPSHOTS):
        yield


class Numbers:
    """A folder with ids from 0 on, a file per batch, all at one time, and a row of 2096 that closes all panes."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder, self.written, self.files = spark, folder, 0, 0
        folder.mkdir(parents=True)

    def write(self, rows: int, second: int = 1) -> None:
        ids = self.spark.range(self.written, self.written + rows, 1, 1)
        ids.select("id", F.timestamp_seconds(F.lit(second)).alias("ts")).write.parquet(
            str(self.folder / f"n={self.files}")
        )
        self.written, self.files = self.written + rows, self.files + 1

    def stream(self) -> DataFrame:
        files = self.spark.readStream.schema("id bigint, ts timestamp").option("maxFilesPerTrigger", 1)
        return files.parquet(f"{self.folder}/*").withWatermark("ts", "0 seconds")


def test_a_pane_of_a_million_rows_is_collected_at_the_limit_that_there_is(spark: SparkSession, tmp_path: Path) -> None:
    numbers = Numbers(spark, tmp_path / "in")
    panes = windowed(numbers.stream(), Tumbling("1 day"), time="ts").agg(
        F.collect_list("id").alias("ids"), F.count("*").alias("n")
    )
    ends = panes.select("n", F.size("ids"), F.get("ids", F.lit(0)), F.get("ids", F.lit(MILLION - 1)))
    with ClockedQuery(ends, checkpoint=tmp_path / "checkpoint") as query:
        for _ in range(2):
            numbers.write(MILLION // 2)
            assert query.settle() == []
        numbers.write(1, second=10**8)
        assert [tuple(row) for row in query.settle()] == [(MILLION, MILLION, 0, MILLION - 1)]
        assert int(query.progress[-1]["stateOperators"][0]["numRowsTotal"]) == 1


@pytest.mark.parametrize(
    ("of", "rows", "limit"),
    [
        ("collect_list(id)", 100_000, "400k"),
        ("collect_set(id)", 50_000, "256k"),
        ("count(DISTINCT id)", 50_000, "256k"),
        ("percentile(id, 0.5)", 50_000, "256k"),
    ],
)
def test_a_pane_of_many_rows_fails_at_a_lower_limit_and_names_the_aggregate(
    of: str, rows: int, limit: str, spark: SparkSession, tmp_path: Path
) -> None:
    numbers = Numbers(spark, tmp_path / "in")
    numbers.write(rows)
    with settings(spark, {LIMIT: limit}):
        panes = windowed(numbers.stream(), Tumbling("1 day"), by=F.lit("a").alias("k"), time="ts").agg(
            F.count("*").alias("n"), F.expr(of)
        )
        query = ClockedQuery(panes, checkpoint=tmp_path / "checkpoint")
        with query, pytest.raises(UnsupportedError) as refused:
            query.settle()
    message = str(refused.value)
    assert message.startswith("The pane [1970-01-01T00:00:00Z, 1970-01-02T00:00:00Z) of k=a has grown to ")
    assert f"bytes of aggregates, most of it in {of.split(',')[0].split(')')[0]}" in message
    assert f"and {LIMIT} allows it {int(limit[:-1]) << 10}" in message
    assert f"raise the limit, as in spark.conf.set('{LIMIT}', '" in message


@pytest.mark.parametrize(
    ("window", "options", "pane"),
    [
        ("sliding", {}, r"The pane \[1969-12-31T08:00:00Z, 1970-01-01T08:00:00Z\) has grown"),
        ("session", {}, r"The pane \[1970-01-01T00:00:01Z, 1970-01-02T00:00:01Z\) has grown"),
        ("custom", {}, r"The pane \[1970-01-01T00:00:00Z, 1970-01-02T00:00:00Z\) has grown"),
        (
            "tumbling",
            {"early": Early(each_row=True)},
            r"The pane \[1970-01-01T00:00:00Z, 1970-01-02T00:00:00Z\) has grown",
        ),
        ("global", {"time": None}, r"The pane \[0, 900\) has grown"),
        ("count", {"time": None}, r"The pane \[0, 1000\) has grown"),
    ],
)
def test_panes_of_every_window_have_the_limit(
    window: str, options: dict[str, Any], pane: str, spark: SparkSession, tmp_path: Path
) -> None:
    numbers = Numbers(spark, tmp_path / "in")
    with settings(spark, {LIMIT: "5k"}):
        panes = windowed(numbers.stream(), WINDOWS[window](), **{"time": "ts", **options}).agg(F.collect_list("id"))
        with ClockedQuery(panes.select("window"), checkpoint=tmp_path / "checkpoint") as query:
            numbers.write(450)
            query.settle()
            numbers.write(450)
            with pytest.raises(UnsupportedError, match=pane):
                query.settle()
    # With a higher limit the query resumes.
    with ClockedQuery(panes.select("window"), checkpoint=tmp_path / "checkpoint") as query:
        query.settle()


@pytest.mark.parametrize("text", ["much", "0", "-1", "5 potatoes"])
def test_a_limit_that_is_no_number_of_bytes_is_rejected(text: str, spark: SparkSession) -> None:
    rows = spark.range(1).select("id", F.timestamp_seconds("id").alias("ts"))
    with (
        settings(spark, {LIMIT: text}),
        pytest.raises(InvalidArgumentError, match=rf"maxAccumulatorBytes={text} is not a number of bytes.*'512m'"),
    ):
        windowed(rows, Tumbling("1 day"), time="ts").agg(F.count("*"))


# --- A batch writes its own rows alone --------------------------------------------------------------------------------


@pytest.mark.parametrize("window", LISTED)
def test_what_a_batch_writes_of_a_list_does_not_grow_with_the_list(
    window: str, spark: SparkSession, tmp_path: Path
) -> None:
    feed = Feed(tmp_path / "in", "id bigint, pad string")
    panes = windowed(feed.stream(spark), WINDOWS[window](), time="ts").agg(
        F.collect_list(F.struct("id", "pad")).alias("rows"), F.sum("id").alias("total")
    )
    results = panes.select(F.expr("transform(rows, r -> r.id)").alias("ids"), "total")
    with ClockedQuery(results, checkpoint=tmp_path / "checkpoint") as query:
        for batch in range(8):
            feed.write([(SECOND + batch, batch * 100 + i, "x" * 1000) for i in range(100)])
            query.settle()
        written = [report["rocksdbTotalBytesWritten"] for report in batches_of(query)]
        written = [size for size in written if size > 90_000]
        assert len(written) == 8
        # 100 kB, and at most 64 kB of earlier rows that are in no chunk yet.
        assert max(written) < 250_000
        feed.flood()
        closed = query.settle()
        for pane in closed:
            assert pane.ids == list(range(8 * 100))
            assert pane.total == sum(range(8 * 100))
        assert len(closed) == (3 if window == "sliding" else 1)
        assert int(query.progress[-1]["stateOperators"][0]["numRowsTotal"]) == 0


@pytest.mark.parametrize("window", ["tumbling", "sliding", "session", "custom"])
def test_lists_in_chunks_fire_whole_and_leave_nothing(window: str, spark: SparkSession, tmp_path: Path) -> None:
    chance = random.Random(window)
    feed = Feed(tmp_path / "in", "k string, id bigint, pad string")

    def started() -> ClockedQuery:
        lists = F.collect_list(F.struct("id", "pad")).alias("rows"), F.expr("listagg(id, ' ')").alias("text")
        others = F.count("*").alias("n"), F.collect_set("id").alias("set"), F.max("id").alias("max")
        panes = windowed(feed.stream(spark), WINDOWS[window](), by="k", time="ts", early=Early("10 seconds")).agg(
            *lists, *others
        )
        ids = F.expr("transform(rows, r -> r.id)").alias("ids")
        same = F.expr(
            "sort_array(set) = sort_array(transform(rows, r -> r.id)) AND n = size(rows) AND max = "
            "array_max(set) AND text = array_join(transform(rows, r -> r.id), ' ')"
        ).alias("same")
        return ClockedQuery(panes.select("k", "pane.firing", ids, same), checkpoint=tmp_path / "checkpoint")

    query = started()
    ids_by_key: dict[str, list[int]] = {}
    early = 0
    try:
        for batch in range(9):
            rows: list[tuple[Any, ...]] = []
            for key in "abc":
                for _ in range(chance.choice([0, 20, 150])):
                    ids_by_key.setdefault(key, []).append(len(rows) + batch * 1000)
                    rows.append(
                        (SECOND * (1 + batch * 7), key, len(rows) + batch * 1000, "x" * chance.choice([10, 900]))
                    )
            feed.write(rows or [(SECOND, "d", batch, "")])
            if batch == 3:
                query.stop()
                query = started()
            for pane in query.settle():
                assert pane.same
                early += 1
                if pane.k in ids_by_key:
                    assert pane.ids == ids_by_key[pane.k]
        assert early > 4, "a case in which lists do not fire early"
        chunks = records(spark, tmp_path / "checkpoint").get("chunks", 0)
        assert chunks > 2, f"{chunks} chunks"
        open_now = read_panes(tmp_path / "checkpoint", spark=spark)
        looked = {(row.k, tuple(r.id for r in row.rows)) for row in open_now.collect()}
        assert {(k, tuple(ids)) for k, ids in ids_by_key.items()} <= looked
        feed.flood()
        closed = [pane for pane in query.settle() if pane.firing == "close"]
        assert {pane.k: pane.ids for pane in closed if pane.k in ids_by_key} == ids_by_key
        assert all(pane.same for pane in closed)
        assert int(query.progress[-1]["stateOperators"][0]["numRowsTotal"]) == 0
    finally:
        query.stop()


def test_lists_of_the_rows_since_the_last_firing_start_again(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "id bigint, pad string")
    for window in (Tumbling("1 day"), Session("1 day")):
        checkpoint = tmp_path / type(window).__name__
        panes = windowed(feed.stream(spark), window, time="ts", early=Early(count=200), accumulate=False).agg(
            F.collect_list(F.struct("id", "pad")).alias("rows")
        )
        with ClockedQuery(
            panes.select(F.expr("transform(rows, r -> r.id)").alias("ids")), checkpoint=checkpoint
        ) as query:
            if not feed.folder.exists() or not list(feed.folder.glob("*.parquet")):
                for batch in range(5):
                    feed.write([(SECOND, batch * 100 + i, "x" * 900) for i in range(100)])
            assert [row.ids for row in query.settle()] == [list(range(200)), list(range(200, 400))]
            assert records(spark, checkpoint)["chunks"] == 1


def test_sessions_that_become_one_have_their_lists_in_order_of_time(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "id bigint, pad string")
    panes = windowed(feed.stream(spark, "1 hour"), Session("10 seconds"), time="ts").agg(
        F.collect_list(F.struct("id", "pad")).alias("rows")
    )
    with ClockedQuery(
        panes.select(F.expr("transform(rows, r -> r.id)").alias("ids")), checkpoint=tmp_path / "c"
    ) as query:
        for second, first in ((30, 200), (0, 0), (30, 300), (0, 100)):
            feed.write([(second * SECOND, first + i, "x" * 900) for i in range(100)])
            query.settle()
        feed.write([(10 * SECOND, 180, ""), (20 * SECOND, 190, "")])
        query.settle()
        feed.write([(31 * SECOND, 400 + i, "x" * 900) for i in range(100)])
        query.settle()
        feed.flood()
        (pane,) = query.settle()
        assert pane.ids == [*range(200), 180, 190, *range(200, 500)]
        assert int(query.progress[-1]["stateOperators"][0]["numRowsTotal"]) == 0
