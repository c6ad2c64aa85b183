"""Queries whose rows are processed one by one reject the state of another window or of other options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from mullion import (
    Count,
    Early,
    Global,
    MullionError,
    PerKey,
    Session,
    Tumbling,
    windowed,
)
from mullion.windows import Window
from tests.support.clocked import ClockedQuery
from tests.support.streams import Feed, rows_of

CHANGES: dict[str, tuple[Window, Window]] = {
    "window": (Count(3), Count(4)),
    "the column of a trigger": (Global.changes("k"), Global.changes("id")),
    "count and global": (Count(3), Global.every(3)),
    "a timeout is new": (Count(3), Count(3, timeout="1 hour")),
    "another timeout": (Count(3, timeout="2 hours"), Count(3, timeout="1 hour")),
    "a condition is new": (Global.every(3), Global.every(3, ends_with="is_last")),
    "another condition": (Global.every(3, ends_with="is_first"), Global.every(3, ends_with="is_last")),
}


@pytest.mark.parametrize(("before", "now"), CHANGES.values(), ids=list(CHANGES))
def test_the_state_of_another_window_of_rows_is_rejected(
    before: Window, now: Window, spark: SparkSession, tmp_path: Path
) -> None:
    feed = Feed(tmp_path / "in", "k string, id bigint")
    rows = rows_of(spark, feed, None).withColumns({"is_first": F.col("id") == 1, "is_last": F.col("id") == 9})
    feed.write([(0, "a", 1)])
    query = ClockedQuery(windowed(rows, before, time=None).agg(F.count("*")), checkpoint=tmp_path / "checkpoint")
    query.settle()
    query.stop()
    feed.write([(0, "a", 2)])
    changed = ClockedQuery(windowed(rows, now, time=None).agg(F.count("*")), checkpoint=tmp_path / "checkpoint")
    try:
        with pytest.raises(MullionError, match="window was"):
            changed.settle()
    finally:
        changed.stop()


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (Session("1 hour"), Session("1 hour", max_length="2 hours")),
        (Session("1 hour", max_length="2 hours"), Session("1 hour", max_length="3 hours")),
        (Session("1 hour", ends_with="is_first"), Session("1 hour", ends_with="is_last")),
        (Tumbling("1 hour", starts="first row"), Tumbling("1 hour")),
        (Tumbling("1 hour", starts="first row"), Session("1 hour", max_length="1 hour")),
    ],
)
def test_other_rules_of_order_need_a_new_checkpoint(
    before: Window, now: Window, spark: SparkSession, tmp_path: Path
) -> None:
    feed = Feed(tmp_path / "in", "k string, id bigint")
    rows = rows_of(spark, feed).withColumns({"is_first": F.col("id") == 1, "is_last": F.col("id") == 9})
    feed.write([(0, "a", 1)])
    query = ClockedQuery(windowed(rows, before, time="ts").agg(F.count("*")), checkpoint=tmp_path / "checkpoint")
    query.settle()
    query.stop()
    feed.write([(0, "a", 2)])
    changed = ClockedQuery(windowed(rows, now, time="ts").agg(F.count("*")), checkpoint=tmp_path / "checkpoint")
    try:
        with pytest.raises(MullionError, match="window was"):
            changed.settle()
    finally:
        changed.stop()


@pytest.mark.parametrize("options", [{"early": Early(each_row=True)}, {"clock": PerKey()}])
def test_the_state_of_rows_that_were_aggregated_in_batches_is_rejected(
    options: dict[str, Any], spark: SparkSession, tmp_path: Path
) -> None:
    feed = Feed(tmp_path / "in", "k string, id bigint")
    rows = rows_of(spark, feed)
    feed.write([(0, "a", 1)])
    plain = windowed(rows, Tumbling("1 hour"), time="ts").agg(F.count("*"))
    query = ClockedQuery(plain, checkpoint=tmp_path / "checkpoint")
    query.settle()
    query.stop()
    feed.write([(0, "a", 2)])
    changed = windowed(rows, Tumbling("1 hour"), time="ts", **options).agg(F.count("*"))
    query = ClockedQuery(changed, checkpoint=tmp_path / "checkpoint")
    try:
        with pytest.raises(MullionError, match="rows one by one was"):
            query.settle()
    finally:
        query.stop()
