"""Checkpoints with a truncated or missing file: the error names the file, the cause and the fix."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion import DamagedStateError, Early, StateLostError, Tumbling, read_panes, together, windowed
from tests.support.checked import settings
from tests.support.clocked import ClockedQuery
from tests.support.streams import SECOND, Feed


def of_one(rows: DataFrame) -> DataFrame:
    return windowed(rows, Tumbling("10 seconds"), by="k", time="ts").agg(F.count("*").alias("n"))


def of_two(rows: DataFrame) -> DataFrame:
    early = Early(count=2)
    other = windowed(rows, Tumbling("20 seconds"), by="k", time="ts", early=early)
    return together(tens=of_one(rows), twenties=other.agg(F.count("*").alias("n")))


def everything(folder: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("panes_of", [of_one, of_two])
def test_a_header_that_is_empty_cut_or_gone_is_rejected_before_anything_is_written(
    spark: SparkSession, tmp_path: Path, panes_of: Callable[[DataFrame], DataFrame]
) -> None:
    feed, checkpoint = Feed(tmp_path / "in", "k string"), tmp_path / "checkpoint"
    feed.write([(1 * SECOND, "a")])
    with ClockedQuery(panes_of(feed.stream(spark)), checkpoint=checkpoint) as query:
        query.settle()
    (header,) = checkpoint.rglob("header.json")
    content = header.read_bytes()
    sums = header.with_name(".header.json.crc")
    sums.unlink(missing_ok=True)
    feed.write([(2 * SECOND, "a"), (30 * SECOND, "b")])
    damages: list[tuple[bytes | None, str]] = [
        (b"", "is empty"),
        (content[: len(content) // 2], r"is truncated, or Mullion did not write it"),
        (b"[1]", r"is truncated, or Mullion did not write it"),
        (None, r"is missing, which describes the state of \d+ batch"),
    ]
    for damage, says in damages:
        if damage is None:
            header.unlink()
        else:
            header.write_bytes(damage)
        before = everything(checkpoint / "state")
        with (
            pytest.raises(DamagedStateError, match=rf"header\.json.*{says}") as refused,
            ClockedQuery(panes_of(feed.stream(spark)), checkpoint=checkpoint) as query,
        ):
            query.settle()
        assert "Restore the file from a copy" in str(refused.value)
        assert everything(checkpoint / "state") == before, says
        if damage is not None:
            with pytest.raises(DamagedStateError, match=says):
                read_panes(checkpoint, spark=spark)
    # With the original file the query resumes.
    header.write_bytes(content)
    with ClockedQuery(panes_of(feed.stream(spark)), checkpoint=checkpoint) as query:
        assert {row.n for row in query.settle() if row.pane.firing == "close"} == {2}


@pytest.fixture
def stopped(spark: SparkSession, tmp_path: Path) -> Path:
    """The checkpoint of a query that has stopped after two batches."""
    feed, checkpoint = Feed(tmp_path / "in", "k string"), tmp_path / "checkpoint"
    with ClockedQuery(of_one(feed.stream(spark)), checkpoint=checkpoint) as query:
        for second in (1, 2):
            feed.write([(second * SECOND, "a")])
            query.settle()
    return checkpoint


def delete(file: Path) -> None:
    file.unlink(missing_ok=True)
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


def test_metadata_of_an_operator_that_is_gone_or_empty_is_named(spark: SparkSession, stopped: Path) -> None:
    file = stopped / "state/0/_metadata/metadata"
    for says, match in ((None, r"_metadata/metadata, .* is missing\."), (b"", r"_metadata/metadata, .* is damaged\.")):
        delete(file)
        if says is not None:
            file.write_bytes(says)
        before = everything(stopped)
        with pytest.raises(DamagedStateError, match=match + r" Nothing was written\. Restore the file from a copy"):
            read_panes(stopped, spark=spark)
        assert everything(stopped) == before


def test_a_last_commit_of_sparks_that_is_cut_is_named(spark: SparkSession, stopped: Path) -> None:
    note = stopped / "commits" / str(max(int(file.name) for file in (stopped / "commits").glob("[0-9]*")))
    delete(note)
    note.write_bytes(b"")
    with pytest.raises(DamagedStateError, match=r"commits/\d+\. Incomplete log file.* from a copy"):
        read_panes(stopped, spark=spark)


# Spark compares checksum files after it has read a file, so it may fail before with an error of the codec.
@pytest.mark.parametrize(("codec", "error"), [("lz4", StateLostError), ("zstd", Exception)])
def test_a_changed_byte_in_a_changelog_is_rejected_on_a_file_system_without_checksums(
    spark: SparkSession, tmp_path: Path, codec: str, error: type[Exception]
) -> None:
    name = "spark.sql.streaming.stateStore.compression.codec"
    feed, checkpoint = Feed(tmp_path / "in", "k string"), tmp_path / "checkpoint"
    with settings(spark, {name: codec}):
        with ClockedQuery(of_one(feed.stream(spark)), checkpoint=checkpoint) as query:
            for seconds in (range(50), range(50, 100)):
                feed.write([(second * SECOND, f"key {second % 7}") for second in seconds])
                query.settle()
        panes = sorted(read_panes(checkpoint, spark=spark).collect())
        changelog = max(checkpoint.glob("state/0/*/[2-9]_*.changelog"), key=lambda file: file.stat().st_size)
        changelog.with_name(f".{changelog.name}.crc").unlink(missing_ok=True)
        content = changelog.read_bytes()
        rejections = 0
        for at in range(0, len(content), len(content) // 12):
            changelog.write_bytes(content[:at] + bytes([content[at] ^ 0x55]) + content[at + 1 :])
            try:
                now = sorted(read_panes(checkpoint, spark=spark).collect())
            except error:
                rejections += 1
            else:
                # The last bytes have no meaning.
                assert now == panes, at
        assert rejections > 8


def test_a_damaged_block_of_a_file_of_rocksdb_fails_the_query_and_its_readers_instead_of_hiding_panes(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed, checkpoint = Feed(tmp_path / "in", "k string"), tmp_path / "checkpoint"
    with ClockedQuery(of_one(feed.stream(spark)), checkpoint=checkpoint) as query:
        feed.write([(second * SECOND, f"key {second % 7}") for second in range(9)])
        query.settle()
    assert read_panes(checkpoint, spark=spark).count() == 7
    for file in checkpoint.glob("state/0/*/SSTs/*.sst"):
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
        content = file.read_bytes()
        # The first block has records.
        file.write_bytes(bytes([content[0] ^ 0x55]) + content[1:])
    says = r"version \d+ of partition \d of operator 0 has \d+ damaged blocks in its \.sst files\. Restore the files"
    with pytest.raises(StateLostError, match=says):
        read_panes(checkpoint, spark=spark).collect()
    feed.write([(8 * SECOND, "key 1")])
    with (
        pytest.raises(
            StateLostError, match=r"version \d+ of partition \d .* cannot be read \(RocksDBException: block checksum"
        ),
        ClockedQuery(of_one(feed.stream(spark)), checkpoint=checkpoint) as query,
    ):
        query.settle()
