"""PyFlink, in SQL: the way to write windows in which no row goes through Python. Heap state, both cores.

``pyflink_sql.py SYSTEM WORKLOAD FOLDER`` prints its figures as JSON. Flink takes files in any order, and rows
would be late, so all rows are put into one file first. The end of it closes all panes.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyflink.table import EnvironmentSettings, TableEnvironment

from systems.answers import ANSWER_SQL

ROOT = Path(__file__).parents[2]

AGGREGATES = "COUNT(*) AS n, SUM(v) AS total, MIN(v) AS least, MAX(v) AS most"


def windows(workload: dict[str, Any]) -> str:
    size = f"INTERVAL '{workload['size']}' SECOND({len(str(workload['size']))})"
    slide = f"INTERVAL '{workload['slide']}' SECOND({len(str(workload['slide']))})"
    rows, ts = "TABLE events", "DESCRIPTOR(`at`)"
    if workload["kind"] == "session":
        return f"SESSION({rows} PARTITION BY k, {ts}, {size})"
    return f"HOP({rows}, {ts}, {slide}, {size})" if workload["slide"] else f"TUMBLE({rows}, {ts}, {size})"


def in_one_file(folder: Path, home: Path) -> None:
    files = [file for file in sorted(folder.iterdir()) if not file.stem.endswith("end")]
    with pq.ParquetWriter(home / "rows.parquet", pq.read_schema(files[0])) as writer:
        for file in files:
            writer.write_table(pq.read_table(file))


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
    with env.sql_query(query).execute().collect() as result:
        rows = [tuple(row) for row in result]
    seconds = time.perf_counter() - start
    answer = {name: sum(int(row[2 + at]) for row in rows) for at, name in enumerate(("panes", "of_rows", "checksum"))}
    rows = answer["of_rows"] // (workload["size"] // (workload["slide"] or workload["size"]))
    batches = [{"rows": rows, "ms": seconds * 1000}]
    print(json.dumps({"batches": batches, "warm": 0, "whole_s": seconds, "answer": answer}))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as home:
        in_one_file(Path(sys.argv[3]), Path(home))
        main(json.loads(sys.argv[2]), Path(home))
