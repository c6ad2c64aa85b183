"""Tables of panes whose query is killed repeatedly: in the end they equal a batch query."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import mullion
from mullion import DeltaTable, Early, JdbcTable, ParquetTable, Session, upsert, windowed
from mullion.tables import Table
from tests.support.killing import committed, environment, files, kill_after, session_of_its_own
from tests.support.seeds import SEED
from tests.support.streams import SECOND, Feed

pytestmark = pytest.mark.slow

COLUMNS = "k string, v bigint"
LIVES = 4
DELTA = Path(__file__).parents[2] / ".build" / "delta"
DELTA_CONF = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


def table_in(folder: Path, kind: str) -> Table:
    if kind == "delta":
        return DeltaTable(f"delta.`{folder / 'table'}`")
    if kind == "jdbc":
        return JdbcTable(f"jdbc:derby:{folder / 'database'};create=true", "visits")
    return ParquetTable(str(folder / "table"))


def session(folder: Path, kind: str) -> SparkSession:
    if kind == "delta":
        return session_of_its_own(folder, jars=sorted((DELTA / "delta").glob("*.jar")), conf=DELTA_CONF)
    return session_of_its_own(folder)


def panes_of(rows: DataFrame) -> DataFrame:
    sessions = windowed(rows, Session("10 seconds"), by="k", time="ts", early=Early(count=1), ids=True)
    return sessions.agg(F.count("*").alias("n"), F.sum("v").alias("total"))


def run(folder: Path, kind: str) -> None:
    """Keeps the table until all rows there are have come into it."""
    spark = session(folder, kind)
    stream = Feed(folder / "in", COLUMNS).stream(spark, "1 hour")
    writer = upsert(panes_of(stream), into=table_in(folder, kind))
    writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(
        availableNow=True
    ).start().awaitTermination()


def shown(rows: DataFrame) -> Counter[tuple[Any, ...]]:
    bounds = [F.unix_micros("window_start"), F.unix_micros("window_end")]
    return Counter(tuple(row) for row in rows.select("k", *bounds, "n", "total").collect())


def somewhere(folder: Path, rng: random.Random) -> Iterator[float]:
    """Ends somewhere in a batch, or while the table is written: some files after a batch more than there were."""
    batch, more = committed(folder / "checkpoint") + 1, rng.randrange(60)
    while committed(folder / "checkpoint") < batch:
        yield 0.05
    before = files(folder)
    while files(folder) < before + more:
        yield 0.005


@pytest.mark.parametrize("kind", ["parquet", "jdbc", "delta"])
def test_a_table_whose_query_is_killed_repeatedly_equals_a_batch_query(
    kind: str, spark: SparkSession, tmp_path: Path
) -> None:
    rng = random.Random(f"{SEED} {kind}")
    feed = Feed(tmp_path / "in", COLUMNS)
    for _ in range(3 * LIVES + 3):
        rows = [(rng.randrange(200) * SECOND, f"key {rng.randrange(20)}", rng.randrange(100)) for _ in range(30)]
        feed.write(rows)
    for _ in range(LIVES):
        kill_after(tmp_path, somewhere(tmp_path, rng), f"{__file__}", kind)
    finish(tmp_path, kind)
    expected = shown(mullion.flat(panes_of(feed.batch(spark))))
    table = spark.read.parquet(str(tmp_path / "held"))
    assert shown(table) == expected, f"seed {SEED}"
    assert table.select("k", "pane_id").distinct().count() == table.count(), f"seed {SEED}"


def finish(folder: Path, kind: str) -> None:
    """A last life that is not killed, and what the table holds then, for those who have no such session."""
    subprocess.run([sys.executable, __file__, str(folder), kind, "held"], env=environment(), check=True)


if __name__ == "__main__":
    home, which = Path(sys.argv[1]), sys.argv[2]
    run(home, which)
    if sys.argv[3:] == ["held"]:
        contents = table_in(home, which).read(session(home, which))
        assert contents is not None
        contents.write.mode("overwrite").parquet(str(home / "held"))
