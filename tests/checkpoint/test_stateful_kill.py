"""Stages whose process is killed and whose tasks fail: their state and output do not change."""

from __future__ import annotations

import os
import random
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext, cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion import Tumbling, windowed
from mullion._keyed.api import Branch, Firings, State, read_state, staged
from tests.support.killing import committed, kill_after, session_of_its_own, somewhere_in_a_batch
from tests.support.seeds import SEED
from tests.support.streams import SECOND, Feed

pytestmark = pytest.mark.slow

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]

COLUMNS = "k string, n bigint"


def add(state: State, key: str, n: int) -> int:
    now = int(state.get(key.encode()) or b"0") + n
    state.put(key.encode(), str(now).encode())
    return now


def fail_once(state: State, stage: str) -> None:
    """In every third batch the first attempt of a task fails after all its writes."""
    context = TaskContext.get()
    assert context is not None
    if context.attemptNumber() == 0 and state.batch_id % 3 == (1 if stage == "process" else 2):
        state.flush()
        raise RuntimeError(f"the {stage} of batch {state.batch_id} is to fail once")


def process(batches: Iterator[pa.RecordBatch], state: State) -> Iterator[Any]:
    for batch in batches:
        rows = batch.select(["ts", "k", "n"])
        for row in rows.to_pylist():
            if row["k"] is not None:
                state.put_timer(add(state, f"rows of {row['k']}", 1) * SECOND, row["k"].encode())
        yield "sums", rows
    fail_once(state, "process")


def callbacks(firings: Iterator[Firings], state: State) -> Iterator[pa.RecordBatch]:
    for _, _, batch in firings:
        for row in batch.to_pylist():
            closed = add(state, f"panes of {row['k']}", row["total"])
            yield pa.RecordBatch.from_pylist([{"k": row["k"], "total": row["total"], "closed": closed}])
    fail_once(state, "callbacks")


def sums(rows: DataFrame) -> DataFrame:
    windows = windowed(rows.withWatermark("ts", "0 seconds"), Tumbling("1 hour"), by="k", time="ts")
    return windows.agg(F.sum("n").alias("total"))


def run(spark: SparkSession, folder: Path) -> None:
    out = staged(
        Feed(folder / "in", COLUMNS).stream(spark),
        process,
        {"sums": Branch("ts timestamp, k string, n bigint", sums)},
        callbacks,
        "k string, total bigint, closed bigint",
        shard_by="k",
    )
    to = out.writeStream.format("parquet").option("path", str(folder / "out"))
    to = to.option("checkpointLocation", str(folder / "checkpoint"))
    to.trigger(availableNow=True).start().awaitTermination()


def test_stages_that_are_killed_and_tasks_that_fail_leave_what_an_undisturbed_run_leaves(
    spark: SparkSession, tmp_path: Path
) -> None:
    rng = random.Random(SEED)
    feed = Feed(tmp_path / "in", COLUMNS)
    rows, panes, number = Counter[str](), Counter[tuple[str, int]](), 0

    def write(more: int) -> None:
        nonlocal number
        for _ in range(more):
            batch = [(f"key {rng.randrange(12)}", rng.randrange(100)) for _ in range(40)]
            # An hour each, in order: no row is late, for any division of the files into batches.
            feed.write([(number * 3600 * SECOND + 1, k, n) for k, n in batch])
            for k, n in batch:
                rows[k] += 1
                panes[k, number] += n
            number += 1

    write(4)
    kill_after(tmp_path, somewhere_in_a_batch(tmp_path / "checkpoint", rng), __file__)
    write(2)
    feed.write([(number * 3600 * SECOND, None, 0)])
    # A separate process with several attempts per task, because the tests' session has one.
    finish(tmp_path)

    closed = Counter({k: sum(total for (of, _), total in panes.items() if of == k) for k in rows})
    checkpoint = tmp_path / "checkpoint"
    assert committed(checkpoint) >= 4
    state = {bytes(row.key).decode(): int(bytes(row.value)) for row in read_state(checkpoint, spark=spark).collect()}
    expected = {f"rows of {k}": n for k, n in rows.items()} | {f"panes of {k}": n for k, n in closed.items()}
    assert state == expected, f"MULLION_SEED={SEED}"
    out = spark.read.parquet(str(tmp_path / "out")).collect()
    assert Counter((row.k, row.total) for row in out) == Counter((k, total) for (k, _), total in panes.items())
    assert max(Counter((row.k, row.closed) for row in out if row.total).values()) == 1


def finish(folder: Path) -> None:
    import subprocess

    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    subprocess.run(
        [sys.executable, __file__, str(folder)], env=environment, check=True, capture_output=True, timeout=300
    )


if __name__ == "__main__":
    home = Path(sys.argv[1])
    run(session_of_its_own(home, "local[2,4]"), home)
