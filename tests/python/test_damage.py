"""Checkpoints with a file that is cut short or gone: refused by the file's name, the cause and the way out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from checked import settings
from mullion import DamagedStateError, Early, StateLostError, Tumbling, read_panes, recover, together, windowed
from mullion.testing import ClockedQuery
from mullion.windows import Store
from streams import SECOND, Feed

EVERY = "spark.sql.streaming.stateStore.mullion.snapshotEvery"


def of_one(rows: DataFrame, state: Store) -> DataFrame:
    return windowed(rows, Tumbling("10 seconds"), by="k", time="ts", state=state).agg(F.count("*").alias("n"))


def of_two(rows: DataFrame, state: Store) -> DataFrame:
    early = Early(count=2)
    other = windowed(rows, Tumbling("20 seconds"), by="k", time="ts", state=state, early=early)
    return together(tens=of_one(rows, state), twenties=other.agg(F.count("*").alias("n")))


def everything(folder: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("panes_of", [of_one, of_two])
@pytest.mark.parametrize("state", ["rocksdb", "hdfs", "memory"])
def test_a_header_that_is_empty_cut_or_gone_is_refused_before_anything_is_written(
    spark: SparkSession, tmp_path: Path, state: Store, panes_of: Callable[[DataFrame, Store], DataFrame]
) -> None:
    feed, checkpoint = Feed(tmp_path / "in", "k string"), tmp_path / "checkpoint"
    feed.write([(1 * SECOND, "a")])
    with ClockedQuery(panes_of(feed.stream(spark), state), checkpoint=checkpoint) as query:
        query.settle()
    (header,) = checkpoint.rglob("header.json")
    whole = header.read_bytes()
    sums = header.with_name(".header.json.crc")
    sums.unlink(missing_ok=True)
    feed.write([(2 * SECOND, "a"), (30 * SECOND, "b")])
    damages: list[tuple[bytes | None, str]] = [
        (b"", "is empty"),
        (whole[: len(whole) // 2], r"is cut short or is not what Mullion writes"),
        (b"[1]", r"is cut short or is not what Mullion writes"),
        (None, r"is missing, which says what the state of \d+ batch"),
    ]
    for damage, says in damages:
        if damage is None:
            header.unlink()
        else:
            header.write_bytes(damage)
        before = everything(checkpoint / "state")
        with (
            pytest.raises(DamagedStateError, match=rf"header\.json.*{says}") as refused,
            ClockedQuery(panes_of(feed.stream(spark), state), checkpoint=checkpoint) as query,
        ):
            query.settle()
        assert "Restore the file from a copy" in str(refused.value)
        assert everything(checkpoint / "state") == before, says
        if damage is not None:
            with pytest.raises(DamagedStateError, match=says):
                read_panes(checkpoint, spark=spark)
    # As it was, the query goes on.
    header.write_bytes(whole)
    with ClockedQuery(panes_of(feed.stream(spark), state), checkpoint=checkpoint) as query:
        assert {row.n for row in query.settle() if row.pane.firing == "close"} == {2}


class InMemory:
    """A query with a snapshot every fourth batch, stopped after ten and a batch that left one, or none."""

    def __init__(self, spark: SparkSession, folder: Path, *, after_a_snapshot: bool = False) -> None:
        self.spark, self.checkpoint = spark, folder / "checkpoint"
        self.feed = Feed(folder / "in", "k string")
        self.rows = 0
        self.out: list[Row] = []
        self.go_on(10, lambda: (max(self.snapshots()) > self.last("commits")) is after_a_snapshot)

    def go_on(self, batches: int, until: Callable[[], bool] = lambda: True) -> None:
        with settings(self.spark, {EVERY: "4"}):
            panes = windowed(self.feed.stream(self.spark), Tumbling("7 seconds"), by="k", time="ts", state="memory")
            query = ClockedQuery(panes.agg(F.count("*").alias("n")), checkpoint=self.checkpoint)
        with query:
            while batches > 0 or not until():
                batches -= 1
                # Keys of both partitions.
                self.feed.write([(self.rows * SECOND, f"key {n}") for n in range(4)])
                self.rows += 1
                self.out += query.settle()

    def snapshots(self) -> list[int]:
        return sorted(int(file.stem) for file in self.checkpoint.glob("state/0/0/*.memory"))

    def last(self, log: str) -> int:
        return max(int(file.name) for file in (self.checkpoint / log).iterdir() if file.name.isdigit())

    def delete(self, file: Path) -> None:
        file.unlink(missing_ok=True)
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)

    def check(self) -> None:
        """All rows are in their panes: what came out twice is the same."""
        self.feed.flood()
        self.go_on(1)
        closes = {(row.k, row.window.start, row.n) for row in self.out}
        batch = windowed(self.feed.batch(self.spark), Tumbling("7 seconds"), by="k", time="ts")
        assert closes == {(r.k, r.window.start, r.n) for r in batch.agg(F.count("*").alias("n")).collect()}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("has_sums", [True, False], ids=["its checksum beside it", "its checksum gone"])
@pytest.mark.parametrize("left", [0, 3, 40])
def test_a_snapshot_that_is_cut_is_passed_over_for_the_one_before(
    spark: SparkSession, tmp_path: Path, left: int, has_sums: bool
) -> None:
    life = InMemory(spark, tmp_path)
    before, newest = life.snapshots()
    cut = life.checkpoint / f"state/0/1/{newest}.memory"
    cut.write_bytes(cut.read_bytes()[:left])
    if not has_sums:
        cut.with_name(f".{cut.name}.crc").unlink()
    done = life.last("commits") + 1
    assert read_panes(life.checkpoint, spark=spark).count() > 0
    assert recover(life.checkpoint, spark=spark) == done - before
    life.check()


def test_a_query_that_goes_on_from_a_snapshot_that_is_cut_says_so_and_is_recovered(
    spark: SparkSession, tmp_path: Path
) -> None:
    life = InMemory(spark, tmp_path, after_a_snapshot=True)
    before, newest = life.snapshots()
    cut = life.checkpoint / f"state/0/1/{newest}.memory"
    cut.write_bytes(cut.read_bytes()[:-40])
    cut.with_name(f".{cut.name}.crc").unlink()
    with pytest.raises(DamagedStateError, match=rf"{newest}\.memory cannot be read .* call mullion\.recover\(\""):
        life.go_on(1)
    # The batch that could not be done was begun.
    assert recover(life.checkpoint, spark=spark) == life.last("offsets") + 1 - before
    life.check()


@pytest.mark.parametrize("notes", [2, 3])
def test_commits_that_are_gone_do_not_mislead_a_recovery(spark: SparkSession, tmp_path: Path, notes: int) -> None:
    life = InMemory(spark, tmp_path)
    done = life.last("commits")
    for batch in range(done + 1 - notes, done + 1):
        life.delete(life.checkpoint / f"commits/{batch}")
    newest = max(version for version in life.snapshots() if version <= done + 1 - notes)
    assert recover(life.checkpoint, spark=spark) == done + 1 - newest
    life.check()


def test_without_any_commit_there_is_nothing_to_go_back_to(spark: SparkSession, tmp_path: Path) -> None:
    life = InMemory(spark, tmp_path)
    for file in (life.checkpoint / "commits").iterdir():
        file.unlink()
    before = everything(life.checkpoint)
    with pytest.raises(StateLostError, match=r"There is no snapshot in .* new checkpointLocation"):
        recover(life.checkpoint, spark=spark)
    assert everything(life.checkpoint) == before


def test_metadata_of_an_operator_that_is_gone_or_empty_is_named(spark: SparkSession, tmp_path: Path) -> None:
    life = InMemory(spark, tmp_path)
    file = life.checkpoint / "state/0/_metadata/metadata"
    whole = file.read_bytes()
    for says, match in ((None, r"_metadata/metadata, .* is missing\."), (b"", r"_metadata/metadata, .* is damaged\.")):
        life.delete(file)
        if says is not None:
            file.write_bytes(says)
        before = everything(life.checkpoint)
        for look in (read_panes, recover):
            with pytest.raises(DamagedStateError, match=match + r" Nothing was written\. Restore the file from a copy"):
                look(life.checkpoint, spark=spark)
        assert everything(life.checkpoint) == before
    file.write_bytes(whole)
    assert recover(life.checkpoint, spark=spark) > 0
    life.check()


@pytest.mark.parametrize("log", ["commits", "offsets"])
def test_a_last_note_of_sparks_that_is_cut_is_named_and_mended_by_a_recovery(
    spark: SparkSession, tmp_path: Path, log: str
) -> None:
    life = InMemory(spark, tmp_path)
    note = life.checkpoint / log / str(life.last(log))
    life.delete(note)
    note.write_bytes(b"")
    if log == "commits":
        with pytest.raises(DamagedStateError, match=r"commits/\d+\. Incomplete log file.* from a copy"):
            read_panes(life.checkpoint, spark=spark)
    assert recover(life.checkpoint, spark=spark) > 0
    life.check()
