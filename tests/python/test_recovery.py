"""State in memory: a query that is stopped or killed goes back to a snapshot, and its answers are right."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from checked import settings
from killing import committed, kill_after, session_of_its_own
from mullion import (
    Early,
    InvalidArgumentError,
    Session,
    Sliding,
    StateLostError,
    Tumbling,
    UnsupportedError,
    read_panes,
    recover,
    windowed,
)
from mullion.testing import ClockedQuery
from seeds import SEED
from streams import SECOND, Feed

EVERY = "spark.sql.streaming.stateStore.mullion.snapshotEvery"
IDS = "spark.sql.streaming.stateStore.checkpointFormatVersion"
COLUMNS = "k string, id bigint"


def panes_of(rows: DataFrame, window: Any = None, **options: Any) -> DataFrame:
    options = {"by": "k", "time": "ts", "state": "memory"} | options
    made = windowed(rows, window or Tumbling("10 seconds"), **options).agg(
        F.sort_array(F.collect_list("id")).alias("ids")
    )
    return made.select("k", F.unix_micros("window.start").alias("start"), "pane.firing", F.col("ids").cast("string"))


WINDOWS = [
    pytest.param(Tumbling("10 seconds"), {}, id="tumbling"),
    pytest.param(Sliding("10 seconds", "3 seconds"), {"early": Early("4 seconds")}, id="sliding, early"),
    pytest.param(Session("4 seconds"), {}, id="sessions"),
]


class Life:
    """A query over a feed, with a snapshot every so many batches."""

    def __init__(self, spark: SparkSession, folder: Path, window: Any = None, every: int = 4, **options: Any) -> None:
        self.spark = spark
        self.checkpoint = folder / "checkpoint"
        self.feed = Feed(folder / "in", COLUMNS)
        self.conf = {EVERY: str(every), **options.pop("conf", {})}
        self.window = window
        self.options = options
        self.written = 0
        self.out: list[Any] = []
        self.begun = -1
        self.query = self.start()

    def over(self, rows: DataFrame) -> DataFrame:
        return panes_of(rows, self.window, **self.options)

    def start(self) -> ClockedQuery:
        with settings(self.spark, self.conf):
            return ClockedQuery(self.over(self.feed.stream(self.spark, "20 seconds")), checkpoint=self.checkpoint)

    def batches(self, number: int) -> None:
        """Batches of rows five seconds apart, in which no row is ever late; one batch each, since none closes."""
        for _ in range(number):
            at = 5 * self.written
            self.feed.write(
                ((at + i) * SECOND, f"key {(at + i) // 7 % 5}", 100 * self.written + i)
                for i in range(-4, 8)
                if at + i >= 0
            )
            self.written += 1
            self.out += self.query.settle()

    def between_snapshots(self) -> int:
        """Goes on until its newest snapshot is not of its last batch; how many batches are done by then."""
        while max(versions(self.checkpoint)) == committed(self.checkpoint):
            self.batches(1)
        return committed(self.checkpoint)

    def stop_and_recover(self) -> int:
        self.query.stop()
        back = recover(self.checkpoint, spark=self.spark)
        self.begun = begun(self.checkpoint)
        self.query = self.start()
        return back

    def end(self) -> None:
        """Everything closes; each pane once but for those that closed again after a recovery, with the same rows."""
        self.feed.flood()
        self.out += self.query.settle()
        reports = self.query.progress
        self.query.stop()
        assert reports[-1]["stateOperators"][0]["numRowsTotal"] == 0
        closes = {row for row in self.out if row.firing == "close"}
        assert closes == set(self.over(self.feed.batch(self.spark)).collect())
        assert len({(row.k, row.start) for row in closes}) == len(closes)


def forget_last_commit(checkpoint: Path) -> None:
    last = max(int(file.name) for file in (checkpoint / "commits").glob("[0-9]*"))
    for name in (str(last), f".{last}.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)


def versions(checkpoint: Path) -> list[int]:
    """Of the snapshots of the first partition."""
    return sorted(int(file.name.split(".")[0].split("_")[0]) for file in checkpoint.glob("state/0/0/[0-9]*.memory"))


def begun(checkpoint: Path) -> int:
    return max(int(file.name) for file in (checkpoint / "offsets").glob("[0-9]*"))


def contents(checkpoint: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in checkpoint.rglob("*") if file.is_file()}


@pytest.mark.parametrize("last_is_done", [True, False], ids=["done", "begun"])
def test_a_row_that_was_late_after_the_snapshot_is_late_after_the_recovery(
    spark: SparkSession, tmp_path: Path, last_is_done: bool
) -> None:
    with settings(spark, {EVERY: "4"}):
        feed, checkpoint = Feed(tmp_path / "in", COLUMNS), tmp_path / "checkpoint"

        def start() -> ClockedQuery:
            return ClockedQuery(panes_of(feed.stream(spark), late="emit"), checkpoint=checkpoint)

        query = start()
        feed.write([(0, "a", 0)])
        query.settle()
        while committed(checkpoint) % 4 != 3:
            feed.write([(SECOND, "a", committed(checkpoint))])
            query.settle()
        before = str(list(range(committed(checkpoint))))
        # The snapshot's batch leaves a clock by which the pane closes in the batch after it.
        feed.write([(25 * SECOND, "b", 100)])
        query.settle()
        feed.write([(26 * SECOND, "b", 101)])
        query.settle()
        query.stop()
        if not last_is_done:
            forget_last_commit(checkpoint)
        assert recover(checkpoint, spark=spark) > 0
        # The first batch reads what came since the snapshot, and one file more; what comes after it is too late.
        feed.write([(27 * SECOND, "b", 102)])
        feed.write([(5 * SECOND, "a", 200)])
        query = start()
        out = query.settle()
        query.stop()
    assert Counter((row.k, row.firing) for row in out) == {("a", "close"): 1, ("a", "late"): 1}
    assert {row.ids for row in out} == {before, None}


@pytest.mark.parametrize(("window", "options"), WINDOWS)
def test_a_query_that_was_stopped_is_recovered_and_loses_nothing(
    spark: SparkSession, tmp_path: Path, window: Any, options: dict[str, Any]
) -> None:
    life = Life(spark, tmp_path, window, **options)
    life.batches(6)
    for _ in range(2):
        done = life.between_snapshots()
        assert life.stop_and_recover() == done - max(versions(life.checkpoint)[:-1])
        assert life.begun == done - 1, "numbers of batches are never used twice"
        life.batches(2)
    life.end()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("conf", [{}, {IDS: "2"}], ids=["", "versions with ids"])
@pytest.mark.parametrize(("window", "options"), WINDOWS)
def test_a_query_that_finds_its_state_gone_says_so_until_it_is_recovered(
    spark: SparkSession, tmp_path: Path, window: Any, options: dict[str, Any], conf: dict[str, str]
) -> None:
    life = Life(spark, tmp_path, window, conf=conf, **options)
    life.batches(6)
    done = life.between_snapshots()
    for _ in range(2):
        life.query.stop()
        life.query = life.start()
        with pytest.raises(StateLostError, match=rf"version {done} is gone.*mullion\.recover\(\""):
            life.batches(1)
    # The batch that could not be done was begun: it is done now, and does nothing.
    assert begun(life.checkpoint) == done
    assert life.stop_and_recover() == done + 1 - max(versions(life.checkpoint)[:-1])
    life.batches(2)
    life.end()


def test_windows_by_the_wall_clock_are_recovered_and_rows_read_again_come_anew(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed = Feed(tmp_path / "in", COLUMNS)
    checkpoint = tmp_path / "checkpoint"
    now = 0
    fired: list[Any] = []

    def start() -> ClockedQuery:
        panes = panes_of(feed.stream(spark), time=None)
        with settings(spark, {EVERY: "4"}):
            return ClockedQuery(panes, checkpoint=checkpoint, start_ms=1000 * now)

    query = start()
    ids = 0
    while ids < 8 or max(versions(checkpoint)) == committed(checkpoint):
        feed.write([(0, f"key {ids % 3}", ids)])
        ids += 1
        fired += query.settle()
        query.advance("6 seconds")
        now += 6
        fired += query.settle()
    query.stop()
    assert recover(checkpoint, spark=spark) > 0
    now += 60
    query = start()
    fired += query.settle()
    query.advance("1 minute")
    fired += query.settle()
    assert query.progress[-1]["stateOperators"][0]["numRowsTotal"] == 0
    query.stop()
    closed = Counter(int(n) for row in fired for n in row.ids.strip("[]").split(","))
    assert set(closed) == set(range(ids))
    assert set(closed.values()) <= {1, 2}, "each in one window, and again if it is read again"


def test_a_recovery_that_was_cut_short_is_done_again(spark: SparkSession, tmp_path: Path) -> None:
    life = Life(spark, tmp_path)
    life.batches(6)
    done = life.between_snapshots()
    life.query.stop()
    back = recover(life.checkpoint, spark=spark)
    # It had not yet come to the state of the second partition.
    (life.checkpoint / "state" / "0" / "1" / f"{done}.memory").unlink()
    life.query = life.start()
    with pytest.raises(StateLostError):
        life.batches(1)
    life.query.stop()
    assert recover(life.checkpoint, spark=spark) == back + 1
    life.query = life.start()
    life.batches(1)
    life.end()


def test_a_query_with_a_snapshot_of_its_last_batch_goes_on_as_it_is(spark: SparkSession, tmp_path: Path) -> None:
    life = Life(spark, tmp_path, every=1)
    life.batches(5)
    life.query.stop()
    before = contents(life.checkpoint)
    assert recover(life.checkpoint, spark=spark) == 0
    assert contents(life.checkpoint) == before
    life.query = life.start()
    life.batches(2)
    # The last batch died before its commit, and is done again: one more back is kept.
    life.query.stop()
    forget_last_commit(life.checkpoint)
    assert recover(life.checkpoint, spark=spark) == 0
    again = life.start()
    assert set(again.settle()) <= set(life.out)
    life.query = again
    life.batches(1)
    life.end()


def test_the_open_panes_of_the_newest_snapshot_are_read(spark: SparkSession, tmp_path: Path) -> None:
    life = Life(spark, tmp_path, Tumbling("1 day"))
    life.batches(4)
    assert versions(life.checkpoint) == [1, 4]

    def ids() -> set[int]:
        return {i for row in read_panes(life.checkpoint, spark=spark).collect() for i in row.ids}

    read = ids()
    life.batches(2)
    assert (
        ids()
        == read
        == {n for n in range(400) if n % 100 < 8} | {100 * n - i for n in range(1, 4) for i in (1, 2, 3, 4)}
    )
    for file in life.checkpoint.glob("state/0/1/*.memory"):
        file.unlink()
    with pytest.raises(StateLostError, match="There is no snapshot of the state in memory in"):
        read_panes(life.checkpoint, spark=spark)
    life.query.stop()
    with pytest.raises(StateLostError, match=r"There is no snapshot in .* new checkpointLocation"):
        recover(life.checkpoint, spark=spark)


def test_what_cannot_be_recovered_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="it has no folder 'state'"):
        recover(tmp_path, spark=spark)
    with pytest.raises(InvalidArgumentError, match="checkpoint=7 \\(int\\) is not a path"):
        recover(7, spark=spark)  # type: ignore[arg-type]

    life = Life(spark, tmp_path / "a")
    life.batches(2)
    with pytest.raises(InvalidArgumentError, match=r"runs on .* Stop it first"):
        recover(life.checkpoint, spark=spark)
    life.query.stop()

    durable = Life(spark, tmp_path / "b", state="rocksdb")
    durable.batches(1)
    durable.query.stop()
    with pytest.raises(InvalidArgumentError, match="keeps its state in memory: start the query again"):
        recover(durable.checkpoint, spark=spark)


def test_windows_in_memory_and_in_rocksdb_stand_in_one_query(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", COLUMNS)
    checkpoint = tmp_path / "checkpoint"

    def start(every: int) -> ClockedQuery:
        inner = windowed(feed.stream(spark), Tumbling("10 seconds"), by="k", time="ts", state="memory")
        outer = windowed(inner.agg(F.count("*").alias("n")), Tumbling("1 minute"), time="window", state="rocksdb")
        with settings(spark, {EVERY: str(every)}):
            return ClockedQuery(outer.agg(F.sum("n").alias("n")).select("n"), checkpoint=checkpoint)

    query = start(every=1)
    fired = []
    for at in (0, 30, 65):
        feed.write((second * SECOND, "a", 0) for second in range(at, at + 30))
        fired += query.settle()
    query.stop()
    query = start(every=5)
    feed.write([(131 * SECOND, "b", 0)])
    fired += query.settle()
    assert [row.n for row in fired] == [60, 30]
    query.stop()
    with pytest.raises(UnsupportedError, match="operator 1 was in memory, and that of 0 is in another store"):
        recover(checkpoint, spark=spark)


def test_snapshots_rarer_than_spark_keeps_offsets_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    life = Life(spark, tmp_path, every=60)
    with pytest.raises(InvalidArgumentError, match=f"{EVERY} is 60 and spark.sql.streaming.minBatchesToRetain is 100"):
        life.batches(1)
    life.query.stop()


def folder_of(home: Path) -> Path:
    return home / "panes"


def run(spark: SparkSession, home: Path) -> None:
    """Runs a query in memory over all rows there are, into files."""
    write_out(spark, home, panes_of(Feed(home / "in", COLUMNS).stream(spark, "20 seconds")))


def write_out(spark: SparkSession, home: Path, panes: DataFrame) -> None:
    writer = panes.writeStream.format("parquet").option("path", str(folder_of(home))).trigger(availableNow=True)
    with settings(spark, {EVERY: "4"}):
        query = writer.option("checkpointLocation", str(home / "checkpoint")).start()
    query.awaitTermination()


def between_snapshots(checkpoint: Path) -> Iterator[float]:
    """Ends some batches on, after one that leaves no snapshot behind: each fourth does."""
    until = committed(checkpoint) // 4 * 4 + 6
    while committed(checkpoint) < until:
        yield 0.02


@pytest.mark.slow
def test_a_killed_query_is_recovered_and_its_answers_are_right(spark: SparkSession, tmp_path: Path) -> None:
    rng = random.Random(SEED)
    feed = Feed(tmp_path / "in", COLUMNS)
    checkpoint = tmp_path / "checkpoint"
    written = 0
    for life in range(3):
        # No row is ever late: what closes is what a batch over the same rows gives.
        for _ in range(10):
            at = 5 * written
            feed.write(
                (max(0, at + rng.randrange(-10, 5)) * SECOND, f"key {i % 7}", 100 * written + i) for i in range(40)
            )
            written += 1
        kill_after(tmp_path, between_snapshots(checkpoint), __file__)
        with pytest.raises(StateLostError):
            run(spark, tmp_path)
        if life == 2:
            assert recover(checkpoint, spark=spark) > 0

    feed.flood()
    run(spark, tmp_path)
    out = Counter(spark.read.parquet(str(folder_of(tmp_path))).collect())
    assert set(out) == set(panes_of(feed.batch(spark)).collect()), f"MULLION_SEED={SEED}"
    assert len(out) > 50


@pytest.mark.slow
def test_a_task_that_is_tried_again_changes_nothing_twice(spark: SparkSession, tmp_path: Path) -> None:
    """In a process of its own: a task that fails ends the query where each has one attempt."""
    feed = Feed(tmp_path / "in", COLUMNS)
    for batch in range(6):
        feed.write((5 * batch * SECOND + i, f"key {i % 5}", 100 * batch + i) for i in range(50))
    feed.flood()
    in_a_process(tmp_path, "with failing tasks")
    out = spark.read.parquet(str(folder_of(tmp_path))).collect()
    assert Counter(out) == Counter(panes_of(feed.batch(spark)).collect())


@pytest.mark.slow
def test_an_executor_that_is_lost_takes_its_state_with_it(tmp_path: Path) -> None:
    """In a process of its own, with executors in theirs."""
    in_a_process(tmp_path, "with executors")


def in_a_process(home: Path, how: str) -> None:
    path = os.pathsep.join(filter(None, sys.path))
    environment = {**os.environ, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable}
    script = [sys.executable, __file__, str(home), how]
    done = subprocess.run(script, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


def run_with_executors(spark: SparkSession, home: Path) -> None:
    context: Any = spark.sparkContext._jsc.sc()
    life = Life(spark, home, every=4)
    life.batches(6)
    life.between_snapshots()
    # Each of the two has the state of a partition, or one has that of both.
    for executor in ("0", "1"):
        context.killAndReplaceExecutor(executor)
    with pytest.raises(StateLostError, match=r"is gone: .* Spark ran the task where the state is not"):
        life.batches(1)
    assert life.stop_and_recover() > 0
    life.batches(1)
    life.end()


def run_with_failing_tasks(spark: SparkSession, home: Path) -> None:
    """The first attempt of each task that fires panes fails on one of them, its state open."""

    @F.udf("string")
    def failing(ids: str) -> str:
        context = TaskContext.get()
        assert context is not None
        if context.attemptNumber() == 0:
            raise ValueError("the first attempt of a task")
        return ids

    panes = panes_of(Feed(home / "in", COLUMNS).stream(spark, "1 second"))
    write_out(spark, home, panes.withColumn("ids", failing("ids")))


if __name__ == "__main__":
    home = Path(sys.argv[1])
    if sys.argv[2:] == ["with executors"]:
        run_with_executors(session_of_its_own(home, "local-cluster[2,1,1024]"), home)
    elif sys.argv[2:]:
        run_with_failing_tasks(session_of_its_own(home, "local[2,4]"), home)
    else:
        own = session_of_its_own(home)
        if (home / "checkpoint" / "commits").exists():
            recover(home / "checkpoint", spark=own)
        run(own, home)
