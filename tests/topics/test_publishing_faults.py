"""A publisher of a ``dir:`` topic that dies, or whose disk fails, at any operation on files: the published rows are
complete. It runs without Spark, which takes part only before and after publishing.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import io
import itertools
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from mullion import topics
from mullion._bridge import jvm as mullion_jvm
from mullion._util.clock import ManualClock
from mullion.topics._folder import publisher as _dir_publisher
from mullion.topics._folder.topic import DirTopic
from mullion.topics._outputs import Output
from tests.support.killing import environment
from tests.support.seeds import SEED

TOPICS = ("even", "odd", "wider")
BATCHES = 3

# Python's audit events that change files, and those that depend on existing files.
CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.utime")
LOOKS = ("os.listdir", "os.scandir")


class Rows:
    """A batch of two tasks, as a publisher gets it from Spark."""

    def __init__(self, batch: int) -> None:
        self._batch = batch
        self._stage: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]] = iter
        self.sparkSession = None

    def mapInArrow(self, stage: Any, _: str) -> Rows:
        self._stage = stage
        return self

    def collect(self) -> list[SimpleNamespace]:
        staged_rows = []
        for partition in range(2):
            vars(_dir_publisher).update(partition_of_task=functools.partial(int, partition))
            rows = pa.RecordBatch.from_pydict({"n": [10 * self._batch + 2 * i + partition for i in range(5)]})
            staged_rows += [
                SimpleNamespace(**row) for staged in self._stage(iter([rows])) for row in staged.to_pylist()
            ]
        return staged_rows


def made_of(batches: Iterable[pa.RecordBatch]) -> Iterator[Output]:
    """A topic per task, and one of all tasks with a column that becomes wider in the second batch."""
    for batch in batches:
        numbers = batch["n"].to_pylist()
        yield Output(TOPICS[numbers[0] % 2], f"key {numbers[0]}", batch)
        wider = [{"half": n // 2 if n < 10 else n / 2} for n in numbers]
        yield Output("wider", None, pa.RecordBatch.from_pylist(wider))


def publish(home: Path, publisher: topics.Publisher | None = None) -> None:
    """Continues after the last committed batch."""
    vars(_dir_publisher).update(query_id_of=lambda _: "query", plan_of=lambda *arguments: f"plan {arguments[2]}")
    publisher = publisher or topics.DirBroker(home / "topics").publisher(ManualClock(start_ms=7000))
    for batch in range(committed(home), BATCHES):
        publisher.publish_made(Rows(batch), batch, made_of)  # type: ignore[arg-type]
        (home / "commits" / str(batch)).mkdir()
    publisher.close()


def committed(home: Path) -> int:
    return sum(1 for _ in (home / "commits").iterdir())


def rows_of(home: Path, topic: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = topics.read(topics.DirBroker(home / "topics"), topic).to_pylist()
    return rows


class Operations:
    """Calls ``at`` before each operation on files below a folder, with its number and a function that does half of it.

    With ``looks`` reading is an operation too. To die before reading is to die before the next operation.
    """

    def __init__(self, home: Path, at: Callable[[int, Callable[[], object]], None], *, looks: bool = False) -> None:
        self._looks = looks
        self._home = str(home / "topics")
        self._at = at
        self._number = 0
        self._within = False
        sys.addaudithook(self._audited)
        opens, writes = io.open, pq.write_table

        def opened(file: Any, mode: str = "r", *arguments: Any, **named: Any) -> Any:
            stream = opens(file, mode, *arguments, **named)
            return Torn(stream, self) if str(file).startswith(self._home) and set(mode) & set("wa+") else stream

        def written(table: Any, file: Any, **named: Any) -> None:
            self.before(lambda: opens(file, "wb").close())
            writes(table, file, **named)

        # The function with which paths open files.
        io.open = opened
        pq.write_table = written

    def before(self, half: Callable[[], object] = bool) -> None:
        if not self._within:
            self._within = True
            self._number += 1
            try:
                self._at(self._number, half)
            finally:
                self._within = False

    def _audited(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            counts = self._looks or arguments[2] & (os.O_WRONLY | os.O_RDWR)
        else:
            counts = event in CHANGES or (self._looks and event in LOOKS)
        if counts and str(arguments[0]).startswith(self._home):
            self.before()


class DiskError(OSError):
    """The operations of this process."""


class Torn:
    """A file whose writes are operations that may complete, or complete in half."""

    def __init__(self, stream: Any, operations: Operations) -> None:
        self._stream = stream
        self._operations = operations

    def write(self, data: Any) -> Any:
        def half() -> None:
            self._stream.write(data[: len(data) // 2])
            self._stream.flush()

        self._operations.before(half)
        return self._stream.write(data)

    def truncate(self, *arguments: Any) -> Any:
        self._operations.before()
        return self._stream.truncate(*arguments)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def in_process(life: Callable[[], None]) -> int:
    """Runs a function in a separate process. Returns its exit status."""
    child = os.fork()
    if child == 0:
        try:
            life()
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1]


def dies_at(home: Path, operation: int) -> Callable[[], None]:
    def at(number: int, half: Callable[[], object]) -> None:
        if number == operation:
            half()
            os.kill(os.getpid(), signal.SIGKILL)

    def life() -> None:
        Operations(home, at)
        publish(home)

    return life


def fails_at(home: Path, operation: int) -> Callable[[], None]:
    """The disk fails once, and the query restarts in its process, as a program does."""

    def at(number: int, half: Callable[[], object]) -> None:
        if number == operation:
            half()
            raise DiskError(errno.EIO, "the disk fails here")

    def life() -> None:
        Operations(home, at, looks=True)
        with contextlib.suppress(DiskError):
            publish(home)
            return
        publish(home)
        os._exit(2)

    return life


def campaign(seed: int) -> None:
    """Dies and fails at each operation of the publication of two batches, after an undisturbed run."""
    rng = random.Random(seed)
    folder = Path(tempfile.mkdtemp())
    begun, undisturbed = folder / "begun", folder / "undisturbed"
    (begun / "commits").mkdir(parents=True)
    globals()["BATCHES"] = 1
    assert in_process(lambda: publish(begun)) == 0
    globals()["BATCHES"] = 3
    shutil.copytree(begun, undisturbed)
    assert in_process(lambda: publish(undisturbed)) == 0
    expected = {topic: rows_of(undisturbed, topic) for topic in TOPICS}
    assert [len(rows) for rows in expected.values()] == [15, 15, 30]
    operations = 0
    for way in (dies_at, fails_at):
        for operation in itertools.count(1):
            home = folder / f"{way.__name__} {operation}"
            shutil.copytree(begun, home)
            about = f"{way.__name__} {operation}, MULLION_SEED={seed}"
            ended = in_process(way(home, operation))
            produced = rng.sample(TOPICS, rng.randrange(3))
            for topic in produced:
                # Another process reads the remaining files.
                topics.produce(topics.DirBroker(home / "topics"), topic, [{"n": -1, "half": -1}])
            if way is dies_at and ended == signal.SIGKILL and rng.random() < 0.3:
                again = rng.randrange(1, 30)
                about += f", again at {again}"
                assert in_process(dies_at(home, again)) in (0, signal.SIGKILL), about
            if ended:
                assert in_process(functools.partial(publish, home)) == 0, about
            compare(home, expected, produced, about)
            shutil.rmtree(home)
            if ended == 0:
                break
            assert ended == (signal.SIGKILL if way is dies_at else 2 << 8), f"{about}: {ended}"
            operations += 1
    print(operations)


def compare(home: Path, expected: dict[str, list[dict[str, Any]]], produced: list[str], about: str) -> None:
    for topic in TOPICS:
        rows = rows_of(home, topic)
        if topic in produced:
            others = [row for row in rows if row["n" if topic != "wider" else "half"] == -1]
            assert len(others) == 1, f"{topic}, {about}"
            rows = [{name: row[name] for name in expected[topic][0]} for row in rows if row not in others]
        assert rows == expected[topic], f"{topic}, {about}"
        files = DirTopic(home / "topics", topic).files()
        assert [file.name for file in files] == sorted(file.name for file in files), f"{topic}, {about}"
        times = [file.stat().st_mtime_ns for file in files]
        assert all(a < b for a, b in itertools.pairwise(times)), f"{topic}, {about}"
        there = {file.name for file in (home / "topics" / topic).glob("*.parquet")}
        assert there == {file.name for file in files}, f"{topic}, {about}"
    assert not list((home / "topics" / "_staging").iterdir()), about


@pytest.mark.slow
def test_a_publisher_that_dies_or_whose_disk_fails_at_any_operation_on_files_publishes_each_row_once_in_order() -> None:
    process = subprocess.run(
        [sys.executable, __file__, "campaign", str(SEED)],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    assert int(process.stdout) > 80, "operations at which it died or failed"


def test_readers_next_to_a_publisher_see_a_prefix_of_each_topic_after_each_of_its_operations(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "commits").mkdir()
    publisher = subprocess.Popen(
        [sys.executable, __file__, "step by step", str(tmp_path)],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert publisher.stdin is not None
    assert publisher.stdout is not None
    views: dict[str, list[list[str]]] = {topic: [] for topic in TOPICS}
    with publisher:
        for _ in publisher.stdout:
            for topic in TOPICS:
                views[topic].append([str(row) for row in rows_of(tmp_path, topic)])
                listed = listed_by_spark(spark, tmp_path / "topics" / topic)
                named = [file.name for file in DirTopic(tmp_path / "topics", topic).files()]
                assert listed == named
            publisher.stdin.write("\n")
            publisher.stdin.flush()
    assert publisher.returncode == 0
    for topic, moments in views.items():
        last = rows_of(tmp_path, topic)
        assert len(last) == (30 if topic == "wider" else 15)
        # A wider column is read with its new type.
        for rows in moments:
            numbers = [without_type(row) for row in rows]
            assert numbers == [without_type(str(row)) for row in last][: len(numbers)], topic
        assert len({len(rows) for rows in moments}) > BATCHES


def without_type(row: str) -> str:
    return row.replace(".0,", ",")


def listed_by_spark(spark: SparkSession, folder: Path) -> list[str]:
    """A topic's files in the order of Spark's source, which depends on their times."""
    if not folder.exists():
        return []
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(mullion_jvm.topic_path(spark, str(folder)))
    files = path.getFileSystem(spark._jsc.hadoopConfiguration()).listStatus(path)
    by_time = sorted((file.getModificationTime(), file.getPath().getName()) for file in files)
    return [name for _, name in by_time if name.endswith(".parquet")]


def step_by_step(home: Path) -> None:
    def at(_number: int, _half: Callable[[], object]) -> None:
        print(flush=True)
        sys.stdin.readline()

    Operations(home, at)
    publish(home)


if __name__ == "__main__":
    if sys.argv[1] == "campaign":
        campaign(int(sys.argv[2]))
    else:
        step_by_step(Path(sys.argv[2]))
