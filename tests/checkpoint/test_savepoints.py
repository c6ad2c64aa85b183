"""Savepoints from Python and by the command: their arguments and errors, and queries that resume them."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion import (
    DamagedStateError,
    DroppedRowsWarning,
    IncompatibleStateError,
    InvalidArgumentError,
    Tumbling,
    UnsupportedError,
    read_panes,
    savepoint,
    windowed,
)
from mullion._program.cli import main
from tests.support.streams import SECOND, Feed


def panes(feed: Feed, spark: SparkSession) -> DataFrame:
    rows = feed.stream(spark, delay="5 seconds")
    return windowed(rows, Tumbling("10 seconds"), by="k", time="ts").agg(F.sum("v").alias("total"))


def run(panes: DataFrame, checkpoint: Path) -> None:
    writer = panes.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()


def test_windows_over_the_checkpoint_of_sparks_own_name_the_savepoint(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "k string, v int")
    feed.write([(SECOND, "a", 1)])
    rows = feed.stream(spark, delay="5 seconds")
    run(rows.groupBy(F.window("ts", "10 seconds"), "k").agg(F.sum("v")), tmp_path / "checkpoint")
    feed.write([(2 * SECOND, "a", 1)])
    says = r"state of Spark's own windows \(stateStoreSave\).*mullion\.savepoint\(checkpoint, to, spark_query="
    with pytest.raises(IncompatibleStateError, match=says):
        run(panes(feed, spark), tmp_path / "checkpoint")


def totals(checkpoint: Path) -> dict[str, int]:
    return {row.k: row.total for row in read_panes(checkpoint).collect()}


def test_a_query_continues_from_the_savepoint_of_the_command(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    feed = Feed(tmp_path / "in", "k string, v int")
    feed.write([(SECOND * n, f"k{n}", n) for n in range(9)])
    run(panes(feed, spark), tmp_path / "one")
    batch = len(list((tmp_path / "one" / "commits").glob("[0-9]*"))) - 1
    arguments = ["savepoint", str(tmp_path / "one"), str(tmp_path / "other"), "--partitions", "5"]
    assert main.main(arguments) == 0
    assert capsys.readouterr().out == f"{tmp_path}/other continues after batch {batch} of {tmp_path}/one.\n"
    assert totals(tmp_path / "other") == totals(tmp_path / "one") == {f"k{n}": n for n in range(9)}
    feed.write([(SECOND * n, f"k{n}", 100) for n in range(9)])
    run(panes(feed, spark), tmp_path / "other")
    assert totals(tmp_path / "other") == {f"k{n}": n + 100 for n in range(9)}
    assert {folder.name for folder in (tmp_path / "other/state/0").glob("[0-9]*")} == set("01234")
    assert main.main(arguments) == 1
    assert "exists and is not an empty folder" in capsys.readouterr().err


def sparks_own(feed: Feed, spark: SparkSession) -> DataFrame:
    rows = feed.stream(spark, delay="5 seconds")
    return rows.groupBy("k", F.window("ts", "10 seconds")).agg(F.count("*").alias("n"), F.sum("v").alias("total"))


def test_the_command_converts_a_query_of_sparks_own_windows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    feed = Feed(tmp_path / "in", "k string, v int")
    feed.write([(SECOND * n, f"k{n}", n) for n in range(9)])
    spark_query = sparks_own(feed, spark)
    run(spark_query, tmp_path / "one")
    queries = types.ModuleType("queries_of_clicks")
    queries.spark_query, queries.panes = spark_query, lambda spark: panes(feed, spark)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "queries_of_clicks", queries)
    arguments = ["savepoint", str(tmp_path / "one"), str(tmp_path / "other"), "--partitions", "3"]
    assert main.main(arguments) == 1
    assert "savepoint(checkpoint, to, spark_query=..., panes=...)" in capsys.readouterr().err
    assert (
        main.main([*arguments, "--spark-query", "queries_of_clicks:spark_query", "--panes", "queries_of_clicks:panes"])
        == 0
    )
    feed.write([(SECOND * n, f"k{n}", 100) for n in range(8)] + [(11 * SECOND, "new", 1)])
    run(panes(feed, spark), tmp_path / "other")
    assert totals(tmp_path / "other") == {"k8": 8, "new": 1} | {f"k{n}": n + 100 for n in range(8)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"partitions": 0}, "partitions=0 is not a number of partitions"),
        ({"partitions": True}, "partitions=True is not a number of partitions"),
        ({"partitions": 10**9}, "partitions=1000000000 is not a number of partitions"),
        ({"checkpoint_format": 3}, "checkpoint_format=3 is not 1 or 2"),
        ({"to": None}, r"to=None \(NoneType\) is not a path"),
        ({"to": ""}, "to='' is not a folder"),
        ({"spark_query": "query"}, r"spark_query='query' \(str\) is not a DataFrame"),
        ({"panes": 1}, r"panes=1 \(int\) is not a DataFrame"),
        ({"checkpoint": "/no/such"}, "There is no state in /no/such"),
    ],
)
def test_invalid_arguments_are_named(
    spark: SparkSession, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    of: dict[str, Any] = {"checkpoint": tmp_path / "one", "to": tmp_path / "other", **options}
    with pytest.raises(InvalidArgumentError, match=message):
        savepoint(of.pop("checkpoint"), of.pop("to"), **of)
    assert not (tmp_path / "other").exists()


def test_an_operator_of_sparks_is_named(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "k string, v int")
    feed.write([(SECOND, "a", 1)])
    rows = feed.stream(spark, delay="5 seconds").dropDuplicatesWithinWatermark(["k"])
    with pytest.warns(DroppedRowsWarning):
        after = windowed(rows, Tumbling("10 seconds"), by="k", time="ts").agg(F.sum("v").alias("total"))
    run(after, tmp_path / "one")
    with pytest.raises(UnsupportedError, match=r"Operator \d of .*one is Spark's own \(dedupeWithinWatermark\)"):
        savepoint(tmp_path / "one", tmp_path / "other")


@pytest.mark.parametrize("name", ["sources/0/0", "metadata", "commits/*"])
def test_what_sources_and_logs_have_noted_is_looked_at_before_a_query_starts(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    feed = Feed(tmp_path / "in", "k string, v int")
    feed.write([(SECOND, "a", 1)])
    run(panes(feed, spark), tmp_path / "one")
    savepoint(tmp_path / "one", tmp_path / "other")
    (gone,) = (path for path in (tmp_path / "other").glob(name) if not path.name.startswith("."))
    content = gone.read_bytes()
    gone.unlink()
    with pytest.raises(DamagedStateError, match=f"the file {gone.relative_to(tmp_path / 'other')} is missing"):
        run(panes(feed, spark), tmp_path / "other")
    gone.write_bytes(content)
    run(panes(feed, spark), tmp_path / "other")
    assert totals(tmp_path / "other") == {"a": 1}
