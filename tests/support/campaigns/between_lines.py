"""One run of queries on the installed Spark: they begin, or resume checkpoints of another Spark version.

    python between_lines.py HOME KEYS ROWS...

Each query of ``QUERIES`` has a checkpoint and its rows in ``HOME/<query>``. Each name in ``ROWS`` adds one batch.
The script prints the closes of each query as JSON, or its error.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from mullion import IncompatibleStateError, configure
from tests.support.campaigns import kept_checkpoints as checkpoints
from tests.support.streams import Feed

QUERIES: Final = ("tumbling", "session", "together")

ROWS: Final = {"before": checkpoints.BEFORE, "after": checkpoints.AFTER, "closing": checkpoints.CLOSING}

KEYS: Final = "spark.sql.streaming.stateStore.mullion.keys"


def resume(spark: SparkSession, home: Path, rows: list[str]) -> dict[str, Any]:
    """The closes of a query in this run, and those of a batch query over all its rows."""
    feed = Feed(home / "in", checkpoints.COLUMNS)
    for batch in rows:
        feed.write(ROWS[batch])

    panes = checkpoints.QUERIES[home.name]
    try:
        closed = checkpoints.run(panes(feed.stream(spark, delay="30 seconds")), home / "checkpoint")
    except IncompatibleStateError as error:
        return {"refused": str(error)}
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {error}"}
    return {"closed": sorted(closed), "batch": sorted(checkpoints.as_json(panes(feed.batch(spark))))}


def main(home: Path, keys: str, *rows: str) -> None:
    builder = SparkSession.builder.master("local[2]").config(map={**checkpoints.SETTINGS, "spark.ui.enabled": "false"})
    if keys != "own":
        builder = builder.config(KEYS, keys)
    spark = configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    print(json.dumps({name: resume(spark, home / name, list(rows)) for name in QUERIES}))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
