"""One life of queries on the Spark that is here: they begin, or go on from what another line of Spark wrote.

    python between_lines.py HOME KEYS ROWS...

Each query of ``QUERIES`` has a checkpoint and its rows in ``HOME/<query>``. The rows named, of
``ROWS``, come as one batch each. What a query closes is printed as JSON, and for one that is refused, why.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from mullion import IncompatibleStateError, configure
from tests.support.campaigns import kept_checkpoints as kept
from tests.support.streams import Feed

QUERIES: Final = ("tumbling", "session", "together")

ROWS: Final = {"before": kept.BEFORE, "after": kept.AFTER, "closing": kept.CLOSING}

KEYS: Final = "spark.sql.streaming.stateStore.mullion.keys"


def go_on(spark: SparkSession, home: Path, rows: list[str]) -> dict[str, Any]:
    """What a query closes now, and what of all its rows a batch query does."""
    feed = Feed(home / "in", kept.COLUMNS)
    for batch in rows:
        feed.write(ROWS[batch])

    panes = kept.QUERIES[home.name]
    try:
        closed = kept.run(panes(feed.stream(spark, delay="30 seconds")), home / "checkpoint")
    except IncompatibleStateError as refused:
        return {"refused": str(refused)}
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {error}"}
    return {"closed": sorted(closed), "batch": sorted(kept.said(panes(feed.batch(spark))))}


def main(home: Path, keys: str, *rows: str) -> None:
    builder = SparkSession.builder.master("local[2]").config(map={**kept.SETTINGS, "spark.ui.enabled": "false"})
    if keys != "own":
        builder = builder.config(KEYS, keys)
    spark = configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    print(json.dumps({name: go_on(spark, home / name, list(rows)) for name in QUERIES}))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
