"""A standalone cluster loses an executor, and a worker with its executor, in the middle of a batch."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from mullion import Sliding, windowed
from tests.support.campaigns.standalone import Standalone, wait_until
from tests.support.killing import committed, environment, session_of_its_own
from tests.support.streams import FLOOD, SECOND, Feed

pytestmark = pytest.mark.slow

COLUMNS = "k string, id bigint"
LENGTH, SLIDE = 10, 5


def test_a_query_whose_executor_and_worker_are_killed_gives_the_answers_of_a_batch(tmp_path: Path) -> None:
    """A session in a separate process, next to the processes of the cluster."""
    script = [sys.executable, __file__, str(tmp_path)]
    done = subprocess.run(
        script, env={**environment(), "PYSPARK_PYTHON": sys.executable}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-6000:]


class Query:
    """Sliding windows on a cluster. Each batch replaces the output of an earlier attempt."""

    def __init__(self, spark: SparkSession, home: Path) -> None:
        self.spark, self.home = spark, home
        self.checkpoint = home / "checkpoint"
        self.feed = Feed(home / "in", COLUMNS)
        self.written = 0
        self.seen_inside: list[Exception] = []
        self.running = self.start()

    def start(self) -> Any:
        gate, reached = str(self.home / "gate"), str(self.home / "reached")

        @F.udf("bigint")
        def after_gate(number: int) -> int:
            """Returns the number when the gate is gone. So the test chooses the batch in which it kills executors."""
            import os
            import time

            while os.path.exists(gate):  # noqa: PTH110
                open(reached, "w").close()  # noqa: PTH123
                time.sleep(0.01)
            return number

        def write(batch: DataFrame, number: int) -> None:
            try:
                batch.write.mode("overwrite").parquet(str(self.home / "out" / f"batch={number}"))
            except Exception as error:
                self.seen_inside.append(error)
                raise

        rows = self.feed.stream(self.spark, "20 seconds").withColumn("id", after_gate("id"))
        writer = self.panes(rows).writeStream.foreachBatch(write).option("checkpointLocation", str(self.checkpoint))
        return writer.start()

    def panes(self, rows: DataFrame) -> DataFrame:
        window = Sliding(f"{LENGTH} seconds", f"{SLIDE} seconds")
        panes = windowed(rows, window, by="k", time="ts")
        return panes.agg(F.sort_array(F.collect_list("id")).alias("ids"))

    def write(self, batches: int) -> None:
        """Rows five seconds apart, none of which is late."""
        for _ in range(batches):
            at = SLIDE * self.written
            self.feed.write(
                ((at + i) * SECOND, f"key {(at + i) // 7 % 5}", 100 * self.written + i)
                for i in range(-4, 8)
                if at + i >= 0
            )
            self.written += 1

    def settle(self) -> None:
        self.running.processAllAvailable()

    def killed_in_a_batch(self, kill: Callable[[], None]) -> None:
        """Begins a batch, stops it at the gate while its executor is killed, and lets it continue."""
        gate, reached = self.home / "gate", self.home / "reached"
        reached.unlink(missing_ok=True)
        gate.touch()
        before = committed(self.checkpoint)
        self.write(1)
        wait_until("a task of the batch runs", reached.exists)
        kill()
        assert committed(self.checkpoint) == before, "the batch was killed before its end"
        gate.unlink()
        self.write(2)

    def answers(self) -> Counter[Row]:
        out = self.spark.read.parquet(str(self.home / "out")).select("k", "window.start", F.col("ids").cast("string"))
        return Counter(out.collect())

    def expected(self) -> Counter[Row]:
        """The result of Spark's windows."""
        rows = self.feed.batch(self.spark).where(F.col("t") != FLOOD)
        window = F.window("ts", f"{LENGTH} seconds", f"{SLIDE} seconds")
        panes = rows.groupBy("k", window).agg(F.sort_array(F.collect_list("id")).alias("ids"))
        return Counter(panes.select("k", "window.start", F.col("ids").cast("string")).collect())


def run(cluster: Standalone, spark: SparkSession, home: Path) -> None:
    query = Query(spark, home)
    query.write(5)
    query.settle()
    for kill in (lambda: cluster.kill_executor(0), lambda: cluster.kill_executor(1), lambda: cluster.kill_worker(0)):
        query.killed_in_a_batch(kill)
        query.settle()
        query.write(3)
        query.settle()
    query.feed.flood()
    query.settle()
    query.running.stop()
    out, expected = query.answers(), query.expected()
    assert len(out) > 30
    assert out == expected, "each pane was written once"
    assert query.seen_inside == []


if __name__ == "__main__":
    place = Path(sys.argv[1])
    settings = {
        "spark.executor.memory": "600m",
        "spark.driver.host": "localhost",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        # The time that a task waits for the executor with its state, even if that was killed.
        "spark.locality.wait": "1s",
    }
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    with Standalone(place / "cluster") as nodes:
        own = session_of_its_own(place, nodes.url, conf=settings)
        own.sparkContext.setLogLevel("ERROR")
        try:
            run(nodes, own, place)
        finally:
            own.stop()
