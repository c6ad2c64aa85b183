"""As-of joins in DuckDB. Reads cases as JSON from the standard input, and writes the pairs of each to the output."""

from __future__ import annotations

import json
import sys
from typing import Any

import duckdb

# Of the two neighbours of a left row, the earlier one is the nearest if their distances are equal.
NEAREST = """
    SELECT l.id, CASE
        WHEN a.id IS NULL OR l.t - b.t <= a.t - l.t THEN b.id
        ELSE a.id
    END
    FROM lefts l
    ASOF LEFT JOIN versions b ON l.k = b.k AND l.t {after} b.t
    ASOF LEFT JOIN versions a ON l.k = a.k AND l.t {before} a.t
"""
ONE_WAY = "SELECT l.id, r.id FROM lefts l ASOF LEFT JOIN versions r ON l.k = r.k AND l.t {compares} r.t"


def query(case: dict[str, Any]) -> str:
    exact = "=" if case["allow_exact"] else ""
    match case["direction"]:
        case "nearest":
            return NEAREST.format(after=f">{exact}", before=f"<{exact}")
        case "forward":
            return ONE_WAY.format(compares=f"<{exact}")
        case _:
            return ONE_WAY.format(compares=f">{exact}")


def pairs(case: dict[str, Any]) -> list[Any]:
    """Each left row's id with the id of its match."""
    connection = duckdb.connect()
    for side in ("lefts", "rights"):
        connection.execute(f"CREATE TABLE {side} (id BIGINT, k VARCHAR, t BIGINT)")
        connection.executemany(f"INSERT INTO {side} VALUES (?, ?, ?)", case[side])
    # Ids are in order of arrival: of right rows with one key and time, the last one counts.
    connection.execute("CREATE TABLE versions AS SELECT max(id) AS id, k, t FROM rights GROUP BY k, t")
    rows: list[Any] = connection.execute(query(case)).fetchall()
    if case["tolerance"] is None:
        return rows
    times = dict(connection.execute("SELECT id, t FROM lefts UNION ALL SELECT id, t FROM rights").fetchall())
    return [
        (left, right if right is not None and abs(times[left] - times[right]) <= case["tolerance"] else None)
        for left, right in rows
    ]


if __name__ == "__main__":
    print(json.dumps([pairs(case) for case in json.load(sys.stdin)]))
