"""Bytewax, one process per core: one reads and distributes rows by key, all fold.

``bytewax_fold.py SYSTEM WORKLOAD FOLDER`` prints the figures as JSON. It starts itself once more for each worker.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from pathlib import Path
from typing import Any

import bytewax.operators as op
import bytewax.operators.windowing as win
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from bytewax.dataflow import Dataflow
from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.testing import cluster_main
from tests.support.kafka.kafka_server import free_ports

from systems.answers import Answer

Row = tuple[str, tuple[datetime, int]]
Pane = tuple[int, int, int, int]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MS = timedelta(milliseconds=1)


class Files(FixedPartitionedSource[Row, None]):
    """All files in order, because windows close by the order in which rows arrive."""

    def __init__(self, folder: Path) -> None:
        self.files = [file for file in sorted(folder.iterdir()) if not file.stem.endswith("end")]

    def list_parts(self) -> list[str]:
        return ["all"]

    def build_part(self, step_id: str, for_part: str, resume_state: None) -> StatefulSourcePartition[Row, None]:
        return Reader(self.files)


class Reader(StatefulSourcePartition[Row, None]):
    def __init__(self, files: list[Path]) -> None:
        self.batches = self.read(files)

    @staticmethod
    def read(files: list[Path]) -> Iterator[list[Row]]:
        for file in files:
            for batch in pq.ParquetFile(file).iter_batches(2000):
                keys = pc.cast(batch["k"], pa.string()).to_pylist()
                yield list(zip(keys, zip(batch["ts"].to_pylist(), batch["v"].to_pylist(), strict=True), strict=True))

    def next_batch(self) -> list[Row]:
        return next(self.batches)

    def snapshot(self) -> None:
        return None


class Summing(DynamicSink[Any]):
    def __init__(self, answer: Answer) -> None:
        self.answer = answer

    def build(self, step_id: str, worker_index: int, worker_count: int) -> StatelessSinkPartition[Any]:
        answer = self.answer

        class Part(StatelessSinkPartition[Any]):
            def write_batch(self, items: list[Any]) -> None:
                for pane in items:
                    answer.add(*pane)

        return Part()


def fold(pane: Pane, row: tuple[datetime, int]) -> Pane:
    n, total, least, most = pane
    value = row[1]
    return n + 1, total + value, value if value < least else least, value if value > most else most


def merge(one: Pane, other: Pane) -> Pane:
    return one[0] + other[0], one[1] + other[1], min(one[2], other[2]), max(one[3], other[3])


def flow(workload: dict[str, Any], folder: Path, answer: Answer) -> Dataflow:
    size, slide = workload["size"], workload["slide"] or workload["size"]
    # The watermark would advance with the system's clock, faster than the rows are read: rows would be late.
    clock = win.EventClock(itemgetter(0), timedelta(seconds=workload["delay"]), now_getter=lambda: EPOCH)
    windower: win.Windower[Any]
    if slide == size:
        windower = win.TumblingWindower(length=timedelta(seconds=size), align_to=EPOCH)
    else:
        windower = win.SlidingWindower(timedelta(seconds=size), timedelta(seconds=slide), EPOCH)

    def pane(keyed: tuple[str, tuple[int, Pane]]) -> tuple[int, ...]:
        start = keyed[1][0] * slide * 1000
        return int(keyed[0]), start, start + size * 1000, *keyed[1][1]

    dataflow = Dataflow("panes")
    rows = op.input("rows", dataflow, Files(folder))
    panes = win.fold_window("panes", rows, clock, windower, lambda: (0, 0, 1 << 62, -1), fold, merge, ordered=False)
    op.output("out", op.map("pane", panes.down, pane), Summing(answer))
    return dataflow


def worker(workload: dict[str, Any], folder: Path, addresses: list[str], number: int) -> None:
    answer = Answer()
    start = time.perf_counter()
    cluster_main(flow(workload, folder, answer), addresses, number)
    print(json.dumps({"s": time.perf_counter() - start, **answer.values()}))


def main(workload: dict[str, Any], folder: Path) -> None:
    cores = workload["cores"]
    addresses = ",".join(f"localhost:{port}" for port in free_ports(cores))
    workers = [
        subprocess.Popen([sys.executable, *sys.argv, addresses, str(number)], stdout=subprocess.PIPE, env=os.environ)
        for number in range(cores)
    ]
    reports = [json.loads(worker.communicate()[0].splitlines()[-1]) for worker in workers]
    answer = {name: sum(each[name] for each in reports) for name in ("panes", "of_rows", "checksum")}
    seconds = max(each["s"] for each in reports)
    batches = [{"rows": answer["of_rows"] // max(1, size_of(workload)), "ms": seconds * 1000}]
    print(json.dumps({"batches": batches, "warm": 0, "whole_s": seconds, "answer": answer}))


def size_of(workload: dict[str, Any]) -> int:
    """The number of windows of a row."""
    return int(workload["size"] // (workload["slide"] or workload["size"]))


if __name__ == "__main__":
    if len(sys.argv) > 4:
        worker(json.loads(sys.argv[2]), Path(sys.argv[3]), sys.argv[4].split(","), int(sys.argv[5]))
    else:
        main(json.loads(sys.argv[2]), Path(sys.argv[3]))
