"""Checkpoints that versions of Mullion wrote, kept as they were: later versions go on from them.

Each is of one query over nine rows, whose panes are all open, in ``tests/checkpoints/VERSION/NAME.tar.xz``. To write
those of the version that is here, before it is released::

    python tests/python/kept_checkpoints.py

What is written for a version stays as it is. A query that this list has no more would be missed by the tests.
"""

from __future__ import annotations

import lzma
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion import Around, Early, Session, Sliding, Tumbling, __version__, configure, together, windowed
from mullion.windows import Store
from streams import SECOND, Feed

HOME: Final = Path(__file__).parents[1] / "checkpoints"

COLUMNS: Final = "k string, v int"
BEFORE: Final = [(n * SECOND, f"k{n % 3}", n) for n in range(9)]
AFTER: Final = [(n * SECOND, f"k{n % 3}", 10 * n) for n in range(4, 12)]
CLOSING: Final = [(1_000_000 * SECOND, "closing", 0)]

STORES: Final[tuple[tuple[Store, int], ...]] = (("rocksdb", 1), ("rocksdb", 2), ("hdfs", 1), ("memory", 1))
"""Each state store, with the formats of checkpoints that it has."""

SETTINGS: Final = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.mullion.snapshotEvery": "1",
}

FORMAT: Final = "spark.sql.streaming.stateStore.checkpointFormatVersion"


def _tumbling(rows: DataFrame, state: Store) -> DataFrame:
    early = Early(count=100)
    panes = windowed(
        rows, Tumbling("20 seconds"), by="k", time="ts", early=early, allowed_lateness="1 second", state=state
    )
    return panes.agg(*_aggregates(), F.sort_array(F.collect_list("v")).alias("all"))


def _sliding(rows: DataFrame, state: Store) -> DataFrame:
    return windowed(rows, Sliding("20 seconds", "10 seconds"), by="k", time="ts", state=state).agg(*_aggregates())


def _session(rows: DataFrame, state: Store) -> DataFrame:
    return windowed(rows, Session("10 seconds"), by="k", time="ts", state=state).agg(*_aggregates())


def _around(rows: DataFrame, state: Store) -> DataFrame:
    return windowed(rows, Around("20 seconds", "15 seconds"), by="k", time="ts", state=state).agg(*_aggregates())


def _together(rows: DataFrame, state: Store) -> DataFrame:
    keyless = windowed(rows, Tumbling("30 seconds"), time="ts", state=state).agg(*_aggregates())
    return together(by_key=_session(rows, state), all=keyless)


def _aggregates() -> list[Column]:
    return [of("v").alias(of.__name__) for of in (F.count, F.sum, F.avg, F.max)]


QUERIES: Final[dict[str, Callable[[DataFrame, Store], DataFrame]]] = {
    "tumbling": _tumbling,
    "sliding": _sliding,
    "session": _session,
    "around": _around,
    "together": _together,
}


def run(panes: DataFrame, checkpoint: Path) -> list[str]:
    """Runs a query until its source has no more; the panes that close, as JSON."""
    closed: list[str] = []

    def put(batch: DataFrame, _: int) -> None:
        closed.extend(said(batch.where("pane.firing = 'close'")))

    writer = panes.writeStream.foreachBatch(put).option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()
    return closed


def said(panes: DataFrame) -> list[str]:
    """Panes as JSON, but those of the row that closes the others."""
    rows = panes.drop("pane").select(F.to_json(F.struct("*")).alias("row")).collect()
    return [row.row for row in rows if "1970-01-12" not in row.row]


def write(spark: SparkSession, home: Path, work: Path) -> None:
    """Writes one of each query, store and format."""
    feed = Feed(work / "in", COLUMNS)
    feed.write(BEFORE)
    home.mkdir(parents=True, exist_ok=True)
    for name, query in QUERIES.items():
        for state, checkpoint_format in STORES:
            spark.conf.set(FORMAT, str(checkpoint_format))
            checkpoint = work / f"{name}-{state}-{checkpoint_format}"
            run(query(feed.stream(spark, delay="30 seconds"), state), checkpoint)
            archive(checkpoint, home / f"{checkpoint.name}.tar.xz")


def archive(folder: Path, to: Path) -> None:
    """Packs the files that Hadoop itself would not make again."""
    with lzma.open(to, "wb", preset=9) as packed, tarfile.open(fileobj=packed, mode="w") as tar:
        for file in sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")):
            entry = tarfile.TarInfo(str(file.relative_to(folder)))
            entry.size = file.stat().st_size
            with file.open("rb") as content:
                tar.addfile(entry, content)


def main() -> None:
    """Writes those of the version that is here."""
    builder = SparkSession.builder.master("local[2]").config(map={**SETTINGS, "spark.ui.enabled": "false"})
    spark = configure(builder).getOrCreate()
    with tempfile.TemporaryDirectory() as work:
        write(spark, HOME / __version__.removesuffix(".dev0"), Path(work))
    spark.stop()


if __name__ == "__main__":
    main()
