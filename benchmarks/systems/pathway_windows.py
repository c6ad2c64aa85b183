"""Pathway, an engine in Rust. Its windows process rows without Python, on both cores.

``pathway_windows.py SYSTEM WORKLOAD FOLDER`` prints its figures as JSON. It cannot read Parquet, so the
rows are written to a CSV file first. It reads this file at once: no pane closes before the end.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as pq

from systems.answers import MODULUS

SECOND = 1_000_000


def in_one_file(folder: Path, file: Path) -> None:
    files = [file for file in sorted(folder.iterdir()) if not file.stem.endswith("end")]
    rows = pa.concat_tables(pq.read_table(file) for file in files)
    micros = pc.cast(rows["ts"], pa.int64())
    csv.write_csv(pa.table({"at": micros, "k": rows["k"], "v": rows["v"]}), file)


def main(workload: dict[str, Any], file: Path) -> None:
    os.environ["PATHWAY_THREADS"] = str(workload["cores"])
    import pathway as pw

    class Row(pw.Schema):
        at: int
        k: int
        v: int

    size, slide = workload["size"] * SECOND, workload["slide"] * SECOND
    window = pw.temporal.sliding(hop=slide, duration=size) if slide else pw.temporal.tumbling(duration=size)
    rows = pw.io.csv.read(str(file), schema=Row, mode="static")
    panes = rows.windowby(pw.this.at, window=window, instance=pw.this.k).reduce(
        k=pw.this._pw_instance,
        start=pw.this._pw_window_start // 1000,
        end=pw.this._pw_window_end // 1000,
        n=pw.reducers.count(),
        total=pw.reducers.sum(pw.this.v),
        least=pw.reducers.min(pw.this.v),
        most=pw.reducers.max(pw.this.v),
    )
    identity = (pw.this.k * 31 + pw.this.start * 7 + pw.this.end) % MODULUS
    contents = (pw.this.n * 131 + pw.this.total * 31 + pw.this.least * 17 + pw.this.most) % MODULUS
    totals = panes.select(pw.this.n, check=identity * contents).reduce(
        panes=pw.reducers.count(), of_rows=pw.reducers.sum(pw.this.n), checksum=pw.reducers.sum(pw.this.check)
    )
    answer: dict[str, int] = {}

    def update(key: object, row: dict[str, int], time: int, is_addition: bool) -> None:
        if is_addition:
            answer.update(row)

    pw.io.subscribe(totals, on_change=update)
    start = time.perf_counter()
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    seconds = time.perf_counter() - start
    rows_read = answer["of_rows"] // (size // (slide or size))
    batches = [{"rows": rows_read, "ms": seconds * 1000}]
    print(json.dumps({"batches": batches, "warm": 0, "whole_s": seconds, "answer": answer}))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as home:
        in_one_file(Path(sys.argv[3]), Path(home, "rows.csv"))
        main(json.loads(sys.argv[2]), Path(home, "rows.csv"))
