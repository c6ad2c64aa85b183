"""Spark runs a copy of a slow task on another machine. The panes do not depend on which of them commits."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.operator.execution.test_cluster import Query
from tests.support.campaigns.standalone import Standalone
from tests.support.killing import environment, session_of_its_own

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("checkpoint_format", ["1", "2"])
def test_panes_are_the_same_whichever_copy_of_a_task_commits(tmp_path: Path, checkpoint_format: str) -> None:
    """A session in a separate process, next to the processes of the cluster."""
    script = [sys.executable, __file__, str(tmp_path), checkpoint_format]
    done = subprocess.run(
        script, env={**environment(), "PYSPARK_PYTHON": sys.executable}, capture_output=True, text=True, check=False
    )
    print(done.stdout)
    assert done.returncode == 0, done.stderr[-6000:]


class Copied(Query):
    """Tasks of one partition wait after they have written state, until a copy of them has done the same."""

    def start(self) -> Any:
        notes = str(self.home / "notes")
        (self.home / "notes").mkdir(exist_ok=True)

        def waiting(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            import os
            import time

            from pyspark import TaskContext

            task = TaskContext.get()
            assert task is not None
            yield from batches
            copy = f"{notes}/{task.stageId()}"
            if task.partitionId() == 0 and task.attemptNumber() > 0:
                open(copy, "w").close()  # noqa: PTH123
                # The task and its copy alternate as the first.
                time.sleep(0.3 * (task.stageId() % 3))
            elif task.partitionId() == 0:
                until = time.monotonic() + 5
                while not os.path.exists(copy) and time.monotonic() < until:  # noqa: PTH110
                    time.sleep(0.02)
                time.sleep(0.3)

        def write(batch: DataFrame, number: int) -> None:
            batch.write.mode("overwrite").parquet(str(self.home / "out" / f"batch={number}"))

        panes = self.panes(self.feed.stream(self.spark, "20 seconds"))
        writer = panes.mapInArrow(waiting, panes.schema).writeStream.foreachBatch(write)
        return writer.option("checkpointLocation", str(self.checkpoint)).start()


def run(spark: SparkSession, home: Path) -> None:
    query = Copied(spark, home)
    for _ in range(8):
        query.write(2)
        query.settle()
    query.feed.flood()
    query.settle()
    query.running.stop()
    copies = len(list((home / "notes").iterdir()))
    print(f"{copies} copies of tasks")
    assert copies >= 8
    out, expected = query.answers(), query.expected()
    assert out == expected
    assert len(out) > 30


if __name__ == "__main__":
    place = Path(sys.argv[1])
    settings = {
        "spark.executor.memory": "600m",
        "spark.driver.host": "localhost",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.sql.streaming.stateStore.checkpointFormatVersion": sys.argv[2],
        "spark.locality.wait": "0s",
        "spark.speculation": "true",
        "spark.speculation.interval": "50ms",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.minTaskRuntime": "100ms",
    }
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    # A copy of a task runs on another machine than the task.
    with Standalone(place / "cluster", hosts=("localhost", "127.0.0.1")) as nodes:
        own = session_of_its_own(place, nodes.url, conf=settings)
        own.sparkContext.setLogLevel("ERROR")
        try:
            run(own, place)
        finally:
            own.stop()
