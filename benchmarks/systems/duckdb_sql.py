"""DuckDB in memory, the upper bound for one machine and the judge of answers: all panes from all rows at once, in SQL.

``duckdb_sql.py SYSTEM WORKLOAD FOLDER`` prints its figures as JSON.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import duckdb

from systems.answers import ANSWER_SQL

AGGREGATES = "count(*) AS n, sum(v)::BIGINT AS total, min(v) AS least, max(v) AS most"
AGAIN = "sum(n)::BIGINT AS n, sum(total)::BIGINT AS total, min(least) AS least, max(most) AS most"


def panes_sql(workload: dict[str, Any], rows: str) -> str:
    size = workload["size"] * 1_000_000
    if workload["kind"] == "tumbling":
        return f"""
            SELECT k, slot * {size} // 1000 AS start_ms, (slot + 1) * {size} // 1000 AS end_ms, n, total, least, most
            FROM (SELECT k, epoch_us(ts) // {size} AS slot, {AGGREGATES} FROM {rows} GROUP BY ALL)
        """
    if workload["kind"] == "sliding":
        # Aggregates slices, then the slices of each window.
        slide = workload["slide"] * 1_000_000
        return f"""
            SELECT k, slot * {slide} // 1000 AS start_ms, (slot * {slide} + {size}) // 1000 AS end_ms, {AGAIN}
            FROM (
                SELECT k, slice - unnest(range({size // slide})) AS slot, n, total, least, most
                FROM (SELECT k, epoch_us(ts) // {slide} AS slice, {AGGREGATES} FROM {rows} GROUP BY ALL)
            ) GROUP BY k, slot
        """
    return f"""
        SELECT k, min(ts) // 1000 AS start_ms, (max(ts) + {size}) // 1000 AS end_ms, {AGGREGATES}
        FROM (
            SELECT k, ts, v, sum(begins) OVER (PARTITION BY k ORDER BY ts ROWS UNBOUNDED PRECEDING) AS session
            FROM (
                SELECT k, epoch_us(ts) AS ts, v,
                    CASE WHEN epoch_us(ts) - lag(epoch_us(ts)) OVER (PARTITION BY k ORDER BY ts) <= {size}
                    THEN 0 ELSE 1 END AS begins
                FROM {rows}
            )
        ) GROUP BY k, session
    """


def main(workload: dict[str, Any], folder: Path) -> None:
    files = [str(file) for file in sorted(folder.iterdir()) if not file.stem.endswith("end")]
    database = duckdb.connect(":memory:", config={"threads": workload["cores"]})
    database.execute("SET TimeZone = 'UTC'")
    sql = f"SELECT {ANSWER_SQL} FROM ({panes_sql(workload, f'read_parquet({files})')})"
    rows = database.execute(f"SELECT count(*) FROM read_parquet({files})").fetchone()
    runs: list[float] = []
    while len(runs) < 3 and sum(runs) < 5:
        start = time.perf_counter()
        result = database.execute(sql).fetchone()
        runs.append(time.perf_counter() - start)
    assert result is not None
    assert rows is not None
    answer = dict(zip(("panes", "of_rows", "checksum"), map(int, result), strict=True))
    batches = [{"rows": rows[0], "ms": seconds * 1000} for seconds in runs]
    print(json.dumps({"batches": batches, "warm": 0, "whole_s": min(runs), "answer": answer}))


if __name__ == "__main__":
    main(json.loads(sys.argv[2]), Path(sys.argv[3]))
