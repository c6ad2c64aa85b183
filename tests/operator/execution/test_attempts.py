"""Tasks that fail after they have committed their state, and actions that repeat a batch: each pane closes once."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion import Session, Tumbling, windowed
from tests.support.killing import session_of_its_own
from tests.support.seeds import SEED
from tests.support.streams import SECOND, Feed

pytestmark = pytest.mark.slow

BATCHES = 5
RUNS = 2


def test_commits_of_failed_attempts_and_repeated_actions_are_correct(spark: SparkSession, tmp_path: Path) -> None:
    """A session in a separate process, because tasks of the suite's session have one attempt."""
    path = os.pathsep.join(filter(None, sys.path))
    environment = {
        **os.environ,
        "PYTHONPATH": path,
        "PYSPARK_PYTHON": sys.executable,
        "MULLION_SEED": str(SEED),
    }
    script = [sys.executable, __file__, str(tmp_path)]
    done = subprocess.run(script, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"MULLION_SEED={SEED}\n{done.stderr[-3000:]}"
    # Some tasks failed after their state was committed.
    assert int((tmp_path / "failed").read_text()) > 0


def panes_of(rows: DataFrame) -> dict[str, DataFrame]:
    def panes_over(window: Any) -> DataFrame:
        panes = windowed(rows, window, by="k", time="ts").agg(F.sort_array(F.collect_list("id")).alias("ids"))
        return panes.select("k", F.unix_micros("window.start").alias("start"), F.col("ids").cast("string"))

    return {"tumbling": panes_over(Tumbling("10 seconds")), "sessions": panes_over(Session("3 seconds"))}


def failing(folder: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Fails some tasks' first attempt after their last row, when their state is committed. A folder has a record."""

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        context = TaskContext.get()
        assert context is not None
        if context.attemptNumber() == 0 and random.Random(f"{SEED} {context.taskAttemptId()}").random() < 0.25:
            Path(folder, str(context.taskAttemptId())).touch()
            raise ValueError("an attempt of a task")

    return read


def main(home: Path) -> None:
    spark = session_of_its_own(home, "local[2,4]")
    chance = random.Random(SEED)
    feed = Feed(home / "in", "k int, id bigint")
    out: dict[str, Counter[Any]] = {"tumbling": Counter(), "sessions": Counter()}
    failures = home / "failures"
    failures.mkdir()
    written = 0
    for run in range(RUNS):
        for _ in range(BATCHES):
            at = 4 * written
            times = [at + chance.randrange(-3, 4) for _ in range(400)]
            feed.write((max(0, t) * SECOND, chance.randrange(300), 1000 * written + i) for i, t in enumerate(times))
            written += 1
        if run == RUNS - 1:
            feed.flood()
        for name, panes in panes_of(feed.stream(spark, "6 seconds")).items():
            schema = panes.schema
            some = panes.mapInArrow(failing(str(failures)), schema)

            def take(batch: DataFrame, number: int, name: str = name) -> None:
                how = chance.randrange(4)
                if how == 1:
                    batch.count()
                if how == 2:
                    batch.take(1)
                if how == 3:
                    with ThreadPoolExecutor(2) as both:
                        one, other = both.map(lambda df: Counter(df.collect()), [batch, batch])
                    assert one == other, f"batch {number} of {name}"
                    out[name] += one
                else:
                    out[name] += Counter(batch.collect())

            query = (
                some.writeStream.foreachBatch(take)
                .option("checkpointLocation", str(home / name))
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
            if run == RUNS - 1:
                report: Any = query.lastProgress
                assert report["stateOperators"][0]["numRowsTotal"] == 0
    for name, panes in panes_of(feed.batch(spark)).items():
        expected = Counter(panes.collect())
        assert out[name] == expected, (
            name,
            (out[name] - expected).most_common(3),
            (expected - out[name]).most_common(3),
        )
    (home / "failed").write_text(str(len(list(failures.iterdir()))))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
