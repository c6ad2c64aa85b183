"""Windows in Flink SQL, row by row: each row moves the watermark before the next one is read.

Reads cases as JSON from the standard input, and writes the windows of each to the output. At the end of the input Flink
closes all windows.
"""

from __future__ import annotations

import csv
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from pyflink.table import EnvironmentSettings, TableEnvironment


def seconds(length: int) -> str:
    return f"INTERVAL '{length}' SECOND({len(str(length))})"


def windows_of(case: dict[str, Any]) -> str:
    rows, ts = "TABLE events", "DESCRIPTOR(ts)"
    match case["kind"]:
        case "session":
            return f"SESSION({rows} PARTITION BY k, {ts}, {seconds(case['gap'])})"
        case "cumulate":
            return f"CUMULATE({rows}, {ts}, {seconds(case['slide'])}, {seconds(case['size'])})"
        case "sliding":
            return f"HOP({rows}, {ts}, {seconds(case['slide'])}, {seconds(case['size'])})"
        case _:
            return f"TUMBLE({rows}, {ts}, {seconds(case['size'])})"


def windows(case: dict[str, Any], home: Path) -> list[Any]:
    with (home / "rows.csv").open("w", newline="") as file:
        csv.writer(file).writerows(case["rows"])
    env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for name, value in {
        "parallelism.default": "1",
        # Without an interval, each row that moves the watermark emits it.
        "pipeline.auto-watermark-interval": "0 ms",
        "table.local-time-zone": "UTC",
    }.items():
        env.get_config().set(name, value)
    env.execute_sql(f"""
        CREATE TABLE events (
            id BIGINT, k STRING, s BIGINT, ts AS CAST(TO_TIMESTAMP_LTZ(s, 0) AS TIMESTAMP(3)),
            WATERMARK FOR ts AS ts - {seconds(case["delay"])}
        ) WITH ('connector' = 'filesystem', 'path' = '{(home / "rows.csv").as_uri()}', 'format' = 'csv')
    """)
    at = "TIMESTAMPDIFF(SECOND, TIMESTAMP '1970-01-01 00:00:00', {0})"
    query = f"""
        SELECT k, {at.format("window_start")}, {at.format("window_end")}, COUNT(*), SUM(id), SUM(id * id)
        FROM TABLE({windows_of(case)}) GROUP BY k, window_start, window_end
    """
    with env.sql_query(query).execute().collect() as results:
        return [list(row) for row in results]


if __name__ == "__main__":
    os.environ.setdefault("PYFLINK_CLIENT_EXECUTABLE", sys.executable)
    with tempfile.TemporaryDirectory() as home:
        print(json.dumps([windows(case, Path(home)) for case in json.load(sys.stdin)]))
