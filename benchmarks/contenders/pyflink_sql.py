"""PyFlink, in SQL: the way to write windows in which no row goes through Python. Heap state, both cores.

``pyflink_sql.py CONTENDER WORKLOAD FOLDER`` prints its figures as JSON. It reads the files in their order, in one task.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from pyflink.table import EnvironmentSettings, TableEnvironment

from contenders.answers import ANSWER_SQL

ROOT = Path(__file__).parents[2]

AGGREGATES = "COUNT(*) AS n, SUM(v) AS total, MIN(v) AS least, MAX(v) AS most"


def windows(workload: dict[str, Any]) -> str:
    size = f"INTERVAL '{workload['size']}' SECOND({len(str(workload['size']))})"
    slide = f"INTERVAL '{workload['slide']}' SECOND({len(str(workload['slide']))})"
    rows, ts = "TABLE events", "DESCRIPTOR(`at`)"
    if workload["kind"] == "session":
        return f"SESSION({rows} PARTITION BY k, {ts}, {size})"
    return f"HOP({rows}, {ts}, {slide}, {size})" if workload["slide"] else f"TUMBLE({rows}, {ts}, {size})"


def main(workload: dict[str, Any], folder: Path) -> None:
    os.environ.setdefault("PYFLINK_CLIENT_EXECUTABLE", sys.executable)
    settings = EnvironmentSettings.in_streaming_mode()
    env = TableEnvironment.create(settings)
    jars = ";".join(jar.as_uri() for jar in sorted((ROOT / ".build" / "flink").glob("*.jar")))
    for name, value in {
        "pipeline.jars": jars,
        "parallelism.default": str(workload["cores"]),
        "table.local-time-zone": "UTC",
        "table.optimizer.agg-phase-strategy": "TWO_PHASE",
        "taskmanager.memory.managed.size": "512m",
        "pipeline.object-reuse": "true",
    }.items():
        env.get_config().set(name, value)
    env.execute_sql(f"""
        CREATE TABLE events (
            ts TIMESTAMP(6), k BIGINT, v BIGINT, `at` AS CAST(ts AS TIMESTAMP(3)),
            WATERMARK FOR `at` AS `at` - INTERVAL '{workload["delay"]}' SECOND
        ) WITH ('connector' = 'filesystem', 'path' = '{folder.as_uri()}', 'format' = 'parquet')
    """)
    panes = f"""
        SELECT k, window_start, window_end, window_time, {AGGREGATES}
        FROM TABLE({windows(workload)}) GROUP BY k, window_start, window_end, window_time
    """
    milliseconds = """
        TIMESTAMPDIFF(SECOND, TIMESTAMP '1970-01-01 00:00:00', {0}) * CAST(1000 AS BIGINT)
    """
    query = f"""
        SELECT window_start, window_end, {ANSWER_SQL}
        FROM (
            SELECT *, {milliseconds.format("window_start")} AS start_ms, {milliseconds.format("window_end")} AS end_ms
            FROM ({panes})
        ) GROUP BY window_start, window_end
    """
    start = time.perf_counter()
    with env.sql_query(query).execute().collect() as found:
        rows = [tuple(row) for row in found]
    seconds = time.perf_counter() - start
    print(len(rows), rows[:3], rows[-3:], file=sys.stderr)
    # The row at the end has panes of its own, which an unbounded end closes too.
    last = max((row for row in rows), key=lambda row: row[0])[0]
    answer = dict.fromkeys(("panes", "of_rows", "checksum"), 0)
    for row in rows:
        if (last - row[0]).total_seconds() < 80_000:
            continue
        for name, value in zip(answer, row[2:], strict=True):
            answer[name] += int(value)
    taken = answer["of_rows"] // (workload["size"] // (workload["slide"] or workload["size"]))
    batches = [{"rows": taken, "ms": seconds * 1000}]
    print(json.dumps({"batches": batches, "warm": 0, "whole_s": seconds, "answer": answer}))


if __name__ == "__main__":
    main(json.loads(sys.argv[2]), Path(sys.argv[3]))
