"""One checkpoint, a batch at a time, each by the Spark of another environment: it must come to what one Spark makes.

.venv-4.1/bin/python tests/support/campaigns/apart.py FOLDER   # one more batch of rows, and what it fired
.venv/bin/python tests/support/campaigns/apart.py FOLDER end   # closes all panes, and compares them
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
    # Nothing is late: what is depends on where batches without rows are.
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
    found = (json.loads(out.read_text("utf-8")) if out.exists() else []) + fired
    out.write_text(json.dumps(found), "utf-8")
    print(f"{spark.version}: {len(fired)} firings")
    if ends:
        twin = ClockedQuery(panes, checkpoint=folder / "twin")
        expected = [str(tuple(row)) for row in twin.settle()]
        twin.stop()
        assert sorted(found) == sorted(expected), f"{len(found)} firings, and {len(expected)} at once"
        print("as at once")


if __name__ == "__main__":
    main(Path(sys.argv[1]), len(sys.argv) > 2)
