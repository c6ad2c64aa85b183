"""What is measured: rows as files of Parquet, one micro-batch each, and the same question asked of each side.

Times of rows are microseconds of event time; a workload's rows are the same for all sides, from a seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SECOND = 1_000_000
CORES = 2


@dataclass(frozen=True, slots=True)
class Workload:
    """A stream and a window over it.

    ``batch_us`` is how much event time a batch spans; ``delay`` the watermark's delay; ``warm`` the number of first
    batches that no median counts. With ``idle`` the first batch holds all the rows, in panes that stay open, and every
    later one holds a single row that makes one small pane close in the batch without rows that follows: what that batch
    takes is what is measured. Both sides run ``rounds`` times, in turns, for machines have slow minutes.
    """

    name: str
    size: str
    slide: str | None
    keys: int
    rows: int
    batches: int
    batch_us: int
    delay: str = "5 seconds"
    warm: int = 2
    idle: bool = False
    rounds: int = 1


TUMBLING = Workload(
    "tumbling 10 s, 100k keys", "10 seconds", None, 100_000, 1_000_000, 12, 10 * SECOND, warm=5, rounds=2
)
SLIDING = Workload("sliding 60 s / 1 s, 1k keys", "60 seconds", "1 second", 1_000, 1_000_000, 12, 100 * SECOND, warm=8)
IDLE = Workload(
    "a batch without rows, 1M open panes", "10 seconds", None, 1_000_000, 1_000_000, 8, 10 * SECOND, "1 hour", 2, True
)
ALL = (TUMBLING, SLIDING, IDLE)


def write(workload: Workload, folder: Path) -> None:
    """Writes the batches of a workload as Parquet files, named by their order."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(7)
    base = 1_700_000_000 * SECOND
    for batch in range(workload.batches):
        if workload.idle and batch > 0:
            rows = 1
            keys = np.array([-1])
            times = np.array([base + batch * workload.batch_us])
        elif workload.idle:
            # The panes of key -1 are an hour back: with each later row one of them falls due.
            rows = workload.rows + workload.batches
            keys = np.concatenate([np.arange(workload.rows) % workload.keys, np.full(workload.batches, -1)])
            old = base - 3600 * SECOND + np.arange(workload.batches) * workload.batch_us
            times = np.concatenate([np.full(workload.rows, base), old])
        else:
            rows = workload.rows
            keys = random.integers(0, workload.keys, rows)
            times = base + batch * workload.batch_us + np.sort(random.integers(0, workload.batch_us, rows))
            # Out of order by up to two seconds: within the delay, so that both sides keep every row.
            times = times - random.integers(0, 2 * SECOND, rows)
        table = pa.table(
            {
                "ts": pa.array(times, pa.timestamp("us", "UTC")),
                "k": pa.array(keys, pa.int64()),
                "v": pa.array(random.integers(0, 1000, rows), pa.int64()),
            }
        )
        # A row group for each core, so that the scan is not what limits.
        pq.write_table(table, folder / f"{batch:04}.parquet", row_group_size=max(1, rows // CORES))
