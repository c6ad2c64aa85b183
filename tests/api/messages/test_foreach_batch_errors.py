"""Errors of a function of ``foreachBatch``, and of the tasks below it: the query's error names the root cause."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from mullion import Early, TaskFailedError, Tumbling, windowed
from mullion._bridge.query_errors import exit_of_action, foreach_batch_failure, task_failure
from mullion._util.tracebacks import root_cause
from tests.support.streams import SECOND, Feed

Use = Callable[[DataFrame, Path], object]


def own_error(batch: DataFrame, folder: Path) -> None:
    raise LookupError("no such customer")


def own_error_after_another(batch: DataFrame, folder: Path) -> None:
    try:
        raised_in_sql(batch, folder)
    except Exception as original:
        raise LookupError("no such customer") from original


def raised_in_sql(batch: DataFrame, folder: Path) -> None:
    batch.select(F.raise_error(F.lit("no such customer"))).collect()


def raised_in_a_write(batch: DataFrame, folder: Path) -> None:
    batch.select(F.raise_error(F.lit("no such customer")).alias("e")).write.parquet(str(folder / "out"))


def python_udf(batch: DataFrame, folder: Path) -> None:
    batch.select(F.udf(lambda n: n // 0, "int")("n")).collect()


def full_disk_in_a_worker(batch: DataFrame, folder: Path) -> None:
    def write(rows: Iterator[Row]) -> None:
        with Path("/dev/full").open("w") as disk:
            disk.writelines(map(str, rows))

    batch.foreachPartition(write)


def full_disk_on_the_driver(batch: DataFrame, folder: Path) -> None:
    with Path("/dev/full").open("w") as disk:
        disk.writelines(map(str, batch.collect()))


def read_only_folder(batch: DataFrame, folder: Path) -> None:
    # Not even root may make a folder there.
    batch.write.mode("append").parquet("file:///proc/out")


def lost_file(batch: DataFrame, folder: Path) -> None:
    path = folder / "table"
    batch.select("k").write.mode("overwrite").parquet(str(path))
    table = batch.sparkSession.read.parquet(str(path))
    for file in path.glob("*.parquet"):
        file.unlink()
    table.collect()


@pytest.mark.parametrize(
    ("use", "cause"),
    [
        (own_error, r"foreachBatch failed: LookupError: no such customer, at .*test_foreach_batch_errors.py:\d+\. "),
        (own_error_after_another, r"foreachBatch failed: LookupError: no such customer, at .*errors.py:\d+\. "),
        (raised_in_sql, r"SparkRuntimeException: \[USER_RAISED_EXCEPTION\] no such customer"),
        (raised_in_a_write, r"no such customer"),
        (python_udf, r"ZeroDivisionError: integer division or modulo by zero, at .*errors.py:\d+\. "),
        (full_disk_in_a_worker, r"OSError: \[Errno 28\] No space left on device"),
        (full_disk_on_the_driver, r"OSError: \[Errno 28\] No space left on device"),
        (read_only_folder, r"failed: java\.io\.IOException: Mkdirs failed to create file:/proc/out"),
        (lost_file, r"FILE_NOT_EXIST|FileNotFoundException"),
    ],
)
def test_the_error_of_the_query_names_the_cause(spark: SparkSession, tmp_path: Path, use: Use, cause: str) -> None:
    feed = Feed(tmp_path / "in", "k string")
    feed.write([(SECOND, "a"), (SECOND, "b")])
    panes = windowed(feed.stream(spark), Tumbling("1 minute"), by="k", time="ts", early=Early(count=1)).agg(
        F.count("*").alias("n")
    )

    def write(batch: DataFrame, number: int) -> None:
        use(batch, tmp_path)

    query = (
        panes.writeStream.foreachBatch(write)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    with pytest.raises(TaskFailedError, match=cause) as failed:
        query.awaitTermination()
    for error in (failed.value, query.exception()):
        assert isinstance(error, StreamingQueryException)
        assert len(str(error).splitlines()) == 1
        assert "Py4J" not in str(error)
        assert "SQLSTATE" not in str(error)
        assert str(error) == str(failed.value)
    # All of it is there for those who look.
    assert "Traceback (most recent call last)" in (failed.value.jvm_trace or "")


JOB = """An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "/opt/pyspark/sql/utils.py", line 163, in call
    self.func(DataFrame(jdf, wrapped_session_jdf), batch_id)
  File "/home/me/program.py", line 6, in write
    batch.collect()
py4j.protocol.Py4JJavaError: An error occurred while calling o117.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 5.0 failed 4 times, most recent \
failure: Lost task 0.3 in stage 5.0 (TID 7) (10.0.0.1 executor 3): java.io.IOException: No space left on device
\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)
\tat org.apache.spark.executor.Executor$TaskRunner.run(Executor.scala:843)

Driver stacktrace:
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:2935)
"""

PLAN = """WindowedAggregate [k]
+- MapInArrow score(head#1, row#2)#3, [k#4], false
   +- KeyedFunction Spikes, by [k]
"""

LOSS = (
    "Some data may have been lost because they are not available in Kafka any more; either the\n data was aged out by "
    "Kafka or the topic may have been deleted before all the data in the\n topic was processed. If you don't want your "
    "streaming query to fail on such cases, set the source option failOnDataLoss to false."
)


def test_a_cause_that_did_not_come_to_the_driver_is_read_from_sparks_message() -> None:
    assert root_cause(JOB) == "java.io.IOException: No space left on device"
    assert str(foreach_batch_failure(JOB, PLAN)).startswith(
        "A task of the query failed: java.io.IOException: No space left on device. "
    )


def test_the_innermost_cause_is_named() -> None:
    text = JOB + "Caused by: org.apache.spark.SparkException: Task failed.\n\tat a.B.c(B.scala:1)\n"
    text += "Caused by: java.nio.file.FileSystemException: out: Read-only file system\n\tat a.B.c(B.scala:1)\n"
    assert root_cause(text) == "java.nio.file.FileSystemException: out: Read-only file system"


def test_the_cause_that_names_the_option_comes_before_the_innermost_one() -> None:
    text = f"{JOB}Caused by: org.apache.spark.sql.kafka010.KafkaIllegalStateException: {LOSS}\n\tat a.B.c(B.scala:1)\n"
    text += "Caused by: org.apache.kafka.clients.consumer.OffsetOutOfRangeException: Fetch position 3\n\t... 9 more\n"
    message = str(foreach_batch_failure(text, PLAN))
    assert "Some data may have been lost" in message
    assert "set the source option failOnDataLoss to false." in message
    assert len(message.splitlines()) == 1


def test_an_exit_of_a_worker_names_the_functions_of_the_plan() -> None:
    exit_ = "Caused by: org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)\n\t... 9 more\n"
    exit_ += "Caused by: java.io.EOFException\n\t... 9 more\n"
    assert str(foreach_batch_failure(JOB + exit_, PLAN)).startswith(
        "A Python worker of the query ended unexpectedly while it ran score or Spikes: its process called os._exit(), "
        "crashed in native code, or was killed, for example for lack of memory. Nothing of the batch was kept"
    )
    assert "ended unexpectedly: its process" in str(foreach_batch_failure(JOB + exit_, ""))
    of_aggregate = (
        "Caused by: java.io.IOException: The Python worker of Median ended before it answered.\n\t... 9 more\n"
    )
    assert "while it ran Median: its process" in str(foreach_batch_failure(JOB + of_aggregate + exit_, PLAN))


@pytest.mark.parametrize(
    "plan",
    [
        "== Physical Plan ==\nMapInArrow score(head#1, row#2)#3, [n#4], false\n+- Project [_mullion_rows#5 AS row#2]\n",
        "== Physical Plan ==\nMapInArrow (2)\n+- * Project (1)\n\n(1) Project [codegen id : 1]\n"
        "Input [1]: [_mullion_rows#5]\n\n(2) MapInArrow\nInput [2]: [head#1, row#2]\n"
        "Arguments: score(head#1, row#2)#3, [n#4], false\n",
    ],
    ids=["simple", "formatted"],
)
def test_an_exit_of_a_worker_names_the_functions_of_a_physical_plan(plan: str) -> None:
    exit_ = "Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times: Python worker exited unexpectedly"
    assert "while it ran score: its process" in str(exit_of_action(exit_, lambda: plan))
    assert exit_of_action(exit_, lambda: plan.replace("_mullion_rows", "rows")) is None
    assert exit_of_action("Job aborted: a row is too large", lambda: plan) is None


def test_an_exit_of_a_worker_names_the_aggregates_of_a_plan() -> None:
    udf = "named_struct(accumulators, {0}(v#1)#2.accumulators, rows, {0}(v#1)#2.rows)"
    small, large = udf.format("Small"), f"if (isnull(Large(v#1)#2)) null else {udf.format('Large')}"
    names = "while it ran Small or Large: its process"
    logical = f"Project [f(if (isnull(k#3)) null else k#3) AS k#4, (Small({small})#5 + 1), Large({large})#7]"
    assert names in str(task_failure("Python worker exited unexpectedly (crashed)", logical))
    exit_ = "Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times: Python worker exited unexpectedly"
    physical = f"ArrowEvalPython [Small({small})#5, Large({large})#7], [pythonUDF0#8, pythonUDF1#9], 250"
    assert names in str(exit_of_action(exit_, lambda: physical))


def test_a_text_without_the_bridge_is_left_as_it_is() -> None:
    assert root_cause("java.io.IOException: No space left on device") == "java.io.IOException: No space left on device"
