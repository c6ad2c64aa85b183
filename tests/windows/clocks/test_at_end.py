"""``at_end="close"`` as users run it: through ``foreachBatch``, from sources that limit the rows of a batch."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from pathlib import Path
from typing import Literal

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion import Sliding, Tumbling, windowed
from tests.support.clocked import ClockedQuery
from tests.support.seeds import SEED
from tests.support.streams import SECOND, Feed


def written(spark: SparkSession, folder: Path, name: str, *rows: tuple[int, str]) -> None:
    spark.createDataFrame(list(rows), "s long, k string").coalesce(1).write.mode("append").json(str(folder / name))


def counts(spark: SparkSession, *folders: Path) -> DataFrame:
    """Files with the rows of ten seconds each."""
    read = spark.readStream.option("maxFilesPerTrigger", 1).schema("s long, k string")
    streams = [
        read.json(str(folder)).select("k", F.timestamp_seconds("s").alias("ts")).withWatermark("ts", "0 seconds")
        for folder in folders
    ]
    rows = streams[0] if len(streams) == 1 else streams[0].union(streams[1])
    return windowed(rows, Tumbling("10 seconds"), by="k", time="ts", at_end="close").agg(F.count("*").alias("n"))


def test_a_query_over_several_sources_closes_once_all_of_them_are_read(spark: SparkSession, tmp_path: Path) -> None:
    for second in (1, 2, 3):
        written(spark, tmp_path, "one", (second, "a"))
    written(spark, tmp_path, "two", (4, "a"), (12, "b"))
    batches: list[list[tuple[str, int]]] = []

    def write(firings: DataFrame, _number: int) -> None:
        batches.append(sorted((row.k, row.n) for row in firings.collect()))

    def run() -> None:
        batches.clear()
        panes = counts(spark, tmp_path / "one", tmp_path / "two")
        writer = panes.writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()

    run()
    assert batches[-1] == [("a", 4), ("b", 1)]
    assert not any(batches[:-1])
    written(spark, tmp_path, "two", (13, "b"))
    run()
    assert batches[-1] == [("b", 1)]
    assert not any(batches[:-1])
    run()
    assert not any(batches)


@pytest.mark.parametrize("empty", ["emit", "forward"])
@pytest.mark.always
def test_the_last_windows_without_rows_do_not_depend_on_the_batches_of_the_rows(
    spark: SparkSession, tmp_path: Path, empty: Literal["emit", "forward"]
) -> None:
    chance = random.Random(f"{SEED} {empty}")
    size, delay, span = chance.randrange(4, 12), 30, 120
    slide = chance.choice([size, chance.randrange(1, size)])
    # No row is further than the delay behind an earlier one, so none is late for any division into batches.
    rows = sorted((chance.randrange(span), chance.choice([*"abcdef", None])) for _ in range(20))
    rows = [row for _, row in sorted((at + chance.randrange(delay), (at, key)) for at, key in rows)]
    clock = max(at for at, _ in rows) - delay
    windows = Counter((key, at) for time, key in rows for at in range(time // slide * slide, time - size, -slide))
    last = {key: max(at for k, at in windows if k == key) for key, _ in windows}
    ended = (clock - size) // slide * slide
    expected = Counter(
        (key, at)
        for key in last
        for at in range(min(at for k, at in windows if k == key), max(last[key], ended) + 1, slide)
    )
    assert any(at < ended for at in last.values()), "every key has rows to the end"
    for number, batches in enumerate((1, 4, len(rows))):
        feed = Feed(tmp_path / f"rows {number}", "k string")
        cuts = [len(rows) * batch // batches for batch in range(batches + 1)]
        for begin, end in itertools.pairwise(cuts):
            feed.write([(at * SECOND, key) for at, key in rows[begin:end]])
        panes = windowed(
            feed.stream(spark, f"{delay} seconds"),
            Sliding(f"{size} seconds", f"{slide} seconds") if slide < size else Tumbling(f"{size} seconds"),
            by="k",
            time="ts",
            empty=empty,
            at_end="close",
        ).agg(F.count("*").alias("n"))
        with ClockedQuery(panes, checkpoint=tmp_path / f"checkpoint {number}", drain=True) as query:
            closes = query.settle()
            assert query.progress[-1]["stateOperators"][0]["numRowsTotal"] == 0
        actual = Counter((row.k, int(row.window.start.timestamp())) for row in closes)
        assert actual == expected, f"MULLION_SEED={SEED}, {batches} batches, {size} {slide}"
        if empty == "emit":
            assert {(row.k, int(row.window.start.timestamp())): row.n for row in closes if row.n} == windows
