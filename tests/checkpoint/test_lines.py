"""Checkpoints of another Spark version: resumed with the format of their keys, or rejected with both versions."""

from __future__ import annotations

import json
import random
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from mullion import (
    Custom,
    Global,
    IncompatibleStateError,
    InvalidArgumentError,
    Session,
    Sliding,
    Tumbling,
    UnsupportedError,
    read_panes,
    windowed,
)
from mullion._util import spark_versions
from mullion._util.jars import running_line
from tests.support.clocked import ClockedQuery
from tests.support.seeds import SEED
from tests.support.streams import SECOND, Feed

# Cached state would be read without its keys.
HOT = "spark.sql.streaming.stateStore.mullion.hotBytes"
KEYS = "spark.sql.streaming.stateStore.mullion.keys"
WINDOWS: dict[str, Tumbling | Sliding | Session] = {
    "tumbling": Tumbling("10 seconds"),
    "sliding": Sliding("10 seconds", "2 seconds"),
    "session": Session("4 seconds"),
}


def note(checkpoint: Path, line: str, keys: str) -> None:
    """Changes a checkpoint's record of its Spark version and of the format of its keys."""
    home = checkpoint / "state" / "0" / "_mullion"
    home.mkdir(parents=True, exist_ok=True)
    (home / ".spark.json.crc").unlink(missing_ok=True)
    (home / "spark.json").write_text(json.dumps({"spark": line, "keys": keys}), "utf-8")


def noted(checkpoint: Path) -> Any:
    return json.loads((checkpoint / "state" / "0" / "_mullion" / "spark.json").read_text("utf-8"))


def content(folder: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def run(spark: SparkSession, feed: Feed, checkpoint: Path, window: str, keys: str = "") -> list[Any]:
    own = spark.newSession()
    own.conf.set(HOT, "0")
    if keys:
        own.conf.set(KEYS, keys)
    panes = windowed(feed.stream(own), WINDOWS[window], by="k", time="ts").agg(F.sum("v").alias("v"))
    query = ClockedQuery(panes, checkpoint=checkpoint)
    try:
        return [tuple(row) for row in query.settle()]
    finally:
        query.stop()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("window", WINDOWS)
def test_a_state_with_keys_of_an_older_spark_version_resumes_with_them(
    spark: SparkSession, tmp_path: Path, window: str
) -> None:
    seed = SEED
    print(f"MULLION_SEED={seed}")
    chance = random.Random(seed)
    feed, checkpoint = Feed(tmp_path / "in", "k string, v bigint"), tmp_path / "checkpoint"
    # For comparison, the same runs over the same rows with the keys of this Spark version.
    twin = tmp_path / "twin"
    actual, expected = [], []
    # The times begin before 1970, with negative values.
    for start in (-40, -15, 0, 20):
        feed.write(
            [
                ((start + chance.randrange(20)) * SECOND, chance.choice(["a", "b", "alike"]), chance.randrange(100))
                for _ in range(25)
            ]
        )
        # Only the first run begins a state.
        actual += run(spark, feed, checkpoint, window, keys="ranges" if start == -40 else "")
        expected += run(spark, feed, twin, window)
    feed.flood()
    actual += run(spark, feed, checkpoint, window)
    expected += run(spark, feed, twin, window)
    assert noted(checkpoint) == {"spark": running_line(), "keys": "ranges"}
    assert sorted(actual, key=str) == sorted(expected, key=str)


def test_keys_that_this_line_does_not_have_are_rejected_with_both_lines(spark: SparkSession, tmp_path: Path) -> None:
    feed, checkpoint = Feed(tmp_path / "in", "k string, v bigint"), tmp_path / "checkpoint"
    feed.write([(SECOND, "a", 1)])
    run(spark, feed, checkpoint, "tumbling")
    assert noted(checkpoint)["spark"] == running_line()
    before = noted(checkpoint)
    note(checkpoint, "4.9", "letters")
    state = content(checkpoint / "state")
    feed.write([(2 * SECOND, "a", 1)])
    refused = rf"begun on Spark 4\.9, and this is Spark {running_line()}.*'letters'.*on Spark 4\.9 or newer"
    with pytest.raises(IncompatibleStateError, match=refused):
        run(spark, feed, checkpoint, "tumbling")
    with pytest.raises(IncompatibleStateError, match=refused):
        read_panes(str(checkpoint)).collect()
    assert content(checkpoint / "state") == state
    note(checkpoint, **{"line": before["spark"], "keys": before["keys"]})
    feed.flood()
    assert [row[-1] for row in run(spark, feed, checkpoint, "tumbling")] == [2]


def test_unknown_keys_are_rejected(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "k string, v bigint")
    feed.write([(SECOND, "a", 1)])
    with pytest.raises(InvalidArgumentError, match=rf"{KEYS}=letters is not one of .*ranges"):
        run(spark, feed, tmp_path / "checkpoint", "tumbling", keys="letters")


def test_a_line_without_functions_over_arrow_calls_that_of_a_window_row_by_row(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = spark.sql("SELECT timestamp_seconds(s) AS ts FROM VALUES (1), (61), (62), (null) AS t(s)")

    def ranges(time: datetime) -> list[tuple[datetime, datetime]] | None:
        return [(time.replace(second=0), time), (time.replace(second=1), time)] if time.second > 1 else None

    def results() -> list[Any]:
        panes = windowed(rows, Custom(ranges), time="ts").agg(F.count("*").alias("n"))
        return sorted((row.window.start, row.window.end, row.n) for row in panes.collect())

    over_arrow = results()
    assert len(over_arrow) == 2
    monkeypatch.setattr(spark_versions, "_ARROW_UDF", None)
    assert results() == over_arrow


def test_a_spark_version_without_functions_over_arrow_rejects_a_split_and_names_a_newer_version(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_versions, "_ARROW_UDF", None)
    split = windowed(spark.range(1), Global.split(lambda buffer: []), time=None)
    with pytest.raises(UnsupportedError, match=r"Global\.split needs Spark 4\.1 or newer.*Global\.when"):
        split.agg(F.count("*"))
