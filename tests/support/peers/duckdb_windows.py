"""Windows in DuckDB. Reads cases as JSON from the standard input, and writes the windows of each to the output."""

from __future__ import annotations

import json
import sys
from typing import Any

import duckdb

ROWS = "count(*), sum(id)::BIGINT, sum(id * id)::BIGINT"
SECONDS = "epoch(w_start)::BIGINT, epoch(w_end)::BIGINT"


def query(case: dict[str, Any]) -> str:
    if case["kind"] == "session":
        gap = f"INTERVAL '{case['gap']} seconds'"
        return f"""
            WITH begun AS (
                SELECT *, (ts - lag(ts) OVER (PARTITION BY k ORDER BY ts) <= {gap}) IS NOT TRUE AS is_first FROM events
            ), numbered AS (
                SELECT *, sum(is_first::INT) OVER (PARTITION BY k ORDER BY ts RANGE UNBOUNDED PRECEDING) AS session
                FROM begun
            ), sessions AS (
                SELECT k, session, min(ts) AS w_start, max(ts) + {gap} AS w_end, {ROWS} FROM numbered
                GROUP BY k, session
            ) SELECT k, {SECONDS}, COLUMNS(* EXCLUDE (k, session, w_start, w_end)) FROM sessions
        """
    size, slide = f"INTERVAL '{case['size']} seconds'", f"INTERVAL '{case['slide']} seconds'"
    last = f"time_bucket({slide}, ts, TIMESTAMP '1970-01-01')"
    return f"""
        WITH assigned AS (
            SELECT *, unnest(generate_series({last} - {size}, {last}, INTERVAL '1 second')) AS w_start FROM events
        )
        SELECT k, epoch(w_start)::BIGINT, epoch(w_start + {size})::BIGINT, {ROWS} FROM assigned
        WHERE ts >= w_start AND ts < w_start + {size}
          AND w_start = time_bucket({slide}, w_start, TIMESTAMP '1970-01-01')
        GROUP BY k, w_start
    """


def windows(case: dict[str, Any]) -> list[Any]:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("CREATE TABLE events (id BIGINT, k VARCHAR, ts TIMESTAMP)")
    connection.executemany("INSERT INTO events VALUES (?, ?, make_timestamp(? * 1000000::BIGINT))", case["rows"])
    rows: list[Any] = connection.execute(query(case)).fetchall()
    return rows


if __name__ == "__main__":
    print(json.dumps([windows(case) for case in json.load(sys.stdin)]))
