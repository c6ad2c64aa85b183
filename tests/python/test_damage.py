"""Checkpoints with a file that is cut short or gone: refused by the file's name, the cause and the way out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion import DamagedStateError, Early, Tumbling, read_panes, together, windowed
from mullion.testing import ClockedQuery
from mullion.windows import Store
from streams import SECOND, Feed


def of_one(rows: DataFrame, state: Store) -> DataFrame:
    return windowed(rows, Tumbling("10 seconds"), by="k", time="ts", state=state).agg(F.count("*").alias("n"))


def of_two(rows: DataFrame, state: Store) -> DataFrame:
    early = Early(count=2)
    other = windowed(rows, Tumbling("20 seconds"), by="k", time="ts", state=state, early=early)
    return together(tens=of_one(rows, state), twenties=other.agg(F.count("*").alias("n")))


def everything(folder: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


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
            ClockedQuery(panes_of(feed.stream(spark), state), checkpoint=checkpoint) as query,
            pytest.raises(DamagedStateError, match=rf"header\.json.*{says}") as refused,
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
