"""A faust program that is killed: its tables and what it sends are what they would have been undisturbed."""

from __future__ import annotations

import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import mullion.faust as faust
from mullion import topics
from tests.support.killing import kill_after, session_of_its_own, somewhere_in_a_batch
from tests.support.seeds import SEED

pytestmark = pytest.mark.slow


def program(broker: str, spark: SparkSession) -> faust.App:
    """An agent in the JVM that also yields, one in Python, and windows that close."""
    app = faust.App("shop", broker=broker, spark=spark)
    closed = app.topic("closed")

    def on_close(key: Any, value: Any) -> None:
        closed.send(value={"k": key[0], "start": key[1][0], "n": value})

    totals = app.Table("totals", default=int, on_window_close=on_close).hopping(20, 10, expires=30, key_index=True)
    recent = app.Table("seen", default=list)
    orders = app.topic("orders", value_type=dict)

    @app.agent(orders, sink=[app.topic("large")])
    async def add(events: Any) -> Any:
        async for e in events:
            totals[e["k"]] += e["n"]
            if totals[e["k"]].current() > 100:
                yield {"k": e["k"], "n": totals[e["k"]].current()}

    @app.agent(orders)
    async def keep(events: Any) -> None:
        async for e in events:
            recent[e["k"]] = [*recent[e["k"]], e["n"]][-3:]

    return app


def contents_of(app: faust.App) -> dict[str, Counter[str]]:
    """The contents of its tables and topics, independent of the order of shards."""
    contents = {table: Counter(map(str, app.table(table).read().collect())) for table in ("totals", "seen")}
    for topic in ("large", "closed"):
        contents[topic] = Counter(map(repr, topics.read(app.broker, topic).drop_columns(["_timestamp"]).to_pylist()))
    return contents


def test_a_program_that_is_killed_and_run_again_has_the_tables_and_messages_of_one_that_was_not(
    spark: SparkSession, tmp_path: Path
) -> None:
    rng = random.Random(SEED)
    killed, undisturbed = (program(f"dir:{tmp_path / name}", spark) for name in ("killed", "undisturbed"))
    assert {part.runs for part in killed.explain().parts} == {"JVM", "Python"}
    for number in range(6):
        rows = [{"k": f"k{rng.randrange(20)}", "n": rng.randrange(40)} for _ in range(60)]
        times = [10.0 * number + rng.random() * 20 for _ in rows]
        for app in (killed, undisturbed):
            topics.produce(app.broker, "orders", rows, timestamps=times)
    kill_after(tmp_path, somewhere_in_a_batch(killed.folder_of("agents") / "query", rng), script=__file__)
    for app in (killed, undisturbed):
        app.run(until="drained")
    expected = contents_of(undisturbed)
    assert contents_of(killed) == expected, f"MULLION_SEED={SEED}"
    assert all(rows.total() > 5 for rows in expected.values())


if __name__ == "__main__":
    home = Path(sys.argv[1])
    program(f"dir:{home / 'killed'}", session_of_its_own(home)).run(until="drained")
