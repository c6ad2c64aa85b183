"""Checkpoints that versions of Mullion wrote, stored unchanged. Later versions must resume them.

Each belongs to one query over a few rows whose panes are all open, in ``tests/checkpoints/VERSION/NAME.tar.xz``. To
write those of the current version before its release::

    python tests/support/campaigns/kept_checkpoints.py [NAME ...]

Names select queries. Checkpoints of a released version never change, and queries stay in this list: the tests report
one that is missing.
"""

from __future__ import annotations

import itertools
import lzma
import sys
import tarfile
import tempfile
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion import (
    Around,
    Count,
    Custom,
    Early,
    Global,
    Session,
    Sliding,
    Tumbling,
    __version__,
    configure,
    functions,
    together,
    windowed,
)
from tests.support.streams import SECOND, Feed

HOME: Final = Path(__file__).parents[2] / "checkpoints"

COLUMNS: Final = "k string, v int"
BEFORE: Final = [(n * SECOND, f"k{n % 3}", n) for n in range(9)]
AFTER: Final = [(n * SECOND, f"k{n % 3}", 10 * n) for n in range(4, 12)]
CLOSING: Final = [(1_000_000 * SECOND, "closing", 0)]

FORMATS: Final = (1, 2)
"""The formats of checkpoints."""

SETTINGS: Final = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
}

FORMAT: Final = "spark.sql.streaming.stateStore.checkpointFormatVersion"


def _tumbling(rows: DataFrame) -> DataFrame:
    early = Early(count=100)
    panes = windowed(rows, Tumbling("20 seconds"), by="k", time="ts", early=early, allowed_lateness="1 second")
    return panes.agg(*_aggregates(), F.sort_array(F.collect_list("v")).alias("all"))


def _sliding(rows: DataFrame) -> DataFrame:
    return windowed(rows, Sliding("20 seconds", "10 seconds"), by="k", time="ts").agg(*_aggregates())


def _session(rows: DataFrame) -> DataFrame:
    return windowed(rows, Session("10 seconds"), by="k", time="ts").agg(*_aggregates())


def _around(rows: DataFrame) -> DataFrame:
    return windowed(rows, Around("20 seconds", "15 seconds"), by="k", time="ts").agg(*_aggregates())


def _together(rows: DataFrame) -> DataFrame:
    keyless = windowed(rows, Tumbling("30 seconds"), time="ts").agg(*_aggregates())
    return together(by_key=_session(rows), all=keyless)


def _count(rows: DataFrame) -> DataFrame:
    return windowed(rows, Count(5, 2), by="k", time=None).agg(*_aggregates())


def _global(rows: DataFrame) -> DataFrame:
    ends = Global.when(F.col("v") % 50 == 40)
    return windowed(rows, ends, by="k", time=None).agg(*_aggregates())


def _collect(rows: DataFrame) -> DataFrame:
    return windowed(rows, Tumbling("20 seconds"), by="k", time="ts").collect()


def _custom(rows: DataFrame) -> DataFrame:
    ranges = Custom(functions.windows("ts", "20 seconds", "10 seconds"))
    return windowed(rows, ranges, by="k", time="ts").agg(*_aggregates())


def _dedupe(rows: DataFrame) -> DataFrame:
    once = windowed(rows, Tumbling("20 seconds"), by="k", time="ts", dedupe_by="v")
    return once.agg(*_aggregates())


def _changed(rows: DataFrame) -> DataFrame:
    early = Early(count=100)
    panes = windowed(rows, Tumbling("20 seconds"), by="k", time="ts", early=early, allowed_lateness="2 seconds")
    return panes.agg(F.max("v").alias("most"), F.count("v").alias("n"))


def _before(rows: DataFrame) -> DataFrame:
    """The query ``_changed`` in its first batch."""
    return windowed(rows, Tumbling("20 seconds"), by="k", time="ts").agg(*_aggregates())


def _aggregates() -> list[Column]:
    return [of("v").alias(of.__name__) for of in (F.count, F.sum, F.avg, F.max)]


QUERIES: Final[dict[str, Callable[[DataFrame], DataFrame]]] = {
    "tumbling": _tumbling,
    "sliding": _sliding,
    "session": _session,
    "around": _around,
    "together": _together,
    "count": _count,
    "global": _global,
    "collect": _collect,
    "custom": _custom,
    "dedupe": _dedupe,
    "changed": _changed,
}

BY_ARRIVAL: Final = {"count", "global", "collect"}
"""Queries whose result depends on the order of rows, which a batch DataFrame does not have."""


def run(panes: DataFrame, checkpoint: Path) -> list[str]:
    """Runs a query to the end of its source. Returns the panes that close, as JSON."""
    closed: list[str] = []

    def put(batch: DataFrame, _: int) -> None:
        closed.extend(as_json(batch.where("pane.firing = 'close'")))

    writer = panes.writeStream.foreachBatch(put).option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()
    return closed


def as_json(panes: DataFrame) -> list[str]:
    """Panes as JSON, without those of the row that closes the others."""
    rows = panes.drop("pane").select(F.to_json(F.struct("*")).alias("row")).collect()
    return [row.row for row in rows if "closing" not in row.row and "1970-01-12" not in row.row]


def write(spark: SparkSession, home: Path, work: Path, names: Collection[str]) -> None:
    """Writes a checkpoint of each query and format."""
    feed = Feed(work / "in", COLUMNS)
    feed.write(BEFORE)
    home.mkdir(parents=True, exist_ok=True)
    for name, checkpoint_format in itertools.product(names, FORMATS):
        spark.conf.set(FORMAT, str(checkpoint_format))
        checkpoint = work / f"{name}-{checkpoint_format}"
        rows = feed
        if name == "changed":
            rows = Feed(work / checkpoint.name / "in", COLUMNS)
            rows.write(BEFORE)
            run(_before(rows.stream(spark, delay="30 seconds")), checkpoint / "query")
            rows.write(AFTER)
        run(QUERIES[name](rows.stream(spark, delay="30 seconds")), checkpoint / "query")
        archive(checkpoint / "query", home / f"{checkpoint.name}.tar.xz")


def archive(folder: Path, to: Path) -> None:
    """Packs all files except those that Hadoop creates again."""
    with lzma.open(to, "wb", preset=9) as packed, tarfile.open(fileobj=packed, mode="w") as tar:
        for file in sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")):
            entry = tarfile.TarInfo(str(file.relative_to(folder)))
            entry.size = file.stat().st_size
            with file.open("rb") as content:
                tar.addfile(entry, content)


def main() -> None:
    """Writes the checkpoints of the current version."""
    builder = SparkSession.builder.master("local[2]").config(map={**SETTINGS, "spark.ui.enabled": "false"})
    spark = configure(builder).getOrCreate()
    with tempfile.TemporaryDirectory() as work:
        write(spark, HOME / __version__.removesuffix(".dev0"), Path(work), sys.argv[1:] or list(QUERIES))
    spark.stop()


if __name__ == "__main__":
    main()
