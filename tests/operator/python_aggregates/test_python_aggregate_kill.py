"""A query with aggregates in Python that is killed in the middle of batches: each row is in its pane once."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from mullion import PythonAggregate, Tumbling, windowed
from tests.support.killing import committed, kill_after, session_of_its_own, somewhere_in_a_batch
from tests.support.seeds import SEED
from tests.support.streams import Feed

pytestmark = pytest.mark.slow

# Workers of the killed process do not have the folder of the tests on their path.
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]

COLUMNS = "k string, id bigint"
HOUR = 3_600_000_000


class Ids(PythonAggregate, returns="array<bigint>"):
    def create(self) -> list[int]:
        return []

    def add(self, ids: list[int], rows: pa.RecordBatch) -> list[int]:
        return [*ids, *rows["id"].to_pylist()]

    def merge(self, a: list[int], b: list[int]) -> list[int]:
        return a + b


def run(spark: SparkSession, folder: Path) -> None:
    """Runs the query over all rows so far, into files."""
    spark.conf.set("spark.sql.mullion.pythonAggregate.waitingRows", "1")
    rows = Feed(folder / "in", COLUMNS).stream(spark, "1 hour")
    panes = windowed(rows, Tumbling("6 hours"), by="k", time="ts", allowed_lateness="2 hours").agg(ids=Ids("id"))
    panes.select("k", F.unix_micros("window.start").alias("start"), "ids").writeStream.format("parquet").option(
        "path", str(folder / "out")
    ).option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start().awaitTermination()


@pytest.fixture
def waiting(spark: SparkSession) -> Iterator[SparkSession]:
    yield spark
    spark.conf.unset("spark.sql.mullion.pythonAggregate.waitingRows")


def test_a_query_killed_in_batches_has_each_row_once(waiting: SparkSession, tmp_path: Path) -> None:
    rng = random.Random(SEED)
    feed = Feed(tmp_path / "in", COLUMNS)
    wanted: dict[tuple[str, int], list[int]] = {}
    number = 0
    for _ in range(3):
        for _ in range(5):
            start = HOUR * number
            rows = [(start + rng.randrange(HOUR), f"key {rng.randrange(20)}", 100 * number + i) for i in range(60)]
            for time, key, id_ in rows:
                wanted.setdefault((key, time // (6 * HOUR) * 6 * HOUR), []).append(id_)
            feed.write(rows)
            number += 1
        kill_after(tmp_path, somewhere_in_a_batch(tmp_path / "checkpoint", rng), __file__)
    assert committed(tmp_path / "checkpoint") < number
    feed.flood()
    run(waiting, tmp_path)
    fired = waiting.read.parquet(str(tmp_path / "out")).collect()
    assert len(fired) == len(wanted), f"MULLION_SEED={SEED}"
    assert {(row.k, row.start): sorted(row.ids) for row in fired} == wanted, f"MULLION_SEED={SEED}"


if __name__ == "__main__":
    home = Path(sys.argv[1])
    run(session_of_its_own(home), home)
