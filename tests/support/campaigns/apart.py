"""Runs one checkpoint a batch at a time, each on another Spark version. The result must equal that of one version.

.venv-4.1/bin/python tests/support/campaigns/apart.py FOLDER   # adds a batch of rows, and prints its firings
.venv/bin/python tests/support/campaigns/apart.py FOLDER end   # closes all panes and compares them
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

from pyspark.sql import functions as F

from mullion import MullionError, Sliding, windowed
from tests.conftest import session
from tests.support.clocked import ClockedQuery
from tests.support.streams import SECOND, Feed


def main(folder: Path, ends: bool) -> None:
    spark = session()
    spark.conf.set("spark.sql.streaming.stateStore.mullion.hotBytes", "0")
    feed = Feed(folder / "in", "k string, v bigint")
    feed._written = len(list((folder / "in").glob("*.parquet")))
    chance = random.Random(feed._written)
    if ends:
        feed.flood()
    else:
        begin = 20 * feed._written
        feed.write([((begin + chance.randrange(30)) * SECOND, chance.choice("abc"), 1) for _ in range(40)])
    # No row is late, because lateness depends on the positions of batches without rows.
    window = Sliding("10 seconds", "2 seconds")
    panes = windowed(feed.stream(spark, delay="20 seconds"), window, by="k", time="ts").agg(F.sum("v").alias("v"))
    query = ClockedQuery(panes, checkpoint=folder / "checkpoint")
    try:
        fired = [str(tuple(row)) for row in query.settle()]
    except MullionError as refused:
        print(f"{spark.version}: {type(refused).__name__}: {refused}")
        return
    finally:
        query.stop()
    out = folder / "out.json"
    firings = (json.loads(out.read_text("utf-8")) if out.exists() else []) + fired
    out.write_text(json.dumps(firings), "utf-8")
    print(f"{spark.version}: {len(fired)} firings")
    if ends:
        twin = ClockedQuery(panes, checkpoint=folder / "twin")
        expected = [str(tuple(row)) for row in twin.settle()]
        twin.stop()
        assert sorted(firings) == sorted(expected), f"{len(firings)} firings, but {len(expected)} on one Spark version"
        print("as at once")


if __name__ == "__main__":
    main(Path(sys.argv[1]), len(sys.argv) > 2)
