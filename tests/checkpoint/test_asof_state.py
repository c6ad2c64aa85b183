"""The state of as-of joins in checkpoints: savepoints, recovery, comparison, and kills in the middle of batches."""

from __future__ import annotations

import random
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion import asof_join, compare, recover, savepoint
from tests.support.clocked import ClockedQuery
from tests.support.killing import committed, kill_after, session_of_its_own, somewhere_in_a_batch
from tests.support.models.asof_model import AsOfModel, Row
from tests.support.seeds import SEED
from tests.support.streams import SECOND, Feed, batches_of

COLUMNS = "k string, v bigint"
KINDS: dict[str, dict[str, Any]] = {
    "backward": {},
    "backward within 20 s": {"tolerance": "20 seconds"},
    "nearest": {"direction": "nearest", "tolerance": "7 seconds"},
}


class Sides:
    """Two feeds, and the join of their streams."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.feeds = [Feed(folder / side, COLUMNS) for side in ("left", "right")]
        self.rng = random.Random(SEED)
        self.rows: tuple[list[Row], list[Row]] = ([], [])

    def write(self, batch: int, count: int = 40) -> None:
        """Rows of a batch: all of its minute, so that none is late. A right row has a time of its own."""
        for side, (feed, rows) in enumerate(zip(self.feeds, self.rows, strict=True)):
            times = self.rng.sample(range(60 * batch * 10, 60 * (batch + 1) * 10), count)
            new = [
                Row(time * SECOND // 10, f"key {self.rng.randrange(12)}", 1000 * batch + 2 * i + side)
                for i, time in enumerate(times)
            ]
            rows.extend(new)
            feed.write(new)

    def flood(self) -> None:
        for feed in self.feeds:
            feed.flood()

    def join(self, spark: SparkSession, **options: Any) -> DataFrame:
        left, right = (feed.stream(spark, "60 seconds").select("ts", "k", "v") for feed in self.feeds)
        return asof_join(left, right, by="k", left_time="ts", right_time="ts", **options)

    def query(self, spark: SparkSession, checkpoint: Path, **options: Any) -> ClockedQuery:
        return ClockedQuery(self.join(spark, **options), checkpoint=checkpoint)


def pairs(rows: list[Any]) -> Counter[tuple[Any, ...]]:
    return Counter((row.v, row.v_right) for row in rows)


@pytest.mark.parametrize("options", KINDS.values(), ids=list(KINDS))
@pytest.mark.sampled(1)
def test_a_join_continues_from_a_savepoint_with_another_number_of_partitions(
    spark: SparkSession, tmp_path: Path, options: dict[str, Any]
) -> None:
    sides = Sides(tmp_path)
    with sides.query(spark, tmp_path / "two", **options) as query:
        for batch in range(3):
            sides.write(batch)
            query.settle()
        records = batches_of(query)[-1]["numRowsTotal"]
    savepoint(tmp_path / "two", tmp_path / "three", partitions=3)
    savepoint(tmp_path / "three", tmp_path / "one", partitions=1)
    sides.write(3)
    results = []
    for partitions in ("two", "three", "one"):
        with sides.query(spark, tmp_path / partitions, **options) as query:
            results.append([pairs(query.settle()), batches_of(query)[-1]["numRowsTotal"]])
    assert records > 0
    assert sum(results[0][0].values()) > 0
    assert results[1] == results[0] == results[2]
    sides.flood()
    ends = []
    for partitions in ("two", "three", "one"):
        with sides.query(spark, tmp_path / partitions, **options) as query:
            ends.append([pairs(query.settle()), batches_of(query)[-1]["numRowsTotal"]])
    assert ends[1] == ends[0] == ends[2]
    assert ends[0][1] == (0 if options else 12)


def test_a_join_that_lost_state_is_set_back_and_reads_the_later_rows_again(spark: SparkSession, tmp_path: Path) -> None:
    sides = Sides(tmp_path)
    checkpoint = tmp_path / "checkpoint"
    with sides.query(spark, checkpoint, tolerance="20 seconds") as query:
        for batch in range(4):
            sides.write(batch)
            query.settle()
    sides.write(4)
    shutil.copytree(checkpoint, tmp_path / "undisturbed")
    with sides.query(spark, tmp_path / "undisturbed", tolerance="20 seconds") as query:
        undisturbed = pairs(query.settle())
    state = list((checkpoint / "state/0/0").glob("[0-9]*_*"))
    newest = max(int(file.name.split("_")[0]) for file in state)
    for file in state:
        if int(file.name.split("_")[0]) == newest:
            file.unlink()
            file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    assert recover(checkpoint, spark=spark) >= 1
    with sides.query(spark, checkpoint, tolerance="20 seconds") as query:
        assert pairs(query.settle()) >= undisturbed


def test_a_changed_join_is_compared_with_its_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    sides = Sides(tmp_path)
    with sides.query(spark, tmp_path / "checkpoint") as query:
        sides.write(0)
        query.settle()

    def verdicts(**options: Any) -> list[tuple[str, str]]:
        rows = compare(sides.join(spark, **options), tmp_path / "checkpoint").collect()
        return [(row.verdict, row.what) for row in rows]

    assert verdicts() == [("goes on", "the state means what it meant")]
    assert verdicts(direction="nearest", tolerance="5 seconds") == [
        ("refused", "direction was [backward] and is now [nearest]"),
        ("refused", "tolerance in microseconds was [none] and is now [5000000]"),
    ]


def run(spark: SparkSession, folder: Path) -> None:
    """Runs the join over all rows so far, into files."""
    sides = Sides(folder)
    joined = sides.join(spark, direction="nearest", tolerance="7 seconds")
    joined.select("v", "v_right").writeStream.format("parquet").option("path", str(folder / "out")).option(
        "checkpointLocation", str(folder / "checkpoint")
    ).trigger(availableNow=True).start().awaitTermination()


@pytest.mark.slow
def test_a_join_killed_in_batches_returns_each_row_once(spark: SparkSession, tmp_path: Path) -> None:
    sides = Sides(tmp_path)
    number = 0
    for _ in range(3):
        for _ in range(5):
            sides.write(number)
            number += 1
        kill_after(tmp_path, somewhere_in_a_batch(tmp_path / "checkpoint", sides.rng), __file__)
    assert committed(tmp_path / "checkpoint") < 2 * number
    sides.flood()
    run(spark, tmp_path)
    model = AsOfModel("nearest", 7 * SECOND, allow_exact=True)
    expected = Counter((row.value, value) for row, value in model.batch(*sides.rows, now=2**62))
    rows = spark.read.parquet(str(tmp_path / "out")).select(F.col("v"), F.col("v_right")).collect()
    assert pairs(rows) == expected, f"MULLION_SEED={SEED}"


if __name__ == "__main__":
    home = Path(sys.argv[1])
    run(session_of_its_own(home), home)
