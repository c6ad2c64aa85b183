"""Python functions over panes whose process and JVM are killed in the middle of a batch, against plain Python."""

from __future__ import annotations

import random
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from mullion import Pane, PaneProcessor, Tumbling, windowed
from tests.support.killing import committed, kill_after, session_of_its_own, somewhere_in_a_batch
from tests.support.seeds import SEED
from tests.support.streams import SECOND, Feed

pytestmark = pytest.mark.slow

COLUMNS = "k string, id bigint"
WINDOW = 10


def run(spark: SparkSession, folder: Path) -> None:
    """Runs both queries over all rows, into files; a later run continues where the earlier one ended."""

    class Counts(PaneProcessor, returns="kind string, n bigint"):
        def on_row(self, state: dict[str, int], key: Any, pane: Pane, row: dict[str, Any]) -> Any:
            state["n"] = state.get("n", 0) + 1
            return {"kind": "row", "n": row["id"]} if row["id"] % 5 == 0 else None

        def on_close(self, state: dict[str, int], key: Any, pane: Pane) -> dict[str, Any]:
            return {"kind": "close", "n": state["n"]}

    def total(key: Any, pane: Pane, rows: pd.DataFrame) -> dict[str, Any]:
        return {"kind": "total", "n": int(rows["id"].sum())}

    windows = windowed(
        Feed(folder / "in", COLUMNS).stream(spark, "1 minute"), Tumbling("10 seconds"), by="k", time="ts"
    )
    queries = {"process": windows.process(Counts()), "apply": windows.apply(total, "kind string, n bigint")}
    running = [
        panes.writeStream.format("parquet")
        .option("path", str(folder / name))
        .option("checkpointLocation", str(folder / f"{name}-checkpoint"))
        .trigger(availableNow=True)
        .start()
        for name, panes in queries.items()
    ]
    for query in running:
        query.awaitTermination()


def test_killed_queries_emit_each_result_once(spark: SparkSession, tmp_path: Path) -> None:
    rng = random.Random(SEED)
    feed = Feed(tmp_path / "in", COLUMNS)
    panes: dict[tuple[str, int], list[int]] = defaultdict(list)
    batches = 0
    for killed in ("process", "apply", "process"):
        for _ in range(5):
            rows = [
                ((3 * batches + rng.randrange(30)) * SECOND, f"key {rng.randrange(20)}", rng.randrange(10**6))
                for _ in range(50)
            ]
            for time, key, number in rows:
                panes[key, time // SECOND // WINDOW].append(number)
            feed.write(rows)
            batches += 1
        kill_after(tmp_path, somewhere_in_a_batch(tmp_path / f"{killed}-checkpoint", rng), __file__)
        assert committed(tmp_path / f"{killed}-checkpoint") < batches, "it was killed before it came to the end"
    feed.flood()
    run(spark, tmp_path)

    def results(name: str) -> Counter[tuple[Any, ...]]:
        rows = spark.read.parquet(str(tmp_path / name)).selectExpr("k", "unix_seconds(window.start)", "kind", "n")
        return Counter(map(tuple, rows.collect()))

    of_pane = [(key, number * WINDOW, ids) for (key, number), ids in panes.items()]
    assert results("apply") == Counter((key, start, "total", sum(ids)) for key, start, ids in of_pane)
    expected = Counter((key, start, "close", len(ids)) for key, start, ids in of_pane)
    expected += Counter((key, start, "row", each) for key, start, ids in of_pane for each in ids if each % 5 == 0)
    assert results("process") == expected


if __name__ == "__main__":
    home = Path(sys.argv[1])
    run(session_of_its_own(home), home)
