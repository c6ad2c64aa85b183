"""The time and the heap of a savepoint of very many open panes in RocksDB.

    python benchmarks/savepoint.py [MILLIONS OF PANES] [HEAP IN GB] [HEAP OF THE QUERY IN GB]

The defaults are ten million panes, 2 GB, and 6 GB for the query that opens them. This query also caches its state in
memory, in segments. A separate process writes the savepoint, from two partitions into eight. The script prints the
time, the processor time of the JVM, the peak of the heap, garbage included, the sizes of both states, and the number of
panes of a query that starts from the savepoint, which must be all.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import SparkSession

from harness.spark_session import session
from harness.workloads import CORES
from larger_state import BATCH, panes, processor_ms, start, write
from mullion import savepoint

PARTITIONS = 8


def opens(home: Path, millions: int, heap: int) -> None:
    spark = session(heap=heap)
    source = home / "in"
    source.mkdir()
    query = start(panes(spark, source, "mullion"), home / "from")
    for batch in range(millions):
        write(source, batch, np.arange(batch * BATCH, (batch + 1) * BATCH))
        query.processAllAvailable()
    query.stop()


def peak_heap(spark: SparkSession) -> int:
    """The sum of the peaks of the heap's pools, in bytes."""
    jvm: Any = spark._jvm
    pools = jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
    return sum(pool.getPeakUsage().getUsed() for pool in pools if pool.getType().name() == "HEAP")


def saves(home: Path, heap: int) -> None:
    spark = session(heap=heap)
    before, began = processor_ms(spark), time.monotonic()
    savepoint(home / "from", home / "to", partitions=PARTITIONS, spark=spark)
    took, processors = time.monotonic() - began, processor_ms(spark) - before
    size = {name: sum(f.stat().st_size for f in (home / name / "state").rglob("*") if f.is_file()) for name in FOLDERS}
    print(
        json.dumps(
            {
                "savepoint s": round(took, 1),
                "processor s": round(processors / 1000, 1),
                "peak heap MB": peak_heap(spark) >> 20,
                **{f"{name} MB": size[name] >> 20 for name in FOLDERS},
            }
        )
    )


def resumes(home: Path, heap: int) -> None:
    """A query that starts from the savepoint, with a row more of a pane that is open."""
    spark = session(heap=heap)
    query = start(panes(spark, home / "in", "mullion"), home / "to")
    write(home / "in", 900_000, np.zeros(CORES, np.int64))
    query.processAllAvailable()
    last = query.lastProgress
    query.stop()
    assert last is not None
    print(json.dumps({"panes": last["stateOperators"][0]["customMetrics"]["panesOpen"]}))


FOLDERS = ("from", "to")


def main(millions: int, heap: int, of_query: int) -> None:
    with tempfile.TemporaryDirectory() as home:

        def run(step: str, *arguments: int) -> dict[str, Any]:
            command = [sys.executable, __file__, step, home, *map(str, arguments)]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            return json.loads(done.stdout.splitlines()[-1]) if done.stdout else {}

        run("opens", millions, of_query)
        figures = run("saves", heap) | run("resumes", of_query)
        print("  ".join(f"{name} {value:,}" for name, value in figures.items()))
        if figures["panes"] != millions * BATCH:
            raise SystemExit("Not all panes are in the savepoint.")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["opens", home, count, gigabytes]:
            opens(Path(home), int(count), int(gigabytes))
        case ["saves", home, gigabytes]:
            saves(Path(home), int(gigabytes))
        case ["resumes", home, gigabytes]:
            resumes(Path(home), int(gigabytes))
        case arguments:
            numbers = [int(number) for number in arguments]
            main(*(*numbers, *(10, 2, 6)[len(numbers) :]))
