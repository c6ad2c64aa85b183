"""What a batch costs however few rows it has, and what each row adds to it.

    python benchmarks/batch_cost.py [KEYS ...]

Tumbling windows of ten seconds with count, sum, min and max, over batches of 100 rows, a hundred thousand, a million
and five million, of a thousand keys and of a hundred thousand unless said otherwise. Each contender has a process of
its own and the same files, and its rows are written away. A line through the medians of warm batches gives milliseconds
a batch and nanoseconds a row, with which a user can predict a batch of his own. The medians are shown too, for a line
is a simplification. In a run of its own each contender adds up its answers, which must be the same.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from pyspark.sql import functions as F

import rows
from contenders.spark_batches import COLUMNS, Run, answer_of, ceiling_panes
from workloads import Workload

CONTENDERS = {"mullion": "Mullion", "spark": "Spark's windows", "ceiling": "Spark's aggregate of each batch alone"}
# How many batches of how many rows. Half of them are warm.
BATCHES = {100: 24, 100_000: 16, 1_000_000: 12, 5_000_000: 8}
COMPARED = 100_000


def workload(keys: int, size: int) -> Workload:
    # The heap is what Spark gives an executor that has a batch of five million rows to aggregate.
    return Workload("batch cost", "tumbling", 10, {}, keys=keys, rows=size, batches=BATCHES[size], heap=2)


class Sizes:
    """A contender's queries over the files of each size, in one process."""

    def __init__(self, contender: str, keys: int, folder: Path) -> None:
        self.contender, self.keys, self.folder = contender, keys, folder

    def medians(self) -> dict[int, float]:
        """Milliseconds of a warm batch by its rows. The largest first: its batches warm the code of all."""
        return {size: self.median(size) for size in sorted(BATCHES, reverse=True)}

    def median(self, size: int) -> float:
        run = Run(self.contender, workload(self.keys, size), self.folder)
        source = run.spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1)
        panes = run.panes(source.parquet(str(self.folder / str(size))))
        with tempfile.TemporaryDirectory(dir=self.folder) as home:
            writer = panes.writeStream.option("checkpointLocation", home).trigger(availableNow=True)
            writer = writer.foreachBatch(run.write_away) if self.contender == "ceiling" else writer.format("noop")
            query = writer.start()
            query.awaitTermination()
            times = [r["durationMs"]["triggerExecution"] for r in query.recentProgress if r["numInputRows"] >= size]
        assert len(times) == BATCHES[size], times
        return float(statistics.median(times[len(times) // 2 :]))

    def answer(self) -> dict[str, int]:
        """What the panes of one size add up to, but for the last: a row of a day later closes all others."""
        run = Run(self.contender, workload(self.keys, COMPARED), self.folder)
        files = str(self.folder / str(COMPARED))
        all_rows = run.spark.read.schema(COLUMNS).parquet(files)
        if self.contender == "ceiling":
            last = all_rows.agg(F.max("ts").alias("last"))
            panes = ceiling_panes(all_rows, run.workload).crossJoin(last).where("window.end <= last")
        else:
            stream = run.spark.readStream.schema(COLUMNS).parquet(files)
            with tempfile.TemporaryDirectory(dir=self.folder) as home:
                writer = run.panes(stream).writeStream.format("memory").queryName("panes")
                query = writer.option("checkpointLocation", home).trigger(availableNow=True).start()
                query.awaitTermination()
            panes = run.spark.table("panes")
        found = answer_of(panes).head()
        assert found is not None
        return {name: found[name] for name in run.answer}


def line(medians: dict[int, float]) -> tuple[float, float]:
    """Milliseconds a batch, and nanoseconds a row: the line that is off by the least share of each median."""
    sizes, times = np.array(list(medians)), np.array(list(medians.values()))
    slope, batch = np.polyfit(sizes, times, 1, w=1 / times)
    return float(batch), float(slope * 1e6)


def main(all_keys: Sequence[int]) -> None:
    for keys in all_keys:
        with tempfile.TemporaryDirectory() as home:
            for size in BATCHES:
                rows.write(workload(keys, size), size * BATCHES[size], Path(home, str(size)))
            print(f"{keys:,} keys; milliseconds of a batch of", *(f"{size:,}" for size in BATCHES), "rows")
            said = set()
            for contender, title in CONTENDERS.items():
                command = [sys.executable, __file__, "--contender", contender, str(keys), home]
                done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
                found = json.loads(done.stdout.splitlines()[-1])
                medians = {int(size): ms for size, ms in found["medians"].items()}
                batch, row = line(medians)
                shown = " ".join(f"{medians[size]:,.0f}" for size in BATCHES)
                print(f"  {title}: {shown}: {batch:,.0f} ms a batch + {row:,.0f} ns a row")
                said.add(json.dumps(found["answer"]))
            if len(said) > 1:
                raise SystemExit(f"The answers differ: {sorted(said)}.")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--contender"]:
        of = Sizes(sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]))
        print(json.dumps({"medians": of.medians(), "answer": of.answer()}))
    else:
        main([int(keys) for keys in sys.argv[1:]] or [1_000, 100_000])
