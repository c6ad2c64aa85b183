"""PyFlink from Kafka to Kafka, in SQL: ``kafka_pyflink.py SYSTEM SETTINGS``. Heap state, one task for each core."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from pyflink.table import EnvironmentSettings, TableEnvironment

ROOT = Path(__file__).parents[3]
CORES = 2


def main(settings: dict[str, Any]) -> None:
    os.environ.setdefault("PYFLINK_CLIENT_EXECUTABLE", sys.executable)
    env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    jars = ";".join(jar.as_uri() for jar in sorted((ROOT / ".build" / "flink").glob("*kafka*.jar")))
    for name, value in {
        "pipeline.jars": jars,
        "parallelism.default": str(CORES),
        "table.local-time-zone": "UTC",
        "pipeline.object-reuse": "true",
        "execution.checkpointing.interval": "10 s",
    }.items():
        env.get_config().set(name, value)
    connector = f"'connector' = 'kafka', 'properties.bootstrap.servers' = '{settings['servers']}'"
    env.execute_sql(f"""
        CREATE TABLE messages (
            k STRING, ts BIGINT, v BIGINT, `at` AS TO_TIMESTAMP_LTZ(ts, 3),
            WATERMARK FOR `at` AS `at` - INTERVAL '1' SECOND
        ) WITH (
            {connector}, 'topic' = '{settings["source"]}', 'scan.startup.mode' = 'earliest-offset', 'format' = 'json'
        )
    """)
    env.execute_sql(f"""
        CREATE TABLE results (k STRING, `start` BIGINT, n BIGINT, total BIGINT)
        WITH ({connector}, 'topic' = '{settings["target"]}', 'format' = 'json')
    """)
    job = env.execute_sql("""
        INSERT INTO results
        SELECT k, 1000 * UNIX_TIMESTAMP(CAST(window_start AS STRING)), COUNT(*), SUM(v)
        FROM TABLE(TUMBLE(TABLE messages, DESCRIPTOR(`at`), INTERVAL '1' SECOND))
        GROUP BY k, window_start, window_end
    """)
    sys.stdin.read()
    client = job.get_job_client()
    if client is not None:
        client.cancel().result()


if __name__ == "__main__":
    main(json.loads(sys.argv[2]))
