"""Panes as plain columns; and what a row of panes is to Python."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from mullion import Count, InvalidArgumentError, Tumbling, flat, together, windowed
from tests.support.clocked import ClockedQuery
from tests.support.streams import SECOND, Feed

PLAIN = ["k", "window_start", "window_end", "pane_firing", "pane_seq", "n"]


def test_flat_panes_go_into_csv_and_pandas_with_a_column_for_each_value(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "k string")
    rows, n = feed.stream(spark), F.count("*").alias("n")
    panes = windowed(rows, Tumbling("10 seconds"), by="k", time="ts", late="emit").agg(n)
    assert flat(panes).columns == [*PLAIN, "late_row_t", "late_row_k", "late_row_ts"]
    with ClockedQuery(flat(panes), checkpoint=tmp_path / "checkpoint") as query:
        feed.write([(1 * SECOND, "a"), (25 * SECOND, "b")])
        (closed,) = query.settle()
        assert (closed.window_end.second, closed.pane_firing, closed.pane_seq, closed.n) == (10, "close", 0, 1)
        feed.write([(2 * SECOND, "a")])
        (late,) = query.settle()
        assert (late.pane_firing, late.late_row_t, late.window_start, late.n) == ("late", 2 * SECOND, None, None)
    batch = flat(windowed(feed.batch(spark), Tumbling("10 seconds"), by="k", time="ts").agg(n))
    batch.coalesce(1).write.option("header", True).csv(str(tmp_path / "csv"))
    (file,) = (tmp_path / "csv").glob("*.csv")
    lines = sorted(csv.DictReader(file.read_text().splitlines()), key=lambda line: line["k"])
    assert [(line["k"], line["pane_firing"], line["n"]) for line in lines] == [("a", "close", "2"), ("b", "close", "1")]
    frame: Any = batch.toPandas()
    assert list(frame.columns) == PLAIN
    assert {str(kind) for kind in frame.dtypes[["window_start", "window_end"]]} == {"datetime64[ns]"}


def test_what_cannot_be_made_flat_is_rejected(spark: SparkSession) -> None:
    rows = spark.createDataFrame([], "ts timestamp, k string")
    with pytest.raises(InvalidArgumentError, match="has the columns 'ts', 'k', and panes have"):
        flat(rows)
    panes = windowed(rows, Tumbling("1 hour"), by="k", time="ts").agg(F.count("*").alias("pane_seq"))
    with pytest.raises(InvalidArgumentError, match="2 columns named 'pane_seq'"):
        flat(panes)
    both = together(a=windowed(rows, Tumbling("1 hour"), by="k", time="ts").agg(F.count("*").alias("n")))
    assert flat(both).columns == ["window_name", *PLAIN]


def test_no_field_of_window_pane_or_late_row_is_named_as_a_method_of_row(spark: SparkSession) -> None:
    rows = spark.createDataFrame([], "ts timestamp, k string")
    methods = {name for name in dir(Row) if not name.startswith("_")}
    assert {"index", "count"} <= methods
    n = F.count("*").alias("n")
    for panes in (
        windowed(rows, Tumbling("1 hour"), by="k", time="ts", late="emit").agg(n),
        windowed(rows, Count(2), by="k", time=None).agg(n),
    ):
        assert not methods & set(panes.columns)
        for struct in ("window", "pane"):
            kind = panes.schema[struct].dataType
            assert isinstance(kind, StructType)
            assert not methods & set(kind.names), struct
