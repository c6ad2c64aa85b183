"""A dataflow whose process and JVM are killed somewhere in a batch, again and again."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import mullion
from mullion.bytewax import operators as op
from mullion.bytewax._log.file_ranges import FileRange, RangedFile
from mullion.bytewax._log.log import read_entry
from mullion.bytewax.connectors.files import FileSink, FileSource
from mullion.bytewax.dataflow import Dataflow
from mullion.bytewax.operators import windowing as win
from mullion.bytewax.recovery import RecoveryConfig
from mullion.bytewax.testing import run_main
from tests.support.killing import files, kill_after
from tests.support.seeds import SEED

START = datetime(2024, 1, 1, tzinfo=UTC)


class Slowly(FileSource):
    """A file, a few lines at a time: it is not read to its end before the process is killed."""

    def build_part(self, step_id: str, for_part: str, resume_state: int | None) -> Any:
        part = super().build_part(step_id, for_part, resume_state)
        part.next_awake = lambda: datetime.now(UTC) + timedelta(milliseconds=600)  # type: ignore[method-assign]
        return part


def second_of(line: str) -> datetime:
    return START + timedelta(seconds=int(line.split()[1]))


def flow_of(source: FileSource, sink: Path) -> Dataflow:
    flow = Dataflow("lines")
    keyed = op.key_on("key", op.input("in", flow, source), lambda line: line.split()[0])
    clock: Any = win.EventClock(second_of, timedelta(seconds=20), now_getter=lambda: START)
    windows = win.collect_window("sessions", keyed, clock, win.SessionWindower(timedelta(seconds=5)))
    texts = op.map_value("text", windows.down, lambda pair: f"{pair[0]}: {' '.join(pair[1])}")
    op.output("out", texts, FileSink(sink))
    return flow


def somewhere(folder: Path, rng: random.Random) -> Iterator[float]:
    """Ends some files after the first batch."""
    while not list((folder / "state" / "lines" / "query" / "commits").glob("[0-9]*")):
        yield 0.05
    more = files(folder / "state") + rng.randrange(60)
    while files(folder / "state") < more:
        yield 0.005


@pytest.mark.slow
def test_a_dataflow_that_is_killed_again_and_again_writes_each_line_once(spark: SparkSession, tmp_path: Path) -> None:
    rng = random.Random(SEED)
    lines = [f"k{rng.randrange(8)} {index // 4 + rng.randrange(20)}" for index in range(3000)]
    source = tmp_path / "in.txt"
    source.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    (tmp_path / "state").mkdir()
    for _ in range(3):
        kill_after(tmp_path, somewhere(tmp_path, rng), __file__)
    config = RecoveryConfig(tmp_path / "state")
    run_main(flow_of(FileSource(source, 10), tmp_path / "killed.txt"), recovery_config=config, spark=spark)
    run_main(flow_of(FileSource(source, 10), tmp_path / "undisturbed.txt"), spark=spark)
    killed = sorted((tmp_path / "killed.txt").read_text("utf-8").splitlines())
    expected = sorted((tmp_path / "undisturbed.txt").read_text("utf-8").splitlines())
    assert killed == expected, f"MULLION_SEED={SEED}"
    assert len(expected) > 10


@pytest.mark.slow
def test_a_dataflow_that_is_killed_while_tasks_read_ranges_of_its_files_writes_each_line_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    rng = random.Random(SEED)
    (tmp_path / "state").mkdir()
    file = tmp_path / "in.txt"
    lines = [f"k{rng.randrange(8)} {index // 4 + rng.randrange(20)}" for index in range(12_000)]
    file.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    source = FileSource(file, 10)
    for _ in range(3):
        kill_after(tmp_path, somewhere(tmp_path, rng), __file__, "ranges")
        newest = max(file for file in (tmp_path / "state" / "lines").rglob("0*") if len(file.name) == 20)
        assert read_entry(newest.read_bytes()).ranges, "it was killed before it came to the end"
    config = RecoveryConfig(tmp_path / "state")
    run_main(flow_of(source, tmp_path / "killed.txt"), recovery_config=config, spark=spark)
    run_main(flow_of(source, tmp_path / "undisturbed.txt"), spark=spark)
    killed = sorted((tmp_path / "killed.txt").read_text("utf-8").splitlines())
    expected = sorted((tmp_path / "undisturbed.txt").read_text("utf-8").splitlines())
    assert killed == expected, f"MULLION_SEED={SEED}"
    assert len(expected) > 10


def in_small_ranges() -> None:
    """Has files read in ranges of few lines, so slowly that they are not read to their end."""
    wanted = RangedFile.next

    def slowly(self: RangedFile, at: int, batches: int, first: int, stride: int) -> FileRange | None:
        time.sleep(0.25)
        return wanted(self, at, min(batches, 4), first, stride)

    RangedFile.next = slowly  # type: ignore[method-assign]


if __name__ == "__main__":
    home = Path(sys.argv[1])
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "2").config("spark.sql.session.timeZone", "UTC")
    mullion.configure(builder).getOrCreate()
    slow: FileSource
    if sys.argv[2:] == ["ranges"]:
        in_small_ranges()
        slow = FileSource(home / "in.txt", 10)
    else:
        slow = Slowly(home / "in.txt", 10)
    run_main(flow_of(slow, home / "killed.txt"), recovery_config=RecoveryConfig(home / "state"))
