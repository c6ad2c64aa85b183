"""Queries that have lost files of state: the error that stops them, and ``recover``, which resets them."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from mullion import InvalidArgumentError, Sliding, StateLostError, Tumbling, read_panes, recover, windowed
from tests.support.checked import CHANGELOGS, settings
from tests.support.clocked import ClockedQuery
from tests.support.stores import maintain_and_unload
from tests.support.streams import SECOND, Feed

BATCHES = 9
FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"


def counts(rows: DataFrame) -> DataFrame:
    panes = windowed(rows, Sliding("20 seconds", slide="10 seconds"), by="k", time="ts")
    return panes.agg(F.count("*").alias("n"), F.sum("v").alias("s"))


def write(feed: Feed, batch: int) -> None:
    feed.write([(5 * batch * SECOND + key, f"k{key}", 10 * batch + key) for key in range(6)])


def closes(rows: list[Row]) -> Counter[tuple[object, ...]]:
    return Counter((row.k, row.window.start, row.n, row.s) for row in rows if row.pane.firing == "close")


def version_of(file: Path) -> int:
    return int(file.name.split("_")[0])


def delete(files: list[Path]) -> None:
    assert files
    for file in files:
        file.unlink()
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


def files_of(checkpoint: Path, pattern: str) -> list[Path]:
    return sorted((checkpoint / "state/0").glob(pattern), key=version_of)


def newest_is_gone(checkpoint: Path) -> None:
    newest = version_of(files_of(checkpoint, "0/[0-9]*.changelog")[-1])
    delete([file for file in files_of(checkpoint, "0/[0-9]*_*") if version_of(file) == newest])


def newest_is_cut(checkpoint: Path) -> None:
    newest = files_of(checkpoint, "0/[0-9]*.changelog")[-1]
    half = newest.read_bytes()[: newest.stat().st_size // 2]
    delete([newest])
    newest.write_bytes(half)


def three_are_gone(checkpoint: Path) -> None:
    """An older file, which the newer ones require."""
    newest = version_of(files_of(checkpoint, "0/[0-9]*.changelog")[-1])
    delete([file for file in files_of(checkpoint, "0/[0-9]*_*") if version_of(file) == newest - 2])


@pytest.mark.parametrize("checkpoint_format", ["1", "2"])
@pytest.mark.parametrize(("damage", "repeated"), [(newest_is_gone, 1), (newest_is_cut, 1), (three_are_gone, 3)])
def test_a_query_that_lost_files_of_state_is_set_back_and_reads_the_later_rows_again(
    spark: SparkSession,
    tmp_path: Path,
    damage: Callable[[Path], None],
    repeated: int,
    checkpoint_format: str,
) -> None:
    feed, checkpoint = Feed(tmp_path / "in", "k string, v bigint"), tmp_path / "checkpoint"
    spark.conf.set(FORMAT, checkpoint_format)
    try:
        emitted = []
        with ClockedQuery(counts(feed.stream(spark)), checkpoint=checkpoint) as query:
            for batch in range(BATCHES):
                write(feed, batch)
                emitted.append(closes(query.settle()))
        write(feed, BATCHES)
        feed.flood()
        shutil.copytree(checkpoint, tmp_path / "undisturbed")
        with ClockedQuery(counts(feed.stream(spark)), checkpoint=tmp_path / "undisturbed") as query:
            rest = closes(query.settle())

        damage(checkpoint)
        with (
            pytest.raises(StateLostError, match=r"partition 0 of operator 0 .* Or call recover\("),
            ClockedQuery(counts(feed.stream(spark)), checkpoint=checkpoint) as query,
        ):
            query.settle()
        with pytest.raises(StateLostError, match=r"call recover\("):
            read_panes(checkpoint, spark=spark).collect()
        # The failed batch had begun.
        back = recover(checkpoint, spark=spark)
        assert back >= repeated
        assert recover(checkpoint, spark=spark) == 0, "it can continue"
        read_panes(checkpoint, spark=spark).collect()
        with ClockedQuery(counts(feed.stream(spark)), checkpoint=checkpoint) as query:
            again = closes(query.settle())
    finally:
        spark.conf.unset(FORMAT)
    before, expected = sum(emitted, Counter()), sum(emitted, Counter()) + rest
    assert set(expected.values()) == {1}
    assert set(again.values()) == {1}
    # Panes that are emitted twice are equal.
    assert before | again == expected
    assert rest <= again


SNAPSHOT = {CHANGELOGS: "false"}
"""Each batch writes a snapshot, and no changelog."""


def run_batches(spark: SparkSession, feed: Feed, checkpoint: Path, batches: range) -> Counter[tuple[object, ...]]:
    closed = Counter[tuple[object, ...]]()
    with ClockedQuery(counts(feed.stream(spark)), checkpoint=checkpoint) as query:
        for batch in batches:
            write(feed, batch)
            closed += closes(query.settle())
    return closed


def newest_version(checkpoint: Path) -> int:
    return 1 + max(int(commit.name) for commit in (checkpoint / "commits").glob("[0-9]*"))


@pytest.mark.parametrize("checkpoint_format", ["1", "2"])
@pytest.mark.parametrize("damage", ["gone", "cut", "altered"])
def test_recovery_goes_back_behind_a_damaged_snapshot(
    spark: SparkSession, tmp_path: Path, damage: str, checkpoint_format: str
) -> None:
    feed, checkpoint = Feed(tmp_path / "in", "k string, v bigint"), tmp_path / "checkpoint"
    with settings(spark, {FORMAT: checkpoint_format}):
        emitted = run_batches(spark, feed, checkpoint, range(4))
        with settings(spark, SNAPSHOT):
            emitted += run_batches(spark, feed, checkpoint, range(4, 5))
        snapshot = files_of(checkpoint, "0/[0-9]*.zip")[-1]
        newest_table = max(checkpoint.glob("state/0/0/SSTs/*.sst"), key=lambda file: file.stat().st_mtime_ns)
        emitted += run_batches(spark, feed, checkpoint, range(5, BATCHES))
        file = newest_table if damage == "altered" else snapshot
        content = file.read_bytes()
        delete([file])
        if damage == "altered":
            file.write_bytes(bytes([content[0] ^ 0x55]) + content[1:])
        elif damage == "cut":
            file.write_bytes(content[: len(content) // 2])
        # All later changelogs require the snapshot.
        repeated = newest_version(checkpoint) - version_of(snapshot) + 1
        assert repeated > 2
        assert recover(checkpoint, spark=spark) == repeated
        feed.flood()
        with ClockedQuery(counts(feed.stream(spark)), checkpoint=checkpoint) as query:
            again = closes(query.settle())
        assert emitted | again == closes_of_batch(spark, feed)


@pytest.mark.parametrize("checkpoint_format", ["1", "2"])
@pytest.mark.parametrize("lost", [1, 2])
def test_recovery_goes_back_as_far_as_spark_retains_state(
    spark: SparkSession, tmp_path: Path, lost: int, checkpoint_format: str
) -> None:
    feed, checkpoint = Feed(tmp_path / "in", "k string, v bigint"), tmp_path / "checkpoint"
    conf = {FORMAT: checkpoint_format, "spark.sql.streaming.minBatchesToRetain": "3", **SNAPSHOT}
    with settings(spark, conf):
        emitted = Counter[tuple[object, ...]]()
        with ClockedQuery(counts(feed.stream(spark)), checkpoint=checkpoint) as query:
            for batch in range(BATCHES):
                write(feed, batch)
                emitted += closes(query.settle())
                maintain_and_unload(spark, query, checkpoint)
        retained = sorted({version_of(file) for file in files_of(checkpoint, "0/[0-9]*.zip")})
        newest = newest_version(checkpoint)
        assert retained == [newest - 2, newest - 1, newest]
        for version in retained[-lost:]:
            delete([file for file in files_of(checkpoint, "0/[0-9]*.zip") if version_of(file) == version])
        assert recover(checkpoint, spark=spark) == lost
        feed.flood()
        with ClockedQuery(counts(feed.stream(spark)), checkpoint=checkpoint) as query:
            again = closes(query.settle())
        assert emitted | again == closes_of_batch(spark, feed)

        delete(files_of(checkpoint, "0/[0-9]*_*"))
        with pytest.raises(StateLostError, match=r"no complete version of the state .* new checkpointLocation"):
            recover(checkpoint, spark=spark)


def closes_of_batch(spark: SparkSession, feed: Feed) -> Counter[tuple[object, ...]]:
    return closes(counts(feed.batch(spark)).collect())


def test_a_query_without_any_state_left_needs_a_new_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    feed, checkpoint = Feed(tmp_path / "in", "k string, v bigint"), tmp_path / "checkpoint"
    with ClockedQuery(counts(feed.stream(spark)), checkpoint=checkpoint) as query:
        for batch in range(2):
            write(feed, batch)
            query.settle()
    delete(files_of(checkpoint, "[0-9]*/[0-9]*_*"))
    with pytest.raises(StateLostError, match=r"no complete version of the state .* new checkpointLocation"):
        recover(checkpoint, spark=spark)


def test_a_query_does_not_start_in_the_middle_of_a_recovery(spark: SparkSession, tmp_path: Path) -> None:
    feed, checkpoint = Feed(tmp_path / "in", "k string, v bigint"), tmp_path / "checkpoint"
    with ClockedQuery(counts(feed.stream(spark)), checkpoint=checkpoint) as query:
        for batch in range(4):
            write(feed, batch)
            query.settle()
    (done,) = {max(int(note.name) for note in (checkpoint / "commits").glob("[0-9]*"))}
    (checkpoint / "mullion-recovery").write_text(f"mullion recovery 1\n1 {done} {done}\n")
    write(feed, 4)
    with (
        pytest.raises(StateLostError, match=r"was interrupted\. Call recover\("),
        ClockedQuery(counts(feed.stream(spark)), checkpoint=checkpoint) as query,
    ):
        query.settle()
    # The rejected query has begun one more batch.
    assert recover(checkpoint, spark=spark) == done
    feed.flood()
    with ClockedQuery(counts(feed.stream(spark)), checkpoint=checkpoint) as query:
        got = closes(query.settle())
    assert sum(n for (_, _, n, _) in got if isinstance(n, int)) == 2 * 6 * 5


def test_what_cannot_be_recovered_is_rejected(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="it has no folder 'state'"):
        recover(tmp_path, spark=spark)
    with pytest.raises(InvalidArgumentError, match=r"checkpoint=7 \(int\) is not a path"):
        recover(7, spark=spark)  # type: ignore[arg-type]
    feed = Feed(tmp_path / "in", "k string")
    panes = windowed(feed.stream(spark), Tumbling("10 seconds"), by="k", time="ts").agg(F.count("*").alias("n"))
    with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:
        feed.write([(SECOND, "a")])
        query.settle()
        with pytest.raises(InvalidArgumentError, match=r"runs on .* Stop it first"):
            recover(tmp_path / "checkpoint", spark=spark)
    assert recover(tmp_path / "checkpoint", spark=spark) == 0
