"""Queries that are killed: committed output stays, and other output is written and published once."""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mullion import topics
from tests.support.checked import Case, shown, shown_row
from tests.support.kafka import published
from tests.support.killing import committed, kill_after, session_of_its_own, somewhere_in_a_batch
from tests.support.models.model import Row, Rules
from tests.support.models.session_model import model_of
from tests.support.seeds import SEED
from tests.support.streams import FLOOD, Feed

pytestmark = pytest.mark.slow

COLUMNS = "k string, id bigint"

# Hours in place of other tests' seconds: no pane may fire by the wall clock, which is the system's.
HOUR = 3_600_000_000

CASES = [
    Case("sliding", Rules(10 * HOUR, 4 * HOUR, delay=HOUR, early=5 * HOUR, late="emit")),
    Case(
        "tumbling",
        Rules(6 * HOUR, 6 * HOUR, delay=HOUR, lateness=2 * HOUR, early=3 * HOUR, late="reopen"),
        aggregates="figures",
    ),
]


def run(spark: SparkSession, folder: Path) -> None:
    """Runs each query over all available rows, into files, and one that publishes. A later run resumes them."""
    stream = Feed(folder / "in", COLUMNS).stream(spark, "1 hour")
    running = [
        case.panes(stream)
        .writeStream.format("parquet")
        .option("path", str(folder / case.name))
        .option("checkpointLocation", str(folder / f"{case.name}-checkpoint"))
        .trigger(availableNow=True)
        .start()
        for case in CASES
    ]
    broker = broker_in(folder)
    running.append(published.start(spark, broker, broker.publisher(), broker.path / "_checkpoint"))
    for query in running:
        query.awaitTermination()


def broker_in(folder: Path) -> topics.DirBroker:
    return topics.DirBroker(folder / "topics")


def write(feed: Feed, rng: random.Random, batches: list[list[Row]], more: int) -> None:
    """More batches, each three hours after the previous one."""
    for number in range(len(batches), len(batches) + more):
        times = [3 * HOUR * number + rng.randrange(-12 * HOUR, 2 * HOUR) for _ in range(60)]
        rows = [Row(1000 * number + i, f"key {rng.randrange(40)}", time) for i, time in enumerate(times)]
        feed.write((row.time, row.key, row.id) for row in rows)
        batches.append(rows)


def undisturbed(case: Case, checkpoint: Path, batches: list[list[Row]]) -> Counter[str]:
    """The output of a checkpoint's batches, each once.

    The batch's offsets contain its rows and its clock, on which early firings and late rows depend: after a kill
    Spark's file source may read two files in one batch, and its file sink does not repeat a batch that it has written,
    so that the batch's times do not advance the watermark.
    """
    model, taken, fired = model_of(case.rules), 0, Counter[str]()
    for number in range(committed(checkpoint)):
        # Early firings add a source of ticks to the file source.
        _, about, *offsets = (checkpoint / "offsets" / str(number)).read_text().splitlines()
        until = max((json.loads(of)["logOffset"] for of in offsets if "logOffset" in of), default=-1) + 1
        model.clock = json.loads(about)["batchWatermarkMs"] * 1000
        rows = [row for batch in batches[taken:until] for row in batch]
        batch = model.batch(
            rows, wall=0, rows_came=until > taken, filtered_time=FLOOD if taken <= len(batches) < until else None
        )
        fired += Counter(shown(case, firing) for firing in batch.firings)
        taken = until
    assert model.open == {}, "all panes have closed"
    return fired


def test_queries_that_are_killed_repeatedly_emit_each_firing_and_publish_each_row_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    rng = random.Random(SEED)
    feed = Feed(tmp_path / "in", COLUMNS)
    batches: list[list[Row]] = []
    broker = broker_in(tmp_path)
    publishing = broker.path / "_checkpoint"

    for life, killed_in in enumerate((tmp_path / "sliding-checkpoint", publishing, tmp_path / "sliding-checkpoint")):
        # Enough batches that the query is killed before their end.
        write(feed, rng, batches, more=5)
        published.feed(broker, range(6 * life, 6 * life + 6))
        kill_after(tmp_path, somewhere_in_a_batch(killed_in, rng), __file__)
    assert committed(publishing) < 18, "it was killed before it came to the end"

    feed.flood()
    run(spark, tmp_path)
    for case in CASES:
        expected = undisturbed(case, tmp_path / f"{case.name}-checkpoint", batches)
        out = Counter(shown_row(row) for row in spark.read.parquet(str(tmp_path / case.name)).collect())
        assert out == expected, f"{case.name}, MULLION_SEED={SEED}"
        assert out.total() > 100
    published.is_whole(broker, 180)


if __name__ == "__main__":
    home = Path(sys.argv[1])
    run(session_of_its_own(home), home)
