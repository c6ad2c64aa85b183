"""Queries in a process that is killed in the middle of a batch."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from pyspark.sql import SparkSession

import mullion


def environment() -> dict[str, str]:
    """The environment of a process with the tests' modules."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def kill_after(folder: Path, moment: Iterator[float], script: str, *arguments: str) -> None:
    """Runs the queries of a script in a process, and kills it and its JVM when the generator ``moment`` ends.

    ``moment`` yields the seconds until its next step.
    """
    process = subprocess.Popen(
        [sys.executable, script, str(folder), *arguments],
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        for pause in moment:
            try:
                process.wait(timeout=pause)
            except subprocess.TimeoutExpired:
                continue
            raise AssertionError(f"the queries ended with {process.returncode} and were not killed")
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def somewhere_in_a_batch(checkpoint: Path, rng: random.Random, *others: Path) -> Iterator[float]:
    """Ends some files after the next batch: each batch writes dozens, some in each of its phases.

    It does not end while a batch of this query or of ``others`` is half planned, because the queries are compared with
    runs whose batches have the same rows.
    """
    batch, more = committed(checkpoint) + 1, rng.randrange(50)
    while committed(checkpoint) < batch:
        # A short interval would slow down the query.
        yield 0.05
    before = files(checkpoint.parent)
    while files(checkpoint.parent) < before + more:
        yield 0.005
    while any(is_half_planned(killed) for killed in (checkpoint, *others)):
        yield 0.005


def is_half_planned(checkpoint: Path) -> bool:
    """True if a source has recorded the files of a batch, but Spark has not yet planned the batch.

    A query that is killed then resumes with a batch of these files and the next ones (``FileStreamSource``).
    """
    numbers = [int(file.name) for file in (checkpoint / "offsets").glob("[0-9]*")]
    offsets = (checkpoint / "offsets" / str(max(numbers))).read_text().splitlines()[2:] if numbers else []
    planned = {str(i): json.loads(line)["logOffset"] for i, line in enumerate(offsets) if "logOffset" in line}
    return any(
        int(file.name.partition(".")[0]) > planned.get(file.parent.name, -1)
        for file in (checkpoint / "sources").glob("*/[0-9]*")
        if not offsets or file.parent.name in planned
    )


def files(folder: Path) -> int:
    return sum(len(names) for _, _, names in os.walk(folder))


def committed(checkpoint: Path) -> int:
    return len(list((checkpoint / "commits").glob("[0-9]*")))


def session_of_its_own(
    home: Path, master: str = "local[2]", jars: Iterable[Path] = (), conf: Mapping[str, str] | None = None
) -> SparkSession:
    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "2").config("spark.sql.session.timeZone", "UTC")
    # Optimised compilation does not pay off in a short process. The test's folder contains the rest of a killed JVM.
    builder = builder.config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")
    builder = builder.config("spark.jars", ",".join(jar.as_uri() for jar in jars))
    # Tasks wait for the executor that has their state.
    builder = builder.config("spark.locality.wait", "10m")
    for name, value in (conf or {}).items():
        builder = builder.config(name, value)
    return mullion.configure(builder.config("spark.local.dir", str(home / "local"))).getOrCreate()
