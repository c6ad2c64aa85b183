"""Python functions with durable state of each shard."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from mullion import Tumbling, windowed
from mullion._stateful import Branch, Firings, State, read_state, staged, stateful_map
from mullion.testing import ClockedQuery
from streams import Feed

# Workers do not have the folder of the tests on their path.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def running_totals(batches: Iterator[pa.RecordBatch], state: State) -> Iterator[pa.RecordBatch]:
    """Gives each row with the total of its key so far."""
    for batch in batches:
        rows = batch.to_pylist()
        for row in rows:
            key = row["k"].encode()
            total = int(state.get(key) or b"0") + row["n"]
            state.put(key, str(total).encode())
            row["total"] = total
        yield pa.RecordBatch.from_pylist([{"k": row["k"], "n": row["n"], "total": row["total"]} for row in rows])


def records_in(spark: SparkSession, checkpoint: Path) -> dict[bytes, bytes]:
    return {bytes(row.key): bytes(row.value) for row in read_state(checkpoint, spark=spark).collect()}


def test_a_function_sees_what_it_wrote_in_earlier_batches(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "k string, n bigint")
    out = stateful_map(feed.stream(spark), running_totals, "k string, n bigint, total bigint", shard_by="k")
    with ClockedQuery(out, checkpoint=tmp_path / "checkpoint") as query:
        feed.write([(0, "a", 1), (0, "b", 2), (0, "a", 3)])
        assert sorted(map(tuple, query.settle())) == [("a", 1, 1), ("a", 3, 4), ("b", 2, 2)]
        feed.write([(0, "a", 10)])
        assert sorted(map(tuple, query.settle())) == [("a", 10, 14)]
    assert records_in(spark, tmp_path / "checkpoint") == {b"a": b"14", b"b": b"2"}


def test_two_stages_share_one_state_with_a_window_between(spark: SparkSession, tmp_path: Path) -> None:
    def process(batches: Iterator[pa.RecordBatch], state: State) -> Iterator[Any]:
        for batch in batches:
            state.put(b"seen", str(int(state.get(b"seen") or b"0") + batch.num_rows).encode())
            yield "sums", batch.select(["ts", "k", "n"])

    def callbacks(firings: Iterator[Firings], state: State) -> Iterator[pa.RecordBatch]:
        for window, firing, batch in firings:
            seen = int(state.get(b"seen") or b"0")
            yield pa.RecordBatch.from_pylist(
                [{"what": f"{window} {firing} {row['k']} {row['total']}", "seen": seen} for row in batch.to_pylist()]
            )

    feed = Feed(tmp_path / "in", "k string, n bigint")
    sums = Branch(
        "ts timestamp, k string, n bigint",
        lambda rows: windowed(rows.withWatermark("ts", "0 seconds"), Tumbling("10 seconds"), by="k", time="ts").agg(
            F.sum("n").alias("total")
        ),
    )
    source = feed.stream(spark)
    out = staged(source, process, {"sums": sums}, callbacks, "what string, seen bigint", shard_by="k")
    with ClockedQuery(out, checkpoint=tmp_path / "checkpoint") as query:
        feed.write([(1_000_000, "a", 1), (2_000_000, "a", 2)])
        assert query.settle() == []
        feed.write([(12_000_000, "a", 4)])
        assert list(map(tuple, query.settle())) == [("sums close a 3", 3)]
